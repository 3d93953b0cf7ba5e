//! Kernels: a gradient changes a row. The only place where weights are computed.
//!
//! One body, compiled three times: for any x86-64 (or any other machine), for AVX2, and for AVX-512. All of it is IEEE
//! float32 without fused operations, and sums run in the order of the columns, so the three give the same bits, and so
//! does numpy.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::keys::{Init, mix};
use crate::table::rules::Step;
use crate::table::spec::{Clip, Decay};

/// Which compilation is used. All give the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Variant {
    Baseline = 1,
    Avx2 = 2,
    Avx512 = 3,
}

impl Variant {
    pub const ALL: [Variant; 3] = [Variant::Baseline, Variant::Avx2, Variant::Avx512];

    pub fn name(self) -> &'static str {
        match self {
            Variant::Baseline => "baseline",
            Variant::Avx2 => "avx2",
            Variant::Avx512 => "avx512",
        }
    }

    /// Whether this machine can run it.
    pub fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Variant::Baseline => true,
            Variant::Avx2 => is_x86_feature_detected!("avx2"),
            Variant::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx2")
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Variant::Baseline
        }
    }
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The variant in use: the widest that this machine has, unless one was pinned.
pub fn variant() -> Variant {
    match CHOSEN.load(Ordering::Relaxed) {
        1 => Variant::Baseline,
        2 => Variant::Avx2,
        3 => Variant::Avx512,
        _ => {
            let widest = Variant::ALL.into_iter().rev().find(|v| v.is_here()).unwrap_or(Variant::Baseline);
            CHOSEN.store(widest as u8, Ordering::Relaxed);
            widest
        }
    }
}

/// Pins a variant for the whole process, for tests that compare them. `false` if this machine can't run it.
pub fn pin(variant: Variant) -> bool {
    if variant.is_here() {
        CHOSEN.store(variant as u8, Ordering::Relaxed);
    }
    variant.is_here()
}

/// Mixes keys, as `keys::mix` does.
pub fn mix_all(keys: &[u64], out: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    if variant() == Variant::Avx512 {
        // SAFETY: `variant` only gives what this machine can run.
        return unsafe { mix_avx512(keys, out) };
    }
    mix_body(keys, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512dq,avx512bw")]
fn mix_avx512(keys: &[u64], out: &mut [u64]) {
    mix_body(keys, out);
}

#[inline(always)]
fn mix_body(keys: &[u64], out: &mut [u64]) {
    for (out, &key) in out.iter_mut().zip(keys) {
        *out = mix(key);
    }
}

/// Fills a new row, as `Init::fill` does.
pub fn fill(init: Init, seed: u64, key: u64, row: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if variant() == Variant::Avx512 {
        // SAFETY: `variant` only gives what this machine can run.
        return unsafe { fill_avx512(init, seed, key, row) };
    }
    init.fill(seed, key, row);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512dq,avx512bw")]
fn fill_avx512(init: Init, seed: u64, key: u64, row: &mut [f32]) {
    init.fill(seed, key, row);
}

/// One row to change: its weights, its state, and the gradient.
#[derive(Clone, Copy)]
pub struct Job {
    pub weights: *mut f32,
    pub state: *mut f32,
    pub gradient: *const f32,
}

/// How wide the rows of a batch of jobs are, and what else is done to them.
#[derive(Clone, Copy)]
pub struct Shape {
    pub dim: usize,
    pub state_width: usize,
    pub clip: Clip,
    pub decay: Decay,
    /// The table's learning rate, for weights that decay by it.
    pub rate: f32,
}

/// Applies a step to rows, one after the other.
///
/// # Safety
/// Each job's pointers must be good for `dim`, `state_width` and `dim` numbers, and nobody else may use weights and
/// state meanwhile. The same row may come twice.
pub unsafe fn apply(step: &Step, shape: &Shape, jobs: &[Job]) {
    match variant() {
        // SAFETY: the caller's promise.
        Variant::Baseline => unsafe { body(step, shape, jobs) },
        // SAFETY: the caller's promise; `variant` only gives what this machine can run.
        #[cfg(target_arch = "x86_64")]
        Variant::Avx2 => unsafe { body_avx2(step, shape, jobs) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Variant::Avx512 => unsafe { body_avx512(step, shape, jobs) },
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: as above.
        _ => unsafe { body(step, shape, jobs) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn body_avx2(step: &Step, shape: &Shape, jobs: &[Job]) {
    // SAFETY: the caller's promise.
    unsafe { body(step, shape, jobs) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512dq,avx512bw")]
unsafe fn body_avx512(step: &Step, shape: &Shape, jobs: &[Job]) {
    // SAFETY: the caller's promise.
    unsafe { body(step, shape, jobs) }
}

/// # Safety
/// As `apply`.
#[inline(always)]
unsafe fn body(step: &Step, shape: &Shape, jobs: &[Job]) {
    // A width that the compiler knows saves the loop around a vector or two.
    // SAFETY: the caller's promise.
    unsafe {
        match shape.dim {
            8 => by_rule::<8>(step, shape, jobs),
            16 => by_rule::<16>(step, shape, jobs),
            32 => by_rule::<32>(step, shape, jobs),
            64 => by_rule::<64>(step, shape, jobs),
            _ => by_rule::<0>(step, shape, jobs),
        }
    }
}

/// # Safety
/// As `apply`, with rows of `D` columns if `D` is not 0.
#[inline(always)]
unsafe fn by_rule<const D: usize>(step: &Step, shape: &Shape, jobs: &[Job]) {
    macro_rules! each {
        (|$w:ident, $s:ident, $g:ident| $update:expr) => {
            // SAFETY: the caller's promise.
            unsafe { each_row::<D>(shape, jobs, |$w, $s, $g| $update) }
        };
    }
    match *step {
        Step::Sgd { lr } => each!(|w, _s, g| sgd(w, g, lr)),
        Step::Momentum { lr, momentum, nesterov: false } => each!(|w, s, g| momentum_plain(w, s, g, lr, momentum)),
        Step::Momentum { lr, momentum, nesterov: true } => each!(|w, s, g| momentum_ahead(w, s, g, lr, momentum)),
        Step::Adagrad { lr, epsilon } => each!(|w, s, g| adagrad(w, s, g, lr, epsilon)),
        Step::AdagradScaled { lr, g0 } => each!(|w, s, g| adagrad_scaled(w, s, g, lr, g0)),
        Step::AdagradShared { lr, g0 } => each!(|w, s, g| adagrad_shared(w, s, g, lr, g0)),
        Step::Adam { lr, beta1, beta2, epsilon } => each!(|w, s, g| adam(w, s, g, lr, beta1, beta2, epsilon)),
        Step::AdamRow { lr, beta1, beta2, epsilon } => each!(|w, s, g| adam_row(w, s, g, lr, beta1, beta2, epsilon)),
        Step::RmsProp { lr, rho, epsilon, momentum, centered } => {
            each!(|w, s, g| rmsprop(w, s, g, lr, rho, epsilon, momentum, centered))
        }
        Step::Ftrl { lr, beta, l1, l2 } => each!(|w, s, g| ftrl(w, s, g, lr, beta, l1, l2)),
        Step::Sum => each!(|w, _s, g| sum(w, g)),
    }
}

/// # Safety
/// As `by_rule`.
#[inline(always)]
unsafe fn each_row<const D: usize>(shape: &Shape, jobs: &[Job], update: impl Fn(&mut [f32], &mut [f32], &[f32])) {
    let dim = if D == 0 { shape.dim } else { D };
    let mut clipped = Vec::new();
    for job in jobs {
        // SAFETY: the caller promised these widths, and that nobody else has the row; weights, state and gradient are
        // three different places.
        let (weights, state, gradient) = unsafe {
            (
                std::slice::from_raw_parts_mut(job.weights, dim),
                std::slice::from_raw_parts_mut(job.state, shape.state_width),
                std::slice::from_raw_parts(job.gradient, dim),
            )
        };
        if shape.clip.value.is_some() || shape.clip.norm.is_some() || !shape.decay.is_none() {
            clipped.clear();
            clipped.extend_from_slice(gradient);
            clip_gradient(&shape.clip, &mut clipped);
            decay(&shape.decay, shape.rate, weights, &mut clipped);
            update(weights, state, &clipped);
        } else {
            update(weights, state, gradient);
        }
        if let Some(most) = shape.clip.weight {
            within(weights, most);
        }
    }
}

#[inline(always)]
pub(super) fn decay(decay: &Decay, rate: f32, weights: &mut [f32], gradient: &mut [f32]) {
    if decay.l2 != 0.0 {
        for (g, w) in gradient.iter_mut().zip(weights.iter()) {
            *g += decay.l2 * *w;
        }
    }
    if decay.l1 != 0.0 {
        for (g, &w) in gradient.iter_mut().zip(weights.iter()) {
            *g += if w > 0.0 {
                decay.l1
            } else if w < 0.0 {
                -decay.l1
            } else {
                0.0
            };
        }
    }
    if decay.decoupled != 0.0 {
        let part = rate * decay.decoupled;
        for w in weights {
            *w -= part * *w;
        }
    }
}

#[inline(always)]
fn clip_gradient(clip: &Clip, gradient: &mut [f32]) {
    if let Some(most) = clip.value {
        within(gradient, most);
    }
    if let Some(most) = clip.norm {
        let squares: f64 = squares(gradient);
        let norm = squares.sqrt();
        if norm > f64::from(most) {
            let scale = (f64::from(most) / norm) as f32;
            for g in gradient {
                *g *= scale;
            }
        }
    }
}

/// The sum of squares, added up from the first number to the last.
#[inline(always)]
pub fn squares(numbers: &[f32]) -> f64 {
    let mut sum = 0.0;
    for &n in numbers {
        sum += f64::from(n) * f64::from(n);
    }
    sum
}

#[inline(always)]
pub(super) fn within(numbers: &mut [f32], most: f32) {
    for n in numbers {
        let upper = if *n > most { most } else { *n };
        *n = if upper < -most { -most } else { upper };
    }
}

/// What fades in every step ends at zero. Below the smallest normal number it would never get there, since 0.9 times the
/// smallest number of all rounds to itself, and processors need a hundred times as long for such numbers.
#[inline(always)]
pub(super) fn faded(number: f32) -> f32 {
    if number.abs() < f32::MIN_POSITIVE { 0.0 } else { number }
}

#[inline(always)]
pub(super) fn sgd(weights: &mut [f32], gradient: &[f32], lr: f32) {
    for (w, &g) in weights.iter_mut().zip(gradient) {
        *w -= lr * g;
    }
}

#[inline(always)]
fn sum(weights: &mut [f32], gradient: &[f32]) {
    for (w, &g) in weights.iter_mut().zip(gradient) {
        *w += g;
    }
}

#[inline(always)]
pub(super) fn momentum_plain(weights: &mut [f32], velocity: &mut [f32], gradient: &[f32], lr: f32, momentum: f32) {
    for ((w, v), &g) in weights.iter_mut().zip(velocity).zip(gradient) {
        *v = faded(momentum * *v + g);
        *w -= lr * *v;
    }
}

#[inline(always)]
pub(super) fn momentum_ahead(weights: &mut [f32], velocity: &mut [f32], gradient: &[f32], lr: f32, momentum: f32) {
    for ((w, v), &g) in weights.iter_mut().zip(velocity).zip(gradient) {
        *v = faded(momentum * *v + g);
        *w -= lr * (g + momentum * *v);
    }
}

#[inline(always)]
pub(super) fn adagrad(weights: &mut [f32], sums: &mut [f32], gradient: &[f32], lr: f32, epsilon: f32) {
    for ((w, s), &g) in weights.iter_mut().zip(sums).zip(gradient) {
        *s += g * g;
        *w -= lr * g / (s.sqrt() + epsilon);
    }
}

#[inline(always)]
pub(super) fn adagrad_scaled(weights: &mut [f32], sums: &mut [f32], gradient: &[f32], lr: f32, g0: f32) {
    for ((w, s), &g) in weights.iter_mut().zip(sums).zip(gradient) {
        *w -= lr * g * (g0 / (g0 + *s)).sqrt();
        *s += g * g;
    }
}

#[inline(always)]
fn adagrad_shared(weights: &mut [f32], sums: &mut [f32], gradient: &[f32], lr: f32, g0: f32) {
    let scale = (g0 / (g0 + sums[0])).sqrt();
    for (w, &g) in weights.iter_mut().zip(gradient) {
        *w -= lr * g * scale;
    }
    sums[0] += (squares(gradient) / gradient.len() as f64) as f32;
}

#[inline(always)]
fn adam(weights: &mut [f32], means: &mut [f32], gradient: &[f32], lr: f32, beta1: f32, beta2: f32, epsilon: f32) {
    let (first, second) = means.split_at_mut(weights.len());
    adam_columns(weights, first, second, gradient, lr, beta1, beta2, epsilon);
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn adam_columns(
    weights: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradient: &[f32],
    lr: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
) {
    for (((w, m), v), &g) in weights.iter_mut().zip(first).zip(second).zip(gradient) {
        *m = faded(beta1 * *m + (1.0 - beta1) * g);
        *v = faded(beta2 * *v + (1.0 - beta2) * (g * g));
        *w -= lr * (*m / (v.sqrt() + epsilon));
    }
}

#[inline(always)]
fn adam_row(weights: &mut [f32], state: &mut [f32], gradient: &[f32], lr: f32, beta1: f32, beta2: f32, epsilon: f32) {
    let (means, powers) = state.split_at_mut(2 * weights.len());
    let rate = lr * (1.0 - powers[1]).sqrt() / (1.0 - powers[0]);
    adam(weights, means, gradient, rate, beta1, beta2, epsilon);
    powers[0] = faded(beta1 * powers[0]);
    powers[1] = faded(beta2 * powers[1]);
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn rmsprop(
    weights: &mut [f32],
    state: &mut [f32],
    gradient: &[f32],
    lr: f32,
    rho: f32,
    epsilon: f32,
    momentum: f32,
    centered: bool,
) {
    let dim = weights.len();
    let (squares, rest) = state.split_at_mut(dim);
    let (velocities, means) = rest.split_at_mut(if momentum == 0.0 { 0 } else { dim });
    for at in 0..dim {
        let g = gradient[at];
        squares[at] = faded(rho * squares[at] + (1.0 - rho) * (g * g));
        let mut spread = squares[at];
        if centered {
            means[at] = faded(rho * means[at] + (1.0 - rho) * g);
            // Rounding alone can make it negative.
            let left = spread - means[at] * means[at];
            spread = if left > 0.0 { left } else { 0.0 };
        }
        let mut change = lr * g / (spread + epsilon).sqrt();
        if momentum != 0.0 {
            change = faded(momentum * velocities[at] + change);
            velocities[at] = change;
        }
        weights[at] -= change;
    }
}

#[inline(always)]
fn ftrl(weights: &mut [f32], state: &mut [f32], gradient: &[f32], lr: f32, beta: f32, l1: f32, l2: f32) {
    let (linear, sums) = state.split_at_mut(weights.len());
    for (((w, z), n), &g) in weights.iter_mut().zip(linear).zip(sums).zip(gradient) {
        let more = *n + g * g;
        let sigma = (more.sqrt() - n.sqrt()) / lr;
        *z += g - sigma * *w;
        *n = more;
        let over = if *z < 0.0 { *z + l1 } else { *z - l1 };
        let moved = -over / ((beta + more.sqrt()) / lr + l2);
        *w = if z.abs() <= l1 { 0.0 } else { moved };
    }
}
