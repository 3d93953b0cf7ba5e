//! Whether an array is still what it was: one number of all its bits. Pure functions.
//!
//! Two arrays that differ in one float never have the same one; others have it by chance, at most once in 2^32 pairs or so.

use crate::keys::mix;
#[cfg(target_arch = "x86_64")]
use crate::table::kernels::{Variant, variant};

const LANES: usize = 64;
/// Odd, so that it makes no two numbers the same.
const FACTOR: u32 = 0x9E37_79B1;

/// Of one array. It is a matter of this process: another one may compute another number.
pub fn fingerprint(values: &[f32]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if variant() != Variant::Baseline {
        // SAFETY: `variant` only gives what this machine can run, and each but the baseline has AVX2.
        return unsafe { of_avx2(values) };
    }
    of(values)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn of_avx2(values: &[f32]) -> u64 {
    of(values)
}

#[inline(always)]
fn of(values: &[f32]) -> u64 {
    let mut lanes = [1u32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            // Round floats differ in their upper bits alone, which a product never brings down: the shift does.
            let product = (*lane ^ value.to_bits()).wrapping_mul(FACTOR);
            *lane = product ^ (product >> 15);
        }
    }
    let ends = lanes.into_iter().chain(rest.iter().map(|value| value.to_bits()));
    ends.fold(values.len() as u64, |all, end| mix(all ^ u64::from(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float_and_its_place_count() {
        for size in [0, 1, 63, 64, 65, 200, 1000] {
            let mut values: Vec<f32> = (0..size).map(|n| n as f32).collect();
            let before = fingerprint(&values);
            assert_eq!(fingerprint(&values), before);
            assert_eq!(of(&values), before, "all compilations agree");
            for place in 0..size {
                values[place] = -values[place] - 1.0;
                assert_ne!(fingerprint(&values), before, "{place} of {size}");
                values[place] = place as f32;
            }
            for place in 1..size {
                values.swap(0, place);
                assert_ne!(fingerprint(&values), before, "0 and {place} of {size}");
                values.swap(0, place);
            }
            values.push(0.0);
            assert_ne!(fingerprint(&values), before);
        }
    }
}
