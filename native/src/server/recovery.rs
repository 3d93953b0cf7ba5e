//! How a server begins: empty, or with everything that its state directory holds. The newest whole snapshot is loaded, then
//! the log after it is done again, record by record, by the same code that did it the first time.
//!
//! A state directory belongs to one server of one job; anything else is refused before it is touched.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::barriers::Barriers;
use super::config::EngineConfig;
use super::engine::{Core, Engine};
use super::gate::Gate;
use super::lane::Lane;
use super::members::{Members, State};
use super::operations::{Piece, author, parse};
use super::registry::{Entry, Registry};
use super::service::{Identity, Refusal, Reply, RequestError};
use super::snapshots::{OFFERED, PIECES, Rest};
use super::steps::{Kept, Steps};
use super::{records, refusals, upkeep};
use crate::store::log::{self, Log};
use crate::store::manifest::Manifest;
use crate::store::shardfile;
use crate::store::shardread::{self, ShardReader};
use crate::store::sync_dir;
use crate::table::Table;
use crate::wire::frame::{HEADER, Header, Op};

/// Whose a state directory is.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Owner {
    format: u32,
    job: String,
    server: usize,
    servers: usize,
    shards: usize,
    world: usize,
}

const OWNER: &str = "server.json";
const FORMAT: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    path: PathBuf,
    /// Names of files; without them, all shard files that are there.
    #[serde(default)]
    files: Option<Vec<String>>,
    /// From here on, the steps of all trainers.
    #[serde(default)]
    step: Option<u64>,
}

impl Engine {
    /// A server that is ready to serve. Every problem of the configuration, or what is wrong with the state directory.
    pub fn open(config: EngineConfig) -> Result<Arc<Self>, String> {
        let sharding = config.check()?;
        let world = config.world;
        let core = Core {
            steps: Steps::new(world),
            members: Members::new(world, config.patience(), 0),
            barriers: Barriers::default(),
            barrier_lsn: 0,
            last_done: 0,
            failed: None,
            verdict: None,
        };
        let engine = Self {
            sharding,
            owned: sharding.shards_of(config.server, config.servers),
            life: random(),
            begun: Instant::now(),
            gate: Gate::default(),
            registry: RwLock::new(Registry::default()),
            lanes: (0..world).map(|_| Mutex::default()).collect(),
            signs: (0..world).map(|_| AtomicU64::new(0)).collect(),
            core: Mutex::new(core),
            changed: Condvar::new(),
            step: AtomicU64::new(0),
            log: OnceLock::new(),
            writing: Mutex::new(()),
            snapshotting: AtomicBool::new(false),
            wants_snapshot: AtomicBool::new(false),
            snapshots: AtomicU64::new(0),
            snapshot_failure: Mutex::new(None),
            stopped: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            config,
        };
        if let Some(dir) = engine.config.state_dir.clone() {
            engine.recover(&dir)?;
        }
        let engine = Arc::new(engine);
        upkeep::start(&engine)?;
        Ok(engine)
    }

    fn recover(&self, dir: &Path) -> Result<(), String> {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        self.claim(dir)?;
        let from = self.load_newest_snapshot(dir)?;
        let interval = Duration::from_millis(self.config.log_ms);
        let mut visit = |lsn: u64, bytes: &[u8]| {
            self.replayed.fetch_add(1, Ordering::Relaxed);
            self.replay(bytes).map_err(|problem| format!("record {lsn} can't be done again: {problem}"))
        };
        let recovered = Log::recover(&dir.join("log"), interval, from, &mut visit);
        let (log, _) = recovered.map_err(|error| error.to_string())?;
        let now = self.now();
        let mut core = self.core();
        core.members.forgive(now);
        core.last_done = now;
        drop(core);
        // Nobody else has this engine yet.
        let _ = self.log.set(log);
        Ok(())
    }

    /// Writes down whose the directory is, or compares.
    fn claim(&self, dir: &Path) -> Result<(), String> {
        let config = &self.config;
        let own = Owner {
            format: FORMAT,
            job: config.job.clone(),
            server: config.server,
            servers: config.servers,
            shards: config.shards,
            world: config.world,
        };
        let path = dir.join(OWNER);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?.next().is_some() {
                    return Err(format!("{}: is not empty, and not a server's state directory", dir.display()));
                }
                let text = serde_json::to_string_pretty(&own).map_err(|error| error.to_string())?;
                let fresh = dir.join(format!("{OWNER}.new"));
                let written = std::fs::write(&fresh, text)
                    .and_then(|()| std::fs::File::open(&fresh)?.sync_all())
                    .and_then(|()| std::fs::rename(&fresh, &path))
                    .and_then(|()| sync_dir(dir));
                return written.map_err(|error| format!("{}: {error}", path.display()));
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let theirs: Owner =
            serde_json::from_str(&text).map_err(|error| format!("{}: is not understood: {error}", path.display()))?;
        if theirs == own {
            return Ok(());
        }
        let mut differences = Vec::new();
        let mut compare = |name: &str, theirs: String, own: String| {
            if theirs != own {
                differences.push(format!("{name} is {theirs} there and {own} here"));
            }
        };
        compare("format", theirs.format.to_string(), own.format.to_string());
        compare("job", format!("{:?}", theirs.job), format!("{:?}", own.job));
        compare("server", theirs.server.to_string(), own.server.to_string());
        compare("the number of servers", theirs.servers.to_string(), own.servers.to_string());
        compare("the number of shards", theirs.shards.to_string(), own.shards.to_string());
        compare("the number of trainers", theirs.world.to_string(), own.world.to_string());
        Err(format!(
            "{}: holds the state of another server: {}; a checkpoint can move it, a state directory can't",
            dir.display(),
            differences.join(", ")
        ))
    }

    /// Returns the first record of the log that comes after it.
    fn load_newest_snapshot(&self, dir: &Path) -> Result<u64, String> {
        let mut problems = Vec::new();
        for (lsn, path) in snapshots(dir)?.into_iter().rev() {
            match self.load_snapshot(&path) {
                Ok(()) => return Ok(lsn),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(1) } else { Err(problems.join("; ")) }
    }

    fn load_snapshot(&self, dir: &Path) -> Result<(), String> {
        let manifest = Manifest::read(dir).map_err(|error| error.to_string())?;
        let rest: Rest = serde_json::from_value(manifest.metadata.clone())
            .map_err(|error| format!("{}: is not understood: {error}", dir.display()))?;
        if rest.seats.len() != self.config.world || rest.applied.len() != self.config.world {
            return Err(format!("{}: is of a job with {} trainers", dir.display(), rest.seats.len()));
        }
        let files: Vec<PathBuf> = manifest.files.iter().map(|file| dir.join(&file.name)).collect();
        let tables = self.read_tables(&files, &rest.tracked)?;
        let mut steps = self.read_pieces(dir, &rest)?;
        let now = self.now();
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = tables;
        for (rank, applied) in (0..).zip(&rest.applied) {
            *self.lane(rank) = Lane::restored(*applied);
        }
        let mut core = self.core();
        std::mem::swap(&mut core.steps, &mut steps);
        core.members = Members::restore(self.config.patience(), rest.members, now);
        core.barriers = Barriers::restore(rest.barriers);
        self.step.store(core.steps.step(), Ordering::Release);
        Ok(())
    }

    fn read_pieces(&self, dir: &Path, rest: &Rest) -> Result<Steps<Arc<Piece>>, String> {
        let mut kept: Vec<Kept<Arc<Piece>>> = rest
            .seats
            .iter()
            .map(|seat| Kept {
                joined: seat.joined,
                fresh: seat.fresh,
                next: seat.next,
                prepared: seat.prepared,
                offered: Vec::new(),
                sealed: seat.sealed.iter().map(|step| (*step, Vec::new())).collect(),
            })
            .collect();
        let mut visit = |_: u64, bytes: &[u8]| {
            let foreign = || "it is not a piece of a step".to_owned();
            let (rank, bytes) = bytes.split_first_chunk::<8>().ok_or_else(foreign)?;
            let (step, bytes) = bytes.split_first_chunk::<8>().ok_or_else(foreign)?;
            let (header, payload) = bytes.split_first_chunk::<HEADER>().ok_or_else(foreign)?;
            let (rank, step) = (u64::from_le_bytes(*rank), u64::from_le_bytes(*step));
            let header = Header::decode(header).map_err(|_| foreign())?;
            if header.length != payload.len() as u64 {
                return Err(foreign());
            }
            let seat = kept.get_mut(rank as usize).ok_or_else(foreign)?;
            let pieces = match step {
                OFFERED => &mut seat.offered,
                step => &mut seat.sealed.iter_mut().find(|sealed| sealed.0 == step).ok_or_else(foreign)?.1,
            };
            pieces.push(Arc::new(Piece::new(&header, payload)));
            Ok(())
        };
        log::replay(&dir.join(PIECES), 1, &mut visit).map_err(|error| error.to_string())?;
        Ok(Steps::restore(rest.step, kept))
    }

    // --- loading ----------------------------------------------------------------------------------------------------

    /// Tables made of shard files: all of this server's shards, or a refusal.
    fn read_tables(&self, files: &[PathBuf], tracked: &[String]) -> Result<Registry, String> {
        let old = self.tables();
        let made: Mutex<BTreeMap<String, Arc<Entry>>> = Mutex::default();
        let found: Mutex<Vec<usize>> = Mutex::default();
        let failure: Mutex<Option<String>> = Mutex::default();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2.min(files.len()) {
                scope.spawn(|| {
                    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.read_file(file, &old, tracked, &made) {
                            Ok(shard) => found.lock().unwrap_or_else(PoisonError::into_inner).extend(shard),
                            Err(problem) => {
                                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
                                return;
                            }
                        }
                    }
                });
            }
        });
        if let Some(problem) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(problem);
        }
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable();
        if let Some(missing) = missing_shard(&found, self.owned.clone()) {
            return Err(missing);
        }
        let mut registry = Registry::default();
        for entry in made.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
            registry.add(entry);
        }
        Ok(registry)
    }

    /// Returns the file's shard if it is this server's.
    fn read_file(
        &self,
        file: &Path,
        old: &Registry,
        tracked: &[String],
        made: &Mutex<BTreeMap<String, Arc<Entry>>>,
    ) -> Result<Option<usize>, String> {
        let reader = ShardReader::open(file).map_err(|error| error.to_string())?;
        let (shards, shard) = (reader.head().shards, reader.head().shard);
        if shards != self.config.shards {
            let text = format!("is of a job with {shards} virtual shards, and this one has {}", self.config.shards);
            return Err(format!("{}: {text}", file.display()));
        }
        if !self.owned.contains(&shard) {
            return Ok(None);
        }
        let mut current: Option<Arc<Entry>> = None;
        for piece in reader {
            let problem = |text: String| format!("{}: {text}", file.display());
            match (piece.map_err(|error| error.to_string())?, &current) {
                (shardread::Piece::Table(head), _) => {
                    if let Some(entry) = old.by_name(&head.name)
                        && entry.spec != head.spec
                    {
                        let lines = shardfile::differences(&head.spec, &entry.spec).join("; ");
                        return Err(problem(format!("holds table {:?} with another description: {lines}", head.name)));
                    }
                    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                    let entry = match made.get(&head.name) {
                        Some(entry) if entry.spec != head.spec => {
                            return Err(problem(format!("describes table {:?} unlike the other files", head.name)));
                        }
                        Some(entry) => entry.clone(),
                        None => {
                            let spec = head.spec.clone();
                            let entry =
                                Entry::make(&head.name, spec, self.sharding, self.owned.clone()).map_err(problem)?;
                            // Before its rows come, so that all of them count as changed: nobody knows who has seen what.
                            if tracked.contains(&head.name) {
                                entry.track(self.config.world);
                            }
                            match &entry.table {
                                Table::Sparse(table) => table.restore(&head.state),
                                Table::Dense(table) => table.restore(&head.state),
                            }
                            .map_err(problem)?;
                            made.insert(head.name.clone(), entry.clone());
                            entry
                        }
                    };
                    drop(made);
                    current = Some(entry);
                }
                (shardread::Piece::Rows(batch), Some(entry)) => match &entry.table {
                    Table::Sparse(table) => table.load(&batch).map_err(problem)?,
                    Table::Dense(_) => return Err(problem("holds rows of a dense table".to_owned())),
                },
                (shardread::Piece::Dense { offset, values, state }, Some(entry)) => match &entry.table {
                    Table::Dense(table) => table.load_chunk(offset as usize, &values, &state).map_err(problem)?,
                    Table::Sparse(_) => return Err(problem("holds elements of a sparse table".to_owned())),
                },
                _ => return Err(problem("holds numbers of no table".to_owned())),
            }
        }
        Ok(Some(shard))
    }

    fn read_wanted(&self, wanted: &Wanted) -> Result<Registry, Refusal> {
        let failed = |text: String| refusals::load_failed(text);
        let files: Vec<PathBuf> = match &wanted.files {
            Some(names) => names.iter().map(|name| wanted.path.join(name)).collect(),
            None => self.owned.clone().map(|shard| wanted.path.join(shardfile::file_name(shard))).collect(),
        };
        let tracked: Vec<String> =
            self.tables().all().filter(|entry| entry.is_tracked()).map(|entry| entry.name.clone()).collect();
        self.read_tables(&files, &tracked).map_err(failed)
    }

    /// The new tables take their place. The caller has the gate alone.
    fn install(&self, tables: &Registry, step: Option<u64>) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
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
            self.step.store(step, Ordering::Release);
        }
        self.changed.notify_all();
    }

    pub(super) fn apply_load(&self, payload: &[u8]) -> Result<(), Refusal> {
        let wanted: Wanted = parse(Op::Load, payload)?;
        let tables = self.read_wanted(&wanted)?;
        self.install(&tables, wanted.step);
        Ok(())
    }

    pub(super) fn load(
        &self,
        who: &Identity,
        header: &Header,
        payload: &[u8],
        reply: &mut dyn Reply,
    ) -> Result<(), RequestError> {
        let wanted: Wanted = parse(Op::Load, payload)?;
        let lsn = {
            let _writing = self.take_writing(who, reply)?;
            let tables = std::thread::scope(|scope| {
                let reading = scope.spawn(|| self.read_wanted(&wanted));
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
            let _alone = self.gate.alone();
            let lsn = self.append(&[&records::operation_head(author(who), header), payload])?;
            self.install(&tables, wanted.step);
            lsn
        };
        self.wait_durable(lsn)?;
        // So that a restart does not need the checkpoint's files any more.
        self.ask_for_snapshot();
        let rows: serde_json::Map<String, serde_json::Value> = self
            .tables()
            .all()
            .filter_map(|entry| match &entry.table {
                Table::Sparse(table) => Some((entry.name.clone(), json!(table.len()))),
                Table::Dense(_) => None,
            })
            .collect();
        let step = self.step.load(Ordering::Acquire);
        Ok(reply.json(&json!({"server": self.config.server, "step": step, "rows": rows}))?)
    }
}

fn missing_shard(found: &[usize], owned: Range<usize>) -> Option<String> {
    if let Some(twice) = found.windows(2).find(|pair| pair[0] == pair[1]) {
        return Some(format!("shard {} is there twice", twice[0]));
    }
    let missing: Vec<usize> = owned.filter(|shard| found.binary_search(shard).is_err()).collect();
    let first = missing.first()?;
    Some(format!("the file of shard {first} is missing, and {} more", missing.len() - 1))
}

/// Whole snapshots of a state directory, oldest first, by the log's position. What a crash left half made is removed.
fn snapshots(dir: &Path) -> Result<Vec<(u64, PathBuf)>, String> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("snapshot-") else { continue };
        if number.ends_with(".partial") {
            remove(&entry.path())?;
        } else if let Ok(lsn) = number.parse() {
            found.push((lsn, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

pub(super) fn remove_snapshots_before(dir: &Path, lsn: u64) -> Result<(), String> {
    for (_, path) in snapshots(dir)?.into_iter().filter(|(number, _)| *number < lsn) {
        remove(&path)?;
    }
    sync_dir(dir).map_err(|error| error.to_string())
}

/// Removes a directory, in such a way that half of it is never taken for a whole one.
pub(super) fn remove(path: &Path) -> Result<(), String> {
    if !path.exists() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: can't be removed: {error}", path.display());
    let mut doomed = path.to_path_buf();
    if path.extension().is_none_or(|extension| extension != "partial") {
        doomed.as_mut_os_string().push(".partial");
        std::fs::rename(path, &doomed).map_err(failed)?;
    }
    std::fs::remove_dir_all(&doomed).map_err(failed)
}

/// A number that nobody can guess: the standard library's hashers begin with one.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
