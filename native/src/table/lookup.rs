//! Looking rows up: where the keys of a call have their rows, block by block, with their shards locked.
//!
//! Waiting for memory is what costs: for a key's entry, then for its row. So a window of keys is worked on in small blocks,
//! in three stages: while the rows of one block are read or changed, the entries of a later one are searched, and those of
//! a still later one are asked for.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use crate::keys::Sharding;
use crate::table::batch::{self, Plan, Run, prefetch};
use crate::table::index::Entry;
use crate::table::kernels::Job;
use crate::table::lock;
use crate::table::shard::{Shard, Store};

/// Keys that are in the same stage.
pub const BLOCK: usize = 8;
/// Blocks between two stages: as long as memory takes. Many small blocks keep it busier than few large ones.
const AHEAD: usize = 3;

/// Where a key's row is: nowhere, or in a slot, perhaps with a wide part (the number is its slot plus one).
#[derive(Clone, Copy)]
pub struct Found {
    pub slot: u32,
    pub wide: u32,
}

impl From<&Entry> for Found {
    #[inline(always)]
    fn from(entry: &Entry) -> Found {
        Found { slot: entry.slot(), wide: entry.wide }
    }
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

/// The shard of one item of a window: looked for when it is asked for.
pub struct Near<'a, 'table> {
    shards: &'a mut [LockedRun<'table>],
    cursor: &'a mut Cursor,
    item: usize,
}

impl Near<'_, '_> {
    #[inline(always)]
    pub fn shard(&mut self) -> &mut Shard {
        self.cursor.shard(self.shards, self.item)
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
    mut ready: impl FnMut(Near<'_, '_>, Found),
    mut work: impl FnMut(&mut Block<'_, '_>),
) {
    let buckets = &store.buckets;
    batch::with_plan(keys, sharding, |plan| {
        let mut locked = Vec::new();
        let mut lines = Vec::new();
        for window in plan.windows() {
            locked.extend(window.iter().map(|run| (*run, lock(&shards[run.shard]))));
            lines.clear();
            for (run, shard) in &locked {
                lines.extend(plan.mixed_of(run).iter().map(|mixed| shard.index.line(buckets.hash(*mixed))));
            }
            let items = batch::items(window);
            let blocks = items.len().div_ceil(BLOCK);
            let block = |n: usize| {
                let start = items.start + n * BLOCK;
                start..(start + BLOCK).min(items.end)
            };
            let lines_of = |block: &Range<usize>| &lines[block.start - items.start..block.end - items.start];
            let mut cursor = Cursor::default();
            let mut found = [[NOWHERE; BLOCK]; AHEAD];
            // In turn n: the rows of block n - 2 * AHEAD, the search for those of block n - AHEAD, the entries of block n.
            for turn in 0..blocks + 2 * AHEAD {
                let found = &mut found[turn % AHEAD];
                if turn >= 2 * AHEAD {
                    let items = block(turn - 2 * AHEAD);
                    let found = &found[..items.len()];
                    work(&mut Block { plan, items, found, shards: &mut locked });
                }
                if (AHEAD..blocks + AHEAD).contains(&turn) {
                    let sought = block(turn - AHEAD);
                    for ((found, line), item) in found.iter_mut().zip(lines_of(&sought)).zip(sought) {
                        let place = plan.place(item);
                        // SAFETY: the line is of a shard whose lock is held.
                        *found = match unsafe { line.find(keys[place]) } {
                            Some(entry) => entry.into(),
                            None => {
                                let shard = cursor.shard(&mut locked, item);
                                let hash = buckets.hash(plan.mixed(item));
                                let elsewhere = shard.index.find(hash, keys[place]).map(Found::from);
                                elsewhere.unwrap_or_else(|| missing(shard, hash, place))
                            }
                        };
                        if found.is_here() {
                            ready(Near { shards: &mut locked, cursor: &mut cursor, item }, *found);
                        }
                    }
                }
                if turn < blocks {
                    lines_of(&block(turn)).iter().for_each(|line| prefetch(line.address()));
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
