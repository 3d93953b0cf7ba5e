//! The parser: blocks of whole lines to columns. It does no I/O, and two parsers never differ in what they read.
//!
//! Lines of a file mostly name the same slots in the same order. So the parser predicts each token's name from an earlier
//! line (`Step`) and only compares bytes; a name that was not predicted is looked up. The prediction costs nothing but
//! time when it is wrong. Lines that go as predicted are read several at a time (`together`) where the processor can do that.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::columns::Columns;
use super::fault::{Reason, shown};
use super::marks::Marks;
use super::number::{self, Digits};
use super::schema::{Schema, Slot, Unknown};
use super::source::Block;
use super::steps::{Step, Target};
use super::tally::Counts;
#[cfg(target_arch = "x86_64")]
use super::together::Together;
use super::unknowns::{self, Unknowns};

/// A longer sequence of names is not remembered.
const MOST_STEPS: usize = 8192;
/// How far a block was read: bytes, and lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub at: usize,
    pub lines: u64,
}

/// A bad line of a block. `before` is the number of samples that the same call had read before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bad {
    pub reason: Reason,
    pub detail: String,
    pub token: String,
    pub column: u64,
    pub line: Cursor,
    pub before: usize,
}

/// What is wrong with a line, where, and how much of the text is to blame.
struct Wrong {
    reason: Reason,
    at: usize,
    length: usize,
    /// What is named instead of the text.
    named: Option<String>,
    detail: String,
}

pub struct Parser {
    #[cfg(target_arch = "x86_64")]
    wide: bool,
    #[cfg(target_arch = "x86_64")]
    together: Option<Together>,
    slots: HashMap<Vec<u8>, Slot, BuildHasherDefault<Fnv>>,
    padding: Option<u64>,
    dense_padding: Option<f32>,
    unknown: Unknown,
    dense_names: Vec<String>,
    dims: Vec<usize>,
    steps: Vec<Step>,
    /// The first step of each slot, sparse ones first; `usize::MAX` without any.
    places: Vec<usize>,
    sparse_count: usize,
    /// Whether a line that goes as predicted has one value in every sparse slot and the right number in every dense one.
    regular: bool,
    /// Regular lines whose offsets are not yet written.
    owed: usize,
    recording: Option<Vec<Step>>,
    /// Of the block at hand.
    marks: Marks,
    unknowns: Unknowns,
    counts: Counts,
}

impl Parser {
    /// The schema must have been checked.
    pub fn new(schema: &Schema, slots: &HashMap<Vec<u8>, Slot>) -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            wide: std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("bmi2")
                && std::arch::is_x86_feature_detected!("lzcnt"),
            #[cfg(target_arch = "x86_64")]
            together: Together::here(),
            slots: slots.iter().map(|(name, slot)| (name.clone(), *slot)).collect(),
            padding: schema.padding.map(|id| id.bits()),
            dense_padding: schema.dense_padding,
            unknown: schema.unknown,
            dense_names: schema.dense.iter().map(|slot| slot.name.clone()).collect(),
            dims: schema.dense.iter().map(|slot| slot.dim).collect(),
            steps: vec![Step::NEVER],
            places: Vec::new(),
            sparse_count: schema.sparse.len(),
            regular: false,
            owed: 0,
            recording: Some(Vec::new()),
            marks: Marks::default(),
            unknowns: Unknowns::default(),
            counts: Counts::new(schema),
        }
    }

    /// Reads samples from the cursor on, until there are `want` more of them or the block is at its end. `starts` gets
    /// where each sample's line begins.
    pub fn parse(
        &mut self,
        block: &Block,
        cursor: &mut Cursor,
        want: usize,
        out: &mut Columns,
        starts: Option<&mut Vec<u32>>,
        bad: &mut Vec<Bad>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: the processor has what it takes.
            return unsafe { self.parse_wide(block, cursor, want, out, starts, bad) };
        }
        // SAFETY: the plain way takes nothing.
        unsafe { self.parse_with::<number::Plain>(block, cursor, want, out, starts, bad) }
    }

    /// The same, compiled for newer processors.
    ///
    /// SAFETY: the processor must have these.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn parse_wide(
        &mut self,
        block: &Block,
        cursor: &mut Cursor,
        want: usize,
        out: &mut Columns,
        starts: Option<&mut Vec<u32>>,
        bad: &mut Vec<Bad>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.parse_with::<number::Wide>(block, cursor, want, out, starts, bad) }
    }

    /// SAFETY: the processor must have what `D` is made for.
    #[inline(always)]
    unsafe fn parse_with<D: Digits>(
        &mut self,
        block: &Block,
        cursor: &mut Cursor,
        want: usize,
        out: &mut Columns,
        mut starts: Option<&mut Vec<u32>>,
        bad: &mut Vec<Bad>,
    ) {
        let begun = out.size;
        let text = block.text();
        if cursor.at == 0 {
            // SAFETY: a block's text is padded.
            unsafe { self.marks.find(text) };
        }
        while cursor.at < text.len() && out.size - begun < want {
            if let Some(length) = block.too_long {
                let detail = format!("{length} bytes");
                let column = 1;
                bad.push(Bad {
                    reason: Reason::TooLong,
                    detail,
                    token: String::new(),
                    column,
                    line: *cursor,
                    before: 0,
                });
                *cursor = Cursor { at: text.len(), lines: cursor.lines + 1 };
                break;
            }
            let line = cursor.lines as usize;
            #[cfg(target_arch = "x86_64")]
            {
                // SAFETY: the marks are of this text, and a block's text is padded.
                let read = unsafe { self.lines(text.as_ptr(), line, want - (out.size - begun), out) };
                if read > 0 {
                    // SAFETY: these lines are there, and the one behind them may be the one behind the last.
                    let start = |line: usize| unsafe { self.marks.start(self.marks.first(line)) };
                    if let Some(starts) = &mut starts {
                        starts.extend((line..line + read).map(|line| start(line) as u32));
                    }
                    *cursor = Cursor { at: start(line + read), lines: cursor.lines + read as u64 };
                    continue;
                }
            }
            let start = cursor.at;
            // SAFETY: the marks are of this text, and a block's text is padded.
            match unsafe { self.line::<D>(text.as_ptr(), start, self.marks.first(line), out) } {
                Ok(end) => {
                    if let Some(starts) = &mut starts {
                        starts.push(start as u32);
                    }
                    cursor.at = end;
                }
                Err(wrong) => {
                    self.undo(out);
                    let token = &text[wrong.at..wrong.at + wrong.length];
                    bad.push(Bad {
                        reason: wrong.reason,
                        detail: wrong.detail,
                        token: wrong.named.unwrap_or_else(|| shown(token)),
                        column: (wrong.at - start) as u64 + 1,
                        line: *cursor,
                        before: out.size - begun,
                    });
                    // SAFETY: the line behind a line of the text may be the one behind the last.
                    cursor.at = unsafe { self.marks.start(self.marks.first(line + 1)) };
                }
            }
            cursor.lines += 1;
        }
        self.settle(out);
        self.counts.samples += (out.size - begun) as u64;
    }

    /// The counts since the last call.
    pub fn take_counts(&mut self) -> Counts {
        let mut taken = std::mem::take(&mut self.counts);
        self.counts.sparse_missing = vec![0; taken.sparse_missing.len()];
        self.counts.dense_missing = vec![0; taken.dense_missing.len()];
        self.unknowns.take(&mut taken);
        taken
    }

    /// Reads lines that go as predicted, up to `most` of them; returns how many. The others have to be read alone.
    ///
    /// SAFETY: `self.marks` must be the marks of this text, which ends with a newline and has `PAD` bytes behind it. The line
    /// must be one of them.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn lines(&mut self, text: *const u8, line: usize, most: usize, out: &mut Columns) -> usize {
        let Some(together) = &mut self.together else { return 0 };
        if !together.is_due() {
            return 0;
        }
        let steps = &self.steps[..self.steps.len() - 1];
        // SAFETY: it was allowed for these steps; the rest is the caller's promise.
        let read = unsafe { together.read(text, &self.marks, line, most, steps, out) };
        self.owed += read;
        if read > 0 {
            self.unknowns.count_lines(steps, read as u64);
        }
        read
    }

    /// One line, whose first token has this number; returns where the next one begins.
    ///
    /// SAFETY: `self.marks` must be the marks of this text, which ends with a newline and has `PAD` bytes behind it.
    #[inline(always)]
    unsafe fn line<D: Digits>(
        &mut self,
        text: *const u8,
        start: usize,
        first: usize,
        out: &mut Columns,
    ) -> Result<usize, Wrong> {
        // SAFETY: marks are within the text, and the last one is a newline, where every line stops at the latest. Words that
        // are read at a token lie within the text and its padding. Steps end with one that never matches. Targets are made
        // from the schema that the columns are made from.
        unsafe {
            let mut at = start;
            let mut next = first;
            let mut step = 0;
            let mut misses = 0;
            let mut tokens = 0;
            loop {
                next += 1;
                let end = self.marks.start(next) - 1;
                let mark = *text.add(end);
                if end != at {
                    let token = text.add(at);
                    let expected = self.steps.get_unchecked(step);
                    let (mut target, mut name) = (expected.target, expected.length);
                    if expected.matches(token) {
                        step += 1;
                    } else {
                        misses += 1;
                        (target, name) = self.miss(std::slice::from_raw_parts(token, end - at), at, &mut step)?;
                    }
                    tokens += 1;
                    let length = end - at - name;
                    let value = token.add(name);
                    match target {
                        Target::Sparse(column) => {
                            let id = match number::id::<D>(value, length) {
                                Some(id) => id,
                                None => number::slow_id(std::slice::from_raw_parts(value, length))
                                    .map_err(|reason| wrong(reason, at, end - at))?,
                            };
                            out.sparse.get_unchecked_mut(column as usize).values.push(id);
                        }
                        Target::Dense(column) => {
                            let number = match number::float::<D>(value, length) {
                                Some(number) => number,
                                None => number::slow_float(std::slice::from_raw_parts(value, length))
                                    .map_err(|reason| wrong(reason, at, end - at))?,
                            };
                            out.dense.get_unchecked_mut(column as usize).values.push(number);
                        }
                        Target::Unknown(name) => {
                            if name != unknowns::SKIPPED {
                                self.unknowns.meet(name);
                            }
                        }
                    }
                }
                at = end + 1;
                if mark == b'\n' {
                    break;
                }
            }
            if misses == 0 && step + 1 == self.steps.len() && self.regular {
                self.owed += 1;
                out.size += 1;
            } else if tokens == 0 {
                return Err(wrong(Reason::Blank, start, 0));
            } else {
                self.commit(start, out)?;
            }
            if misses > 0 {
                self.learn(misses, tokens);
            }
            self.unknowns.count(1);
            Ok(at)
        }
    }

    /// A token that was not predicted: perhaps one more value of the slot before it, else it is looked up.
    #[cold]
    #[inline(never)]
    fn miss(&mut self, token: &[u8], at: usize, step: &mut usize) -> Result<(Target, usize), Wrong> {
        let Some(length) = memchr::memchr(b':', token) else {
            return Err(wrong(Reason::NoColon, at, token.len()));
        };
        if *step > 0 {
            let before = self.steps[*step - 1];
            // SAFETY: a token is followed by padding.
            if unsafe { before.matches(token.as_ptr()) } {
                return Ok((before.target, before.length));
            }
        }
        let name = &token[..length];
        let target = match self.slots.get(name) {
            Some(Slot::Sparse(column)) => Target::Sparse(*column),
            Some(Slot::Dense(column)) => Target::Dense(*column),
            None if name.is_empty() => return Err(wrong(Reason::NoName, at, token.len())),
            None if self.unknown == Unknown::Refuse => return Err(wrong(Reason::UnknownSlot, at, token.len())),
            None if self.unknown == Unknown::Skip => Target::Unknown(unknowns::SKIPPED),
            None => Target::Unknown(self.unknowns.number(name)),
        };
        let place = match target {
            Target::Sparse(column) => self.places.get(column as usize),
            Target::Dense(column) => self.places.get(self.sparse_count + column as usize),
            Target::Unknown(_) => None,
        };
        match place {
            Some(&place) if place != usize::MAX => *step = place + 1,
            _ => *step = (*step + 1).min(self.steps.len() - 1),
        }
        if let Some(recorded) = &mut self.recording
            && recorded.len() < MOST_STEPS
        {
            recorded.push(Step::new(name, target));
        }
        Ok((target, length + 1))
    }

    /// Ends a sample that may lack slots.
    fn commit(&mut self, start: usize, out: &mut Columns) -> Result<(), Wrong> {
        self.settle(out);
        for (column, name) in out.dense.iter().zip(&self.dense_names) {
            let found = column.values.len() - out.size * column.dim;
            if found == 0 && self.dense_padding.is_none() {
                return Err(Wrong { named: Some(name.clone()), ..wrong(Reason::DenseMissing, start, 0) });
            }
            if found != 0 && found != column.dim {
                let (named, detail) = (Some(name.clone()), format!("{} expected, {found} found", column.dim));
                return Err(Wrong { named, detail, ..wrong(Reason::DenseCount, start, 0) });
            }
        }
        out.size += 1;
        for (column, missing) in out.dense.iter_mut().zip(&mut self.counts.dense_missing) {
            if column.values.len() != out.size * column.dim {
                column.values.resize(out.size * column.dim, self.dense_padding.unwrap_or_default());
                *missing += 1;
            }
        }
        for (column, missing) in out.sparse.iter_mut().zip(&mut self.counts.sparse_missing) {
            if column.offsets.last() == Some(&(column.values.len() as i64)) {
                column.values.extend(self.padding);
                *missing += 1;
            }
            column.offsets.push(column.values.len() as i64);
        }
        Ok(())
    }

    /// Writes the offsets of regular lines: one value each.
    fn settle(&mut self, out: &mut Columns) {
        if self.owed > 0 {
            for column in &mut out.sparse {
                let last = column.offsets.last().copied().unwrap_or_default();
                column.offsets.extend(last + 1..=last + self.owed as i64);
            }
            self.owed = 0;
        }
    }

    /// Takes back what a bad line has left.
    #[cold]
    fn undo(&mut self, out: &mut Columns) {
        self.settle(out);
        for column in &mut out.sparse {
            column.values.truncate(column.offsets.last().copied().unwrap_or_default() as usize);
        }
        for column in &mut out.dense {
            column.values.truncate(out.size * column.dim);
        }
        self.unknowns.forget();
        if let Some(recorded) = &mut self.recording {
            recorded.clear();
        }
    }

    /// Takes a recorded line as the new prediction, or decides to record the next one.
    #[cold]
    fn learn(&mut self, misses: usize, tokens: usize) {
        let Some(mut recorded) = self.recording.take() else {
            if misses * 4 > tokens {
                // Without a prediction every token is looked up, and so recorded.
                self.recording = Some(Vec::new());
                self.steps = vec![Step::NEVER];
                self.places.clear();
                self.regular = false;
                #[cfg(target_arch = "x86_64")]
                self.allow_together(&[]);
            }
            return;
        };
        self.places = vec![usize::MAX; self.sparse_count + self.dense_names.len()];
        let mut times = vec![0usize; self.places.len()];
        for (at, step) in recorded.iter().enumerate() {
            let slot = match step.target {
                Target::Sparse(column) => column as usize,
                Target::Dense(column) => self.sparse_count + column as usize,
                Target::Unknown(_) => continue,
            };
            times[slot] += 1;
            self.places[slot] = self.places[slot].min(at);
        }
        self.regular = self.is_regular(&times);
        #[cfg(target_arch = "x86_64")]
        {
            let predicted = recorded.iter().all(|step| step.length <= Step::LONGEST);
            self.allow_together(if self.regular && predicted { &recorded } else { &[] });
        }
        recorded.push(Step::NEVER);
        self.steps = recorded;
    }

    #[cfg(target_arch = "x86_64")]
    fn allow_together(&mut self, steps: &[Step]) {
        if let Some(together) = &mut self.together {
            together.allow(steps, self.dims.len());
        }
    }

    fn is_regular(&self, times: &[usize]) -> bool {
        let (sparse, dense) = times.split_at(self.sparse_count);
        sparse.iter().all(|&times| times == 1) && dense.iter().zip(&self.dims).all(|(&times, &dim)| times == dim)
    }
}

fn wrong(reason: Reason, at: usize, length: usize) -> Wrong {
    Wrong { reason, at, length, named: None, detail: String::new() }
}

/// Names are short, few, and chosen by the person who declared them: FNV-1a is enough.
#[derive(Default)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
#[path = "parser_test.rs"]
mod tests;
