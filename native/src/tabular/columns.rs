//! Values and deciders: what is asked of a column, and what was read of it. Every format brings its values here, so that the same
//! value gives the same id and the same bits of a number wherever it comes from.

use std::sync::Arc;

use super::canon::{self, Numeric, Unit};
use super::fault::shown;
use crate::xxhash::xxh64;

/// Texts of one batch take no more bytes together than this.
const MOST_TEXT: usize = 1 << 30;
const TOO_MUCH_TEXT: &str = "its texts take more than 1 GiB in one batch: ask for fewer rows at a time";
/// So many bad values of one piece are kept with their text.
const BAD_KEPT: usize = 16;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but missing values.
    Null,
    Bool,
    Int,
    UInt,
    Float32,
    Float64,
    /// Bytes as well: nothing is decoded.
    Text,
    Uuid,
    Decimal {
        scale: u32,
    },
    Date,
    Time(Unit),
    Timestamp {
        unit: Unit,
        zoned: bool,
    },
}

impl Kind {
    /// As people read it.
    pub fn name(self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool => "bool".into(),
            Self::Int => "integer".into(),
            Self::UInt => "unsigned integer".into(),
            Self::Float32 => "float32".into(),
            Self::Float64 => "float64".into(),
            Self::Text => "text".into(),
            Self::Uuid => "uuid".into(),
            Self::Decimal { scale } => format!("decimal({scale})"),
            Self::Date => "date".into(),
            Self::Time(unit) => format!("time({})", unit.name()),
            Self::Timestamp { unit, zoned: true } => format!("timestamp({}, UTC)", unit.name()),
            Self::Timestamp { unit, zoned: false } => format!("timestamp({})", unit.name()),
        }
    }
}

/// What a column is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The values themselves; what has no type of numpy's as its canonical text.
    Values,
    /// XXH64 of the canonical text.
    Ids,
    /// The same, of texts that are numbers: "1.0" and 1 are one id.
    NumericIds,
    /// Float64.
    Numbers,
    /// The canonical text itself, that an id is the hash of.
    Texts,
    /// The same, of texts that are numbers.
    NumericTexts,
}

/// One column of the request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub name: String,
    pub want: Want,
    /// Of texts, which have no types: whether each is a list. Parquet says so itself.
    pub lists: bool,
    /// What stands between the elements of a list in CSV.
    pub separator: u8,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Ids(Vec<u64>),
    Numbers(Vec<f64>),
    Bools(Vec<u8>),
    Ints(Vec<i64>),
    UInts(Vec<u64>),
    Floats32(Vec<f32>),
    Floats64(Vec<f64>),
    /// Where each text ends, and all of them end to end.
    Texts(Vec<u64>, Vec<u8>),
}

/// Of a value: there, missing, or not what was asked for.
pub const THERE: u8 = 0;
pub const MISSING: u8 = 1;
pub const BAD: u8 = 2;

/// A value that is not what was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Bad {
    pub at: usize,
    pub value: String,
    pub expected: &'static str,
}

/// Where each row's elements end, and which rows have no list at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lists {
    pub ends: Vec<u64>,
    pub missing: Vec<u8>,
}

/// Values of one column, one per row, or any number in lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub data: Data,
    pub state: Vec<u8>,
    /// The first of the bad ones.
    pub bad: Vec<Bad>,
    pub lists: Option<Lists>,
}

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
    pub missing: Arc<Vec<Vec<u8>>>,
    scratch: Vec<u8>,
}

impl Filler {
    pub fn new(kind: Kind, want: Want, missing: Arc<Vec<Vec<u8>>>) -> Self {
        Self { kind, want, missing, scratch: Vec::new() }
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
        if word.is_empty() || self.is_missing(word) {
            return MISSING;
        }
        if self.want == Want::Texts {
            bytes.extend_from_slice(word);
            return THERE;
        }
        match canon::number_text(word, bytes) {
            Numeric::Number(_) => THERE,
            Numeric::Missing => MISSING,
            Numeric::Not => {
                mark_bad(bad, at, word);
                BAD
            }
        }
    }

    fn text_ids(&self, from: &[u8], spans: &[(u32, u32)], into: &mut Vec<u64>, state: &mut [u8], bad: &mut Vec<Bad>) {
        let before = into.len();
        let mut text = Vec::new();
        for (at, &(start, end)) in spans.iter().enumerate() {
            let word = &from[start as usize..end as usize];
            if word.is_empty() || self.is_missing(word) {
                state[at] = MISSING;
                into.push(0);
                continue;
            }
            if self.want == Want::Ids {
                into.push(xxh64(word, 0));
                continue;
            }
            text.clear();
            match canon::number_text(word, &mut text) {
                Numeric::Number(_) => into.push(xxh64(&text, 0)),
                Numeric::Missing => {
                    state[at] = MISSING;
                    into.push(0);
                }
                Numeric::Not => {
                    mark_bad(bad, before + at, word);
                    state[at] = BAD;
                    into.push(0);
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
            Raw::Bytes(from, spans) => {
                for (at, &(start, end)) in spans.iter().enumerate() {
                    let word = &from[start as usize..end as usize];
                    if matches!(self.kind, Kind::Decimal { .. }) {
                        self.scratch.clear();
                        let mut text = std::mem::take(&mut self.scratch);
                        self.text(raw, at, &mut text);
                        into.push(as_number(&text));
                        self.scratch = text;
                        continue;
                    }
                    let read = if self.is_missing(word) { Numeric::Missing } else { canon::number_or_moment(word) };
                    into.push(match read {
                        Numeric::Number(number) => number,
                        Numeric::Missing => f64::NAN,
                        Numeric::Not => {
                            mark_bad(bad, before + at, word);
                            state[at] = BAD;
                            f64::NAN
                        }
                    });
                }
            }
        }
        for (state, number) in state.iter_mut().zip(&into[before..]) {
            if number.is_nan() && *state == THERE {
                *state = MISSING;
            }
        }
    }

    fn is_missing(&self, word: &[u8]) -> bool {
        !self.missing.is_empty() && self.missing.iter().any(|missing| missing == word)
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

fn as_number(text: &[u8]) -> f64 {
    match canon::number(text) {
        Numeric::Number(number) => number,
        _ => f64::NAN,
    }
}

/// Keeps a bad value's text, if it is one of the first.
fn mark_bad(bad: &mut Vec<Bad>, at: usize, word: &[u8]) {
    if bad.len() < BAD_KEPT {
        bad.push(Bad { at, value: shown(word), expected: "a number" });
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

impl Lists {
    /// A row whose elements end here.
    pub fn push(&mut self, end: usize, missing: bool) {
        self.ends.push(end as u64);
        self.missing.push(u8::from(missing));
    }
}

impl Column {
    /// Values, in lists or not.
    pub fn values(&self) -> usize {
        self.state.len()
    }

    pub fn rows(&self) -> usize {
        self.lists.as_ref().map_or(self.state.len(), |lists| lists.ends.len())
    }

    /// Whether its texts take no more than a batch may have.
    pub fn check_text(&self) -> Result<(), &'static str> {
        match &self.data {
            Data::Texts(_, bytes) if bytes.len() > MOST_TEXT => Err(TOO_MUCH_TEXT),
            _ => Ok(()),
        }
    }

    /// Appends missing values.
    pub fn pad(&mut self, count: usize) {
        let length = self.state.len() + count;
        self.state.resize(length, MISSING);
        match &mut self.data {
            Data::Ids(values) | Data::UInts(values) => values.resize(length, 0),
            Data::Numbers(values) | Data::Floats64(values) => values.resize(length, f64::NAN),
            Data::Bools(values) => values.resize(length, 0),
            Data::Ints(values) => values.resize(length, 0),
            Data::Floats32(values) => values.resize(length, f32::NAN),
            Data::Texts(ends, bytes) => ends.resize(length, bytes.len() as u64),
        }
    }

    /// Forgets all rows but the first, also what a last list has that was not ended.
    pub fn truncate(&mut self, rows: usize) {
        let values = match &mut self.lists {
            None => rows,
            Some(lists) => {
                lists.ends.truncate(rows);
                lists.missing.truncate(rows);
                lists.ends.last().map_or(0, |&end| end as usize)
            }
        };
        match &mut self.data {
            Data::Ids(all) | Data::UInts(all) => all.truncate(values),
            Data::Numbers(all) | Data::Floats64(all) => all.truncate(values),
            Data::Bools(all) => all.truncate(values),
            Data::Ints(all) => all.truncate(values),
            Data::Floats32(all) => all.truncate(values),
            Data::Texts(ends, bytes) => {
                ends.truncate(values);
                bytes.truncate(ends.last().map_or(0, |&end| end as usize));
            }
        }
        self.state.truncate(values);
        self.bad.retain(|bad| bad.at < values);
    }

    /// Appends words of a dictionary, or says why that can't be.
    pub fn gather(&mut self, words: &Self, indices: &[u32]) -> Result<(), &'static str> {
        let count = words.values();
        if indices.iter().fold(0, |most, &index| most.max(index)) as usize >= count && !indices.is_empty() {
            return Err("an index beyond the end of its dictionary");
        }
        let before = self.state.len();
        match (&mut self.data, &words.data) {
            (Data::Ids(into), Data::Ids(from)) | (Data::UInts(into), Data::UInts(from)) => pick(into, from, indices),
            (Data::Numbers(into), Data::Numbers(from)) | (Data::Floats64(into), Data::Floats64(from)) => {
                pick(into, from, indices);
            }
            (Data::Bools(into), Data::Bools(from)) => pick(into, from, indices),
            (Data::Ints(into), Data::Ints(from)) => pick(into, from, indices),
            (Data::Floats32(into), Data::Floats32(from)) => pick(into, from, indices),
            (Data::Texts(ends, bytes), Data::Texts(from_ends, from)) => {
                for &index in indices {
                    let index = index as usize;
                    let start = if index == 0 { 0 } else { from_ends[index - 1] };
                    if bytes.len() > MOST_TEXT {
                        return Err(TOO_MUCH_TEXT);
                    }
                    bytes.extend_from_slice(&from[start as usize..from_ends[index] as usize]);
                    ends.push(bytes.len() as u64);
                }
            }
            _ => return Err("a dictionary of another type"),
        }
        if words.state.iter().all(|&state| state == THERE) {
            self.state.resize(before + indices.len(), THERE);
        } else {
            pick(&mut self.state, &words.state, indices);
            for (at, &index) in indices.iter().enumerate() {
                if self.state[before + at] == BAD && self.bad.len() < BAD_KEPT {
                    let known = words.bad.iter().find(|bad| bad.at == index as usize);
                    let value = known.map_or_else(|| "...".into(), |bad| bad.value.clone());
                    self.bad.push(Bad { at: before + at, value, expected: "a number" });
                }
            }
        }
        Ok(())
    }

    /// Spreads the values from `start` on over as many places as `there` has, of which those with 0 are missing.
    pub fn spread(&mut self, start: usize, there: &[u8]) {
        let present = self.state.len() - start;
        for bad in self.bad.iter_mut().filter(|bad| bad.at >= start) {
            let mut left = bad.at - start;
            let place = there.iter().position(|&is_there| {
                let found = is_there != 0 && left == 0;
                left -= usize::from(is_there != 0 && left > 0);
                found
            });
            bad.at = start + place.unwrap_or(0);
        }
        match &mut self.data {
            Data::Ids(values) | Data::UInts(values) => spread(values, start, present, there, 0),
            Data::Numbers(values) | Data::Floats64(values) => spread(values, start, present, there, f64::NAN),
            Data::Bools(values) => spread(values, start, present, there, 0),
            Data::Ints(values) => spread(values, start, present, there, 0),
            Data::Floats32(values) => spread(values, start, present, there, f32::NAN),
            Data::Texts(ends, _) => {
                let before = if start == 0 { 0 } else { ends[start - 1] };
                spread(ends, start, present, there, 0);
                let mut end = before;
                for (place, &is_there) in ends[start..].iter_mut().zip(there) {
                    if is_there == 0 {
                        *place = end;
                    }
                    end = *place;
                }
            }
        }
        spread(&mut self.state, start, present, there, MISSING);
    }

    /// Takes the first rows off.
    pub fn split_front(&mut self, rows: usize) -> Self {
        let values = match &self.lists {
            None => rows,
            Some(_) if rows == 0 => 0,
            Some(lists) => lists.ends[rows - 1] as usize,
        };
        let lists = self.lists.as_mut().map(|lists| {
            let mut rest = lists.ends.split_off(rows);
            rest.iter_mut().for_each(|end| *end -= values as u64);
            let missing = front(&mut lists.missing, rows);
            Lists { ends: std::mem::replace(&mut lists.ends, rest), missing }
        });
        let data = match &mut self.data {
            Data::Ids(all) => Data::Ids(front(all, values)),
            Data::Numbers(all) => Data::Numbers(front(all, values)),
            Data::Bools(all) => Data::Bools(front(all, values)),
            Data::Ints(all) => Data::Ints(front(all, values)),
            Data::UInts(all) => Data::UInts(front(all, values)),
            Data::Floats32(all) => Data::Floats32(front(all, values)),
            Data::Floats64(all) => Data::Floats64(front(all, values)),
            Data::Texts(ends, bytes) => {
                let ends_here = front(ends, values);
                let cut = ends_here.last().copied().unwrap_or(0);
                ends.iter_mut().for_each(|end| *end -= cut);
                Data::Texts(ends_here, front(bytes, cut as usize))
            }
        };
        let (bad, mut later): (Vec<Bad>, Vec<Bad>) =
            std::mem::take(&mut self.bad).into_iter().partition(|bad| bad.at < values);
        later.iter_mut().for_each(|bad| bad.at -= values);
        self.bad = later;
        Self { data, state: front(&mut self.state, values), bad, lists }
    }

    /// Marks the rows with a bad value.
    pub fn mark_bad_rows(&self, rows: &mut [u8]) {
        if !self.state.contains(&BAD) {
            return;
        }
        match &self.lists {
            None => rows.iter_mut().zip(&self.state).for_each(|(row, &state)| *row |= u8::from(state == BAD)),
            Some(lists) => {
                let mut start = 0;
                for (row, &end) in rows.iter_mut().zip(&lists.ends) {
                    *row |= u8::from(self.state[start..end as usize].contains(&BAD));
                    start = end as usize;
                }
            }
        }
    }

    /// The row of the first bad value, and that value.
    pub fn first_bad(&self) -> Option<(usize, &Bad)> {
        let bad = self.bad.first()?;
        let row = self.lists.as_ref().map_or(bad.at, |lists| lists.ends.partition_point(|&end| end <= bad.at as u64));
        Some((row, bad))
    }

    /// Takes out the rows that are marked.
    pub fn drop_rows(&mut self, marked: &[u8]) {
        let mut keep = Vec::with_capacity(self.values());
        match &mut self.lists {
            None => keep.extend(marked.iter().map(|&marked| marked == 0)),
            Some(lists) => {
                let (mut start, mut kept, mut rows) = (0, 0, Vec::new());
                for (&end, &marked) in lists.ends.iter().zip(marked) {
                    let length = end - start;
                    keep.extend(std::iter::repeat_n(marked == 0, length as usize));
                    if marked == 0 {
                        kept += length;
                        rows.push(kept);
                    }
                    start = end;
                }
                lists.ends = rows;
                let mut marks = marked.iter();
                lists.missing.retain(|_| marks.next() == Some(&0));
            }
        }
        match &mut self.data {
            Data::Ids(values) | Data::UInts(values) => keep_some(values, &keep),
            Data::Numbers(values) | Data::Floats64(values) => keep_some(values, &keep),
            Data::Bools(values) => keep_some(values, &keep),
            Data::Ints(values) => keep_some(values, &keep),
            Data::Floats32(values) => keep_some(values, &keep),
            Data::Texts(ends, bytes) => {
                let (mut new_ends, mut new_bytes, mut start) = (Vec::new(), Vec::new(), 0);
                for (&end, &keep) in ends.iter().zip(&keep) {
                    if keep {
                        new_bytes.extend_from_slice(&bytes[start as usize..end as usize]);
                        new_ends.push(new_bytes.len() as u64);
                    }
                    start = end;
                }
                (*ends, *bytes) = (new_ends, new_bytes);
            }
        }
        keep_some(&mut self.state, &keep);
        self.bad.clear();
    }
}

fn keep_some<T>(values: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    values.retain(|_| keep.next() == Some(&true));
}

fn front<T>(all: &mut Vec<T>, count: usize) -> Vec<T> {
    let rest = all.split_off(count);
    std::mem::replace(all, rest)
}

#[inline]
fn pick<T: Copy>(into: &mut Vec<T>, from: &[T], indices: &[u32]) {
    into.extend(indices.iter().map(|&index| from[index as usize]));
}

/// From the end on, so that nothing is overwritten that is still needed.
fn spread<T: Copy>(values: &mut Vec<T>, start: usize, present: usize, there: &[u8], missing: T) {
    values.resize(start + there.len(), missing);
    let mut from = start + present;
    for at in (0..there.len()).rev() {
        values[start + at] = if there[at] == 0 {
            missing
        } else {
            from -= 1;
            values[from]
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filler(kind: Kind, want: Want) -> Filler {
        Filler::new(kind, want, Arc::new(vec![b"NA".to_vec()]))
    }

    fn texts(words: &[&str]) -> (Vec<u8>, Vec<(u32, u32)>) {
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

    #[test]
    fn bad_values_are_marked_where_they_are() {
        let (bytes, spans) = texts(&["1", "x", "2"]);
        let mut column = filler(Kind::Text, Want::Numbers).column(false);
        column.pad(1);
        filler(Kind::Text, Want::Numbers).fill(Raw::Bytes(&bytes, &spans), &mut column);
        column.spread(1, &[0, 1, 0, 1, 1]);
        assert_eq!(column.state, [MISSING, MISSING, THERE, MISSING, BAD, THERE]);
        assert_eq!(column.first_bad().map(|(row, bad)| (row, bad.value.as_str())), Some((4, "x")));
        let mut marked = vec![0; 6];
        column.mark_bad_rows(&mut marked);
        column.drop_rows(&marked);
        assert_eq!((column.rows(), column.state.contains(&BAD)), (5, false));
    }

    #[test]
    fn a_dictionary_s_words_are_hashed_once_and_its_bounds_are_kept() {
        let (bytes, spans) = texts(&["a", "", "b"]);
        let mut words = filler(Kind::Text, Want::Ids).column(false);
        filler(Kind::Text, Want::Ids).fill(Raw::Bytes(&bytes, &spans), &mut words);
        let mut column = filler(Kind::Text, Want::Ids).column(false);
        assert_eq!(column.gather(&words, &[2, 1, 2]), Ok(()));
        assert_eq!(column.state, [THERE, MISSING, THERE]);
        assert!(column.gather(&words, &[3]).is_err());
        assert_eq!(column.gather(&words, &[]), Ok(()));
    }

    #[test]
    fn the_first_rows_of_lists_are_taken_off() {
        let (bytes, spans) = texts(&["a", "bc", "d"]);
        let mut filler = filler(Kind::Text, Want::Values);
        let mut column = filler.column(true);
        filler.fill(Raw::Bytes(&bytes, &spans), &mut column);
        column.lists = Some(Lists { ends: vec![0, 2, 3], missing: vec![1, 0, 0] });
        let first = column.split_front(2);
        assert_eq!(first.data, Data::Texts(vec![1, 3], b"abc".to_vec()));
        assert_eq!(first.lists, Some(Lists { ends: vec![0, 2], missing: vec![1, 0] }));
        assert_eq!(column.data, Data::Texts(vec![1], b"d".to_vec()));
        assert_eq!((column.rows(), first.rows()), (1, 2));
    }
}
