//! A decider: the fields of CSV rows on their way to columns. Of a field only its place is kept until its column takes it.

use std::sync::Arc;

use super::asked::{Asked, Kind as ValueKind, Want};
use super::columns::{Column, MISSING};
use super::fault::{Fault, Result};
use super::filler::{Filler, Raw};
use super::scan::{self, Marks};

/// What becomes of one column that was asked for.
struct Wanted {
    name: String,
    filler: Filler,
    column: Column,
    spans: Vec<(u32, u32)>,
    separator: Option<u8>,
}

pub struct Fields {
    wanted: Vec<Wanted>,
    /// For each field of a row, which of the wanted columns it is.
    places: Vec<u32>,
    marks: Marks,
}

const UNWANTED: u32 = u32::MAX;

impl Fields {
    /// Of rows whose columns are called so.
    pub fn new(names: &[String], asked: &[Asked], missing: &Arc<Vec<Vec<u8>>>, marks: Marks) -> Result<Self> {
        let mut places = vec![UNWANTED; names.len()];
        let mut wanted = Vec::new();
        for asked in asked {
            let Some(place) = names.iter().position(|name| *name == asked.name) else {
                return Err(Fault::asked("there is no such column").in_column(&asked.name));
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
        Ok(Self { wanted, places, marks })
    }

    /// How many a row has.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    pub fn names(&self) -> Vec<&str> {
        self.wanted.iter().map(|wanted| wanted.name.as_str()).collect()
    }

    /// What was read so far.
    pub fn take_columns(&mut self) -> Vec<Column> {
        let taken = |wanted: &mut Wanted| {
            let mut empty = wanted.filler.column(wanted.separator.is_some());
            empty.reserve(wanted.column.values());
            std::mem::replace(&mut wanted.column, empty)
        };
        self.wanted.iter_mut().map(taken).collect()
    }

    /// Takes rows that have as many fields as there are columns, each column by itself: `starts` has the place of the first field,
    /// and the place behind each.
    pub fn take_rows(&mut self, bytes: &mut [u8], starts: &[u32], quotes: bool) -> Result<()> {
        let fields = self.places.len();
        let marks = Marks { quote: self.marks.quote.filter(|_| quotes), ..self.marks };
        for (field, &place) in self.places.iter().enumerate() {
            let Some(wanted) = self.wanted.get_mut(place as usize) else { continue };
            let is_last = field + 1 == fields;
            let begins = starts[field..].iter().step_by(fields);
            let places = begins.zip(starts[field + 1..].iter().step_by(fields));
            if wanted.separator.is_none() && marks.quote.is_none() && !is_last {
                wanted.spans.extend(places.map(|(&start, &next)| (start, next - 1)));
            } else {
                for (&start, &next) in places {
                    let (start, end) = value(bytes, start as usize, next as usize, is_last, marks);
                    wanted.keep(bytes, start, end);
                }
            }
            wanted.fill(bytes)?;
        }
        Ok(())
    }

    /// One field of a row.
    #[inline]
    pub fn keep(&mut self, bytes: &[u8], field: usize, start: usize, end: usize) {
        let Some(&place) = self.places.get(field) else { return };
        if let Some(wanted) = self.wanted.get_mut(place as usize) {
            wanted.keep(bytes, start, end);
        }
    }

    /// Takes back the first fields of a row, all that it has.
    pub fn take_back(&mut self, fields: usize) {
        for &place in self.places.iter().take(fields) {
            if let Some(wanted) = self.wanted.get_mut(place as usize) {
                wanted.take_back();
            }
        }
    }

    /// Hands the fields that were kept to their columns.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        self.wanted.iter_mut().try_for_each(|wanted| wanted.fill(bytes))
    }
}

/// Where the value of a field lies that ends before `next`; quotes are taken off in place.
pub fn value(bytes: &mut [u8], start: usize, next: usize, is_last: bool, marks: Marks) -> (usize, usize) {
    let end = next - 1;
    let end = if is_last && end > start && bytes[end - 1] == b'\r' { end - 1 } else { end };
    let Some(quote) = marks.quote.filter(|&quote| bytes[start] == quote && end > start) else { return (start, end) };
    if end > start + 1 && bytes[end - 1] == quote && memchr::memchr(quote, &bytes[start + 1..end - 1]).is_none() {
        return (start + 1, end - 1);
    }
    let field = scan::field(&mut bytes[..next], start, marks);
    (field.start, field.end)
}

impl Wanted {
    #[inline]
    fn keep(&mut self, bytes: &[u8], start: usize, end: usize) {
        let Some(separator) = self.separator else {
            self.spans.push((start as u32, end as u32));
            return;
        };
        if start < end {
            let mut from = start;
            for found in memchr::memchr_iter(separator, &bytes[start..end]) {
                self.spans.push((from as u32, (start + found) as u32));
                from = start + found + 1;
            }
            self.spans.push((from as u32, end as u32));
        }
        let values = self.column.values() + self.spans.len();
        if let Some(lists) = &mut self.column.lists {
            lists.push(values, start == end);
        }
    }

    fn take_back(&mut self) {
        let values = self.column.values();
        match &mut self.column.lists {
            None => drop(self.spans.pop()),
            Some(lists) => {
                lists.ends.pop();
                lists.missing.pop();
                let before = lists.ends.last().map_or(0, |&end| end as usize);
                self.spans.truncate(before - values);
            }
        }
    }

    fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        let before = self.column.values();
        self.filler.fill(Raw::Bytes(bytes, &self.spans), &mut self.column);
        if self.filler.want == Want::Values {
            for (state, &(start, end)) in self.column.state[before..].iter_mut().zip(&self.spans) {
                if start == end {
                    *state = MISSING;
                }
            }
        }
        self.spans.clear();
        self.column.check_text().map_err(Fault::unsupported)
    }
}
