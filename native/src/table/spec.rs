//! What a table is: values that arrive as JSON, are checked once, and are written into every checkpoint.
//!
//! Two specs that are equal describe tables whose rows can be exchanged; a checkpoint or a second client with another
//! spec is refused by comparing them.

use serde::{Deserialize, Serialize};

use crate::keys::Init;

pub const MOST_COLUMNS: usize = 1 << 16;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TableSpec {
    Sparse(SparseSpec),
    Dense(DenseSpec),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparseSpec {
    /// Columns of a row; of the wide part if there is an accessor.
    pub dim: usize,
    pub seed: u64,
    pub init: Init,
    pub optimizer: Optimizer,
    #[serde(default)]
    pub clip: Clip,
    #[serde(default)]
    pub entry: Entry,
    #[serde(default)]
    pub accessor: Option<Ctr>,
}

/// A named group of float32 arrays, laid end to end in the order given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseSpec {
    pub arrays: Vec<DenseArray>,
    pub optimizer: Optimizer,
    #[serde(default)]
    pub clip: Clip,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseArray {
    pub name: String,
    pub shape: Vec<usize>,
}

/// How a gradient changes a row. Every rule is elementwise IEEE float32 in a fixed order, without fused operations, so
/// that all vector widths and the numpy oracle give the same bits. `learning_rate` is the first one: it can be changed
/// while the table is in use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum Optimizer {
    /// w -= lr * g
    Sgd { learning_rate: f32 },
    /// v = momentum * v + g; w -= lr * v, or with nesterov w -= lr * (g + momentum * v)
    Momentum {
        learning_rate: f32,
        momentum: f32,
        #[serde(default)]
        nesterov: bool,
    },
    /// The textbook's: G += g * g; w -= lr * g / (sqrt(G) + epsilon)
    Adagrad {
        learning_rate: f32,
        #[serde(default)]
        initial: f32,
        epsilon: f32,
    },
    /// Paddle's std-adagrad: w -= lr * g * sqrt(g0 / (g0 + G)) with G from before this update; then G += g * g
    AdagradScaled { learning_rate: f32, initial_g2sum: f32 },
    /// Paddle's adagrad: the same with one G per row, to which the mean of g * g over the row is added
    AdagradShared { learning_rate: f32, initial_g2sum: f32 },
    /// Adam with one step count for the table: a push is a step
    Adam { learning_rate: f32, beta1: f32, beta2: f32, epsilon: f32 },
    /// Paddle's server-side Adam: each row counts the pushes that touched it
    AdamRow { learning_rate: f32, beta1: f32, beta2: f32, epsilon: f32 },
    Ftrl {
        learning_rate: f32,
        #[serde(default = "one")]
        beta: f32,
        l1: f32,
        l2: f32,
    },
    /// w += g: what geo sends is a difference, not a gradient
    Sum {},
}

fn one() -> f32 {
    1.0
}

/// What is done to a gradient before, and to a row after an update. `None` is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Each element of the gradient is kept within plus and minus this.
    #[serde(default)]
    pub value: Option<f32>,
    /// A row's gradient (in dense tables: a shard's slice) is scaled down to this length.
    #[serde(default)]
    pub norm: Option<f32>,
    /// Each weight is kept within plus and minus this (Paddle's weight_bounds).
    #[serde(default)]
    pub weight: Option<f32>,
}

/// When a key gets a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// At once.
    #[default]
    Always,
    /// With the n-th push that carries it. Until then it reads as zeros and its gradients are dropped.
    Count { count: u32 },
    /// One key in 1/p, chosen by the key itself. The others read as zeros for ever.
    Probability { probability: f32 },
    /// With an accessor: a push whose score is in (0, 1) creates the row with that probability, a score of 1 or more
    /// always, and none at 0 or less. The draw is a function of key and push, so that a replay draws the same.
    Score {},
}

/// Paddle's click-through accessor. A row is slot, unseen_days, delta_score, show, click, embed_w and its state, and
/// later embedx_w and its state. `SparseSpec::dim` counts embedx, `SparseSpec::optimizer` is embedx's rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ctr {
    pub embed_optimizer: Optimizer,
    pub embed_init: Init,
    pub nonclk_coeff: f32,
    pub click_coeff: f32,
    pub embedx_threshold: f32,
    pub base_threshold: f32,
    pub delta_threshold: f32,
    pub delta_keep_days: f32,
    pub show_click_decay_rate: f32,
    pub delete_threshold: f32,
    pub delete_after_unseen_days: f32,
    /// Gradients are divided by the pushed show (the Adagrad rules only, as in Paddle).
    pub show_scale: bool,
    /// embed_w starts at zero instead of at `embed_init`.
    pub zero_init: bool,
}

/// Which rows a save takes, and what it does to them (Paddle's numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveMode {
    /// 0: every row, untouched.
    All,
    /// 1: score >= base_threshold, delta_score >= delta_threshold, unseen_days <= delta_keep_days; resets delta_score.
    Delta,
    /// 2: as delta with a delta_threshold of 0; resets delta_score.
    Base,
    /// 3: every row; unseen_days grows by one after it.
    Full,
}
