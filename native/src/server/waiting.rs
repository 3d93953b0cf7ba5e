//! How a request waits: for a step, at a barrier, for the gate. Meanwhile its client is told about once a second what it
//! waits for, so that it knows that the server lives.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::config::OnLoss;
use super::engine::{Core, Engine};
use super::gate::Pass;
use super::gathers::Standing;
use super::locks::{Guard, Ranked};
use super::members::State;
use super::operations::{name, parse};
use super::posts::MOST_NAMES;
use super::records::{self, Decision};
use super::refusals;
use super::service::{Identity, Kind, Refusal, Reply, RequestError};
use super::waits::Place;
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};

/// Trainers that have waited for each other for so long wait for ever, in milliseconds. Connections that are gone are
/// noticed earlier than this.
const MUTUAL: u64 = 5_000;

/// How often a client that waits is spoken to.
const WORD: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meeting {
    name: String,
    #[serde(default)]
    turn: u64,
}

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
            let now = self.now();
            (who.kind != Kind::Observer).then(|| core.waits.begin(who.rank, place, now))
        };
        let outcome = self.wait_on(who, wait, reply, look, words);
        if let Some(wait) = wait {
            let mut core = self.core();
            core.waits.end(wait);
            core.waiting.remove(&who.rank);
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
            if self.stopped.load(Ordering::SeqCst) {
                return Err(refusals::stopping().into());
            }
            let left = next_word.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let now = self.hear(&mut core);
                self.end_mutual_waits(&mut core, now);
                let text = words(&core, now);
                if wait.is_some() {
                    core.waiting.insert(who.rank, text.clone());
                }
                drop(core);
                if who.kind != Kind::Observer {
                    drop(self.lane_of(who)?);
                }
                reply.wait(&text)?;
                next_word = Instant::now() + WORD;
                core = self.core();
                continue;
            }
            core = core.wait_timeout(&self.changed, left);
        }
    }

    /// Trainers that wait for each other are told, instead of waiting for ever.
    fn end_mutual_waits(&self, core: &mut Core, now: u64) {
        let counted = self.counted(core);
        let Core { waits, members, steps, barriers, gathers, .. } = core;
        let is_here = |rank| members.state(rank) == State::Here && members.connections(rank) > 0;
        let missing = |place: &Place| match place {
            Place::Step(step) if steps.step() >= *step => Vec::new(),
            Place::Step(_) => steps.waits_for(),
            Place::Barrier(name, turn) if barriers.is_complete(name, *turn) => Vec::new(),
            Place::Barrier(name, turn) => barriers.missing(name, *turn, &counted),
            Place::Gather(name) => gathers.missing(name, &counted),
        };
        if let Some(text) = waits.end_mutual(now, MUTUAL, is_here, missing) {
            core.failed.get_or_insert(text);
            self.changed.notify_all();
        }
    }

    /// Signs of life that came since the core last looked; returns the time.
    pub(super) fn hear(&self, core: &mut Core) -> u64 {
        for (rank, sign) in (0..).zip(&self.signs) {
            if let Some(incarnation) = core.members.incarnation(rank) {
                core.members.heard(rank, incarnation, sign.load(Ordering::Relaxed));
            }
        }
        self.now()
    }

    /// Who of these is lost, when that is a reason to fail.
    fn fatal(&self, core: &mut Core, doing: &str, ranks: &[u32]) -> Result<(), Refusal> {
        let lost: Vec<u32> = ranks.iter().copied().filter(|rank| core.members.state(*rank) == State::Lost).collect();
        if lost.is_empty() || self.config.on_loss != OnLoss::Fail {
            return Ok(());
        }
        let now = self.hear(core);
        let who = core.members.words_for(&lost, now);
        core.failed.get_or_insert_with(|| format!("{doing} could not go on without {who}"));
        Err(refusals::trainer_lost(doing, &who))
    }

    pub(super) fn wait_for_step(&self, who: &Identity, step: u64, reply: &mut dyn Reply) -> Result<(), RequestError> {
        if self.step.load(Ordering::Acquire) >= step {
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

    pub(super) fn barrier(&self, who: &Identity, payload: &[u8], reply: &mut dyn Reply) -> Result<(), RequestError> {
        let Meeting { name, turn } = parse(Op::Barrier, payload)?;
        self::name(Op::Barrier, name.as_bytes())?;
        if turn == u64::MAX {
            return Err(refusals::bad_request("Barrier: there is no such turn").into());
        }
        {
            let _pass = self.enter(who, reply)?;
            let _lane = self.lane_of(who)?;
            let mut core = self.core();
            core.barriers.arrives(&name, turn, who.rank);
            self.open_meetings(&mut core)?;
        }
        let doing = format!("barrier {name:?}");
        let look = |core: &mut Core| {
            if core.barriers.is_complete(&name, turn) {
                return Ok(ControlFlow::Break(()));
            }
            let missing = core.barriers.missing(&name, turn, &self.counted(core));
            self.fatal(core, &doing, &missing)?;
            Ok(ControlFlow::Continue(()))
        };
        let words = |core: &Core, now: u64| {
            let missing = core.barriers.missing(&name, turn, &self.counted(core));
            format!("barrier {name:?} waits for {}", core.members.words_for(&missing, now))
        };
        self.wait_until(who, Place::Barrier(name.clone(), turn), reply, look, words)?;
        let lsn = self.core().barrier_lsn;
        self.wait_durable(lsn)?;
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.ok(0, durable_seq)?)
    }

    /// A trainer's latest word, for whoever looks; the answer is everybody's. Nobody waits, and a restart forgets it.
    pub(super) fn post(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        let (name, brought) = named(Op::Post, header, payload)?;
        let brought: Arc<[u8]> = brought.into();
        let latest = {
            let _lane = self.lane_of(who)?;
            self.core().posts.put(name, who.rank, brought, self.config.world)
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
    pub(super) fn gather(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        let (name, brought) = named(Op::Gather, header, payload)?;
        let turn = header.seq;
        // Copied before anything is locked.
        let brought = brought.to_vec();
        {
            let _pass = self.enter(who, reply)?;
            let _lane = self.lane_of(who)?;
            let mut core = self.core();
            core.gathers.arrives(name, turn, who.rank, brought);
            self.open_meetings(&mut core)?;
        }
        let doing = format!("gather {name:?}");
        let mut gathered = None;
        let look = |core: &mut Core| {
            match core.gathers.standing(name, turn) {
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
            let missing = core.gathers.missing(name, &self.counted(core));
            self.fatal(core, &doing, &missing)?;
            Ok(ControlFlow::Continue(()))
        };
        let words = |core: &Core, now: u64| {
            let missing = core.gathers.missing(name, &self.counted(core));
            format!("gather {name:?} waits for {}", core.members.words_for(&missing, now))
        };
        self.wait_until(who, Place::Gather(name.to_owned()), reply, look, words)?;
        let Some(gathered) = gathered else { return Err(refusals::stopping().into()) };
        self.wait_durable(gathered.lsn)?;
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.strings(gathered.count, &gathered.bytes, durable_seq)?)
    }

    /// Those whom barriers and gathers count.
    fn counted(&self, core: &Core) -> Vec<u32> {
        let mut counted = core.members.counted();
        if self.config.on_loss != OnLoss::GoOn {
            counted.extend(core.members.in_state(State::Lost));
            counted.sort_unstable();
        }
        counted
    }

    /// Barriers at which everybody has arrived are opened for ever, and gathers are complete. The caller is inside the gate.
    pub(super) fn open_meetings(&self, core: &mut Core) -> Result<(), Refusal> {
        let counted = self.counted(core);
        for (name, turn) in core.barriers.full(&counted) {
            let lsn = self.decide(&Decision::Barrier { name: name.clone(), turn })?;
            core.barriers.completes(&name, turn);
            core.barrier_lsn = core.barrier_lsn.max(lsn);
            self.changed.notify_all();
        }
        for (name, mut gathered) in core.gathers.full(&counted, self.config.world as u32) {
            let head = records::gathered_head(&name, gathered.turn, gathered.count);
            gathered.lsn = self.append(&[&head, name.as_bytes(), &gathered.bytes])?;
            core.gathers.completes(&name, gathered);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// A trainer has no more to do; with the flag STEP, no more steps to take.
    pub(super) fn done(&self, who: &Identity, header: &Header, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let mut lsn = 0;
        {
            let _pass = self.enter(who, reply)?;
            let _lane = self.lane_of(who)?;
            let mut core = self.core();
            let standing = core.steps.standing(who.rank);
            if standing.prepared.is_some() {
                let text = format!("step {} of trainer {} is prepared, and not committed", standing.next, who.rank);
                return Err(refusals::bad_request(text).into());
            }
            let steps_only = header.flags & flag::STEP != 0;
            let is_new = if steps_only { standing.joined } else { core.members.state(who.rank) != State::Done };
            if is_new {
                let author = super::operations::author(who);
                lsn = self.append(&[&records::operation_head(author, header)])?;
                match steps_only {
                    true => self.apply_steps_done(&mut core, who.rank),
                    false => self.apply_done(&mut core, who.rank),
                }
                self.open_meetings(&mut core)?;
            }
        }
        self.changed.notify_all();
        self.wait_durable(lsn)?;
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
            if let Some(guard) = self.writing.try_lock() {
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
        if self.stopped.load(Ordering::SeqCst) {
            return Err(refusals::stopping());
        }
        if who.kind != Kind::Observer {
            drop(self.lane_of(who)?);
        }
        Ok(())
    }
}

/// The name in front of what a trainer brings, and that.
fn named<'a>(op: Op, header: &Header, payload: &'a [u8]) -> Result<(&'a str, &'a [u8]), Refusal> {
    let short = || refusals::bad_request(format!("{op:?}: the payload is shorter than its header says"));
    let (name, brought) = payload.split_at_checked(header.rows as usize).ok_or_else(short)?;
    Ok((self::name(op, name)?, brought))
}
