//! Places where trainers wait for one another. A decider.
//!
//! A barrier has a name and a turn. Once complete it stays complete, so that a trainer that lost the answer, or that was
//! restarted and walks the same way again, passes it at once instead of waiting for those who are long gone.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub struct Barriers {
    /// Per name, how many turns are complete.
    complete: BTreeMap<String, u64>,
    waiting: BTreeMap<(String, u64), BTreeSet<u32>>,
    /// Where the log has the newest completion; 0 is before everything.
    lsn: u64,
}

impl Barriers {
    pub fn is_complete(&self, name: &str, turn: u64) -> bool {
        self.complete.get(name).is_some_and(|turns| turn < *turns)
    }

    pub fn arrives(&mut self, name: &str, turn: u64, rank: u32) {
        if !self.is_complete(name, turn) {
            self.waiting.entry((name.to_owned(), turn)).or_default().insert(rank);
        }
    }

    /// The process that waited is no more; its successor comes by itself.
    pub fn withdraw(&mut self, rank: u32) {
        self.waiting.retain(|_, ranks| {
            ranks.remove(&rank);
            !ranks.is_empty()
        });
    }

    pub fn missing(&self, name: &str, turn: u64, counted: &[u32]) -> Vec<u32> {
        let here = self.waiting.get(&(name.to_owned(), turn));
        counted.iter().copied().filter(|rank| !here.is_some_and(|here| here.contains(rank))).collect()
    }

    /// Barriers at which everybody who counts has arrived. The caller calls `completes` for each.
    pub fn full(&self, counted: &[u32]) -> Vec<(String, u64)> {
        let full = |ranks: &BTreeSet<u32>| counted.iter().all(|rank| ranks.contains(rank));
        self.waiting.iter().filter(|(_, ranks)| full(ranks)).map(|(barrier, _)| barrier.clone()).collect()
    }

    pub fn completes(&mut self, name: &str, turn: u64, lsn: u64) {
        self.lsn = self.lsn.max(lsn);
        self.waiting.retain(|(waiting, at), _| waiting != name || *at > turn);
        let turns = self.complete.entry(name.to_owned()).or_default();
        *turns = (*turns).max(turn.saturating_add(1));
    }

    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    pub fn remember(&self) -> BTreeMap<String, u64> {
        self.complete.clone()
    }

    pub fn restore(complete: BTreeMap<String, u64>) -> Self {
        Self { complete, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_is_full_when_everybody_who_counts_is_there() {
        let mut barriers = Barriers::default();
        barriers.arrives("start", 0, 2);
        barriers.arrives("start", 0, 0);
        assert_eq!(barriers.missing("start", 0, &[0, 1, 2]), [1]);
        assert!(barriers.full(&[0, 1, 2]).is_empty());
        assert_eq!(barriers.full(&[0, 2]), [("start".to_owned(), 0)], "one was lost");
        barriers.completes("start", 0, 7);
        assert_eq!(barriers.lsn(), 7);
        assert!(barriers.is_complete("start", 0) && !barriers.is_complete("start", 1));
        assert!(barriers.full(&[0, 2]).is_empty());
    }

    #[test]
    fn a_complete_barrier_stays_open_also_after_a_restart() {
        let mut barriers = Barriers::default();
        barriers.completes("epoch", 3, 0);
        let mut again = Barriers::restore(barriers.remember());
        assert!(again.is_complete("epoch", 3) && again.is_complete("epoch", 0) && !again.is_complete("epoch", 4));
        again.arrives("epoch", 2, 1);
        assert!(again.full(&[1]).is_empty(), "nobody waits at an open one");
    }

    #[test]
    fn a_restarted_trainer_has_not_arrived() {
        let mut barriers = Barriers::default();
        barriers.arrives("start", 0, 1);
        barriers.withdraw(1);
        barriers.arrives("start", 0, 0);
        assert_eq!(barriers.missing("start", 0, &[0, 1]), [1]);
    }
}
