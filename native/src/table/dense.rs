//! A dense table: named arrays laid end to end, cut into one chunk per virtual shard, of which a server owns some.
//!
//! A chunk is to its rule what a row is in a sparse table. Chunks are shared with a frozen moment, and their values with
//! those to whom they are being sent, until they change: neither costs anything, and a push meanwhile copies each chunk once.
//!
//! An array without a gradient in a push (`absent`) stays as it is. Then, and for good where it counts its pushes itself
//! (`progress`), a chunk that it shares with others is applied in parts.

use std::ops::Range;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Value, json};

use crate::keys::Sharding;
use crate::poison::Unpoisoned;
use crate::table::absent::{self, Kind};
use crate::table::kernels::{self, Job, Shape};
use crate::table::progress::{Progress, Run};
use crate::table::rules::{Rule, Step};
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
    progress: Progress,
    chunks: Vec<Chunk>,
    frozen: Option<Frozen>,
}

struct Frozen {
    chunks: Vec<Chunk>,
    progress: Progress,
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
        let elements = spec.elements();
        let here = (owned.start * chunk).min(elements)..(owned.end * chunk).min(elements);
        let progress = Progress::new(&spec, &here);
        let inner = Inner { rule: Rule::new(spec.optimizer), is_set: false, progress, chunks, frozen: None };
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
        self.push_summed(&[gradients])
    }

    /// One optimizer step with the sum of several gradients, added up in float32 in this order. Where an array has no
    /// gradient in one of them, that one counts nothing; where it has one in none, the array stays as it is.
    pub fn push_summed(&self, parts: &[&[f32]]) -> Result<(), String> {
        parts.iter().try_for_each(|part| self.fits(part.len()))?;
        if parts.is_empty() {
            return Err("no gradients to add up".into());
        }
        let inner = &mut *self.write();
        let runs = inner.progress.begin(&mut inner.rule, parts);
        let rate = inner.rule.learning_rate();
        let mut sum = Sum::default();
        let (mut start, mut first) = (0, 0);
        for chunk in inner.chunks.iter_mut().filter(|chunk| !chunk.values.is_empty()) {
            let range = start..start + chunk.values.len();
            start = range.end;
            first += runs[first..].iter().take_while(|run| run.place.end <= range.start).count();
            let behind = first + runs[first..].iter().take_while(|run| run.place.start < range.end).count();
            match &runs[first..behind] {
                runs if runs.iter().all(|run| run.step.is_none()) => {}
                [Run { step: Some(step), has_marks, .. }] => {
                    let gradient = sum.of(parts, &range, *has_marks).as_ptr();
                    let shape = self.shape(range.len(), chunk.state.len(), rate);
                    let (weights, state) = (Arc::make_mut(&mut chunk.values), Arc::make_mut(&mut chunk.state));
                    let job = Job { weights: weights.as_mut_ptr(), state: state.as_mut_ptr(), gradient };
                    // SAFETY: the pointers come from vectors of these lengths, of which the first two are borrowed
                    // mutably, and the gradient is as long as the range.
                    unsafe { kernels::apply(step, &shape, &[job]) };
                }
                runs => {
                    self.apply_runs(chunk, runs, &range, rate, &mut |range, marks| sum.of(parts, range, marks).to_vec())
                }
            }
        }
        Ok(())
    }

    /// A chunk whose elements are not treated alike.
    fn apply_runs(
        &self,
        chunk: &mut Chunk,
        runs: &[Run],
        range: &Range<usize>,
        rate: f32,
        gradients: &mut dyn FnMut(&Range<usize>, bool) -> Vec<f32>,
    ) {
        let (weights, state) = (Arc::make_mut(&mut chunk.values), Arc::make_mut(&mut chunk.state));
        let clamped = |run: &Run| run.place.start.max(range.start)..run.place.end.min(range.end);
        if self.spec.optimizer.has_row_state() {
            // What is kept for the chunk as a whole sees zeros where there is no gradient.
            let before = weights.clone();
            let mut whole = vec![0.0; range.len()];
            let mut common = None;
            for (run, step) in runs.iter().filter_map(|run| run.step.map(|step| (run, step))) {
                let part = clamped(run);
                whole[part.start - range.start..part.end - range.start]
                    .copy_from_slice(&gradients(&part, run.has_marks));
                common = Some(step);
            }
            let Some(step) = common else { return };
            self.apply_part(&step, weights, state, &whole, rate);
            for run in runs.iter().filter(|run| run.step.is_none()) {
                let part = clamped(run);
                let part = part.start - range.start..part.end - range.start;
                weights[part.clone()].copy_from_slice(&before[part]);
            }
            return;
        }
        let blocks = state.len() / range.len();
        let mut own = Vec::new();
        for (run, step) in runs.iter().filter_map(|run| run.step.map(|step| (run, step))) {
            let part = clamped(run);
            let gradient = gradients(&part, run.has_marks);
            let part = part.start - range.start..part.end - range.start;
            let place = |block: usize| block * range.len() + part.start..block * range.len() + part.end;
            own.clear();
            (0..blocks).for_each(|block| own.extend_from_slice(&state[place(block)]));
            self.apply_part(&step, &mut weights[part.clone()], &mut own, &gradient, rate);
            for (block, numbers) in own.chunks_exact(part.len()).enumerate() {
                state[place(block)].copy_from_slice(numbers);
            }
        }
    }

    fn apply_part(&self, step: &Step, weights: &mut [f32], state: &mut [f32], gradient: &[f32], rate: f32) {
        let shape = self.shape(weights.len(), state.len(), rate);
        let job = Job { weights: weights.as_mut_ptr(), state: state.as_mut_ptr(), gradient: gradient.as_ptr() };
        debug_assert_eq!(weights.len(), gradient.len());
        // SAFETY: the pointers come from slices of these lengths, of which the first two are borrowed mutably.
        unsafe { kernels::apply(step, &shape, &[job]) };
    }

    fn shape(&self, dim: usize, state_width: usize, rate: f32) -> Shape {
        Shape { dim, state_width, clip: self.spec.clip, decay: self.spec.decay, rate }
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
        json!({"main": inner.rule.state(), "is_set": inner.is_set, "has_learned": inner.progress.has_learned})
    }

    pub fn restore(&self, state: &Value) -> Result<(), String> {
        let is_set = state["is_set"].as_bool().ok_or_else(|| format!("not the state of a dense table: {state}"))?;
        let inner = &mut *self.write();
        inner.rule.restore(&state["main"])?;
        inner.is_set = is_set;
        // Where nobody has noted it, everything has had gradients, of zeros if nothing else.
        inner.progress.has_learned = state["has_learned"].as_bool().unwrap_or(is_set);
        Ok(())
    }

    /// Marks this moment, to be read by `chunk` while pushes go on.
    pub fn freeze(&self) -> Result<(), String> {
        let inner = &mut *self.write();
        if inner.frozen.is_some() {
            return Err("the table is being saved already".into());
        }
        inner.frozen = Some(Frozen { chunks: inner.chunks.clone(), progress: inner.progress.clone() });
        Ok(())
    }

    /// The chunk of a virtual shard at the frozen moment: the offset of its first element, values and state, behind which
    /// stands what its arrays count for themselves. `None` if it is empty or not here, or if nothing is frozen.
    pub fn chunk(&self, shard: usize) -> Option<(usize, Vec<f32>, Vec<f32>)> {
        let number = shard.checked_sub(self.owned.start)?;
        let range = range_of(shard, self.chunk, self.spec.elements());
        let inner = self.read();
        let frozen = inner.frozen.as_ref()?;
        let chunk = frozen.chunks.get(number)?.clone();
        let counted = frozen.progress.saved(&self.here(&range));
        drop(inner);
        let state = chunk.state.iter().chain(&counted).copied().collect();
        (!range.is_empty()).then(|| (range.start, chunk.values.to_vec(), state))
    }

    pub fn thaw(&self) {
        self.write().frozen = None;
    }

    /// The virtual shard of the chunk that begins with this element.
    pub fn shard_at(&self, offset: usize) -> usize {
        offset / self.chunk
    }

    /// Takes a saved chunk in.
    pub fn load_chunk(&self, offset: usize, values: &[f32], state: &[f32]) -> Result<(), String> {
        let shard = self.shard_at(offset);
        let range = range_of(shard, self.chunk, self.spec.elements());
        let is_here = self.owned.contains(&shard) && range.start == offset && range.len() == values.len();
        let inner = &mut *self.write();
        let counted = state.split_at_checked(self.spec.optimizer.state_width(values.len()));
        let loaded =
            counted.filter(|_| is_here).and_then(|(_, counted)| inner.progress.load(&self.here(&range), counted));
        let (Some((state, _)), Some(())) = (counted, loaded) else {
            return Err(format!(
                "a saved chunk that does not belong here: {} elements at {offset} with {} of state",
                values.len(),
                state.len()
            ));
        };
        let (values, state) = (Arc::new(values.to_vec()), Arc::new(state.to_vec()));
        inner.chunks[shard - self.owned.start] = Chunk { values, state };
        Ok(())
    }

    /// A range of elements, counted from the first one that is here.
    fn here(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.range().start;
        range.start.saturating_sub(start)..range.end.saturating_sub(start)
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

/// Where gradients are added up: one chunk at a time, which the fastest memory holds until it is applied.
#[derive(Default)]
struct Sum(Vec<f32>);

impl Sum {
    /// The sum of some elements, or the only part that there is. With marks, of the parts that are there; zeros if none is.
    fn of<'a>(&'a mut self, parts: &[&'a [f32]], range: &Range<usize>, has_marks: bool) -> &'a [f32] {
        if let ([part], false) = (parts, has_marks) {
            return &part[range.clone()];
        }
        let is_there = |part: &&&[f32]| !has_marks || absent::kind(part[range.start]) == Kind::Gradient;
        let mut there = parts.iter().filter(is_there);
        self.0.clear();
        match there.next() {
            Some(first) => self.0.extend_from_slice(&first[range.clone()]),
            None => self.0.resize(range.len(), 0.0),
        }
        for part in there {
            self.0.iter_mut().zip(&part[range.clone()]).for_each(|(sum, more)| *sum += more);
        }
        &self.0
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

    #[test]
    fn an_array_without_a_gradient_stays_and_counts_for_itself() {
        let arrays = r#"[{"name": "a", "shape": [20]}, {"name": "b", "shape": [20]}]"#;
        let rule = r#"{"rule": "adam", "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8}"#;
        let text = format!(r#"{{"arrays": {arrays}, "optimizer": {rule}, "decay": {{"l2": 0.5}}}}"#);
        let spec: DenseSpec = serde_json::from_str(&text).unwrap();
        let made = || DenseTable::new(spec.clone(), Sharding::new(4).unwrap(), 0..4).unwrap();
        let (table, other) = (made(), made());
        table.set(&[1.0; 40], false).unwrap();
        other.set(&[1.0; 40], false).unwrap();
        let values = |table: &DenseTable| {
            let mut now = vec![0.0; 40];
            table.pull(&mut now).unwrap();
            now
        };
        let mut gradient = vec![0.25; 40];
        for mark in [absent::ABSENT, absent::CLEARED] {
            gradient[20..].fill(f32::from_bits(mark));
            table.push(&gradient).unwrap();
            assert_eq!(values(&table)[20..], [1.0; 20], "it has never learned");
        }
        assert!(values(&table)[..20].iter().all(|value| *value < 1.0));
        table.push(&[0.25; 40]).unwrap();
        other.push(&[0.25; 40]).unwrap();
        assert_eq!(values(&table)[20..], values(&other)[20..], "its first step");
        // What was saved goes on in the same way.
        table.freeze().unwrap();
        let again = made();
        again.restore(&table.state()).unwrap();
        for (offset, values, state) in (0..4).filter_map(|shard| table.chunk(shard)) {
            again.load_chunk(offset, &values, &state).unwrap();
        }
        gradient[20..].fill(f32::from_bits(absent::CLEARED));
        table.push(&gradient).unwrap();
        again.push(&gradient).unwrap();
        assert_eq!(values(&table), values(&again));
        assert_ne!(values(&table)[20..], values(&other)[20..], "zeros, now that it has learned");
    }
}
