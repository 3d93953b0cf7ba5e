//! Looking rows up: where the keys of a call have their rows, block by block, with their shards locked.
//!
//! Waiting for memory is what costs: for a key's entry, then for its row. So a window of keys is worked on in small blocks,
//! in three stages: while the rows of one block are read or changed, the entries of the next are searched, and those of
//! the one after it are asked for.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use crate::keys::Sharding;
use crate::table::batch::{self, Plan, Run, prefetch};
use crate::table::kernels::Job;
use crate::table::lock;
use crate::table::shard::{Shard, Store};

/// Keys that are in the same stage.
pub const BLOCK: usize = 16;

/// Where a key's row is: nowhere, or in a slot, perhaps with a wide part (the number is its slot plus one).
#[derive(Clone, Copy)]
pub struct Found {
    pub slot: u32,
    pub wide: u32,
}

pub const NOWHERE: Found = Found { slot: u32::MAX, wide: 0 };

impl Found {
    #[inline(always)]
    pub fn is_here(self) -> bool {
        self.slot != NOWHERE.slot
    }
}

/// A few items of a call, their rows, and the locked shards of their window.
pub struct Block<'a, 'table> {
    pub plan: &'a Plan,
    pub items: Range<usize>,
    pub found: &'a [Found],
    pub shards: &'a mut [LockedRun<'table>],
}

pub type LockedRun<'table> = (Run, MutexGuard<'table, Shard>);

impl Block<'_, '_> {
    /// Places of items in the call, and their rows.
    #[inline(always)]
    pub fn rows(&self) -> impl Iterator<Item = (usize, Found)> {
        self.items.clone().zip(self.found).map(|(item, &found)| (self.plan.place(item), found))
    }
}

/// Goes along with ascending items and knows the shard of each.
#[derive(Default)]
pub struct Cursor {
    run: usize,
}

impl Cursor {
    #[inline(always)]
    pub fn shard<'a>(&mut self, shards: &'a mut [LockedRun<'_>], item: usize) -> &'a mut Shard {
        while shards[self.run].0.end <= item {
            self.run += 1;
        }
        &mut shards[self.run].1
    }
}

/// Finds the rows of keys, block by block. `missing` may make a row (hash and place in the call say of which key), `ready`
/// sees each row that is there and asks for its memory, and `work` has a block of rows.
#[inline(always)]
pub fn each_block(
    store: &Store,
    shards: &[Mutex<Shard>],
    sharding: Sharding,
    keys: &[u64],
    mut missing: impl FnMut(&mut Shard, u64, usize) -> Found,
    mut ready: impl FnMut(&mut Shard, Found),
    mut work: impl FnMut(&mut Block<'_, '_>),
) {
    let buckets = &store.buckets;
    batch::with_plan(keys, sharding, |plan| {
        let mut locked = Vec::new();
        for window in plan.windows() {
            locked.extend(window.iter().map(|run| (*run, lock(&shards[run.shard]))));
            let items = batch::items(window);
            let blocks = items.len().div_ceil(BLOCK);
            let block = |n: usize| {
                let start = items.start + n * BLOCK;
                start..(start + BLOCK).min(items.end)
            };
            let (mut ahead, mut search) = (Cursor::default(), Cursor::default());
            let mut found = [NOWHERE; BLOCK];
            // In turn n: the rows of block n - 2, the search for those of block n - 1, the entries of block n.
            for turn in 0..blocks + 2 {
                if turn >= 2 {
                    let items = block(turn - 2);
                    let found = &found[..items.len()];
                    work(&mut Block { plan, items, found, shards: &mut locked });
                }
                if (1..=blocks).contains(&turn) {
                    for (found, item) in found.iter_mut().zip(block(turn - 1)) {
                        let shard = search.shard(&mut locked, item);
                        let (hash, place) = (buckets.hash(plan.mixed(item)), plan.place(item));
                        *found = match shard.index.find(hash, keys[place]) {
                            Some(entry) => Found { slot: entry.slot(), wide: entry.wide },
                            None => missing(shard, hash, place),
                        };
                        if found.is_here() {
                            ready(shard, *found);
                        }
                    }
                }
                if turn < blocks {
                    for item in block(turn) {
                        let shard = ahead.shard(&mut locked, item);
                        prefetch(shard.index.hint(buckets.hash(plan.mixed(item))));
                    }
                }
            }
            locked.clear();
        }
    });
}

/// The jobs of a block.
pub struct JobList {
    jobs: [Job; BLOCK],
    len: usize,
}

impl Default for JobList {
    #[inline(always)]
    fn default() -> Self {
        let none = Job { weights: std::ptr::null_mut(), state: std::ptr::null_mut(), gradient: std::ptr::null() };
        Self { jobs: [none; BLOCK], len: 0 }
    }
}

impl JobList {
    #[inline(always)]
    pub fn push(&mut self, job: Job) {
        self.jobs[self.len] = job;
        self.len += 1;
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[Job] {
        &self.jobs[..self.len]
    }
}
