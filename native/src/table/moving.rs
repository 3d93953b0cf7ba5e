//! Rows that move in every push of their table, used or not: each keeps the number of the push that it was last brought up to,
//! and what it has missed is done when somebody asks for it. A row that is never asked for costs nothing.
//!
//! What is done then is what would have been done in each push, bit for bit. So nothing depends on when a row is asked for,
//! and a saved row is brought up to the save: a row in a file needs no number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::table::batch::{copy_row, prefetch};
use crate::table::history::{History, Idle};
use crate::table::idle;
use crate::table::kernels::Shape;
use crate::table::lock;
use crate::table::rules::Motion;
use crate::table::shard::Store;
use crate::table::slab::Slab;
use crate::table::spec::SparseSpec;

/// No moment is frozen.
const NEVER: u64 = u64::MAX;
/// What a row has had that was only read so far. It begins to move with the first push that brings it, or when it is set: that is
/// in the log of a server, and reading is not.
const NOT_BEGUN: u64 = u64::MAX;
/// Runs that a history has at most before all rows are brought up to date and it can be forgotten.
pub const MOST_RUNS: usize = 1 << 20;

pub struct Moving {
    motion: Motion,
    shape: Shape,
    /// One push at a time: its number says what a row has missed.
    pushing: Mutex<()>,
    /// Pushes that are over.
    complete: AtomicU64,
    history: Mutex<Arc<History>>,
    /// By slot: the last push that the row has had. Guarded by the lock of the row's shard.
    had: Slab<u64>,
    /// The push behind which a moment is frozen: rows are not to go beyond it unless they are copied.
    frozen: AtomicU64,
}

/// A push that is being done.
pub struct Turn<'a> {
    moving: &'a Moving,
    number: u64,
    past: Past,
    _alone: MutexGuard<'a, ()>,
}

/// What rows can be brought up to.
#[derive(Clone)]
pub struct Past {
    pub push: u64,
    history: Arc<History>,
}

impl Moving {
    /// `None`: rows of such a table stay where they are.
    pub fn of(spec: &SparseSpec) -> Option<Arc<Self>> {
        let motion = idle::motion(&spec.optimizer, &spec.decay, &spec.clip);
        let moves = spec.every_row && motion != Motion::Still;
        moves.then(|| {
            Arc::new(Self {
                motion,
                shape: Shape {
                    dim: spec.dim,
                    state_width: spec.optimizer.state_width(spec.dim),
                    clip: spec.clip,
                    decay: spec.decay,
                    rate: 0.0,
                },
                pushing: Mutex::default(),
                complete: AtomicU64::new(0),
                history: Mutex::default(),
                had: Slab::new(1),
                frozen: AtomicU64::new(NEVER),
            })
        })
    }

    /// For rows that are older than this.
    pub fn grow(&self, slots: u64) {
        self.had.grow(slots);
    }

    /// Asks for the memory of a row's number.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32) {
        prefetch(self.had.row(slot));
    }

    /// Begins a push. Another one waits until this is over.
    pub fn begin(&self) -> Turn<'_> {
        let alone = lock(&self.pushing);
        let past = self.past();
        Turn { moving: self, number: past.push + 1, past, _alone: alone }
    }

    /// Up to the last push that is over.
    pub fn past(&self) -> Past {
        // In this order: the history has all pushes that are over.
        let push = self.complete.load(Ordering::Acquire);
        Past { push, history: Arc::clone(&lock(&self.history)) }
    }

    pub fn runs(&self) -> usize {
        lock(&self.history).runs()
    }

    /// Nobody has missed a push up to this one.
    pub fn forget(&self, push: u64) {
        Arc::make_mut(&mut *lock(&self.history)).forget(push);
    }

    pub fn freeze(&self) {
        self.frozen.store(self.complete.load(Ordering::Acquire), Ordering::Release);
    }

    /// Returns the push behind which a moment was frozen.
    pub fn thaw(&self) -> Option<u64> {
        Some(self.frozen.swap(NEVER, Ordering::AcqRel)).filter(|push| *push != NEVER)
    }

    /// As far as a row of the frozen moment goes; all the way if there is none.
    pub fn frozen(&self) -> Past {
        let past = self.past();
        Past { push: past.push.min(self.frozen.load(Ordering::Acquire)), ..past }
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire) != NEVER
    }

    fn may_move_beyond(&self, push: u64) -> bool {
        push <= self.frozen.load(Ordering::Acquire)
    }

    /// # Safety
    /// The slot belongs to a shard whose lock the caller holds.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn had(&self, slot: u32) -> &mut u64 {
        // SAFETY: the slab has grown to hold the number (`created`, `grow`), which the shard's lock guards.
        unsafe { &mut *self.had.row(slot) }
    }

    /// The row has had all pushes up to this one.
    ///
    /// # Safety
    /// As `bring`.
    #[inline(always)]
    pub unsafe fn set_had(&self, slot: u32, push: u64) {
        // SAFETY: the caller's promise.
        unsafe { *self.had(slot) = push }
    }

    /// A new row. `begins`: it moves from now on.
    ///
    /// # Safety
    /// As `bring`.
    pub unsafe fn created(&self, slot: u32, begins: bool) {
        let had = if begins { self.complete.load(Ordering::Acquire) } else { NOT_BEGUN };
        self.had.grow(u64::from(slot) + 1);
        // SAFETY: the caller's promise.
        unsafe { self.set_had(slot, had) }
    }

    /// # Safety
    /// As `bring`.
    pub unsafe fn has_begun(&self, slot: u32) -> bool {
        // SAFETY: the caller's promise.
        unsafe { *self.had(slot) != NOT_BEGUN }
    }

    /// Brings a row up to date that is about to be changed; it moves from now on.
    ///
    /// # Safety
    /// As `bring`.
    pub unsafe fn begin_row(&self, store: &Store, slot: u32, past: &Past) {
        // SAFETY: the caller's promise.
        unsafe {
            self.bring(store, slot, past);
            if !self.has_begun(slot) {
                self.set_had(slot, past.push);
            }
        }
    }

    /// Brings a row up to date, in its place.
    ///
    /// # Safety
    /// The slot belongs to a shard whose lock the caller holds.
    #[inline(always)]
    pub unsafe fn bring(&self, store: &Store, slot: u32, past: &Past) {
        // SAFETY: the caller's promise.
        let had = unsafe { self.had(slot) };
        if *had < past.push {
            // SAFETY: the row is the caller's, who holds its lock.
            unsafe { self.make_up(store.values_at(slot), store.state_at(slot), *had, past) };
            *had = past.push;
        }
    }

    /// Reads a row as it is by now. Where a moment is frozen, the row itself stays as it was then.
    ///
    /// # Safety
    /// As `bring`.
    #[inline(always)]
    pub unsafe fn read(&self, store: &Store, slot: u32, past: &Past, row: &mut [f32]) {
        // SAFETY: the caller's promise.
        let had = unsafe { *self.had(slot) };
        if had < past.push && !self.may_move_beyond(past.push) {
            // SAFETY: as above.
            return unsafe { self.read_copy(store, slot, past, row) };
        }
        // SAFETY: as above.
        unsafe {
            self.bring(store, slot, past);
            copy_row(store.values(slot), row);
        }
    }

    /// # Safety
    /// As `bring`.
    #[cold]
    unsafe fn read_copy(&self, store: &Store, slot: u32, past: &Past, row: &mut [f32]) {
        // SAFETY: as above.
        unsafe {
            row.copy_from_slice(store.values(slot));
            let mut state = store.state(slot).to_vec();
            self.make_up(row.as_mut_ptr(), state.as_mut_ptr(), *self.had(slot), past);
        }
    }

    /// # Safety
    /// The pointers are good for a row of the table, which nobody else uses.
    unsafe fn make_up(&self, weights: *mut f32, state: *mut f32, had: u64, past: &Past) {
        let pushes = past.history.between(had, past.push);
        // SAFETY: the caller's promise.
        unsafe { idle::apply(self.motion, &self.shape, weights, state, pushes, past.history.highest()) };
    }

    /// Bytes beside so many rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        8 * rows
    }
}

impl Turn<'_> {
    /// What the push does to rows without a gradient.
    pub fn remember(&self, idle: Idle) {
        Arc::make_mut(&mut *lock(&self.moving.history)).add(self.number, idle);
    }

    /// Brings a row up to the push before this one, and counts this one as had: its gradient comes next.
    ///
    /// # Safety
    /// The slot belongs to a shard whose lock the caller holds.
    #[inline(always)]
    pub unsafe fn bring(&self, store: &Store, slot: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            self.moving.bring(store, slot, &self.past);
            self.moving.set_had(slot, self.number);
        }
    }

    /// All rows with a gradient have it.
    pub fn end(self) {
        self.moving.complete.store(self.number, Ordering::Release);
    }
}
