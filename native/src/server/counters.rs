//! Numbers that are given out, each to one trainer. A decider.
//!
//! A trainer says how many numbers of that name it has taken before: its turn. The last one is kept for every trainer, so
//! that a request that is repeated gets the same number again. A process that takes a dead one's place begins at turn 0,
//! and gets numbers of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, Counter>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counter {
    next: u64,
    /// Per rank.
    last: BTreeMap<u32, Taken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    pub incarnation: u64,
    pub turn: u64,
    pub number: u64,
    /// Where the log has it; 0 is before everything.
    #[serde(skip)]
    pub lsn: u64,
}

/// Why a turn can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// The trainer had a later one.
    Past(u64),
    /// The trainer had earlier ones that are not known here: to count on would give out numbers twice.
    Forgotten,
}

impl Counters {
    /// What this trainer was given in this turn, or `None` if it is to be given a number now.
    pub fn taken(&self, name: &str, rank: u32, incarnation: u64, turn: u64) -> Result<Option<Taken>, Disorder> {
        let last = self.0.get(name).and_then(|counter| counter.last.get(&rank));
        match last.filter(|last| last.incarnation == incarnation) {
            Some(last) if turn == last.turn => Ok(Some(*last)),
            Some(last) if turn < last.turn => Err(Disorder::Past(last.turn)),
            Some(last) if turn - 1 == last.turn => Ok(None),
            None if turn == 0 => Ok(None),
            _ => Err(Disorder::Forgotten),
        }
    }

    /// The next number. `taken` has said that it is to be given.
    pub fn give(&mut self, name: &str, rank: u32, incarnation: u64, turn: u64, lsn: u64) -> u64 {
        let counter = self.0.entry(name.to_owned()).or_default();
        let number = counter.next;
        counter.next += 1;
        counter.last.insert(rank, Taken { incarnation, turn, number, lsn });
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(counters: &mut Counters, rank: u32, incarnation: u64, turn: u64) -> Result<u64, Disorder> {
        match counters.taken("a", rank, incarnation, turn)? {
            Some(taken) => Ok(taken.number),
            None => Ok(counters.give("a", rank, incarnation, turn, 0)),
        }
    }

    #[test]
    fn each_number_is_given_once_and_told_again() {
        let mut counters = Counters::default();
        assert_eq!(take(&mut counters, 0, 7, 0), Ok(0));
        assert_eq!(take(&mut counters, 1, 7, 0), Ok(1));
        assert_eq!(take(&mut counters, 0, 7, 0), Ok(0), "asked again");
        assert_eq!(take(&mut counters, 0, 7, 1), Ok(2));
        assert_eq!(take(&mut counters, 0, 7, 0), Err(Disorder::Past(1)));
        assert_eq!(counters.taken("b", 0, 7, 0), Ok(None), "names count by themselves");
    }

    #[test]
    fn another_process_gets_numbers_of_its_own() {
        let mut counters = Counters::default();
        assert_eq!(take(&mut counters, 0, 7, 0), Ok(0));
        assert_eq!(take(&mut counters, 0, 8, 0), Ok(1));
        assert_eq!(take(&mut counters, 0, 8, 0), Ok(1));
    }

    #[test]
    fn what_was_forgotten_is_noticed_and_a_text_brings_it_back() {
        let mut counters = Counters::default();
        assert_eq!(take(&mut counters, 0, 7, 3), Err(Disorder::Forgotten));
        assert_eq!(take(&mut counters, 0, 7, 0), Ok(0));
        assert_eq!(take(&mut counters, 0, 7, 2), Err(Disorder::Forgotten));
        assert_eq!(take(&mut counters, 0, 7, u64::MAX), Err(Disorder::Forgotten));
        let text = serde_json::to_string(&counters).unwrap();
        let mut again: Counters = serde_json::from_str(&text).unwrap();
        assert_eq!((take(&mut again, 0, 7, 0), take(&mut again, 1, u64::MAX, 0)), (Ok(0), Ok(1)));
    }
}
