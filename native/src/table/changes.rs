//! Changes: which rows were changed since a trainer last asked. Geo sends only those.

use std::sync::{Arc, RwLock};

use crate::poison::Unpoisoned;
use crate::table::shard::{Shard, Store};
use crate::table::slab::Bits;

/// By trainer: a bit per slot.
#[derive(Default)]
pub struct Changes {
    trainers: RwLock<Arc<[Bits]>>,
}

impl Changes {
    /// From now on, changes are kept for so many trainers.
    pub fn track(&self, trainers: usize) {
        *self.trainers.write().unpoisoned() = (0..trainers).map(|_| Bits::new()).collect();
    }

    /// What a call that changes rows marks them in.
    pub fn marks(&self) -> Arc<[Bits]> {
        Arc::clone(&self.trainers.read().unpoisoned())
    }
}

/// Calls `found` with the slots of a shard that are marked, and takes the marks away.
pub fn take(store: &Store, shard: &Shard, marks: &Bits, mut found: impl FnMut(u32)) {
    for ordinal in 0..shard.slots.used() {
        let slot = shard.slots.slot(&store.extents, ordinal);
        if marks.is_set(slot) {
            marks.clear(slot);
            found(slot);
        }
    }
}
