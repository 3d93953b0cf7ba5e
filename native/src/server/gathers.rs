//! Places where every trainer leaves a few bytes and takes everybody's away. A decider.
//!
//! A gather has a name and a turn. What came of a name's last turn is kept, so that a trainer that lost the answer gets it
//! again. The turn before is forgotten when a turn is complete: everybody who counts has asked for the later one by then,
//! and so had the answer to the earlier. So there is one result per name, and a name should be used again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::codec;

/// What everybody brought, in order of rank; nothing of a trainer that is lost or done.
#[derive(Debug, PartialEq, Eq)]
pub struct Gathered {
    pub turn: u64,
    pub count: u32,
    /// As `codec::join` makes it.
    pub bytes: Vec<u8>,
    /// Where the log has it; 0 is before everything.
    pub lsn: u64,
}

#[derive(Debug)]
struct Offer {
    turn: u64,
    payload: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Gathers {
    complete: BTreeMap<String, Arc<Gathered>>,
    waiting: BTreeMap<String, BTreeMap<u32, Offer>>,
}

/// How it stands with a turn, for one trainer.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    Complete(Arc<Gathered>),
    Open,
    /// Later ones are complete, this is the last.
    Past(u64),
    /// Another trainer waits at another turn of the same name. Who is ahead had an answer that is not known here.
    Apart {
        rank: u32,
        turn: u64,
    },
}

impl Gathers {
    pub fn standing(&self, name: &str, turn: u64) -> Standing {
        match self.complete.get(name) {
            Some(last) if last.turn == turn => return Standing::Complete(last.clone()),
            Some(last) if last.turn > turn => return Standing::Past(last.turn),
            _ => {}
        }
        let mut others = self.waiting.get(name).into_iter().flatten();
        match others.find(|(_, offer)| offer.turn != turn) {
            Some((rank, offer)) => Standing::Apart { rank: *rank, turn: offer.turn },
            None => Standing::Open,
        }
    }

    /// A trainer waits at one place at a time, so all that is kept of those who wait is a payload for each.
    pub fn arrives(&mut self, name: &str, turn: u64, rank: u32, payload: Vec<u8>) {
        if self.complete.get(name).is_none_or(|last| last.turn < turn) {
            self.withdraw(rank);
            self.waiting.entry(name.to_owned()).or_default().insert(rank, Offer { turn, payload });
        }
    }

    pub fn withdraw(&mut self, rank: u32) {
        self.waiting.retain(|_, offers| {
            offers.remove(&rank);
            !offers.is_empty()
        });
    }

    pub fn missing(&self, name: &str, counted: &[u32]) -> Vec<u32> {
        let here = self.waiting.get(name);
        counted.iter().copied().filter(|rank| !here.is_some_and(|here| here.contains_key(rank))).collect()
    }

    /// Turns for which everybody who counts is there; these ascend. The caller calls `completes` for each.
    pub fn full(&self, counted: &[u32], world: u32) -> Vec<(String, Gathered)> {
        let mut full = Vec::new();
        for (name, offers) in &self.waiting {
            // With many trainers, all but the last one who comes are done with here.
            if offers.len() < counted.len() {
                continue;
            }
            // A trainer that comes although nobody counts any more has no one to wait for.
            let counts = |rank: &u32| counted.is_empty() || counted.binary_search(rank).is_ok();
            let turn = offers.iter().filter(|(rank, _)| counts(rank)).map(|(_, offer)| offer.turn).max();
            let Some(turn) = turn else { continue };
            let offer = |rank: u32| offers.get(&rank).filter(|offer| offer.turn == turn && counts(&rank));
            if counted.iter().all(|rank| offer(*rank).is_some()) {
                let payloads = (0..world).map(|rank| offer(rank).map_or(&[][..], |offer| &offer.payload));
                let bytes = codec::join(&payloads.collect::<Vec<_>>());
                full.push((name.clone(), Gathered { turn, count: world, bytes, lsn: 0 }));
            }
        }
        full
    }

    pub fn completes(&mut self, name: &str, gathered: Gathered) {
        if let Some(offers) = self.waiting.get_mut(name) {
            offers.retain(|_, offer| offer.turn > gathered.turn);
            if offers.is_empty() {
                self.waiting.remove(name);
            }
        }
        self.complete.insert(name.to_owned(), Arc::new(gathered));
    }

    pub fn remember(&self) -> Vec<(String, Arc<Gathered>)> {
        self.complete.iter().map(|(name, gathered)| (name.clone(), gathered.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bring(gathers: &mut Gathers, turn: u64, rank: u32, payload: &str) {
        gathers.arrives("a", turn, rank, payload.into());
    }

    /// Completes what is full, and says what everybody gets.
    fn complete(gathers: &mut Gathers, counted: &[u32]) -> Vec<String> {
        let mut told = Vec::new();
        for (name, gathered) in gathers.full(counted, 3) {
            let strings = codec::split(&gathered.bytes, gathered.count).unwrap();
            told.extend(strings.iter().map(|string| String::from_utf8_lossy(string).into_owned()));
            gathers.completes(&name, gathered);
        }
        told
    }

    fn last(gathers: &Gathers, turn: u64) -> bool {
        matches!(gathers.standing("a", turn), Standing::Complete(gathered) if gathered.turn == turn)
    }

    #[test]
    fn everybody_gets_what_everybody_brought_in_order_of_rank() {
        let mut gathers = Gathers::default();
        bring(&mut gathers, 0, 2, "two");
        bring(&mut gathers, 0, 0, "zero");
        assert_eq!(gathers.missing("a", &[0, 1, 2]), [1]);
        assert!(complete(&mut gathers, &[0, 1, 2]).is_empty());
        bring(&mut gathers, 0, 0, "again");
        bring(&mut gathers, 0, 1, "one");
        assert_eq!(gathers.standing("a", 0), Standing::Open);
        assert_eq!(complete(&mut gathers, &[0, 1, 2]), ["again", "one", "two"]);
        assert!(last(&gathers, 0) && gathers.standing("a", 1) == Standing::Open);
    }

    #[test]
    fn a_turn_is_kept_until_the_next_is_complete() {
        let mut gathers = Gathers::default();
        (0..3).for_each(|rank| bring(&mut gathers, 0, rank, "x"));
        complete(&mut gathers, &[0, 1, 2]);
        bring(&mut gathers, 1, 0, "y");
        bring(&mut gathers, 1, 1, "y");
        bring(&mut gathers, 0, 2, "late");
        assert!(last(&gathers, 0), "one has lost the answer");
        assert!(complete(&mut gathers, &[0, 1, 2]).is_empty(), "and has not come to the next");
        bring(&mut gathers, 1, 2, "y");
        complete(&mut gathers, &[0, 1, 2]);
        assert_eq!(gathers.standing("a", 0), Standing::Past(1));
        assert_eq!((gathers.complete.len(), gathers.waiting.len()), (1, 0));
        assert_eq!(gathers.remember().len(), 1);
    }

    #[test]
    fn the_lost_and_the_done_bring_nothing() {
        let mut gathers = Gathers::default();
        (0..3).for_each(|rank| bring(&mut gathers, 0, rank, "x"));
        assert_eq!(complete(&mut gathers, &[0, 2]), ["x", "", "x"]);
        bring(&mut gathers, 1, 1, "last");
        assert_eq!(complete(&mut gathers, &[]), ["", "last", ""], "nobody else is left");
    }

    #[test]
    fn who_is_elsewhere_or_restarted_has_not_come() {
        let mut gathers = Gathers::default();
        bring(&mut gathers, 0, 0, "x");
        gathers.arrives("b", 0, 0, b"y".to_vec());
        assert_eq!(gathers.missing("a", &[0]), [0]);
        gathers.withdraw(0);
        assert_eq!(gathers.missing("b", &[0]), [0]);
        assert!(gathers.waiting.is_empty());
    }

    #[test]
    fn trainers_at_different_turns_never_meet() {
        let mut gathers = Gathers::default();
        bring(&mut gathers, 4, 0, "x");
        bring(&mut gathers, 5, 1, "x");
        assert!(gathers.full(&[0, 1], 3).is_empty());
        assert_eq!(gathers.standing("a", 4), Standing::Apart { rank: 1, turn: 5 });
        assert_eq!(gathers.standing("a", 5), Standing::Apart { rank: 0, turn: 4 });
    }
}
