//! A decider: dates and times as people write them, `2024-02-29`, `2024-02-29 12:34:56.789` or `2024-02-29T12:34Z`, as seconds since 1970. Without a
//! zone they are those of UTC, as timestamps of Parquet are.

/// Seconds, or `None` if it is nothing of that kind.
pub fn seconds(text: &[u8]) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *date else { return None };
    let (year, month, day) = (digits(&[y1, y2, y3, y4])?, digits(&[m1, m2])?, digits(&[d1, d2])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) {
        return None;
    }
    let midnight = days(year, month, day) * 86_400;
    let Some((b'T' | b't' | b' ', time)) = rest.split_first().map(|(first, time)| (*first, time)) else {
        return rest.is_empty().then_some(midnight as f64);
    };
    let (clock, zone) = zoned(time)?;
    let (whole, fraction) = clock_of(clock)?;
    Some((midnight + whole - zone) as f64 + fraction)
}

/// `12:34`, `12:34:56` or `12:34:56.789`: whole seconds, and what is left.
fn clock_of(text: &[u8]) -> Option<(i64, f64)> {
    let (clock, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let (hours, minutes, seconds) = match *clock {
        [h1, h2, b':', m1, m2] => (digits(&[h1, h2])?, digits(&[m1, m2])?, 0),
        [h1, h2, b':', m1, m2, b':', s1, s2] => (digits(&[h1, h2])?, digits(&[m1, m2])?, digits(&[s1, s2])?),
        _ => return None,
    };
    if hours > 23 || minutes > 59 || seconds > 59 || (clock.len() == 5 || fraction.is_empty()) != (clock == text) {
        return None;
    }
    let part = if fraction.is_empty() { 0.0 } else { fraction_of(fraction)? };
    Some((hours * 3600 + minutes * 60 + seconds, part))
}

fn fraction_of(text: &[u8]) -> Option<f64> {
    let known = text.len() <= 9 && text.iter().all(u8::is_ascii_digit);
    known.then(|| digits(text)).flatten().map(|number| number as f64 / 10f64.powi(text.len() as i32))
}

/// The time, and how many seconds its zone is ahead of UTC: `Z`, `+02:00`, `+0200` or `+02`; nothing is UTC.
fn zoned(text: &[u8]) -> Option<(&[u8], i64)> {
    if let [time @ .., b'Z' | b'z'] = text {
        return Some((time, 0));
    }
    let Some(at) = text.iter().position(|byte| matches!(byte, b'+' | b'-')) else { return Some((text, 0)) };
    let (hours, minutes) = match text[at + 1..] {
        [h1, h2] => (digits(&[h1, h2])?, 0),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => (digits(&[h1, h2])?, digits(&[m1, m2])?),
        _ => return None,
    };
    if hours > 18 || minutes > 59 {
        return None;
    }
    let ahead = hours * 3600 + minutes * 60;
    Some((&text[..at], if text[at] == b'-' { -ahead } else { ahead }))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_seconds() {
        for (text, expected) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -86_400.0),
            ("2024-02-29", 1_709_164_800.0),
            ("2024-02-29T12:34:56.789", 1_709_210_096.789),
            ("2024-02-29 12:34", 1_709_210_040.0),
            ("2024-02-29 12:34:56+02:00", 1_709_202_896.0),
            ("2024-02-29t12:34:56-0130", 1_709_215_496.0),
            ("2024-02-29T12:34:56Z", 1_709_210_096.0),
            ("0001-01-01", -62_135_596_800.0),
        ] {
            assert_eq!(seconds(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "",
            "2024-02-30",
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "02/29/2024",
            "2024-02-29T",
            "2024-02-29 24:00",
            "2024-02-29 12:34:60",
            "2024-02-29 12:34:56.",
            "2024-02-29 12:34.5",
            "2024-02-29x",
            "2024-02-29 12:34+1",
            "2024-02-29 12:34:56.1234567890",
            "20240229",
            "2024-02-29T12:34:56ZZ",
        ] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
    }
}
