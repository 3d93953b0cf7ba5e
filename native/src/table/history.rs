//! History: which numbers each push of a table had, for rows that have missed some of them. Equal pushes that follow each
//! other are one run, so that a constant rate costs nothing.

use std::sync::Arc;

use crate::table::rules::Step;

/// Runs that are shared between a history and its copies.
const CHUNK: usize = 512;

/// What a push does to a row without a gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Idle {
    pub step: Step,
    /// The table's learning rate, for weights that decay by it.
    pub rate: f32,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of its first push.
    first: u64,
    idle: Idle,
}

/// Pushes by number, from some number on. A copy is cheap.
#[derive(Clone, Default)]
pub struct History {
    full: Vec<Arc<[Run]>>,
    tail: Vec<Run>,
    /// No push had a rate above this, with the corrections that Adam has in it.
    highest: f32,
}

impl History {
    /// Adds the push of this number, which is the next one.
    pub fn add(&mut self, push: u64, idle: Idle) {
        self.highest = self.highest.max(idle.step.learning_rate());
        // Tried before, without success.
        while self.tail.last().is_some_and(|run| run.first >= push) {
            self.tail.pop();
        }
        let last = self.tail.last().or_else(|| self.full.last().and_then(|chunk| chunk.last()));
        if last.is_some_and(|last| last.idle == idle) {
            return;
        }
        if self.tail.len() == CHUNK {
            self.full.push(std::mem::take(&mut self.tail).into());
        }
        self.tail.push(Run { first: push, idle });
    }

    /// Nobody asks for pushes up to this one any more.
    pub fn forget(&mut self, push: u64) {
        let ends = |chunk: usize| {
            let next = self.full.get(chunk + 1).map_or(&self.tail[..], |next| &next[..]);
            next.first().is_some_and(|run| run.first <= push + 1)
        };
        let gone = (0..self.full.len()).take_while(|chunk| ends(*chunk)).count();
        self.full.drain(..gone);
    }

    pub fn highest(&self) -> f32 {
        self.highest
    }

    /// Runs of pushes behind `after` and up to `last`: what each of them did, and how many they were.
    pub fn between(&self, after: u64, last: u64) -> Between<'_> {
        let chunk = self.full.partition_point(|chunk| chunk[0].first <= after + 1);
        let in_tail = chunk == self.full.len() && self.tail.first().is_some_and(|run| run.first <= after + 1);
        let chunk = if in_tail { chunk } else { chunk.saturating_sub(1) };
        let runs = self.chunk(chunk);
        let at = runs.partition_point(|run| run.first <= after + 1).saturating_sub(1);
        Between { history: self, chunk, at, next: after + 1, last }
    }

    fn chunk(&self, chunk: usize) -> &[Run] {
        self.full.get(chunk).map_or(&self.tail[..], |chunk| &chunk[..])
    }

    pub fn runs(&self) -> usize {
        self.full.len() * CHUNK + self.tail.len()
    }
}

/// The runs of some pushes.
#[derive(Clone)]
pub struct Between<'a> {
    history: &'a History,
    chunk: usize,
    at: usize,
    next: u64,
    last: u64,
}

impl Between<'_> {
    /// Pushes that are left.
    pub fn left(&self) -> u64 {
        (self.last + 1).saturating_sub(self.next)
    }
}

impl Iterator for Between<'_> {
    type Item = (Idle, u64);

    #[inline]
    fn next(&mut self) -> Option<(Idle, u64)> {
        if self.next > self.last {
            return None;
        }
        let run = self.history.chunk(self.chunk).get(self.at)?;
        self.at += 1;
        if self.at == self.history.chunk(self.chunk).len() && self.chunk < self.history.full.len() {
            (self.chunk, self.at) = (self.chunk + 1, 0);
        }
        let following = self.history.chunk(self.chunk).get(self.at).map_or(u64::MAX, |run| run.first);
        let end = following.min(self.last + 1);
        let count = end - self.next;
        self.next = end;
        Some((run.idle, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::rules::Sgd;

    fn idle(rate: u64) -> Idle {
        Idle { step: Step::Sgd(Sgd { learning_rate: rate as f32 }), rate: rate as f32 }
    }

    #[test]
    fn every_push_is_told_as_it_was_whatever_was_forgotten() {
        for repeated in [1, 3, 2000] {
            let (mut history, pushes) = (History::default(), 5000);
            for push in 1..=pushes {
                history.add(push, idle(push / repeated));
            }
            assert!(history.runs() as u64 <= pushes / repeated + 1);
            for forgotten in [0, 1, 700, 3000, pushes] {
                history.forget(forgotten);
                for (after, last) in [(forgotten, pushes), (forgotten, forgotten + 1), (3500, 3500), (3500, 4400)] {
                    if after < forgotten || last > pushes {
                        continue;
                    }
                    let told = history.between(after, last).flat_map(|(idle, n)| (0..n).map(move |_| idle.rate as u64));
                    let expected: Vec<u64> = (after + 1..=last).map(|push| push / repeated).collect();
                    assert_eq!(told.collect::<Vec<_>>(), expected, "{repeated} {forgotten} {after} {last}");
                }
            }
        }
    }

    #[test]
    fn a_push_that_is_tried_again_counts_once() {
        let mut history = History::default();
        for (push, rate) in [(1, 5), (2, 6), (2, 7), (3, 7)] {
            history.add(push, idle(rate));
        }
        let told: Vec<(f32, u64)> = history.between(0, 3).map(|(idle, count)| (idle.rate, count)).collect();
        assert_eq!(told, [(5.0, 1), (7.0, 2)]);
    }
}
