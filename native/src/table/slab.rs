//! Slabs: numbered rows of plain numbers in memory that never moves and is zero when it is new.
//!
//! A slab belongs to a whole table. Its rows lie in blocks that double in size, so a row's address is one look into a
//! table of 32 pointers, and growing copies nothing. Blocks are mapped as a whole but touched row by row: memory is used
//! for rows that exist, in huge pages where the system gives them.
//!
//! Who may touch which row is not decided here: a shard of a table owns the slots that it was given (see `slots`), and
//! its lock guards them.

use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use memmap2::{Advice, MmapMut, MmapOptions};

use crate::table::lock;

const HUGE: usize = 2 << 20;
const FIRST_BLOCK_BYTES: usize = 256 << 10;

/// The largest slot number is below this: the first block's rows are added to a slot in 32 bits.
pub const MOST_SLOTS: u64 = (1 << 32) - (1 << 20);

/// Numbers for which all bits zero is a value.
///
/// # Safety
/// Zeroed memory must be a valid value of the type, and the type must not need dropping.
pub unsafe trait Plain {}

// SAFETY: zero bits are 0.0.
unsafe impl Plain for f32 {}
// SAFETY: zero bits are 0.
unsafe impl Plain for u64 {}
// SAFETY: zero bits are 0.
unsafe impl Plain for u32 {}
// SAFETY: zero bits are 0.
unsafe impl Plain for AtomicU64 {}

pub struct Slab<T> {
    width: usize,
    /// log2 of the rows of the first block.
    first: u32,
    /// Block b holds 2^b rows; those below `first` are never used.
    blocks: [AtomicPtr<T>; 32],
    maps: Mutex<Vec<MmapMut>>,
}

impl<T: Plain> Slab<T> {
    /// A slab of rows with `width` numbers each. A width of 0 is fine: its rows are empty and cost nothing.
    pub fn new(width: usize) -> Self {
        let row = (width * size_of::<T>()).max(1);
        let first = (FIRST_BLOCK_BYTES / row).clamp(1, 1 << 16).ilog2();
        let start = if width == 0 { NonNull::dangling().as_ptr() } else { ptr::null_mut() };
        Self { width, first, blocks: std::array::from_fn(|_| AtomicPtr::new(start)), maps: Mutex::new(Vec::new()) }
    }

    /// Makes sure that all slots below `rows` have memory.
    ///
    /// # Panics
    /// When the system gives no memory, as every allocation does.
    pub fn grow(&self, rows: u64) {
        if rows == 0 || self.width == 0 {
            return;
        }
        let last = self.place(u32::try_from(rows - 1).expect("slots are counted in 32 bits")).0;
        if !self.blocks[last].load(Ordering::Acquire).is_null() {
            return;
        }
        let mut maps = lock(&self.maps);
        for block in self.first as usize..=last {
            if self.blocks[block].load(Ordering::Acquire).is_null() {
                let (map, start) = zeroed((self.width * size_of::<T>()) << block);
                maps.push(map);
                self.blocks[block].store(start.cast(), Ordering::Release);
            }
        }
    }

    /// Where a row is. The slot must be below what `grow` was called with; otherwise the pointer must not be used.
    #[inline(always)]
    pub fn row(&self, slot: u32) -> *mut T {
        let (block, offset) = self.place(slot);
        self.blocks[block].load(Ordering::Acquire).wrapping_add(offset as usize * self.width)
    }

    #[inline(always)]
    fn place(&self, slot: u32) -> (usize, u32) {
        let number = slot + (1 << self.first);
        let block = 31 - number.leading_zeros();
        (block as usize, number - (1 << block))
    }
}

/// Zeroed memory that begins at a huge page's border if it is large enough to hold one.
fn zeroed(bytes: usize) -> (MmapMut, *mut u8) {
    let large = bytes >= HUGE;
    let length = if large { bytes + HUGE } else { bytes };
    let mut map = MmapOptions::new()
        .len(length)
        .map_anon()
        .unwrap_or_else(|error| panic!("no memory for a table: {bytes} bytes: {error}"));
    if !large {
        let start = map.as_mut_ptr();
        return (map, start);
    }
    let skip = map.as_ptr().align_offset(HUGE);
    // A system without huge pages says no; small pages do as well, only slower.
    let _ = map.advise_range(Advice::HugePage, skip, bytes);
    let start = map.as_mut_ptr().wrapping_add(skip);
    (map, start)
}

/// One bit per slot. Any thread may set any bit at any time.
pub struct Bits {
    words: Slab<AtomicU64>,
}

impl Bits {
    pub fn new() -> Self {
        Self { words: Slab::new(1) }
    }

    pub fn grow(&self, slots: u64) {
        self.words.grow(slots.div_ceil(64));
    }

    pub fn set(&self, slot: u32) {
        self.word(slot).fetch_or(1 << (slot % 64), Ordering::Relaxed);
    }

    pub fn clear(&self, slot: u32) {
        self.word(slot).fetch_and(!(1 << (slot % 64)), Ordering::Relaxed);
    }

    pub fn is_set(&self, slot: u32) -> bool {
        self.word(slot).load(Ordering::Relaxed) & (1 << (slot % 64)) != 0
    }

    fn word(&self, slot: u32) -> &AtomicU64 {
        self.grow(u64::from(slot) + 1);
        // SAFETY: `grow` made this word, it is never moved or freed while `self` lives, and it is only used atomically.
        unsafe { &*self.words.row(slot / 64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_places_of_their_own_and_start_at_zero() {
        for width in [1, 7, 16, 4096] {
            let slab = Slab::<u32>::new(width);
            let rows = if width == 4096 { 300 } else { 100_000 };
            slab.grow(rows);
            for slot in 0..rows as u32 {
                // SAFETY: the slab has grown to hold the row, and nobody else has it.
                let row = unsafe { std::slice::from_raw_parts_mut(slab.row(slot), width) };
                assert!(row.iter().all(|&n| n == 0));
                row.fill(slot + 1);
            }
            for slot in 0..rows as u32 {
                // SAFETY: as above.
                let row = unsafe { std::slice::from_raw_parts(slab.row(slot), width) };
                assert!(row.iter().all(|&n| n == slot + 1));
            }
        }
    }

    #[test]
    fn bits_are_apart() {
        let bits = Bits::new();
        bits.grow(1000);
        for slot in (0..1000).step_by(3) {
            bits.set(slot);
        }
        bits.clear(3);
        assert!((0..1000).all(|slot| bits.is_set(slot) == (slot % 3 == 0 && slot != 3)));
    }
}
