//! Tables to disk while training goes on: checkpoints that a trainer asks for, and the server's own snapshots, which take
//! the place of a log that has grown long. Both freeze the tables for a moment in which nothing changes, and then write what
//! they held at that moment.
//!
//! ```text
//! state_dir/
//!   server.json                  whose it is
//!   log/                         what was done since the snapshot
//!   snapshot-00000000000000004711/
//!     shard-*.umiak  MANIFEST    tables; the rest of the state is the manifest's metadata
//!     pieces/                    a log of its own: pieces of steps that were not applied yet
//!     gathers/                   another: what came of the last turn of each gather
//! ```

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::coordination::Core;
use super::counters::Counters;
use super::engine::Engine;
use super::gathers::Gathered;
use super::members::Remembered;
use super::payloads::parse;
use super::pieces::Piece;
use super::records::{self, Author, Decision};
use super::registry::Entry;
use super::service::{Refusal, Reply, Request, RequestError};
use super::steps::Kept;
use super::{refusals, state_dir};
use crate::poison::Unpoisoned;
use crate::store::log::Log;
use crate::store::manifest::{Manifest, TableEntry};
use crate::store::shardfile::{self, ShardHead, ShardSummary, ShardWriter};
use crate::store::sync_dir;
use crate::table::Table;
use crate::table::spec::SaveMode;
use crate::wire::frame::Op;

/// Threads that write shards: the disk is waited for after each file, so two are better than one.
const WRITERS: usize = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveRequest {
    path: PathBuf,
    #[serde(default = "all_rows")]
    mode: SaveMode,
    /// Exactly the tables of this step.
    #[serde(default)]
    step: Option<u64>,
}

fn all_rows() -> SaveMode {
    SaveMode::All
}

/// Everything of a server's state that is not in its tables.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rest {
    /// The first record of the log that is not in this snapshot.
    pub lsn: u64,
    pub members: Vec<Remembered>,
    /// Per rank, the newest number that was carried out.
    pub applied: Vec<u64>,
    pub barriers: std::collections::BTreeMap<String, u64>,
    #[serde(default)]
    pub counters: Counters,
    pub step: u64,
    pub seats: Vec<SeatRest>,
    /// Tables whose changes are followed.
    pub tracked: Vec<String>,
    /// How many records there are in the two logs beside the shard files; snapshots of earlier versions don't say.
    #[serde(default)]
    pub pieces: Option<u64>,
    #[serde(default)]
    pub gathered: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeatRest {
    pub joined: bool,
    pub fresh: bool,
    pub next: u64,
    pub prepared: Option<u64>,
    pub sealed: Vec<u64>,
}

/// In which order rows are written.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// That of keys, so that equal tables make equal files. A whole shard is in memory once more meanwhile.
    Keys,
    /// As they lie in memory: good enough for the server itself.
    Any,
}

/// The tables at one moment. They are thawed when it goes.
pub(super) struct Moment {
    tables: Vec<(Arc<Entry>, Value)>,
    /// About how large their files will be.
    bytes: u64,
    pub step: u64,
    saved: bool,
}

impl Drop for Moment {
    fn drop(&mut self) {
        for (entry, _) in &self.tables {
            match &entry.table {
                Table::Sparse(table) => table.thaw(self.saved),
                Table::Dense(table) => table.thaw(),
            }
        }
    }
}

impl Engine {
    /// The caller has the gate alone, and the right to write.
    fn freeze(&self, core: &Core, mode: SaveMode) -> Result<Moment, String> {
        let mut moment = Moment { tables: Vec::new(), bytes: 0, step: core.steps.step(), saved: false };
        for entry in self.tables.registry().all() {
            let state = match &entry.table {
                Table::Sparse(table) => table.freeze(mode).map(|()| table.state())?,
                Table::Dense(table) => table.freeze().map(|()| table.state())?,
            };
            moment.bytes += match &entry.table {
                Table::Sparse(table) => table.saved_bytes(),
                Table::Dense(table) => table.bytes() as u64,
            };
            moment.tables.push((entry.clone(), state));
        }
        Ok(moment)
    }

    fn write_shards(
        &self,
        moment: &Moment,
        dir: &Path,
        order: Order,
        written: &AtomicUsize,
    ) -> Result<Vec<ShardSummary>, String> {
        let summaries = Mutex::new(Vec::new());
        let owned = self.tables.owned();
        let per_file = shardfile::shards_per_file(moment.bytes, owned.len());
        let next = AtomicUsize::new(owned.start);
        let failure: Mutex<Option<String>> = Mutex::new(None);
        let lock = |failure: &Mutex<Option<String>>| failure.lock().unpoisoned().is_some();
        std::thread::scope(|scope| {
            for _ in 0..WRITERS.min(owned.len().div_ceil(per_file)) {
                scope.spawn(|| {
                    loop {
                        let first = next.fetch_add(per_file, Ordering::Relaxed);
                        if first >= owned.end || lock(&failure) {
                            return;
                        }
                        let shards = first..owned.end.min(first + per_file);
                        let count = shards.len();
                        let outcome = match self.lifetime.is_stopped() {
                            true => Err("the server is being stopped".to_owned()),
                            false => self.write_file(moment, dir, order, shards).map_err(|error| error.to_string()),
                        };
                        match outcome {
                            Ok(summary) => summaries.lock().unpoisoned().push(summary),
                            Err(text) => *failure.lock().unpoisoned() = Some(text),
                        }
                        written.fetch_add(count, Ordering::Relaxed);
                    }
                });
            }
        });
        if let Some(failure) = failure.into_inner().unpoisoned() {
            return Err(failure);
        }
        sync_dir(dir).map_err(|error| error.to_string())?;
        let mut summaries = summaries.into_inner().unpoisoned();
        summaries.sort_by_key(|summary| summary.shard);
        Ok(summaries)
    }

    fn write_file(
        &self,
        moment: &Moment,
        dir: &Path,
        order: Order,
        shards: Range<usize>,
    ) -> std::io::Result<ShardSummary> {
        let about = json!({"job": self.config.job});
        let (shard, count) = (shards.start, shards.len());
        let head = ShardHead { shards: self.config.shards, shard, count, step: moment.step, about };
        let mut writer = ShardWriter::create(dir, &shardfile::file_name(shard), &head)?;
        for (entry, state) in &moment.tables {
            writer.table(&entry.name, &entry.spec, state)?;
            for shard in shards.clone() {
                match &entry.table {
                    Table::Sparse(table) if order == Order::Keys => {
                        table.scan_sorted(shard, &mut |batch| writer.rows(batch))?;
                    }
                    Table::Sparse(table) => table.scan(shard, &mut |batch| writer.rows(batch))?,
                    Table::Dense(table) => {
                        if let Some((offset, values, state)) = table.chunk(shard) {
                            writer.dense(offset as u64, &values, &state)?;
                        }
                    }
                }
            }
        }
        writer.finish()
    }

    // --- checkpoints ------------------------------------------------------------------------------------------------

    pub(super) fn save(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let wanted: SaveRequest = parse(Op::Save, request.payload)?;
        if let Some(step) = wanted.step {
            self.wait_for_step(request.who, step, reply)?;
        }
        let _writing = self.take_writing(request.who, reply)?;
        std::fs::create_dir_all(&wanted.path)
            .map_err(|error| refusals::save_failed(format!("{}: {error}", wanted.path.display())))?;
        let mut moment = self.begin_save(&wanted)?;
        let written = AtomicUsize::new(0);
        let outcome = std::thread::scope(|scope| {
            let (send, receive) = channel();
            let (moment, written, path) = (&moment, &written, &wanted.path);
            scope.spawn(move || send.send(self.write_shards(moment, path, Order::Keys, written)));
            loop {
                match receive.recv_timeout(Duration::from_secs(1)) {
                    Ok(outcome) => break outcome.map_err(|text| RequestError::from(refusals::save_failed(text))),
                    Err(RecvTimeoutError::Timeout) => {
                        let done = written.load(Ordering::Relaxed);
                        // A client that went away does not hurt the save.
                        let _ =
                            reply.wait(&format!("saving: {done} of {} shards are written", self.tables.owned().len()));
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        break Err(refusals::save_failed("the thread that writes came to grief").into());
                    }
                }
            }
        });
        moment.saved = outcome.is_ok();
        if !moment.saved && wanted.mode != SaveMode::All {
            // The log says that the rows were saved: a snapshot makes that part of it unnecessary.
            self.durability.schedule.ask();
        }
        let files = outcome?;
        let tables: serde_json::Map<String, Value> = moment
            .tables
            .iter()
            .map(|(entry, state)| (entry.name.clone(), json!({"spec": entry.spec, "state": state})))
            .collect();
        let answer = json!({"server": self.config.server, "step": moment.step, "tables": tables, "files": files});
        drop(moment);
        Ok(reply.json(&answer)?)
    }

    fn begin_save(&self, wanted: &SaveRequest) -> Result<Moment, Refusal> {
        let _alone = self.alone();
        let core = self.core();
        if let Some(step) = wanted.step
            && core.steps.step() > step
        {
            let now = core.steps.step();
            return Err(refusals::step_past(format!("the tables are those of step {now} already, not of step {step}")));
        }
        let moment = self.freeze(&core, wanted.mode).map_err(refusals::save_failed)?;
        if wanted.mode != SaveMode::All {
            self.durability.decide(&Decision::Saved { mode: wanted.mode })?;
        }
        Ok(moment)
    }

    /// What a save did to rows, done again in a replay.
    pub(super) fn age(&self, mode: SaveMode) -> Result<(), String> {
        let core = self.core();
        let mut moment = self.freeze(&core, mode)?;
        moment.saved = true;
        Ok(())
    }

    // --- the server's own -------------------------------------------------------------------------------------------

    /// Writes the whole state to disk, and lets go of the log before it.
    pub(super) fn snapshot(&self) -> Result<(), String> {
        let (Some(log), Some(state_dir)) = (self.durability.log(), &self.config.state_dir) else { return Ok(()) };
        let _writing = self.durability.write();
        let (moment, mut rest, kept, gathered, parts) = {
            let _alone = self.alone();
            // Sessions come before the core. Nothing is carried out in between: the gate is closed.
            let applied = self.sessions.applied();
            let core = self.core();
            let moment = self.freeze(&core, SaveMode::All)?;
            let (_, kept) = core.steps.keep();
            let mut rest = self.rest(&core, &kept, applied);
            let gathered = core.meetings.gathers.remember();
            drop(core);
            rest.lsn = log.rotate();
            (moment, rest, kept, gathered, self.log_parts(log)?)
        };
        let name = format!("snapshot-{:020}", rest.lsn);
        if state_dir.join(&name).exists() {
            // Nothing was logged since the last one: it holds the same.
            return Ok(());
        }
        let partial = state_dir.join(format!("{name}.partial"));
        state_dir::remove(&partial)?;
        std::fs::create_dir_all(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
        let files = self.write_shards(&moment, &partial, Order::Any, &AtomicUsize::new(0))?;
        rest.pieces = Some(write_pieces(&partial, &kept)?);
        rest.gathered = Some(write_gathered(&partial, &gathered)?);
        let entry = |(entry, state): &(Arc<Entry>, Value)| {
            (entry.name.clone(), TableEntry { spec: entry.spec.clone(), state: state.clone() })
        };
        let manifest = Manifest {
            name: format!("server {} of {}", self.config.server, self.config.servers),
            shards: self.config.shards,
            step: moment.step,
            saved: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            tables: moment.tables.iter().map(entry).collect(),
            files,
            metadata: serde_json::to_value(&rest).map_err(|error| error.to_string())?,
        };
        let io = |error: std::io::Error| error.to_string();
        manifest.write(&partial).map_err(io)?;
        drop(moment);
        // A snapshot must not be newer than the log that follows it.
        log.wait_durable(parts.max(rest.lsn - 1))?;
        std::fs::rename(&partial, state_dir.join(&name)).map_err(io)?;
        sync_dir(state_dir).map_err(io)?;
        state_dir::remove_snapshots_before(state_dir, rest.lsn)?;
        log.drop_before(rest.lsn)?;
        self.durability.schedule.count();
        Ok(())
    }

    /// Parts of changes that are not whole yet stand nowhere but in the log, so they stand in the new one too. Returns the number
    /// of the last one.
    fn log_parts(&self, log: &Log) -> Result<u64, String> {
        let mut last = 0;
        for rank in 0..self.config.world as u32 {
            let session = self.sessions.of(rank);
            let author = Author { rank: Some(rank), incarnation: session.incarnation() };
            // A checkpoint may have been loaded in between, without their table.
            for part in session.parts.iter().filter(|part| self.check_change(&part.header, part.payload()).is_ok()) {
                last = log.append(&[&records::operation_head(author, &part.header), part.payload()])?;
            }
        }
        Ok(last)
    }

    fn rest(&self, core: &Core, kept: &[Kept<Arc<Piece>>], applied: Vec<u64>) -> Rest {
        let seat = |kept: &Kept<Arc<Piece>>| SeatRest {
            joined: kept.joined,
            fresh: kept.fresh,
            next: kept.next,
            prepared: kept.prepared,
            sealed: kept.sealed.iter().map(|(step, _)| *step).collect(),
        };
        Rest {
            lsn: 0,
            members: core.members.remember(),
            applied,
            barriers: core.meetings.barriers.remember(),
            counters: core.meetings.counters.clone(),
            step: core.steps.step(),
            seats: kept.iter().map(seat).collect(),
            tracked: self.tables.tracked(),
            pieces: None,
            gathered: None,
        }
    }
}

/// A record of a piece: rank, which sealed step (or `OFFERED`), header, payload.
pub(super) const OFFERED: u64 = u64::MAX;
pub(super) const PIECES: &str = "pieces";
pub(super) const GATHERS: &str = "gathers";

/// Returns how many records it wrote.
fn write_pieces(dir: &Path, kept: &[Kept<Arc<Piece>>]) -> Result<u64, String> {
    let log = Log::open(&dir.join(PIECES), Duration::from_secs(1)).map_err(|error| error.to_string())?;
    let mut last = 0;
    for (rank, seat) in (0u64..).zip(kept) {
        let sealed = seat.sealed.iter().map(|(step, pieces)| (*step, pieces));
        for (step, pieces) in sealed.chain([(OFFERED, &seat.offered)]) {
            for piece in pieces {
                let header = piece.header.encode();
                last = log.append(&[&rank.to_le_bytes(), &step.to_le_bytes(), &header, piece.payload()])?;
            }
        }
    }
    log.wait_durable(last)?;
    Ok(last)
}

fn write_gathered(dir: &Path, gathered: &[(String, Arc<Gathered>)]) -> Result<u64, String> {
    let log = Log::open(&dir.join(GATHERS), Duration::from_secs(1)).map_err(|error| error.to_string())?;
    let mut last = 0;
    for (name, gathered) in gathered {
        let head = records::gathered_head(name, gathered.turn, gathered.count);
        last = log.append(&[&head, name.as_bytes(), &gathered.bytes])?;
    }
    log.wait_durable(last)?;
    Ok(last)
}
