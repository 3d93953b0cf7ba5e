//! Where two descriptions of a table differ, and whether that matters for what is in it. A decider.
//!
//! What a row consists of is its layout: kind, dim, the arrays of a dense table, the rule (not its numbers), and whether
//! there is an accessor, or an age at which rows go (not which one). Everything else are settings, which can change while rows stay as they are.

use serde_json::{Map, Value};

use crate::table::spec::TableSpec;

const LAYOUT: [&str; 7] =
    ["kind", "dim", "arrays", "optimizer.rule", "accessor", "accessor.embed_optimizer.rule", "expire"];

struct Difference {
    place: String,
    old: String,
    new: String,
}

impl Difference {
    fn line(&self) -> String {
        format!("{}: {} in the file, {} in the table", self.place, self.old, self.new)
    }

    fn is_layout(&self) -> bool {
        LAYOUT.contains(&self.place.as_str())
    }
}

/// One line each: `optimizer.beta1: 0.9 in the file, 0.8 in the table`. Empty if they are equal.
pub fn differences(file: &TableSpec, table: &TableSpec) -> Vec<String> {
    compared(file, table).iter().map(Difference::line).collect()
}

/// Those because of which rows of the one can't be rows of the other, as `differences` has them.
pub fn layout_differences(file: &TableSpec, table: &TableSpec) -> Vec<String> {
    compared(file, table).iter().filter(|each| each.is_layout()).map(Difference::line).collect()
}

/// What changes in a table that gets other settings: `table words: optimizer.learning_rate 0.1 -> 0.05`. `None` if nothing.
pub fn change(name: &str, old: &TableSpec, new: &TableSpec) -> Option<String> {
    let changes: Vec<String> =
        compared(old, new).iter().map(|each| format!("{} {} -> {}", each.place, each.old, each.new)).collect();
    (!changes.is_empty()).then(|| format!("table {name}: {}", changes.join(", ")))
}

fn compared(old: &TableSpec, new: &TableSpec) -> Vec<Difference> {
    let mut found = Vec::new();
    if old != new {
        compare("", &plain(old), &plain(new), &mut found);
    }
    found
}

/// By way of text, because a float32 is then written with as few digits as a person would write.
fn plain(spec: &TableSpec) -> Value {
    serde_json::to_string(spec).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

fn compare(place: &str, old: &Value, new: &Value, found: &mut Vec<Difference>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let below = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                let side = |object: &Map<String, Value>| object.get(name).cloned().unwrap_or(Value::Null);
                compare(&below, &side(old), &side(new), found);
            }
        }
        _ if old == new => {}
        _ => found.push(Difference { place: place.to_owned(), old: words(old), new: words(new) }),
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(dim: usize, rate: f32, entry: &str) -> TableSpec {
        let text = format!(
            r#"{{"kind": "sparse", "dim": {dim}, "seed": 1, "init": {{"kind": "constant", "value": 0}},
            "optimizer": {{"rule": "sgd", "learning_rate": {rate}}}, "entry": {entry}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn settings_are_told_from_the_layout() {
        let always = r#"{"by": "always"}"#;
        let old = spec(4, 0.1, always);
        assert_eq!(change("t", &old, &old), None);
        let other = spec(4, 0.05, r#"{"by": "count", "count": 3}"#);
        assert!(layout_differences(&old, &other).is_empty());
        let line = "table t: entry.by always -> count, entry.count nothing -> 3, optimizer.learning_rate 0.1 -> 0.05";
        assert_eq!(change("t", &old, &other).unwrap(), line);
        assert_eq!(layout_differences(&old, &spec(8, 0.05, always)), ["dim: 4 in the file, 8 in the table"]);
    }
}
