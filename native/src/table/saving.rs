//! What of a sparse table goes to disk and comes back: the rows of a frozen moment, and what belongs to no row.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::keys::mix;
use crate::table::frozen::Frozen;
use crate::table::lookup::Found;
use crate::table::shard::Shard;
use crate::table::slab::Bits;
use crate::table::sparse::{SparseTable, forget_pending};
use crate::table::spec::{Entry, SaveMode};
use crate::table::{RowBatch, freeze, lock, row_flag};

/// Rows of a batch at most.
const MOST_SCANNED: usize = 1024;

impl SparseTable {
    /// Marks this moment, to be read by `scan` while pushes go on. No push may run while this does.
    pub fn freeze(&self, mode: SaveMode) -> Result<(), String> {
        if lock(&self.shards[0]).frozen.is_some() {
            return Err("the table is being saved already".into());
        }
        if let Some(moving) = &self.moving {
            moving.freeze();
        }
        for shard in self.shards.iter() {
            let shard = &mut *lock(shard);
            shard.frozen = Some(Box::new(Frozen::new(mode, shard.slots.used(), &shard.pending)));
        }
        Ok(())
    }

    /// About how many bytes a save takes: rows as they are now.
    pub fn saved_bytes(&self) -> u64 {
        self.len() * (12 + 4 * self.spec.saved_width() as u64)
    }

    /// The rows that a save of the frozen moment takes, in batches. Each shard can be scanned once.
    pub fn scan(&self, shard: usize, sink: &mut dyn FnMut(&RowBatch) -> io::Result<()>) -> io::Result<()> {
        let mut batch = RowBatch::default();
        loop {
            batch.clear();
            let more = {
                let shard = &mut *lock(&self.shards[shard]);
                if shard.frozen.is_none() {
                    return Err(io::Error::other("the table is not frozen: there is no moment to scan"));
                }
                freeze::scan_some(&self.store, self.spec.accessor.as_ref(), self.moving.as_deref(), shard, &mut batch)
            };
            if !more {
                return Ok(());
            }
            let width = self.spec.saved_width();
            if batch.keys.len() > MOST_SCANNED {
                for start in (0..batch.keys.len()).step_by(MOST_SCANNED) {
                    let end = (start + MOST_SCANNED).min(batch.keys.len());
                    sink(&RowBatch {
                        keys: batch.keys[start..end].to_vec(),
                        flags: batch.flags[start..end].to_vec(),
                        data: batch.data[start * width..end * width].to_vec(),
                    })?;
                }
            } else if !batch.keys.is_empty() {
                sink(&batch)?;
            }
        }
    }

    /// The same in the order of keys, whatever the order in which rows were made: equal tables give equal bytes. All rows of
    /// the shard are collected first.
    pub fn scan_sorted(&self, shard: usize, sink: &mut dyn FnMut(&RowBatch) -> io::Result<()>) -> io::Result<()> {
        let mut all = RowBatch::default();
        self.scan(shard, &mut |batch| {
            all.keys.extend_from_slice(&batch.keys);
            all.flags.extend_from_slice(&batch.flags);
            all.data.extend_from_slice(&batch.data);
            Ok(())
        })?;
        let width = self.spec.saved_width();
        let mut order: Vec<u32> = (0..all.keys.len() as u32).collect();
        order.sort_unstable_by_key(|at| all.keys[*at as usize]);
        let mut batch = RowBatch::default();
        for part in order.chunks(MOST_SCANNED) {
            batch.clear();
            for at in part.iter().map(|at| *at as usize) {
                batch.keys.push(all.keys[at]);
                batch.flags.push(all.flags[at]);
                batch.data.extend_from_slice(&all.data[at * width..(at + 1) * width]);
            }
            sink(&batch)?;
        }
        Ok(())
    }

    /// Lets go of the frozen moment. `saved`: what was scanned is safe, so that the mode's after-effects hold.
    pub fn thaw(&self, saved: bool) {
        let mut is_through = true;
        for shard in self.shards.iter() {
            let shard = &mut *lock(shard);
            is_through &= freeze::is_through(shard);
            freeze::thaw(&self.store, self.spec.accessor.as_ref(), shard, saved);
        }
        if let Some(moving) = &self.moving
            && let Some(push) = moving.thaw()
            && is_through
        {
            // The scan has brought all rows up to it.
            moving.forget(push);
        }
    }

    /// Takes saved rows in, over whatever these keys have.
    pub fn load(&self, batch: &RowBatch) -> Result<(), String> {
        let width = self.spec.saved_width();
        if batch.flags.len() != batch.keys.len() || batch.data.len() != batch.keys.len() * width {
            return Err(format!(
                "saved rows that don't fit: {} keys, {} flags and {} numbers, for rows of {width} columns",
                batch.keys.len(),
                batch.flags.len(),
                batch.data.len()
            ));
        }
        let counts = matches!(self.spec.entry, Entry::Count { .. });
        let accessor = self.spec.accessor.as_ref();
        for &flags in &batch.flags {
            let pending = flags & row_flag::PENDING != 0;
            let wide = flags & row_flag::WIDE != 0;
            let is_new = self.spec.every_row && !pending && !wide && flags & row_flag::NEW != 0;
            let count = if is_new { 0 } else { flags >> row_flag::COUNT_SHIFT };
            if (pending && !counts) || (wide && (pending || accessor.is_none())) || (!pending && count != 0) {
                return Err(format!("a saved row that this table can't have: flags {flags}"));
            }
        }
        let marks = self.changes.marks();
        for ((&key, &flags), data) in batch.keys.iter().zip(&batch.flags).zip(batch.data.chunks_exact(width)) {
            let mixed = mix(key);
            let shard = &mut *lock(&self.shards[self.sharding.shard_of(mixed)]);
            self.load_row(shard, self.store.buckets.hash(mixed), key, flags, data, &marks);
        }
        Ok(())
    }

    fn load_row(&self, shard: &mut Shard, hash: u64, key: u64, flags: u32, data: &[f32], marks: &[Bits]) {
        let found = shard.index.find(hash, key).map(Found::from);
        if flags & row_flag::PENDING != 0 {
            if found.is_none() {
                Arc::make_mut(&mut shard.pending).insert(key, flags >> row_flag::COUNT_SHIFT);
            }
            return;
        }
        forget_pending(shard, key);
        let mut found = found.unwrap_or_else(|| self.create(shard, hash, key));
        self.before_write(shard, found, marks);
        if flags & row_flag::WIDE != 0 && found.wide == 0 {
            found.wide = self.store.new_wide_slot(shard) + 1;
            shard.index.set_wide(hash, key, found.wide);
        }
        if flags & row_flag::WIDE == 0 && found.wide != 0 {
            shard.wide.give_back(found.wide - 1);
            shard.index.set_wide(hash, key, 0);
        }
        if let Some(moving) = &self.moving {
            // SAFETY: the slot belongs to the shard, which is borrowed mutably.
            unsafe { moving.created(found.slot, flags & row_flag::NEW == 0) };
        }
        let layout = &self.store.layout;
        let (values, rest) = data.split_at(layout.values);
        let (state, rest) = rest.split_at(layout.state);
        let (wide_values, wide_state) = rest.split_at(layout.wide_values);
        // SAFETY: the slots belong to the shard, which is borrowed mutably.
        unsafe {
            self.store.values(found.slot).copy_from_slice(values);
            self.store.state(found.slot).copy_from_slice(state);
            if flags & row_flag::WIDE != 0 {
                self.store.wide_values(found.wide - 1).copy_from_slice(wide_values);
                self.store.wide_state(found.wide - 1).copy_from_slice(wide_state);
            }
        }
    }

    /// What belongs to the table and not to a row: the learning rate, Adam's powers.
    pub fn state(&self) -> Value {
        let rules = lock(&self.rules);
        json!({"main": rules.main.state(), "embed": rules.embed.map(|embed| embed.state())})
    }

    pub fn restore(&self, state: &Value) -> Result<(), String> {
        self.settle();
        let mut rules = lock(&self.rules);
        let mut restored = (rules.main, rules.embed);
        restored.0.restore(&state["main"])?;
        if let Some(embed) = &mut restored.1 {
            embed.restore(&state["embed"])?;
        }
        (rules.main, rules.embed) = restored;
        Ok(())
    }
}
