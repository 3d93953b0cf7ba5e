//! What a server does by itself: notice who is lost, begin snapshots, know when its work is over, and tell how it is.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::config::OnLoss;
use super::coordination::Core;
use super::engine::Engine;
use super::members::State;
use super::records::Decision;
use super::verdict::Verdict;
use crate::table::Table;

/// How often it looks round.
const ROUND: Duration = Duration::from_millis(100);
/// After the last trainer is done, answers that were lost can be asked for again for so long, in milliseconds.
const LINGER: u64 = 2_000;

/// Looks after the engine until it is stopped or dropped.
pub(super) fn start(engine: &Arc<Engine>) -> Result<(), String> {
    let weak: Weak<Engine> = Arc::downgrade(engine);
    let round = move || {
        while let Some(engine) = weak.upgrade() {
            if engine.lifetime.is_stopped() {
                return;
            }
            engine.look_round();
            drop(engine);
            std::thread::park_timeout(ROUND);
        }
    };
    let spawned = engine.lifetime.spawn("umiak-upkeep", round);
    spawned.map_err(|error| format!("a thread can't be started: {error}"))
}

impl Engine {
    fn look_round(self: &Arc<Self>) {
        self.notice_losses();
        self.staging.drop_stale(self.lifetime.now());
        if let Some(log) = self.durability.log()
            && self.durability.schedule.is_free(self.lifetime.now())
            && log.failure().is_none()
            && log.bytes() >= self.config.snapshot_bytes.max(1)
        {
            self.durability.schedule.ask();
        }
        if self.durability.schedule.begin() {
            let engine = self.clone();
            let write = move || {
                let outcome = engine.snapshot();
                engine.durability.schedule.end(outcome, engine.lifetime.now());
            };
            if let Err(error) = self.lifetime.spawn("umiak-snapshot", write) {
                self.durability.schedule.end(Err(error.to_string()), self.lifetime.now());
            }
        }
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
                    if self.durability.decide(&Decision::Lost { rank }).is_err() {
                        return;
                    }
                    self.apply_lost(&mut core, rank);
                }
                let _ = self.open_meetings(&mut core);
            }
        }
        drop(core);
        self.coordination.notify();
    }

    /// The end, if it has come.
    fn judge(&self, core: &mut Core) -> Option<Verdict> {
        if core.ending.verdict.is_none() {
            core.ending.verdict = self.verdict(core);
        }
        core.ending.verdict.clone()
    }

    fn verdict(&self, core: &mut Core) -> Option<Verdict> {
        let now = self.hear(core);
        let done = core.members.in_state(State::Done);
        let lost = core.members.in_state(State::Lost);
        let bad = |text: String, log_failed: bool| {
            Some(Verdict { ok: false, text, done: done.clone(), lost: lost.clone(), log_failed })
        };
        let failure = self.durability.failure();
        // Looked at after the log: one that fails while the server is stopped is no reason.
        let stopped = self.lifetime.is_stopped();
        if let Some(failure) = failure
            && !stopped
        {
            return bad(format!("the log failed: {failure}"), true);
        }
        let connected = |rank: &u32| core.members.connections(*rank) > 0;
        let counted = core.members.counted();
        if let Some(failed) = core.ending.failed()
            && !counted.iter().any(connected)
        {
            return bad(failed.to_owned(), false);
        }
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
        if !stopped && now.saturating_sub(core.ending.last_done) < LINGER && done.iter().any(connected) {
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
            core = self.coordination.wait(core, left);
        }
    }

    /// Ends everything that waits, and puts the log on disk. Twice is fine.
    pub fn stop(&self) {
        if !self.lifetime.stop() {
            return;
        }
        self.coordination.notify();
        // A snapshot that is being written is given up at the next shard. Nobody else has the state directory when this is
        // over.
        self.lifetime.join();
        drop(self.durability.write());
        if let Some(log) = self.durability.log() {
            let _ = log.wait_durable(log.last());
        }
    }

    pub fn status(&self) -> Value {
        let tables: serde_json::Map<String, Value> = self
            .tables
            .registry()
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
        let applied = self.sessions.applied();
        let log = self.durability.status();
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
                    "waits": core.waits.told(rank),
                })
            })
            .collect();
        let owned = self.tables.owned();
        let waits_for = core.steps.waits_for();
        json!({
            "server": self.config.server,
            "servers": self.config.servers,
            "shards": [owned.start, owned.end],
            "job": self.config.job,
            "life": self.lifetime.name(),
            "up_s": now as f64 / 1000.0,
            "step": core.steps.step(),
            "step_waits_for": waits_for,
            "tables": tables,
            "trainers": trainers,
            "log": log,
            "requests": self.traffic.requests(),
            "traffic": self.traffic.told(),
            "latencies": self.traffic.latencies(),
            "verdict": core.ending.verdict,
        })
    }
}
