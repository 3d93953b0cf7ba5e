//! Slabs: numbered rows of plain numbers in memory that never moves and is zero when it is new.
//!
//! A slab belongs to a whole table. Its rows lie in blocks that double in size, so a row's address is one look into a
//! table of 32 pointers, and growing copies nothing. Blocks are mapped as a whole but touched row by row: memory is used
//! for rows that exist, in huge pages where the system gives them. The system takes its time for a huge page, so in a large
//! slab a thread beside asks for the next one before a row needs it, and slabs that grow together begin at different places
//! of a page, so that no call has to wait for two.
//!
//! Who may touch which row is not decided here: a shard of a table owns the slots that it was given (see `slots`), and
//! its lock guards them.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use memmap2::{Advice, MmapMut, MmapOptions};

use crate::table::{lock, memory};

const HUGE: usize = 2 << 20;
const SMALL: usize = 4 << 10;
const FIRST_BLOCK_BYTES: usize = 256 << 10;
/// Blocks from this size on are worth a page more: the next one made ready, or half of one left out at the beginning.
const AHEAD_FROM: usize = 64 << 20;

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
    maps: Mutex<Vec<Arc<MmapMut>>>,
    /// Bytes between the border of a huge page and the first row of a large block.
    phase: usize,
    /// The border up to which pages were asked for ahead.
    asked: AtomicUsize,
}

impl<T: Plain> Slab<T> {
    pub const HALF_A_PAGE: usize = HUGE / 2;

    /// A slab of rows with `width` numbers each. A width of 0 is fine: its rows are empty and cost nothing.
    pub fn new(width: usize) -> Self {
        Self::at_phase(width, 0)
    }

    /// With large blocks that begin so many bytes behind the border of a huge page.
    pub fn at_phase(width: usize, phase: usize) -> Self {
        debug_assert!(phase < HUGE && phase.is_multiple_of(64));
        let row = (width * size_of::<T>()).max(1);
        let first = (FIRST_BLOCK_BYTES / row).clamp(1, 1 << 16).ilog2();
        let start = if width == 0 { NonNull::dangling().as_ptr() } else { ptr::null_mut() };
        Self {
            width,
            first,
            blocks: std::array::from_fn(|_| AtomicPtr::new(start)),
            maps: Mutex::default(),
            phase,
            asked: AtomicUsize::new(0),
        }
    }

    /// Makes sure that all slots below `rows` have memory.
    ///
    /// # Panics
    /// When the system gives no memory, as every allocation does.
    pub fn grow(&self, rows: u64) {
        if rows == 0 || self.width == 0 {
            return;
        }
        #[expect(clippy::expect_used, reason = "there is no memory for more, as every allocation says it")]
        let row = u32::try_from(rows - 1).expect("slots are counted in 32 bits");
        let last = self.place(row).0;
        if !self.blocks[last].load(Ordering::Acquire).is_null() {
            return self.look_ahead(last, self.row(row) as usize);
        }
        (self.first as usize..=last).for_each(|block| self.make(block));
    }

    fn make(&self, block: usize) {
        let mut maps = lock(&self.maps);
        if self.blocks[block].load(Ordering::Acquire).is_null() {
            // In a small block, what lies before the first row would be too large a part.
            let bytes = self.block_bytes(block);
            let (map, start) = zeroed(bytes, if bytes < AHEAD_FROM { 0 } else { self.phase });
            maps.push(Arc::new(map));
            self.blocks[block].store(start.cast(), Ordering::Release);
        }
    }

    fn block_bytes(&self, block: usize) -> usize {
        (self.width * size_of::<T>()) << block
    }

    /// Has the huge page behind that of an address made ready, once: in this block, or at the beginning of the next.
    fn look_ahead(&self, block: usize, address: usize) {
        let start = |block: usize| self.blocks[block].load(Ordering::Acquire) as usize;
        let border = (address + 1).next_multiple_of(HUGE);
        if self.block_bytes(block) < AHEAD_FROM || self.asked.swap(border, Ordering::Relaxed) == border {
            return;
        }
        let mut page = border..(border + HUGE).min(start(block) + self.block_bytes(block));
        if page.is_empty() {
            if block + 1 == self.blocks.len() {
                return;
            }
            self.make(block + 1);
            page = start(block + 1)..(start(block + 1) + 1).next_multiple_of(HUGE);
        }
        let maps = lock(&self.maps);
        let holds =
            |map: &&Arc<MmapMut>| (map.as_ptr() as usize..map.as_ptr() as usize + map.len()).contains(&page.start);
        if let Some(map) = maps.iter().find(holds) {
            // The advice is for whole pages of the smallest kind.
            let offset = (page.start - map.as_ptr() as usize) / SMALL * SMALL;
            memory::make_ready(map, offset, page.len());
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

/// Zeroed memory that begins so many bytes behind a huge page's border if it is large enough to hold one.
fn zeroed(bytes: usize, phase: usize) -> (MmapMut, *mut u8) {
    let large = bytes >= HUGE;
    let length = if large { bytes + phase + HUGE } else { bytes };
    #[expect(clippy::panic, reason = "there is no memory for more, as every allocation says it")]
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
    let _ = map.advise_range(Advice::HugePage, skip, phase + bytes);
    let start = map.as_mut_ptr().wrapping_add(skip + phase);
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
