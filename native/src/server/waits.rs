//! Who waits where on this server, and who waits for whom for ever. A decider: time is an argument, in milliseconds.
//!
//! A trainer does one thing at a time, so one that waits brings nobody else what they wait for. Trainers of which each waits
//! for another one of them wait for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a trainer waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// That the step before this one is applied.
    Step(u64),
    Barrier(String, u64),
    Gather(String),
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Step(step) => write!(to, "step {}", step.saturating_sub(1)),
            Place::Barrier(name, _) => write!(to, "barrier {name:?}"),
            Place::Gather(name) => write!(to, "gather {name:?}"),
        }
    }
}

#[derive(Clone, Debug)]
struct Wait {
    rank: u32,
    place: Place,
    since: u64,
    /// What its client was told last.
    told: Option<String>,
    ended: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Waits {
    next: u64,
    waits: BTreeMap<u64, Wait>,
}

impl Waits {
    /// Returns a number for `end`.
    pub fn begin(&mut self, rank: u32, place: Place, now: u64) -> u64 {
        self.next += 1;
        self.waits.insert(self.next, Wait { rank, place, since: now, told: None, ended: None });
        self.next
    }

    pub fn end(&mut self, wait: u64) {
        self.waits.remove(&wait);
    }

    pub fn tell(&mut self, wait: u64, text: &str) {
        if let Some(wait) = self.waits.get_mut(&wait) {
            wait.told = Some(text.to_owned());
        }
    }

    /// What a trainer that has waited for a second or more waits for.
    pub fn told(&self, rank: u32) -> Option<&str> {
        self.waits.values().rev().find(|wait| wait.rank == rank)?.told.as_deref()
    }

    /// Why this one can't come to an end, if that was noticed.
    pub fn why_ended(&self, wait: u64) -> Option<&str> {
        self.waits.get(&wait)?.ended.as_deref()
    }

    /// Ends the waits of trainers that wait for each other, and have for so long. `missing` are those whom somebody at a
    /// place waits for, `is_here` those whose process is connected. Returns what is to be said, the first time.
    pub fn end_mutual(
        &mut self,
        now: u64,
        patience: u64,
        is_here: impl Fn(u32) -> bool,
        missing: impl Fn(&Place) -> Vec<u32>,
    ) -> Option<String> {
        // Of a rank that has connected again the newest counts: the older one does not know yet that it is over.
        let newest: BTreeMap<u32, u64> = self.waits.iter().map(|(number, wait)| (wait.rank, *number)).collect();
        let mut stuck: BTreeSet<u32> = newest
            .iter()
            .filter(|(rank, number)| now.saturating_sub(self.waits[number].since) >= patience && is_here(**rank))
            .map(|(rank, _)| *rank)
            .collect();
        loop {
            let waits_within =
                |rank: &u32| missing(&self.waits[&newest[rank]].place).iter().any(|of| stuck.contains(of));
            let rest: BTreeSet<u32> = stuck.iter().copied().filter(waits_within).collect();
            if rest.len() == stuck.len() {
                break;
            }
            stuck = rest;
        }
        if stuck.is_empty() {
            return None;
        }
        let text = match stuck.first() {
            Some(rank) if stuck.len() == 1 => {
                format!("trainer {rank} waits for itself at {}", self.waits[&newest[rank]].place)
            }
            _ => {
                let whom: Vec<String> =
                    stuck.iter().map(|rank| format!("trainer {rank} at {}", self.waits[&newest[rank]].place)).collect();
                format!("trainers wait for each other: {}", whom.join(", "))
            }
        };
        let mut is_new = false;
        for rank in stuck {
            if let Some(wait) = self.waits.get_mut(&newest[&rank]) {
                is_new |= wait.ended.is_none();
                wait.ended.get_or_insert_with(|| text.clone());
            }
        }
        is_new.then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is missing: at the barrier and the gather those that are not named, at the step rank 1.
    fn missing(place: &Place) -> Vec<u32> {
        match place {
            Place::Step(_) => vec![1],
            Place::Barrier(..) => vec![0, 2],
            Place::Gather(_) => vec![0],
        }
    }

    #[test]
    fn a_step_and_a_barrier_that_wait_for_each_other() {
        let mut waits = Waits::default();
        let first = waits.begin(0, Place::Step(9), 0);
        let second = waits.begin(1, Place::Barrier("end".into(), 0), 2_000);
        assert_eq!(waits.end_mutual(6_999, 5_000, |_| true, missing), None, "one of them has just come");
        assert_eq!(
            waits.end_mutual(7_000, 5_000, |rank| rank != 1, missing),
            None,
            "it may come back as another process"
        );
        let text = "trainers wait for each other: trainer 0 at step 8, trainer 1 at barrier \"end\"";
        assert_eq!(waits.end_mutual(7_000, 5_000, |_| true, missing).as_deref(), Some(text));
        assert_eq!([first, second].map(|wait| waits.why_ended(wait)), [Some(text); 2]);
        assert_eq!(waits.end_mutual(8_000, 5_000, |_| true, missing), None, "it is said once");
        waits.tell(second, "barrier \"end\" waits for trainer 0");
        assert_eq!((waits.told(0), waits.told(1)), (None, Some("barrier \"end\" waits for trainer 0")));
        waits.end(first);
        assert_eq!((waits.why_ended(first), waits.why_ended(second)), (None, Some(text)));
    }

    #[test]
    fn who_waits_for_somebody_at_work_is_left_alone() {
        let mut waits = Waits::default();
        let first = waits.begin(0, Place::Step(9), 0);
        let third = waits.begin(2, Place::Step(9), 0);
        assert_eq!(waits.end_mutual(9_000, 5_000, |_| true, missing), None, "rank 1 may still bring its step");
        // Rank 1 waits for rank 0 alone: rank 2 waits for one of them, and so for ever as well.
        let second = waits.begin(1, Place::Gather("g".into()), 1_000);
        assert!(waits.end_mutual(9_000, 5_000, |_| true, missing).is_some());
        assert!([first, second, third].iter().all(|wait| waits.why_ended(*wait).is_some()));
    }

    #[test]
    fn a_newer_connection_counts() {
        let mut waits = Waits::default();
        waits.begin(0, Place::Step(9), 0);
        waits.begin(1, Place::Barrier("end".into(), 0), 0);
        waits.begin(1, Place::Step(9), 4_000);
        assert_eq!(waits.end_mutual(8_000, 5_000, |_| true, missing), None);
        let text = waits.end_mutual(9_000, 5_000, |rank| rank == 1, missing);
        assert_eq!(text.as_deref(), Some("trainer 1 waits for itself at step 8"));
    }
}
