//! How far each array of a dense table has learned. An array that had no gradient in some push counts its pushes itself; the
//! others have the table's own count, so that a table in which everything learns has one step for all of it.

use std::ops::Range;

use crate::table::absent::{self, Kind};
use crate::table::rules::{Rule, Step};
use crate::table::spec::DenseSpec;

/// Numbers that a saved chunk has behind its state for each of its arrays, if one of them counts for itself.
const SAVED: usize = 9;
/// Bits of a saved number, which float32 holds exactly.
const BITS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Own {
    has_learned: bool,
    powers: [f64; 2],
}

#[derive(Clone, Debug)]
pub struct Progress {
    /// Of each array that has elements here: where they are, counted from the first one that is here.
    places: Vec<Range<usize>>,
    /// What an array counts for itself.
    own: Vec<Option<Own>>,
    /// Whether the table was ever pushed to.
    pub has_learned: bool,
}

/// Elements that follow each other and are treated alike in a push.
#[derive(Clone, Debug)]
pub struct Run {
    pub place: Range<usize>,
    /// None: they stay as they are.
    pub step: Option<Step>,
    /// Whether some of the gradients that are added up are not there.
    pub has_marks: bool,
}

impl Progress {
    /// For the elements `here` of all arrays laid end to end.
    pub fn new(spec: &DenseSpec, here: &Range<usize>) -> Self {
        let mut end = 0;
        let mut places = Vec::new();
        for array in &spec.arrays {
            let start = end;
            end += array.shape.iter().product::<usize>();
            let place = start.clamp(here.start, here.end) - here.start..end.clamp(here.start, here.end) - here.start;
            if !place.is_empty() {
                places.push(place);
            }
        }
        Self { own: vec![None; places.len()], places, has_learned: false }
    }

    /// Counts a push of the sum of `parts` and says what it does. Neighbours that learn alike are one run.
    pub fn begin(&mut self, rule: &mut Rule, parts: &[&[f32]]) -> Vec<Run> {
        let before = Own { has_learned: self.has_learned, powers: rule.powers() };
        let common = rule.step();
        let mut runs: Vec<Run> = Vec::new();
        for (place, own) in self.places.iter().zip(&mut self.own) {
            let kinds = || parts.iter().map(|part| absent::kind(part[place.start]));
            let has_marks = kinds().any(|kind| kind != Kind::Gradient);
            let has_learned = own.unwrap_or(before).has_learned;
            let learns = kinds().any(|kind| kind == Kind::Gradient || (kind == Kind::Cleared && has_learned));
            let step = match (learns, own.as_mut()) {
                (true, None) => Some(common),
                (true, Some(own)) => {
                    own.has_learned = true;
                    Some(rule.step_at(&mut own.powers))
                }
                (false, known) => {
                    *own = Some(known.map_or(before, |known| *known));
                    None
                }
            };
            match runs.last_mut() {
                Some(last) if !last.has_marks && !has_marks && last.step == step => last.place.end = place.end,
                _ => runs.push(Run { place: place.clone(), step, has_marks }),
            }
        }
        self.has_learned = true;
        runs
    }

    /// What a saved chunk needs besides: nothing where its arrays have the table's count.
    pub fn saved(&self, chunk: &Range<usize>) -> Vec<f32> {
        let of_chunk: Vec<&Option<Own>> = self.of(chunk).map(|array| &self.own[array]).collect();
        if of_chunk.iter().all(|own| own.is_none()) {
            return Vec::new();
        }
        let mut numbers = Vec::with_capacity(SAVED * of_chunk.len());
        for own in of_chunk {
            let (kind, powers) = match own {
                None => (0.0, [0.0; 2]),
                Some(own) => (if own.has_learned { 2.0 } else { 1.0 }, own.powers),
            };
            numbers.push(kind);
            for power in powers {
                let pieces = (0..4).map(|piece| (power.to_bits() >> (BITS * piece)) as u16);
                numbers.extend(pieces.map(f32::from));
            }
        }
        numbers
    }

    /// The opposite. `None` if these are not the numbers of this chunk.
    pub fn load(&mut self, chunk: &Range<usize>, numbers: &[f32]) -> Option<()> {
        let arrays: Vec<usize> = self.of(chunk).collect();
        if numbers.is_empty() {
            arrays.into_iter().for_each(|array| self.own[array] = None);
            return Some(());
        }
        if numbers.len() != SAVED * arrays.len() {
            return None;
        }
        for (array, numbers) in arrays.into_iter().zip(numbers.chunks_exact(SAVED)) {
            let power = |first: usize| {
                let pieces = numbers[first..first + 4].iter().rev();
                f64::from_bits(pieces.fold(0, |bits, piece| (bits << BITS) | u64::from(*piece as u16)))
            };
            let powers = [power(1), power(5)];
            let is_known = powers.iter().all(|power| (0.0..=1.0).contains(power));
            self.own[array] = match numbers[0] {
                0.0 => None,
                1.0 if is_known => Some(Own { has_learned: false, powers }),
                2.0 if is_known => Some(Own { has_learned: true, powers }),
                _ => return None,
            };
        }
        Some(())
    }

    /// The arrays that have elements in a chunk.
    fn of(&self, chunk: &Range<usize>) -> impl Iterator<Item = usize> + use<> {
        let first = self.places.partition_point(|place| place.end <= chunk.start);
        let behind = self.places.partition_point(|place| place.start < chunk.end);
        first..behind.max(first)
    }
}
