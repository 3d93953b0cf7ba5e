//! The state of one server behind its connections, in groups that each know how to keep their own in order. What is done
//! with them is beside: `requests` says which request goes where; `operations` takes those for changes, `applications` makes
//! them, live and in a replay alike; `waiting` is how a request waits and what it says meanwhile; `snapshots`, `recovery` and
//! `loading` are what goes to disk and comes back; `upkeep` looks after members and the end.
//!
//! The order of locks is written down, and checked, in `locks`; none is held while a request waits for others.

use std::time::Duration;

use super::config::EngineConfig;
use super::coordination::{Coordination, Core};
use super::durability::Durability;
use super::gate::{Alone, Gate, Pass};
use super::lifetime::Lifetime;
use super::locks::{self, Guard, Rank, Ranked};
use super::pieces::BufferPool;
use super::registry::Tables;
use super::service::Identity;
use super::session::Sessions;
use super::staging::Staging;
use super::traffic::Traffic;

pub struct Engine {
    pub(super) config: EngineConfig,
    pub(super) lifetime: Lifetime,
    pub(super) gate: Gate,
    pub(super) tables: Tables,
    pub(super) sessions: Sessions,
    pub(super) coordination: Coordination,
    pub(super) durability: Durability,
    pub(super) staging: Staging,
    pub(super) traffic: Traffic,
    pub(super) buffers: BufferPool,
}

impl Engine {
    /// `None` if somebody had the gate alone for all that time.
    pub(super) fn pass(&self, patience: Duration) -> Option<Ranked<Pass<'_>>> {
        locks::take_if(Rank::Gate, || self.gate.enter(patience))
    }

    /// Nothing changes meanwhile.
    pub(super) fn alone(&self) -> Ranked<Alone<'_>> {
        locks::take(Rank::Gate, || self.gate.alone())
    }

    pub(super) fn core(&self) -> Guard<'_, Core> {
        self.coordination.lock()
    }

    /// Signs of life that came since the core last looked; returns the time.
    pub(super) fn hear(&self, core: &mut Core) -> u64 {
        for (rank, heard) in self.sessions.heard() {
            if let Some(incarnation) = core.members.incarnation(rank) {
                core.members.heard(rank, incarnation, heard);
            }
        }
        self.lifetime.now()
    }

    pub(super) fn durable_seq_of(&self, who: &Identity) -> u64 {
        self.sessions.durable_seq(who, self.durability.log())
    }
}
