//! Rules: what an optimizer keeps beside a row, and which numbers hold for one push. Nothing here touches a row's
//! weights; that is done by `kernels`.

use serde_json::{Value, json};

use crate::table::spec::Optimizer;

impl Optimizer {
    /// Numbers kept beside a row of `dim` weights.
    pub fn state_width(&self, dim: usize) -> usize {
        match self {
            Optimizer::Sgd { .. } | Optimizer::Sum {} => 0,
            Optimizer::Momentum { .. } | Optimizer::Adagrad { .. } | Optimizer::AdagradScaled { .. } => dim,
            Optimizer::AdagradShared { .. } => 1,
            Optimizer::Adam { .. } | Optimizer::Ftrl { .. } => 2 * dim,
            Optimizer::AdamRow { .. } => 2 * dim + 2,
            // Squares, then velocities and means where they are needed.
            Optimizer::RmsProp { momentum, centered, .. } => {
                dim * (1 + usize::from(*momentum != 0.0) + usize::from(*centered))
            }
        }
    }

    /// Whether some of what is kept belongs to a row as a whole, and not to one of its weights.
    pub fn has_row_state(&self) -> bool {
        matches!(self, Optimizer::AdagradShared { .. } | Optimizer::AdamRow { .. })
    }

    /// What stands beside a new row.
    pub fn fill_state(&self, state: &mut [f32]) {
        state.fill(0.0);
        match *self {
            Optimizer::Adagrad { initial, .. } => state.fill(initial),
            Optimizer::AdamRow { beta1, beta2, .. } => {
                if let [.., power1, power2] = state {
                    (*power1, *power2) = (beta1, beta2);
                }
            }
            _ => {}
        }
    }

    /// Whether a new row's state is something else than zeros.
    pub fn state_starts_nonzero(&self) -> bool {
        match *self {
            Optimizer::Adagrad { initial, .. } => initial != 0.0,
            Optimizer::AdamRow { .. } => true,
            _ => false,
        }
    }

    pub fn learning_rate(&self) -> f32 {
        match *self {
            Optimizer::Sgd { learning_rate }
            | Optimizer::Momentum { learning_rate, .. }
            | Optimizer::Adagrad { learning_rate, .. }
            | Optimizer::AdagradScaled { learning_rate, .. }
            | Optimizer::AdagradShared { learning_rate, .. }
            | Optimizer::Adam { learning_rate, .. }
            | Optimizer::AdamRow { learning_rate, .. }
            | Optimizer::RmsProp { learning_rate, .. }
            | Optimizer::Ftrl { learning_rate, .. } => learning_rate,
            Optimizer::Sum {} => 1.0,
        }
    }

    /// Whether gradients are divided by the pushed show, if an accessor asks for it.
    pub fn scales_by_show(&self) -> bool {
        matches!(self, Optimizer::Adagrad { .. } | Optimizer::AdagradScaled { .. } | Optimizer::AdagradShared { .. })
    }
}

/// A rule in use: what belongs to the table and changes with its pushes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    optimizer: Optimizer,
    learning_rate: f32,
    /// Running products of Adam's betas: 1 before the first push.
    powers: [f64; 2],
}

/// The numbers of one push.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Sgd { lr: f32 },
    Momentum { lr: f32, momentum: f32, nesterov: bool },
    Adagrad { lr: f32, epsilon: f32 },
    AdagradScaled { lr: f32, g0: f32 },
    AdagradShared { lr: f32, g0: f32 },
    Adam { lr: f32, beta1: f32, beta2: f32, epsilon: f32 },
    AdamRow { lr: f32, beta1: f32, beta2: f32, epsilon: f32 },
    RmsProp { lr: f32, rho: f32, epsilon: f32, momentum: f32, centered: bool },
    Ftrl { lr: f32, beta: f32, l1: f32, l2: f32 },
    Sum,
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
        let enough = rate > 0.0 || (rate == 0.0 && !matches!(self.optimizer, Optimizer::Ftrl { .. }));
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
            (Step::Adam { lr, beta1, beta2, .. }, Optimizer::Adam { epsilon, ahead: true, .. }) => {
                Step::Adam { lr, beta1, beta2, epsilon }
            }
            _ => step,
        }
    }

    /// The same for a part of the table that counts for itself.
    pub fn step_at(&self, powers: &mut [f64; 2]) -> Step {
        let lr = self.learning_rate;
        match self.optimizer {
            Optimizer::Sgd { .. } => Step::Sgd { lr },
            Optimizer::Momentum { momentum, nesterov, .. } => Step::Momentum { lr, momentum, nesterov },
            Optimizer::Adagrad { epsilon, .. } => Step::Adagrad { lr, epsilon },
            Optimizer::AdagradScaled { initial_g2sum: g0, .. } => Step::AdagradScaled { lr, g0 },
            Optimizer::AdagradShared { initial_g2sum: g0, .. } => Step::AdagradShared { lr, g0 },
            Optimizer::Adam { beta1, beta2, epsilon, ahead, .. } => {
                let (first, second) = (f64::from(beta1), f64::from(beta2));
                powers[0] *= first;
                powers[1] *= second;
                let more = if ahead { [first, second] } else { [1.0, 1.0] };
                // The corrections of both means, folded into the rate and into epsilon.
                let root = (1.0 - powers[1] * more[1]).sqrt();
                let rate = f64::from(lr) * root / (1.0 - powers[0] * more[0]);
                Step::Adam { lr: rate as f32, beta1, beta2, epsilon: (f64::from(epsilon) * root) as f32 }
            }
            Optimizer::AdamRow { beta1, beta2, epsilon, .. } => Step::AdamRow { lr, beta1, beta2, epsilon },
            Optimizer::RmsProp { rho, epsilon, momentum, centered, .. } => {
                Step::RmsProp { lr, rho, epsilon, momentum, centered }
            }
            Optimizer::Ftrl { beta, l1, l2, .. } => Step::Ftrl { lr, beta, l1, l2 },
            Optimizer::Sum {} => Step::Sum,
        }
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
