//! How a server begins: empty, or with everything that its state directory holds. The newest whole snapshot is loaded, then
//! the log after it is done again, record by record, by the same code that did it the first time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::barriers::Barriers;
use super::config::EngineConfig;
use super::coordination::Coordination;
use super::durability::Durability;
use super::engine::Engine;
use super::gate::Gate;
use super::lifetime::Lifetime;
use super::meetings::Meetings;
use super::members::Members;
use super::pieces::{BufferPool, Piece};
use super::records::{self, Record};
use super::registry::Tables;
use super::session::Sessions;
use super::snapshots::{GATHERS, OFFERED, PIECES, Rest};
use super::staging::Staging;
use super::steps::{Kept, Steps};
use super::traffic::Traffic;
use super::{state_dir, upkeep};
use crate::store::log::{self, Log};
use crate::store::manifest::Manifest;
use crate::wire::frame::{HEADER, Header};

impl Engine {
    /// A server that is ready to serve. Every problem of the configuration, or what is wrong with the state directory.
    pub fn open(config: EngineConfig) -> Result<Arc<Self>, String> {
        let sharding = config.check()?;
        let engine = Self {
            lifetime: Lifetime::begin(),
            gate: Gate::default(),
            tables: Tables::new(sharding, config.server, config.servers),
            sessions: Sessions::new(config.world),
            coordination: Coordination::new(config.world, config.patience(), config.on_loss),
            durability: Durability::default(),
            staging: Staging::default(),
            traffic: Traffic::default(),
            buffers: BufferPool::default(),
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
        state_dir::claim(dir, &self.config)?;
        let from = self.load_newest_snapshot(dir)?;
        let interval = Duration::from_millis(self.config.log_ms);
        let mut visit = |lsn: u64, bytes: &[u8]| {
            self.durability.count_replayed();
            self.replay(bytes).map_err(|problem| format!("record {lsn} can't be done again: {problem}"))
        };
        let recovered = Log::recover(&dir.join("log"), interval, from, &mut visit);
        let (log, found) = recovered.map_err(|error| error.to_string())?;
        let now = self.lifetime.now();
        let mut core = self.core();
        core.members.forgive(now);
        core.ending.last_done = now;
        drop(core);
        self.durability.begin(log, found.torn.map_or(0, |(_, _, bytes)| bytes));
        Ok(())
    }

    /// Returns the first record of the log that comes after it.
    fn load_newest_snapshot(&self, dir: &Path) -> Result<u64, String> {
        let mut problems = Vec::new();
        for (lsn, path) in state_dir::snapshots(dir)?.into_iter().rev() {
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
        let now = self.lifetime.now();
        *self.tables.write() = tables;
        self.sessions.restore(&rest.applied);
        let mut core = self.core();
        std::mem::swap(&mut core.steps, &mut steps);
        core.members = Members::restore(self.config.patience(), rest.members, now);
        core.meetings =
            Meetings { barriers: Barriers::restore(rest.barriers), counters: rest.counters, ..Meetings::default() };
        self.coordination.publish_step(&core);
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

/// A log that is missing reads as an empty one; so the manifest says how long it must be.
fn check_count(dir: &Path, expected: Option<u64>, found: u64) -> Result<(), String> {
    match expected {
        Some(expected) if expected != found => {
            Err(format!("{}: holds {found} records instead of {expected}", dir.display()))
        }
        _ => Ok(()),
    }
}
