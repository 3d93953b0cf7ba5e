//! The samples of text inputs, in order: parsed in this thread as they are asked for, or ahead by a pool. Bad lines are
//! counted when the stream passes them, so a limit stops every reader at the same line.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::columns::Columns;
use super::fault::{BadLine, Fault, Reason};
use super::parser::{Bad, Cursor, Parser};
use super::pool::{Parsed, Pool};
use super::schema::{Schema, Slot};
use super::source::{self, Block, Idle, Input, Mark, Place, Source};
use super::tally::Tally;

/// Small enough to stay in a core's own cache while it is parsed.
const OWN_BLOCK: usize = 256 << 10;
/// Large enough that threads seldom meet.
const POOL_BLOCK: usize = 512 << 10;

pub struct TextSettings {
    pub threads: usize,
    pub ordered: bool,
    /// So many bad lines are passed over; the next one stops the reader.
    pub bad_lines: u64,
    pub idle: Option<Idle>,
    /// Bytes of a block, for tests; chosen if it is `None`.
    pub block_bytes: Option<usize>,
}

pub struct TextFeed {
    inputs: Arc<Vec<Input>>,
    bad_lines: u64,
    /// Bad lines before the place where this began.
    bad_before: u64,
    pub tally: Tally,
    here: Place,
    /// What the numbers of lines in an input must be raised by, once somebody wants to know.
    raise: Option<(usize, u64)>,
    mode: Mode,
}

enum Mode {
    Own { source: Source, parser: Box<Parser>, block: Option<Block>, cursor: Cursor, spare: Vec<u8>, bad: Vec<Bad> },
    Pool { pool: Pool, block: Option<Box<Parsed>>, next: usize, next_bad: usize, ordered: bool },
}

impl TextFeed {
    pub fn new(
        inputs: Arc<Vec<Input>>,
        schema: &Arc<Schema>,
        slots: &HashMap<Vec<u8>, Slot>,
        from: Mark,
        settings: &TextSettings,
    ) -> Result<Self, Fault> {
        let stop = Arc::new(AtomicBool::new(false));
        let pooled = settings.threads > 1;
        let block_bytes = settings.block_bytes.unwrap_or(if pooled { POOL_BLOCK } else { OWN_BLOCK });
        let mut source = Source::new(inputs.clone(), from.place, block_bytes, stop.clone(), settings.idle.clone());
        source.count_lines = !settings.ordered;
        let mode = if pooled {
            // Only the thread of the caller may ask whether to go on.
            let mut source = Source::new(inputs.clone(), from.place, block_bytes, stop.clone(), None);
            source.count_lines = !settings.ordered;
            let idle = settings.idle.clone();
            let pool = Pool::start(source, schema, slots, settings.threads, settings.ordered, stop, idle)?;
            Mode::Pool { pool, block: None, next: 0, next_bad: 0, ordered: settings.ordered }
        } else {
            source.count_lines = false;
            let parser = Box::new(Parser::new(schema, slots));
            Mode::Own { source, parser, block: None, cursor: Cursor::default(), spare: Vec::new(), bad: Vec::new() }
        };
        let tally = Tally::new(schema);
        Ok(Self {
            inputs,
            bad_lines: settings.bad_lines,
            bad_before: from.bad,
            tally,
            here: from.place,
            raise: None,
            mode,
        })
    }

    /// Adds the next samples, up to `want` of them; none if there are no more.
    pub fn pull(&mut self, want: usize, out: &mut Columns) -> Result<usize, Fault> {
        let until = out.size + want;
        let begun = out.size;
        while out.size < until {
            let more = match self.mode {
                Mode::Own { .. } => self.parse_some(until, out)?,
                Mode::Pool { .. } => self.take_some(until, out)?,
            };
            if !more {
                break;
            }
        }
        Ok(out.size - begun)
    }

    /// Behind the last sample that was pulled.
    pub fn mark(&self) -> Mark {
        Mark { place: self.here, bad: self.bad_before + self.tally.bad }
    }

    fn parse_some(&mut self, until: usize, out: &mut Columns) -> Result<bool, Fault> {
        let Mode::Own { source, parser, block, cursor, spare, bad } = &mut self.mode else { return Ok(false) };
        if block.is_none() {
            *block = source.next(std::mem::take(spare))?;
            *cursor = Cursor::default();
            let Some(block) = block else {
                self.here = source.place();
                return Ok(false);
            };
            if block.place.input != self.here.input {
                self.here = Place { input: block.place.input, offset: block.place.offset, lines: 0 };
            }
            block.place.lines = self.here.lines;
        }
        let Some(text) = block.as_ref() else { return Ok(false) };
        let place = text.place;
        parser.parse(text, cursor, until - out.size, out, None, bad);
        self.tally.counts.add(&parser.take_counts());
        let done = cursor.at == text.text().len();
        self.here.offset = if done { text.end } else { place.offset + cursor.at as u64 };
        self.here.lines = place.lines + cursor.lines;
        if done {
            *spare = block.take().map(Block::into_bytes).unwrap_or_default();
        }
        for one in std::mem::take(bad) {
            self.count_bad(place, one)?;
        }
        Ok(true)
    }

    fn take_some(&mut self, until: usize, out: &mut Columns) -> Result<bool, Fault> {
        let Mode::Pool { pool, block, next, next_bad, ordered } = &mut self.mode else { return Ok(false) };
        if block.is_none() {
            let Some(mut parsed) = pool.take()? else {
                self.here = Place { input: self.inputs.len(), ..Place::default() };
                return Ok(false);
            };
            if *ordered {
                parsed.place.lines = if parsed.place.input == self.here.input { self.here.lines } else { 0 };
            }
            self.tally.counts.add(&parsed.counts);
            self.here = parsed.place;
            (*next, *next_bad) = (0, 0);
            *block = Some(Box::new(parsed));
        }
        let Some(parsed) = block.take() else { return Ok(false) };
        let (start, first_bad) = (*next, *next_bad);
        let end = parsed.columns.size.min(start + until - out.size);
        out.append(&parsed.columns, start..end);
        // Bad lines before the last sample that was taken; those behind the block's last one when it is left.
        let left = end == parsed.columns.size && out.size < until;
        let passed = parsed.bad[first_bad..].iter().take_while(|bad| left || bad.before < end).count();
        let last_bad = first_bad + passed;
        (*next, *next_bad) = (end, last_bad);
        for one in &parsed.bad[first_bad..last_bad] {
            self.count_bad(parsed.place, one.clone())?;
        }
        let behind = parsed.bad.get(last_bad).filter(|bad| bad.before == end).map(|bad| bad.line.at as u64);
        let behind = behind.or_else(|| parsed.starts.get(end).map(|&at| u64::from(at)));
        self.here.offset = behind.map_or(parsed.end, |at| parsed.place.offset + at);
        self.here.lines = parsed.place.lines + (end + last_bad) as u64;
        if let Mode::Pool { pool, block, .. } = &mut self.mode {
            if left {
                pool.give_back(parsed.columns);
            } else {
                *block = Some(parsed);
            }
        }
        Ok(true)
    }

    fn count_bad(&mut self, place: Place, bad: Bad) -> Result<(), Fault> {
        if bad.reason == Reason::Blank {
            self.tally.blank += 1;
            return Ok(());
        }
        let raise = self.raised(place.input);
        let input = &self.inputs[place.input];
        let line = BadLine {
            file: input.name.clone(),
            line: raise + place.lines + bad.line.lines + 1,
            column: bad.column,
            offset: place.offset + bad.line.at as u64,
            token: bad.token,
            reason: bad.reason,
            detail: bad.detail,
        };
        self.tally.add_bad(line.clone());
        let seen = self.bad_before + self.tally.bad;
        if seen > self.bad_lines {
            return Err(Fault::Line { bad: Box::new(line), seen, limit: self.bad_lines });
        }
        Ok(())
    }

    /// Lines of a file before the range that is read.
    fn raised(&mut self, input: usize) -> u64 {
        if let Some((known, lines)) = self.raise
            && known == input
        {
            return lines;
        }
        let (start, _) = self.inputs[input].range();
        let lines = match start {
            0 => 0,
            // The line that the byte before the range belongs to ends before the first line of the range.
            _ => source::lines_before(&self.inputs[input], start - 1).map_or(0, |lines| lines + 1),
        };
        self.raise = Some((input, lines));
        lines
    }
}
