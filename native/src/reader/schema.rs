//! Values: which slots a reader is asked for, and what it does about those that are missing or not asked for.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// The most values that one dense slot may have in a sample.
pub const MOST_DIM: usize = 1 << 20;

/// A slot with a fixed number of float32 values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenseSlot {
    pub name: String,
    pub dim: usize,
}

/// What is done with a slot that was not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// Passed over in silence.
    Skip,
    /// Passed over; names and numbers are in the statistics.
    Count,
    /// Its line is a bad line.
    Refuse,
}

/// An id to fill up with: any integer from -2^63 to 2^64 - 1, kept as its 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    Unsigned(u64),
    Signed(i64),
}

impl Id {
    pub fn bits(self) -> u64 {
        match self {
            Self::Unsigned(value) => value,
            Self::Signed(value) => value as u64,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    pub sparse: Vec<String>,
    pub dense: Vec<DenseSlot>,
    /// What a sparse slot holds that a line does not have; nothing at all if this is `None`.
    pub padding: Option<Id>,
    /// What a dense slot is filled with that a line does not have; without it such a line is a bad one.
    pub dense_padding: Option<f32>,
    pub unknown: Unknown,
}

/// Where the values of a slot go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Sparse(u32),
    Dense(u32),
}

impl Schema {
    /// Every problem in one text.
    pub fn check(&self) -> Result<HashMap<Vec<u8>, Slot>, String> {
        let mut slots = HashMap::new();
        let mut problems = Vec::new();
        let sparse = self.sparse.iter().enumerate().map(|(at, name)| (name, Slot::Sparse(at as u32)));
        let dense = self.dense.iter().enumerate().map(|(at, slot)| (&slot.name, Slot::Dense(at as u32)));
        for (name, slot) in sparse.chain(dense) {
            if name.is_empty() || name.bytes().any(|byte| byte == b':' || byte <= b' ' || byte == 0x7f) {
                problems
                    .push(format!("not a slot's name: {name:?} (it must have no space, no colon, and be something)"));
            } else if slots.insert(name.clone().into_bytes(), slot).is_some() {
                problems.push(format!("slot named twice: {name:?}"));
            }
        }
        for slot in &self.dense {
            if slot.dim == 0 || slot.dim > MOST_DIM {
                problems
                    .push(format!("dense slot {:?} has {} values: 1 to {MOST_DIM} are possible", slot.name, slot.dim));
            }
        }
        if slots.is_empty() && problems.is_empty() {
            problems.push("no slot is asked for".to_string());
        }
        if self.dense_padding.is_some_and(|value| !value.is_finite()) {
            problems.push("the padding of dense slots is not a finite number".to_string());
        }
        if problems.is_empty() { Ok(slots) } else { Err(problems.join("; ")) }
    }
}
