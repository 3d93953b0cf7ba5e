//! Follow the regularized leader.

use serde::{Deserialize, Serialize};

use super::arithmetic::one;
use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// For sparse linear models: weights are a function of the two sums that are kept
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ftrl {
    pub learning_rate: f32,
    #[serde(default = "one")]
    pub beta: f32,
    pub l1: f32,
    pub l2: f32,
}

impl UpdateRule for Ftrl {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.above_zero(of, "beta", self.beta);
        problems.at_least_zero(of, "l1", self.l1);
        problems.at_least_zero(of, "l2", self.l2);
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn divides_by_rate(&self) -> bool {
        true
    }

    fn begin(&mut self, rate: f32, _powers: &mut [f64; 2]) {
        self.learning_rate = rate;
    }

    fn state_width(&self, dim: usize) -> usize {
        2 * dim
    }

    fn can_decay(&self) -> bool {
        false
    }

    fn motion(&self) -> Motion {
        Motion::Rows
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        let Self { learning_rate: lr, beta, l1, l2 } = *self;
        let (linear, sums) = state.split_at_mut(weights.len());
        for (((w, z), n), &g) in weights.iter_mut().zip(linear).zip(sums).zip(gradient) {
            let more = *n + g * g;
            let sigma = (more.sqrt() - n.sqrt()) / lr;
            *z += g - sigma * *w;
            *n = more;
            let over = if *z < 0.0 { *z + l1 } else { *z - l1 };
            let moved = -over / ((beta + more.sqrt()) / lr + l2);
            *w = if z.abs() <= l1 { 0.0 } else { moved };
        }
    }
}
