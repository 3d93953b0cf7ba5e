//! A decider: stored values become ids, numbers, texts or values. Every format brings its values here, so that the same value
//! gives the same id and the same bits of a number wherever it comes from.

use std::sync::Arc;

use super::asked::{Kind, Want};
use super::canon::{self, Numeric};
use super::columns::{BAD, Bad, Column, Data, Lists, MISSING, THERE};
use crate::xxhash::xxh64;

/// Values as a format stores them.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    Bools(&'a [u8]),
    Ints(&'a [i64]),
    Floats32(&'a [f32]),
    Floats64(&'a [f64]),
    /// Pieces of some bytes, from where to where.
    Bytes(&'a [u8], &'a [(u32, u32)]),
}

/// What turns stored values of one kind into what was asked for.
#[derive(Clone, Debug)]
pub struct Filler {
    pub kind: Kind,
    pub want: Want,
    /// Texts that mean that nothing is there, where ids or numbers are asked for. An empty one always does.
    missing: Arc<Vec<Vec<u8>>>,
    /// A bit for each length that one of these has; the last for all from 63 bytes on.
    missing_lengths: u64,
    scratch: Vec<u8>,
}

impl Filler {
    pub fn new(kind: Kind, want: Want, missing: Arc<Vec<Vec<u8>>>) -> Self {
        let missing_lengths = missing.iter().fold(1, |lengths, word| lengths | length_bit(word));
        Self { kind, want, missing, missing_lengths, scratch: Vec::new() }
    }

    pub fn column(&self, lists: bool) -> Column {
        let data = match (self.want, self.kind) {
            (Want::Ids | Want::NumericIds, _) => Data::Ids(Vec::new()),
            (Want::Numbers, _) => Data::Numbers(Vec::new()),
            (Want::Texts | Want::NumericTexts, _) => Data::Texts(Vec::new(), Vec::new()),
            (Want::Values, Kind::Bool) => Data::Bools(Vec::new()),
            (Want::Values, Kind::Int | Kind::Date | Kind::Time(_) | Kind::Timestamp { .. }) => Data::Ints(Vec::new()),
            (Want::Values, Kind::UInt) => Data::UInts(Vec::new()),
            (Want::Values, Kind::Float32) => Data::Floats32(Vec::new()),
            (Want::Values, Kind::Float64) => Data::Floats64(Vec::new()),
            (Want::Values, Kind::Null | Kind::Text | Kind::Uuid | Kind::Decimal { .. }) => {
                Data::Texts(Vec::new(), Vec::new())
            }
        };
        Column { data, state: Vec::new(), bad: Vec::new(), lists: lists.then(Lists::default) }
    }

    /// Appends values; all of them are there.
    pub fn fill(&mut self, raw: Raw<'_>, out: &mut Column) {
        let before = out.state.len();
        let count = raw.len();
        out.state.resize(before + count, THERE);
        match (&mut out.data, raw) {
            (Data::Bools(into), Raw::Bools(from)) => into.extend_from_slice(from),
            (Data::Ints(into), Raw::Ints(from)) => into.extend_from_slice(from),
            (Data::UInts(into), Raw::Ints(from)) => into.extend(from.iter().map(|&value| value as u64)),
            (Data::Floats32(into), Raw::Floats32(from)) => into.extend_from_slice(from),
            (Data::Floats64(into), Raw::Floats64(from)) => into.extend_from_slice(from),
            (Data::Texts(ends, bytes), Raw::Bytes(from, spans)) if self.kind == Kind::Text => {
                for (at, &(start, end)) in spans.iter().enumerate() {
                    let word = &from[start as usize..end as usize];
                    if self.want == Want::Values {
                        bytes.extend_from_slice(word);
                    } else {
                        out.state[before + at] = self.word_text(word, before + at, bytes, &mut out.bad);
                    }
                    ends.push(bytes.len() as u64);
                }
            }
            (Data::Texts(ends, bytes), raw) => {
                for at in 0..count {
                    if self.want != Want::Values && raw.is_nan(at) {
                        out.state[before + at] = MISSING;
                    } else {
                        self.text(raw, at, bytes);
                    }
                    ends.push(bytes.len() as u64);
                }
            }
            (Data::Ids(into), Raw::Bytes(from, spans)) if self.kind == Kind::Text => {
                self.text_ids(from, spans, into, &mut out.state[before..], &mut out.bad);
            }
            (Data::Ids(into), raw) => {
                for at in 0..count {
                    self.scratch.clear();
                    let mut scratch = std::mem::take(&mut self.scratch);
                    if raw.is_nan(at) {
                        out.state[before + at] = MISSING;
                        into.push(0);
                    } else {
                        self.text(raw, at, &mut scratch);
                        into.push(xxh64(&scratch, 0));
                    }
                    self.scratch = scratch;
                }
            }
            (Data::Numbers(into), raw) => self.numbers(raw, into, &mut out.state[before..], &mut out.bad),
            // A kind and its storage belong together, as the schema says; anything else is all missing.
            (_, _) => {
                out.state.truncate(before);
                out.pad(count);
            }
        }
    }

    /// The canonical text of a text; what it says of it.
    fn word_text(&self, word: &[u8], at: usize, bytes: &mut Vec<u8>, bad: &mut Vec<Bad>) -> u8 {
        if self.want != Want::Texts {
            return self.numeric_text(word, at, bytes, bad);
        }
        if self.is_missing(word) {
            return MISSING;
        }
        bytes.extend_from_slice(word);
        THERE
    }

    fn text_ids(&self, from: &[u8], spans: &[(u32, u32)], into: &mut Vec<u64>, state: &mut [u8], bad: &mut Vec<Bad>) {
        let before = into.len();
        into.resize(before + spans.len(), 0);
        let places = spans.iter().zip(&mut into[before..]).zip(state);
        if self.want == Want::Ids {
            for ((&(start, end), id), state) in places {
                let word = &from[start as usize..end as usize];
                match self.is_missing(word) {
                    true => *state = MISSING,
                    false => *id = xxh64(word, 0),
                }
            }
            return;
        }
        let mut text = Vec::new();
        for (at, ((&(start, end), id), state)) in places.enumerate() {
            let word = &from[start as usize..end as usize];
            text.clear();
            *state = self.numeric_text(word, before + at, &mut text, bad);
            if *state == THERE {
                *id = xxh64(&text, 0);
            }
        }
    }

    /// The canonical text of a text that is a number; what it says of it.
    fn numeric_text(&self, word: &[u8], at: usize, text: &mut Vec<u8>, bad: &mut Vec<Bad>) -> u8 {
        if self.is_missing(word) {
            return MISSING;
        }
        match canon::number_text(word, text) {
            Numeric::Number(_) => THERE,
            Numeric::Missing => MISSING,
            Numeric::Not => {
                Bad::keep(bad, at, word);
                BAD
            }
        }
    }

    /// The numbers that texts stand for.
    fn text_numbers(
        &self,
        from: &[u8],
        spans: &[(u32, u32)],
        into: &mut Vec<f64>,
        state: &mut [u8],
        bad: &mut Vec<Bad>,
    ) {
        let before = into.len();
        into.resize(before + spans.len(), f64::NAN);
        for (at, ((&(start, end), number), state)) in spans.iter().zip(&mut into[before..]).zip(state).enumerate() {
            let word = &from[start as usize..end as usize];
            if self.missing.is_empty()
                && let Some(read) = canon::few_digits(from, start as usize, end as usize)
            {
                *number = read;
                continue;
            }
            let read = if self.is_missing(word) { Numeric::Missing } else { canon::number_or_moment(word) };
            match read {
                Numeric::Number(read) => *number = read,
                Numeric::Missing => *state = MISSING,
                Numeric::Not => {
                    Bad::keep(bad, before + at, word);
                    *state = BAD;
                }
            }
        }
    }

    fn numbers(&mut self, raw: Raw<'_>, into: &mut Vec<f64>, state: &mut [u8], bad: &mut Vec<Bad>) {
        let before = into.len();
        match raw {
            Raw::Bools(from) => into.extend(from.iter().map(|&truth| f64::from(truth))),
            Raw::Ints(from) => match self.kind {
                Kind::UInt => into.extend(from.iter().map(|&value| value as u64 as f64)),
                Kind::Decimal { scale } if scale > 0 => {
                    // Both are exact below 2^53, so the quotient is the nearest float.
                    let by = 10f64.powi(scale.min(22) as i32);
                    for &value in from {
                        if scale <= 22 && value.unsigned_abs() < 1 << 53 {
                            into.push(value as f64 / by);
                        } else {
                            self.scratch.clear();
                            let mut text = std::mem::take(&mut self.scratch);
                            self.text(Raw::Ints(&[value]), 0, &mut text);
                            into.push(as_number(&text));
                            self.scratch = text;
                        }
                    }
                }
                Kind::Time(unit) | Kind::Timestamp { unit, .. } => {
                    let by = unit.per_second() as f64;
                    into.extend(from.iter().map(|&value| value as f64 / by));
                }
                Kind::Date => into.extend(from.iter().map(|&days| days as f64 * 86_400.0)),
                _ => into.extend(from.iter().map(|&value| value as f64)),
            },
            Raw::Floats32(from) => into.extend(from.iter().map(|&value| f64::from(value))),
            Raw::Floats64(from) => into.extend_from_slice(from),
            Raw::Bytes(from, spans) if !matches!(self.kind, Kind::Decimal { .. }) => {
                return self.text_numbers(from, spans, into, state, bad);
            }
            Raw::Bytes(_, spans) => {
                for at in 0..spans.len() {
                    self.scratch.clear();
                    let mut text = std::mem::take(&mut self.scratch);
                    self.text(raw, at, &mut text);
                    into.push(as_number(&text));
                    self.scratch = text;
                }
            }
        }
        for (state, number) in state.iter_mut().zip(&into[before..]) {
            if number.is_nan() && *state == THERE {
                *state = MISSING;
            }
        }
    }

    /// Whether a text means that nothing is there.
    #[inline]
    fn is_missing(&self, word: &[u8]) -> bool {
        self.missing_lengths & length_bit(word) != 0
            && (word.is_empty() || self.missing.iter().any(|known| known == word))
    }

    /// The canonical text of one value.
    fn text(&self, raw: Raw<'_>, at: usize, out: &mut Vec<u8>) {
        match raw {
            Raw::Bools(from) => out.extend_from_slice(if from[at] != 0 { b"true" } else { b"false" }),
            Raw::Ints(from) => match self.kind {
                Kind::UInt => canon::u64_text(from[at] as u64, out),
                Kind::Decimal { scale } => {
                    let mut digits = Vec::with_capacity(20);
                    canon::u64_text(from[at].unsigned_abs(), &mut digits);
                    canon::decimal_text(from[at] < 0, &digits, scale, self.want == Want::Values, out);
                }
                Kind::Date => canon::date_text(from[at], out),
                Kind::Time(unit) => canon::time_text(from[at], unit, out),
                Kind::Timestamp { unit, zoned } => canon::timestamp_text(from[at], unit, zoned, out),
                _ => canon::i64_text(from[at], out),
            },
            Raw::Floats32(from) => canon::f32_text(from[at], out),
            Raw::Floats64(from) => canon::f64_text(from[at], out),
            Raw::Bytes(from, spans) => {
                let (start, end) = spans[at];
                let bytes = &from[start as usize..end as usize];
                match self.kind {
                    Kind::Decimal { scale } => {
                        let (negative, digits) = canon::big_digits(bytes);
                        canon::decimal_text(negative, &digits, scale, self.want == Want::Values, out);
                    }
                    Kind::Uuid => canon::uuid_text(bytes, out),
                    _ => out.extend_from_slice(bytes),
                }
            }
        }
    }
}

fn length_bit(word: &[u8]) -> u64 {
    1 << word.len().min(63)
}

fn as_number(text: &[u8]) -> f64 {
    match canon::number(text) {
        Numeric::Number(number) => number,
        _ => f64::NAN,
    }
}

impl Raw<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Bools(from) => from.len(),
            Self::Ints(from) => from.len(),
            Self::Floats32(from) => from.len(),
            Self::Floats64(from) => from.len(),
            Self::Bytes(_, spans) => spans.len(),
        }
    }

    fn is_nan(&self, at: usize) -> bool {
        match self {
            Self::Floats32(from) => from[at].is_nan(),
            Self::Floats64(from) => from[at].is_nan(),
            _ => false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn filler(kind: Kind, want: Want) -> Filler {
        Filler::new(kind, want, Arc::new(vec![b"NA".to_vec()]))
    }

    pub(in super::super) fn texts(words: &[&str]) -> (Vec<u8>, Vec<(u32, u32)>) {
        let mut spans = Vec::new();
        let mut bytes = Vec::new();
        for word in words {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(word.as_bytes());
            spans.push((start, bytes.len() as u32));
        }
        (bytes, spans)
    }

    #[test]
    fn ids_are_hashes_of_canonical_texts() {
        let (bytes, spans) = texts(&["1", "", "NA", "1.0"]);
        let mut column = filler(Kind::Text, Want::Ids).column(false);
        filler(Kind::Text, Want::Ids).fill(Raw::Bytes(&bytes, &spans), &mut column);
        assert_eq!(column.data, Data::Ids(vec![xxh64(b"1", 0), 0, 0, xxh64(b"1.0", 0)]));
        assert_eq!(column.state, [THERE, MISSING, MISSING, THERE]);
        let mut column = filler(Kind::Text, Want::NumericIds).column(false);
        filler(Kind::Text, Want::NumericIds).fill(Raw::Bytes(&bytes, &spans), &mut column);
        filler(Kind::Float64, Want::NumericIds).fill(Raw::Floats64(&[1.0, f64::NAN]), &mut column);
        filler(Kind::Int, Want::NumericIds).fill(Raw::Ints(&[1]), &mut column);
        let one = xxh64(b"1", 0);
        assert_eq!(column.data, Data::Ids(vec![one, 0, 0, one, one, 0, one]));
        assert_eq!(column.state, [THERE, MISSING, MISSING, THERE, THERE, MISSING, THERE]);
    }
}
