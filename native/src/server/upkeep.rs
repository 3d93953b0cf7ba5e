//! What a server does by itself: notice who is lost, begin snapshots, know when its work is over, and tell how it is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::config::OnLoss;
use super::engine::{Core, Engine};
use super::members::State;
use super::records::Decision;
use crate::table::Table;

/// How often it looks round.
const ROUND: Duration = Duration::from_millis(100);
/// After the last trainer is done, answers that were lost can be asked for again for so long, in milliseconds.
const LINGER: u64 = 2_000;

/// After a snapshot that could not be written, the log may grow for so long, in milliseconds.
const SECOND_TRY: u64 = 10_000;

/// How the job ended, as this server sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Every trainer is done, or those are that were to go on without the lost ones.
    pub ok: bool,
    pub text: String,
    pub done: Vec<u32>,
    pub lost: Vec<u32>,
    /// It could not keep what it was told: another one in its place goes on, once there is room.
    pub log_failed: bool,
}

/// Looks after the engine until it is stopped or dropped.
pub(super) fn start(engine: &Arc<Engine>) -> Result<(), String> {
    let weak: Weak<Engine> = Arc::downgrade(engine);
    let round = move || {
        while let Some(engine) = weak.upgrade() {
            if engine.stopped.load(Ordering::SeqCst) {
                return;
            }
            engine.look_round();
            drop(engine);
            std::thread::park_timeout(ROUND);
        }
    };
    let spawned = std::thread::Builder::new().name("umiak-upkeep".to_owned()).spawn(round);
    let thread = spawned.map_err(|error| format!("a thread can't be started: {error}"))?;
    engine.threads().push(thread);
    Ok(())
}

impl Engine {
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_round(self: &Arc<Self>) {
        self.notice_losses();
        self.drop_stale();
        if let Some(log) = self.log.get()
            && log.failure().is_none()
            && log.bytes() >= self.config.snapshot_bytes.max(1)
            && self.now() >= self.snapshot_after.load(Ordering::Relaxed)
        {
            self.ask_for_snapshot();
        }
        if self.wants_snapshot.swap(false, Ordering::SeqCst) && !self.snapshotting.swap(true, Ordering::SeqCst) {
            let engine = self.clone();
            let write = move || {
                let outcome = engine.snapshot();
                if outcome.is_err() {
                    engine.snapshot_after.store(engine.now() + SECOND_TRY, Ordering::Relaxed);
                }
                *engine.snapshot_failure.lock().unwrap_or_else(PoisonError::into_inner) = outcome.err();
                engine.snapshotting.store(false, Ordering::SeqCst);
            };
            match std::thread::Builder::new().name("umiak-snapshot".to_owned()).spawn(write) {
                Ok(thread) => {
                    let mut threads = self.threads();
                    threads.retain(|thread| !thread.is_finished());
                    threads.push(thread);
                }
                Err(_) => self.snapshotting.store(false, Ordering::SeqCst),
            }
        }
    }

    /// A snapshot is begun with the next look round.
    pub(super) fn ask_for_snapshot(&self) {
        self.wants_snapshot.store(true, Ordering::SeqCst);
    }

    fn notice_losses(&self) {
        let overdue = {
            let mut core = self.core();
            let now = self.hear(&mut core);
            core.members.overdue(now)
        };
        if overdue.is_empty() {
            return;
        }
        // A loss is an operation like any other when the others go on.
        let Some(_pass) = self.pass(ROUND) else { return };
        let mut core = self.core();
        let now = self.hear(&mut core);
        let overdue = core.members.overdue(now);
        match self.config.on_loss {
            OnLoss::Wait if overdue.len() < core.members.counted().len() => return,
            OnLoss::Wait | OnLoss::Fail => overdue.into_iter().for_each(|rank| core.members.lose(rank)),
            OnLoss::GoOn => {
                for rank in overdue {
                    if self.decide(&Decision::Lost { rank }).is_err() {
                        return;
                    }
                    self.apply_lost(&mut core, rank);
                }
                let _ = self.open_meetings(&mut core);
            }
        }
        drop(core);
        self.changed.notify_all();
    }

    /// The end, if it has come.
    fn judge(&self, core: &mut Core) -> Option<Verdict> {
        if core.verdict.is_none() {
            core.verdict = self.verdict(core);
        }
        core.verdict.clone()
    }

    fn verdict(&self, core: &mut Core) -> Option<Verdict> {
        let now = self.hear(core);
        let done = core.members.in_state(State::Done);
        let lost = core.members.in_state(State::Lost);
        let bad = |text: String, log_failed: bool| {
            Some(Verdict { ok: false, text, done: done.clone(), lost: lost.clone(), log_failed })
        };
        if let Some(failure) = self.log.get().and_then(|log| log.failure())
            && !self.stopped.load(Ordering::SeqCst)
        {
            return bad(format!("the log failed: {failure}"), true);
        }
        let connected = |rank: &u32| core.members.connections(*rank) > 0;
        let counted = core.members.counted();
        if let Some(failed) = &core.failed
            && !counted.iter().any(connected)
        {
            return bad(failed.clone(), false);
        }
        let stopped = self.stopped.load(Ordering::SeqCst);
        if !counted.is_empty() {
            let text = "the server was stopped before all trainers were done".to_owned();
            return if stopped { bad(text, false) } else { None };
        }
        let text = match lost.is_empty() {
            true => format!("all {} trainers are done", done.len()),
            false => {
                let words = core.members.words_for(&lost, now);
                format!("{} of {} trainers are done; lost: {words}", done.len(), self.config.world)
            }
        };
        // One that has just said that it is done must get its answer, whatever the verdict is.
        if !stopped && now.saturating_sub(core.last_done) < LINGER && done.iter().any(connected) {
            return None;
        }
        let ok = lost.is_empty() || (self.config.on_loss == OnLoss::GoOn && !done.is_empty());
        Some(Verdict { ok, text, done, lost, log_failed: false })
    }

    /// Waits until the server's work is over.
    pub fn wait_over(&self, timeout: Duration) -> Option<Verdict> {
        let until = Instant::now() + timeout;
        let mut core = self.core();
        loop {
            if let Some(verdict) = self.judge(&mut core) {
                return Some(verdict);
            }
            let left = until.saturating_duration_since(Instant::now()).min(ROUND);
            if left.is_zero() {
                return None;
            }
            core = core.wait_timeout(&self.changed, left);
        }
    }

    /// Ends everything that waits, and puts the log on disk. Twice is fine.
    pub fn stop(&self) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.changed.notify_all();
        // Whoever writes a snapshot gives up at the next shard. Nobody else has the state directory when this is over.
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            thread.thread().unpark();
            let _ = thread.join();
        }
        drop(self.writing.lock());
        if let Some(log) = self.log.get() {
            let _ = log.wait_durable(log.last());
        }
    }

    pub fn status(&self) -> Value {
        let tables: serde_json::Map<String, Value> = self
            .tables()
            .all()
            .map(|entry| {
                let about = match &entry.table {
                    Table::Sparse(table) => {
                        let memory = table.memory();
                        json!({
                            "kind": "sparse",
                            "number": entry.number,
                            "rows": table.len(),
                            "bytes": memory.total(),
                            "learning_rate": table.learning_rate(),
                        })
                    }
                    Table::Dense(table) => json!({
                        "kind": "dense",
                        "number": entry.number,
                        "elements": table.range().len(),
                        "bytes": table.bytes(),
                        "is_set": table.is_set(),
                        "learning_rate": table.learning_rate(),
                    }),
                };
                (entry.name.clone(), about)
            })
            .collect();
        let applied: Vec<u64> = (0..self.config.world as u32).map(|rank| self.lane(rank).last_seq).collect();
        let log = self.log.get().map(|log| {
            let snapshot_failure = self.snapshot_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
            json!({
                "last": log.last(),
                "durable": log.durable(),
                "bytes": log.bytes(),
                "failure": log.failure(),
                "replayed": self.replayed.load(Ordering::Relaxed),
                "torn_bytes": self.torn.load(Ordering::Relaxed),
                "snapshots": self.snapshots.load(Ordering::Relaxed),
                "snapshot_failure": snapshot_failure,
            })
        });
        let mut core = self.core();
        let now = self.hear(&mut core);
        let trainers: Vec<Value> = (0..self.config.world as u32)
            .map(|rank| {
                let standing = core.steps.standing(rank);
                json!({
                    "rank": rank,
                    "state": core.members.state(rank),
                    "words": core.members.words(rank, now),
                    "connections": core.members.connections(rank),
                    "next": standing.next,
                    "prepared": standing.prepared.is_some(),
                    "joined": standing.joined,
                    "applied": applied[rank as usize],
                    "waits": core.waiting.get(&rank),
                })
            })
            .collect();
        let waits_for = core.steps.waits_for();
        json!({
            "server": self.config.server,
            "servers": self.config.servers,
            "shards": [self.owned.start, self.owned.end],
            "job": self.config.job,
            "life": format!("{:016x}", self.life),
            "up_s": now as f64 / 1000.0,
            "step": core.steps.step(),
            "step_waits_for": waits_for,
            "tables": tables,
            "trainers": trainers,
            "log": log,
            "requests": self.requests.load(Ordering::Relaxed),
            "traffic": self.traffic.told(),
            "verdict": core.verdict,
        })
    }
}
