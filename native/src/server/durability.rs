//! What a server does so that a restart comes back with everything: its log, and the right to write tables to disk.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::locks::{self, Guard, Lock, Rank};
use super::records::{self, Decision};
use super::refusals;
use super::schedule::Schedule;
use super::service::{Refusal, Request};
use crate::store::log::Log;

pub struct Durability {
    /// Empty without a state directory, and while the log is replayed.
    log: OnceLock<Log>,
    /// Held while tables are written to disk: they are frozen for one writer at a time.
    writing: Lock<()>,
    /// When snapshots are written.
    pub schedule: Schedule,
    replayed: AtomicU64,
    /// Bytes at the end of the log that a crash had left unfinished.
    torn: AtomicU64,
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            log: OnceLock::new(),
            writing: Lock::new(Rank::Writing, ()),
            schedule: Schedule::default(),
            replayed: AtomicU64::new(0),
            torn: AtomicU64::new(0),
        }
    }
}

impl Durability {
    /// From now on changes are logged. Called once, before anybody else has the engine.
    pub fn begin(&self, log: Log, torn: u64) {
        self.torn.store(torn, Ordering::Relaxed);
        let _ = self.log.set(log);
    }

    pub fn count_replayed(&self) {
        self.replayed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn log(&self) -> Option<&Log> {
        self.log.get()
    }

    /// Writes to the log, if there is one. 0 is before everything.
    pub fn append(&self, parts: &[&[u8]]) -> Result<u64, Refusal> {
        match self.log() {
            Some(log) => log.append(parts).map_err(|failure| refusals::log_failed(&failure)),
            None => Ok(0),
        }
    }

    pub fn append_request(&self, request: Request<'_>) -> Result<u64, Refusal> {
        self.append(&[&records::operation_head(request.author(), request.header), request.payload])
    }

    pub fn decide(&self, decision: &Decision) -> Result<u64, Refusal> {
        self.append(&[&records::decision(decision)])
    }

    /// The newest record.
    pub fn last(&self) -> u64 {
        self.log().map_or(0, Log::last)
    }

    pub fn wait(&self, lsn: u64) -> Result<(), Refusal> {
        locks::may_wait();
        match self.log() {
            Some(log) => log.wait_durable(lsn).map_err(|failure| refusals::log_failed(&failure)),
            None => Ok(()),
        }
    }

    /// A server whose log has failed is as good as dead to trainers: they wait for the next one.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.log() {
            Some(log) if log.has_failed() => Err(refusals::log_failed(&log.failure().unwrap_or_default())),
            _ => Ok(()),
        }
    }

    pub fn failure(&self) -> Option<String> {
        self.log()?.failure()
    }

    /// The right to write tables to disk, or to do what must not happen meanwhile.
    pub fn write(&self) -> Guard<'_, ()> {
        self.writing.lock()
    }

    /// The same, if nobody has it.
    pub fn try_write(&self) -> Option<Guard<'_, ()>> {
        self.writing.try_lock()
    }

    pub fn status(&self) -> Option<Value> {
        let log = self.log()?;
        Some(json!({
            "last": log.last(),
            "durable": log.durable(),
            "bytes": log.bytes(),
            "failure": log.failure(),
            "replayed": self.replayed.load(Ordering::Relaxed),
            "torn_bytes": self.torn.load(Ordering::Relaxed),
            "snapshots": self.schedule.written(),
            "snapshot_failure": self.schedule.failure(),
        }))
    }
}
