//! bfloat16 on the way: the upper half of a float, rounded to the nearest and to even between two. Pure functions.
//!
//! Half the bytes, the same range, 8 bits of precision. Marks of gradients that are not there (`table::absent`) have marks of
//! their own, so that they come back as they were; any other NaN becomes the plain one.

use std::mem::size_of;

use crate::table::absent;

const NAN: u16 = 0x7fc0;
const ABSENT: u16 = 0x7fc1;
const CLEARED: u16 = 0x7fc2;

/// A float as bfloat16.
#[inline(always)]
pub fn narrowed(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() {
        return match bits {
            absent::ABSENT => ABSENT,
            absent::CLEARED => CLEARED,
            _ => NAN,
        };
    }
    // The largest floats round to infinity.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// A bfloat16 number as the float that it is.
#[inline(always)]
pub fn widened(half: u16) -> f32 {
    f32::from_bits(match half {
        ABSENT => absent::ABSENT,
        CLEARED => absent::CLEARED,
        _ => u32::from(half) << 16,
    })
}

/// Floats become bfloat16 at the start of their own memory; the bytes that hold them.
pub fn narrow_in_place(floats: &mut [f32]) -> &[u8] {
    let (count, wide) = (floats.len(), floats.as_mut_ptr());
    let halves = wide.cast::<u16>();
    for at in 0..count {
        // SAFETY: half `at` lies within float `at / 2`, which has been read by now; halves of a float are aligned for u16.
        unsafe { halves.add(at).write(narrowed(wide.add(at).read())) };
    }
    // SAFETY: `count` halves have just been written, and are initialized bytes of this slice.
    unsafe { std::slice::from_raw_parts(halves.cast(), count * size_of::<u16>()) }
}

/// The opposite, in bytes of any alignment: the first half of `bytes` has the numbers.
pub fn widen_in_place(bytes: &mut [u8], count: usize) {
    for at in (0..count).rev() {
        let half = u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        bytes[4 * at..4 * at + 4].copy_from_slice(&widened(half).to_le_bytes());
    }
}

/// The same into floats elsewhere.
pub fn widen(bytes: &[u8], into: &mut Vec<f32>) {
    into.clear();
    into.extend(bytes.chunks_exact(2).map(|half| widened(u16::from_le_bytes([half[0], half[1]]))));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest of the numbers below and above, by exact arithmetic; of two equally near ones the even one.
    fn nearest(number: f32) -> u16 {
        let below = (number.to_bits() >> 16) as u16;
        let exact = |half: u16| f64::from(f32::from_bits(u32::from(half) << 16));
        let (down, up) = (exact(below), exact(below + 1));
        let up = if up.is_infinite() { 2f64.powi(128).copysign(down) } else { up };
        let (from_below, to_above) = ((f64::from(number) - down).abs(), (up - f64::from(number)).abs());
        let is_even = below & 1 == 0;
        if from_below < to_above || (from_below == to_above && is_even) { below } else { below + 1 }
    }

    #[test]
    fn every_number_goes_to_the_nearest_one() {
        let mut bits: u32 = 1;
        for _ in 0..2_000_000 {
            // xorshift: all bits but zero come up.
            bits ^= bits << 13;
            bits ^= bits >> 17;
            bits ^= bits << 5;
            let number = f32::from_bits(bits);
            if number.is_finite() {
                assert_eq!(narrowed(number), nearest(number), "{number:e} {bits:#x}");
            }
        }
        for upper in [0u32, 1, 0x3f80, 0x3f81, 0x7f7e, 0x7f7f, 0x8000, 0xbf80, 0xff7f] {
            for lower in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let number = f32::from_bits(upper << 16 | lower);
                assert_eq!(narrowed(number), nearest(number), "{number:e}");
            }
        }
    }

    #[test]
    fn every_bfloat16_comes_back() {
        for half in 0..=u16::MAX {
            let wide = widened(half);
            match wide.is_nan() {
                true => assert!(widened(narrowed(wide)).is_nan()),
                false => assert_eq!(narrowed(wide), half),
            }
        }
    }

    #[test]
    fn marks_come_back_and_no_other_nan_is_one() {
        for bits in [absent::ABSENT, absent::CLEARED] {
            assert_eq!(widened(narrowed(f32::from_bits(bits))).to_bits(), bits);
        }
        for bits in [0x7fc1_0000u32, 0x7fc2_1234, 0x7fc0_0000, 0xffc1_0000, 0x7f80_0001, 0xffff_ffff] {
            let back = widened(narrowed(f32::from_bits(bits)));
            assert!(back.is_nan());
            assert_eq!(absent::kind(back), absent::Kind::Gradient);
        }
    }

    #[test]
    fn places_are_kept() {
        for count in 0..40 {
            let mut floats: Vec<f32> = (0..count).map(|number| number as f32 - 7.0).collect();
            let expected = floats.clone();
            let bytes = narrow_in_place(&mut floats).to_vec();
            assert_eq!(bytes.len(), 2 * count);
            let mut back = Vec::new();
            widen(&bytes, &mut back);
            assert_eq!(back, expected);
            for offset in 0..4 {
                let mut room = vec![0; offset + 4 * count];
                room[offset..offset + 2 * count].copy_from_slice(&bytes);
                widen_in_place(&mut room[offset..], count);
                let wide: Vec<f32> =
                    room[offset..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
                assert_eq!(wide, expected);
            }
        }
    }
}
