//! Tables: rows by key, arrays by name, and the rules that change them.
//!
//! ```text
//! sparse      a table: pull, push, shrink                dense       named arrays with the same rules
//! progress    how far each array has learned             absent      gradients that are not there
//! saving      what of it goes to disk and comes back     frozen      what a shard keeps of a moment that is saved
//! ctr, ctr_push      rows with click-through statistics
//! freeze      a moment that is saved while pushes go on  changes     what others changed, for geo
//! moving      rows that move in every push    history     what each push was, for rows that missed it
//! idle        what missed pushes do to a row              idle_days   rows that nobody pushes any more go
//! lookup      keys to rows, in stages                    batch       keys in groups by shard, in windows
//! shard       one lock: index, slots, pending keys
//! index       key to slot        slots   slots to shards       slab    slot to memory        memory  pages ahead
//! rules       a file for each optimizer: its numbers, its arithmetic     kernels  gradients to rows
//! spec        what a table is    problems  what is wrong with it    differences  between two of these
//! ```

use std::sync::{Mutex, MutexGuard};

pub mod absent;
mod batch;
mod changes;
mod ctr;
mod ctr_push;
pub mod dense;
pub mod differences;
mod freeze;
mod frozen;
mod history;
mod idle;
mod idle_days;
mod index;
pub mod kernels;
mod lookup;
mod memory;
mod moving;
mod problems;
mod progress;
pub mod rules;
mod saving;
mod shard;
mod slab;
mod slots;
pub mod sparse;
pub mod spec;

pub use dense::{DenseTable, Values};
pub use sparse::{Absent, SparseTable};

use crate::keys::Sharding;
use crate::poison::Unpoisoned;
use crate::table::differences::layout_differences;
use crate::table::spec::TableSpec;

pub enum Table {
    Sparse(Box<SparseTable>),
    Dense(Box<DenseTable>),
}

impl Table {
    /// A table for the virtual shards `owned` (a sparse table can hold any key).
    pub fn new(spec: TableSpec, sharding: Sharding, owned: std::ops::Range<usize>) -> Result<Self, String> {
        Ok(match spec {
            TableSpec::Sparse(spec) => Table::Sparse(Box::new(SparseTable::new(spec, sharding)?)),
            TableSpec::Dense(spec) => Table::Dense(Box::new(DenseTable::new(spec, sharding, owned)?)),
        })
    }

    /// What is in this table under other settings, if their layout is the same: see `SparseTable::with_spec`.
    pub fn with_spec(&self, spec: TableSpec) -> Result<Self, String> {
        let other = layout_differences(&self.spec(), &spec);
        match (self, spec) {
            _ if !other.is_empty() => Err(other.join("; ")),
            (Table::Sparse(table), TableSpec::Sparse(spec)) => Ok(Table::Sparse(Box::new(table.with_spec(spec)?))),
            (Table::Dense(table), TableSpec::Dense(spec)) => Ok(Table::Dense(Box::new(table.with_spec(spec)?))),
            _ => Err("a table stays of its kind".to_owned()),
        }
    }

    pub fn spec(&self) -> TableSpec {
        match self {
            Table::Sparse(table) => TableSpec::Sparse(table.spec().clone()),
            Table::Dense(table) => TableSpec::Dense(table.spec().clone()),
        }
    }
}

/// Rows as they are saved: all of a table's columns, weights first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowBatch {
    pub keys: Vec<u64>,
    /// By key: `row_flag`, and above it the pushes that a pending key has had.
    pub flags: Vec<u32>,
    /// `SparseSpec::saved_width` numbers by key.
    pub data: Vec<f32>,
}

impl RowBatch {
    pub fn clear(&mut self) {
        self.keys.clear();
        self.flags.clear();
        self.data.clear();
    }

    /// Only the rows of keys that are wanted stay.
    pub fn retain(&mut self, is_wanted: impl Fn(u64) -> bool) {
        let width = self.data.len() / self.keys.len().max(1);
        let kept: Vec<usize> = (0..self.keys.len()).filter(|&row| is_wanted(self.keys[row])).collect();
        self.data = kept.iter().flat_map(|row| &self.data[row * width..(row + 1) * width]).copied().collect();
        self.flags = kept.iter().map(|&row| self.flags[row]).collect();
        self.keys = kept.iter().map(|&row| self.keys[row]).collect();
    }
}

/// What a saved row is.
pub mod row_flag {
    /// A key without a row: it waits for more pushes. Its columns are zeros.
    pub const PENDING: u32 = 1;
    /// The wide part exists. Without it, its columns are zeros.
    pub const WIDE: u32 = 2;
    /// Of a row whose table moves every row: it was only read so far, and does not move yet.
    pub const NEW: u32 = 4;
    /// Where the count of a pending key begins.
    pub const COUNT_SHIFT: u32 = 2;
}

/// Bytes of a sparse table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub values: u64,
    pub state: u64,
    pub keys: u64,
    pub index: u64,
    /// Set aside for rows that are not there yet, or no longer.
    pub slack: u64,
}

impl Memory {
    pub fn total(&self) -> u64 {
        self.values + self.state + self.keys + self.index + self.slack
    }
}

/// A lock whose holder may have panicked: rows are changed one by one and whole, so what is there can be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}
