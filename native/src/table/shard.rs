//! One shard of a sparse table: what its lock guards. And the store: the memory that all shards of a table share, of
//! which each owns the slots that it was given.

use std::sync::Arc;

use crate::table::Memory;
use crate::table::frozen::{Frozen, Pending};
use crate::table::index::{Buckets, Index};
use crate::table::slab::Slab;
use crate::table::slots::{Extents, Slots};

#[derive(Default)]
pub struct Shard {
    pub index: Index,
    pub slots: Slots,
    pub wide: Slots,
    /// Keys without a row, and the pushes that they have had. Shared with a frozen moment until one of them changes.
    pub pending: Arc<Pending>,
    pub frozen: Option<Box<Frozen>>,
}

/// The widths of a table's parts.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub values: usize,
    pub state: usize,
    /// Of the second part, which only rows of an accessor have, and not all of them.
    pub wide_values: usize,
    pub wide_state: usize,
    /// Whether rows go again, so that a slot may be free.
    pub removes: bool,
}

pub struct Store {
    pub layout: Layout,
    pub buckets: Buckets,
    pub extents: Extents,
    pub wide_extents: Extents,
    values: Slab<f32>,
    state: Slab<f32>,
    keys: Slab<u64>,
    wide_values: Slab<f32>,
    wide_state: Slab<f32>,
}

impl Store {
    pub fn new(layout: Layout, secret: u64) -> Self {
        Self {
            layout,
            buckets: Buckets::new(secret),
            extents: Extents::new(4 * (layout.values + layout.state) + 8),
            wide_extents: Extents::new(4 * (layout.wide_values + layout.wide_state)),
            values: Slab::new(layout.values),
            // Where a row and its state are as wide, both would otherwise come to the end of a page with the same row.
            state: Slab::at_phase(layout.state, Slab::<f32>::HALF_A_PAGE),
            keys: Slab::new(1),
            wide_values: Slab::new(layout.wide_values),
            wide_state: Slab::at_phase(layout.wide_state, Slab::<f32>::HALF_A_PAGE),
        }
    }

    /// A slot of this shard for a new row, and whether its numbers are zeros.
    pub fn new_slot(&self, shard: &mut Shard, key: u64) -> (u32, bool) {
        let (slot, fresh) = shard.slots.take(&self.extents, |rows| {
            self.values.grow(rows);
            self.state.grow(rows);
            self.keys.grow(rows);
        });
        // SAFETY: the slot was just given to this shard, which is borrowed mutably, and has memory.
        unsafe { *self.keys.row(slot) = key };
        (slot, fresh)
    }

    pub fn new_wide_slot(&self, shard: &mut Shard) -> u32 {
        let (slot, _) = shard.wide.take(&self.wide_extents, |rows| {
            self.wide_values.grow(rows);
            self.wide_state.grow(rows);
        });
        slot
    }

    #[inline(always)]
    pub fn values_at(&self, slot: u32) -> *mut f32 {
        self.values.row(slot)
    }

    #[inline(always)]
    pub fn state_at(&self, slot: u32) -> *mut f32 {
        self.state.row(slot)
    }

    #[inline(always)]
    pub fn wide_values_at(&self, slot: u32) -> *mut f32 {
        self.wide_values.row(slot)
    }

    #[inline(always)]
    pub fn wide_state_at(&self, slot: u32) -> *mut f32 {
        self.wide_state.row(slot)
    }

    /// # Safety
    /// The slot belongs to a shard whose lock the caller holds for as long as it uses the row, and only one reference
    /// to the row is in use at a time. So too for the three below.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn values(&self, slot: u32) -> &mut [f32] {
        // SAFETY: the slot has memory since it was given out; the caller has it alone.
        unsafe { std::slice::from_raw_parts_mut(self.values.row(slot), self.layout.values) }
    }

    /// # Safety
    /// As `values`.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn state(&self, slot: u32) -> &mut [f32] {
        // SAFETY: as in `values`.
        unsafe { std::slice::from_raw_parts_mut(self.state.row(slot), self.layout.state) }
    }

    /// # Safety
    /// As `values`, with a slot of the wide part.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn wide_values(&self, slot: u32) -> &mut [f32] {
        // SAFETY: as in `values`.
        unsafe { std::slice::from_raw_parts_mut(self.wide_values.row(slot), self.layout.wide_values) }
    }

    /// # Safety
    /// As `values`, with a slot of the wide part.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn wide_state(&self, slot: u32) -> &mut [f32] {
        // SAFETY: as in `values`.
        unsafe { std::slice::from_raw_parts_mut(self.wide_state.row(slot), self.layout.wide_state) }
    }

    /// # Safety
    /// The slot belongs to a shard whose lock the caller holds.
    pub unsafe fn key(&self, slot: u32) -> u64 {
        // SAFETY: the slot has memory since it was given out, and is written under the same lock.
        unsafe { *self.keys.row(slot) }
    }

    /// Adds a shard's rows to a sum; `slack` and the buckets are added once for the table, by `finish`.
    pub fn count(&self, shard: &Shard, sum: &mut Memory) {
        let (rows, wide) = (shard.slots.live() as u64, shard.wide.live() as u64);
        let layout = &self.layout;
        sum.values += 4 * (rows * layout.values as u64 + wide * layout.wide_values as u64);
        sum.state += 4 * (rows * layout.state as u64 + wide * layout.wide_state as u64);
        sum.keys += 8 * rows;
        // What a map of the standard library uses per key it has room for.
        sum.index += shard.index.directory_bytes() as u64 + shard.pending.capacity() as u64 * 17;
    }

    pub fn finish(&self, sum: &mut Memory) {
        let layout = &self.layout;
        let row = 4 * (layout.values + layout.state) as u64 + 8;
        let wide = 4 * (layout.wide_values + layout.wide_state) as u64;
        let reserved = self.extents.reserved() * row + self.wide_extents.reserved() * wide;
        sum.slack = reserved.saturating_sub(sum.values + sum.state + sum.keys);
        sum.index += self.buckets.bytes();
    }
}
