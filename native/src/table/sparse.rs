//! A sparse table: a row per key, made when the key first comes, changed by gradients.
//!
//! Every call takes its keys in any order; keys in order of their shards are fastest. Calls from several threads work
//! side by side as long as they touch different shards. A row is always seen whole.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::gather;
use crate::helpers;
use crate::keys::{Sharding, draw, mix, unit};
use crate::table::batch::{self, copy_row, prefetch_row};
use crate::table::changes::{self, Changes};
use crate::table::ctr_push::CtrPush;
use crate::table::freeze;
use crate::table::history::Idle;
use crate::table::kernels::{self, Job, Shape};
use crate::table::lookup::{self, Block, Found, JobList, NOWHERE, Near};
use crate::table::moving::{self, Moving, Past, Turn};
use crate::table::rules::{Rule, Step};
use crate::table::shard::{Layout, Shard, Store};
use crate::table::slab::Bits;
use crate::table::spec::{Entry, SparseSpec};
use crate::table::{Memory, ctr, idle_days, lock};

pub struct SparseTable {
    pub(super) spec: SparseSpec,
    pub(super) sharding: Sharding,
    // Shared with tables that `with_spec` has made of this one.
    pub(super) store: Arc<Store>,
    pub(super) shards: Arc<[Mutex<Shard>]>,
    pub(super) rules: Arc<Mutex<Rules>>,
    pub(super) changes: Arc<Changes>,
    /// Where rows move in every push: what they have missed.
    pub(super) moving: Option<Arc<Moving>>,
}

/// What becomes of a row that is asked for and is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It is made.
    Made,
    /// It reads as it would be made.
    Initial,
    Zeros,
}

impl Absent {
    /// What a caller says in two words: whether rows are made, and what they read as if not. `None`: no such word.
    pub fn of(create: bool, word: &str) -> Option<Self> {
        match (create, word) {
            (true, "initial" | "zeros") => Some(Self::Made),
            (false, "initial") => Some(Self::Initial),
            (false, "zeros") => Some(Self::Zeros),
            _ => None,
        }
    }
}

/// Those of its rows, and with an accessor those of a row's first weight.
pub(super) struct Rules {
    pub main: Rule,
    pub embed: Option<Rule>,
}

impl SparseTable {
    /// An empty table, or all that is wrong with the spec.
    pub fn new(spec: SparseSpec, sharding: Sharding) -> Result<Self, String> {
        spec.check()?;
        let main_state = spec.optimizer.state_width(spec.dim);
        let layout = match &spec.accessor {
            None => Layout {
                values: spec.dim,
                state: main_state + usize::from(spec.expire.is_some()),
                wide_values: 0,
                wide_state: 0,
                removes: spec.expire.is_some(),
            },
            Some(accessor) => {
                let values = accessor.head_width();
                Layout { values, state: 0, wide_values: spec.dim, wide_state: main_state, removes: true }
            }
        };
        let rules = Rules {
            main: Rule::new(spec.optimizer),
            embed: spec.accessor.as_ref().map(|accessor| Rule::new(accessor.embed_optimizer)),
        };
        Ok(Self {
            sharding,
            store: Arc::new(Store::new(layout, RandomState::new().build_hasher().finish())),
            shards: (0..sharding.count()).map(|_| Mutex::default()).collect(),
            rules: Arc::new(Mutex::new(rules)),
            changes: Arc::default(),
            moving: Moving::of(&spec),
            spec,
        })
    }

    /// The same rows under other settings of the same layout. This one is not to be used any more: rows, rules and
    /// everything else are one and the same. No push may run while this does.
    pub fn with_spec(&self, spec: SparseSpec) -> Result<Self, String> {
        spec.check()?;
        if self.moving.as_ref().is_some_and(|moving| moving.is_frozen()) {
            return Err("the table is being saved: it can't get other settings now".to_owned());
        }
        // What rows have missed so far, they have missed under the old settings.
        self.settle();
        {
            let mut rules = lock(&self.rules);
            rules.main.adopt(spec.optimizer);
            if let (Some(embed), Some(accessor)) = (&mut rules.embed, &spec.accessor) {
                embed.adopt(accessor.embed_optimizer);
            }
        }
        if !matches!(spec.entry, Entry::Count { .. }) {
            // Nobody counts any more: a key gets its row, or does not, when it comes next.
            self.shards.iter().for_each(|shard| lock(shard).pending = Arc::default());
        }
        let (store, shards) = (self.store.clone(), self.shards.clone());
        let (rules, changes) = (self.rules.clone(), self.changes.clone());
        let moving = Moving::of(&spec);
        if let Some(new) = &moving {
            new.grow(store.extents.reserved());
        }
        if let (Some(old), Some(new)) = (&self.moving, &moving) {
            self.each_slot(|slot| {
                // SAFETY: the slot belongs to a shard whose lock is held.
                unsafe { new.created(slot, old.has_begun(slot)) };
            });
        }
        Ok(Self { spec, sharding: self.sharding, store, shards, rules, changes, moving })
    }

    pub fn spec(&self) -> &SparseSpec {
        &self.spec
    }

    pub fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// Columns of a pulled row. With an accessor: show, click, embed_w, then the wide part.
    pub fn pull_width(&self) -> usize {
        self.spec.dim + if self.spec.accessor.is_some() { 3 } else { 0 }
    }

    /// Columns of a pushed row. With an accessor: slot, show, click, embed_w's gradient, then the wide part's.
    pub fn push_width(&self) -> usize {
        self.spec.dim + if self.spec.accessor.is_some() { 4 } else { 0 }
    }

    /// Rows of the keys, in their order; `absent` says what of those that are missing. A key that is not admitted reads as
    /// zeros.
    ///
    /// # Panics
    /// If `out` is not `keys.len() * pull_width()` long.
    pub fn pull(&self, keys: &[u64], out: &mut [f32], absent: Absent) {
        let width = self.pull_width();
        assert_eq!(out.len(), keys.len() * width, "room for {} rows of {width} columns", keys.len());
        let missing = |shard: &mut Shard, hash: u64, place: usize| {
            let made = absent == Absent::Made && self.admits(keys[place]);
            if made { self.create(shard, hash, keys[place]) } else { NOWHERE }
        };
        let past = self.past();
        let ready = |_: Near<'_, '_>, found: Found| match past {
            Some(_) => self.prefetch_all(found),
            None => self.prefetch_values(found),
        };
        self.each_block(keys, missing, ready, |block| {
            for (place, found) in block.rows() {
                let row = &mut out[place * width..(place + 1) * width];
                if found.is_here() {
                    self.read(found, row, past.as_ref());
                } else if absent == Absent::Zeros {
                    row.fill(0.0);
                } else {
                    self.read_missing(keys[place], row);
                }
            }
        });
    }

    /// One optimizer step with the gradients of these keys, each of which should come once. `draw` decides together with
    /// a key where chance does, so the same push with the same number does the same.
    ///
    /// # Panics
    /// If `rows` is not `keys.len() * push_width()` long.
    pub fn push(&self, keys: &[u64], rows: &[f32], draw: u64) {
        let width = self.push_width();
        assert_eq!(rows.len(), keys.len() * width, "{} rows of {width} columns", keys.len());
        let turn = self.begin_turn();
        let steps = self.begin_step(turn.as_ref());
        let marks = self.changes.marks();
        let parts = batch::parts(keys, self.sharding);
        helpers::together(parts.len(), &|part| {
            let Range { start, end } = parts[part];
            self.push_part(&keys[start..end], &rows[start * width..end * width], draw, steps, turn.as_ref(), &marks);
        });
        if let Some(turn) = turn {
            turn.end();
        }
    }

    /// Where rows move in every push, one is done after the other.
    fn begin_turn(&self) -> Option<Turn<'_>> {
        let moving = self.moving.as_ref()?;
        if moving.runs() >= moving::MOST_RUNS {
            self.settle();
        }
        Some(moving.begin())
    }

    /// Brings all rows up to date, as far as a frozen moment allows it.
    pub(super) fn settle(&self) {
        let Some(moving) = &self.moving else { return };
        let past = moving.frozen();
        // SAFETY: the slot belongs to a shard whose lock is held.
        self.each_slot(|slot| unsafe { moving.bring(&self.store, slot, &past) });
        moving.forget(past.push);
    }

    /// All slots of a table whose rows never go, side by side, with their shards locked.
    fn each_slot(&self, work: impl Fn(u32) + Sync) {
        helpers::together(self.shards.len(), &|shard| {
            let shard = &*lock(&self.shards[shard]);
            (0..shard.slots.used()).for_each(|ordinal| work(shard.slots.slot(&self.store.extents, ordinal)));
        });
    }

    fn past(&self) -> Option<Past> {
        self.moving.as_ref().map(|moving| moving.past())
    }

    fn push_part(
        &self,
        keys: &[u64],
        rows: &[f32],
        draw: u64,
        (step, embed_step, rate): (Step, Option<Step>, f32),
        turn: Option<&Turn<'_>>,
        marks: &[Bits],
    ) {
        let width = self.push_width();
        let row = |place: usize| &rows[place * width..(place + 1) * width];
        let missing = |shard: &mut Shard, hash: u64, place: usize| {
            let admitted = self.admits_push(shard, keys[place], row(place), draw);
            if admitted { self.create(shard, hash, keys[place]) } else { NOWHERE }
        };
        let ready = |mut near: Near<'_, '_>, found: Found| {
            self.prefetch_all(found);
            self.before_write(near.shard(), found, marks);
        };
        let expires = self.spec.expire.is_some();
        match &self.spec.accessor {
            None => self.each_block(keys, missing, ready, |block| {
                let mut jobs = JobList::default();
                for (place, found) in block.rows() {
                    if found.is_here() {
                        if let Some(turn) = turn {
                            // SAFETY: the slot belongs to a shard whose lock `each_block` holds.
                            unsafe { turn.bring(&self.store, found.slot) };
                        }
                        let weights = self.store.values_at(found.slot);
                        let state = self.store.state_at(found.slot);
                        if expires {
                            // SAFETY: the slot belongs to a shard whose lock `each_block` holds.
                            idle_days::seen(unsafe { self.store.state(found.slot) });
                        }
                        jobs.push(Job { weights, state, gradient: row(place).as_ptr() });
                    }
                }
                let state_width = self.store.layout.state - usize::from(expires);
                let shape =
                    Shape { dim: self.spec.dim, state_width, clip: self.spec.clip, decay: self.spec.decay, rate };
                // SAFETY: the slots belong to shards whose locks `each_block` holds, and gradients have `dim` columns.
                unsafe { kernels::apply(&step, &shape, jobs.as_slice()) };
            }),
            Some(accessor) => {
                let mut pushing = CtrPush::new(self, accessor, step, embed_step);
                self.each_block(keys, missing, ready, |block| pushing.block(block, keys, &row));
            }
        }
    }

    /// One optimizer step with the sum of several pushes, added up in float32 in this order. Of an accessor's columns,
    /// show and click are added up too, and the last slot counts.
    pub fn push_summed(&self, parts: &[(&[u64], &[f32])], draw: u64) {
        if let [(keys, rows)] = parts
            && !gather::has_repeats(keys)
        {
            return self.push(keys, rows, draw);
        }
        let last_counts = if self.spec.accessor.is_some() { 1 } else { 0 };
        let (keys, rows) = gather::merge(parts, self.push_width(), last_counts);
        self.push(&keys, &rows, draw);
    }

    /// Overwrites the values of rows, and makes those that are missing. Their state stays.
    pub fn set(&self, keys: &[u64], rows: &[f32]) -> Result<(), String> {
        self.change_values(keys, rows, |values, row| values.copy_from_slice(row))
    }

    /// Adds to the values of rows, and makes those that are missing. Their state stays.
    pub fn add(&self, keys: &[u64], rows: &[f32]) -> Result<(), String> {
        self.change_values(keys, rows, |values, row| {
            values.iter_mut().zip(row).for_each(|(value, more)| *value += more)
        })
    }

    fn change_values(&self, keys: &[u64], rows: &[f32], change: impl Fn(&mut [f32], &[f32])) -> Result<(), String> {
        if self.spec.accessor.is_some() {
            return Err("a table with an accessor is only changed by pushes".into());
        }
        let width = self.spec.dim;
        assert_eq!(rows.len(), keys.len() * width, "{} rows of {width} columns", keys.len());
        let marks = self.changes.marks();
        let past = self.past();
        let missing = |shard: &mut Shard, hash: u64, place: usize| {
            forget_pending(shard, keys[place]);
            self.create(shard, hash, keys[place])
        };
        let ready = |mut near: Near<'_, '_>, found: Found| {
            self.prefetch_values(found);
            self.before_write(near.shard(), found, &marks);
        };
        self.each_block(keys, missing, ready, |block| {
            for (place, found) in block.rows() {
                if let (Some(moving), Some(past)) = (&self.moving, &past) {
                    // SAFETY: the slot belongs to a shard whose lock `each_block` holds.
                    unsafe { moving.begin_row(&self.store, found.slot, past) };
                }
                // SAFETY: the slot belongs to a shard whose lock `each_block` holds.
                let values = unsafe { self.store.values(found.slot) };
                change(values, &rows[place * width..(place + 1) * width]);
            }
        });
        Ok(())
    }

    pub fn learning_rate(&self) -> f32 {
        lock(&self.rules).main.learning_rate()
    }

    /// Sets the rate of the table's rules, an accessor's embed rule included.
    pub fn set_learning_rate(&self, rate: f32) -> Result<(), String> {
        let mut rules = lock(&self.rules);
        let mut changed = (rules.main, rules.embed);
        changed.0.set_learning_rate(rate)?;
        if let Some(embed) = &mut changed.1 {
            embed.set_learning_rate(rate)?;
        }
        (rules.main, rules.embed) = changed;
        Ok(())
    }

    /// A day passes. With an accessor shows and clicks fade, and rows that are not worth keeping go; otherwise those that have expired. Returns how
    /// many.
    pub fn shrink(&self) -> u64 {
        let (accessor, expire) = (self.spec.accessor.as_ref(), self.spec.expire);
        if !self.store.layout.removes {
            return 0;
        }
        let marks = self.changes.marks();
        let mut removed = 0;
        for shard in self.shards.iter() {
            let shard = &mut *lock(shard);
            for ordinal in 0..shard.slots.used() {
                let slot = shard.slots.slot(&self.store.extents, ordinal);
                let Some(wide) = freeze::live(&self.store, shard, slot) else { continue };
                if shard.frozen.is_some() {
                    freeze::before_write(&self.store, accessor, None, shard, slot, wide);
                }
                // SAFETY: the slot belongs to the shard whose lock is held.
                let (values, state) = unsafe { (self.store.values(slot), self.store.state(slot)) };
                let stays = match (accessor, expire) {
                    (Some(accessor), _) => ctr::fade(accessor, values),
                    (None, Some(expire)) => idle_days::pass(&expire, state),
                    (None, None) => true,
                };
                if stays {
                    continue;
                }
                // SAFETY: as above.
                let key = unsafe { self.store.key(slot) };
                shard.index.remove(&self.store.buckets, self.store.buckets.hash(mix(key)), key);
                shard.slots.give_back(slot);
                if wide != 0 {
                    shard.wide.give_back(wide - 1);
                }
                marks.iter().for_each(|bits| bits.clear(slot));
                removed += 1;
            }
        }
        removed
    }

    /// Rows, without the keys that wait to be admitted.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).index.len() as u64).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn memory(&self) -> Memory {
        let mut sum = Memory::default();
        for shard in self.shards.iter() {
            self.store.count(&lock(shard), &mut sum);
        }
        self.store.finish(&mut sum);
        if let Some(moving) = &self.moving {
            sum.state += moving.bytes(self.len());
        }
        sum
    }

    /// From now on, changes are kept for so many trainers.
    pub fn track(&self, trainers: usize) {
        self.changes.track(trainers);
    }

    /// Rows that anybody changed since this trainer asked last, with their values now, shard by shard.
    pub fn take_changed(&self, trainer: usize, shards: Range<usize>) -> (Vec<u64>, Vec<f32>) {
        let marks = self.changes.marks();
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        let Some(bits) = marks.get(trainer) else { return (keys, rows) };
        let width = self.pull_width();
        let past = self.past();
        for shard in &self.shards[shards] {
            let shard = &*lock(shard);
            changes::take(&self.store, shard, bits, |slot| {
                if let Some(wide) = freeze::live(&self.store, shard, slot) {
                    // SAFETY: the slot belongs to the shard whose lock is held.
                    keys.push(unsafe { self.store.key(slot) });
                    rows.resize(rows.len() + width, 0.0);
                    let start = rows.len() - width;
                    self.read(Found { slot, wide }, &mut rows[start..], past.as_ref());
                }
            });
        }
        (keys, rows)
    }

    fn begin_step(&self, turn: Option<&Turn<'_>>) -> (Step, Option<Step>, f32) {
        let mut rules = lock(&self.rules);
        let (step, rate) = (rules.main.step(), rules.main.learning_rate());
        if let Some(turn) = turn {
            turn.remember(Idle { step: rules.main.idle(step), rate });
        }
        (step, rules.embed.as_mut().map(Rule::step), rate)
    }

    #[inline(always)]
    fn each_block(
        &self,
        keys: &[u64],
        missing: impl FnMut(&mut Shard, u64, usize) -> Found,
        ready: impl FnMut(Near<'_, '_>, Found),
        work: impl FnMut(&mut Block<'_, '_>),
    ) {
        lookup::each_block(&self.store, &self.shards, self.sharding, keys, missing, ready, work);
    }

    #[inline(always)]
    fn prefetch_values(&self, found: Found) {
        prefetch_row(self.store.values_at(found.slot), self.store.layout.values);
        if found.wide != 0 {
            prefetch_row(self.store.wide_values_at(found.wide - 1), self.store.layout.wide_values);
        }
    }

    #[inline(always)]
    fn prefetch_all(&self, found: Found) {
        self.prefetch_values(found);
        prefetch_row(self.store.state_at(found.slot), self.store.layout.state);
        if let Some(moving) = &self.moving {
            moving.prefetch(found.slot);
        }
        if found.wide != 0 {
            prefetch_row(self.store.wide_state_at(found.wide - 1), self.store.layout.wide_state);
        }
    }

    #[inline(always)]
    pub(super) fn before_write(&self, shard: &mut Shard, found: Found, marks: &[Bits]) {
        if shard.frozen.is_some() {
            let moving = self.moving.as_deref();
            freeze::before_write(&self.store, self.spec.accessor.as_ref(), moving, shard, found.slot, found.wide);
        }
        for bits in marks {
            bits.set(found.slot);
        }
    }

    #[inline(always)]
    fn read(&self, found: Found, row: &mut [f32], past: Option<&Past>) {
        if let (Some(moving), Some(past)) = (&self.moving, past) {
            // SAFETY: callers hold the lock of the shard to which the row belongs.
            return unsafe { moving.read(&self.store, found.slot, past, row) };
        }
        // SAFETY: callers hold the lock of the shard to which the row belongs.
        let values = unsafe { self.store.values(found.slot) };
        if self.spec.accessor.is_none() {
            copy_row(values, row);
            return;
        }
        row[..3].copy_from_slice(&values[ctr::SHOW..=ctr::EMBED]);
        match found.wide {
            0 => row[3..].fill(0.0),
            // SAFETY: as above.
            wide => row[3..].copy_from_slice(unsafe { self.store.wide_values(wide - 1) }),
        }
    }

    /// What a row that is not there reads as.
    fn read_missing(&self, key: u64, row: &mut [f32]) {
        row.fill(0.0);
        if self.admits(key) {
            match &self.spec.accessor {
                None => self.spec.init.fill(self.spec.seed, key, row),
                Some(accessor) => row[2] = ctr::first_embed(&self.spec, accessor, key),
            }
        }
    }

    /// Whether a key gets a row as soon as it is asked for.
    fn admits(&self, key: u64) -> bool {
        match self.spec.entry {
            Entry::Always => true,
            Entry::Probability { probability } => unit(draw(mix(key ^ mix(!self.spec.seed)), 0)) < probability,
            Entry::Count { .. } | Entry::Score {} => false,
        }
    }

    /// Whether a key gets a row with this push. Counts it, where the spec says so.
    fn admits_push(&self, shard: &mut Shard, key: u64, pushed: &[f32], draw: u64) -> bool {
        match (self.spec.entry, &self.spec.accessor) {
            (Entry::Count { count }, _) => {
                let had = shard.pending.get(&key).copied().unwrap_or(0);
                let enough = had + 1 >= count;
                if !enough {
                    Arc::make_mut(&mut shard.pending).insert(key, had + 1);
                } else {
                    forget_pending(shard, key);
                }
                enough
            }
            (Entry::Score {}, Some(accessor)) => {
                let score = ctr::score(accessor, pushed[ctr::PUSHED_SHOW], pushed[ctr::PUSHED_CLICK]);
                score > 0.0 && (score >= 1.0 || unit(mix(key ^ mix(draw))) < score)
            }
            _ => self.admits(key),
        }
    }

    /// Makes the row of a key that has none.
    pub(super) fn create(&self, shard: &mut Shard, hash: u64, key: u64) -> Found {
        let (slot, fresh) = self.store.new_slot(shard, key);
        shard.index.insert(&self.store.buckets, hash, key, slot, 0);
        // SAFETY: the slot was just given to the shard, which is borrowed mutably.
        let (values, state) = unsafe { (self.store.values(slot), self.store.state(slot)) };
        match &self.spec.accessor {
            Some(accessor) => ctr::fill_head(&self.spec, accessor, key, values),
            None => {
                kernels::fill(self.spec.init, self.spec.seed, key, values);
                let (own, days) = state.split_at_mut(self.spec.optimizer.state_width(self.spec.dim));
                if !fresh || self.spec.optimizer.state_starts_nonzero() {
                    self.spec.optimizer.fill_state(own);
                }
                days.fill(0.0);
            }
        }
        if let Some(moving) = &self.moving {
            // SAFETY: as above.
            unsafe { moving.created(slot, false) };
        }
        if shard.frozen.is_some() {
            freeze::created(&self.store, shard, slot);
        }
        Found { slot, wide: 0 }
    }

    /// Makes the wide part of a row that has none.
    pub(super) fn create_wide(&self, shard: &mut Shard, hash: u64, key: u64) {
        if shard.index.find(hash, key).is_none_or(|entry| entry.wide != 0) {
            return;
        }
        let slot = self.store.new_wide_slot(shard);
        // SAFETY: the slot was just given to the shard, which is borrowed mutably.
        let (values, state) = unsafe { (self.store.wide_values(slot), self.store.wide_state(slot)) };
        kernels::fill(self.spec.init, self.spec.seed, key, values);
        self.spec.optimizer.fill_state(state);
        shard.index.set_wide(hash, key, slot + 1);
    }
}

/// A key stops waiting. The map may be shared with a frozen moment, so it is touched only if need be.
pub(super) fn forget_pending(shard: &mut Shard, key: u64) {
    if shard.pending.contains_key(&key) {
        Arc::make_mut(&mut shard.pending).remove(&key);
    }
}
