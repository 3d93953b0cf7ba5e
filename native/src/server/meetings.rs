//! Where trainers meet: barriers, gathers, what they say on the blackboard, and numbers that are given out. A decider.

use super::barriers::Barriers;
use super::blackboard::Blackboard;
use super::counters::Counters;
use super::gathers::Gathers;
use super::waits::Place;

#[derive(Default)]
pub struct Meetings {
    pub barriers: Barriers,
    pub gathers: Gathers,
    pub blackboard: Blackboard,
    pub counters: Counters,
}

impl Meetings {
    /// The process that waited is no more; its successor comes by itself.
    pub fn withdraw(&mut self, rank: u32) {
        self.barriers.withdraw(rank);
        self.gathers.withdraw(rank);
    }

    /// Those of `counted` who have not come to a place where trainers meet.
    pub fn missing(&self, place: &Place, counted: &[u32]) -> Vec<u32> {
        match place {
            Place::Barrier(name, turn) if !self.barriers.is_complete(name, *turn) => {
                self.barriers.missing(name, *turn, counted)
            }
            Place::Gather(name) => self.gathers.missing(name, counted),
            Place::Barrier(..) | Place::Step(_) => Vec::new(),
        }
    }
}
