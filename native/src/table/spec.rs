//! What a table is: values that arrive as JSON, are checked once, and are written into every checkpoint.
//!
//! Two specs that are equal describe tables whose rows can be exchanged; a checkpoint or a second client with another
//! spec is refused by comparing them.

use serde::{Deserialize, Serialize};

use crate::keys::Init;
use crate::table::problems::Problems;
use crate::table::rules::{Motion, Optimizer};

pub const MOST_COLUMNS: usize = 1 << 16;
pub const MOST_ELEMENTS: usize = 1 << 34;
pub const MOST_COUNT: u32 = (1 << 30) - 1;
/// Days are counted in a float32.
pub const MOST_DAYS: u32 = 100_000;

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
    #[serde(default, skip_serializing_if = "Decay::is_none")]
    pub decay: Decay,
    #[serde(default)]
    pub entry: Entry,
    #[serde(default)]
    pub accessor: Option<Ctr>,
    /// Every push moves all rows: those without a gradient as by a gradient of zeros, which is what frameworks do. Otherwise
    /// a push moves the rows that it brings.
    #[serde(default, skip_serializing_if = "is_false")]
    pub every_row: bool,
    /// Rows that no push has brought for some days go. Each has a column more, behind its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire: Option<Expire>,
}

impl SparseSpec {
    /// Every problem of this spec, in one text.
    pub fn check(&self) -> Result<(), String> {
        let mut problems = Problems::default();
        problems.unless(
            (1..=MOST_COLUMNS).contains(&self.dim),
            format_args!("dim must be from 1 to {MOST_COLUMNS}, not {}", self.dim),
        );
        problems.init("init", &self.init);
        self.optimizer.check("optimizer", &mut problems);
        problems.clip(&self.clip);
        problems.decay(&self.decay, &self.optimizer);
        problems.unless(
            self.decay.is_none() || self.accessor.is_none(),
            format_args!("decay: rows of a table with an accessor do not decay"),
        );
        match self.entry {
            Entry::Always => {}
            Entry::Count { count } => problems.unless(
                (1..=MOST_COUNT).contains(&count),
                format_args!("entry: count must be from 1 to {MOST_COUNT}, not {count}"),
            ),
            Entry::Probability { probability } => problems.unless(
                probability > 0.0 && probability <= 1.0,
                format_args!("entry: probability must be above 0 and at most 1, not {probability}"),
            ),
            Entry::Score {} => problems
                .unless(self.accessor.is_some(), format_args!("entry: by score needs an accessor, which knows scores")),
        }
        if let Some(accessor) = &self.accessor {
            problems.accessor(accessor);
        }
        if self.every_row {
            problems.unless(
                self.optimizer.motion() != Motion::Rows,
                format_args!("every_row: the rules adam_row, ftrl and sum move the rows of a push only"),
            );
            problems.unless(self.accessor.is_none(), format_args!("every_row: not for a table with an accessor"));
        }
        if let Some(Expire { days }) = self.expire {
            problems.unless(
                (1..=MOST_DAYS).contains(&days),
                format_args!("expire: days must be from 1 to {MOST_DAYS}, not {days}"),
            );
            problems.unless(!self.every_row, format_args!("expire: not where every push moves all rows"));
            problems.unless(
                self.accessor.is_none(),
                format_args!("expire: rows of a table with an accessor go after delete_after_unseen_days"),
            );
        }
        problems.verdict()
    }

    /// Columns of a saved row: weights and state, and the days that it was not seen if it can expire; with an accessor, the statistics too.
    pub fn saved_width(&self) -> usize {
        let wide = self.dim + self.optimizer.state_width(self.dim) + usize::from(self.expire.is_some());
        match &self.accessor {
            None => wide,
            Some(accessor) => accessor.head_width() + wide,
        }
    }
}

impl Ctr {
    /// Columns of a row's first part: slot, unseen_days, delta_score, show, click, embed_w, and embed_w's state.
    pub fn head_width(&self) -> usize {
        6 + self.embed_optimizer.state_width(1)
    }
}

/// A named group of float32 arrays, laid end to end in the order given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseSpec {
    pub arrays: Vec<DenseArray>,
    pub optimizer: Optimizer,
    #[serde(default)]
    pub clip: Clip,
    #[serde(default, skip_serializing_if = "Decay::is_none")]
    pub decay: Decay,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseArray {
    pub name: String,
    pub shape: Vec<usize>,
}

impl DenseSpec {
    /// Elements of all arrays together.
    pub fn elements(&self) -> usize {
        self.arrays.iter().map(|array| array.shape.iter().product::<usize>()).sum()
    }

    /// Every problem of this spec, in one text.
    pub fn check(&self) -> Result<(), String> {
        let mut problems = Problems::default();
        let mut elements = Some(0usize);
        for array in &self.arrays {
            let size = array.shape.iter().try_fold(1usize, |size, &n| size.checked_mul(n));
            elements = elements.zip(size).and_then(|(sum, size)| sum.checked_add(size));
            let same_name = self.arrays.iter().filter(|other| other.name == array.name).count();
            problems.unless(same_name == 1, format_args!("two arrays have the name {:?}", array.name));
        }
        problems.unless(
            elements.is_some_and(|sum| (1..=MOST_ELEMENTS).contains(&sum)),
            format_args!("the arrays must have from 1 to {MOST_ELEMENTS} elements together"),
        );
        self.optimizer.check("optimizer", &mut problems);
        problems.clip(&self.clip);
        problems.decay(&self.decay, &self.optimizer);
        problems.verdict()
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
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

/// How weights shrink with every update that touches them. 0 is not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decay {
    /// This times the sign of a weight is added to its gradient, after clipping.
    #[serde(default)]
    pub l1: f32,
    /// This times the weight is added to its gradient, after clipping.
    #[serde(default)]
    pub l2: f32,
    /// This times the learning rate times the weight is taken from the weight before the update (AdamW).
    #[serde(default)]
    pub decoupled: f32,
}

impl Decay {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
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

/// When a row goes that nobody needs any more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expire {
    /// After more days than these without a push that brings it.
    pub days: u32,
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

impl Problems {
    fn init(&mut self, of: &str, init: &Init) {
        match *init {
            Init::Constant { value } => self.finite(of, "value", value),
            Init::Uniform { low, high } => {
                self.finite(of, "low", low);
                self.finite(of, "high", high);
                self.unless(
                    low.partial_cmp(&high).is_some_and(|order| order.is_le()) && (high - low).is_finite(),
                    format_args!("{of}: low ({low}) must not be above high ({high}), nor too far from it"),
                );
            }
            Init::Normal { mean, deviation } => {
                self.finite(of, "mean", mean);
                self.at_least_zero(of, "deviation", deviation);
            }
        }
    }

    fn clip(&mut self, clip: &Clip) {
        for (name, most) in [("value", clip.value), ("norm", clip.norm), ("weight", clip.weight)] {
            if let Some(most) = most {
                self.above_zero("clip", name, most);
            }
        }
    }

    fn decay(&mut self, decay: &Decay, optimizer: &Optimizer) {
        for (name, number) in [("l1", decay.l1), ("l2", decay.l2), ("decoupled", decay.decoupled)] {
            self.at_least_zero("decay", name, number);
        }
        self.unless(optimizer.can_decay() || decay.is_none(), format_args!("decay: the rules ftrl and sum have none"));
    }

    fn accessor(&mut self, accessor: &Ctr) {
        accessor.embed_optimizer.check("embed_optimizer", self);
        self.init("embed_init", &accessor.embed_init);
        for (name, number) in [
            ("nonclk_coeff", accessor.nonclk_coeff),
            ("click_coeff", accessor.click_coeff),
            ("embedx_threshold", accessor.embedx_threshold),
            ("base_threshold", accessor.base_threshold),
            ("delta_threshold", accessor.delta_threshold),
            ("delta_keep_days", accessor.delta_keep_days),
            ("show_click_decay_rate", accessor.show_click_decay_rate),
            ("delete_threshold", accessor.delete_threshold),
            ("delete_after_unseen_days", accessor.delete_after_unseen_days),
        ] {
            self.finite("accessor", name, number);
        }
    }
}
