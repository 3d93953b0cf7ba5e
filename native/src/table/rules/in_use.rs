//! A rule in use: the numbers that a table's pushes change. Nothing here touches a row.

use serde_json::{Value, json};

use super::adam::Adam;
use super::{Optimizer, Step};

/// A rule in use: what belongs to the table and changes with its pushes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    optimizer: Optimizer,
    learning_rate: f32,
    /// Running products of Adam's betas: 1 before the first push.
    powers: [f64; 2],
}

impl Rule {
    pub fn new(optimizer: Optimizer) -> Self {
        Self { optimizer, learning_rate: optimizer.learning_rate(), powers: [1.0, 1.0] }
    }

    pub fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    /// Running products of Adam's betas.
    pub fn powers(&self) -> [f64; 2] {
        self.powers
    }

    /// Goes on with other numbers of the same rule. A rate that was set meanwhile stays, unless the description's own is
    /// another one.
    pub fn adopt(&mut self, optimizer: Optimizer) {
        if optimizer.learning_rate() != self.optimizer.learning_rate() {
            self.learning_rate = optimizer.learning_rate();
        }
        self.optimizer = optimizer;
    }

    pub fn set_learning_rate(&mut self, rate: f32) -> Result<(), String> {
        let enough = rate > 0.0 || (rate == 0.0 && !self.optimizer.divides_by_rate());
        if !rate.is_finite() || !enough {
            return Err(format!("a learning rate of {rate} can't be used"));
        }
        self.learning_rate = rate;
        Ok(())
    }

    /// Begins a push: counts it, and says which numbers hold for it.
    pub fn step(&mut self) -> Step {
        let mut powers = self.powers;
        let step = self.step_at(&mut powers);
        self.powers = powers;
        step
    }

    /// The same push for rows without a gradient. Paddle's Adam for gradients of some rows does not correct their epsilon.
    pub fn idle(&self, step: Step) -> Step {
        match (step, self.optimizer) {
            (Step::Adam(of_push), Optimizer::Adam(Adam { epsilon, ahead: true, .. })) => {
                Step::Adam(Adam { epsilon, ..of_push })
            }
            _ => step,
        }
    }

    /// The same for a part of the table that counts for itself.
    pub fn step_at(&self, powers: &mut [f64; 2]) -> Step {
        self.optimizer.begin(self.learning_rate, powers)
    }

    /// Everything that a checkpoint must hold of this, exactly.
    pub fn state(&self) -> Value {
        json!({"learning_rate": self.learning_rate, "powers": self.powers.map(f64::to_bits)})
    }

    pub fn restore(&mut self, state: &Value) -> Result<(), String> {
        let rate = state.get("learning_rate").and_then(Value::as_f64);
        let power =
            |n: usize| state.get("powers")?.get(n)?.as_u64().map(f64::from_bits).filter(|p| (0.0..=1.0).contains(p));
        match (rate, power(0), power(1)) {
            (Some(rate), Some(first), Some(second)) => {
                self.set_learning_rate(rate as f32)?;
                self.powers = [first, second];
                Ok(())
            }
            _ => Err(format!("not the state of a table: {state}")),
        }
    }
}
