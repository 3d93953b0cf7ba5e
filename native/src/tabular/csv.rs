//! An adapter: CSV and TSV, rows that begin in a part of a file as batches.
//!
//! A part `[start, end)` begins where a row begins; `cuts` finds such places. What is read of a file is its
//! window alone, which grows with the longest row.

use std::sync::Arc;

use super::batches::{Batch, Place, without_bad};
use super::columns::{Asked, Column, Filler, Kind as ValueKind, MISSING, Want};
use super::fault::{Fault, Kind, Result};
use super::ranges::Ranges;
use super::scan::{self, Marks};
use super::stream::{Window, lines_before};

/// So much is read at once.
const BLOCK: usize = 1 << 20;
/// A row of more bytes than this is refused: a quote that is not closed would take all of the file.
const LONGEST_ROW: usize = 64 << 20;
/// So many bad rows of a batch are told of.
const BAD_TOLD: usize = 4;

/// How a file is to be read.
#[derive(Clone, Debug)]
pub struct Dialect {
    pub marks: Marks,
    /// The columns' names; None takes them from the first row.
    pub names: Option<Vec<String>>,
}

/// The names of a file's columns.
pub fn names(name: &str, from: &Arc<dyn Ranges>, dialect: &Dialect) -> Result<Vec<String>> {
    if let Some(names) = &dialect.names {
        return Ok(names.clone());
    }
    let read = || {
        let mut window = Window::open(from, 0)?;
        let end = first_row(&mut window, dialect.marks)?;
        Ok(split(&mut window.bytes[..end], dialect.marks))
    };
    let words = read().map_err(|fault: Fault| fault.in_file(name))?;
    Ok(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

fn first_row(window: &mut Window, marks: Marks) -> Result<usize> {
    let mut wanted = 64 << 10;
    loop {
        if let Some(end) = scan::row_end(&window.bytes, 0, marks) {
            return Ok(end);
        }
        if window.at_end {
            return Ok(window.bytes.len());
        }
        check_length(window.bytes.len())?;
        window.more(0, wanted)?;
        wanted *= 2;
    }
}

fn split(row: &mut [u8], marks: Marks) -> Vec<Vec<u8>> {
    let (mut at, mut words) = (0, Vec::new());
    while !row.is_empty() {
        let field = scan::field(row, at, marks);
        words.push(row[field.start..field.end].to_vec());
        at = field.next;
        if field.last {
            break;
        }
    }
    words
}

/// Where rows begin, each the first at or behind a multiple of `every` bytes: the file is read through, since a newline between
/// quotes ends no row.
pub fn cuts(name: &str, from: &Arc<dyn Ranges>, marks: Marks, every: u64) -> Result<Vec<u64>> {
    let read = || {
        let mut window = Window::open(from, 0)?;
        let (mut found, mut next, mut at) = (Vec::new(), every, 0);
        loop {
            match scan::row_end(&window.bytes, at, marks) {
                Some(end) => {
                    at = end;
                    let place = window.place + at as u64;
                    if place >= next && place < from.size() {
                        found.push(place);
                        next = place - place % every + every;
                    }
                }
                None if window.at_end => return Ok(found),
                None => {
                    check_length(window.bytes.len() - at)?;
                    window.more(at, BLOCK)?;
                    at = 0;
                }
            }
        }
    };
    read().map_err(|fault: Fault| fault.in_file(name))
}

fn check_length(bytes: usize) -> Result<()> {
    if bytes <= LONGEST_ROW {
        return Ok(());
    }
    Err(Fault::damaged(format!("a row of more than {} MiB: a quote may not be closed", LONGEST_ROW >> 20)))
}

/// What becomes of one column that was asked for.
struct Wanted {
    name: String,
    filler: Filler,
    column: Column,
    spans: Vec<(u32, u32)>,
    separator: Option<u8>,
}

pub struct CsvRows {
    name: String,
    from: Arc<dyn Ranges>,
    marks: Marks,
    start: u64,
    end: Option<u64>,
    window: Window,
    at: usize,
    /// Places of delimiters and newlines of whole rows, and the next of them.
    ends: Vec<u32>,
    next_end: usize,
    /// For each field of a row, which of the wanted columns it is.
    places: Vec<u32>,
    wanted: Vec<Wanted>,
    rows: u64,
    lines: u64,
    pass_bad: bool,
}

const UNWANTED: u32 = u32::MAX;

impl CsvRows {
    /// The rows that begin from `start` on and before `end`; the first `first` of them are passed over.
    #[expect(clippy::too_many_arguments, reason = "what is read, and how")]
    pub fn open(
        name: &str,
        from: Arc<dyn Ranges>,
        dialect: &Dialect,
        (start, end): (u64, Option<u64>),
        asked: &[Asked],
        missing: &Arc<Vec<Vec<u8>>>,
        first: u64,
        pass_bad: bool,
    ) -> Result<Self> {
        let names = names(name, &from, dialect)?;
        let mut places = vec![UNWANTED; names.len()];
        let mut wanted = Vec::new();
        for asked in asked {
            let Some(place) = names.iter().position(|name| *name == asked.name) else {
                return Err(Fault::asked("there is no such column").in_file(name).in_column(&asked.name));
            };
            places[place] = wanted.len() as u32;
            let filler = Filler::new(ValueKind::Text, asked.want, missing.clone());
            wanted.push(Wanted {
                name: asked.name.clone(),
                column: filler.column(asked.lists),
                filler,
                spans: Vec::new(),
                separator: asked.lists.then_some(asked.separator),
            });
        }
        let open = || {
            let mut window = Window::open(&from, start)?;
            let mut at = 0;
            let mut lines = 0;
            if start == 0 && dialect.names.is_none() {
                at = first_row(&mut window, dialect.marks)?;
                lines = memchr::memchr_iter(b'\n', &window.bytes[..at]).count() as u64;
            }
            Ok((window, at, lines))
        };
        let (window, at, lines) = open().map_err(|fault: Fault| fault.in_file(name))?;
        let marks = dialect.marks;
        let mut rows = Self {
            name: name.into(),
            from: from.clone(),
            marks,
            start,
            end,
            window,
            at,
            ends: Vec::new(),
            next_end: 0,
            places,
            wanted,
            rows: 0,
            lines,
            pass_bad,
        };
        while rows.rows < first {
            let most = (first - rows.rows).min(1 << 16) as usize;
            if rows.pass(most)? == 0 {
                break;
            }
        }
        Ok(rows)
    }

    fn at_fault(&self, fault: Fault) -> Fault {
        fault.in_file(&self.name)
    }

    /// Passes over rows without a look at their fields. Returns how many there were.
    fn pass(&mut self, most: usize) -> Result<usize> {
        let wanted = std::mem::take(&mut self.wanted);
        let places = std::mem::take(&mut self.places);
        let passed = self.parse(most, &mut Vec::new(), &mut Vec::new(), true);
        (self.wanted, self.places) = (wanted, places);
        self.rows += passed.as_ref().map_or(0, |&rows| rows as u64);
        passed.map_err(|fault| self.at_fault(fault))
    }

    /// Up to `most` rows; None behind the last one.
    pub fn next_batch(&mut self, most: usize) -> Result<Option<Batch>> {
        let (mut lines, mut broken) = (Vec::new(), Vec::new());
        let read = self.parse(most, &mut lines, &mut broken, false).map_err(|fault| self.at_fault(fault))?;
        if read == 0 {
            return Ok(None);
        }
        let first = self.rows;
        self.rows += read as u64;
        let names: Vec<&str> = self.wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        let mut columns = Vec::with_capacity(names.len());
        for wanted in &mut self.wanted {
            columns.push(std::mem::replace(&mut wanted.column, wanted.filler.column(wanted.separator.is_some())));
        }
        if let Some(fault) = broken.first().filter(|_| !self.pass_bad) {
            let earlier = columns.iter().filter_map(Column::first_bad).any(|(row, _)| Some(lines[row]) < fault.line);
            if !earlier {
                return Err(self.with_lines_before(fault.clone()));
            }
        }
        let names: Vec<&str> = self.wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        let place = Place { file: &self.name, group: None, lines: &lines };
        let mut batch = without_bad(place, first, read, &names, columns, self.pass_bad)
            .map_err(|fault| self.with_lines_before(fault))?;
        batch.bad += broken.len();
        batch.told.extend(broken);
        batch.told.sort_by_key(|fault| fault.line);
        batch.told.truncate(BAD_TOLD);
        if self.start > 0 && !batch.told.is_empty() {
            batch.told = batch.told.into_iter().map(|fault| self.with_lines_before(fault)).collect();
        }
        Ok(Some(batch))
    }

    /// Lines are counted from the beginning of the part; this adds those before it.
    fn with_lines_before(&self, mut fault: Fault) -> Fault {
        if self.start > 0
            && let Some(line) = &mut fault.line
        {
            match lines_before(&self.from, self.start) {
                Ok(before) => *line += before,
                Err(_) => fault.line = None,
            }
        }
        fault
    }

    /// Rows into columns. `lines` gets the line of each row that has as many fields as there are columns.
    fn parse(&mut self, most: usize, lines: &mut Vec<u64>, broken: &mut Vec<Fault>, pass: bool) -> Result<usize> {
        let mut read = 0;
        while read < most {
            if self.end.is_some_and(|end| self.window.place + self.at as u64 >= end) {
                break;
            }
            match self.row(lines, broken, pass)? {
                Row::Read => read += 1,
                Row::Blank => {}
                Row::Unfinished => {
                    if self.window.at_end {
                        break;
                    }
                    self.fill()?;
                    check_length(self.window.bytes.len() - self.at)?;
                    self.window.more(self.at, BLOCK)?;
                    (self.at, self.next_end) = (0, 0);
                    self.ends.clear();
                }
            }
        }
        self.fill()?;
        Ok(read)
    }

    /// Hands the fields that were found to their columns.
    fn fill(&mut self) -> Result<()> {
        for wanted in &mut self.wanted {
            let before = wanted.column.values();
            let raw = super::columns::Raw::Bytes(&self.window.bytes, &wanted.spans);
            wanted.filler.fill(raw, &mut wanted.column);
            if wanted.filler.want == Want::Values {
                for (state, &(start, end)) in wanted.column.state[before..].iter_mut().zip(&wanted.spans) {
                    if start == end {
                        *state = MISSING;
                    }
                }
            }
            wanted.spans.clear();
            wanted.column.check_text().map_err(Fault::unsupported)?;
        }
        Ok(())
    }

    fn row(&mut self, lines: &mut Vec<u64>, broken: &mut Vec<Fault>, pass: bool) -> Result<Row> {
        if self.at >= self.window.bytes.len() {
            return Ok(Row::Unfinished);
        }
        if self.next_end == self.ends.len() {
            self.next_end = 0;
            self.ends.clear();
            scan::ends(&self.window.bytes, self.at, self.marks, &mut self.ends);
            let bytes = &self.window.bytes;
            let whole = self.ends.iter().rposition(|&end| bytes[end as usize] == b'\n').map_or(0, |last| last + 1);
            self.ends.truncate(whole);
        }
        if self.ends.is_empty() {
            // It has a quote, or it is not here as a whole.
            return self.row_by_the_rules(lines, broken, pass);
        }
        let (mut fields, mut from) = (0, self.at);
        loop {
            let end = self.ends[self.next_end] as usize;
            self.next_end += 1;
            let is_last = self.window.bytes[end] == b'\n';
            let value = if is_last && end > from && self.window.bytes[end - 1] == b'\r' { end - 1 } else { end };
            if is_last && fields == 0 && value == from {
                self.at = end + 1;
                self.lines += 1;
                return Ok(Row::Blank);
            }
            self.keep(fields, from, value);
            fields += 1;
            from = end + 1;
            if is_last {
                self.at = from;
                self.lines += 1;
                self.finish(fields, self.lines, lines, broken, pass);
                return Ok(Row::Read);
            }
        }
    }

    fn row_by_the_rules(&mut self, lines: &mut Vec<u64>, broken: &mut Vec<Fault>, pass: bool) -> Result<Row> {
        let end = match scan::row_end(&self.window.bytes, self.at, self.marks) {
            Some(end) => end,
            None if self.window.at_end => self.window.bytes.len(),
            None => return Ok(Row::Unfinished),
        };
        let line = self.lines + 1;
        self.lines += memchr::memchr_iter(b'\n', &self.window.bytes[self.at..end]).count() as u64;
        let mut at = std::mem::replace(&mut self.at, end);
        if matches!(&self.window.bytes[at..end], b"\n" | b"\r\n") {
            return Ok(Row::Blank);
        }
        let mut fields = 0;
        loop {
            let field = scan::field(&mut self.window.bytes[..end], at, self.marks);
            self.keep(fields, field.start, field.end);
            fields += 1;
            at = field.next;
            if field.last {
                break;
            }
        }
        self.finish(fields, line, lines, broken, pass);
        Ok(Row::Read)
    }

    #[inline]
    fn keep(&mut self, field: usize, start: usize, end: usize) {
        let Some(&place) = self.places.get(field) else { return };
        let Some(wanted) = self.wanted.get_mut(place as usize) else { return };
        let Some(separator) = wanted.separator else {
            wanted.spans.push((start as u32, end as u32));
            return;
        };
        if start < end {
            let mut from = start;
            for found in memchr::memchr_iter(separator, &self.window.bytes[start..end]) {
                wanted.spans.push((from as u32, (start + found) as u32));
                from = start + found + 1;
            }
            wanted.spans.push((from as u32, end as u32));
        }
        let values = (wanted.column.values() + wanted.spans.len()) as u64;
        if let Some(lists) = &mut wanted.column.lists {
            lists.ends.push(values);
            lists.missing.push(u8::from(start == end));
        }
    }

    /// A row has been read; one with another number of fields than there are columns is taken back.
    fn finish(&mut self, fields: usize, line: u64, lines: &mut Vec<u64>, broken: &mut Vec<Fault>, pass: bool) {
        if pass {
            return;
        }
        if fields == self.places.len() {
            lines.push(line);
            return;
        }
        for &place in self.places.iter().take(fields) {
            let Some(wanted) = self.wanted.get_mut(place as usize) else { continue };
            let values = wanted.column.values();
            match &mut wanted.column.lists {
                None => drop(wanted.spans.pop()),
                Some(lists) => {
                    lists.ends.pop();
                    lists.missing.pop();
                    let before = lists.ends.last().map_or(0, |&end| end as usize);
                    wanted.spans.truncate(before - values);
                }
            }
        }
        let text = format!("{} values are expected, and it has {fields}", self.places.len());
        let mut fault = Fault::new(Kind::Value, text).in_file(&self.name);
        fault.line = Some(line);
        broken.push(fault);
    }
}

enum Row {
    Read,
    Blank,
    Unfinished,
}
