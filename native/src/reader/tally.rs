//! Values: what a reader has seen so far. Additive, so that several threads' counts become one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fault::{BadLine, Reason};
use super::schema::Schema;

/// So many names of slots that were not asked for are told apart; the others are one number.
pub const MOST_UNKNOWN: usize = 1024;
/// A name that is longer than this is not kept.
pub const LONGEST_UNKNOWN: usize = 256;
/// So many bad lines are kept as examples.
const EXAMPLES: usize = 8;

/// How often a slot occurred: values, and samples that have any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub values: u64,
    pub samples: u64,
}

/// Counts of good samples, of one block or of many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub samples: u64,
    /// Samples that lack a sparse or dense slot, in the order of the schema.
    pub sparse_missing: Vec<u64>,
    pub dense_missing: Vec<u64>,
    pub unknown: BTreeMap<String, Times>,
    /// Values of slots whose names were too many or too long.
    pub unknown_others: u64,
}

impl Counts {
    pub fn new(schema: &Schema) -> Self {
        Self {
            sparse_missing: vec![0; schema.sparse.len()],
            dense_missing: vec![0; schema.dense.len()],
            ..Self::default()
        }
    }

    pub fn add(&mut self, other: &Counts) {
        self.samples += other.samples;
        self.sparse_missing.iter_mut().zip(&other.sparse_missing).for_each(|(own, more)| *own += more);
        self.dense_missing.iter_mut().zip(&other.dense_missing).for_each(|(own, more)| *own += more);
        self.unknown_others += other.unknown_others;
        for (name, times) in &other.unknown {
            if let Some(own) = self.unknown.get_mut(name) {
                own.values += times.values;
                own.samples += times.samples;
            } else if self.unknown.len() < MOST_UNKNOWN {
                self.unknown.insert(name.clone(), *times);
            } else {
                self.unknown_others += times.values;
            }
        }
    }
}

/// Counts, the bad lines, and the blank ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub counts: Counts,
    pub bad: u64,
    /// Lines without a token: passed over, and no fault.
    pub blank: u64,
    pub bad_by_reason: BTreeMap<Reason, u64>,
    pub examples: Vec<BadLine>,
}

impl Tally {
    pub fn new(schema: &Schema) -> Self {
        Self { counts: Counts::new(schema), ..Self::default() }
    }

    pub fn add_bad(&mut self, line: BadLine) {
        self.bad += 1;
        *self.bad_by_reason.entry(line.reason).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(line);
        }
    }

    pub fn add(&mut self, other: &Tally) {
        self.counts.add(&other.counts);
        self.bad += other.bad;
        self.blank += other.blank;
        for (reason, count) in &other.bad_by_reason {
            *self.bad_by_reason.entry(*reason).or_default() += count;
        }
        let room = EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.iter().take(room).cloned());
    }
}
