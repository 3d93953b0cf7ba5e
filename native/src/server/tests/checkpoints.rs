//! Checkpoints that a trainer asks for.

use super::*;
use crate::table::Table;

#[test]
fn a_checkpoint_is_loaded_with_the_settings_of_who_loads_it() {
    let place = Place::new();
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let counted = |count: u32| {
        RATED.replace(r#""seed": 1"#, &format!(r#""seed": 1, "entry": {{"by": "count", "count": {count}}}"#))
    };
    let table = one.json(Op::Create, &counted(3)).unwrap().ok.unwrap().0;
    (1..=3).for_each(|seq| assert_eq!(one.push(table, seq, &[7], 1.0), seq));
    (4..=5).for_each(|seq| assert_eq!(one.push(table, seq, &[8], 1.0), seq));
    let path = place.0.join("saved");
    one.json(Op::Save, &json!({"path": path}).to_string()).unwrap();
    let load = json!({"path": path}).to_string();
    // With nobody's description before it, it is as it was saved, until somebody describes it.
    let engine = open(1, None);
    let other = trainer(&engine, 0, 1);
    other.json(Op::Load, &load).unwrap();
    assert!(other.json(Op::Create, &counted(3)).unwrap().ok.is_some());
    for (text, changes, after) in [
        (counted(3), json!([]), -0.5),
        (counted(2), json!(["table words: entry.count 3 -> 2"]), -0.5),
        (RATED.to_owned(), json!(["table words: entry.by count -> always, entry.count 3 -> nothing"]), -0.5),
        (
            counted(3).replace("\"learning_rate\": 0.5", "\"learning_rate\": 2"),
            json!(["table words: optimizer.learning_rate 0.5 -> 2.0"]),
            -2.0,
        ),
    ] {
        let engine = open(1, None);
        let other = trainer(&engine, 0, 1);
        assert_eq!(other.json(Op::Create, &text).unwrap().ok.unwrap().0, table);
        let told = other.json(Op::Load, &load).unwrap().json.unwrap();
        assert_eq!(told["changes"], changes);
        assert_eq!(other.pull(table, &[7]), [-0.5, -0.5]);
        // The third push of a key that waits, or the first one of a table in which none does.
        assert_eq!(other.push(table, 1, &[8], 1.0), 1);
        assert_eq!(other.pull(table, &[8]), [after, after]);
        other
            .json(Op::Save, &json!({"path": place.0.join(format!("{after}{changes}").replace('/', "_"))}).to_string())
            .unwrap();
    }
}

#[test]
fn a_checkpoint_is_one_step_and_loads_into_other_servers() {
    let place = Place::new();
    let engine = open(1, None);
    let one = trainer(&engine, 0, 1);
    let table = one.sgd();
    let keys: Vec<u64> = (0..100).collect();
    one.step(table, 0, &keys, 1.0);
    let path = place.0.join("saved");
    let request = json!({"path": path, "mode": "all", "step": 1}).to_string();
    let answer = one.json(Op::Save, &request).unwrap().json.unwrap();
    assert_eq!((answer["step"].as_u64(), answer["files"].as_array().unwrap().len()), (Some(1), 1));
    one.step(table, 1, &keys, 1.0);
    assert_eq!(one.json(Op::Save, &request).err().unwrap().code, "step-past");
    let load = json!({"path": path, "step": 1}).to_string();
    one.json(Op::Load, &load).unwrap();
    assert_eq!(one.pull(table, &[5]), [-1.0, -1.0]);
    assert_eq!(trainer(&engine, 0, 1).welcome["next"], 1);
    for server in 0..2 {
        let mut settings = config(1, None);
        (settings.server, settings.servers) = (server, 2);
        let half = Engine::open(settings).unwrap();
        let other = trainer(&half, 0, 1);
        other.json(Op::Load, &load).unwrap();
        let is_own = |key: &u64| half.tables.owned().contains(&half.tables.shard_of(*key));
        let own: Vec<u64> = keys.iter().copied().filter(is_own).collect();
        let entry = half.tables.registry().by_name("words").unwrap().number;
        assert_eq!(other.pull(entry, &own), vec![-1.0; own.len() * 2]);
    }
    std::fs::remove_file(path.join("shard-00000.umiak")).unwrap();
    let now = trainer(&engine, 0, 1);
    assert_eq!(now.json(Op::Load, &load).err().unwrap().code, "load-failed");
    assert_eq!(now.pull(table, &[5]), [-1.0, -1.0], "nothing was changed");
}

#[test]
fn servers_take_their_own_rows_out_of_files_that_hold_those_of_others_too() {
    let place = Place::new();
    let path = place.0.join("saved");
    let keys: Vec<u64> = (0..200).collect();
    for server in 0..2 {
        let mut settings = config(1, None);
        (settings.server, settings.servers) = (server, 2);
        let half = Engine::open(settings).unwrap();
        let one = trainer(&half, 0, 1);
        let table = one.sgd();
        let own: Vec<u64> =
            keys.iter().copied().filter(|key| half.tables.owned().contains(&half.tables.shard_of(*key))).collect();
        one.step(table, 0, &own, 1.0);
        one.json(Op::Save, &json!({"path": path, "mode": "all", "step": 1}).to_string()).unwrap();
    }
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2);
    for (server, servers) in [(0, 1), (0, 3), (1, 3), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)] {
        let mut settings = config(1, None);
        (settings.server, settings.servers) = (server, servers);
        let part = Engine::open(settings).unwrap();
        let other = trainer(&part, 0, 1);
        other.json(Op::Load, &json!({"path": path, "step": 1}).to_string()).unwrap();
        let own = keys.iter().filter(|key| part.tables.owned().contains(&part.tables.shard_of(**key))).count();
        let registry = part.tables.registry();
        let entry = registry.by_name("words").unwrap();
        let Table::Sparse(table) = &entry.table else { panic!("words is a sparse table") };
        assert_eq!(table.len(), own as u64, "server {server} of {servers}");
    }
}
