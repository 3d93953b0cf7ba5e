//! Batches: the keys of a call, in groups by shard, in windows whose shards are locked together, always in ascending
//! order.

use std::cell::RefCell;
use std::ops::Range;

use crate::keys::{Sharding, mix};
use crate::table::kernels;

/// Keys whose shards are locked together.
const WINDOW: usize = 1024;
/// Keys that are worth another thread's attention.
const PART: usize = 2048;

#[derive(Default)]
pub struct Plan {
    /// By item: its mixed key. Items are keys in order of their shards.
    mixed: Vec<u64>,
    /// By item: its place in the call. Empty if the call came in order of shards.
    order: Vec<u32>,
    runs: Vec<Run>,
    sorted: Vec<u64>,
}

/// Consecutive items of one shard.
#[derive(Clone, Copy)]
pub struct Run {
    pub shard: usize,
    start: usize,
    pub end: usize,
}

thread_local! {
    static PLAN: RefCell<Plan> = RefCell::default();
}

/// Makes a plan for these keys and does something with it. Calls must not be nested.
pub fn with_plan<R>(keys: &[u64], sharding: Sharding, work: impl FnOnce(&Plan) -> R) -> R {
    PLAN.with_borrow_mut(|plan| {
        plan.make(keys, sharding);
        work(plan)
    })
}

impl Plan {
    fn make(&mut self, keys: &[u64], sharding: Sharding) {
        assert!(u32::try_from(keys.len()).is_ok(), "too many keys in one call");
        self.order.clear();
        self.mixed.clear();
        self.mixed.resize(keys.len(), 0);
        kernels::mix_all(keys, &mut self.mixed);
        if !self.cut(sharding) {
            self.sort(sharding);
            self.cut(sharding);
        }
    }

    /// Cuts the items into runs. `false` if they are not in order of their shards.
    fn cut(&mut self, sharding: Sharding) -> bool {
        self.runs.clear();
        let (mut start, mut shard) = (0, 0);
        for (item, &mixed) in self.mixed.iter().enumerate() {
            let here = sharding.shard_of(mixed);
            if here != shard || item - start == WINDOW {
                if here < shard {
                    return false;
                }
                if item > start {
                    self.runs.push(Run { shard, start, end: item });
                }
                (start, shard) = (item, here);
            }
        }
        if self.mixed.len() > start {
            self.runs.push(Run { shard, start, end: self.mixed.len() });
        }
        true
    }

    /// A counting sort by shard that keeps the order of the call within a shard.
    fn sort(&mut self, sharding: Sharding) {
        let mut next = vec![0u32; sharding.count()];
        for &mixed in &self.mixed {
            next[sharding.shard_of(mixed)] += 1;
        }
        let mut sum = 0;
        for count in &mut next {
            sum += std::mem::replace(count, sum);
        }
        self.order.resize(self.mixed.len(), 0);
        self.sorted.resize(self.mixed.len(), 0);
        for (place, &mixed) in self.mixed.iter().enumerate() {
            let item = &mut next[sharding.shard_of(mixed)];
            self.order[*item as usize] = place as u32;
            self.sorted[*item as usize] = mixed;
            *item += 1;
        }
        std::mem::swap(&mut self.mixed, &mut self.sorted);
    }

    #[inline(always)]
    pub fn mixed(&self, item: usize) -> u64 {
        self.mixed[item]
    }

    pub fn mixed_of(&self, run: &Run) -> &[u64] {
        &self.mixed[run.start..run.end]
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

/// Ranges of a call's keys that can be worked on side by side. Where the keys come in order of their shards, no two ranges
/// have one in common.
pub fn parts(keys: &[u64], sharding: Sharding) -> Vec<Range<usize>> {
    let shard = |place: usize| sharding.shard_of(mix(keys[place]));
    let (mut parts, mut start) = (Vec::new(), 0);
    while keys.len() - start > PART + PART / 2 {
        let mut end = start + PART;
        while end < keys.len() && shard(end) == shard(end - 1) {
            end += 1;
        }
        parts.push(start..end);
        start = end;
    }
    parts.push(start..keys.len());
    parts
}

/// The items of a window.
pub fn items(window: &[Run]) -> Range<usize> {
    match window {
        [first, .., last] => first.start..last.end,
        [only] => only.start..only.end,
        [] => 0..0,
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

/// Copies a row. The widths of rows are known late, and a call for each would cost more than the copying.
#[inline(always)]
pub fn copy_row(row: &[f32], out: &mut [f32]) {
    assert_eq!(row.len(), out.len());
    let (vectors, rest) = row.as_chunks::<8>();
    let (out_vectors, out_rest) = out.as_chunks_mut::<8>();
    for (out, vector) in out_vectors.iter_mut().zip(vectors) {
        *out = *vector;
    }
    for (out, number) in out_rest.iter_mut().zip(rest) {
        *out = *number;
    }
}
