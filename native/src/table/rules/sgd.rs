//! Plain gradient descent.

use serde::{Deserialize, Serialize};

use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// w -= lr * g
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sgd {
    pub learning_rate: f32,
}

impl UpdateRule for Sgd {
    fn check(&self, _of: &str, _problems: &mut Problems) {}

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn begin(&mut self, rate: f32, _powers: &mut [f64; 2]) {
        self.learning_rate = rate;
    }

    fn state_width(&self, _dim: usize) -> usize {
        0
    }

    fn motion(&self) -> Motion {
        Motion::Still
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], _state: &mut [f32], gradient: &[f32]) {
        for (w, &g) in weights.iter_mut().zip(gradient) {
            *w -= self.learning_rate * g;
        }
    }
}
