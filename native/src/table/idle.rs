//! What pushes do to a row that has no gradient in them: the same as the kernels with a gradient of zeros, bit for bit, for
//! many pushes one after the other. A few columns at a time stay in registers meanwhile.
//!
//! What can be left out without changing a bit is left out: once a mean of Adam is so small that no push to come moves a
//! weight, only the means fade; and what has faded to zero stays there.

use crate::table::history::{Between, Idle};
use crate::table::kernels::{self, Job, Shape, Variant, variant};
use crate::table::rules::Step;
use crate::table::spec::{Clip, Decay, Optimizer};

/// Columns that are worked on together.
const LANES: usize = 16;
/// Pushes between two looks at whether anything still moves.
const LOOK: u64 = 8;
/// Pushes between two looks at whether anything is left to fade.
const FADE: u64 = 32;

type Lanes = [f32; LANES];

/// How rows of a table move that have no gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Motion {
    /// They do not.
    Still,
    /// Weights follow a mean that fades, and nothing else pulls at them.
    Fading,
    /// Column by column, as the rule and the decay say.
    Columns,
    /// As rows: some of the state is a row's.
    Rows,
}

impl Motion {
    pub fn of(optimizer: &Optimizer, decay: &Decay, clip: &Clip) -> Self {
        let is_pulled = !decay.is_none() || clip.weight.is_some();
        match optimizer {
            Optimizer::Sgd { .. } | Optimizer::Adagrad { .. } if !is_pulled => Motion::Still,
            Optimizer::AdagradScaled { .. } | Optimizer::AdagradShared { .. } if !is_pulled => Motion::Still,
            Optimizer::Momentum { .. } | Optimizer::Adam { .. } | Optimizer::RmsProp { .. } if !is_pulled => {
                Motion::Fading
            }
            Optimizer::AdagradShared { .. } | Optimizer::AdamRow { .. } => Motion::Rows,
            Optimizer::Ftrl { .. } | Optimizer::Sum {} => Motion::Rows,
            _ => Motion::Columns,
        }
    }
}

/// Does to one row what these pushes did to rows without a gradient. `highest`: above the rates of all of them.
///
/// # Safety
/// The pointers must be good for `dim` and `state_width` numbers, and nobody else may use them meanwhile.
pub unsafe fn apply(
    motion: Motion,
    shape: &Shape,
    weights: *mut f32,
    state: *mut f32,
    pushes: Between<'_>,
    highest: f32,
) {
    match (motion, variant()) {
        (Motion::Still, _) => {}
        // SAFETY: the caller's promise.
        (Motion::Rows, _) => unsafe { row_by_row(shape, weights, state, pushes) },
        // SAFETY: the caller's promise.
        (_, Variant::Baseline) => unsafe { body(shape, weights, state, pushes, highest) },
        // SAFETY: the caller's promise; `variant` only gives what this machine can run.
        #[cfg(target_arch = "x86_64")]
        (_, Variant::Avx2) => unsafe { body_avx2(shape, weights, state, pushes, highest) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (_, Variant::Avx512) => unsafe { body_avx512(shape, weights, state, pushes, highest) },
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: as above.
        _ => unsafe { body(shape, weights, state, pushes, highest) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn body_avx2(shape: &Shape, weights: *mut f32, state: *mut f32, pushes: Between<'_>, highest: f32) {
    // SAFETY: the caller's promise.
    unsafe { body(shape, weights, state, pushes, highest) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512dq,avx512bw")]
unsafe fn body_avx512(shape: &Shape, weights: *mut f32, state: *mut f32, pushes: Between<'_>, highest: f32) {
    // SAFETY: the caller's promise.
    unsafe { body(shape, weights, state, pushes, highest) }
}

/// # Safety
/// As `apply`.
unsafe fn row_by_row(shape: &Shape, weights: *mut f32, state: *mut f32, pushes: Between<'_>) {
    let zeros = vec![0.0; shape.dim];
    let job = Job { weights, state, gradient: zeros.as_ptr() };
    for (Idle { step, rate }, count) in pushes {
        let shape = Shape { rate, ..*shape };
        // SAFETY: the caller's promise, and the gradient has `dim` columns.
        (0..count).for_each(|_| unsafe { kernels::apply(&step, &shape, &[job]) });
    }
}

/// Some columns of a row, with zeros behind the last one.
struct Part {
    weights: Lanes,
    /// What the rule keeps of each column.
    state: [Lanes; 3],
}

/// # Safety
/// As `apply`.
#[inline(always)]
unsafe fn body(shape: &Shape, weights: *mut f32, state: *mut f32, pushes: Between<'_>, highest: f32) {
    let Some((first, _)) = pushes.clone().next() else { return };
    // SAFETY: the caller promised these widths; the two are different places.
    let (weights, state) = unsafe {
        (std::slice::from_raw_parts_mut(weights, shape.dim), std::slice::from_raw_parts_mut(state, shape.state_width))
    };
    let kinds = shape.state_width / shape.dim;
    for start in (0..shape.dim).step_by(LANES) {
        let columns = start..(start + LANES).min(shape.dim);
        let count = columns.len();
        let mut part = Part { weights: [0.0; LANES], state: [[0.0; LANES]; 3] };
        part.weights[..count].copy_from_slice(&weights[columns.clone()]);
        for (kind, lanes) in part.state.iter_mut().take(kinds).enumerate() {
            lanes[..count].copy_from_slice(&state[kind * shape.dim..][columns.clone()]);
        }
        by_rule(&first.step, shape, &mut part, pushes.clone(), highest);
        weights[columns.clone()].copy_from_slice(&part.weights[..count]);
        for (kind, lanes) in part.state.iter().take(kinds).enumerate() {
            state[kind * shape.dim..][columns.clone()].copy_from_slice(&lanes[..count]);
        }
    }
}

#[inline(always)]
fn by_rule(first: &Step, shape: &Shape, part: &mut Part, pushes: Between<'_>, highest: f32) {
    let is_free = shape.decay.is_none() && shape.clip.weight.is_none();
    match *first {
        Step::Adam { beta1, beta2, .. } if is_free => {
            let left = each_push(shape, part, pushes, adam, |part, step| adam_is_over(part, step, highest));
            fade(&mut part.state[0], beta1, left);
            fade(&mut part.state[1], beta2, left);
        }
        Step::Momentum { momentum, .. } if is_free => {
            let left = each_push(shape, part, pushes, momentum_step, |part, _| is_zero(&part.state[0]));
            fade(&mut part.state[0], momentum, left);
        }
        Step::RmsProp { rho, momentum, .. } if is_free => {
            let moves = momentum != 0.0;
            let left = each_push(shape, part, pushes, rmsprop, |part, _| !moves || is_zero(&part.state[1]));
            fade(&mut part.state[0], rho, left);
            fade(&mut part.state[if moves { 2 } else { 1 }], rho, left);
        }
        Step::Adam { .. } => drop(each_push(shape, part, pushes, adam, never)),
        Step::Momentum { .. } => drop(each_push(shape, part, pushes, momentum_step, never)),
        Step::RmsProp { .. } => drop(each_push(shape, part, pushes, rmsprop, never)),
        Step::Adagrad { .. } => drop(each_push(shape, part, pushes, adagrad, never)),
        Step::AdagradScaled { .. } => drop(each_push(shape, part, pushes, adagrad_scaled, never)),
        Step::Sgd { .. } => drop(each_push(shape, part, pushes, sgd, never)),
        // Rows of these move as rows, or not at all.
        Step::AdagradShared { .. } | Step::AdamRow { .. } | Step::Ftrl { .. } | Step::Sum => {}
    }
}

fn never(_: &Part, _: &Step) -> bool {
    false
}

/// Returns how many pushes were left when it was over.
#[inline(always)]
fn each_push(
    shape: &Shape,
    part: &mut Part,
    pushes: Between<'_>,
    update: impl Fn(&mut Part, &Lanes, &Step),
    is_over: impl Fn(&Part, &Step) -> bool,
) -> u64 {
    let (mut left, mut look) = (pushes.left(), 0);
    for (Idle { step, rate }, count) in pushes {
        for _ in 0..count {
            if look == 0 {
                if is_over(part, &step) {
                    return left;
                }
                look = LOOK;
            }
            look -= 1;
            left -= 1;
            let mut gradient = [0.0; LANES];
            if !shape.decay.is_none() {
                kernels::decay(&shape.decay, rate, &mut part.weights, &mut gradient);
            }
            update(part, &gradient, &step);
            if let Some(most) = shape.clip.weight {
                kernels::within(&mut part.weights, most);
            }
        }
    }
    0
}

/// Whether no push to come moves a weight: what is taken from it is far less than half of its last bit, and gets less. That
/// holds if the first mean fades faster than the root of the second one.
#[inline(always)]
fn adam_is_over(part: &Part, step: &Step, highest: f32) -> bool {
    let &Step::Adam { beta1, beta2, epsilon, .. } = step else { return false };
    if is_zero(&part.state[0]) {
        return true;
    }
    if beta1 * beta1 > 0.99 * beta2 {
        return false;
    }
    // Corrections of the rate grow, but to no more than 1; the highest one so far may be below those to come.
    let least_bit = 2.0f32.powi(-28);
    let mut over = true;
    for lane in 0..LANES {
        let (mean, root) = (part.state[0][lane].abs(), part.state[1][lane].sqrt());
        over &= mean == 0.0 || highest * mean < part.weights[lane].abs() * least_bit * (root + epsilon);
    }
    over
}

#[inline(always)]
fn is_zero(lanes: &Lanes) -> bool {
    lanes.iter().fold(true, |zero, number| zero & (*number == 0.0))
}

/// Numbers that fade in each of so many pushes.
#[inline(always)]
fn fade(lanes: &mut Lanes, by: f32, mut pushes: u64) {
    // What is above this does not come near the smallest normal number within a turn.
    let safe = f64::from(f32::MIN_POSITIVE) * 4.0 / f64::from(by).powi(FADE as i32);
    while pushes > 0 && !is_zero(lanes) {
        let turn = pushes.min(FADE);
        pushes -= turn;
        let is_safe =
            lanes.iter().fold(true, |safely, number| safely & (*number == 0.0 || f64::from(number.abs()) > safe));
        if is_safe {
            for _ in 0..turn {
                lanes.iter_mut().for_each(|number| *number *= by);
            }
        } else {
            for _ in 0..turn {
                lanes.iter_mut().for_each(|number| *number = kernels::faded(by * *number));
            }
        }
    }
}

#[inline(always)]
fn adam(part: &mut Part, gradient: &Lanes, step: &Step) {
    let &Step::Adam { lr, beta1, beta2, epsilon } = step else { return };
    let [first, second, _] = &mut part.state;
    kernels::adam_columns(&mut part.weights, first, second, gradient, lr, beta1, beta2, epsilon);
}

#[inline(always)]
fn momentum_step(part: &mut Part, gradient: &Lanes, step: &Step) {
    let &Step::Momentum { lr, momentum, nesterov } = step else { return };
    match nesterov {
        false => kernels::momentum_plain(&mut part.weights, &mut part.state[0], gradient, lr, momentum),
        true => kernels::momentum_ahead(&mut part.weights, &mut part.state[0], gradient, lr, momentum),
    }
}

#[inline(always)]
fn rmsprop(part: &mut Part, gradient: &Lanes, step: &Step) {
    let &Step::RmsProp { lr, rho, epsilon, momentum, centered } = step else { return };
    // As they lie beside a row of so many columns.
    let state = part.state.as_flattened_mut();
    kernels::rmsprop(&mut part.weights, state, gradient, lr, rho, epsilon, momentum, centered);
}

#[inline(always)]
fn adagrad(part: &mut Part, gradient: &Lanes, step: &Step) {
    let &Step::Adagrad { lr, epsilon } = step else { return };
    kernels::adagrad(&mut part.weights, &mut part.state[0], gradient, lr, epsilon);
}

#[inline(always)]
fn adagrad_scaled(part: &mut Part, gradient: &Lanes, step: &Step) {
    let &Step::AdagradScaled { lr, g0 } = step else { return };
    kernels::adagrad_scaled(&mut part.weights, &mut part.state[0], gradient, lr, g0);
}

#[inline(always)]
fn sgd(part: &mut Part, gradient: &Lanes, step: &Step) {
    let &Step::Sgd { lr } = step else { return };
    kernels::sgd(&mut part.weights, gradient, lr);
}
