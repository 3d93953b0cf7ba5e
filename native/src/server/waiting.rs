//! How a request waits: for a step, at a barrier, for the gate. Meanwhile its client is told about once a second what it
//! waits for, so that it knows that the server lives.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blackboard::MOST_NAMES;
use super::coordination::Core;
use super::engine::Engine;
use super::gate::Pass;
use super::gathers::Standing;
use super::locks::{Guard, Ranked};
use super::members::State;
use super::payloads::{self, Meeting, named, parse};
use super::records::{self, Decision};
use super::refusals;
use super::service::{Identity, Kind, Refusal, Reply, Request, RequestError};
use super::waits::Place;
use crate::wire::codec;
use crate::wire::frame::{Op, flag};

/// How often a client that waits is spoken to.
const WORD: Duration = Duration::from_secs(1);

impl Engine {
    /// Waits at a place until `look` breaks. `words` says what for.
    fn wait_until(
        &self,
        who: &Identity,
        place: Place,
        reply: &mut dyn Reply,
        mut look: impl FnMut(&mut Core) -> Result<ControlFlow<()>, Refusal>,
        words: impl Fn(&Core, u64) -> String,
    ) -> Result<(), RequestError> {
        let wait = {
            let mut core = self.core();
            if look(&mut core)?.is_break() {
                return Ok(());
            }
            let now = self.lifetime.now();
            (who.kind != Kind::Observer).then(|| core.waits.begin(who.rank, place, now))
        };
        let outcome = self.wait_on(who, wait, reply, look, words);
        if let Some(wait) = wait {
            self.core().waits.end(wait);
        }
        outcome
    }

    fn wait_on(
        &self,
        who: &Identity,
        wait: Option<u64>,
        reply: &mut dyn Reply,
        mut look: impl FnMut(&mut Core) -> Result<ControlFlow<()>, Refusal>,
        words: impl Fn(&Core, u64) -> String,
    ) -> Result<(), RequestError> {
        let mut next_word = Instant::now() + WORD;
        let mut core = self.core();
        loop {
            if look(&mut core)?.is_break() {
                return Ok(());
            }
            if let Some(text) = wait.and_then(|wait| core.waits.why_ended(wait)) {
                return Err(refusals::mutual_wait(text).into());
            }
            if self.lifetime.is_stopped() {
                return Err(refusals::stopping().into());
            }
            let left = next_word.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let now = self.hear(&mut core);
                if core.end_mutual_waits(now) {
                    self.coordination.notify();
                }
                let text = words(&core, now);
                if let Some(wait) = wait {
                    core.waits.tell(wait, &text);
                }
                drop(core);
                self.sessions.check(who)?;
                reply.wait(&text)?;
                next_word = Instant::now() + WORD;
                core = self.core();
                continue;
            }
            core = self.coordination.wait(core, left);
        }
    }

    /// Who of these is lost, when that is a reason to fail.
    fn fatal(&self, core: &mut Core, doing: &str, ranks: &[u32]) -> Result<(), Refusal> {
        let lost = core.fatal(ranks);
        if lost.is_empty() {
            return Ok(());
        }
        let now = self.hear(core);
        let who = core.members.words_for(&lost, now);
        core.ending.fail(|| format!("{doing} could not go on without {who}"));
        Err(refusals::trainer_lost(doing, &who))
    }

    pub(super) fn wait_for_step(&self, who: &Identity, step: u64, reply: &mut dyn Reply) -> Result<(), RequestError> {
        if self.coordination.step() >= step {
            return Ok(());
        }
        let doing = format!("step {step}");
        let look = |core: &mut Core| {
            if core.steps.step() >= step {
                return Ok(ControlFlow::Break(()));
            }
            let missing = core.steps.waits_for();
            self.fatal(core, &doing, &missing)?;
            Ok(ControlFlow::Continue(()))
        };
        let words = |core: &Core, now: u64| {
            let missing = core.steps.waits_for();
            let at = core.steps.step();
            format!("waiting for {} at step {at}", core.members.words_for(&missing, now))
        };
        self.wait_until(who, Place::Step(step), reply, look, words)
    }

    pub(super) fn barrier(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let who = request.who;
        let Meeting { name, turn } = parse(Op::Barrier, request.payload)?;
        payloads::name(Op::Barrier, name.as_bytes())?;
        if turn == u64::MAX {
            return Err(refusals::bad_request("Barrier: there is no such turn").into());
        }
        {
            let _pass = self.enter(who, reply)?;
            let _session = self.sessions.held_by(who)?;
            let mut core = self.core();
            core.meetings.barriers.arrives(&name, turn, who.rank);
            self.open_meetings(&mut core)?;
        }
        let doing = format!("barrier {name:?}");
        let look = |core: &mut Core| {
            if core.meetings.barriers.is_complete(&name, turn) {
                return Ok(ControlFlow::Break(()));
            }
            let missing = core.meetings.barriers.missing(&name, turn, &core.counted());
            self.fatal(core, &doing, &missing)?;
            Ok(ControlFlow::Continue(()))
        };
        let words = |core: &Core, now: u64| {
            let missing = core.meetings.barriers.missing(&name, turn, &core.counted());
            format!("barrier {name:?} waits for {}", core.members.words_for(&missing, now))
        };
        self.wait_until(who, Place::Barrier(name.clone(), turn), reply, look, words)?;
        let lsn = self.core().meetings.barriers.lsn();
        self.durability.wait(lsn)?;
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.ok(0, durable_seq)?)
    }

    /// A trainer's latest word, for anyone who looks; the answer is everybody's. Nobody waits, and a restart forgets it.
    pub(super) fn post(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let who = request.who;
        let (name, brought) = named(request)?;
        let brought: Arc<[u8]> = brought.into();
        let latest = {
            let _session = self.sessions.held_by(who)?;
            self.core().meetings.blackboard.put(name, who.rank, brought, self.config.world)
        };
        let Some(latest) = latest else {
            return Err(refusals::bad_request(format!("Post: there are {MOST_NAMES} names already")).into());
        };
        let strings: Vec<&[u8]> = latest.iter().map(|each| &**each).collect();
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.strings(latest.len() as u32, &codec::join(&strings), durable_seq)?)
    }

    /// The answer waits for the disk. Everybody must get the same strings: a server that was killed between one answer and
    /// the next, and had forgotten, would let the others put together another list, without a trainer that was lost
    /// meanwhile, or wait for ever for one that has its answer and is long past. It can't be asked to come back: it may be
    /// done. The log goes to disk at once when somebody waits, and without a log there is nothing to wait for.
    pub(super) fn gather(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let who = request.who;
        let (name, brought) = named(request)?;
        let turn = request.header.seq;
        // Copied before anything is locked.
        let brought = brought.to_vec();
        {
            let _pass = self.enter(who, reply)?;
            let _session = self.sessions.held_by(who)?;
            let mut core = self.core();
            core.meetings.gathers.arrives(name, turn, who.rank, brought);
            self.open_meetings(&mut core)?;
        }
        let doing = format!("gather {name:?}");
        let mut gathered = None;
        let look = |core: &mut Core| {
            match core.meetings.gathers.standing(name, turn) {
                Standing::Complete(found) => {
                    gathered = Some(found);
                    return Ok(ControlFlow::Break(()));
                }
                Standing::Open => {}
                Standing::Past(last) => {
                    return Err(refusals::turn_past(format!("{doing}: turn {turn} is past, the last one was {last}")));
                }
                Standing::Apart { rank, turn: other } => {
                    let text = format!("{doing}: trainer {rank} is at turn {other} and trainer {} at {turn}", who.rank);
                    return Err(refusals::server_forgot(format!("{text}, so one before it is not known any more")));
                }
            }
            let missing = core.meetings.gathers.missing(name, &core.counted());
            self.fatal(core, &doing, &missing)?;
            Ok(ControlFlow::Continue(()))
        };
        let words = |core: &Core, now: u64| {
            let missing = core.meetings.gathers.missing(name, &core.counted());
            format!("gather {name:?} waits for {}", core.members.words_for(&missing, now))
        };
        self.wait_until(who, Place::Gather(name.to_owned()), reply, look, words)?;
        let Some(gathered) = gathered else { return Err(refusals::stopping().into()) };
        self.durability.wait(gathered.lsn)?;
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.strings(gathered.count, &gathered.bytes, durable_seq)?)
    }

    /// Barriers at which everybody has arrived are opened for ever, and gathers are complete. The caller is inside the gate.
    pub(super) fn open_meetings(&self, core: &mut Core) -> Result<(), Refusal> {
        let counted = core.counted();
        for (name, turn) in core.meetings.barriers.full(&counted) {
            let lsn = self.durability.decide(&Decision::Barrier { name: name.clone(), turn })?;
            core.meetings.barriers.completes(&name, turn, lsn);
            self.coordination.notify();
        }
        for (name, mut gathered) in core.meetings.gathers.full(&counted, self.config.world as u32) {
            let head = records::gathered_head(&name, gathered.turn, gathered.count);
            gathered.lsn = self.durability.append(&[&head, name.as_bytes(), &gathered.bytes])?;
            core.meetings.gathers.completes(&name, gathered);
            self.coordination.notify();
        }
        Ok(())
    }

    /// A trainer has no more to do; with the flag STEP, no more steps to take.
    pub(super) fn done(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let who = request.who;
        let mut lsn = 0;
        {
            let _pass = self.enter(who, reply)?;
            let _session = self.sessions.held_by(who)?;
            let mut core = self.core();
            let standing = core.steps.standing(who.rank);
            if standing.prepared.is_some() {
                let text = format!("step {} of trainer {} is prepared, and not committed", standing.next, who.rank);
                return Err(refusals::bad_request(text).into());
            }
            let steps_only = request.has(flag::STEP);
            let is_new = if steps_only { standing.joined } else { core.members.state(who.rank) != State::Done };
            if is_new {
                lsn = self.durability.append_request(request)?;
                match steps_only {
                    true => self.apply_steps_done(&mut core, who.rank),
                    false => self.apply_done(&mut core, who.rank),
                }
                self.open_meetings(&mut core)?;
            }
        }
        self.coordination.notify();
        self.durability.wait(lsn)?;
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.ok(0, durable_seq)?)
    }

    /// Through the gate, however long somebody has it alone.
    pub(super) fn enter(&self, who: &Identity, reply: &mut dyn Reply) -> Result<Ranked<Pass<'_>>, RequestError> {
        loop {
            if let Some(pass) = self.pass(WORD) {
                return Ok(pass);
            }
            self.still_wanted(who)?;
            reply.wait(
                "the tables are held for a moment: a snapshot begins, a table shrinks or a checkpoint is loaded",
            )?;
        }
    }

    /// The right to write tables to disk, or to do what must not happen meanwhile.
    pub(super) fn take_writing(&self, who: &Identity, reply: &mut dyn Reply) -> Result<Guard<'_, ()>, RequestError> {
        let mut next_word = Instant::now() + WORD;
        loop {
            if let Some(guard) = self.durability.try_write() {
                return Ok(guard);
            }
            std::thread::sleep(Duration::from_millis(10));
            if Instant::now() >= next_word {
                self.still_wanted(who)?;
                reply.wait("another snapshot of the tables is being written")?;
                next_word = Instant::now() + WORD;
            }
        }
    }

    pub(super) fn still_wanted(&self, who: &Identity) -> Result<(), Refusal> {
        if self.lifetime.is_stopped() {
            return Err(refusals::stopping());
        }
        self.sessions.check(who)
    }
}
