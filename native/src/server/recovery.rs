//! How a server begins: empty, or with everything that its state directory holds. The newest whole snapshot is loaded, then
//! the log after it is done again, record by record, by the same code that did it the first time.
//!
//! A state directory belongs to one server of one job; anything else is refused before it is touched.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::applications::Piece;
use super::barriers::Barriers;
use super::config::EngineConfig;
use super::counters::Counters;
use super::engine::{Core, Engine};
use super::gate::Gate;
use super::gathers::Gathers;
use super::lane::Lane;
use super::locks::{Lock, Rank};
use super::members::Members;
use super::posts::Posts;
use super::records::{self, Record};
use super::registry::Registry;
use super::snapshots::{GATHERS, OFFERED, PIECES, Rest};
use super::steps::{Kept, Steps};
use super::traffic::Traffic;
use super::upkeep;
use crate::store::log::{self, Log};
use crate::store::manifest::Manifest;
use crate::store::{Fresh, sync_dir, with_file};
use crate::wire::frame::{HEADER, Header};

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
            gathers: Gathers::default(),
            posts: Posts::default(),
            counters: Counters::default(),
            last_done: 0,
            waits: Default::default(),
            failed: None,
            waiting: BTreeMap::new(),
            verdict: None,
        };
        let engine = Self {
            sharding,
            owned: sharding.shards_of(config.server, config.servers),
            life: random(),
            begun: Instant::now(),
            gate: Gate::default(),
            registry: RwLock::new(Registry::default()),
            lanes: (0..world).map(|_| Lock::new(Rank::Lane, Lane::default())).collect(),
            signs: (0..world).map(|_| AtomicU64::new(0)).collect(),
            core: Lock::new(Rank::Core, core),
            changed: Condvar::new(),
            step: AtomicU64::new(0),
            log: OnceLock::new(),
            writing: Lock::new(Rank::Writing, ()),
            staged: Mutex::default(),
            threads: Mutex::default(),
            snapshotting: AtomicBool::new(false),
            wants_snapshot: AtomicBool::new(false),
            snapshots: AtomicU64::new(0),
            snapshot_after: AtomicU64::new(0),
            snapshot_failure: Mutex::new(None),
            stopped: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            traffic: Traffic::default(),
            replayed: AtomicU64::new(0),
            torn: AtomicU64::new(0),
            shelf: Default::default(),
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
        let (log, found) = recovered.map_err(|error| error.to_string())?;
        self.torn.store(found.torn.map_or(0, |(_, _, bytes)| bytes), Ordering::Relaxed);
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
                if !holds_nothing(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
                    return Err(format!("{}: is not empty, and not a server's state directory", dir.display()));
                }
                let text = serde_json::to_string_pretty(&own).map_err(|error| error.to_string())?;
                return write_owner(dir, &text).map_err(|error| error.to_string());
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
        let (tables, _) = self.read_tables(&files, &rest.tracked)?;
        let mut steps = self.read_pieces(dir, &rest)?;
        let now = self.now();
        *self.registry() = tables;
        for (rank, applied) in (0..).zip(&rest.applied) {
            *self.lane(rank) = Lane::restored(*applied);
        }
        let mut core = self.core();
        std::mem::swap(&mut core.steps, &mut steps);
        core.members = Members::restore(self.config.patience(), rest.members, now);
        core.barriers = Barriers::restore(rest.barriers);
        core.counters = rest.counters;
        core.gathers = Gathers::default();
        self.step.store(core.steps.step(), Ordering::Release);
        drop(core);
        let mut visit = |_: u64, bytes: &[u8]| match records::decode(bytes)? {
            Record::Gathered(name, turn, count, strings) => self.restore_gathered(name, turn, count, strings),
            _ => Err("it is not a gather".to_owned()),
        };
        let found = log::replay(&dir.join(GATHERS), 1, &mut visit).map_err(|error| error.to_string())?;
        check_count(&dir.join(GATHERS), rest.gathered, found.last)
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
            pieces.push(Arc::new(Piece::new(&header, payload, Vec::new())));
            Ok(())
        };
        let found = log::replay(&dir.join(PIECES), 1, &mut visit).map_err(|error| error.to_string())?;
        check_count(&dir.join(PIECES), rest.pieces, found.last)?;
        Ok(Steps::restore(rest.step, kept))
    }
}

/// Whether there is nothing but what a server left that was killed, or had no space, while it claimed the directory.
fn holds_nothing(dir: &Path) -> std::io::Result<bool> {
    let begun = format!(".{OWNER}.");
    for entry in std::fs::read_dir(dir)? {
        if !entry?.file_name().as_encoded_bytes().starts_with(begun.as_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write_owner(dir: &Path, text: &str) -> std::io::Result<()> {
    let mut fresh = Fresh::create(dir, OWNER)?;
    fresh.file.write_all(text.as_bytes()).map_err(|error| with_file(fresh.path(), &error))?;
    fresh.keep()?;
    sync_dir(dir)
}

/// A log that is missing reads as an empty one; so the manifest says how long it must be.
fn check_count(dir: &Path, expected: Option<u64>, found: u64) -> Result<(), String> {
    match expected {
        Some(expected) if expected != found => {
            Err(format!("{}: holds {found} records instead of {expected}", dir.display()))
        }
        _ => Ok(()),
    }
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
