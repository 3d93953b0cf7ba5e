//! The tables of a server, by name and by number.
//!
//! A table's number is made of its name, so that it is the same on all servers whatever the order in which trainers
//! create their tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::keys::Sharding;
use crate::store::shardfile;
use crate::table::Table;
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
}

impl Entry {
    pub fn make(
        name: &str,
        spec: TableSpec,
        sharding: Sharding,
        owned: std::ops::Range<usize>,
    ) -> Result<Arc<Self>, String> {
        let table = Table::new(spec.clone(), sharding, owned)?;
        let (name, number) = (name.to_owned(), number_of(name));
        Ok(Arc::new(Self { name, number, spec, table, tracked: AtomicBool::new(false) }))
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

/// What becomes of a wish for a table.
pub enum Wish {
    Have(Arc<Entry>),
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
    pub fn wish(&self, name: &str, spec: &TableSpec) -> Result<Wish, String> {
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!("a table's name has 1 to {LONGEST_NAME} bytes and no control characters: {name:?}"));
        }
        match self.get(number_of(name)) {
            None if self.tables.len() >= MOST_TABLES => Err(format!("there are {MOST_TABLES} tables already")),
            None => Ok(Wish::Make),
            Some(entry) if entry.name != name => {
                Err(format!("the names {name:?} and {:?} have the same number: choose another one", entry.name))
            }
            Some(entry) if entry.spec != *spec => {
                let lines = shardfile::differences(&entry.spec, spec).join("; ");
                let lines = lines.replace(" in the file", " here").replace(" in the table", " in the request");
                Err(format!("table {name:?} exists with another description: {lines}"))
            }
            Some(entry) => Ok(Wish::Have(entry.clone())),
        }
    }

    pub fn add(&mut self, entry: Arc<Entry>) {
        self.tables.insert(entry.number, entry);
    }
}

pub fn number_of(name: &str) -> u32 {
    crc32fast::hash(name.as_bytes())
}
