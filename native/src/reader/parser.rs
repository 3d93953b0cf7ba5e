//! The parser: blocks of whole lines to columns. It does no I/O, and two parsers never differ in what they read.
//!
//! Lines of a file mostly name the same slots in the same order. So the parser predicts each token's name from an earlier
//! line (`Step`) and only compares bytes; a name that was not predicted is looked up. The prediction costs nothing but
//! time when it is wrong.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::columns::Columns;
use super::fault::{Reason, shown};
use super::number;
use super::schema::{Schema, Slot, Unknown};
use super::source::Block;
use super::tally::{Counts, LONGEST_UNKNOWN, MOST_UNKNOWN, Times};

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

/// Where the value of a token goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Sparse(u32),
    Dense(u32),
    Unknown(u32),
}

/// A predicted token: its first bytes, up to and including the colon.
#[derive(Clone, Copy)]
struct Step {
    want: u128,
    mask: u128,
    length: usize,
    target: Target,
}

impl Step {
    /// No token begins with a newline. The last step is this one, so that nobody goes on behind it.
    const NEVER: Self = Self { want: b'\n' as u128, mask: 0xff, length: 0, target: Target::Unknown(u32::MAX) };

    /// Names that do not fit into 16 bytes with their colon are never predicted.
    fn new(name: &[u8], target: Target) -> Self {
        let length = name.len() + 1;
        if length > 16 {
            return Self { length, target, ..Self::NEVER };
        }
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name);
        bytes[name.len()] = b':';
        let mask = if length == 16 { u128::MAX } else { (1 << (8 * length)) - 1 };
        Self { want: u128::from_le_bytes(bytes), mask, length, target }
    }

    /// SAFETY: sixteen bytes must be readable at `from`.
    #[inline(always)]
    unsafe fn matches(&self, from: *const u8) -> bool {
        // SAFETY: the caller's promise.
        let bytes = u128::from_le(unsafe { from.cast::<u128>().read_unaligned() });
        (bytes ^ self.want) & self.mask == 0
    }
}

/// What is wrong with a line, where, and how much of the text is to blame.
struct Wrong {
    reason: Reason,
    at: *const u8,
    length: usize,
    /// What is named instead of the text.
    named: Option<String>,
    detail: String,
}

pub struct Parser {
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
    unknown_names: HashMap<Vec<u8>, u32>,
    unknown_times: Vec<(String, Times)>,
    unknown_here: Vec<u32>,
    counts: Counts,
}

impl Parser {
    /// The schema must have been checked.
    pub fn new(schema: &Schema, slots: &HashMap<Vec<u8>, Slot>) -> Self {
        Self {
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
            unknown_names: HashMap::new(),
            unknown_times: Vec::new(),
            unknown_here: Vec::new(),
            counts: Counts::new(schema),
        }
    }

    /// Reads samples from the cursor on, until there are `want` more of them or the block is at its end. `starts` gets
    /// where each sample's line begins.
    pub fn parse(
        &mut self, block: &Block, cursor: &mut Cursor, want: usize, out: &mut Columns, mut starts: Option<&mut Vec<u32>>,
        bad: &mut Vec<Bad>,
    ) {
        let begun = out.size;
        let text = block.text();
        while cursor.at < text.len() && out.size - begun < want {
            if let Some(length) = block.too_long {
                let detail = format!("{length} bytes");
                let column = 1;
                bad.push(Bad { reason: Reason::TooLong, detail, token: String::new(), column, line: *cursor, before: 0 });
                *cursor = Cursor { at: text.len(), lines: cursor.lines + 1 };
                break;
            }
            let start = text[cursor.at..].as_ptr();
            // SAFETY: a block's text ends with a newline, behind which `PAD` bytes may be read.
            let end = match unsafe { self.line(start, out) } {
                Ok(end) => {
                    if let Some(starts) = &mut starts {
                        starts.push(cursor.at as u32);
                    }
                    end
                }
                Err(wrong) => {
                    self.undo(out);
                    let column = wrong.at as usize - start as usize;
                    let rest = &text[cursor.at + column..];
                    bad.push(Bad {
                        reason: wrong.reason,
                        detail: wrong.detail,
                        token: wrong.named.unwrap_or_else(|| shown(&rest[..wrong.length.min(rest.len())])),
                        column: column as u64 + 1,
                        line: *cursor,
                        before: out.size - begun,
                    });
                    let length = memchr::memchr(b'\n', &text[cursor.at..]).map_or(text.len() - cursor.at, |at| at + 1);
                    start.wrapping_add(length)
                }
            };
            cursor.at += end as usize - start as usize;
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
        for (name, times) in &mut self.unknown_times {
            if times.values > 0 {
                let own = taken.unknown.entry(name.clone()).or_default();
                own.values += times.values;
                own.samples += times.samples;
                *times = Times::default();
            }
        }
        taken
    }

    /// One line; returns where the next one begins.
    ///
    /// SAFETY: `start` must be within a text that ends with a newline, with `PAD` readable bytes behind it.
    #[inline(always)]
    unsafe fn line(&mut self, start: *const u8, out: &mut Columns) -> Result<*const u8, Wrong> {
        // SAFETY, for the whole function: `at` goes forward over bytes that are no newline, and stops at one; words that are
        // read there lie within the text and its padding.
        let mut at = start;
        let mut step = 0;
        let mut misses = 0;
        let mut tokens = 0;
        let Some(mut at_token) = (unsafe { next_token(&mut at) }) else {
            return Err(wrong(Reason::Blank, start, 0));
        };
        loop {
            let expected = unsafe { *self.steps.get_unchecked(step) };
            let (target, length);
            if unsafe { expected.matches(at_token) } {
                (target, length) = (expected.target, expected.length);
                step += 1;
            } else {
                misses += 1;
                (target, length) = unsafe { self.miss(at_token, &mut step) }?;
            }
            tokens += 1;
            if let Some(recorded) = &mut self.recording
                && recorded.len() < MOST_STEPS
            {
                let name = unsafe { std::slice::from_raw_parts(at_token, length - 1) };
                recorded.push(Step::new(name, target));
            }
            let value = unsafe { at_token.add(length) };
            match target {
                Target::Sparse(column) => {
                    let (mut id, used) = unsafe { number::id(value) };
                    at = unsafe { value.add(used) };
                    if used == 0 || !unsafe { at_end(at) } {
                        let token = unsafe { token_at(value) };
                        id = number::slow_id(token).map_err(|reason| wrong(reason, at_token, length + token.len()))?;
                        at = unsafe { value.add(token.len()) };
                    }
                    // SAFETY: targets are made from the schema that the columns are made from.
                    unsafe { out.sparse.get_unchecked_mut(column as usize) }.values.push(id);
                }
                Target::Dense(column) => {
                    let (mut number, used) = unsafe { number::float(value) };
                    at = unsafe { value.add(used) };
                    if used == 0 || !unsafe { at_end(at) } {
                        let token = unsafe { token_at(value) };
                        number =
                            number::slow_float(token).map_err(|reason| wrong(reason, at_token, length + token.len()))?;
                        at = unsafe { value.add(token.len()) };
                    }
                    // SAFETY: as above.
                    unsafe { out.dense.get_unchecked_mut(column as usize) }.values.push(number);
                }
                Target::Unknown(name) => {
                    at = unsafe { value.add(token_at(value).len()) };
                    if name != u32::MAX {
                        self.unknown_here.push(name);
                    }
                }
            }
            match unsafe { next_token(&mut at) } {
                Some(next) => at_token = next,
                None => break,
            }
        }
        if misses == 0 && step + 1 == self.steps.len() && self.regular {
            self.owed += 1;
            out.size += 1;
        } else {
            self.commit(start, out)?;
        }
        if misses > 0 || self.recording.is_some() {
            self.learn(misses, tokens);
        }
        if !self.unknown_here.is_empty() {
            self.count_unknown();
        }
        // SAFETY: `at` is at the newline.
        Ok(unsafe { at.add(1) })
    }

    /// A token that was not predicted: perhaps one more value of the slot before it, else it is looked up.
    ///
    /// SAFETY: as `line`.
    #[cold]
    #[inline(never)]
    unsafe fn miss(&mut self, at: *const u8, step: &mut usize) -> Result<(Target, usize), Wrong> {
        if *step > 0 {
            let before = self.steps[*step - 1];
            // SAFETY: the caller's promise.
            if unsafe { before.matches(at) } {
                return Ok((before.target, before.length));
            }
        }
        // SAFETY: the caller's promise.
        let token = unsafe { token_at(at) };
        let Some(length) = memchr::memchr(b':', token) else {
            return Err(wrong(Reason::NoColon, at, token.len()));
        };
        let name = &token[..length];
        let target = match self.slots.get(name) {
            Some(Slot::Sparse(column)) => Target::Sparse(*column),
            Some(Slot::Dense(column)) => Target::Dense(*column),
            None if name.is_empty() => return Err(wrong(Reason::NoName, at, token.len())),
            None if self.unknown == Unknown::Refuse => return Err(wrong(Reason::UnknownSlot, at, token.len())),
            None if self.unknown == Unknown::Skip => Target::Unknown(u32::MAX),
            None => Target::Unknown(self.unknown_number(name)),
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
        Ok((target, length + 1))
    }

    fn unknown_number(&mut self, name: &[u8]) -> u32 {
        if let Some(&number) = self.unknown_names.get(name) {
            return number;
        }
        if name.len() > LONGEST_UNKNOWN || self.unknown_names.len() >= MOST_UNKNOWN {
            return u32::MAX - 1;
        }
        let number = self.unknown_times.len() as u32;
        self.unknown_names.insert(name.to_vec(), number);
        self.unknown_times.push((String::from_utf8_lossy(name).into_owned(), Times::default()));
        number
    }

    /// The line's unknown slots, once it is known to be a good one.
    #[cold]
    fn count_unknown(&mut self) {
        let mut here = std::mem::take(&mut self.unknown_here);
        here.sort_unstable();
        let mut last = None;
        for &number in &here {
            if let Some((_, times)) = self.unknown_times.get_mut(number as usize) {
                times.values += 1;
                times.samples += u64::from(last != Some(number));
            } else if number == u32::MAX - 1 {
                self.counts.unknown_others += 1;
            }
            last = Some(number);
        }
        here.clear();
        self.unknown_here = here;
    }

    /// Ends a sample that may lack slots.
    fn commit(&mut self, start: *const u8, out: &mut Columns) -> Result<(), Wrong> {
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
        self.unknown_here.clear();
        if let Some(recorded) = &mut self.recording {
            recorded.clear();
        }
    }

    /// Takes a recorded line as the new prediction, or decides to record the next one.
    #[cold]
    fn learn(&mut self, misses: usize, tokens: usize) {
        let Some(mut recorded) = self.recording.take() else {
            self.recording = (misses * 4 > tokens).then(Vec::new);
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
        recorded.push(Step::NEVER);
        self.steps = recorded;
    }

    fn is_regular(&self, times: &[usize]) -> bool {
        let (sparse, dense) = times.split_at(self.sparse_count);
        sparse.iter().all(|&times| times == 1) && dense.iter().zip(&self.dims).all(|(&times, &dim)| times == dim)
    }
}

fn wrong(reason: Reason, at: *const u8, length: usize) -> Wrong {
    Wrong { reason, at, length, named: None, detail: String::new() }
}

/// Whether a value may end at this byte.
///
/// SAFETY: as `Parser::line`.
#[inline(always)]
unsafe fn at_end(at: *const u8) -> bool {
    // SAFETY: the caller's promise.
    let byte = unsafe { *at };
    // SAFETY: a carriage return is not the last byte, there is a newline somewhere behind it.
    byte == b' ' || byte == b'\n' || byte == b'\t' || (byte == b'\r' && unsafe { *at.add(1) } == b'\n')
}

/// Goes over spaces; returns where a token begins, or `None` with `at` at the newline.
///
/// SAFETY: as `Parser::line`.
#[inline(always)]
unsafe fn next_token(at: &mut *const u8) -> Option<*const u8> {
    // SAFETY: the caller's promise; each step goes over a byte that is no newline.
    unsafe {
        if **at == b' ' && *at.add(1) > b' ' {
            *at = at.add(1);
            return Some(*at);
        }
        loop {
            match **at {
                b' ' | b'\t' => *at = at.add(1),
                b'\n' => return None,
                b'\r' if *at.add(1) == b'\n' => *at = at.add(1),
                _ => return Some(*at),
            }
        }
    }
}

/// The bytes from here to the next space or line end.
///
/// SAFETY: as `Parser::line`.
#[inline(always)]
unsafe fn token_at<'a>(from: *const u8) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the caller's promise; the loop goes over bytes that are no newline.
    unsafe {
        while !at_end(from.add(length)) {
            length += 1;
        }
        std::slice::from_raw_parts(from, length)
    }
}

/// Names are short, few, and chosen by whoever declared them: FNV-1a is enough.
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
