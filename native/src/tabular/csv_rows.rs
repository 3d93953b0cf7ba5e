//! An adapter: CSV and TSV, rows that begin in a part of a file as batches.
//!
//! A part `[start, end)` begins where a row begins. What is read of a file is its window alone, which grows with the longest
//! row. Rows that have as many fields as there are columns go to their columns some hundred at a time; others, and those
//! whose quotes are not around whole fields, one by one.

use std::sync::Arc;

use super::batches::{Batch, Place, without_bad};
use super::columns::Column;
use super::csv::{BLOCK, Dialect, SCANNED, check_length, first_row, names};
use super::csv_fields::{Fields, value};
use super::fault::{Fault, Kind, Result};
use super::places::Places;
use super::ranges::Ranges;
use super::scan::{self, Marks};
use super::stream::{Window, lines_before};
use super::texts::TextPart;

/// So many bad rows of a batch are told of.
const BAD_TOLD: usize = 4;

pub struct CsvRows {
    name: String,
    from: Arc<dyn Ranges>,
    marks: Marks,
    start: u64,
    end: Option<u64>,
    window: Window,
    at: usize,
    /// Of whole rows in the window, and the next field among them.
    places: Places,
    next: usize,
    fields: Fields,
    rows: u64,
    lines: u64,
    pass_bad: bool,
}

/// What was read so far of a batch.
#[derive(Default)]
struct Read {
    rows: usize,
    /// The line of each row that has as many fields as there are columns.
    lines: Vec<u64>,
    /// Of the others, why they are none.
    broken: Vec<Fault>,
    /// Rows are passed over without a look at their fields.
    passes: bool,
}

impl CsvRows {
    pub fn open(part: &TextPart<'_>, dialect: &Dialect) -> Result<Self> {
        let names = names(part.name, &part.from, dialect)?;
        let fields = part.told(Fields::new(&names, part.asked, &part.missing, dialect.marks))?;
        let open = || {
            let mut window = Window::open(&part.from, part.start)?;
            let (mut at, mut lines) = (0, 0);
            if part.start == 0 && dialect.names.is_none() {
                at = first_row(&mut window, dialect.marks)?;
                lines = memchr::memchr_iter(b'\n', &window.bytes[..at]).count() as u64;
            }
            Ok((window, at, lines))
        };
        let (window, at, lines) = part.told(open())?;
        let mut rows = Self {
            name: part.name.into(),
            from: part.from.clone(),
            marks: dialect.marks,
            start: part.start,
            end: part.end,
            window,
            at,
            places: Places::default(),
            next: 0,
            fields,
            rows: 0,
            lines,
            pass_bad: part.pass_bad,
        };
        while rows.rows < part.first {
            let most = (part.first - rows.rows).min(1 << 16) as usize;
            let mut read = Read { passes: true, ..Read::default() };
            part.told(rows.parse(most, &mut read))?;
            if read.rows == 0 {
                break;
            }
            rows.rows += read.rows as u64;
        }
        Ok(rows)
    }

    fn at_fault(&self, fault: Fault) -> Fault {
        fault.in_file(&self.name)
    }

    /// Up to `most` rows; None behind the last one.
    pub fn next_batch(&mut self, most: usize) -> Result<Option<Batch>> {
        let mut read = Read::default();
        self.parse(most, &mut read).map_err(|fault| self.at_fault(fault))?;
        let Read { rows: read, lines, broken, .. } = read;
        if read == 0 {
            return Ok(None);
        }
        let first = self.rows;
        self.rows += read as u64;
        let columns = self.fields.take_columns();
        if let Some(fault) = broken.first().filter(|_| !self.pass_bad) {
            let earlier = columns.iter().filter_map(Column::first_bad).any(|(row, _)| Some(lines[row]) < fault.line);
            if !earlier {
                return Err(self.with_lines_before(fault.clone()));
            }
        }
        let names = self.fields.names();
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

    /// Rows into columns.
    fn parse(&mut self, most: usize, read: &mut Read) -> Result<()> {
        while read.rows < most {
            if self.end.is_some_and(|end| self.window.place + self.at as u64 >= end) {
                break;
            }
            if self.next + 1 >= self.places.starts().len() {
                let to = self.window.bytes.len().min(self.at + SCANNED);
                self.places.find(&self.window.bytes, self.at, to, self.marks);
                self.next = 0;
            }
            if self.places.rows > 0 {
                if !self.together(most - read.rows, read)? {
                    self.one(read);
                }
            } else if !self.one_by_the_rules(read) {
                // It is not here as a whole.
                if self.window.at_end {
                    break;
                }
                self.fields.fill(&self.window.bytes)?;
                check_length(self.window.bytes.len() - self.at)?;
                self.window.more(self.at, BLOCK)?;
                self.at = 0;
                self.places.clear();
            }
        }
        self.fields.fill(&self.window.bytes)
    }

    /// Takes as many rows as may be, if all that were found have as many fields as there are columns.
    fn together(&mut self, most: usize, read: &mut Read) -> Result<bool> {
        let fields = self.fields.count();
        let starts = &self.places.starts()[self.next..];
        let bytes = &self.window.bytes;
        // A blank line looks like a row of one field.
        let is_even = fields > 1 && starts.len() - 1 == self.places.rows * fields && !self.places.newlines_within;
        if !is_even
            || read.passes
            || !starts.iter().step_by(fields).skip(1).all(|&end| bytes[end as usize - 1] == b'\n')
        {
            return Ok(false);
        }
        let mut rows = self.places.rows.min(most);
        if let Some(end) = self.end {
            let before_end = |row: &usize| self.window.place + u64::from(starts[row * fields]) < end;
            rows = (0..rows).take_while(before_end).count();
        }
        let count = rows * fields;
        self.at = starts[count] as usize;
        self.fields.take_rows(&mut self.window.bytes, &starts[..=count], self.places.quotes)?;
        read.lines.extend(self.lines + 1..=self.lines + rows as u64);
        read.rows += rows;
        self.lines += rows as u64;
        self.next += count;
        self.places.rows -= rows;
        Ok(true)
    }

    /// Takes one of the rows that were found, or passes over a blank line.
    fn one(&mut self, read: &mut Read) {
        let starts = &self.places.starts()[self.next..];
        let bytes = &mut self.window.bytes;
        let is_end = |next: u32| bytes[next as usize - 1] == b'\n';
        let fields = starts[1..].iter().position(|&next| is_end(next)).map_or(starts.len() - 1, |last| last + 1);
        let end = starts[fields] as usize;
        let at = std::mem::replace(&mut self.at, end);
        let line = self.lines + 1;
        self.lines += match self.places.newlines_within {
            true => memchr::memchr_iter(b'\n', &bytes[at..end]).count() as u64,
            false => 1,
        };
        let is_blank = matches!(&bytes[at..end], b"\n" | b"\r\n");
        if !is_blank && !read.passes {
            for (field, pair) in starts[..=fields].windows(2).enumerate() {
                let is_last = field + 1 == fields;
                let (start, end) = value(bytes, pair[0] as usize, pair[1] as usize, is_last, self.marks);
                self.fields.keep(bytes, field, start, end);
            }
        }
        self.places.rows -= 1;
        self.next += fields;
        if !is_blank {
            self.finish(fields, line, read);
        }
    }

    /// Reads a row by the rules, or passes over a blank line. False if its end is not here.
    fn one_by_the_rules(&mut self, read: &mut Read) -> bool {
        let bytes = &mut self.window.bytes;
        let end = match scan::row_end(bytes, self.at, self.marks) {
            Some(end) => end,
            None if self.window.at_end && self.at < bytes.len() => bytes.len(),
            None => return false,
        };
        let line = self.lines + 1;
        self.lines += memchr::memchr_iter(b'\n', &bytes[self.at..end]).count() as u64;
        let mut at = std::mem::replace(&mut self.at, end);
        self.places.clear();
        if matches!(&bytes[at..end], b"\n" | b"\r\n") {
            return true;
        }
        let mut fields = 0;
        loop {
            let field = scan::field(&mut bytes[..end], at, self.marks);
            if !read.passes {
                self.fields.keep(bytes, fields, field.start, field.end);
            }
            fields += 1;
            at = field.next;
            if field.last {
                break;
            }
        }
        self.finish(fields, line, read);
        true
    }

    /// A row has been read; one with another number of fields than there are columns is taken back.
    fn finish(&mut self, fields: usize, line: u64, read: &mut Read) {
        read.rows += 1;
        if read.passes {
            return;
        }
        let expected = self.fields.count();
        if fields == expected {
            return read.lines.push(line);
        }
        self.fields.take_back(fields);
        let text = format!("{expected} values are expected, and it has {fields}");
        let mut fault = Fault::new(Kind::Value, text).in_file(&self.name);
        fault.line = Some(line);
        read.broken.push(fault);
    }
}
