//! What an optimizer must say of itself; what most of them have in common need not be said.

use crate::table::problems::Problems;

/// How a row without a gradient moves in a push.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Motion {
    /// It does not.
    Still,
    /// Weights follow a mean that fades, and nothing else pulls at them.
    Fading,
    /// Column by column, as the rule and the decay say.
    Columns,
    /// As a row: some of the state is the row's.
    Rows,
}

pub trait UpdateRule {
    /// What is wrong with its numbers, but for the learning rate.
    fn check(&self, of: &str, problems: &mut Problems);

    fn learning_rate(&self) -> f32;

    /// Begins a push: sets the numbers that hold for it. `powers` are running products of Adam's betas, 1 before the first push.
    fn begin(&mut self, rate: f32, powers: &mut [f64; 2]);

    /// A row and its state change by a gradient.
    fn update(&self, weights: &mut [f32], state: &mut [f32], gradient: &[f32]);

    /// Numbers kept beside a row of `dim` weights.
    fn state_width(&self, dim: usize) -> usize;

    /// What of a new row's state is not zero.
    fn fill_state(&self, _state: &mut [f32]) {}

    /// Whether `fill_state` does anything.
    fn state_starts_nonzero(&self) -> bool {
        false
    }

    /// Whether some of what is kept belongs to a row as a whole, and not to one of its weights.
    fn has_row_state(&self) -> bool {
        false
    }

    /// Whether a rate of 0 can't be used.
    fn divides_by_rate(&self) -> bool {
        false
    }

    /// Whether the table's count of pushes is part of an update.
    fn counts_pushes(&self) -> bool {
        false
    }

    /// Whether gradients are divided by the pushed show, if an accessor asks for it.
    fn scales_by_show(&self) -> bool {
        false
    }

    fn can_decay(&self) -> bool {
        true
    }

    // ---- pushes that have no gradient for a row

    /// How such a row moves if it does not decay. `Rows`: a table of this rule moves the rows of a push only.
    fn motion(&self) -> Motion;

    /// `Fading`: whether no push to come moves a weight. `highest` is above the rates of all pushes.
    fn is_over(&self, _weights: &[f32], _state: &[f32], _highest: f32) -> bool {
        true
    }

    /// `Fading`: what each kind of state is multiplied by in such a push, once it is over.
    fn fades(&self) -> [f32; 3] {
        [1.0; 3]
    }
}
