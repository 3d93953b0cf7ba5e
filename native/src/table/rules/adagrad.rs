//! The textbook's Adagrad.

use serde::{Deserialize, Serialize};

use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// G += g * g; w -= lr * g / (sqrt(G) + epsilon)
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adagrad {
    pub learning_rate: f32,
    /// G of a new row.
    #[serde(default)]
    pub initial: f32,
    pub epsilon: f32,
}

impl UpdateRule for Adagrad {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.at_least_zero(of, "initial", self.initial);
        problems.above_zero(of, "epsilon", self.epsilon);
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn begin(&mut self, rate: f32, _powers: &mut [f64; 2]) {
        self.learning_rate = rate;
    }

    fn state_width(&self, dim: usize) -> usize {
        dim
    }

    fn fill_state(&self, state: &mut [f32]) {
        state.fill(self.initial);
    }

    fn state_starts_nonzero(&self) -> bool {
        self.initial != 0.0
    }

    fn scales_by_show(&self) -> bool {
        true
    }

    fn motion(&self) -> Motion {
        Motion::Still
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], sums: &mut [f32], gradient: &[f32]) {
        let Self { learning_rate: lr, epsilon, .. } = *self;
        for ((w, s), &g) in weights.iter_mut().zip(sums).zip(gradient) {
            *s += g * g;
            *w -= lr * g / (s.sqrt() + epsilon);
        }
    }
}
