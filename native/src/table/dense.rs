//! A dense table: named arrays laid end to end, cut into one chunk per virtual shard, of which a server owns some.
//!
//! A chunk is to its rule what a row is in a sparse table. Chunks are shared with a frozen moment, and their values with
//! those to whom they are being sent, until they change: neither costs anything, and a push meanwhile copies each chunk once.

use std::ops::Range;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Value, json};

use crate::keys::Sharding;
use crate::poison::Unpoisoned;
use crate::table::kernels::{self, Job, Shape};
use crate::table::rules::Rule;
use crate::table::spec::DenseSpec;

pub struct DenseTable {
    spec: DenseSpec,
    owned: Range<usize>,
    /// Elements of a chunk; the last chunks may have fewer, or none.
    chunk: usize,
    /// Shared with tables that `with_spec` has made of this one.
    inner: Arc<RwLock<Inner>>,
}

struct Inner {
    rule: Rule,
    is_set: bool,
    chunks: Vec<Chunk>,
    frozen: Option<Vec<Chunk>>,
}

#[derive(Clone)]
struct Chunk {
    values: Values,
    state: Arc<Vec<f32>>,
}

/// Values of some elements, as they were at a moment.
pub type Values = Arc<Vec<f32>>;

impl DenseTable {
    /// The chunks of the virtual shards `owned`, not set yet.
    pub fn new(spec: DenseSpec, sharding: Sharding, owned: Range<usize>) -> Result<Self, String> {
        spec.check()?;
        if owned.start > owned.end || owned.end > sharding.count() {
            return Err(format!("shards {owned:?} of {}", sharding.count()));
        }
        let chunk = spec.elements().div_ceil(sharding.count()).next_multiple_of(16);
        let chunks = owned
            .clone()
            .map(|shard| {
                let length = range_of(shard, chunk, spec.elements()).len();
                let mut state = vec![0.0; spec.optimizer.state_width(length)];
                spec.optimizer.fill_state(&mut state);
                Chunk { values: Arc::new(vec![0.0; length]), state: Arc::new(state) }
            })
            .collect();
        let inner = Inner { rule: Rule::new(spec.optimizer), is_set: false, chunks, frozen: None };
        Ok(Self { spec, owned, chunk, inner: Arc::new(RwLock::new(inner)) })
    }

    /// The same arrays under other settings of the same layout. This one is not to be used any more.
    pub fn with_spec(&self, spec: DenseSpec) -> Result<Self, String> {
        spec.check()?;
        self.write().rule.adopt(spec.optimizer);
        Ok(Self { spec, owned: self.owned.clone(), chunk: self.chunk, inner: self.inner.clone() })
    }

    pub fn spec(&self) -> &DenseSpec {
        &self.spec
    }

    /// The elements that are here, of all arrays laid end to end.
    pub fn range(&self) -> Range<usize> {
        let elements = self.spec.elements();
        (self.owned.start * self.chunk).min(elements)..(self.owned.end * self.chunk).min(elements)
    }

    /// Bytes of what is kept here: values and state.
    pub fn bytes(&self) -> usize {
        self.read().chunks.iter().map(|chunk| size_of_val(&chunk.values[..]) + size_of_val(&chunk.state[..])).sum()
    }

    /// The values that are here, copied.
    pub fn pull(&self, out: &mut [f32]) -> Result<(), String> {
        self.fits(out.len())?;
        let mut rest = out;
        for values in self.values().ok_or("the table has no values yet: they must be set first")? {
            let (here, after) = rest.split_at_mut(values.len());
            here.copy_from_slice(&values);
            rest = after;
        }
        Ok(())
    }

    /// All values that are here, as they are at this moment, end to end. `None` if they were not set.
    pub fn values(&self) -> Option<Vec<Values>> {
        let inner = self.read();
        inner.is_set.then(|| inner.chunks.iter().map(|chunk| chunk.values.clone()).collect())
    }

    /// One optimizer step.
    pub fn push(&self, gradients: &[f32]) -> Result<(), String> {
        self.fits(gradients.len())?;
        self.push_chunks(|range| gradients[range].as_ptr());
        Ok(())
    }

    /// One optimizer step with the sum of several gradients, added up in float32 in this order.
    pub fn push_summed(&self, parts: &[&[f32]]) -> Result<(), String> {
        parts.iter().try_for_each(|part| self.fits(part.len()))?;
        match parts {
            [] => Err("no gradients to add up".into()),
            [part] => self.push(part),
            [first, rest @ ..] => {
                let mut sum = Vec::new();
                self.push_chunks(|range| {
                    // One chunk at a time, which the fastest memory holds until it is applied.
                    sum.clear();
                    sum.extend_from_slice(&first[range.clone()]);
                    for part in rest {
                        sum.iter_mut().zip(&part[range.clone()]).for_each(|(sum, more)| *sum += more);
                    }
                    sum.as_ptr()
                });
                Ok(())
            }
        }
    }

    /// One optimizer step. `gradients` says where those of a range of elements are, until it is asked for the next one.
    fn push_chunks(&self, mut gradients: impl FnMut(Range<usize>) -> *const f32) {
        let inner = &mut *self.write();
        let step = inner.rule.step();
        let rate = inner.rule.learning_rate();
        let mut start = 0;
        for chunk in inner.chunks.iter_mut().filter(|chunk| !chunk.values.is_empty()) {
            let range = start..start + chunk.values.len();
            start = range.end;
            let shape = Shape {
                dim: range.len(),
                state_width: chunk.state.len(),
                clip: self.spec.clip,
                decay: self.spec.decay,
                rate,
            };
            let (weights, state) = (Arc::make_mut(&mut chunk.values), Arc::make_mut(&mut chunk.state));
            let (weights, state) = (weights.as_mut_ptr(), state.as_mut_ptr());
            let job = Job { weights, state, gradient: gradients(range) };
            // SAFETY: the pointers come from vectors of these lengths, of which the first two are borrowed mutably, and
            // the callers' gradients are as long as the range.
            unsafe { kernels::apply(&step, &shape, &[job]) };
        }
    }

    /// Overwrites the values; their state stays. `only_if_unset`: leaves values alone that were set before. Returns
    /// whether they are these now.
    pub fn set(&self, values: &[f32], only_if_unset: bool) -> Result<bool, String> {
        self.fits(values.len())?;
        let inner = &mut *self.write();
        if only_if_unset && inner.is_set {
            return Ok(false);
        }
        let mut rest = values;
        for chunk in &mut inner.chunks {
            let (here, after) = rest.split_at(chunk.values.len());
            rest = after;
            if !here.is_empty() {
                Arc::make_mut(&mut chunk.values).copy_from_slice(here);
            }
        }
        inner.is_set = true;
        Ok(true)
    }

    pub fn is_set(&self) -> bool {
        self.read().is_set
    }

    pub fn learning_rate(&self) -> f32 {
        self.read().rule.learning_rate()
    }

    pub fn set_learning_rate(&self, rate: f32) -> Result<(), String> {
        self.write().rule.set_learning_rate(rate)
    }

    /// What belongs to the table and not to an element.
    pub fn state(&self) -> Value {
        let inner = self.read();
        json!({"main": inner.rule.state(), "is_set": inner.is_set})
    }

    pub fn restore(&self, state: &Value) -> Result<(), String> {
        let is_set = state["is_set"].as_bool().ok_or_else(|| format!("not the state of a dense table: {state}"))?;
        let inner = &mut *self.write();
        inner.rule.restore(&state["main"])?;
        inner.is_set = is_set;
        Ok(())
    }

    /// Marks this moment, to be read by `chunk` while pushes go on.
    pub fn freeze(&self) -> Result<(), String> {
        let inner = &mut *self.write();
        if inner.frozen.is_some() {
            return Err("the table is being saved already".into());
        }
        inner.frozen = Some(inner.chunks.clone());
        Ok(())
    }

    /// The chunk of a virtual shard at the frozen moment: the offset of its first element, values and state. `None` if
    /// it is empty or not here, or if nothing is frozen.
    pub fn chunk(&self, shard: usize) -> Option<(usize, Vec<f32>, Vec<f32>)> {
        let number = shard.checked_sub(self.owned.start)?;
        let chunk = self.read().frozen.as_ref()?.get(number)?.clone();
        let range = range_of(shard, self.chunk, self.spec.elements());
        (!range.is_empty()).then(|| (range.start, chunk.values.to_vec(), chunk.state.to_vec()))
    }

    pub fn thaw(&self) {
        self.write().frozen = None;
    }

    /// Takes a saved chunk in.
    pub fn load_chunk(&self, offset: usize, values: &[f32], state: &[f32]) -> Result<(), String> {
        let shard = offset / self.chunk;
        let range = range_of(shard, self.chunk, self.spec.elements());
        let here = self.owned.contains(&shard) && range.start == offset && range.len() == values.len();
        if !here || self.spec.optimizer.state_width(values.len()) != state.len() {
            return Err(format!(
                "a saved chunk that does not belong here: {} elements at {offset} with {} of state",
                values.len(),
                state.len()
            ));
        }
        let inner = &mut *self.write();
        let (values, state) = (Arc::new(values.to_vec()), Arc::new(state.to_vec()));
        inner.chunks[shard - self.owned.start] = Chunk { values, state };
        Ok(())
    }

    fn fits(&self, length: usize) -> Result<(), String> {
        let expected = self.range().len();
        if length == expected { Ok(()) } else { Err(format!("{length} numbers for {expected} elements")) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unpoisoned()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unpoisoned()
    }
}

fn range_of(shard: usize, chunk: usize, elements: usize) -> Range<usize> {
    (shard * chunk).min(elements)..((shard + 1) * chunk).min(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_being_sent_stay_as_they_were() {
        let arrays = r#"[{"name": "w", "shape": [100]}]"#;
        let text = format!(r#"{{"arrays": {arrays}, "optimizer": {{"rule": "sgd", "learning_rate": 1.0}}}}"#);
        let spec: DenseSpec = serde_json::from_str(&text).unwrap();
        let table = DenseTable::new(spec, Sharding::new(4).unwrap(), 0..4).unwrap();
        assert!(table.values().is_none(), "nobody has set them");
        let start: Vec<f32> = (0..100).map(|n| n as f32).collect();
        table.set(&start, false).unwrap();
        let sent = table.values().unwrap();
        table.freeze().unwrap();
        table.push(&[1.0; 100]).unwrap();
        assert_eq!(sent.iter().flat_map(|part| part.to_vec()).collect::<Vec<f32>>(), start);
        let frozen: Vec<f32> =
            (0..4).filter_map(|shard| table.chunk(shard)).flat_map(|(_, values, _)| values).collect();
        assert_eq!(frozen, start);
        table.thaw();
        let mut now = vec![0.0; 100];
        table.pull(&mut now).unwrap();
        assert!(now.iter().zip(&start).all(|(now, start)| now < start));
        drop(sent);
        let before = table.values().unwrap()[0].as_ptr();
        table.push(&[1.0; 100]).unwrap();
        // Nobody has them any more: nothing is copied.
        assert_eq!(table.values().unwrap()[0].as_ptr(), before);
    }
}
