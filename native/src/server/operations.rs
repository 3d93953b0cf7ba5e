//! Requests that change tables and steps, or read them. Every change has two halves: the *request* checks it, writes it to
//! the log and answers; the *application* does it, and is all that a replay of the log needs. Nothing that can fail is left
//! to the second half, so what stands in the log was done.

use std::sync::Arc;

use super::counters;
use super::engine::Engine;
use super::payloads::{Creation, name, parse};
use super::pieces::Piece;
use super::refusals;
use super::registry::{Entry, Wanted, described_otherwise};
use super::service::{Kind, Refusal, Reply, Request, RequestError};
use super::steps::Outcome;
use crate::table::spec::TableSpec;
use crate::table::{Absent, Table, differences};
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};

impl Engine {
    pub(super) fn create(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let who = request.who;
        let creation: Creation = parse(Op::Create, request.payload)?;
        let made = {
            let _pass = self.enter(who, reply)?;
            let mut registry = self.tables.write();
            match registry.want(&creation.name, &creation.spec).map_err(refusals::other_spec)? {
                Wanted::Have(entry) => Some((entry, 0)),
                Wanted::Change(_) => None,
                Wanted::Make => {
                    let made = self.tables.make(&creation.name, creation.spec.clone());
                    let entry = made.map_err(refusals::bad_request)?;
                    let lsn = self.durability.append_request(request)?;
                    registry.add(entry.clone());
                    Some((entry, lsn))
                }
            }
        };
        let (entry, lsn, change) = match made {
            Some((entry, lsn)) => (entry, lsn, None),
            None => self.change_settings(request, creation, reply)?,
        };
        if who.kind != Kind::Observer {
            entry.agreed().insert(who.rank, who.incarnation);
        }
        self.durability.wait(lsn)?;
        match change {
            Some(change) => Ok(reply.json(&serde_json::json!({"table": entry.number, "change": change}))?),
            None => Ok(reply.ok(entry.number, self.durable_seq_of(who))?),
        }
    }

    /// A table that is there gets other settings, if no trainer that is here has described it as it is: after a restart of
    /// all trainers, those of their script count. Nothing else changes meanwhile, so that a replay does the same.
    fn change_settings(
        &self,
        request: Request<'_>,
        creation: Creation,
        reply: &mut dyn Reply,
    ) -> Result<(Arc<Entry>, u64, Option<String>), RequestError> {
        let Creation { name, spec } = creation;
        let _writing = self.take_writing(request.who, reply)?;
        let _alone = self.alone();
        let here: Vec<(u32, u64)> = {
            let members = &self.core().members;
            let here = |rank: &u32| *rank == request.who.rank || members.connections(*rank) > 0;
            let ranks = (0..self.config.world as u32).filter(here);
            ranks.filter_map(|rank| Some((rank, members.incarnation(rank)?))).collect()
        };
        let mut registry = self.tables.write();
        let entry = match registry.want(&name, &spec).map_err(refusals::other_spec)? {
            Wanted::Change(entry) => entry,
            Wanted::Have(entry) => return Ok((entry, 0, None)),
            Wanted::Make => return Err(refusals::busy().into()),
        };
        if here.iter().any(|(rank, incarnation)| entry.agreed().get(rank) == Some(incarnation)) {
            return Err(refusals::other_spec(described_otherwise(&entry, &spec)).into());
        }
        let change = differences::change(&name, &entry.spec, &spec);
        check_settings(&spec).map_err(refusals::bad_request)?;
        let lsn = self.durability.append_request(request)?;
        let entry = entry.with_spec(spec, &entry).map_err(refusals::bad_request)?;
        registry.add(entry.clone());
        Ok((entry, lsn, change))
    }

    pub(super) fn pull(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let Request { who, header, payload } = request;
        self.wait_for_step(who, header.seq, reply)?;
        let entry = self.tables.get(header.table)?;
        match (&entry.table, header.op) {
            (Table::Sparse(table), Op::Pull) => {
                let (keys, _) = codec::keys(payload, header.rows).ok_or_else(too_short)?;
                self.tables.check_owner(&keys)?;
                let absent = match header.flags {
                    flags if flags & flag::CREATE != 0 => Absent::Made,
                    flags if flags & flag::ZEROS != 0 => Absent::Zeros,
                    _ => Absent::Initial,
                };
                let width = table.pull_width() as u32;
                Ok(reply.rows((header.rows, width), 0, &|range, out| table.pull(&keys[range], out, absent))?)
            }
            (Table::Dense(_), Op::PullDense) => tell_values(&entry, 0, reply),
            _ => Err(wrong_kind(header.op, &entry).into()),
        }
    }

    /// A change that takes effect at once, and once only.
    pub(super) fn change(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let Request { who, header, payload } = request;
        self.check_change(header, payload)?;
        let (mut lsn, mut removed) = (0, 0);
        {
            // Rows are removed while nothing else changes, and nobody writes them to disk.
            let _writing = if header.op == Op::Shrink { Some(self.take_writing(who, reply)?) } else { None };
            let _alone = if header.op == Op::Shrink { Some(self.alone()) } else { None };
            let _pass = if header.op == Op::Shrink { None } else { Some(self.enter(who, reply)?) };
            let mut session = if who.kind == Kind::Observer { None } else { Some(self.sessions.held_by(who)?) };
            if !session.as_ref().is_some_and(|session| session.has(header.seq)) {
                // Looked up again: a checkpoint may have taken the table's place.
                let entry = self.check_change(header, payload)?;
                let mut nobodys = Vec::new();
                let parts = session.as_mut().map_or(&mut nobodys, |session| &mut session.parts);
                check_parts(header, parts, &entry)?;
                lsn = self.durability.append_request(request)?;
                let (gone, whole) = self.apply_whole(parts, request.author(), header, payload, &entry);
                removed = gone;
                if let Some(session) = session.as_mut().filter(|_| whole) {
                    session.carried_out(header.seq, lsn);
                }
            }
        }
        if who.kind == Kind::Observer {
            // It has no number under which it could ask again.
            self.durability.wait(lsn)?;
        }
        if header.op == Op::Shrink {
            return Ok(reply.json(&serde_json::json!({"removed": removed}))?);
        }
        self.acknowledge(request, reply)
    }

    /// A number that nobody else gets. The answer waits for the disk: a server that forgot it would give it out again.
    pub(super) fn take(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let who = request.who;
        let (name, turn) = (name(Op::Take, request.payload)?, request.header.seq);
        let (number, lsn) = {
            let _pass = self.enter(who, reply)?;
            let _session = self.sessions.held_by(who)?;
            let counters = &mut self.core().meetings.counters;
            match counters.taken(name, who.rank, who.incarnation, turn) {
                // Perhaps given a moment ago and not on disk yet.
                Ok(Some(taken)) => (taken.number, taken.lsn),
                Ok(None) => {
                    let lsn = self.durability.append_request(request)?;
                    (counters.give(name, who.rank, who.incarnation, turn, lsn), lsn)
                }
                Err(counters::Disorder::Past(last)) => {
                    let text =
                        format!("take {name:?}: turn {turn} of trainer {} is past, it had turn {last}", who.rank);
                    return Err(refusals::turn_past(text).into());
                }
                Err(counters::Disorder::Forgotten) => {
                    let text = format!("take {name:?}: trainer {} has had {turn} numbers that are not known", who.rank);
                    return Err(refusals::server_forgot(text).into());
                }
            }
        };
        self.durability.wait(lsn)?;
        Ok(reply.json(&serde_json::json!({"number": number}))?)
    }

    /// A piece, or one of the turns, of a synchronous step.
    pub(super) fn step_request(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let Request { who, header, payload } = request;
        let (rank, step) = (who.rank, header.seq);
        let is_piece = !matches!(header.op, Op::Prepare | Op::Commit | Op::Abort);
        let prepares = header.op == Op::Prepare || is_piece && request.has(flag::LAST);
        if is_piece {
            self.wait_for_step(who, step.saturating_sub(1), reply)?;
        }
        // Copied before anything is locked.
        let piece = is_piece.then(|| Piece::new(header, payload, self.buffers.take()));
        let mut lsn = 0;
        {
            let _pass = self.enter(who, reply)?;
            let _session = self.sessions.held_by(who)?;
            let mut core = self.core();
            let standing = core.steps.standing(rank);
            let foreign = standing.prepared.is_some_and(|life| life != who.incarnation);
            if standing.next == step && foreign && !matches!(header.op, Op::Commit | Op::Abort) {
                let text = format!("step {step} of trainer {rank} was prepared by an earlier process: abort it first");
                return Err(refusals::step_order(text).into());
            }
            let outcome = match header.op {
                Op::Commit => core.steps.would_commit(rank, step),
                Op::Abort => core.steps.would_abort(rank, step),
                _ => core.steps.would_keep(rank, step),
            };
            if outcome.map_err(|disorder| refusals::disorder(&disorder))? == Outcome::New {
                if is_piece {
                    self.check_change(header, payload)?;
                }
                lsn = self.durability.append_request(request)?;
                self.apply_step(&mut core, request.author(), header, piece).map_err(refusals::bad_request)?;
            } else if prepares {
                // Prepared before, perhaps a moment ago and not on disk yet.
                lsn = self.durability.last();
            }
        }
        if prepares {
            self.durability.wait(lsn)?;
        }
        if header.op == Op::Commit && request.has(flag::VALUES) {
            self.wait_for_step(who, step + 1, reply)?;
        }
        self.acknowledge(request, reply)
    }

    /// The answer to a change: that it is here, or what came of it.
    fn acknowledge(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let (table, durable_seq) = (request.header.table, self.durable_seq_of(request.who));
        if request.has(flag::VALUES) {
            return tell_values(&*self.tables.get(table)?, durable_seq, reply);
        }
        Ok(reply.ok(table, durable_seq)?)
    }

    /// Whether a change fits its table; everything that could go wrong with it, before it is logged.
    pub(super) fn check_change(&self, header: &Header, payload: &[u8]) -> Result<Arc<Entry>, Refusal> {
        codec::check(header, u64::MAX).map_err(|fault| refusals::bad_request(fault.message))?;
        if header.length != payload.len() as u64 {
            return Err(too_short());
        }
        let entry = self.tables.get(header.table)?;
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
                let is_part = header.flags & flag::PART != 0 && (header.rows as usize) < table.range().len();
                if header.rows as usize != table.range().len() && !is_part {
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
                if !rate.is_finite() || rate < 0.0 || (rate == 0.0 && optimizer.divides_by_rate()) {
                    return Err(refusals::bad_request(format!("{rate} is not a learning rate")));
                }
            }
            (Table::Sparse(_), Op::Shrink) => {}
            _ => return Err(wrong_kind(header.op, &entry)),
        }
        if matches!(header.op, Op::Push | Op::Set | Op::Add)
            && let Some((keys, _)) = codec::keys(payload, header.rows)
        {
            self.tables.check_owner(&keys)?;
        }
        Ok(entry)
    }
}

/// The values of a dense table as they are now: while they are sent, pushes go on.
fn tell_values(entry: &Entry, durable_seq: u64, reply: &mut dyn Reply) -> Result<(), RequestError> {
    let Table::Dense(table) = &entry.table else { return Err(wrong_kind(Op::PullDense, entry).into()) };
    let values = table.values().ok_or_else(|| refusals::not_set(&entry.name))?;
    Ok(reply.values(&values, durable_seq)?)
}

/// Whether the parts of a change that are here are its first ones, and with the last one all of it.
fn check_parts(header: &Header, parts: &[Piece], entry: &Entry) -> Result<(), Refusal> {
    if header.flags & flag::PART == 0 {
        return Ok(());
    }
    let wrong = |what: &str| Err(refusals::bad_request(format!("{:?} to table {:?}: {what}", header.op, entry.name)));
    let before = if header.flags & flag::FIRST != 0 { &[] } else { parts };
    let same = |part: &Piece| (part.header.seq, part.header.op, part.header.table);
    if header.seq == 0 || (header.flags & flag::FIRST == 0) == before.is_empty() {
        return wrong("a part without those before it");
    }
    if before.iter().any(|part| same(part) != (header.seq, header.op, header.table)) {
        return wrong("parts of different changes");
    }
    let rows: u64 = before.iter().map(|part| u64::from(part.header.rows)).sum::<u64>() + u64::from(header.rows);
    match &entry.table {
        Table::Dense(table) if header.flags & flag::MORE == 0 && rows != table.range().len() as u64 => {
            wrong("its parts are not all of its elements")
        }
        _ if rows > u64::from(u32::MAX) => wrong("more rows than can be counted"),
        _ => Ok(()),
    }
}

fn check_settings(spec: &TableSpec) -> Result<(), String> {
    match spec {
        TableSpec::Sparse(spec) => spec.check(),
        TableSpec::Dense(spec) => spec.check(),
    }
}

fn too_short() -> Refusal {
    refusals::bad_request("the payload is shorter than its header says")
}

fn wrong_kind(op: Op, entry: &Entry) -> Refusal {
    let kind = if matches!(entry.table, Table::Dense(_)) { "dense" } else { "sparse" };
    refusals::bad_request(format!("{op:?} can't be asked of the {kind} table {:?}", entry.name))
}
