//! What several rules compute alike.

/// The sum of squares, added up from the first number to the last.
#[inline(always)]
pub fn squares(numbers: &[f32]) -> f64 {
    let mut sum = 0.0;
    for &n in numbers {
        sum += f64::from(n) * f64::from(n);
    }
    sum
}

/// What fades in every step ends at zero. Below the smallest normal number it would never get there, since 0.9 times the
/// smallest number of all rounds to itself, and processors need a hundred times as long for such numbers.
#[inline(always)]
pub fn faded(number: f32) -> f32 {
    if number.abs() < f32::MIN_POSITIVE { 0.0 } else { number }
}

#[inline(always)]
pub fn is_zero(numbers: &[f32]) -> bool {
    numbers.iter().fold(true, |zero, number| zero & (*number == 0.0))
}

// Fields that are left out of a description while they have their usual value.

pub fn is_false(flag: &bool) -> bool {
    !flag
}

pub fn one() -> f32 {
    1.0
}
