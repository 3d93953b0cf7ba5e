//! Synchronous steps of one server: who has brought what to which step, and when a step is ripe. A decider: no locks, no
//! I/O, no clock; the same calls in the same order give the same steps, which is what a replay of the log relies on.
//!
//! A rank walks each step in this order; `next` is the step it works on:
//!
//! ```text
//!   offer*  ->  prepare  ->  commit        next + 1; what was offered is sealed
//!     |           |
//!     +-----------+---->  abort            what was offered is forgotten, `next` stays
//! ```
//!
//! A client commits only when every server has prepared, so a rank that dies leaves a step that is either committed on some
//! server (then it can be committed on all) or on none (then it can be aborted on all). When every rank that takes part has
//! committed the server's step, the step is ripe and is taken out in the order of ranks.

use std::collections::VecDeque;
use std::fmt;

/// What one rank has in hand.
#[derive(Clone, Debug)]
struct Seat<P> {
    /// Takes part: the server's step waits for it.
    joined: bool,
    /// Has joined again and not committed since: it may still choose a later step to begin with.
    fresh: bool,
    next: u64,
    /// By which life of the trainer its step was prepared. A kill can bring back what an abort had removed, so a trainer
    /// has to know whether it is its own.
    prepared: Option<u64>,
    offered: Vec<P>,
    /// Committed and not yet applied, from the server's step on.
    sealed: VecDeque<(u64, Vec<P>)>,
}

#[derive(Clone, Debug)]
pub struct Steps<P> {
    step: u64,
    seats: Vec<Seat<P>>,
}

/// What came of a call that was in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It counts.
    New,
    /// It was here before: a repetition, which changes nothing.
    Before,
}

/// A call out of order. None of them changes anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// The rank is ahead of itself: `next` comes first.
    Ahead {
        rank: u32,
        step: u64,
        next: u64,
    },
    /// It would undo what counts already.
    Committed {
        rank: u32,
        step: u64,
    },
    NotPrepared {
        rank: u32,
        step: u64,
    },
    /// The rank was given up and has not joined again.
    Outside {
        rank: u32,
        step: u64,
    },
    /// Too late to join with this step.
    Past {
        step: u64,
        now: u64,
    },
}

impl fmt::Display for Disorder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disorder::Ahead { rank, step, next } => {
                write!(to, "trainer {rank} is at step {step}, but its step {next} is not committed here")
            }
            Disorder::Committed { rank, step } => {
                write!(to, "step {step} of trainer {rank} is committed here and can't be aborted")
            }
            Disorder::NotPrepared { rank, step } => {
                write!(to, "step {step} of trainer {rank} was not prepared before it was committed")
            }
            Disorder::Outside { rank, step } => {
                write!(to, "trainer {rank} was given up and takes no part in step {step} until it joins again")
            }
            Disorder::Past { step, now } => write!(to, "step {step} is past: this server is at step {now}"),
        }
    }
}

/// One rank, as told to a client that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub next: u64,
    pub prepared: Option<u64>,
    pub joined: bool,
}

/// One rank's part of a ripe step.
pub type Part<P> = (u32, Vec<P>);

/// What a snapshot keeps of a rank: all of it.
#[derive(Clone, Debug)]
pub struct Kept<P> {
    pub joined: bool,
    pub fresh: bool,
    pub next: u64,
    pub prepared: Option<u64>,
    pub offered: Vec<P>,
    pub sealed: Vec<(u64, Vec<P>)>,
}

impl<P> Steps<P> {
    pub fn new(world: usize) -> Self {
        Self::starting_at(0, world)
    }

    /// All ranks begin with `step`.
    pub fn starting_at(step: u64, world: usize) -> Self {
        let seat = || Seat {
            joined: true,
            fresh: false,
            next: step,
            prepared: None,
            offered: Vec::new(),
            sealed: VecDeque::new(),
        };
        Self { step, seats: (0..world).map(|_| seat()).collect() }
    }

    /// The step that is applied next: all before it are in the tables.
    pub fn step(&self) -> u64 {
        self.step
    }

    pub fn standing(&self, rank: u32) -> Standing {
        let seat = &self.seats[rank as usize];
        Standing { next: seat.next, prepared: seat.prepared, joined: seat.joined }
    }

    pub fn would_keep(&self, rank: u32, step: u64) -> Result<Outcome, Disorder> {
        let seat = &self.seats[rank as usize];
        if step < seat.next || (step == seat.next && seat.prepared.is_some()) {
            return Ok(Outcome::Before);
        }
        if !seat.joined {
            return Err(Disorder::Outside { rank, step });
        }
        if step > seat.next {
            return Err(Disorder::Ahead { rank, step, next: seat.next });
        }
        Ok(Outcome::New)
    }

    /// Keeps a piece of the rank's step.
    pub fn offer(&mut self, rank: u32, step: u64, piece: P) -> Result<Outcome, Disorder> {
        let outcome = self.would_keep(rank, step)?;
        if outcome == Outcome::New {
            self.seats[rank as usize].offered.push(piece);
        }
        Ok(outcome)
    }

    /// The rank's step is whole, says this life of it.
    pub fn prepare(&mut self, rank: u32, step: u64, life: u64) -> Result<Outcome, Disorder> {
        let outcome = self.would_keep(rank, step)?;
        if outcome == Outcome::New {
            self.seats[rank as usize].prepared = Some(life);
        }
        Ok(outcome)
    }

    pub fn would_commit(&self, rank: u32, step: u64) -> Result<Outcome, Disorder> {
        let seat = &self.seats[rank as usize];
        match step {
            _ if step < seat.next => Ok(Outcome::Before),
            _ if !seat.joined => Err(Disorder::Outside { rank, step }),
            _ if step > seat.next => Err(Disorder::Ahead { rank, step, next: seat.next }),
            _ if seat.prepared.is_none() => Err(Disorder::NotPrepared { rank, step }),
            _ => Ok(Outcome::New),
        }
    }

    /// Every server has prepared the rank's step: it counts.
    pub fn commit(&mut self, rank: u32, step: u64) -> Result<Outcome, Disorder> {
        let outcome = self.would_commit(rank, step)?;
        if outcome == Outcome::New {
            let seat = &mut self.seats[rank as usize];
            let pieces = std::mem::take(&mut seat.offered);
            seat.sealed.push_back((step, pieces));
            seat.next += 1;
            seat.prepared = None;
            seat.fresh = false;
        }
        Ok(outcome)
    }

    pub fn would_abort(&self, rank: u32, step: u64) -> Result<Outcome, Disorder> {
        let seat = &self.seats[rank as usize];
        if !seat.joined || (seat.fresh && step > seat.next) {
            if step < self.step {
                return Err(Disorder::Past { step, now: self.step });
            }
            return Ok(Outcome::New);
        }
        if step < seat.next {
            return Err(Disorder::Committed { rank, step });
        }
        if step > seat.next {
            return Err(Disorder::Ahead { rank, step, next: seat.next });
        }
        Ok(if seat.prepared.is_some() || !seat.offered.is_empty() { Outcome::New } else { Outcome::Before })
    }

    /// Forgets what the rank brought to a step that it has not committed. A rank that had been given up joins again with
    /// this step.
    pub fn abort(&mut self, rank: u32, step: u64) -> Result<Outcome, Disorder> {
        let outcome = self.would_abort(rank, step)?;
        if outcome == Outcome::New {
            let seat = &mut self.seats[rank as usize];
            seat.offered.clear();
            seat.prepared = None;
            if !seat.joined {
                seat.joined = true;
                seat.fresh = true;
            }
            seat.next = step;
        }
        Ok(outcome)
    }

    /// Whether the rank has offered pieces that are not prepared: a new connection brings them again.
    pub fn has_loose_ends(&self, rank: u32) -> bool {
        let seat = &self.seats[rank as usize];
        seat.prepared.is_none() && !seat.offered.is_empty()
    }

    /// The rank takes part no more (it is done, or given up). What it has committed still counts.
    pub fn leave(&mut self, rank: u32) {
        let seat = &mut self.seats[rank as usize];
        seat.joined = false;
        seat.fresh = false;
        seat.prepared = None;
        seat.offered.clear();
    }

    /// The ranks without which the server's step can't be applied.
    pub fn waits_for(&self) -> Vec<u32> {
        let missing = |seat: &Seat<P>| seat.joined && seat.next <= self.step;
        (0..).zip(&self.seats).filter(|(_, seat)| missing(seat)).map(|(rank, _)| rank).collect()
    }

    /// The server's step with its parts in the order of ranks, if it is ripe; the server is then at the next one.
    pub fn take_ripe(&mut self) -> Option<(u64, Vec<Part<P>>)> {
        let step = self.step;
        let has_part = |seat: &Seat<P>| seat.sealed.front().is_some_and(|(sealed, _)| *sealed == step);
        // Where everybody begins later, the step is empty and is passed over.
        let wanted = self.seats.iter().any(|seat| has_part(seat) || (seat.joined && seat.next > step));
        if !wanted || self.seats.iter().any(|seat| seat.joined && seat.next <= step) {
            return None;
        }
        let mut parts = Vec::new();
        for (rank, seat) in (0..).zip(&mut self.seats) {
            if has_part(seat)
                && let Some((_, pieces)) = seat.sealed.pop_front()
            {
                parts.push((rank, pieces));
            }
        }
        self.step += 1;
        Some((step, parts))
    }
}

impl<P: Clone> Steps<P> {
    pub fn keep(&self) -> (u64, Vec<Kept<P>>) {
        let kept = |seat: &Seat<P>| Kept {
            joined: seat.joined,
            fresh: seat.fresh,
            next: seat.next,
            prepared: seat.prepared,
            offered: seat.offered.clone(),
            sealed: seat.sealed.iter().cloned().collect(),
        };
        (self.step, self.seats.iter().map(kept).collect())
    }

    pub fn restore(step: u64, kept: Vec<Kept<P>>) -> Self {
        let seat = |kept: Kept<P>| Seat {
            joined: kept.joined,
            fresh: kept.fresh,
            next: kept.next,
            prepared: kept.prepared,
            offered: kept.offered,
            sealed: kept.sealed.into(),
        };
        Self { step, seats: kept.into_iter().map(seat).collect() }
    }
}

#[cfg(test)]
#[path = "steps_test.rs"]
mod tests;
