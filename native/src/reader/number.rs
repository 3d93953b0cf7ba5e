//! Deciders: text to ids and float32, exactly. The fast ways take what nearly all numbers look like, without branches that
//! depend on their length; whatever they do not take goes to the slow ways, which alone know what is wrong.
//!
//! Everything reads whole words, so the text must be followed by `PAD` readable bytes, and a byte that belongs to no
//! number must come first among them (a line's end).

use super::fault::Reason;

/// So many bytes behind the text may be read (and are not used).
pub const PAD: usize = 64;

const ZEROS: u64 = 0x3030_3030_3030_3030;
const POWERS: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut at = 1;
    while at < 20 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};
const TENTHS: [f64; 17] =
    [1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16];

/// SAFETY: eight bytes must be readable at `from`.
#[inline(always)]
unsafe fn word(from: *const u8) -> u64 {
    // SAFETY: the caller's promise; any bytes make a valid u64.
    u64::from_le(unsafe { from.cast::<u64>().read_unaligned() })
}

/// The digits at the beginning of a word as numbers 0 to 9, and how many there are. Bytes behind them mean nothing.
#[inline(always)]
fn leading(word: u64) -> (u64, usize) {
    let digits = word ^ ZEROS;
    // A digit stays below 0x80 when 0x76 is added. What is carried over goes to later bytes only.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    (digits, (others.trailing_zeros() / 8) as usize)
}

/// The number that the first `count` (0 to 8) of these digits make.
#[inline(always)]
fn joined(digits: u64, count: usize) -> u64 {
    // As if there were leading zeros: shifted out in two steps, since a shift by 64 is not possible.
    let shift = (8 - count as u32) * 4;
    let digits = digits.wrapping_shl(shift).wrapping_shl(shift);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

/// An id of 1 to 19 digits, or of 20 that fit: its bits and its length. Length 0: ask `slow_id`.
///
/// SAFETY: the text at `from` must end and be padded as the module says.
#[inline(always)]
pub unsafe fn id(from: *const u8) -> (u64, usize) {
    // SAFETY: the caller's promise.
    let (digits, count) = leading(unsafe { word(from) });
    if count < 8 {
        return (joined(digits, count), count);
    }
    // SAFETY: the first eight bytes were digits, so the text goes on or ends here, and is padded.
    unsafe { long_id(from, joined(digits, 8)) }
}

/// SAFETY: as `id`; the first eight bytes are digits.
unsafe fn long_id(from: *const u8, first: u64) -> (u64, usize) {
    // SAFETY: the text goes on or ends at this byte, and is padded.
    let (digits, count) = leading(unsafe { word(from.add(8)) });
    let value = first * POWERS[count] + joined(digits, count);
    if count < 8 {
        return (value, 8 + count);
    }
    // SAFETY: sixteen digits came before; the same again.
    let (digits, count) = leading(unsafe { word(from.add(16)) });
    if count > 4 {
        return (0, 0);
    }
    match value.checked_mul(POWERS[count]).and_then(|value| value.checked_add(joined(digits, count))) {
        Some(value) => (value, 16 + count),
        None => (0, 0),
    }
}

/// Any id: -2^63 to 2^64 - 1, as 64 bits.
pub fn slow_id(token: &[u8]) -> Result<u64, Reason> {
    let (negative, digits) = match token {
        [] => return Err(Reason::NoValue),
        [b'-', rest @ ..] => (true, rest),
        _ => (false, token),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Reason::NotAnId);
    }
    let add = |value: u64, digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let value = digits.iter().try_fold(0, add).ok_or(Reason::IdRange)?;
    match negative {
        false => Ok(value),
        true if value <= 1 << 63 => Ok(value.wrapping_neg()),
        true => Err(Reason::IdRange),
    }
}

/// A plain decimal number of at most 18 digits that matter: the nearest float32 and its length. Length 0: ask `slow_float`.
///
/// SAFETY: the text at `from` must end and be padded as the module says.
#[inline(always)]
pub unsafe fn float(from: *const u8) -> (f32, usize) {
    // SAFETY: the text has at least its end byte here; each step below goes over bytes that are no end.
    let sign = usize::from(unsafe { *from } == b'-');
    // SAFETY: as above.
    let (digits, whole) = leading(unsafe { word(from.add(sign)) });
    let mut mantissa = joined(digits, whole);
    let mut length = sign + whole;
    let mut fraction = 0;
    // SAFETY: as above.
    if unsafe { *from.add(length) } == b'.' {
        // SAFETY: as above; where the first eight bytes are not all digits, the second word is only looked at, and lies
        // within the padding.
        let (words, more) = unsafe { (word(from.add(length + 1)), word(from.add(length + 9))) };
        let (digits, first) = leading(words);
        let (later, second) = leading(more);
        let second = if first == 8 { second } else { 0 };
        fraction = first + second;
        let below = joined(digits, first) * POWERS[second] + joined(later, second);
        if whole + fraction > 18 && mantissa != 0 {
            return (0.0, 0);
        }
        mantissa = mantissa.wrapping_mul(POWERS[fraction]).wrapping_add(below);
        length += 1 + fraction;
    }
    // The product is at most three units of float64 away from the number. It is only trusted where no number that near
    // could be rounded to another float32; so the result is exact.
    let near = mantissa as i64 as f64 * TENTHS[fraction];
    let beyond = near.to_bits() & 0x1fff_ffff;
    if whole == 0 || whole == 8 || fraction == 16 || beyond.wrapping_sub(0x1000_0000 - 8) <= 16 {
        return (0.0, 0);
    }
    let value = near as f32;
    (if sign == 1 { -value } else { value }, length)
}

/// Any finite decimal number, rounded to the nearest float32.
pub fn slow_float(token: &[u8]) -> Result<f32, Reason> {
    if token.is_empty() {
        return Err(Reason::NoValue);
    }
    if !is_decimal(token) {
        return Err(Reason::NotANumber);
    }
    let unsigned = token.strip_prefix(b"+").unwrap_or(token);
    let value: f32 = fast_float2::parse(unsigned).map_err(|_| Reason::NotANumber)?;
    if value.is_finite() { Ok(value) } else { Err(Reason::NumberRange) }
}

/// Sign, digits with or without a point, exponent: not `nan`, not `inf`, not `1_000`.
fn is_decimal(token: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let signed = |text: &[u8]| usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let mut rest = &token[signed(token)..];
    let whole = digits(rest);
    rest = &rest[whole..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix(b".") {
        fraction = digits(after);
        rest = &after[fraction..];
    }
    if whole + fraction == 0 {
        return false;
    }
    if let [b'e' | b'E', after @ ..] = rest {
        let after = &after[signed(after)..];
        return !after.is_empty() && digits(after) == after.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(b'\n');
        bytes.resize(bytes.len() + PAD, 0);
        bytes
    }

    /// What the parser makes of a token: the fast way where it gives something, the slow one else.
    fn any_float(text: &str) -> Result<f32, Reason> {
        let bytes = padded(text);
        // SAFETY: padded.
        match unsafe { float(bytes.as_ptr()) } {
            (value, length) if length == text.len() => Ok(value),
            _ => slow_float(text.as_bytes()),
        }
    }

    fn any_id(text: &str) -> Result<u64, Reason> {
        let bytes = padded(text);
        // SAFETY: padded.
        match unsafe { id(bytes.as_ptr()) } {
            (value, length) if length == text.len() && length > 0 => Ok(value),
            _ => slow_id(text.as_bytes()),
        }
    }

    /// Not random: the same numbers in every run.
    fn draws() -> impl Iterator<Item = u64> {
        (0u64..).map(crate::keys::mix)
    }

    fn agrees(text: &str) {
        let expected: f32 = text.parse().expect("a number for the standard library");
        match any_float(text) {
            Ok(value) => assert_eq!(value.to_bits(), expected.to_bits(), "{text}"),
            Err(reason) => assert!(expected.is_infinite() && reason == Reason::NumberRange, "{text}: {reason:?}"),
        }
    }

    #[test]
    fn floats_are_those_of_the_standard_library() {
        for draw in draws().take(300_000) {
            let value = f32::from_bits(draw as u32);
            if value.is_finite() {
                agrees(&format!("{value}"));
                agrees(&format!("{value:e}"));
            }
            let digits = 1 + (draw >> 59) as usize;
            let unit = (draw >> 11) as f64 / (1u64 << 53) as f64;
            agrees(&format!("{unit:.digits$}"));
            agrees(&format!("-{:.*}", digits / 2, unit * 1e5));
            agrees(&format!("{}.{}", draw >> 44, draw & 0xfffff));
        }
    }

    #[test]
    fn floats_half_way_between_two_are_exact() {
        for draw in draws().take(100_000) {
            // A float32 between 0.5 and 2^20, and the exact decimal text of the middle between it and the next one.
            let low = f32::from_bits(0x3f00_0000 + (draw as u32) % (20 << 23));
            let middle = (f64::from(low) + f64::from(f32::from_bits(low.to_bits() + 1))) / 2.0;
            let text = format!("{middle}");
            agrees(&text);
            agrees(&format!("{text}{}1", if text.contains('.') { "" } else { "." }));
            agrees(&format!("{:.12}", middle + 1e-9));
            agrees(&format!("{:.12}", middle - 1e-9));
        }
    }

    #[test]
    fn odd_floats() {
        for text in ["0", "-0", "0.0", "-0.0", "1.", ".5", "+1.5", "16777217", "1e-50", "1e-45", "7e-46", "3.4028235e38"] {
            agrees(text);
        }
        for text in ["nan", "inf", "-inf", "1_0", "0x1", "", ".", "-", "+-1", "1e", "1e+", "1.2.3", "1,5", "--1", "e5"] {
            let expected = if text.is_empty() { Reason::NoValue } else { Reason::NotANumber };
            assert_eq!(any_float(text), Err(expected), "{text}");
        }
        assert_eq!(any_float("1e39"), Err(Reason::NumberRange));
    }

    #[test]
    fn ids() {
        for draw in draws().take(200_000) {
            let value = draw >> (draw % 64);
            assert_eq!(any_id(&value.to_string()), Ok(value));
            assert_eq!(any_id(&(value as i64).to_string()), Ok(value));
            assert_eq!(any_id(&format!("{value:030}")), Ok(value));
        }
        assert_eq!(any_id("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(any_id("-9223372036854775808"), Ok(1 << 63));
        assert_eq!(any_id("-0"), Ok(0));
        for text in ["18446744073709551616", "-9223372036854775809", "99999999999999999999", "123456789012345678901"] {
            assert_eq!(any_id(text), Err(Reason::IdRange), "{text}");
        }
        for text in ["a", "1a", "+1", "-", "1.0", "12345678x", "1234567890123456z", "\u{663}"] {
            assert_eq!(any_id(text), Err(Reason::NotAnId), "{text}");
        }
    }
}
