//! Slots in lines that nobody asked for: which there are, and how often. A line's count when it is known to be a good one.

use std::collections::HashMap;

use super::steps::{Step, Target};
use super::tally::{Counts, LONGEST_UNKNOWN, MOST_UNKNOWN, Times};

/// Stands for every name where unknown slots are not counted.
pub const SKIPPED: u32 = u32::MAX;
/// Stands for names that are too many or too long to be told apart.
const OTHER: u32 = u32::MAX - 1;

#[derive(Default)]
pub struct Unknowns {
    names: HashMap<Vec<u8>, u32>,
    times: Vec<(String, Times)>,
    others: u64,
    /// Of the line at hand.
    here: Vec<u32>,
}

impl Unknowns {
    /// The number that stands for a name.
    pub fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(&number) = self.names.get(name) {
            return number;
        }
        if name.len() > LONGEST_UNKNOWN || self.names.len() >= MOST_UNKNOWN {
            return OTHER;
        }
        let number = self.times.len() as u32;
        self.names.insert(name.to_vec(), number);
        self.times.push((String::from_utf8_lossy(name).into_owned(), Times::default()));
        number
    }

    /// The line at hand has a value of this slot.
    #[inline(always)]
    pub fn meet(&mut self, number: u32) {
        self.here.push(number);
    }

    /// The line at hand is a bad one.
    pub fn forget(&mut self) {
        self.here.clear();
    }

    /// The line at hand is a good one, and there are so many of its kind.
    #[inline(always)]
    pub fn count(&mut self, lines: u64) {
        if !self.here.is_empty() {
            self.add(lines);
        }
    }

    /// So many lines went by these steps.
    pub fn count_lines(&mut self, steps: &[Step], lines: u64) {
        self.here.extend(steps.iter().filter_map(|step| match step.target {
            Target::Unknown(number) if number != SKIPPED => Some(number),
            _ => None,
        }));
        self.count(lines);
    }

    #[cold]
    fn add(&mut self, lines: u64) {
        let mut here = std::mem::take(&mut self.here);
        here.sort_unstable();
        let mut last = None;
        for &number in &here {
            if let Some((_, times)) = self.times.get_mut(number as usize) {
                times.values += lines;
                times.samples += if last != Some(number) { lines } else { 0 };
            } else if number == OTHER {
                self.others += lines;
            }
            last = Some(number);
        }
        here.clear();
        self.here = here;
    }

    /// Hands over what was counted since the last call.
    pub fn take(&mut self, to: &mut Counts) {
        to.unknown_others += std::mem::take(&mut self.others);
        for (name, times) in &mut self.times {
            if times.values > 0 {
                let own = to.unknown.entry(name.clone()).or_default();
                own.values += times.values;
                own.samples += times.samples;
                *times = Times::default();
            }
        }
    }
}
