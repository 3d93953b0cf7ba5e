//! Gradients that are not there. Frameworks leave a parameter alone that has no gradient in a step: it does not decay, its
//! moments do not move it, and the step does not count for it. A gradient of zeros would do all of that.
//!
//! In the numbers of a dense push, a parameter without a gradient has one of two marks in each of its places. Both are NaNs
//! with bits that no computation gives.

/// No gradient: the parameter stays as it is.
pub const ABSENT: u32 = 0x7fc0_5ab1;
/// No new gradient, and zeros stand where the last one was: the parameter stays as it is unless it has ever learned.
pub const CLEARED: u32 = 0x7fc0_5ab2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gradient,
    Absent,
    Cleared,
}

/// What the gradient of an array is, by any number of it.
pub fn kind(number: f32) -> Kind {
    match number.to_bits() {
        ABSENT => Kind::Absent,
        CLEARED => Kind::Cleared,
        _ => Kind::Gradient,
    }
}

/// A number of a gradient times `scale`; marks stay marks.
#[inline(always)]
pub fn scaled(number: f32, scale: f32) -> f32 {
    let is_mark = matches!(number.to_bits(), ABSENT | CLEARED);
    if is_mark { number } else { scale * number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_survive_being_scaled_and_nothing_else_is_one() {
        for (bits, expected) in [(ABSENT, Kind::Absent), (CLEARED, Kind::Cleared)] {
            let mark = f32::from_bits(bits);
            assert!(mark.is_nan());
            assert_eq!(kind(scaled(mark, 0.5)), expected);
        }
        for number in [0.0, -0.0, 1.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::INFINITY - f32::INFINITY] {
            assert_eq!(kind(number), Kind::Gradient);
        }
        assert_eq!(scaled(3.0, 0.5), 1.5);
    }
}
