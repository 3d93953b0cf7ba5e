//! Tables from shard files: a checkpoint that a trainer asks for, or the server's own snapshot. New tables are built beside
//! the old ones while these go on serving, and take their place when all of them are whole; or nothing changes.
//!
//! With several servers a client asks twice: with `check` everything is read and checked and waits here, and when no server
//! has refused it, the same request without `check` puts it in its place. So a load that is refused changes no server.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use super::engine::Engine;
use super::members::State;
use super::payloads::parse;
use super::refusals;
use super::registry::{Entry, Registry};
use super::service::{Refusal, Reply, Request, RequestError};
use super::staging::{LoadRequest, Loaded, Staged};
use super::steps::Steps;
use crate::poison::Unpoisoned;
use crate::store::shardfile::{self, TableHead};
use crate::store::shardread::{self, ShardReader};
use crate::table::dense::DenseTable;
use crate::table::{Table, differences};
use crate::wire::frame::Op;

/// Threads that read files.
const READERS: usize = 2;

/// A table that is being made of files.
struct Made {
    entry: Arc<Entry>,
    /// The first element of those that came from the file whose state a dense table has.
    state_from: Option<u64>,
}

/// The state of a dense table is that of the server that had its first elements: one that had none of them was never given
/// values, and does not know that others were.
fn take_state(
    made: &Mutex<BTreeMap<String, Made>>,
    head: &TableHead,
    offset: u64,
    table: &DenseTable,
) -> Result<(), String> {
    let mut made = made.lock().unpoisoned();
    let Some(known) = made.get_mut(&head.name) else { return Ok(()) };
    if known.state_from.is_none_or(|first| offset < first) {
        known.state_from = Some(offset);
        table.restore(&head.state)?;
    }
    Ok(())
}

impl Engine {
    /// Tables made of shard files: all of this server's shards, or a refusal. Those that are there already keep their
    /// settings, which are those of the trainers' script.
    pub(super) fn read_tables(&self, files: &[PathBuf], tracked: &[String]) -> Result<Loaded, String> {
        let old = self.tables.registry();
        let made: Mutex<BTreeMap<String, Made>> = Mutex::default();
        let found: Mutex<Vec<usize>> = Mutex::default();
        let failure: Mutex<Option<String>> = Mutex::default();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..READERS.min(files.len()) {
                scope.spawn(|| {
                    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.read_file(file, &old, tracked, &made) {
                            Ok(shards) => found.lock().unpoisoned().extend(shards),
                            Err(problem) => {
                                failure.lock().unpoisoned().get_or_insert(problem);
                                return;
                            }
                        }
                    }
                });
            }
        });
        if let Some(problem) = failure.into_inner().unpoisoned() {
            return Err(problem);
        }
        let mut found = found.into_inner().unpoisoned();
        found.sort_unstable();
        if let Some(missing) = missing_shard(&found, self.tables.owned()) {
            return Err(missing);
        }
        let (mut registry, mut changes) = (Registry::default(), Vec::new());
        for Made { entry, .. } in made.into_inner().unpoisoned().into_values() {
            match old.by_name(&entry.name) {
                Some(old) => {
                    changes.extend(differences::change(&entry.name, &entry.spec, &old.spec));
                    registry.add(entry.with_spec(old.spec.clone(), old)?);
                }
                None => registry.add(entry),
            }
        }
        Ok((registry, changes))
    }

    /// Returns those of the file's shards that are this server's.
    fn read_file(
        &self,
        file: &Path,
        old: &Registry,
        tracked: &[String],
        made: &Mutex<BTreeMap<String, Made>>,
    ) -> Result<Range<usize>, String> {
        let reader = ShardReader::open(file).map_err(|error| error.to_string())?;
        let (shards, head) = (reader.head().shards, reader.head());
        let (owned, held) = (self.tables.owned(), head.shard..head.shard + head.count);
        let wanted = held.start.max(owned.start)..held.end.min(owned.end);
        if shards != self.config.shards {
            let text = format!("is of a job with {shards} virtual shards, and this one has {}", self.config.shards);
            return Err(format!("{}: {text}", file.display()));
        }
        if wanted.is_empty() {
            return Ok(wanted);
        }
        let mut current: Option<(Arc<Entry>, TableHead)> = None;
        for piece in reader {
            let problem = |text: String| format!("{}: {text}", file.display());
            match (piece.map_err(|error| error.to_string())?, &current) {
                (shardread::Piece::Table(head), _) => {
                    if let Some(entry) = old.by_name(&head.name) {
                        let lines = differences::layout_differences(&head.spec, &entry.spec);
                        if !lines.is_empty() {
                            let lines = lines.join("; ");
                            let text = format!("holds table {:?} with another description: {lines}", head.name);
                            return Err(problem(text));
                        }
                    }
                    let mut made = made.lock().unpoisoned();
                    let entry = match made.get(&head.name) {
                        Some(other) if other.entry.spec != head.spec => {
                            return Err(problem(format!("describes table {:?} unlike the other files", head.name)));
                        }
                        Some(other) => other.entry.clone(),
                        None => {
                            let entry = self.tables.make(&head.name, head.spec.clone()).map_err(problem)?;
                            // Before its rows come, so that all of them count as changed: nobody knows who has seen what.
                            if tracked.contains(&head.name) {
                                entry.track(self.config.world);
                            }
                            match &entry.table {
                                Table::Sparse(table) => table.restore(&head.state),
                                Table::Dense(table) => table.restore(&head.state),
                            }
                            .map_err(problem)?;
                            made.insert(head.name.clone(), Made { entry: entry.clone(), state_from: None });
                            entry
                        }
                    };
                    drop(made);
                    current = Some((entry, head));
                }
                (shardread::Piece::Rows(mut batch), Some((entry, _))) => match &entry.table {
                    Table::Sparse(table) => {
                        if wanted != held {
                            batch.retain(|key| wanted.contains(&self.tables.shard_of(key)));
                        }
                        table.load(&batch).map_err(problem)?;
                    }
                    Table::Dense(_) => return Err(problem("holds rows of a dense table".to_owned())),
                },
                (shardread::Piece::Dense { offset, values, state }, Some((entry, head))) => match &entry.table {
                    Table::Dense(table) if held.contains(&table.shard_at(offset as usize)) => {
                        take_state(made, head, offset, table).map_err(problem)?;
                        if wanted.contains(&table.shard_at(offset as usize)) {
                            table.load_chunk(offset as usize, &values, &state).map_err(problem)?;
                        }
                    }
                    Table::Dense(_) => return Err(problem("holds elements of a shard that is not in it".to_owned())),
                    Table::Sparse(_) => return Err(problem("holds elements of a sparse table".to_owned())),
                },
                _ => return Err(problem("holds numbers of no table".to_owned())),
            }
        }
        Ok(wanted)
    }

    /// What was read for this very request, if nothing has changed about the tables since.
    fn take_staged(&self, request: &LoadRequest) -> Option<Loaded> {
        let staged = self.staging.take(request)?;
        let old = self.tables.registry();
        let fits = |entry: &Arc<Entry>| old.by_name(&entry.name).is_none_or(|old| old.spec == entry.spec);
        let same = staged.tracked == self.tables.tracked() && staged.loaded.0.all().all(fits);
        same.then_some(staged.loaded)
    }

    fn read_wanted(&self, wanted: &LoadRequest) -> Result<Loaded, Refusal> {
        let failed = |text: String| refusals::load_failed(text);
        let files: Vec<PathBuf> = match &wanted.files {
            Some(names) => names.iter().map(|name| wanted.path.join(name)).collect(),
            None => files_of(&wanted.path, &self.tables.owned()).map_err(failed)?,
        };
        self.read_tables(&files, &self.tables.tracked()).map_err(failed)
    }

    /// The new tables take their place. The caller has the gate alone.
    fn install(&self, tables: &Registry, step: Option<u64>) {
        let mut registry = self.tables.write();
        for entry in tables.all() {
            registry.add(entry.clone());
        }
        drop(registry);
        if let Some(step) = step {
            let mut core = self.core();
            let gone: Vec<u32> = (0..self.config.world as u32)
                .filter(|rank| !core.steps.standing(*rank).joined || core.members.state(*rank) == State::Done)
                .collect();
            core.steps = Steps::starting_at(step, self.config.world);
            gone.into_iter().for_each(|rank| core.steps.leave(rank));
            self.coordination.publish_step(&core);
        }
        self.coordination.notify();
    }

    pub(super) fn apply_load(&self, payload: &[u8]) -> Result<(), Refusal> {
        let wanted: LoadRequest = parse(Op::Load, payload)?;
        let (tables, _) = self.read_wanted(&wanted)?;
        self.install(&tables, wanted.step);
        Ok(())
    }

    pub(super) fn load(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let wanted: LoadRequest = parse(Op::Load, request.payload)?;
        let (lsn, changes) = {
            let _writing = self.take_writing(request.who, reply)?;
            let tracked = self.tables.tracked();
            let loaded = std::thread::scope(|scope| {
                let read = || match wanted.check {
                    true => self.read_wanted(&wanted),
                    false => self.take_staged(&wanted).map_or_else(|| self.read_wanted(&wanted), Ok),
                };
                let reading = scope.spawn(read);
                let mut word = Instant::now() + Duration::from_secs(1);
                while !reading.is_finished() {
                    std::thread::sleep(Duration::from_millis(2));
                    if Instant::now() >= word {
                        let _ = reply.wait("loading a checkpoint");
                        word = Instant::now() + Duration::from_secs(1);
                    }
                }
                reading.join().unwrap_or_else(|_| Err(refusals::load_failed("the thread that reads came to grief")))
            })?;
            if wanted.check {
                let since = self.lifetime.now();
                self.staging.put(Staged { request: wanted, tracked, loaded, since });
                return Ok(reply.json(&json!({"server": self.config.server, "checked": true}))?);
            }
            let _alone = self.alone();
            let lsn = self.durability.append_request(request)?;
            self.install(&loaded.0, wanted.step);
            (lsn, loaded.1)
        };
        self.durability.wait(lsn)?;
        // So that a restart does not need the checkpoint's files any more.
        self.durability.schedule.ask();
        let rows: serde_json::Map<String, serde_json::Value> = self
            .tables
            .registry()
            .all()
            .filter_map(|entry| match &entry.table {
                Table::Sparse(table) => Some((entry.name.clone(), json!(table.len()))),
                Table::Dense(_) => None,
            })
            .collect();
        let step = self.coordination.step();
        let server = self.config.server;
        Ok(reply.json(&json!({"server": server, "step": step, "rows": rows, "changes": changes}))?)
    }
}

/// The files of a directory that can hold these shards: each begins with the shard of its name, and ends before the next one.
fn files_of(dir: &Path, owned: &Range<usize>) -> Result<Vec<PathBuf>, String> {
    let problem = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut firsts = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(problem)? {
        firsts.extend(shardfile::first_shard(&entry.map_err(problem)?.file_name().to_string_lossy()));
    }
    firsts.sort_unstable();
    let ends = firsts.iter().skip(1).copied().chain([usize::MAX]);
    let fits = |(first, end): &(usize, usize)| *first < owned.end && *end > owned.start;
    let fitting = firsts.iter().copied().zip(ends).filter(fits);
    Ok(fitting.map(|(first, _)| dir.join(shardfile::file_name(first))).collect())
}

fn missing_shard(found: &[usize], owned: Range<usize>) -> Option<String> {
    if let Some(twice) = found.windows(2).find(|pair| pair[0] == pair[1]) {
        return Some(format!("shard {} is there twice", twice[0]));
    }
    let missing: Vec<usize> = owned.filter(|shard| found.binary_search(shard).is_err()).collect();
    let first = missing.first()?;
    Some(format!("the file of shard {first} is missing, and {} more", missing.len() - 1))
}
