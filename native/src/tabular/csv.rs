//! An adapter: what a file of CSV or TSV is, the names of its columns, and where it can be cut.

use std::sync::Arc;

use super::fault::{Fault, Result};
use super::places::Places;
use super::ranges::Ranges;
use super::scan::{self, Marks};
use super::stream::Window;

/// So much is read at once.
pub const BLOCK: usize = 256 << 10;
/// A row of more bytes than this is refused: a quote that is not closed would take all of the file.
const LONGEST_ROW: usize = 64 << 20;
/// So many bytes are looked at for ends of fields at once: they and their places stay in the processor's cache.
pub const SCANNED: usize = 64 << 10;

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

pub fn first_row(window: &mut Window, marks: Marks) -> Result<usize> {
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
        let mut cuts = Cuts { found: Vec::new(), every, next: every, size: from.size() };
        let (mut at, mut places) = (0, Places::default());
        loop {
            let bytes = &window.bytes;
            let quote = marks.quote.and_then(|quote| memchr::memchr(quote, &bytes[at..]));
            // Up to here every newline ends a row.
            let plain = quote.map_or(bytes.len(), |quote| at + quote);
            cuts.newlines(window.place, &bytes[..plain], at);
            at = memchr::memrchr(b'\n', &bytes[at..plain]).map_or(at, |last| at + last + 1);
            if quote.is_some() {
                places.find(bytes, at, bytes.len().min(at + SCANNED), marks);
                if let [_, .., last] = *places.starts() {
                    cuts.rows(window.place, bytes, places.starts());
                    at = last as usize;
                    continue;
                }
                if let Some(end) = scan::row_end(bytes, at, marks) {
                    cuts.row(window.place + end as u64);
                    at = end;
                    continue;
                }
            }
            if window.at_end {
                return Ok(cuts.found);
            }
            check_length(bytes.len() - at)?;
            window.more(at, BLOCK)?;
            at = 0;
        }
    };
    read().map_err(|fault: Fault| fault.in_file(name))
}

/// The cuts that were found, and behind which byte the next one is.
struct Cuts {
    found: Vec<u64>,
    every: u64,
    next: u64,
    size: u64,
}

impl Cuts {
    /// A row begins here.
    fn row(&mut self, place: u64) {
        if place >= self.next && place < self.size {
            self.found.push(place);
            self.next = place - place % self.every + self.every;
        }
    }

    /// Rows begin behind all newlines from `at` on.
    fn newlines(&mut self, place: u64, bytes: &[u8], mut at: usize) {
        while let Ok(wanted) = usize::try_from(self.next.saturating_sub(place + 1)) {
            at = at.max(wanted);
            let Some(newline) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\n', rest)) else { return };
            at += newline + 1;
            self.row(place + at as u64);
        }
    }

    /// Rows begin at those of the places that are behind a newline.
    fn rows(&mut self, place: u64, bytes: &[u8], starts: &[u32]) {
        if starts.last().is_none_or(|&last| place + u64::from(last) < self.next) {
            return;
        }
        for &start in &starts[1..] {
            if bytes[start as usize - 1] == b'\n' {
                self.row(place + u64::from(start));
            }
        }
    }
}

/// An error if a row that has not ended yet has more bytes than one may have.
pub fn check_length(bytes: usize) -> Result<()> {
    if bytes <= LONGEST_ROW {
        return Ok(());
    }
    Err(Fault::damaged(format!("a row of more than {} MiB: a quote may not be closed", LONGEST_ROW >> 20)))
}
