//! Adam as Paddle's servers have it.

use serde::{Deserialize, Serialize};

use super::adam;
use super::arithmetic::faded;
use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// Each row counts the pushes that touched it: running products of the betas stand behind its means
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamRow {
    pub learning_rate: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
}

impl UpdateRule for AdamRow {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.below_one(of, "beta1", self.beta1);
        problems.below_one(of, "beta2", self.beta2);
        problems.above_zero(of, "epsilon", self.epsilon);
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn begin(&mut self, rate: f32, _powers: &mut [f64; 2]) {
        self.learning_rate = rate;
    }

    fn state_width(&self, dim: usize) -> usize {
        2 * dim + 2
    }

    fn has_row_state(&self) -> bool {
        true
    }

    fn fill_state(&self, state: &mut [f32]) {
        if let [.., power1, power2] = state {
            (*power1, *power2) = (self.beta1, self.beta2);
        }
    }

    fn state_starts_nonzero(&self) -> bool {
        true
    }

    fn motion(&self) -> Motion {
        Motion::Rows
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        let Self { learning_rate: lr, beta1, beta2, epsilon } = *self;
        let (means, powers) = state.split_at_mut(2 * weights.len());
        let rate = lr * (1.0 - powers[1]).sqrt() / (1.0 - powers[0]);
        adam::update(weights, means, gradient, rate, beta1, beta2, epsilon);
        powers[0] = faded(beta1 * powers[0]);
        powers[1] = faded(beta2 * powers[1]);
    }
}
