//! RMSProp as Paddle has it.

use serde::{Deserialize, Serialize};

use super::arithmetic::{faded, is_zero};
use super::update_rule::{Motion, UpdateRule};
use crate::table::problems::Problems;

/// s = rho * s + (1 - rho) * g * g; v = momentum * v + lr * g / sqrt(s + epsilon); w -= v. Centered: also
/// m = rho * m + (1 - rho) * g, and the root of s - m * m + epsilon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RmsProp {
    pub learning_rate: f32,
    pub rho: f32,
    pub epsilon: f32,
    #[serde(default)]
    pub momentum: f32,
    #[serde(default)]
    pub centered: bool,
}

impl UpdateRule for RmsProp {
    fn check(&self, of: &str, problems: &mut Problems) {
        problems.below_one(of, "rho", self.rho);
        problems.above_zero(of, "epsilon", self.epsilon);
        problems.below_one(of, "momentum", self.momentum);
    }

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn begin(&mut self, rate: f32, _powers: &mut [f64; 2]) {
        self.learning_rate = rate;
    }

    /// Squares, then velocities and means where they are needed.
    fn state_width(&self, dim: usize) -> usize {
        dim * (1 + usize::from(self.momentum != 0.0) + usize::from(self.centered))
    }

    fn motion(&self) -> Motion {
        Motion::Fading
    }

    #[inline(always)]
    fn update(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        // What is decided here is not asked for each column.
        match (self.momentum != 0.0, self.centered) {
            (false, false) => self.columns::<false, false>(weights, state, gradient),
            (false, true) => self.columns::<false, true>(weights, state, gradient),
            (true, false) => self.columns::<true, false>(weights, state, gradient),
            (true, true) => self.columns::<true, true>(weights, state, gradient),
        }
    }

    #[inline(always)]
    fn is_over(&self, weights: &[f32], state: &[f32], _highest: f32) -> bool {
        let dim = weights.len();
        self.momentum == 0.0 || is_zero(&state[dim..2 * dim])
    }

    /// Velocities, if there are any, are zeros then.
    #[inline(always)]
    fn fades(&self) -> [f32; 3] {
        [self.rho; 3]
    }
}

impl RmsProp {
    #[inline(always)]
    fn columns<const MOVES: bool, const CENTERED: bool>(
        &self,
        weights: &mut [f32],
        state: &mut [f32],
        gradient: &[f32],
    ) {
        let Self { learning_rate: lr, rho, epsilon, momentum, .. } = *self;
        let dim = weights.len();
        let gradient = &gradient[..dim];
        let (squares, rest) = state.split_at_mut(dim);
        let (velocities, means) = rest.split_at_mut(if MOVES { dim } else { 0 });
        for at in 0..dim {
            let g = gradient[at];
            squares[at] = faded(rho * squares[at] + (1.0 - rho) * (g * g));
            let mut spread = squares[at];
            if CENTERED {
                means[at] = faded(rho * means[at] + (1.0 - rho) * g);
                // Rounding alone can make it negative.
                let left = spread - means[at] * means[at];
                spread = if left > 0.0 { left } else { 0.0 };
            }
            let mut change = lr * g / (spread + epsilon).sqrt();
            if MOVES {
                change = faded(momentum * velocities[at] + change);
                velocities[at] = change;
            }
            weights[at] -= change;
        }
    }
}
