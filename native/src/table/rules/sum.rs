//! Differences instead of gradients.

use serde::{Deserialize, Serialize};

use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// w += g: what geo sends is a difference, not a gradient
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sum {}

impl UpdateRule for Sum {
    fn check(&self, _of: &str, _problems: &mut Problems) {}

    fn learning_rate(&self) -> f32 {
        1.0
    }

    fn begin(&mut self, _rate: f32, _powers: &mut [f64; 2]) {}

    fn state_width(&self, _dim: usize) -> usize {
        0
    }

    fn can_decay(&self) -> bool {
        false
    }

    fn motion(&self) -> Motion {
        Motion::Rows
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], _state: &mut [f32], gradient: &[f32]) {
        for (w, &g) in weights.iter_mut().zip(gradient) {
            *w += g;
        }
    }
}
