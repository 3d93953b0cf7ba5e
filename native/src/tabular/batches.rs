//! Values and deciders: rows that follow one another, as columns, without those with bad values.

use super::columns::Column;
use super::fault::{Fault, Kind, Result};

/// So many bad rows of a batch are told of.
const BAD_TOLD: usize = 4;

/// Rows that follow one another.
pub struct Batch {
    /// The first one's number in its row group or part.
    pub first: u64,
    /// How many were read, with the bad ones, which are left out.
    pub read: usize,
    pub columns: Vec<Column>,
    pub bad: usize,
    /// Some of the bad ones.
    pub told: Vec<Fault>,
}

#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub file: &'a str,
    pub group: Option<usize>,
    /// Of texts: the line of each row.
    pub lines: &'a [u64],
}

/// A batch without its bad rows; the first of them is the fault where they are not to be passed over.
pub fn without_bad(
    place: Place<'_>,
    first: u64,
    read: usize,
    names: &[&str],
    mut columns: Vec<Column>,
    pass_bad: bool,
) -> Result<Batch> {
    let mut told: Vec<Fault> = Vec::new();
    for (name, column) in names.iter().zip(&columns) {
        if let Some((row, bad)) = column.first_bad() {
            let text = format!("{} is expected", bad.expected);
            let mut fault = Fault::new(Kind::Value, text).in_file(place.file).in_column(name);
            fault.group = place.group.map(|group| group as u64);
            fault.line = place.lines.get(row).copied();
            fault.row = fault.line.is_none().then_some(first + row as u64);
            fault.value = Some(bad.value.clone());
            told.push(fault);
        }
    }
    told.sort_by_key(|fault| (fault.line, fault.row));
    told.truncate(BAD_TOLD);
    let mut bad = 0;
    if let Some(fault) = told.first() {
        if !pass_bad {
            return Err(fault.clone());
        }
        let mut marked = vec![0; columns.first().map_or(0, Column::rows)];
        columns.iter().for_each(|column| column.mark_bad_rows(&mut marked));
        bad = marked.iter().map(|&marked| usize::from(marked)).sum();
        columns.iter_mut().for_each(|column| column.drop_rows(&marked));
    }
    Ok(Batch { first, read, columns, bad, told })
}
