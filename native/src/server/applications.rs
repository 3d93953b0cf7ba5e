//! What changes do, the first time and in a replay of the log alike. By then nothing can fail any more: `operations` has
//! checked them before they were logged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::coordination::Core;
use super::engine::Engine;
use super::gathers::Gathered;
use super::payloads::Creation;
use super::pieces::{Joined, Piece, whole_pieces};
use super::records::{self, Author, Decision, Record};
use super::registry::{Entry, Wanted};
use super::steps::Outcome;
use crate::keys;
use crate::table::{Table, absent};
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};

type Keyed<'a> = (Cow<'a, [u64]>, Cow<'a, [f32]>);

impl Engine {
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

    /// A change, or one of its parts: it is carried out when the last one is here. Returns how many rows went, and whether it
    /// was.
    pub(super) fn apply_whole(
        &self,
        parts: &mut Vec<Piece>,
        author: Author,
        header: &Header,
        payload: &[u8],
        entry: &Entry,
    ) -> (u64, bool) {
        if header.flags & flag::PART == 0 {
            return (self.apply_change(author, header, payload, entry), true);
        }
        if header.flags & flag::FIRST != 0 {
            parts.clear();
        }
        parts.push(Piece::new(header, payload, Vec::new()));
        if header.flags & flag::MORE != 0 {
            return (0, false);
        }
        let parts = std::mem::take(parts);
        let parts: Vec<&Piece> = parts.iter().collect();
        let removed =
            Piece::join(&parts).map_or(0, |whole| self.apply_change(author, &whole.header, whole.payload(), entry));
        (removed, true)
    }

    pub(super) fn apply_step(
        &self,
        core: &mut Core,
        author: Author,
        header: &Header,
        piece: Option<Piece>,
    ) -> Result<(), String> {
        let (rank, step) = (author.rank.ok_or("an observer takes no part in steps")?, header.seq);
        let outcome = match (header.op, piece) {
            (_, Some(piece)) => core.steps.offer(rank, step, Arc::new(piece)).and_then(|offered| match offered {
                Outcome::New if header.flags & flag::LAST != 0 => core.steps.prepare(rank, step, author.incarnation),
                _ => Ok(offered),
            }),
            (Op::Prepare, None) => core.steps.prepare(rank, step, author.incarnation),
            (Op::Commit, None) => core.steps.commit(rank, step),
            (_, None) => core.steps.abort(rank, step),
        };
        outcome.map_err(|disorder| disorder.to_string())?;
        self.apply_ripe(core);
        Ok(())
    }

    /// Applies the steps that are complete, each as one push per table.
    pub(super) fn apply_ripe(&self, core: &mut Core) {
        let before = core.steps.step();
        while let Some((step, parts)) = core.steps.take_ripe() {
            // Everybody's count by 1 / trainers. Where some take no part, those of the others are the mean all the same.
            let more = (parts.len() < self.config.world).then(|| self.config.world as f32 / parts.len() as f32);
            let mut by_table: BTreeMap<u32, Vec<&Piece>> = BTreeMap::new();
            for piece in parts.iter().flat_map(|(_, pieces)| pieces) {
                by_table.entry(piece.header.table).or_default().push(piece);
            }
            for (number, pieces) in by_table {
                let Ok(entry) = self.tables.get(number) else { continue };
                let (settings, pushes): (Vec<&Piece>, Vec<&Piece>) =
                    pieces.into_iter().partition(|piece| matches!(piece.header.op, Op::LearningRate | Op::SetDense));
                for piece in whole_pieces(&settings).iter().map(Joined::piece) {
                    let author = Author { rank: None, incarnation: 0 };
                    self.apply_change(author, &piece.header, piece.payload(), &entry);
                }
                apply_summed(&entry, &pushes, more, keys::draw(u64::MAX, step));
            }
            self.buffers.put(parts.into_iter().flat_map(|(_, pieces)| pieces));
        }
        if core.steps.step() != before {
            self.coordination.publish_step(core);
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
        core.ending.last_done = self.lifetime.now();
        self.apply_ripe(core);
    }

    /// It takes no more steps, and is here.
    pub(super) fn apply_steps_done(&self, core: &mut Core, rank: u32) {
        core.steps.leave(rank);
        self.apply_ripe(core);
    }

    /// One record of the log, as it was done the first time.
    pub(super) fn replay(&self, bytes: &[u8]) -> Result<(), String> {
        let (author, header, payload) = match records::decode(bytes)? {
            Record::Decision(decision) => return self.replay_decision(&decision),
            Record::Gathered(name, turn, count, strings) => return self.restore_gathered(name, turn, count, strings),
            Record::Operation(author, header, payload) => (author, header, payload),
        };
        if let Some(rank) = author.rank {
            if rank as usize >= self.config.world {
                return Err(format!("it is of trainer {rank}, and there are {}", self.config.world));
            }
            let now = self.lifetime.now();
            let members = &mut self.core().members;
            members.arrives(rank, author.incarnation, now);
            members.left(rank, author.incarnation, now);
        }
        match header.op {
            Op::Create => {
                let creation: Creation = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
                let mut registry = self.tables.write();
                match registry.want(&creation.name, &creation.spec)? {
                    Wanted::Have(_) => {}
                    Wanted::Change(entry) => registry.add(entry.with_spec(creation.spec, &entry)?),
                    Wanted::Make => registry.add(self.tables.make(&creation.name, creation.spec)?),
                }
            }
            Op::Done => {
                let rank = author.rank.ok_or("an observer is never done")?;
                let mut core = self.core();
                match header.flags & flag::STEP {
                    0 => self.apply_done(&mut core, rank),
                    _ => self.apply_steps_done(&mut core, rank),
                }
            }
            Op::Take => {
                let rank = author.rank.ok_or("an observer takes no numbers")?;
                let name = std::str::from_utf8(payload).map_err(|_| "its name is no text")?;
                self.core().meetings.counters.give(name, rank, author.incarnation, header.seq, 0);
            }
            Op::Load => self.apply_load(payload).map_err(|refusal| refusal.message)?,
            Op::Prepare | Op::Commit | Op::Abort => {
                self.apply_step(&mut self.core(), author, &header, None)?;
            }
            _ if header.flags & flag::STEP != 0 => {
                self.check_change(&header, payload).map_err(|refusal| refusal.message)?;
                let piece = Piece::new(&header, payload, self.buffers.take());
                self.apply_step(&mut self.core(), author, &header, Some(piece))?;
            }
            _ => {
                let entry = self.check_change(&header, payload).map_err(|refusal| refusal.message)?;
                match author.rank {
                    Some(rank) => {
                        let mut session = self.sessions.of(rank);
                        if self.apply_whole(&mut session.parts, author, &header, payload, &entry).1 {
                            session.carried_out(header.seq, 0);
                        }
                    }
                    None => drop(self.apply_change(author, &header, payload, &entry)),
                }
            }
        }
        Ok(())
    }

    /// A gather that was complete before this server began.
    pub(super) fn restore_gathered(&self, name: &str, turn: u64, count: u32, strings: &[u8]) -> Result<(), String> {
        if count as usize != self.config.world {
            return Err(format!("it is of {count} trainers, and there are {}", self.config.world));
        }
        self.core().meetings.gathers.completes(name, Gathered { turn, count, bytes: strings.to_vec(), lsn: 0 });
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
            Decision::Barrier { name, turn } => core.meetings.barriers.completes(name, *turn, 0),
            Decision::Saved { mode } => {
                drop(core);
                self.age(*mode)?;
            }
        }
        Ok(())
    }
}

/// Gradients that are a mean count by `more` as well, if that is said; what is counted (slot, show, click) does not.
fn raised<'a>(piece: &Piece, rows: Cow<'a, [f32]>, more: Option<f32>, counted: usize) -> Cow<'a, [f32]> {
    let Some(more) = more.filter(|_| piece.header.flags & flag::MEAN != 0) else { return rows };
    let mut rows = rows.into_owned();
    for row in rows.chunks_exact_mut(piece.header.dim.max(1) as usize) {
        row.iter_mut().skip(counted).for_each(|number| *number = absent::scaled(*number, more));
    }
    Cow::Owned(rows)
}

/// All pieces of one step for one table, summed in their order and applied as one push.
fn apply_summed(entry: &Entry, pieces: &[&Piece], more: Option<f32>, draw: u64) {
    match &entry.table {
        Table::Sparse(table) => {
            let views: Vec<Keyed<'_>> = pieces
                .iter()
                .filter_map(|piece| {
                    let (keys, rows) = codec::keys(piece.payload(), piece.header.rows)?;
                    let counted = if table.spec().accessor.is_some() { 3 } else { 0 };
                    Some((keys, raised(piece, codec::floats(rows), more, counted)))
                })
                .collect();
            let parts: Vec<(&[u64], &[f32])> = views.iter().map(|(keys, rows)| (&keys[..], &rows[..])).collect();
            if !parts.is_empty() {
                table.push_summed(&parts, draw);
            }
        }
        Table::Dense(table) => {
            let joined = whole_pieces(pieces);
            let whole = joined.iter().map(Joined::piece);
            let views: Vec<Cow<'_, [f32]>> =
                whole.map(|piece| raised(piece, codec::floats(piece.payload()), more, 0)).collect();
            let parts: Vec<&[f32]> = views.iter().map(|view| &view[..]).collect();
            if !parts.is_empty() {
                // Their lengths were compared when they came.
                let _ = table.push_summed(&parts);
            }
        }
    }
}
