//! Momentum, plain or Nesterov's.

use serde::{Deserialize, Serialize};

use super::arithmetic::{faded, is_zero};
use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// v = momentum * v + g; w -= lr * v, or with nesterov w -= lr * (g + momentum * v)
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Momentum {
    pub learning_rate: f32,
    pub momentum: f32,
    #[serde(default)]
    pub nesterov: bool,
}

impl UpdateRule for Momentum {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.below_one(of, "momentum", self.momentum);
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

    fn motion(&self) -> Motion {
        Motion::Fading
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], velocity: &mut [f32], gradient: &[f32]) {
        let Self { learning_rate: lr, momentum, nesterov } = *self;
        if nesterov {
            for ((w, v), &g) in weights.iter_mut().zip(velocity).zip(gradient) {
                *v = faded(momentum * *v + g);
                *w -= lr * (g + momentum * *v);
            }
        } else {
            for ((w, v), &g) in weights.iter_mut().zip(velocity).zip(gradient) {
                *v = faded(momentum * *v + g);
                *w -= lr * *v;
            }
        }
    }

    #[inline(always)]
    fn is_over(&self, weights: &[f32], velocity: &[f32], _highest: f32) -> bool {
        is_zero(&velocity[..weights.len()])
    }

    #[inline(always)]
    fn fades(&self) -> [f32; 3] {
        [self.momentum, 1.0, 1.0]
    }
}
