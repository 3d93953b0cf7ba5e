//! A push to rows with an accessor: statistics first, then embed_w, then the wide parts that exist, and at last the wide
//! parts that this push has earned.

use crate::table::SparseTable;
use crate::table::ctr;
use crate::table::kernels::{self, Job, Shape};
use crate::table::lookup::{BLOCK, Block, Cursor, JobList};
use crate::table::rules::Step;
use crate::table::spec::{Ctr, Decay};

pub struct CtrPush<'a> {
    table: &'a SparseTable,
    accessor: &'a Ctr,
    step: Step,
    embed_step: Option<Step>,
    /// Gradients divided by shows, one row of them per item.
    scaled: Vec<f32>,
}

impl<'a> CtrPush<'a> {
    pub fn new(table: &'a SparseTable, accessor: &'a Ctr, step: Step, embed_step: Option<Step>) -> Self {
        Self { table, accessor, step, embed_step, scaled: vec![0.0; BLOCK * (1 + table.spec().dim)] }
    }

    /// Pushes to a block whose shards are locked. `row` gives what was pushed for a place of the call.
    pub fn block<'b>(&mut self, block: &mut Block<'_, '_>, keys: &[u64], row: &impl Fn(usize) -> &'b [f32]) {
        self.count(block, row);
        self.train(block);
        self.widen(block, keys);
    }

    /// Takes the pushes into the statistics, and divides gradients by shows where the rules want it.
    fn count<'b>(&mut self, block: &Block<'_, '_>, row: &impl Fn(usize) -> &'b [f32]) {
        let spec = self.table.spec();
        for ((place, found), scaled) in block.rows().zip(self.scaled.chunks_exact_mut(1 + spec.dim)) {
            if !found.is_here() {
                continue;
            }
            let pushed = row(place);
            // SAFETY: the slot belongs to a shard whose lock is held while the block is worked on.
            ctr::count_push(self.accessor, unsafe { self.table.store.values(found.slot) }, pushed);
            let scale = ctr::scale(self.accessor, pushed);
            let embed_scale = if self.accessor.embed_optimizer.scales_by_show() { scale } else { 1.0 };
            let wide_scale = if spec.optimizer.scales_by_show() { scale } else { 1.0 };
            scaled[0] = pushed[ctr::PUSHED_EMBED] / embed_scale;
            for (out, gradient) in scaled[1..].iter_mut().zip(&pushed[ctr::PUSHED_WIDE..]) {
                *out = gradient / wide_scale;
            }
        }
    }

    fn train(&self, block: &Block<'_, '_>) {
        let (store, spec) = (&self.table.store, self.table.spec());
        let (mut embed_jobs, mut wide_jobs) = (JobList::default(), JobList::default());
        for (found, scaled) in block.found.iter().zip(self.scaled.chunks_exact(1 + spec.dim)) {
            if !found.is_here() {
                continue;
            }
            let head = store.values_at(found.slot);
            embed_jobs.push(Job {
                weights: head.wrapping_add(ctr::EMBED),
                state: head.wrapping_add(ctr::EMBED_STATE),
                gradient: scaled.as_ptr(),
            });
            if found.wide != 0 {
                wide_jobs.push(Job {
                    weights: store.wide_values_at(found.wide - 1),
                    state: store.wide_state_at(found.wide - 1),
                    gradient: scaled[1..].as_ptr(),
                });
            }
        }
        if let Some(embed_step) = &self.embed_step {
            let state_width = store.layout.values - ctr::EMBED_STATE;
            let shape = Shape { dim: 1, state_width, clip: spec.clip, decay: Decay::default(), rate: 0.0 };
            // SAFETY: heads of slots whose shards are locked, and one gradient each.
            unsafe { kernels::apply(embed_step, &shape, embed_jobs.as_slice()) };
        }
        let state_width = store.layout.wide_state;
        let shape = Shape { dim: spec.dim, state_width, clip: spec.clip, decay: Decay::default(), rate: 0.0 };
        // SAFETY: wide parts of slots whose shards are locked, and `dim` gradients each.
        unsafe { kernels::apply(&self.step, &shape, wide_jobs.as_slice()) };
    }

    /// Makes the wide parts that rows have earned. The push that earns one does not train it yet.
    fn widen(&self, block: &mut Block<'_, '_>, keys: &[u64]) {
        let store = &self.table.store;
        let mut cursor = Cursor::default();
        for (item, found) in block.items.clone().zip(block.found) {
            let shard = cursor.shard(block.shards, item);
            if !found.is_here() || found.wide != 0 {
                continue;
            }
            // SAFETY: the slot belongs to this shard, which is borrowed mutably.
            if ctr::earns_wide_part(self.accessor, unsafe { store.values(found.slot) }) {
                let hash = store.buckets.hash(block.plan.mixed(item));
                self.table.create_wide(shard, hash, keys[block.plan.place(item)]);
            }
        }
    }
}
