//! What a client knows of a table: widths, and which part of it is whose. Values and pure functions.

use std::ops::Range;

use super::error::ClientError;
use crate::keys::Sharding;
use crate::table::spec::TableSpec;
use crate::wire::frame::{Op, flag};

pub struct Table {
    pub name: String,
    /// As the caller gave it; sent again to a server that restarts.
    pub request: Vec<u8>,
    pub shape: Shape,
    /// What a training sends to and fro is bfloat16 on the way, see `flags`.
    pub is_narrow: bool,
}

pub enum Shape {
    /// `counts`: pushes of the whole table are counted, or move all of its rows, so every server hears of each.
    Sparse {
        pull_width: usize,
        push_width: usize,
        has_slot: bool,
        counts: bool,
    },
    Dense {
        elements: usize,
        parts: Vec<Range<usize>>,
    },
}

impl Table {
    pub fn new(
        name: &str,
        spec: &str,
        is_narrow: bool,
        sharding: Sharding,
        servers: usize,
    ) -> Result<Table, ClientError> {
        let bad = |error: String| ClientError::refused("bad-spec", format!("table {name:?}: {error}"));
        let value: serde_json::Value = serde_json::from_str(spec).map_err(|error| bad(error.to_string()))?;
        let request = serde_json::json!({"name": name, "spec": value}).to_string().into_bytes();
        let shape = match serde_json::from_value(value).map_err(|error| bad(error.to_string()))? {
            TableSpec::Sparse(spec) => {
                let has_slot = spec.accessor.is_some();
                let (more_pulled, more_pushed) = if has_slot { (3, 4) } else { (0, 0) };
                let counts = spec.every_row || spec.optimizer.counts_pushes();
                let (pull_width, push_width) = (spec.dim + more_pulled, spec.dim + more_pushed);
                Shape::Sparse { pull_width, push_width, has_slot, counts }
            }
            TableSpec::Dense(spec) => {
                let mut elements =
                    spec.arrays.iter().map(|array| array.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)));
                let elements = elements.try_fold(0usize, |sum, n| sum.checked_add(n?));
                let elements = elements.filter(|n| *n <= u32::MAX as usize);
                let elements = elements.ok_or_else(|| bad("its arrays are too large".into()))?;
                Shape::Dense { elements, parts: dense_parts(elements, sharding, servers) }
            }
        };
        Ok(Table { name: name.into(), request, shape, is_narrow })
    }

    /// How a request of this table begins: gradients are sent as bfloat16 if that was asked for. What is set, added or read
    /// without being trained goes as it is.
    pub fn flags(&self, op: Op) -> u16 {
        let can_be = matches!(op, Op::Push | Op::PushDense);
        if self.is_narrow && can_be { flag::NARROW } else { 0 }
    }

    pub fn pull_width(&self) -> usize {
        match &self.shape {
            Shape::Sparse { pull_width, .. } => *pull_width,
            Shape::Dense { elements, .. } => *elements,
        }
    }

    pub fn push_width(&self) -> usize {
        match &self.shape {
            Shape::Sparse { push_width, .. } => *push_width,
            Shape::Dense { elements, .. } => *elements,
        }
    }

    pub fn sparse(&self) -> Result<(usize, usize, bool), ClientError> {
        match &self.shape {
            Shape::Sparse { pull_width, push_width, has_slot, .. } => Ok((*pull_width, *push_width, *has_slot)),
            Shape::Dense { .. } => {
                Err(ClientError::refused("wrong-table", format!("{:?} is a dense table", self.name)))
            }
        }
    }

    pub fn counts_pushes(&self) -> bool {
        matches!(self.shape, Shape::Sparse { counts: true, .. })
    }

    pub fn dense(&self) -> Result<(usize, &[Range<usize>]), ClientError> {
        match &self.shape {
            Shape::Dense { elements, parts } => Ok((*elements, parts)),
            Shape::Sparse { .. } => {
                Err(ClientError::refused("wrong-table", format!("{:?} has rows by key", self.name)))
            }
        }
    }
}

/// Which elements each server has: one chunk per virtual shard, as `DenseTable` cuts them.
fn dense_parts(elements: usize, sharding: Sharding, servers: usize) -> Vec<Range<usize>> {
    let chunk = elements.div_ceil(sharding.count()).next_multiple_of(16);
    let part = |server| {
        let shards = sharding.shards_of(server, servers);
        (shards.start * chunk).min(elements)..(shards.end * chunk).min(elements)
    };
    (0..servers).map(part).collect()
}
