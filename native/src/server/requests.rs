//! Requests as they come in: who is welcome, and which request goes where.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::engine::Engine;
use super::members::State;
use super::records::Decision;
use super::refusals;
use super::service::{Identity, Kind, Refusal, Reply, Request, RequestError, Service};
use crate::wire::frame::{Op, flag};

impl Engine {
    /// What a new connection of a rank does: older ones do not count any more, and what they left half done is dropped.
    fn take_session(&self, who: &Identity) -> Result<(), Refusal> {
        let Some(_pass) = self.pass(Duration::from_secs(3)) else { return Err(refusals::busy()) };
        let mut session = self.sessions.of(who.rank);
        let mut core = self.core();
        // Two processes may come at once: the last one that took the seat has it.
        if core.members.incarnation(who.rank) != Some(who.incarnation) {
            return Err(refusals::replaced(who.rank));
        }
        session.take(who);
        if who.kind == Kind::Data && core.steps.has_loose_ends(who.rank) {
            self.durability.decide(&Decision::Untied { rank: who.rank })?;
            self.untie(&mut core, who.rank);
        }
        drop(core);
        self.coordination.notify();
        Ok(())
    }

    fn welcome_fields(&self, who: &Identity) -> Value {
        let tables: serde_json::Map<String, Value> =
            self.tables.registry().all().map(|entry| (entry.name.clone(), json!(entry.number))).collect();
        let mut words = json!({
            "life": self.lifetime.name(),
            "server": self.config.server,
            "servers": self.config.servers,
            "shards": self.config.shards,
            "world": self.config.world,
            "job": self.config.job,
            "log": self.durability.log().is_some(),
            "step": self.coordination.step(),
            "tables": tables,
        });
        if who.kind != Kind::Observer {
            let (applied, durable) = {
                let mut session = self.sessions.of(who.rank);
                (session.last_seq, session.durable_seq(self.durability.log()))
            };
            let core = self.core();
            let standing = core.steps.standing(who.rank);
            let done = core.members.state(who.rank) == State::Done;
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
        if self.lifetime.is_stopped() {
            return Err(refusals::stopping());
        }
        if who.kind != Kind::Observer {
            self.durability.check()?;
            if who.rank as usize >= self.config.world {
                return Err(refusals::no_such_rank(who.rank, self.config.world));
            }
            let now = self.lifetime.now();
            self.sessions.hear(who.rank, now);
            {
                let mut core = self.core();
                let arrival = core.members.arrives(who.rank, who.incarnation, now);
                if arrival.ok_or_else(|| refusals::replaced(who.rank))?.new_incarnation {
                    core.meetings.withdraw(who.rank);
                }
            }
            let held = self.sessions.of(who.rank).is_held_by(who);
            if !held && let Err(refusal) = self.take_session(who) {
                self.gone(who);
                return Err(refusal);
            }
        }
        Ok(self.welcome_fields(who))
    }

    fn request(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let (op, began) = (request.header.op, Instant::now());
        self.traffic.count(request.header);
        self.answer(request, reply)?;
        self.traffic.took(op, began.elapsed());
        Ok(())
    }

    fn gone(&self, who: &Identity) {
        if who.kind != Kind::Observer && (who.rank as usize) < self.config.world {
            let now = self.lifetime.now();
            self.core().members.left(who.rank, who.incarnation, now);
            // Somebody may wait for it, and will now hear why.
            self.coordination.notify();
        }
    }
}

impl Engine {
    fn answer(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let Request { who, header, .. } = request;
        if self.lifetime.is_stopped() {
            return Err(refusals::stopping().into());
        }
        let trainer = who.kind != Kind::Observer;
        if trainer {
            self.sessions.check(who)?;
            self.sessions.hear(who.rank, self.lifetime.now());
        }
        // Heartbeats too: they say how far the disk has come, and it will not come any further.
        if !matches!(header.op, Op::Status | Op::Pull | Op::PullDense) {
            self.durability.check()?;
        }
        match header.op {
            Op::Beat if trainer => {
                let durable_seq = self.durable_seq_of(who);
                Ok(reply.ok(0, durable_seq)?)
            }
            Op::Status => Ok(reply.json(&self.status())?),
            Op::Create => self.create(request, reply),
            Op::Pull | Op::PullDense => self.pull(request, reply),
            Op::Push | Op::PushDense | Op::SetDense | Op::LearningRate if trainer && request.has(flag::STEP) => {
                self.step_request(request, reply)
            }
            Op::Prepare | Op::Commit | Op::Abort if trainer => self.step_request(request, reply),
            Op::Push | Op::PushDense | Op::Add if trainer => self.change(request, reply),
            Op::SetDense | Op::Set | Op::LearningRate | Op::Shrink => self.change(request, reply),
            Op::Changed if trainer => self.tell_changed(request, reply),
            Op::Barrier if trainer => self.barrier(request, reply),
            Op::Gather if trainer => self.gather(request, reply),
            Op::Take if trainer => self.take(request, reply),
            Op::Post if trainer => self.post(request, reply),
            Op::Done if trainer => self.done(request, reply),
            Op::Save => self.save(request, reply),
            Op::Load => self.load(request, reply),
            op => Err(refusals::not_allowed(format!("{op:?} can't be asked for on this connection")).into()),
        }
    }
}
