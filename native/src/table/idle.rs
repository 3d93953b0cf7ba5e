//! What pushes do to a row that has no gradient in them: the same as the kernels with a gradient of zeros, bit for bit, for
//! many pushes one after the other. A few columns at a time stay in registers meanwhile.
//!
//! What can be left out without changing a bit is left out: once a mean of Adam is so small that no push to come moves a
//! weight, only the means fade; and what has faded to zero stays there.

use crate::table::history::{Between, Idle};
use crate::table::kernels::{self, Job, Shape, Variant, variant};
use crate::table::rules::{Member, Motion, Optimizer, WithRule, faded, is_zero};
use crate::table::spec::{Clip, Decay};

/// Columns that are worked on together.
const LANES: usize = 16;
/// Pushes between two looks at whether anything still moves.
const LOOK: u64 = 8;
/// Pushes between two looks at whether anything is left to fade.
const FADE: u64 = 32;

type Lanes = [f32; LANES];

/// How rows of a table move that have no gradient.
pub fn motion(optimizer: &Optimizer, decay: &Decay, clip: &Clip) -> Motion {
    let is_pulled = !decay.is_none() || clip.weight.is_some();
    match optimizer.motion() {
        Motion::Rows => Motion::Rows,
        free if !is_pulled => free,
        _ if optimizer.has_row_state() => Motion::Rows,
        _ => Motion::Columns,
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
        first.step.with_rule(Columns { part: &mut part, shape, pushes: pushes.clone(), highest });
        weights[columns.clone()].copy_from_slice(&part.weights[..count]);
        for (kind, lanes) in part.state.iter().take(kinds).enumerate() {
            state[kind * shape.dim..][columns.clone()].copy_from_slice(&lanes[..count]);
        }
    }
}

/// Some columns of a row, and what they have missed.
struct Columns<'a> {
    part: &'a mut Part,
    shape: &'a Shape,
    pushes: Between<'a>,
    highest: f32,
}

impl WithRule for Columns<'_> {
    #[inline(always)]
    fn run<R: Member>(self, rule: R) {
        let Self { part, shape, pushes, highest } = self;
        if rule.motion() == Motion::Fading && shape.decay.is_none() && shape.clip.weight.is_none() {
            let left = each_push::<R>(part, shape, pushes, |part, rule| {
                rule.is_over(&part.weights, part.state.as_flattened(), highest)
            });
            for (lanes, by) in part.state.iter_mut().zip(rule.fades()) {
                fade(lanes, by, left);
            }
        } else {
            each_push::<R>(part, shape, pushes, |_, _| false);
        }
    }
}

/// Returns how many pushes were left when it was over.
#[inline(always)]
fn each_push<R: Member>(
    part: &mut Part,
    shape: &Shape,
    pushes: Between<'_>,
    is_over: impl Fn(&Part, &R) -> bool,
) -> u64 {
    let (mut left, mut look) = (pushes.left(), 0);
    for (Idle { step, rate }, count) in pushes {
        // All pushes of a table are of one rule.
        let Some(rule) = R::of(&step) else { continue };
        for _ in 0..count {
            if look == 0 {
                if is_over(part, &rule) {
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
            // As it lies beside a row of so many columns.
            rule.update(&mut part.weights, part.state.as_flattened_mut(), &gradient);
            if let Some(most) = shape.clip.weight {
                kernels::within(&mut part.weights, most);
            }
        }
    }
    0
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
                lanes.iter_mut().for_each(|number| *number = faded(by * *number));
            }
        }
    }
}
