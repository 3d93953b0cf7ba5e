//! Batches: the keys of a call, in groups by shard, in windows that are worked on at once.
//!
//! Looking up a key waits for memory twice, and so does reading its row. Within a window all first waits overlap, then
//! all second ones. A window holds the locks of its shards, always taken in ascending order.

use std::cell::RefCell;
use std::ops::Range;

use crate::keys::{Sharding, mix};
use crate::table::index::Buckets;

/// Keys that are worked on at once: their rows should fit into the caches nearest to the core.
const WINDOW: usize = 256;

#[derive(Default)]
pub struct Plan {
    /// By item: the hash of its key. Items are keys in order of their shards.
    hashes: Vec<u64>,
    /// By item: its place in the call. Empty if the call came in order of shards.
    order: Vec<u32>,
    runs: Vec<Run>,
}

/// Consecutive items of one shard.
#[derive(Clone, Copy)]
pub struct Run {
    pub shard: usize,
    start: usize,
    end: usize,
}

impl Run {
    pub fn items(&self) -> Range<usize> {
        self.start..self.end
    }
}

thread_local! {
    static PLAN: RefCell<Plan> = RefCell::default();
}

/// Makes a plan for these keys and does something with it. Calls must not be nested.
pub fn with_plan<R>(keys: &[u64], sharding: Sharding, buckets: &Buckets, work: impl FnOnce(&Plan) -> R) -> R {
    PLAN.with_borrow_mut(|plan| {
        plan.make(keys, sharding, buckets);
        work(plan)
    })
}

impl Plan {
    fn make(&mut self, keys: &[u64], sharding: Sharding, buckets: &Buckets) {
        assert!(u32::try_from(keys.len()).is_ok(), "too many keys in one call");
        self.order.clear();
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(|&key| mix(key)));
        if !self.hashes.is_sorted_by_key(|&mixed| sharding.shard_of(mixed)) {
            self.sort(sharding);
        }
        self.runs.clear();
        let mut start = 0;
        while start < self.hashes.len() {
            let shard = sharding.shard_of(self.hashes[start]);
            let most = (self.hashes.len() - start).min(WINDOW);
            let more = self.hashes[start..start + most].iter().take_while(|&&m| sharding.shard_of(m) == shard).count();
            self.runs.push(Run { shard, start, end: start + more });
            start += more;
        }
        for hash in &mut self.hashes {
            *hash = buckets.hash(*hash);
        }
    }

    /// A counting sort by shard that keeps the order of the call within a shard.
    fn sort(&mut self, sharding: Sharding) {
        let mut next = vec![0u32; sharding.count()];
        for &mixed in &self.hashes {
            next[sharding.shard_of(mixed)] += 1;
        }
        let mut sum = 0;
        for count in &mut next {
            sum += std::mem::replace(count, sum);
        }
        self.order.resize(self.hashes.len(), 0);
        let mut sorted = vec![0; self.hashes.len()];
        for (place, &mixed) in self.hashes.iter().enumerate() {
            let item = &mut next[sharding.shard_of(mixed)];
            self.order[*item as usize] = place as u32;
            sorted[*item as usize] = mixed;
            *item += 1;
        }
        self.hashes = sorted;
    }

    #[inline(always)]
    pub fn hash(&self, item: usize) -> u64 {
        self.hashes[item]
    }

    /// The place of an item in the call.
    #[inline(always)]
    pub fn place(&self, item: usize) -> usize {
        if self.order.is_empty() { item } else { self.order[item] as usize }
    }

    /// Windows: runs of different shards, ascending. Only a run that fills a window is followed by more of its shard.
    pub fn windows(&self) -> impl Iterator<Item = &[Run]> {
        let mut rest = &self.runs[..];
        std::iter::from_fn(move || {
            let mut items = 0;
            let taken = rest.iter().position(|run| {
                items += run.end - run.start;
                items >= WINDOW
            });
            let (window, after) = rest.split_at(taken.map_or(rest.len(), |last| last + 1));
            rest = after;
            (!window.is_empty()).then_some(window)
        })
    }
}

/// Asks for the cache line at an address, which may be any.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching reads nothing, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for all cache lines of a row.
#[inline(always)]
pub fn prefetch_row(row: *const f32, width: usize) {
    let mut column = 0;
    while column < width {
        prefetch(row.wrapping_add(column));
        column += 16;
    }
}
