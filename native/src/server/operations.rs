//! What changes tables and steps. Every change has two halves: the *request* checks it, writes it to the log and answers;
//! the *application* does it, and is all that a replay of the log needs. Nothing that can fail is left to the second half,
//! so what stands in the log was done.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use serde::Deserialize;

use super::engine::{Core, Engine};
use super::records::{self, Author, Decision, Record};
use super::refusals;
use super::registry::{Entry, Wish};
use super::service::{Identity, Kind, Refusal, Reply, RequestError};
use super::steps::Outcome;
use crate::keys;
use crate::table::Table;
use crate::table::spec::{Optimizer, TableSpec};
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};

/// Part of a synchronous step: a frame that waits for its time.
pub struct Piece {
    pub header: Header,
    /// The payload, on an address for u64.
    words: Box<[u64]>,
}

impl Piece {
    pub fn new(header: &Header, payload: &[u8]) -> Self {
        let mut words = vec![0u64; payload.len().div_ceil(8)].into_boxed_slice();
        codec::key_bytes_mut(&mut words)[..payload.len()].copy_from_slice(payload);
        Self { header: *header, words }
    }

    pub fn payload(&self) -> &[u8] {
        &codec::key_bytes(&self.words)[..self.header.length as usize]
    }
}

type Keyed<'a> = (Cow<'a, [u64]>, Cow<'a, [f32]>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Creation {
    name: String,
    spec: TableSpec,
}

pub(super) fn author(who: &Identity) -> Author {
    match who.kind {
        Kind::Observer => Author { rank: None, incarnation: who.incarnation },
        _ => Author { rank: Some(who.rank), incarnation: who.incarnation },
    }
}

pub(super) fn parse<'a, T: Deserialize<'a>>(op: Op, payload: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(payload).map_err(|error| refusals::bad_request(format!("{op:?}: {error}")))
}

impl Engine {
    // --- requests ---------------------------------------------------------------------------------------------------

    pub(super) fn create(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        let creation: Creation = parse(Op::Create, payload)?;
        let (number, lsn) = {
            let _pass = self.enter(who, reply)?;
            let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
            match registry.wish(&creation.name, &creation.spec).map_err(refusals::other_spec)? {
                Wish::Have(entry) => (entry.number, 0),
                Wish::Make => {
                    let made = Entry::make(&creation.name, creation.spec, self.sharding, self.owned.clone());
                    let entry = made.map_err(refusals::bad_request)?;
                    let lsn = self.append(&[&records::operation_head(author(who), header), payload])?;
                    let number = entry.number;
                    registry.add(entry);
                    (number, lsn)
                }
            }
        };
        self.wait_durable(lsn)?;
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.ok(number, durable_seq)?)
    }

    pub(super) fn pull(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        self.wait_for_step(who, header.seq, reply)?;
        let entry = self.entry(header.table)?;
        match (&entry.table, header.op) {
            (Table::Sparse(table), Op::Pull) => {
                let (keys, _) = codec::keys(payload, header.rows).ok_or_else(too_short)?;
                self.check_owner(&keys)?;
                let create = header.flags & flag::CREATE != 0;
                let width = table.pull_width() as u32;
                Ok(reply.rows(header.rows, width, &mut |range, out| table.pull(&keys[range], out, create))?)
            }
            (Table::Dense(table), Op::PullDense) => {
                let mut values = vec![0.0; table.range().len()];
                table.pull(&mut values).map_err(|_| refusals::not_set(&entry.name))?;
                let copy = &mut |range: std::ops::Range<usize>, out: &mut [f32]| out.copy_from_slice(&values[range]);
                Ok(reply.rows(values.len() as u32, 1, copy)?)
            }
            _ => Err(wrong_kind(header.op, &entry).into()),
        }
    }

    /// A change that takes effect at once, and once only.
    pub(super) fn change(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        self.check_change(header, payload)?;
        let (mut lsn, mut removed) = (0, 0);
        {
            // Rows are removed while nothing else changes, and nobody writes them to disk.
            let _writing = if header.op == Op::Shrink { Some(self.take_writing(who, reply)?) } else { None };
            let _alone = if header.op == Op::Shrink { Some(self.gate.alone()) } else { None };
            let _pass = if header.op == Op::Shrink { None } else { Some(self.enter(who, reply)?) };
            let mut lane = if who.kind == Kind::Observer { None } else { Some(self.lane_of(who)?) };
            if !lane.as_ref().is_some_and(|lane| lane.has(header.seq)) {
                // Looked up again: a checkpoint may have taken the table's place.
                let entry = self.check_change(header, payload)?;
                lsn = self.append(&[&records::operation_head(author(who), header), payload])?;
                removed = self.apply_change(author(who), header, payload, &entry);
                if let Some(lane) = &mut lane {
                    lane.carried_out(header.seq, lsn);
                }
            }
        }
        if who.kind == Kind::Observer {
            // It has no number under which it could ask again.
            self.wait_durable(lsn)?;
        }
        if header.op == Op::Shrink {
            return Ok(reply.json(&serde_json::json!({"removed": removed}))?);
        }
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.ok(header.table, durable_seq)?)
    }

    /// A piece, or one of the turns, of a synchronous step.
    pub(super) fn step_request(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        let (rank, step) = (who.rank, header.seq);
        let is_piece = !matches!(header.op, Op::Prepare | Op::Commit | Op::Abort);
        if is_piece {
            self.wait_for_step(who, step.saturating_sub(1), reply)?;
        }
        let mut lsn = 0;
        {
            let _pass = self.enter(who, reply)?;
            let _lane = self.lane_of(who)?;
            let mut core = self.core();
            let outcome = match header.op {
                Op::Commit => core.steps.would_commit(rank, step),
                Op::Abort => core.steps.would_abort(rank, step),
                _ => core.steps.would_keep(rank, step),
            };
            if outcome.map_err(|disorder| refusals::disorder(&disorder))? == Outcome::New {
                if is_piece {
                    self.check_change(header, payload)?;
                }
                lsn = self.append(&[&records::operation_head(author(who), header), payload])?;
                self.apply_step(&mut core, author(who), header, payload).map_err(refusals::bad_request)?;
            } else if header.op == Op::Prepare {
                // Prepared before, perhaps a moment ago and not on disk yet.
                lsn = self.log.get().map_or(0, |log| log.last());
            }
        }
        if header.op == Op::Prepare {
            self.wait_durable(lsn)?;
        }
        let durable_seq = self.durable_seq_of(who);
        Ok(reply.ok(header.table, durable_seq)?)
    }

    pub(super) fn durable_seq_of(&self, who: &Identity) -> u64 {
        if who.kind == Kind::Observer { 0 } else { self.lane(who.rank).durable_seq(self.log.get()) }
    }

    // --- checks -----------------------------------------------------------------------------------------------------

    /// Whether a change fits its table; everything that could go wrong with it, before it is logged.
    pub(super) fn check_change(&self, header: &Header, payload: &[u8]) -> Result<Arc<Entry>, Refusal> {
        codec::check(header, u64::MAX).map_err(|fault| refusals::bad_request(fault.message))?;
        if header.length != payload.len() as u64 {
            return Err(too_short());
        }
        let entry = self.entry(header.table)?;
        let columns = |wanted: usize| match header.dim as usize {
            dim if dim == wanted => Ok(()),
            dim => Err(refusals::bad_request(format!(
                "{:?} to table {:?}: rows have {dim} columns, not {wanted}",
                header.op, entry.name
            ))),
        };
        match (&entry.table, header.op) {
            (Table::Sparse(table), Op::Push) => columns(table.push_width())?,
            (Table::Sparse(table), Op::Set | Op::Add) => {
                if table.spec().accessor.is_some() {
                    let text = format!("{:?}: the rows of table {:?} hold more than values", header.op, entry.name);
                    return Err(refusals::not_allowed(text));
                }
                columns(table.pull_width())?;
            }
            (Table::Dense(table), Op::PushDense | Op::SetDense) => {
                if header.rows as usize != table.range().len() {
                    return Err(refusals::bad_request(format!(
                        "{:?} to table {:?}: this server has {} of its elements, not {}",
                        header.op,
                        entry.name,
                        table.range().len(),
                        header.rows
                    )));
                }
                if header.op == Op::PushDense && !table.is_set() && !table.range().is_empty() {
                    return Err(refusals::not_set(&entry.name));
                }
            }
            (_, Op::LearningRate) => {
                let rate = codec::floats(payload)[0];
                let optimizer = match &entry.spec {
                    TableSpec::Sparse(spec) => spec.optimizer,
                    TableSpec::Dense(spec) => spec.optimizer,
                };
                let divides = matches!(optimizer, Optimizer::Ftrl { .. });
                if !rate.is_finite() || rate < 0.0 || (rate == 0.0 && divides) {
                    return Err(refusals::bad_request(format!("{rate} is not a learning rate")));
                }
            }
            (Table::Sparse(_), Op::Shrink) => {}
            _ => return Err(wrong_kind(header.op, &entry)),
        }
        if matches!(header.op, Op::Push | Op::Set | Op::Add)
            && let Some((keys, _)) = codec::keys(payload, header.rows)
        {
            self.check_owner(&keys)?;
        }
        Ok(entry)
    }

    /// Keys of another server's shards mean that client and server count servers differently. The first and the last are
    /// enough to see it: clients send keys in the order of shards.
    fn check_owner(&self, keys: &[u64]) -> Result<(), Refusal> {
        for key in keys.first().into_iter().chain(keys.last()) {
            let shard = self.sharding.shard_of(keys::mix(*key));
            if !self.owned.contains(&shard) {
                return Err(refusals::bad_request(format!(
                    "key {key} is of shard {shard}, and this server has shards {:?}: it counts {} servers",
                    self.owned, self.config.servers
                )));
            }
        }
        Ok(())
    }

    // --- applications -----------------------------------------------------------------------------------------------

    /// `check_change` has seen everything that a table could refuse. Returns how many rows went.
    pub(super) fn apply_change(&self, author: Author, header: &Header, payload: &[u8], entry: &Entry) -> u64 {
        let draw = keys::draw(author.rank.map_or(0, |rank| u64::from(rank) + 1), header.seq);
        let keyed = || codec::keys(payload, header.rows).map(|(keys, rows)| (keys, codec::floats(rows)));
        let outcome = match (&entry.table, header.op) {
            (Table::Sparse(table), op @ (Op::Push | Op::Set | Op::Add)) => match (keyed(), op) {
                (Some((keys, rows)), Op::Push) => {
                    table.push(&keys, &rows, draw);
                    Ok(())
                }
                (Some((keys, rows)), Op::Set) => table.set(&keys, &rows),
                (Some((keys, rows)), _) => {
                    entry.track(self.config.world);
                    table.add(&keys, &rows)
                }
                (None, _) => Ok(()),
            },
            (Table::Dense(table), Op::PushDense) => table.push(&codec::floats(payload)),
            (Table::Dense(table), Op::SetDense) => {
                table.set(&codec::floats(payload), header.flags & flag::IF_UNSET != 0).map(drop)
            }
            (Table::Sparse(table), Op::LearningRate) => table.set_learning_rate(codec::floats(payload)[0]),
            (Table::Dense(table), Op::LearningRate) => table.set_learning_rate(codec::floats(payload)[0]),
            (Table::Sparse(table), Op::Shrink) => return table.shrink(),
            _ => Ok(()),
        };
        debug_assert!(outcome.is_ok(), "{outcome:?}");
        0
    }

    pub(super) fn apply_step(
        &self,
        core: &mut Core,
        author: Author,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), String> {
        let (rank, step) = (author.rank.ok_or("an observer takes no part in steps")?, header.seq);
        let outcome = match header.op {
            Op::Prepare => core.steps.prepare(rank, step, author.incarnation),
            Op::Commit => core.steps.commit(rank, step),
            Op::Abort => core.steps.abort(rank, step),
            _ => core.steps.offer(rank, step, Arc::new(Piece::new(header, payload))),
        };
        outcome.map_err(|disorder| disorder.to_string())?;
        self.apply_ripe(core);
        Ok(())
    }

    /// Applies the steps that are complete, each as one push per table.
    pub(super) fn apply_ripe(&self, core: &mut Core) {
        let before = core.steps.step();
        while let Some((step, parts)) = core.steps.take_ripe() {
            let mut by_table: BTreeMap<u32, Vec<&Piece>> = BTreeMap::new();
            for piece in parts.iter().flat_map(|(_, pieces)| pieces) {
                by_table.entry(piece.header.table).or_default().push(piece);
            }
            for (number, pieces) in by_table {
                let Ok(entry) = self.entry(number) else { continue };
                let (rates, pushes): (Vec<&Piece>, Vec<&Piece>) =
                    pieces.into_iter().partition(|piece| piece.header.op == Op::LearningRate);
                for piece in rates {
                    let author = Author { rank: None, incarnation: 0 };
                    self.apply_change(author, &piece.header, piece.payload(), &entry);
                }
                apply_summed(&entry, &pushes, keys::draw(u64::MAX, step));
            }
        }
        if core.steps.step() != before {
            self.step.store(core.steps.step(), Ordering::Release);
            self.changed.notify_all();
        }
    }

    pub(super) fn untie(&self, core: &mut Core, rank: u32) {
        if core.steps.has_loose_ends(rank) {
            let next = core.steps.standing(rank).next;
            // Loose ends can always be dropped.
            let _ = core.steps.abort(rank, next);
        }
    }

    pub(super) fn apply_lost(&self, core: &mut Core, rank: u32) {
        core.members.lose(rank);
        core.steps.leave(rank);
        self.apply_ripe(core);
    }

    pub(super) fn apply_done(&self, core: &mut Core, rank: u32) {
        core.members.done(rank);
        core.steps.leave(rank);
        core.last_done = self.now();
        self.apply_ripe(core);
    }

    /// One record of the log, as it was done the first time.
    pub(super) fn replay(&self, bytes: &[u8]) -> Result<(), String> {
        let (author, header, payload) = match records::decode(bytes)? {
            Record::Decision(decision) => return self.replay_decision(&decision),
            Record::Operation(author, header, payload) => (author, header, payload),
        };
        if let Some(rank) = author.rank {
            if rank as usize >= self.config.world {
                return Err(format!("it is of trainer {rank}, and there are {}", self.config.world));
            }
            let now = self.now();
            let members = &mut self.core().members;
            members.arrives(rank, author.incarnation, now);
            members.left(rank, author.incarnation, now);
        }
        match header.op {
            Op::Create => {
                let creation: Creation = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
                let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
                if let Wish::Make = registry.wish(&creation.name, &creation.spec)? {
                    registry.add(Entry::make(&creation.name, creation.spec, self.sharding, self.owned.clone())?);
                }
            }
            Op::Done => {
                let rank = author.rank.ok_or("an observer is never done")?;
                self.apply_done(&mut self.core(), rank);
            }
            Op::Load => self.apply_load(payload).map_err(|refusal| refusal.message)?,
            Op::Prepare | Op::Commit | Op::Abort => {
                self.apply_step(&mut self.core(), author, &header, payload)?;
            }
            _ if header.flags & flag::STEP != 0 => {
                self.check_change(&header, payload).map_err(|refusal| refusal.message)?;
                self.apply_step(&mut self.core(), author, &header, payload)?;
            }
            _ => {
                let entry = self.check_change(&header, payload).map_err(|refusal| refusal.message)?;
                self.apply_change(author, &header, payload, &entry);
                if let Some(rank) = author.rank {
                    self.lane(rank).carried_out(header.seq, 0);
                }
            }
        }
        Ok(())
    }

    fn replay_decision(&self, decision: &Decision) -> Result<(), String> {
        let mut core = self.core();
        let known = |rank: u32| match (rank as usize) < self.config.world {
            true => Ok(rank),
            false => Err(format!("there is no trainer {rank}")),
        };
        match decision {
            Decision::Lost { rank } => self.apply_lost(&mut core, known(*rank)?),
            Decision::Untied { rank } => self.untie(&mut core, known(*rank)?),
            Decision::Barrier { name, turn } => core.barriers.completes(name, *turn),
            Decision::Saved { mode } => {
                drop(core);
                self.age(*mode)?;
            }
        }
        Ok(())
    }
}

/// All pieces of one step for one table, summed in their order and applied as one push.
fn apply_summed(entry: &Entry, pieces: &[&Piece], draw: u64) {
    match &entry.table {
        Table::Sparse(table) => {
            let views: Vec<Keyed<'_>> = pieces
                .iter()
                .filter_map(|piece| codec::keys(piece.payload(), piece.header.rows))
                .map(|(keys, rows)| (keys, codec::floats(rows)))
                .collect();
            let parts: Vec<(&[u64], &[f32])> = views.iter().map(|(keys, rows)| (&keys[..], &rows[..])).collect();
            if !parts.is_empty() {
                table.push_summed(&parts, draw);
            }
        }
        Table::Dense(table) => {
            let views: Vec<Cow<'_, [f32]>> = pieces.iter().map(|piece| codec::floats(piece.payload())).collect();
            let parts: Vec<&[f32]> = views.iter().map(|view| &view[..]).collect();
            if !parts.is_empty() {
                // Their lengths were compared when they came.
                let _ = table.push_summed(&parts);
            }
        }
    }
}

fn too_short() -> Refusal {
    refusals::bad_request("the payload is shorter than its header says")
}

fn wrong_kind(op: Op, entry: &Entry) -> Refusal {
    let kind = if matches!(entry.table, Table::Dense(_)) { "dense" } else { "sparse" };
    refusals::bad_request(format!("{op:?} can't be asked of the {kind} table {:?}", entry.name))
}
