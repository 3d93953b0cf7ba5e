//! Slots: which rows of a table's slabs belong to which shard.
//!
//! A table hands out extents of consecutive slots (`Extents`); a shard fills them one after the other and uses the slots
//! of removed rows again (`Slots`). The n-th slot that a shard ever used has the ordinal n: scans go by ordinal.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::slab::{MOST_SLOTS, Slab};

const EXTENT_BYTES: usize = 32 << 10;
const MOST_ROWS: usize = 256;

/// The extents of one set of slabs that share their slot numbers.
pub struct Extents {
    /// log2 of the slots of an extent.
    bits: u32,
    next: AtomicU64,
    /// By extent: its place among the extents of its shard.
    places: Slab<u32>,
}

impl Extents {
    pub fn new(row_bytes: usize) -> Self {
        let rows = (EXTENT_BYTES / row_bytes.max(1)).clamp(1, MOST_ROWS);
        Self { bits: rows.ilog2(), next: AtomicU64::new(0), places: Slab::new(1) }
    }

    /// Slots that were handed out so far, used or not.
    pub fn reserved(&self) -> u64 {
        self.next.load(Ordering::Acquire) << self.bits
    }

    /// The ordinal of a slot within its shard. The caller owns the slot.
    pub fn ordinal(&self, slot: u32) -> usize {
        // SAFETY: the slot's extent was handed out by `take`, which wrote this number before anybody had the slot.
        let place = unsafe { *self.places.row(slot >> self.bits) };
        ((place as usize) << self.bits) | (slot as usize & ((1 << self.bits) - 1))
    }

    /// A new extent, as the `place`-th of its shard. `grow` gives memory to all slots below its argument.
    fn take(&self, place: usize, grow: impl FnOnce(u64)) -> u32 {
        let extent = self.next.fetch_add(1, Ordering::AcqRel);
        let end = (extent + 1) << self.bits;
        assert!(end <= MOST_SLOTS, "a table holds at most {MOST_SLOTS} rows on one server");
        self.places.grow(extent + 1);
        grow(end);
        // SAFETY: the number was made by the line above, and this extent is this caller's alone.
        unsafe { *self.places.row(extent as u32) = place as u32 };
        extent as u32
    }
}

/// The slots of one shard.
#[derive(Default)]
pub struct Slots {
    extents: Vec<u32>,
    /// Slots of these extents that were ever used.
    used: usize,
    free: Vec<u32>,
}

impl Slots {
    /// A slot for a new row, and whether its memory is fresh (all zeros).
    pub fn take(&mut self, from: &Extents, grow: impl FnOnce(u64)) -> (u32, bool) {
        if let Some(slot) = self.free.pop() {
            return (slot, false);
        }
        if self.used >> from.bits == self.extents.len() {
            self.extents.push(from.take(self.extents.len(), grow));
        }
        self.used += 1;
        (self.slot(from, self.used - 1), true)
    }

    pub fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The slot with an ordinal below `used`.
    #[inline(always)]
    pub fn slot(&self, from: &Extents, ordinal: usize) -> u32 {
        (self.extents[ordinal >> from.bits] << from.bits) | (ordinal & ((1 << from.bits) - 1)) as u32
    }

    pub fn used(&self) -> usize {
        self.used
    }

    pub fn live(&self) -> usize {
        self.used - self.free.len()
    }
}
