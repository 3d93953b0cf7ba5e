//! Deciders: text to ids and float32, exactly. The fast ways take what nearly all numbers look like, without branches that
//! depend on their length; whatever they do not take goes to the slow ways, which alone know what is wrong.
//!
//! Everything reads whole words, so the text must be followed by `PAD` readable bytes.

use super::fault::Reason;

/// So many bytes behind the text may be read (and are not used).
pub const PAD: usize = 128;

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

/// How many of the word's first bytes are digits. It is given as digits, with `ZEROS` taken off.
#[inline(always)]
fn leading(digits: u64) -> usize {
    // What is carried over goes to later bytes only.
    (others(digits).trailing_zeros() / 8) as usize
}

/// The high bit of each byte that is no digit; behind the first of them they mean nothing.
#[inline(always)]
fn others(digits: u64) -> u64 {
    // A digit stays below 0x80 when 0x76 is added.
    (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080
}

/// The first `count` (0 to 8) digits alone, behind zeros.
#[inline(always)]
fn shifted(digits: u64, count: usize) -> u64 {
    // In two steps, since a shift by 64 is not possible.
    let shift = (8 - count as u32) * 4;
    digits.wrapping_shl(shift).wrapping_shl(shift)
}

/// The number that eight digits make.
#[inline(always)]
fn joined(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

/// A way to read up to sixteen digits at once.
pub trait Digits {
    /// The number that the first `count` (0 to 16) bytes make; `None` if one of them is no digit.
    ///
    /// SAFETY: sixteen bytes must be readable, and the processor must have what the way is made for.
    unsafe fn read(from: *const u8, count: usize) -> Option<u64>;
}

/// For every processor.
pub struct Plain;

impl Digits for Plain {
    #[inline(always)]
    unsafe fn read(from: *const u8, count: usize) -> Option<u64> {
        let early = count.min(8);
        // SAFETY: the caller's promise.
        let (first, later) = unsafe { (word(from) ^ ZEROS, word(from.add(8)) ^ ZEROS) };
        let (first, later) = (shifted(first, early), shifted(later, count - early));
        if others(first) | others(later) != 0 {
            return None;
        }
        Some(joined(first) * POWERS[count - early] + joined(later))
    }
}

/// For those with SSE4.1, as all with AVX2 have.
#[cfg(target_arch = "x86_64")]
pub struct Wide;

#[cfg(target_arch = "x86_64")]
impl Digits for Wide {
    #[inline(always)]
    unsafe fn read(from: *const u8, count: usize) -> Option<u64> {
        use std::arch::x86_64::*;
        /// From byte `count` on: an order that moves so many bytes to the end, behind zeros.
        const ORDERS: [u8; 32] = {
            let mut orders = [0x80; 32];
            let mut at = 0;
            while at < 16 {
                orders[16 + at] = at as u8;
                at += 1;
            }
            orders
        };
        // SAFETY: the caller's promise; `count` is at most 16.
        unsafe {
            let bytes = _mm_loadu_si128(from.cast::<__m128i>());
            let order = _mm_loadu_si128(ORDERS.as_ptr().add(count).cast::<__m128i>());
            let digits = _mm_shuffle_epi8(_mm_sub_epi8(bytes, _mm_set1_epi8(b'0' as i8)), order);
            let beyond = _mm_subs_epu8(digits, _mm_set1_epi8(9));
            if _mm_testz_si128(beyond, beyond) == 0 {
                return None;
            }
            let pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010a));
            let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_0064));
            let eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours), _mm_set1_epi32(0x0001_2710));
            let both = _mm_cvtsi128_si64(eights) as u64;
            Some((both & 0xffff_ffff) * 100_000_000 + (both >> 32))
        }
    }
}

/// An id that is the first `length` bytes: its bits, or `None`: ask `slow_id`.
///
/// SAFETY: `length` bytes must be there, and be padded as the module says; the processor must have what `D` is made for.
#[inline(always)]
pub unsafe fn id<D: Digits>(from: *const u8, length: usize) -> Option<u64> {
    if length.wrapping_sub(1) < 16 {
        // SAFETY: the caller's promise.
        return unsafe { D::read(from, length) };
    }
    // SAFETY: the caller's promise.
    unsafe { long_id(from, length) }
}

/// SAFETY: as `id`.
#[inline(never)]
unsafe fn long_id(from: *const u8, length: usize) -> Option<u64> {
    if !(17..=20).contains(&length) {
        return None;
    }
    // SAFETY: the caller's promise.
    let (first, rest) = unsafe { (Plain::read(from, 16)?, Plain::read(from.add(16), length - 16)?) };
    first.checked_mul(POWERS[length - 16])?.checked_add(rest)
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

/// A plain decimal number that is the first `length` bytes: the nearest float32, or `None`: ask `slow_float`.
///
/// SAFETY: `length` bytes must be there, and be padded as the module says; the processor must have what `D` is made for.
#[inline(always)]
pub unsafe fn float<D: Digits>(from: *const u8, length: usize) -> Option<f32> {
    // SAFETY: at most 24 bytes behind `from`, or the length, are read; all within the padding.
    unsafe {
        let sign = usize::from(*from == b'-');
        let unsigned = from.add(sign);
        let mut whole = 1;
        let mut mantissa = u64::from((*unsigned).wrapping_sub(b'0'));
        // Most numbers have one digit before the point.
        if *unsigned.add(1) != b'.' {
            let digits = word(unsigned) ^ ZEROS;
            whole = leading(digits);
            mantissa = joined(shifted(digits, whole));
        }
        let mut fraction = 0;
        let behind = sign + whole;
        if behind != length {
            fraction = length.wrapping_sub(behind + 1);
            if *from.add(behind) != b'.' || fraction > 16 {
                return None;
            }
            let below = D::read(from.add(behind + 1), fraction)?;
            if whole + fraction > 18 {
                return None;
            }
            mantissa = mantissa.wrapping_mul(POWERS[fraction]).wrapping_add(below);
        }
        // The product is at most three units of float64 away from the number. It is only trusted where no number that near
        // could be rounded to another float32; so the result is exact.
        let near = mantissa as i64 as f64 * TENTHS[fraction];
        let beyond = near.to_bits() & 0x1fff_ffff;
        if whole.wrapping_sub(1) > 6 || beyond.wrapping_sub(0x1000_0000 - 8) <= 16 || (*unsigned).wrapping_sub(b'0') > 9
        {
            return None;
        }
        let value = near as f32;
        Some(if sign == 1 { -value } else { value })
    }
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
        let plain = unsafe { float::<Plain>(bytes.as_ptr(), text.len()) };
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: padded, and the processor has it.
            let wide = unsafe { float::<Wide>(bytes.as_ptr(), text.len()) };
            assert_eq!(wide.map(f32::to_bits), plain.map(f32::to_bits), "{text}");
        }
        plain.map_or_else(|| slow_float(text.as_bytes()), Ok)
    }

    fn any_id(text: &str) -> Result<u64, Reason> {
        let bytes = padded(text);
        // SAFETY: padded.
        let plain = unsafe { id::<Plain>(bytes.as_ptr(), text.len()) };
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: padded, and the processor has it.
            assert_eq!(unsafe { id::<Wide>(bytes.as_ptr(), text.len()) }, plain, "{text}");
        }
        plain.map_or_else(|| slow_id(text.as_bytes()), Ok)
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
        for text in
            ["0", "-0", "0.0", "-0.0", "1.", ".5", "+1.5", "16777217", "1e-50", "1e-45", "7e-46", "3.4028235e38"]
        {
            agrees(text);
        }
        for text in [
            "nan", "inf", "-inf", "1_0", "0x1", "", ".", "-", "+-1", "1e", "1e+", "1.2.3", "/.5", "..5", " .5", ":.0",
            "1,5", "--1", "e5",
        ] {
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
