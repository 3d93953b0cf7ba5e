//! Paddle's adagrad.

use serde::{Deserialize, Serialize};

use super::arithmetic::squares;
use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// As std-adagrad with one G per row, to which the mean of g * g over the row is added
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdagradShared {
    pub learning_rate: f32,
    pub initial_g2sum: f32,
}

impl UpdateRule for AdagradShared {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.above_zero(of, "initial_g2sum", self.initial_g2sum);
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn begin(&mut self, rate: f32, _powers: &mut [f64; 2]) {
        self.learning_rate = rate;
    }

    fn state_width(&self, _dim: usize) -> usize {
        1
    }

    fn has_row_state(&self) -> bool {
        true
    }

    fn scales_by_show(&self) -> bool {
        true
    }

    fn motion(&self) -> Motion {
        Motion::Still
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], sums: &mut [f32], gradient: &[f32]) {
        let Self { learning_rate: lr, initial_g2sum: g0 } = *self;
        let scale = (g0 / (g0 + sums[0])).sqrt();
        for (w, &g) in weights.iter_mut().zip(gradient) {
            *w -= lr * g * scale;
        }
        sums[0] += (squares(gradient) / gradient.len() as f64) as f32;
    }
}
