//! Deciders: the canonical text of a value, which its id is the hash of, and numbers out of texts.
//!
//! A text is its bytes, as they are. A number is written as JavaScript does it: the fewest digits that give it back, plain
//! from 1e-6 to 1e21, so that 1 and 1.0 are the same; a decimal with a fraction as the float64 next to it; an integer in all its digits. A
//! boolean is `true` or `false`. Dates and times are those of ISO 8601, an instant in UTC with a `Z`.

use std::io::Write;

use super::moments;

/// Parts of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    pub fn digits(self) -> usize {
        match self {
            Self::Millis => 3,
            Self::Micros => 6,
            Self::Nanos => 9,
        }
    }

    pub fn per_second(self) -> i64 {
        match self {
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        }
    }
}

/// What a text is, where a number is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numeric {
    Number(f64),
    /// Nothing, or no number by its own word.
    Missing,
    Not,
}

/// The number that a text stands for: what a decimal is read as everywhere, `true` and `false` as 1 and 0, `inf`; spaces
/// around it are passed over.
pub fn number(text: &[u8]) -> Numeric {
    let text = trimmed(text);
    if text.is_empty() {
        return Numeric::Missing;
    }
    if let Some(small) = small_integer(text) {
        return Numeric::Number(small as f64);
    }
    let unsigned = if text[0] == b'+' && text.get(1).is_some_and(|&next| next != b'-' && next != b'+') {
        &text[1..]
    } else {
        text
    };
    match fast_float2::parse::<f64, _>(unsigned) {
        Ok(number) if number.is_nan() => Numeric::Missing,
        Ok(number) => Numeric::Number(number),
        Err(_) => match boolean(text) {
            Some(truth) => Numeric::Number(f64::from(u8::from(truth))),
            None => Numeric::Not,
        },
    }
}

/// The same; dates and times as seconds since 1970, as columns of these types are.
pub fn number_or_moment(text: &[u8]) -> Numeric {
    match number(text) {
        Numeric::Not => moments::seconds(trimmed(text)).map_or(Numeric::Not, Numeric::Number),
        read => read,
    }
}

/// Integers of up to 15 digits, most of what tables have; a `-0` keeps its sign, so it is none.
#[inline]
fn small_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let value = match digits.len() {
        1..=8 => eight_digits(left_padded(digits))?,
        9..=15 => {
            let (front, back) = digits.split_at(digits.len() - 8);
            eight_digits(left_padded(front))? * 100_000_000 + eight_digits(left_padded(back))?
        }
        _ => return None,
    };
    if negative && value == 0 { None } else { Some(if negative { -value } else { value }) }
}

/// The number that one to eight digits are, which end at `end` of longer bytes: what `number` gives, without a look at the
/// first ones alone. None says nothing of the text.
#[inline]
pub fn few_digits(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    let count = end - start;
    let eight = bytes[..end].last_chunk::<8>()?;
    if !(1..=8).contains(&count) {
        return None;
    }
    let keep = u64::MAX << (64 - 8 * count);
    eight_digits(u64::from_le_bytes(*eight) & keep | ZEROS & !keep).map(|value| value as f64)
}

/// One to eight bytes, behind as many zeros as are wanting to eight.
#[inline]
fn left_padded(text: &[u8]) -> u64 {
    let four = |at: usize| text[at..].first_chunk::<4>().map_or(0, |four| u64::from(u32::from_le_bytes(*four)));
    let count = text.len();
    let word = match count {
        8.. => four(0) | four(4) << 32,
        4.. => four(0) | four(count - 4) << (8 * (count - 4)),
        _ => {
            let one = |at: usize| u64::from(text[at]) << (8 * at);
            one(0) | one(count / 2) | one(count - 1)
        }
    };
    match count {
        8.. => word,
        _ => word << (64 - 8 * count) | ZEROS >> (8 * count),
    }
}

/// Eight bytes that are all the digit 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The number that eight digits are, the first in the lowest byte; None if one is no digit.
#[inline]
fn eight_digits(word: u64) -> Option<i64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    if word & HIGH != ZEROS || word.wrapping_add(0x0606_0606_0606_0606) & HIGH != ZEROS {
        return None;
    }
    let pairs = word - ZEROS;
    let pairs = (pairs * 10 + (pairs >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some(((fours * 10_000 + (fours >> 32)) & 0xffff_ffff) as i64)
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// The canonical text of the number that a text stands for, behind what `out` has. It says whether there is one.
pub fn number_text(text: &[u8], out: &mut Vec<u8>) -> Numeric {
    let text = trimmed(text);
    if text.is_empty() {
        return Numeric::Missing;
    }
    if let Some(truth) = boolean(text) {
        out.extend_from_slice(if truth { b"true" } else { b"false" });
        return Numeric::Number(f64::from(u8::from(truth)));
    }
    if plain_decimal(text, out) {
        return Numeric::Number(0.0);
    }
    let read = number(text);
    if let Numeric::Number(number) = read {
        f64_text(number, out);
    }
    read
}

/// A decimal without an exponent: as many digits as it has, without needless zeros.
fn plain_decimal(text: &[u8], out: &mut Vec<u8>) -> bool {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (whole, fraction) = match memchr::memchr(b'.', digits) {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &digits[digits.len()..]),
    };
    if whole.is_empty() && fraction.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return false;
    }
    let whole = &whole[whole.iter().take_while(|&&digit| digit == b'0').count()..];
    let fraction = &fraction[..fraction.len() - fraction.iter().rev().take_while(|&&digit| digit == b'0').count()];
    if !fraction.is_empty() && whole.len() + fraction.len() > 15 {
        return false; // more than a float64 is sure to keep: the text of that float, wherever it comes from
    }
    if whole.is_empty() && fraction.iter().take_while(|&&digit| digit == b'0').count() >= 6 && !fraction.is_empty() {
        return false; // below 1e-6, which has an exponent from 1e-7 on: the same text as of a float
    }
    if negative && (!whole.is_empty() || !fraction.is_empty()) {
        out.push(b'-');
    }
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
    true
}

pub fn i64_text(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    u64_text(value.unsigned_abs(), out);
}

pub fn u64_text(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = 20;
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

pub fn f64_text(value: f64, out: &mut Vec<u8>) {
    if value == value.trunc() && value.abs() < 9_007_199_254_740_992.0 {
        return i64_text(value as i64, out);
    }
    float_text(
        &format!("{value:e}"),
        |digits| {
            let even = format!("{value:.digits$e}");
            (even.parse() == Ok(value)).then_some(even)
        },
        out,
    );
}

/// With the fewest digits that give back the float32, as programs write one.
pub fn f32_text(value: f32, out: &mut Vec<u8>) {
    if value == value.trunc() && value.abs() < 16_777_216.0 {
        return i64_text(value as i64, out);
    }
    float_text(
        &format!("{value:e}"),
        |digits| {
            let even = format!("{value:.digits$e}");
            (even.parse() == Ok(value)).then_some(even)
        },
        out,
    );
}

/// From the shortest text with an exponent. Of two that are equally near, Python and numpy take the even one, which `even` gives
/// for a number of digits behind the point.
fn float_text(shortest: &str, even: impl FnOnce(usize) -> Option<String>, out: &mut Vec<u8>) {
    let digits = |text: &str| text.split('e').next().map_or(0, |head| head.bytes().filter(u8::is_ascii_digit).count());
    let even = even(digits(shortest).max(1) - 1);
    let text = even.as_deref().unwrap_or(shortest);
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return out.extend_from_slice(text.as_bytes()); // inf
    };
    let Ok(exponent) = exponent.parse::<i32>() else { return };
    if !(-6..21).contains(&exponent) {
        return out.extend_from_slice(text.as_bytes());
    }
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    if mantissa.starts_with('-') {
        out.push(b'-');
    }
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        return out.extend_from_slice(&digits);
    }
    let whole = exponent as usize + 1;
    out.extend(digits.iter().copied().chain(std::iter::repeat(b'0')).take(whole));
    if digits.len() > whole {
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

/// A decimal from its digits, of which the last `scale` are behind the point: canonical, or with all its digits.
pub fn decimal_text(negative: bool, digits: &[u8], scale: u32, exact: bool, out: &mut Vec<u8>) {
    let scale = scale as usize;
    let mut text = Vec::with_capacity(digits.len() + 3);
    if negative {
        text.push(b'-');
    }
    let whole = digits.len().saturating_sub(scale);
    text.extend_from_slice(&digits[..whole]);
    text.push(b'.');
    text.extend(std::iter::repeat_n(b'0', scale - (digits.len() - whole)));
    text.extend_from_slice(&digits[whole..]);
    if exact {
        text.truncate(text.len() - usize::from(scale == 0));
        if whole == 0 {
            text.insert(usize::from(negative), b'0');
        }
        return out.extend_from_slice(&text);
    }
    // A very small one, and a very long one, come out as a float does.
    number_text(&text, out);
}

/// The digits of an integer of any length, big-endian in two's complement, and whether it is negative.
pub fn big_digits(bytes: &[u8]) -> (bool, Vec<u8>) {
    let negative = bytes.first().is_some_and(|&first| first & 0x80 != 0);
    let mut rest: Vec<u8> = bytes.to_vec();
    if negative {
        let mut carry = true;
        for byte in rest.iter_mut().rev() {
            let (sum, over) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (sum, over);
        }
    }
    let mut digits = Vec::new();
    while rest.iter().any(|&byte| byte != 0) {
        let mut remainder = 0u16;
        for byte in &mut rest {
            let value = remainder << 8 | u16::from(*byte);
            *byte = (value / 10) as u8;
            remainder = value % 10;
        }
        digits.push(b'0' + remainder as u8);
    }
    if digits.is_empty() {
        digits.push(b'0');
    }
    digits.reverse();
    (negative, digits)
}

pub fn date_text(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    let _ = if (0..=9999).contains(&year) {
        write!(out, "{year:04}-{month:02}-{day:02}")
    } else {
        write!(out, "{year:+06}-{month:02}-{day:02}")
    };
}

/// A time of day.
pub fn time_text(value: i64, unit: Unit, out: &mut Vec<u8>) {
    let per_second = unit.per_second();
    let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds.div_euclid(3600), seconds / 60 % 60, seconds.rem_euclid(60));
    if fraction != 0 {
        let digits = unit.digits();
        let _ = write!(out, ".{fraction:0digits$}");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

pub fn timestamp_text(value: i64, unit: Unit, zoned: bool, out: &mut Vec<u8>) {
    let per_day = 86_400 * unit.per_second();
    date_text(value.div_euclid(per_day), out);
    out.push(b'T');
    time_text(value.rem_euclid(per_day), unit, out);
    if zoned {
        out.push(b'Z');
    }
}

pub fn uuid_text(bytes: &[u8], out: &mut Vec<u8>) {
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

/// Year, month and day of a day since 1970, in the calendar that goes on for ever in both directions.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let rest = day - (365 * year + year / 4 - year / 100);
    let month = (5 * rest + 2) / 153;
    let date = rest - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
}

fn trimmed(text: &[u8]) -> &[u8] {
    match text {
        [b' ' | b'\t' | b'\r', ..] | [.., b' ' | b'\t' | b'\r'] => text.trim_ascii(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_number_has_one_text() {
        for text in ["1", "1.0", "+1", "01", "1.", " 1 ", "1e0", "10e-1", "1.000"] {
            assert_eq!(of(|out| assert_ne!(number_text(text.as_bytes(), out), Numeric::Not)), "1", "{text}");
        }
        assert_eq!(of(|out| f64_text(1.0, out)), "1");
        assert_eq!(of(|out| f32_text(1.0, out)), "1");
        assert_eq!(of(|out| i64_text(1, out)), "1");
        assert_eq!(of(|out| decimal_text(false, b"100", 2, false, out)), "1");
    }

    #[test]
    fn numbers_are_written_as_javascript_does() {
        for (value, text) in [
            (0.1, "0.1"),
            (-0.0, "0"),
            (1e21, "1e21"),
            (123456789012345680000.0, "123456789012345680000"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(of(|out| f64_text(value, out)), text);
            let written = format!("{value:e}");
            assert_eq!(of(|out| assert_ne!(number_text(written.as_bytes(), out), Numeric::Not)), text);
        }
        assert_eq!(of(|out| f64_text(f64::NEG_INFINITY, out)), "-inf");
        assert_eq!(of(|out| f64_text(-1.5e300, out)), "-1.5e300");
        assert_eq!(of(|out| f64_text(-12.5, out)), "-12.5");
        assert_eq!(of(|out| f32_text(1661.0 / 256.0, out)), "6.4882812");
        assert_eq!(of(|out| f32_text(0.1, out)), "0.1");
        assert_eq!(of(|out| i64_text(i64::MIN, out)), "-9223372036854775808");
        assert_eq!(of(|out| u64_text(u64::MAX, out)), "18446744073709551615");
        assert_eq!(of(|out| assert_ne!(number_text(b"9223372036854775808", out), Numeric::Not)), "9223372036854775808");
        assert_eq!(of(|out| assert_ne!(number_text(b"0.00000010", out), Numeric::Not)), "1e-7");
        assert_eq!(of(|out| assert_ne!(number_text(b"-0.0", out), Numeric::Not)), "0");
    }

    #[test]
    fn digits_are_read_eight_at_a_time() {
        let mut text = String::new();
        for value in (0..2_000u64).chain((3..16).flat_map(|digits| [10u64.pow(digits) - 1, 10u64.pow(digits)])) {
            for plain in [value.to_string(), format!("0{value}"), format!("-{}", value + 1), format!("{value}x")] {
                let wanted = plain.parse::<f64>().map_or(Numeric::Not, Numeric::Number);
                assert_eq!(number(plain.as_bytes()), wanted, "{plain}");
                text.push(',');
                let start = text.len();
                text.push_str(&plain);
                if let Some(few) = few_digits(text.as_bytes(), start, text.len()) {
                    assert_eq!(Numeric::Number(few), wanted, "{plain}");
                }
            }
        }
        for byte in 0..=255u8 {
            for at in 0..8 {
                let mut digits = *b"12345678";
                digits[at] = byte;
                assert_eq!(few_digits(&digits, 0, 8).is_some(), byte.is_ascii_digit(), "{byte} at {at}");
                assert_eq!(few_digits(&digits, at, 8).is_some(), byte.is_ascii_digit());
            }
        }
        assert_eq!(
            (few_digits(b"1234", 0, 4), few_digits(b"123456789", 0, 9), few_digits(b"12345678", 8, 8)),
            (None, None, None)
        );
    }

    #[test]
    fn what_is_no_number_says_so() {
        for text in ["1 2", "x", "--1", "+-1", "1,5", "0x10", "1_000", ".", "-", "e5"] {
            assert_eq!(number(text.as_bytes()), Numeric::Not, "{text}");
            assert_eq!(number_text(text.as_bytes(), &mut Vec::new()), Numeric::Not, "{text}");
        }
        for text in ["", " ", "nan", "NaN", "-nan"] {
            assert_eq!(number(text.as_bytes()), Numeric::Missing, "{text}");
            assert_eq!(number_text(text.as_bytes(), &mut Vec::new()), Numeric::Missing, "{text}");
        }
        assert_eq!(number(b"True"), Numeric::Number(1.0));
        assert!(matches!(number(b"-0"), Numeric::Number(zero) if zero == 0.0 && zero.is_sign_negative()));
    }

    #[test]
    fn times_are_those_of_iso_8601() {
        assert_eq!(of(|out| date_text(0, out)), "1970-01-01");
        assert_eq!(of(|out| date_text(-1, out)), "1969-12-31");
        assert_eq!(of(|out| date_text(19_782, out)), "2024-02-29");
        assert_eq!(of(|out| timestamp_text(1_500, Unit::Millis, true, out)), "1970-01-01T00:00:01.5Z");
        assert_eq!(of(|out| timestamp_text(-1, Unit::Nanos, false, out)), "1969-12-31T23:59:59.999999999");
        assert_eq!(of(|out| time_text(3_661_000_000, Unit::Micros, out)), "01:01:01");
        of(|out| timestamp_text(i64::MIN, Unit::Millis, true, out));
    }

    #[test]
    fn decimals_are_exact() {
        let (negative, digits) = big_digits(&(-12345i128).to_be_bytes());
        assert_eq!(of(|out| decimal_text(negative, &digits, 2, false, out)), "-123.45");
        let (negative, digits) = big_digits(&i128::MAX.to_be_bytes());
        assert_eq!(of(|out| decimal_text(negative, &digits, 0, false, out)), i128::MAX.to_string());
        assert_eq!(of(|out| decimal_text(false, b"5", 3, false, out)), "0.005");
        assert_eq!(of(|out| decimal_text(true, b"50", 3, true, out)), "-0.050");
        assert_eq!(of(|out| decimal_text(false, b"1234567890123456789", 2, true, out)), "12345678901234567.89");
        assert_eq!(of(|out| decimal_text(false, b"7", 0, true, out)), "7");
        assert_eq!(big_digits(&[0x80]), (true, b"128".to_vec()));
    }
}
