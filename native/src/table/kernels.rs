//! Kernels: gradients change rows, clipped and with decay, as a rule of `rules` says.
//!
//! One body, compiled three times: for any x86-64 (or any other machine), for AVX2, and for AVX-512. All of it is IEEE
//! float32 without fused operations, and sums run in the order of the columns, so the three give the same bits, and so
//! does numpy.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::keys::{Init, mix};
use crate::table::rules::{Member, Step, WithRule, squares};
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
    match shape.dim {
        8 => step.with_rule(Rows::<8> { shape, jobs }),
        16 => step.with_rule(Rows::<16> { shape, jobs }),
        32 => step.with_rule(Rows::<32> { shape, jobs }),
        64 => step.with_rule(Rows::<64> { shape, jobs }),
        _ => step.with_rule(Rows::<0> { shape, jobs }),
    }
}

/// Rows of `D` columns if `D` is not 0. Made by `body` alone, whose caller promised that they may be changed.
struct Rows<'a, const D: usize> {
    shape: &'a Shape,
    jobs: &'a [Job],
}

impl<const D: usize> WithRule for Rows<'_, D> {
    #[inline(always)]
    fn run<R: Member>(self, rule: R) {
        // SAFETY: the promise of `body`'s caller.
        unsafe { each_row::<D>(self.shape, self.jobs, |w, s, g| rule.update(w, s, g)) }
    }
}

/// # Safety
/// As `apply`, with rows of `D` columns if `D` is not 0.
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

#[inline(always)]
pub(super) fn within(numbers: &mut [f32], most: f32) {
    for n in numbers {
        let upper = if *n > most { most } else { *n };
        *n = if upper < -most { -most } else { upper };
    }
}
