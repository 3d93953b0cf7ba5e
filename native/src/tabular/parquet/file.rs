//! An adapter: a Parquet file, and its row groups as batches of columns.

use std::sync::Arc;

use super::chunk::ChunkReader;
use super::footer::{self, Footer};
use super::schema::{self, Leaf};
use crate::tabular::asked::Asked;
use crate::tabular::batches::{Batch, Place, without_bad};
use crate::tabular::fault::{Fault, Result};
use crate::tabular::filler::Filler;
use crate::tabular::ranges::Ranges;

pub struct ParquetFile {
    pub name: String,
    from: Arc<dyn Ranges>,
    pub footer: Footer,
    pub leaves: Vec<Leaf>,
}

impl ParquetFile {
    pub fn open(name: &str, from: Arc<dyn Ranges>) -> Result<Self> {
        let read = || {
            let footer = footer::read(&*from)?;
            let leaves = schema::leaves(&footer.elements)?;
            Ok((footer, leaves))
        };
        let (footer, leaves) = read().map_err(|fault: Fault| fault.in_file(name))?;
        Ok(Self { name: name.into(), from, footer, leaves })
    }

    /// A row group's columns, from a row on. With `pass_bad`, rows with bad values are left out and counted.
    pub fn group(
        &self,
        number: usize,
        asked: &[Asked],
        missing: &Arc<Vec<Vec<u8>>>,
        first: u64,
        pass_bad: bool,
    ) -> Result<GroupReader> {
        let at = |fault: Fault| fault.in_file(&self.name).in_group(number);
        let group = self.footer.groups.get(number);
        let group = group.ok_or_else(|| at(Fault::asked(format!("it has {} row groups", self.footer.groups.len()))))?;
        if first > group.rows {
            return Err(at(Fault::asked(format!("it has {} rows: none with the number {first}", group.rows))));
        }
        let mut columns = Vec::new();
        for asked in asked {
            let at = |fault: Fault| at(fault).in_column(&asked.name);
            let Some(place) = self.leaves.iter().position(|leaf| leaf.name == asked.name) else {
                return Err(at(Fault::asked("there is no such column")));
            };
            let leaf = &self.leaves[place];
            if let Some(why) = leaf.refused {
                return Err(at(Fault::unsupported(why)));
            }
            let filler = Filler::new(leaf.kind, asked.want, missing.clone());
            let mut chunk =
                ChunkReader::new(self.from.clone(), &group.chunks[place], leaf, filler, group.rows).map_err(at)?;
            chunk.skip(first).map_err(at)?;
            columns.push((asked.name.clone(), chunk));
        }
        Ok(GroupReader { file: self.name.clone(), number, columns, at: first, rows: group.rows, pass_bad })
    }
}

pub struct GroupReader {
    file: String,
    number: usize,
    columns: Vec<(String, ChunkReader)>,
    at: u64,
    rows: u64,
    pass_bad: bool,
}

impl GroupReader {
    /// Up to `most` rows; None behind the last one.
    pub fn next_batch(&mut self, most: usize) -> Result<Option<Batch>> {
        let rows = (self.rows - self.at).min(most as u64) as usize;
        if rows == 0 {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (name, chunk) in &mut self.columns {
            let column = chunk.read(rows);
            columns.push(column.map_err(|fault| fault.in_file(&self.file).in_group(self.number).in_column(name))?);
        }
        let first = self.at;
        self.at += rows as u64;
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let place = Place { file: &self.file, group: Some(self.number), lines: &[] };
        without_bad(place, first, rows, &names, columns, self.pass_bad).map(Some)
    }
}
