//! The parser: blocks of whole lines to columns. It does no I/O, and two parsers never differ in what they read.
//!
//! Lines of a file mostly name the same slots in the same order. So the parser predicts each token's name from an earlier
//! line (`Step`) and only compares bytes; a name that was not predicted is looked up. The prediction costs nothing but
//! time when it is wrong. Lines that go as predicted are read eight at a time (`eights`) where the processor can do that.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::columns::Columns;
#[cfg(target_arch = "x86_64")]
use super::columns::Dense;
#[cfg(target_arch = "x86_64")]
use super::eights::{self, Begins, Room};
use super::fault::{Reason, shown};
use super::marks::Marks;
use super::number::{self, Digits};
use super::schema::{Schema, Slot, Unknown};
use super::source::Block;
use super::steps::{Step, Target};
use super::tally::{Counts, LONGEST_UNKNOWN, MOST_UNKNOWN, Times};

/// A longer sequence of names is not remembered.
const MOST_STEPS: usize = 8192;
/// Lines that are read together before columns are told of them, and how few are as fast when they are read alone.
#[cfg(target_arch = "x86_64")]
const MOST_TOGETHER: usize = 64;
#[cfg(target_arch = "x86_64")]
const LEAST_TOGETHER: usize = 4;
/// After lines that could not be read together, so many are read alone before the next attempt: at first, and at most.
#[cfg(target_arch = "x86_64")]
const ALONE: std::ops::RangeInclusive<usize> = 8..=1024;

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

/// What reading eight lines at once needs.
#[cfg(target_arch = "x86_64")]
struct Eights {
    /// One for each step but the last; none if lines can't be read together.
    rooms: Vec<Room>,
    begins: Begins,
    /// Lines to read alone before the next attempt, and how many it will be if that fails.
    alone: usize,
    patience: usize,
}

// SAFETY: rooms are pointers into columns that are set before each use and are not used behind it.
#[cfg(target_arch = "x86_64")]
unsafe impl Send for Eights {}

pub struct Parser {
    #[cfg(target_arch = "x86_64")]
    wide: bool,
    #[cfg(target_arch = "x86_64")]
    eights: Option<Eights>,
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
    unknown_names: HashMap<Vec<u8>, u32>,
    unknown_times: Vec<(String, Times)>,
    unknown_here: Vec<u32>,
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
            eights: eights::is_here().then(|| Eights {
                rooms: Vec::new(),
                begins: Vec::new(),
                alone: 0,
                patience: *ALONE.start(),
            }),
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
            unknown_names: HashMap::new(),
            unknown_times: Vec::new(),
            unknown_here: Vec::new(),
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
                let read = unsafe { self.together(text.as_ptr(), line, want - (out.size - begun), out) };
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

    /// Reads lines that go as predicted, up to `most` of them; returns how many. The others have to be read alone.
    ///
    /// SAFETY: `self.marks` must be the marks of this text, which ends with a newline and has `PAD` bytes behind it. The line
    /// must be one of them.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn together(&mut self, text: *const u8, line: usize, most: usize, out: &mut Columns) -> usize {
        match &mut self.eights {
            Some(eights) if !eights.rooms.is_empty() && eights.alone == 0 => {}
            Some(eights) => {
                eights.alone = eights.alone.saturating_sub(1);
                return 0;
            }
            None => return 0,
        }
        // SAFETY: the processor can do it; the rest is the caller's promise.
        unsafe { self.read_together(text, line, most, out) }
    }

    /// SAFETY: as `together`, with rooms.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    unsafe fn read_together(&mut self, text: *const u8, line: usize, most: usize, out: &mut Columns) -> usize {
        let Some(eights) = &mut self.eights else { return 0 };
        let steps = &self.steps[..self.steps.len() - 1];
        let most = most.min(MOST_TOGETHER).min(self.marks.lines() - line);
        let first = self.marks.first(line);
        // A space or a carriage return at the end of the line has one more token behind it, an empty one.
        let apart = (self.marks.first(line + 1) - first).clamp(steps.len(), steps.len() + 1);
        let alike = self.marks.alike(line..line + most, apart);
        if alike < LEAST_TOGETHER {
            eights.alone = alike;
            return 0;
        }
        out.reserve(alike.next_multiple_of(eights::LINES));
        make_room(steps, &mut eights.rooms, out);
        let mut read = 0;
        while read < alike {
            let lines = (alike - read).min(eights::LINES);
            let starts = self.marks.starts_from(first + read * apart);
            // SAFETY: so many lines are alike, and there is room for them. Their rooms were made for these steps.
            let good = unsafe { eights::read(text, starts, apart, lines, steps, &eights.rooms, &mut eights.begins) };
            if !good {
                break;
            }
            for room in &mut eights.rooms {
                room.to = room.to.wrapping_add(lines * room.stride);
            }
            read += lines;
        }
        if read < alike {
            eights.alone = eights.patience;
            eights.patience = (2 * eights.patience).min(*ALONE.end());
        }
        if read >= 2 * eights::LINES {
            eights.patience = *ALONE.start();
        }
        if read > 0 {
            // SAFETY: every column got a value of every line, since regular lines alone have rooms.
            unsafe { out.written(read) };
            self.owed += read;
            let unknown = self.steps.iter().filter_map(|step| match step.target {
                Target::Unknown(number) if number != u32::MAX => Some(number),
                _ => None,
            });
            self.unknown_here.extend(unknown);
            if !self.unknown_here.is_empty() {
                self.count_unknown(read as u64);
            }
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
                            if name != u32::MAX {
                                self.unknown_here.push(name);
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
            if !self.unknown_here.is_empty() {
                self.count_unknown(1);
            }
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
        if let Some(recorded) = &mut self.recording
            && recorded.len() < MOST_STEPS
        {
            recorded.push(Step::new(name, target));
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

    /// The line's unknown slots, once it is known to be a good one, as often as there are such lines.
    #[cold]
    fn count_unknown(&mut self, lines: u64) {
        let mut here = std::mem::take(&mut self.unknown_here);
        here.sort_unstable();
        let mut last = None;
        for &number in &here {
            if let Some((_, times)) = self.unknown_times.get_mut(number as usize) {
                times.values += lines;
                times.samples += if last != Some(number) { lines } else { 0 };
            } else if number == u32::MAX - 1 {
                self.counts.unknown_others += lines;
            }
            last = Some(number);
        }
        here.clear();
        self.unknown_here = here;
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
        self.unknown_here.clear();
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
                self.allow_eights(&[]);
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
            self.allow_eights(if self.regular && predicted { &recorded } else { &[] });
        }
        recorded.push(Step::NEVER);
        self.steps = recorded;
    }

    #[cfg(target_arch = "x86_64")]
    fn allow_eights(&mut self, steps: &[Step]) {
        let Some(eights) = &mut self.eights else { return };
        let mut times = vec![0; self.dims.len()];
        eights.rooms.clear();
        eights.rooms.extend(steps.iter().map(|step| {
            let mut within = 0;
            if let Target::Dense(column) = step.target {
                within = times[column as usize];
                times[column as usize] += 1;
            }
            Room { to: std::ptr::null_mut(), stride: 0, within }
        }));
    }

    fn is_regular(&self, times: &[usize]) -> bool {
        let (sparse, dense) = times.split_at(self.sparse_count);
        sparse.iter().all(|&times| times == 1) && dense.iter().zip(&self.dims).all(|(&times, &dim)| times == dim)
    }
}

/// Points at the next line's values. `Columns::reserve` must have been called.
#[cfg(target_arch = "x86_64")]
fn make_room(steps: &[Step], rooms: &mut [Room], out: &mut Columns) {
    fn next<T>(values: &mut Vec<T>, more: usize) -> *mut u8 {
        values.as_mut_ptr().wrapping_add(values.len() + more).cast()
    }
    for (step, room) in steps.iter().zip(rooms) {
        (room.to, room.stride) = match step.target {
            Target::Sparse(column) => (next(&mut out.sparse[column as usize].values, 0), 8),
            Target::Dense(column) => {
                let Dense { dim, values } = &mut out.dense[column as usize];
                (next(values, room.within), 4 * *dim)
            }
            Target::Unknown(_) => (std::ptr::null_mut(), 0),
        };
    }
}

fn wrong(reason: Reason, at: usize, length: usize) -> Wrong {
    Wrong { reason, at, length, named: None, detail: String::new() }
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::reader::schema::DenseSlot;
    use crate::reader::source::{From, Input, Place, Source};

    const SPARSE: [&str; 4] = ["click", "1", "12", "id_of_9_b"];

    fn schema(unknown: Unknown) -> Schema {
        let dense = |name: &str, dim| DenseSlot { name: name.into(), dim };
        Schema {
            sparse: SPARSE.iter().map(|name| name.to_string()).collect(),
            dense: vec![dense("d", 3), dense("dense_feature", 1)],
            padding: None,
            dense_padding: Some(0.0),
            unknown,
        }
    }

    fn block(text: String) -> Block {
        let bytes = Arc::new(text.into_bytes());
        let room = bytes.len().max(16) + 1;
        let inputs = Arc::new(vec![Input { name: "text".into(), from: From::Bytes(bytes) }]);
        let mut source = Source::new(inputs, Place::default(), room, Arc::new(AtomicBool::new(false)), None);
        source.next(Vec::new()).expect("bytes can be read").expect("a block")
    }

    type Read = (Columns, Vec<u32>, Vec<Bad>, Counts);

    /// What a parser makes of a block, so many samples at a time.
    fn read(schema: &Schema, block: &Block, want: usize, together: bool) -> Read {
        let mut parser = Parser::new(schema, &schema.check().expect("a good schema"));
        if !together {
            parser.eights = None;
        }
        let (mut columns, mut starts, mut bad) = (Columns::new(schema, want), Vec::new(), Vec::new());
        let mut cursor = Cursor::default();
        while cursor.at < block.text().len() {
            parser.parse(block, &mut cursor, want, &mut columns, Some(&mut starts), &mut bad);
        }
        (columns, starts, bad, parser.take_counts())
    }

    fn id(draw: u64) -> String {
        match draw % 50 {
            0 => format!("-{}", draw >> (1 + (draw >> 8) % 60)),
            1 => u64::MAX.to_string(),
            2 => format!("{:022}", draw >> 50),
            _ => (draw >> ((draw >> 8) % 64)).to_string(),
        }
    }

    fn float(draw: u64) -> String {
        let value = (draw >> 11) as f64 / (1u64 << 53) as f64;
        let digits = (draw >> 3) as usize % 16;
        match draw % 8 {
            0 => "0.0".into(),
            1 => format!("{}", draw >> (40 + digits)),
            2 => format!("{:.digits$}", value * 10f64.powi((draw >> 40) as i32 % 9)),
            3 => format!("-{value:.digits$}"),
            4 => format!("{}", f32::from_bits(draw as u32 & 0x4fff_ffff)),
            5 => {
                // The middle between two float32.
                let low = f32::from_bits(0x3f00_0000 + (draw >> 32) as u32 % (20 << 23));
                let middle = (f64::from(low) + f64::from(f32::from_bits(low.to_bits() + 1))) / 2.0;
                format!("{middle}")
            }
            6 => format!("{}.", draw % 100),
            _ => format!("{value:.digits$}"),
        }
    }

    fn line(draws: &mut impl Iterator<Item = u64>) -> String {
        let mut draw = || draws.next().unwrap_or_default();
        let mut text = format!("click:{} other:x", draw() % 2);
        (0..3).for_each(|_| text += &format!(" d:{}", float(draw())));
        text += &format!(" dense_feature:{} other:{}", float(draw()), draw());
        SPARSE[1..].iter().for_each(|name| text += &format!(" {name}:{}", id(draw())));
        text
    }

    #[test]
    fn lines_read_together_are_as_those_read_alone() {
        let mut draws = (0u64..).map(crate::keys::mix);
        for (round, end) in ["", " ", "\r", "\t", ""].into_iter().cycle().take(20).enumerate() {
            let mut text = String::new();
            for _ in 0..300 {
                let mut line = line(&mut draws);
                // In most rounds some lines are not as the others.
                match draws.next().unwrap_or_default() % (20 + 500 * (round as u64 % 3)) {
                    0 => line = line.replacen(' ', "  ", 1),
                    1 => line = line.replacen(" d:", " 1:", 1),
                    2 => line += " 1:5",
                    3 => line += "x",
                    4 => line = line.replacen("click", "klick", 1),
                    5 => line = line.replacen(" d:", "\nd:", 1),
                    6 => line = line.replacen(" d:", " d:.", 1),
                    7 => line.clear(),
                    8 => line = line.replacen(" 12:", " 12:99999999999999999999", 1),
                    9 => line = line.replacen(" 12:", " 12:\r", 1),
                    _ => {}
                }
                text += &line;
                text += end;
                text.push('\n');
            }
            let block = block(text);
            for unknown in [Unknown::Count, Unknown::Skip] {
                let schema = schema(unknown);
                let alone = read(&schema, &block, usize::MAX, false);
                for want in [1, 5, 8, 100, usize::MAX] {
                    let together = read(&schema, &block, want, true);
                    assert_eq!(together.0, alone.0);
                    assert_eq!(together.1, alone.1);
                    let bad = |read: &Read| -> Vec<Bad> {
                        read.2.iter().map(|bad| Bad { before: 0, ..bad.clone() }).collect()
                    };
                    assert_eq!(bad(&together), bad(&alone));
                    assert_eq!(together.3, alone.3);
                }
            }
        }
    }

    #[test]
    fn numbers_read_together_are_those_of_the_standard_library() {
        let schema = Schema {
            sparse: vec!["s".into()],
            dense: vec![DenseSlot { name: "d".into(), dim: 1 }],
            ..schema(Unknown::Refuse)
        };
        let draws = || (1u64 << 32..).map(crate::keys::mix).take(200_000);
        let text: Vec<String> = draws().map(|draw| format!("s:{} d:{}\n", draw >> (draw % 64), float(draw))).collect();
        let (columns, _, bad, _) = read(&schema, &block(text.concat()), usize::MAX, true);
        assert_eq!(bad, []);
        assert_eq!(columns.size, text.len());
        for (at, draw) in draws().enumerate() {
            assert_eq!(columns.sparse[0].values[at], draw >> (draw % 64), "{}", text[at]);
            let expected: f32 = float(draw).parse().expect("a number for the standard library");
            assert_eq!(columns.dense[0].values[at].to_bits(), expected.to_bits(), "{}", text[at]);
        }
    }
}
