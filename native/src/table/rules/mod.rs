//! Rules: how a gradient changes a row, a file for each optimizer. A new one is a file here that fulfils `UpdateRule`, and
//! its line in `optimizers!`. What goes over rows is in `kernels` and `idle`; how a rule is used by a table, in `in_use`.
//!
//! Every rule is elementwise IEEE float32 in a fixed order, without fused operations, so that all vector widths and the
//! numpy oracle give the same bits.

use serde::{Deserialize, Serialize};

use crate::table::problems::Problems;

mod adagrad;
mod adagrad_scaled;
mod adagrad_shared;
mod adam;
mod adam_row;
mod arithmetic;
mod ftrl;
mod in_use;
mod momentum;
mod rmsprop;
mod sgd;
mod sum;
mod update_rule;

pub use adagrad::Adagrad;
pub use adagrad_scaled::AdagradScaled;
pub use adagrad_shared::AdagradShared;
pub use adam::Adam;
pub use adam_row::AdamRow;
pub use arithmetic::{faded, is_zero, squares};
pub use ftrl::Ftrl;
pub use in_use::Rule;
pub use momentum::Momentum;
pub use rmsprop::RmsProp;
pub use sgd::Sgd;
pub use sum::Sum;
pub use update_rule::{Motion, UpdateRule};

/// The numbers of one push: the rule as it is for this push alone.
pub type Step = Optimizer;

/// A rule that is one of `Optimizer`'s.
pub trait Member: UpdateRule + Copy {
    /// This rule's numbers, if it is the one in use.
    fn of(step: &Step) -> Option<Self>;
}

/// What is done with whichever rule is in use, compiled for each of them.
pub trait WithRule {
    fn run<R: Member>(self, rule: R);
}

macro_rules! optimizers {
    ($($(#[$name_in_a_spec:meta])? $rule:ident,)*) => {
        /// How a gradient changes a row. `learning_rate` is the first one: it can be changed while the table is in use.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "rule", rename_all = "snake_case")]
        pub enum Optimizer {
            $($(#[$name_in_a_spec])? $rule($rule),)*
        }

        impl Optimizer {
            fn rule(&self) -> &dyn UpdateRule {
                match self {
                    $(Optimizer::$rule(rule) => rule,)*
                }
            }

            fn rule_mut(&mut self) -> &mut dyn UpdateRule {
                match self {
                    $(Optimizer::$rule(rule) => rule,)*
                }
            }

            #[inline(always)]
            pub fn with_rule(&self, task: impl WithRule) {
                match *self {
                    $(Optimizer::$rule(rule) => task.run(rule),)*
                }
            }
        }

        $(impl Member for $rule {
            #[inline(always)]
            fn of(step: &Step) -> Option<Self> {
                if let Optimizer::$rule(rule) = *step { Some(rule) } else { None }
            }
        })*
    };
}

optimizers! {
    Sgd,
    Momentum,
    Adagrad,
    AdagradScaled,
    AdagradShared,
    Adam,
    AdamRow,
    Ftrl,
    #[serde(rename = "rmsprop")]
    RmsProp,
    Sum,
}

impl Optimizer {
    /// What is wrong with its numbers.
    pub fn check(&self, of: &str, problems: &mut Problems) {
        if self.divides_by_rate() {
            problems.above_zero(of, "learning_rate", self.learning_rate());
        } else {
            problems.at_least_zero(of, "learning_rate", self.learning_rate());
        }
        self.rule().check(of, problems);
    }

    pub fn learning_rate(&self) -> f32 {
        self.rule().learning_rate()
    }

    pub fn divides_by_rate(&self) -> bool {
        self.rule().divides_by_rate()
    }

    pub fn counts_pushes(&self) -> bool {
        self.rule().counts_pushes()
    }

    pub fn state_width(&self, dim: usize) -> usize {
        self.rule().state_width(dim)
    }

    pub fn has_row_state(&self) -> bool {
        self.rule().has_row_state()
    }

    /// What stands beside a new row.
    pub fn fill_state(&self, state: &mut [f32]) {
        state.fill(0.0);
        self.rule().fill_state(state);
    }

    pub fn state_starts_nonzero(&self) -> bool {
        self.rule().state_starts_nonzero()
    }

    pub fn scales_by_show(&self) -> bool {
        self.rule().scales_by_show()
    }

    pub fn can_decay(&self) -> bool {
        self.rule().can_decay()
    }

    pub fn motion(&self) -> Motion {
        self.rule().motion()
    }

    fn begin(mut self, rate: f32, powers: &mut [f64; 2]) -> Step {
        self.rule_mut().begin(rate, powers);
        self
    }
}
