//! The tables of a server, by name and by number, and which shards of them are its own.
//!
//! A table's number is made of its name, so that it is the same on all servers whatever the order in which trainers
//! create their tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::locks::{self, Rank, Ranked};
use super::refusals;
use super::service::Refusal;
use crate::keys::{self, Sharding};
use crate::poison::Unpoisoned;
use crate::table::Table;
use crate::table::differences::{differences, layout_differences};
use crate::table::spec::TableSpec;

pub const LONGEST_NAME: usize = 256;
pub const MOST_TABLES: usize = 4096;

pub struct Entry {
    pub name: String,
    pub number: u32,
    pub spec: TableSpec,
    pub table: Table,
    /// Whether changes are followed for each trainer (geo).
    tracked: AtomicBool,
    /// Ranks that have described the table as it is, and which of their processes; shared with what takes its place.
    agreed: Arc<Mutex<BTreeMap<u32, u64>>>,
}

impl Entry {
    fn make(name: &str, spec: TableSpec, sharding: Sharding, owned: Range<usize>) -> Result<Arc<Self>, String> {
        let table = Table::new(spec.clone(), sharding, owned)?;
        let (name, number) = (name.to_owned(), number_of(name));
        Ok(Arc::new(Self { name, number, spec, table, tracked: AtomicBool::new(false), agreed: Arc::default() }))
    }

    /// The same rows under other settings of the same layout, in the place of `this`.
    pub fn with_spec(&self, spec: TableSpec, this: &Self) -> Result<Arc<Self>, String> {
        let table = self.table.with_spec(spec.clone())?;
        let tracked = AtomicBool::new(self.is_tracked());
        Ok(Arc::new(Self {
            name: self.name.clone(),
            number: self.number,
            spec,
            table,
            tracked,
            agreed: this.agreed.clone(),
        }))
    }

    /// Whose processes have described it as it is.
    pub fn agreed(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        self.agreed.lock().unpoisoned()
    }

    /// From now on every trainer can ask what others have changed.
    pub fn track(&self, trainers: usize) {
        if let Table::Sparse(table) = &self.table
            && !self.tracked.swap(true, Ordering::SeqCst)
        {
            table.track(trainers);
        }
    }

    pub fn is_tracked(&self) -> bool {
        self.tracked.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Default)]
pub struct Registry {
    tables: BTreeMap<u32, Arc<Entry>>,
}

/// What becomes of a request for a table.
pub enum Wanted {
    Have(Arc<Entry>),
    /// It is there with other settings.
    Change(Arc<Entry>),
    Make,
}

impl Registry {
    pub fn get(&self, number: u32) -> Option<&Arc<Entry>> {
        self.tables.get(&number)
    }

    pub fn by_name(&self, name: &str) -> Option<&Arc<Entry>> {
        self.get(number_of(name)).filter(|entry| entry.name == name)
    }

    /// In the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.tables.values()
    }

    /// Whether there is such a table already, can be one, or why not.
    pub fn want(&self, name: &str, spec: &TableSpec) -> Result<Wanted, String> {
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!("a table's name has 1 to {LONGEST_NAME} bytes and no control characters: {name:?}"));
        }
        match self.get(number_of(name)) {
            None if self.tables.len() >= MOST_TABLES => Err(format!("there are {MOST_TABLES} tables already")),
            None => Ok(Wanted::Make),
            Some(entry) if entry.name != name => {
                Err(format!("the names {name:?} and {:?} have the same number: choose another one", entry.name))
            }
            Some(entry) if entry.spec == *spec => Ok(Wanted::Have(entry.clone())),
            Some(entry) if layout_differences(&entry.spec, spec).is_empty() => Ok(Wanted::Change(entry.clone())),
            Some(entry) => Err(described_otherwise(entry, spec)),
        }
    }

    pub fn add(&mut self, entry: Arc<Entry>) {
        self.tables.insert(entry.number, entry);
    }
}

/// The tables that there are, behind a lock, and the shards that this server has of each.
pub struct Tables {
    sharding: Sharding,
    servers: usize,
    owned: Range<usize>,
    registry: RwLock<Registry>,
}

impl Tables {
    pub fn new(sharding: Sharding, server: usize, servers: usize) -> Self {
        Self { sharding, servers, owned: sharding.shards_of(server, servers), registry: RwLock::default() }
    }

    /// The virtual shards that are this server's.
    pub fn owned(&self) -> Range<usize> {
        self.owned.clone()
    }

    fn read(&self) -> Ranked<RwLockReadGuard<'_, Registry>> {
        locks::take(Rank::Registry, || self.registry.read().unpoisoned())
    }

    pub fn write(&self) -> Ranked<RwLockWriteGuard<'_, Registry>> {
        locks::take(Rank::Registry, || self.registry.write().unpoisoned())
    }

    /// A copy: those that there are at this moment.
    pub fn registry(&self) -> Registry {
        self.read().clone()
    }

    pub fn get(&self, number: u32) -> Result<Arc<Entry>, Refusal> {
        self.read().get(number).cloned().ok_or_else(|| refusals::unknown_table(number))
    }

    /// A new table of this server's shards, not yet among those that there are.
    pub fn make(&self, name: &str, spec: TableSpec) -> Result<Arc<Entry>, String> {
        Entry::make(name, spec, self.sharding, self.owned())
    }

    /// Names of tables whose changes are followed.
    pub fn tracked(&self) -> Vec<String> {
        self.registry().all().filter(|entry| entry.is_tracked()).map(|entry| entry.name.clone()).collect()
    }

    /// Keys of another server's shards mean that client and server count servers differently. The first and the last are
    /// enough to see it: clients send keys in the order of shards.
    pub fn check_owner(&self, keys: &[u64]) -> Result<(), Refusal> {
        for key in keys.first().into_iter().chain(keys.last()) {
            let shard = self.shard_of(*key);
            if !self.owned.contains(&shard) {
                return Err(refusals::bad_request(format!(
                    "key {key} is of shard {shard}, and this server has shards {:?}: it counts {} servers",
                    self.owned, self.servers
                )));
            }
        }
        Ok(())
    }

    pub fn shard_of(&self, key: u64) -> usize {
        self.sharding.shard_of(keys::mix(key))
    }
}

/// In what a table is unlike what somebody wants.
pub fn described_otherwise(entry: &Entry, spec: &TableSpec) -> String {
    let lines = differences(&entry.spec, spec).join("; ");
    let lines = lines.replace(" in the file", " here").replace(" in the table", " in the request");
    format!("table {:?} exists with another description: {lines}", entry.name)
}

pub fn number_of(name: &str) -> u32 {
    crc32fast::hash(name.as_bytes())
}
