//! The state of one server behind its connections: `Service` is carried out here. Rooms beside this one: `operations` takes
//! requests for changes, `applications` makes them, live and in a replay alike; `waiting` is how a request waits and what it
//! says meanwhile; `snapshots`, `recovery` and `loading` are what goes to disk and comes back; `upkeep` looks after members
//! and the end.
//!
//! The order of locks is written down, and checked, in `locks`; none is held while a request waits for others.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::applications::{Piece, Shelf};
use super::barriers::Barriers;
use super::config::EngineConfig;
use super::counters::Counters;
use super::gate::{Alone, Gate, Pass};
use super::gathers::Gathers;
use super::loading::Staged;
use super::locks::{self, Guard, Lock, Rank, Ranked};
use super::members::Members;
use super::posts::Posts;
use super::records::Decision;
use super::registry::{Entry, Registry};
use super::service::{Identity, Kind, Refusal, Reply, RequestError, Service};
use super::steps::Steps;
use super::traffic::Traffic;
use super::upkeep::Verdict;
use super::waits::Waits;
use super::{lane::Lane, refusals};
use crate::keys::Sharding;
use crate::store::log::Log;
use crate::wire::frame::{Header, Op, flag};

pub struct Engine {
    pub(super) config: EngineConfig,
    pub(super) sharding: Sharding,
    /// The virtual shards that are this server's.
    pub(super) owned: Range<usize>,
    /// Tells this run of the server from earlier and later ones.
    pub(super) life: u64,
    pub(super) begun: Instant,
    pub(super) gate: Gate,
    pub(super) registry: RwLock<Registry>,
    pub(super) lanes: Vec<Lock<Lane>>,
    /// When something was last heard of each rank, in milliseconds since `begun`.
    pub(super) signs: Vec<AtomicU64>,
    pub(super) core: Lock<Core>,
    /// Something in the core has changed.
    pub(super) changed: Condvar,
    /// A copy of the core's step, for those who need not wait.
    pub(super) step: AtomicU64,
    /// Empty without a state directory, and while the log is replayed.
    pub(super) log: OnceLock<Log>,
    /// Held by whoever writes tables to disk: they are frozen for one at a time.
    pub(super) writing: Lock<()>,
    /// A checkpoint that was read and checked, and waits for the word to take its place.
    pub(super) staged: Mutex<Option<Staged>>,
    /// What looks after the engine, to be waited for when it stops.
    pub(super) threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    pub(super) snapshotting: AtomicBool,
    pub(super) wants_snapshot: AtomicBool,
    pub(super) snapshots: AtomicU64,
    /// Not before this moment, because the last one failed.
    pub(super) snapshot_after: AtomicU64,
    /// Why the last snapshot could not be written.
    pub(super) snapshot_failure: Mutex<Option<String>>,
    pub(super) stopped: AtomicBool,
    pub(super) requests: AtomicU64,
    pub(super) traffic: Traffic,
    pub(super) replayed: AtomicU64,
    /// Bytes at the end of the log that a crash had left unfinished.
    pub(super) torn: AtomicU64,
    pub(super) shelf: Shelf,
}

/// What the ranks of a job share.
pub(super) struct Core {
    pub steps: Steps<Arc<Piece>>,
    pub members: Members,
    pub barriers: Barriers,
    /// Where the log has the newest completion of a barrier.
    pub barrier_lsn: u64,
    pub gathers: Gathers,
    pub posts: Posts,
    pub counters: Counters,
    /// When the last trainer said that it is done.
    pub last_done: u64,
    pub waits: Waits,
    /// A trainer was refused because another one is lost, or because they wait for each other: the job has failed.
    pub failed: Option<String>,
    /// What trainers that have waited for a second or more wait for, by rank.
    pub waiting: BTreeMap<u32, String>,
    pub verdict: Option<Verdict>,
}

impl Engine {
    /// In milliseconds since the server began.
    pub(super) fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// `None` if somebody had the gate alone for all that time.
    pub(super) fn pass(&self, patience: Duration) -> Option<Ranked<Pass<'_>>> {
        locks::take_if(Rank::Gate, || self.gate.enter(patience))
    }

    /// Nothing changes meanwhile.
    pub(super) fn alone(&self) -> Ranked<Alone<'_>> {
        locks::take(Rank::Gate, || self.gate.alone())
    }

    pub(super) fn core(&self) -> Guard<'_, Core> {
        self.core.lock()
    }

    pub(super) fn lane(&self, rank: u32) -> Guard<'_, Lane> {
        self.lanes[rank as usize].lock()
    }

    /// The lane of a connection that is still the one that counts.
    pub(super) fn lane_of(&self, who: &Identity) -> Result<Guard<'_, Lane>, Refusal> {
        let lane = self.lane(who.rank);
        if lane.is_held_by(who) { Ok(lane) } else { Err(refusals::replaced(who.rank)) }
    }

    pub(super) fn tables(&self) -> Registry {
        locks::take(Rank::Registry, || self.registry.read().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    pub(super) fn registry(&self) -> Ranked<RwLockWriteGuard<'_, Registry>> {
        locks::take(Rank::Registry, || self.registry.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn entry(&self, number: u32) -> Result<Arc<Entry>, Refusal> {
        let registry = locks::take(Rank::Registry, || self.registry.read().unwrap_or_else(PoisonError::into_inner));
        registry.get(number).cloned().ok_or_else(|| refusals::unknown_table(number))
    }

    /// Writes to the log, if there is one. 0 is before everything.
    pub(super) fn append(&self, parts: &[&[u8]]) -> Result<u64, Refusal> {
        match self.log.get() {
            Some(log) => log.append(parts).map_err(|failure| refusals::log_failed(&failure)),
            None => Ok(0),
        }
    }

    /// A server whose log has failed is as good as dead to trainers: they wait for the next one.
    fn check_log(&self) -> Result<(), Refusal> {
        match self.log.get() {
            Some(log) if log.has_failed() => Err(refusals::log_failed(&log.failure().unwrap_or_default())),
            _ => Ok(()),
        }
    }

    pub(super) fn decide(&self, decision: &Decision) -> Result<u64, Refusal> {
        self.append(&[&super::records::decision(decision)])
    }

    pub(super) fn wait_durable(&self, lsn: u64) -> Result<(), Refusal> {
        locks::may_wait();
        match self.log.get() {
            Some(log) => log.wait_durable(lsn).map_err(|failure| refusals::log_failed(&failure)),
            None => Ok(()),
        }
    }

    /// What a new connection of a rank does: older ones are cut off, and what they left half done is dropped.
    fn take_lane(&self, who: &Identity) -> Result<(), Refusal> {
        let Some(_pass) = self.pass(Duration::from_secs(3)) else { return Err(refusals::busy()) };
        let mut lane = self.lane(who.rank);
        let mut core = self.core();
        // Two processes may come at once: the last one that took the seat has it.
        if core.members.incarnation(who.rank) != Some(who.incarnation) {
            return Err(refusals::replaced(who.rank));
        }
        lane.take(who);
        if who.kind == Kind::Data && core.steps.has_loose_ends(who.rank) {
            self.decide(&Decision::Untied { rank: who.rank })?;
            self.untie(&mut core, who.rank);
        }
        drop(core);
        self.changed.notify_all();
        Ok(())
    }

    fn welcome_words(&self, who: &Identity) -> Value {
        let tables: serde_json::Map<String, Value> =
            self.tables().all().map(|entry| (entry.name.clone(), json!(entry.number))).collect();
        let mut words = json!({
            "life": format!("{:016x}", self.life),
            "server": self.config.server,
            "servers": self.config.servers,
            "shards": self.config.shards,
            "world": self.config.world,
            "job": self.config.job,
            "log": self.log.get().is_some(),
            "step": self.step.load(Ordering::Acquire),
            "tables": tables,
        });
        if who.kind != Kind::Observer {
            let (applied, durable) = {
                let mut lane = self.lane(who.rank);
                (lane.last_seq, lane.durable_seq(self.log.get()))
            };
            let core = self.core();
            let standing = core.steps.standing(who.rank);
            let done = core.members.state(who.rank) == super::members::State::Done;
            words["applied"] = json!(applied);
            words["durable"] = json!(durable);
            words["committed"] = json!(standing.next.checked_sub(1));
            words["next"] = json!(standing.next);
            words["prepared"] = json!(standing.prepared.is_some());
            words["yours"] = json!(standing.prepared == Some(who.incarnation));
            words["joined"] = json!(standing.joined);
            words["done"] = json!(done);
        }
        words
    }
}

impl Service for Engine {
    fn welcome(&self, who: &Identity) -> Result<Value, Refusal> {
        if self.stopped.load(Ordering::SeqCst) {
            return Err(refusals::stopping());
        }
        if who.kind != Kind::Observer {
            self.check_log()?;
        }
        if who.kind != Kind::Observer {
            if who.rank as usize >= self.config.world {
                return Err(refusals::no_such_rank(who.rank, self.config.world));
            }
            let now = self.now();
            self.signs[who.rank as usize].store(now, Ordering::Relaxed);
            {
                let mut core = self.core();
                let arrival = core.members.arrives(who.rank, who.incarnation, now);
                if arrival.ok_or_else(|| refusals::replaced(who.rank))?.new_incarnation {
                    core.barriers.withdraw(who.rank);
                    core.gathers.withdraw(who.rank);
                }
            }
            let held = self.lane(who.rank).is_held_by(who);
            if !held && let Err(refusal) = self.take_lane(who) {
                self.gone(who);
                return Err(refusal);
            }
        }
        Ok(self.welcome_words(who))
    }

    fn request(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.traffic.count(header);
        if self.stopped.load(Ordering::SeqCst) {
            return Err(refusals::stopping().into());
        }
        let trainer = who.kind != Kind::Observer;
        if trainer {
            drop(self.lane_of(who)?);
            self.signs[who.rank as usize].store(self.now(), Ordering::Relaxed);
        }
        // Beats too: they say how far the disk has come, and it will not come any further.
        if !matches!(header.op, Op::Status | Op::Pull | Op::PullDense) {
            self.check_log()?;
        }
        let in_step = header.flags & flag::STEP != 0;
        match header.op {
            Op::Beat if trainer => {
                let durable_seq = self.durable_seq_of(who);
                Ok(reply.ok(0, durable_seq)?)
            }
            Op::Status => Ok(reply.json(&self.status())?),
            Op::Create => self.create(who, header, payload, reply),
            Op::Pull | Op::PullDense => self.pull(who, header, payload, reply),
            Op::Push | Op::PushDense | Op::SetDense | Op::LearningRate if trainer && in_step => {
                self.step_request(who, header, payload, reply)
            }
            Op::Prepare | Op::Commit | Op::Abort if trainer => self.step_request(who, header, payload, reply),
            Op::Push | Op::PushDense | Op::Add if trainer => self.change(who, header, payload, reply),
            Op::SetDense | Op::Set | Op::LearningRate | Op::Shrink => self.change(who, header, payload, reply),
            Op::Changed if trainer => self.tell_changed(who, header, reply),
            Op::Barrier if trainer => self.barrier(who, payload, reply),
            Op::Gather if trainer => self.gather(who, header, payload, reply),
            Op::Take if trainer => self.take(who, header, payload, reply),
            Op::Post if trainer => self.post(who, header, payload, reply),
            Op::Done if trainer => self.done(who, header, reply),
            Op::Save => self.save(who, payload, reply),
            Op::Load => self.load(who, header, payload, reply),
            op => Err(refusals::not_allowed(format!("{op:?} can't be asked for on this connection")).into()),
        }
    }

    fn gone(&self, who: &Identity) {
        if who.kind != Kind::Observer && (who.rank as usize) < self.config.world {
            let now = self.now();
            self.core().members.left(who.rank, who.incarnation, now);
            // Somebody may wait for it, and will now hear why.
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
#[path = "engine_test.rs"]
mod tests;
