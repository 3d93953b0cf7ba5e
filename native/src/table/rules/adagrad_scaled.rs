//! Paddle's std-adagrad.

use serde::{Deserialize, Serialize};

use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// w -= lr * g * sqrt(g0 / (g0 + G)) with G from before this update; then G += g * g
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdagradScaled {
    pub learning_rate: f32,
    pub initial_g2sum: f32,
}

impl UpdateRule for AdagradScaled {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.above_zero(of, "initial_g2sum", self.initial_g2sum);
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

    fn scales_by_show(&self) -> bool {
        true
    }

    fn motion(&self) -> Motion {
        Motion::Still
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], sums: &mut [f32], gradient: &[f32]) {
        let Self { learning_rate: lr, initial_g2sum: g0 } = *self;
        for ((w, s), &g) in weights.iter_mut().zip(sums).zip(gradient) {
            *w -= lr * g * (g0 / (g0 + *s)).sqrt();
            *s += g * g;
        }
    }
}
