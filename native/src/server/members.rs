//! Who the trainers of a job are, and which of them live. A decider: time is an argument, in milliseconds.
//!
//! ```text
//!   Expected --arrives--> Here --nothing heard for `grace`--> Lost --arrives again--> Here
//!      |                    |
//!      +--not within `arrive`--> Lost          Here --says so--> Done
//! ```
//!
//! A trainer's process has an incarnation. The newest one counts, and one that was replaced never comes back, so that two
//! processes with one rank can't take turns.

use serde::{Deserialize, Serialize};

/// How long is too long, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the last sign of life until a trainer counts as lost.
    pub grace: u64,
    /// The same for one that has never come.
    pub arrive: u64,
    /// Without heartbeats for so long, a connected trainer is called silent.
    pub silent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Expected,
    Here,
    Lost,
    Done,
}

#[derive(Clone, Debug)]
struct Member {
    state: State,
    incarnation: Option<u64>,
    retired: Vec<u64>,
    connections: u32,
    heard: u64,
}

/// What of a member outlives the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    pub incarnation: Option<u64>,
    pub retired: Vec<u64>,
    pub done: bool,
    pub lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Another process than before.
    pub new_incarnation: bool,
    /// It had been lost.
    pub returned: bool,
}

/// Replaced processes that are remembered, per rank.
const RETIRED: usize = 256;

#[derive(Clone, Debug)]
pub struct Members {
    patience: Patience,
    seats: Vec<Member>,
}

impl Members {
    pub fn new(world: usize, patience: Patience, now: u64) -> Self {
        let member =
            Member { state: State::Expected, incarnation: None, retired: Vec::new(), connections: 0, heard: now };
        Self { patience, seats: vec![member; world] }
    }

    /// After a restart: everybody has the whole grace to find the way back.
    pub fn restore(patience: Patience, remembered: Vec<Remembered>, now: u64) -> Self {
        let member = |kept: Remembered| Member {
            state: match kept {
                Remembered { done: true, .. } => State::Done,
                Remembered { lost: true, .. } => State::Lost,
                Remembered { incarnation: Some(_), .. } => State::Here,
                _ => State::Expected,
            },
            incarnation: kept.incarnation,
            retired: kept.retired,
            connections: 0,
            heard: now,
        };
        Self { patience, seats: remembered.into_iter().map(member).collect() }
    }

    pub fn remember(&self) -> Vec<Remembered> {
        let kept = |member: &Member| Remembered {
            incarnation: member.incarnation,
            retired: member.retired.clone(),
            done: member.state == State::Done,
            lost: member.state == State::Lost,
        };
        self.seats.iter().map(kept).collect()
    }

    pub fn state(&self, rank: u32) -> State {
        self.seats[rank as usize].state
    }

    pub fn incarnation(&self, rank: u32) -> Option<u64> {
        self.seats[rank as usize].incarnation
    }

    pub fn connections(&self, rank: u32) -> u32 {
        self.seats[rank as usize].connections
    }

    /// The whole grace begins again for everybody: a server that has just come back blames nobody for its own absence.
    pub fn forgive(&mut self, now: u64) {
        self.seats.iter_mut().for_each(|member| member.heard = now);
    }

    /// A process says who it is. `None`: it was replaced by a newer one and stays out.
    pub fn arrives(&mut self, rank: u32, incarnation: u64, now: u64) -> Option<Arrival> {
        let arrival = self.takes_seat(rank, incarnation)?;
        let member = &mut self.seats[rank as usize];
        if arrival.new_incarnation {
            member.connections = 0;
        }
        member.connections += 1;
        member.heard = now;
        if member.state != State::Done || arrival.new_incarnation {
            member.state = State::Here;
        }
        Some(arrival)
    }

    /// The part of an arrival that outlives the server: what a log's record tells of who wrote it.
    pub fn takes_seat(&mut self, rank: u32, incarnation: u64) -> Option<Arrival> {
        let member = &mut self.seats[rank as usize];
        if member.retired.contains(&incarnation) {
            return None;
        }
        let new_incarnation = member.incarnation != Some(incarnation);
        if new_incarnation && let Some(old) = member.incarnation.replace(incarnation) {
            if member.retired.len() == RETIRED {
                member.retired.remove(0);
            }
            member.retired.push(old);
        }
        let returned = member.state == State::Lost;
        if member.state == State::Expected {
            member.state = State::Here;
        }
        Some(Arrival { new_incarnation, returned })
    }

    pub fn heard(&mut self, rank: u32, incarnation: u64, now: u64) {
        let member = &mut self.seats[rank as usize];
        if member.incarnation == Some(incarnation) {
            member.heard = member.heard.max(now);
        }
    }

    /// One of its connections has closed.
    pub fn left(&mut self, rank: u32, incarnation: u64, now: u64) {
        let member = &mut self.seats[rank as usize];
        if member.incarnation == Some(incarnation) {
            member.connections = member.connections.saturating_sub(1);
            member.heard = member.heard.max(now);
        }
    }

    pub fn done(&mut self, rank: u32) {
        self.seats[rank as usize].state = State::Done;
    }

    pub fn lose(&mut self, rank: u32) {
        self.seats[rank as usize].state = State::Lost;
    }

    /// Those whose time is over now. The caller decides what follows, and calls `lose`.
    pub fn overdue(&self, now: u64) -> Vec<u32> {
        let overdue = |member: &Member| {
            let quiet = now.saturating_sub(member.heard);
            match member.state {
                State::Here => quiet > self.patience.grace,
                State::Expected => quiet > self.patience.arrive,
                State::Lost | State::Done => false,
            }
        };
        (0..).zip(&self.seats).filter(|(_, member)| overdue(member)).map(|(rank, _)| rank).collect()
    }

    /// Those that are neither done nor lost.
    pub fn counted(&self) -> Vec<u32> {
        let counted = |member: &Member| matches!(member.state, State::Here | State::Expected);
        (0..).zip(&self.seats).filter(|(_, member)| counted(member)).map(|(rank, _)| rank).collect()
    }

    pub fn in_state(&self, state: State) -> Vec<u32> {
        (0..).zip(&self.seats).filter(|(_, member)| member.state == state).map(|(rank, _)| rank).collect()
    }

    /// One trainer and how it is, for people.
    pub fn words(&self, rank: u32, now: u64) -> String {
        let member = &self.seats[rank as usize];
        let seconds = now.saturating_sub(member.heard) / 1000;
        match member.state {
            State::Expected => format!("trainer {rank} (not here yet, for {seconds} s)"),
            State::Lost if member.incarnation.is_none() => format!("trainer {rank} (lost: it never came)"),
            State::Lost => format!("trainer {rank} (lost: nothing heard for {seconds} s)"),
            State::Done => format!("trainer {rank} (done)"),
            State::Here if member.connections == 0 => format!("trainer {rank} (gone for {seconds} s)"),
            State::Here if now.saturating_sub(member.heard) > self.patience.silent => {
                format!("trainer {rank} (silent for {seconds} s)")
            }
            State::Here => format!("trainer {rank} (at work)"),
        }
    }

    /// Several of them; a long list is cut.
    pub fn words_for(&self, ranks: &[u32], now: u64) -> String {
        const NAMED: usize = 8;
        let mut words: Vec<String> = ranks.iter().take(NAMED).map(|rank| self.words(*rank, now)).collect();
        if ranks.len() > NAMED {
            words.push(format!("{} more", ranks.len() - NAMED));
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { grace: 60_000, arrive: 600_000, silent: 10_000 };

    fn members() -> Members {
        Members::new(3, PATIENCE, 0)
    }

    #[test]
    fn a_trainer_is_lost_after_the_grace_and_comes_back() {
        let mut members = members();
        assert_eq!(members.arrives(1, 7, 1_000), Some(Arrival { new_incarnation: true, returned: false }));
        members.heard(1, 7, 5_000);
        members.left(1, 7, 6_000);
        assert_eq!(members.words(1, 9_000), "trainer 1 (gone for 3 s)");
        assert_eq!(members.overdue(66_000), Vec::<u32>::new());
        assert_eq!(members.overdue(66_001), [1]);
        members.lose(1);
        assert_eq!(members.overdue(70_000), Vec::<u32>::new(), "it is said once");
        assert_eq!((members.counted(), members.in_state(State::Lost)), (vec![0, 2], vec![1]));
        assert_eq!(members.arrives(1, 8, 80_000), Some(Arrival { new_incarnation: true, returned: true }));
        assert_eq!(members.state(1), State::Here);
    }

    #[test]
    fn who_never_came_is_given_longer() {
        let members = members();
        assert_eq!(members.words(2, 61_000), "trainer 2 (not here yet, for 61 s)");
        assert_eq!((members.overdue(600_000).len(), members.overdue(600_001).len()), (0, 3));
    }

    #[test]
    fn silence_has_words_before_it_has_consequences() {
        let mut members = members();
        members.arrives(0, 1, 0);
        assert_eq!(members.words(0, 10_000), "trainer 0 (at work)");
        assert_eq!(members.words(0, 12_000), "trainer 0 (silent for 12 s)");
        assert_eq!(
            members.words_for(&[0, 2], 12_000),
            "trainer 0 (silent for 12 s), trainer 2 (not here yet, for 12 s)"
        );
    }

    #[test]
    fn a_replaced_process_stays_out_and_changes_nothing() {
        let mut members = members();
        members.arrives(0, 1, 0);
        members.arrives(0, 1, 0);
        members.arrives(0, 2, 10);
        assert_eq!(members.arrives(0, 1, 20), None);
        members.heard(0, 1, 50_000);
        members.left(0, 1, 50_000);
        assert_eq!(members.connections(0), 1);
        assert_eq!(members.overdue(60_011), [0], "the old one's heartbeats do not count");
    }

    #[test]
    fn done_is_final_for_a_process_but_not_for_its_successor() {
        let mut members = members();
        members.arrives(0, 1, 0);
        members.done(0);
        members.arrives(0, 1, 5);
        assert_eq!(members.state(0), State::Done);
        members.arrives(0, 2, 9);
        assert_eq!(members.state(0), State::Here);
    }

    #[test]
    fn a_restart_remembers_who_was_who_and_blames_nobody() {
        let mut members = members();
        members.arrives(0, 1, 0);
        members.arrives(0, 2, 0);
        members.done(1);
        members.lose(2);
        let again = Members::restore(PATIENCE, members.remember(), 100_000);
        assert_eq!([0, 1, 2].map(|rank| again.state(rank)), [State::Here, State::Done, State::Lost]);
        assert_eq!(again.clone().arrives(0, 1, 100_000), None);
        assert_eq!((again.overdue(160_000), again.overdue(160_001)), (vec![], vec![0]));
    }
}
