//! Adam with one count of pushes for the table.

use serde::{Deserialize, Serialize};

use super::arithmetic::{faded, is_false, is_zero};
use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// Adam with one step count for the table: a push is a step
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    pub learning_rate: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// Both means are corrected as if one push more had been: what Paddle does with gradients of some rows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ahead: bool,
}

impl UpdateRule for Adam {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.below_one(of, "beta1", self.beta1);
        problems.below_one(of, "beta2", self.beta2);
        problems.above_zero(of, "epsilon", self.epsilon);
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn counts_pushes(&self) -> bool {
        true
    }

    /// The corrections of both means are folded into the rate and into epsilon.
    fn begin(&mut self, rate: f32, powers: &mut [f64; 2]) {
        let (first, second) = (f64::from(self.beta1), f64::from(self.beta2));
        powers[0] *= first;
        powers[1] *= second;
        let more = if self.ahead { [first, second] } else { [1.0, 1.0] };
        let root = (1.0 - powers[1] * more[1]).sqrt();
        self.learning_rate = (f64::from(rate) * root / (1.0 - powers[0] * more[0])) as f32;
        self.epsilon = (f64::from(self.epsilon) * root) as f32;
    }

    fn state_width(&self, dim: usize) -> usize {
        2 * dim
    }

    fn motion(&self) -> Motion {
        Motion::Fading
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], means: &mut [f32], gradient: &[f32]) {
        let Self { learning_rate, beta1, beta2, epsilon, .. } = *self;
        update(weights, means, gradient, learning_rate, beta1, beta2, epsilon);
    }

    /// What is taken from a weight is far less than half of its last bit, and gets less. That holds if the first mean fades
    /// faster than the root of the second one.
    #[inline(always)]
    fn is_over(&self, weights: &[f32], means: &[f32], highest: f32) -> bool {
        let Self { beta1, beta2, epsilon, .. } = *self;
        let (first, second) = means.split_at(weights.len());
        if is_zero(first) {
            return true;
        }
        if beta1 * beta1 > 0.99 * beta2 {
            return false;
        }
        // Corrections of the rate grow, but to no more than 1; the highest one so far may be below those to come.
        let least_bit = 2.0f32.powi(-28);
        let mut over = true;
        for ((w, m), v) in weights.iter().zip(first).zip(second) {
            let (mean, root) = (m.abs(), v.sqrt());
            over &= mean == 0.0 || highest * mean < w.abs() * least_bit * (root + epsilon);
        }
        over
    }

    #[inline(always)]
    fn fades(&self) -> [f32; 3] {
        [self.beta1, self.beta2, 1.0]
    }
}

#[inline(always)]
pub(super) fn update(
    weights: &mut [f32],
    means: &mut [f32],
    gradient: &[f32],
    lr: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
) {
    let (first, second) = means.split_at_mut(weights.len());
    for (((w, m), v), &g) in weights.iter_mut().zip(first).zip(second).zip(gradient) {
        *m = faded(beta1 * *m + (1.0 - beta1) * g);
        *v = faded(beta2 * *v + (1.0 - beta2) * (g * g));
        *w -= lr * (*m / (v.sqrt() + epsilon));
    }
}
