//! What a shard keeps of a frozen moment; `freeze` says what is done with it. Values.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use crate::keys::MixHasher;
use crate::table::RowBatch;
use crate::table::spec::SaveMode;

/// Keys without a row, and the pushes that they have had.
pub type Pending = HashMap<u64, u32, BuildHasherDefault<MixHasher>>;

pub struct Frozen {
    pub mode: SaveMode,
    /// Slots that were in use: those with an ordinal below this.
    pub rows: usize,
    pub scanned: usize,
    /// Slots that were written since, with the number of their copy; those without one were scanned before, or were free.
    pub written: HashMap<u32, Option<usize>, BuildHasherDefault<MixHasher>>,
    pub copies: RowBatch,
    /// Slots and keys whose delta_score was reset early, and what it was.
    pub resets: Vec<(u32, u64, f32)>,
    pub pending: Arc<Pending>,
    pub pending_scanned: bool,
}

impl Frozen {
    /// Of a shard with so many slots in use.
    pub fn new(mode: SaveMode, rows: usize, pending: &Arc<Pending>) -> Self {
        Self {
            mode,
            rows,
            scanned: 0,
            written: HashMap::default(),
            copies: RowBatch::default(),
            resets: Vec::new(),
            pending: Arc::clone(pending),
            pending_scanned: false,
        }
    }
}
