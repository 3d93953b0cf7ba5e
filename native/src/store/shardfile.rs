//! Shard files: the rows of all tables in one virtual shard, or in several that follow each other, and their pieces of dense
//! tables. Values and the writer.
//!
//! ```text
//! header   JSON {shards, shard, count, step, about}
//! table    JSON {name, spec, state}         everything up to the next table block belongs to this table
//! rows     count u32 | width u32 | keys u64... | flags u32... | numbers f32..., row by row
//! dense    offset u64 | values u64 | state u64         how many numbers follow in `numbers` blocks
//! numbers  f32...                           values first, then state
//! end      JSON {blocks, tables: [{name, rows, elements}]}
//! ```
//!
//! The blocks themselves are described in `block`. Rows of one table have one width: what a table saves of a row, not
//! only its values. A file has its name from the moment that it is whole. Files of format 1 hold one shard each and don't say
//! how many.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::block::{BlockWriter, put_f32s, put_u32s, put_u64s};
use super::{Fresh, with_file};
use crate::table::RowBatch;
use crate::table::spec::TableSpec;

pub const MAGIC: [u8; 8] = *b"UMIAKSHD";
pub const VERSION: u32 = 2;
/// The oldest format that is still read.
pub const OLDEST: u32 = 1;
/// Rows and numbers are cut into blocks of about this size.
const GOOD_BLOCK: usize = 1 << 20;
/// Shards share a file up to about this size: each file is waited for on the disk, and copied by itself.
const GOOD_FILE: u64 = 8 << 20;

pub mod kind {
    pub const HEADER: u32 = 1;
    pub const TABLE: u32 = 2;
    pub const ROWS: u32 = 3;
    pub const DENSE: u32 = 4;
    pub const NUMBERS: u32 = 5;
    pub const END: u32 = 6;
}

/// What a shard file says of itself. `about` is the writer's own, any JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardHead {
    pub shards: usize,
    /// The first shard in the file, and how many there are from it on.
    pub shard: usize,
    #[serde(default = "one")]
    pub count: usize,
    pub step: u64,
    #[serde(default)]
    pub about: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableHead {
    pub name: String,
    pub spec: TableSpec,
    pub state: Value,
}

/// What a finished file holds of a table: rows of a sparse one, elements of a dense one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableTotal {
    pub name: String,
    pub rows: u64,
    pub elements: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    pub blocks: u32,
    pub tables: Vec<TableTotal>,
}

/// A finished file, as manifests list it. `rows` counts a dense table's elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardSummary {
    pub name: String,
    pub shard: usize,
    #[serde(default = "one")]
    pub count: usize,
    pub bytes: u64,
    pub crc32: u32,
    pub rows: BTreeMap<String, u64>,
}

const fn one() -> usize {
    1
}

/// The name of the file in a checkpoint whose first shard this is.
pub fn file_name(shard: usize) -> String {
    format!("shard-{shard:05}.umiak")
}

/// The first shard of a file by its name; `None` for any other file.
pub fn first_shard(name: &str) -> Option<usize> {
    name.strip_prefix("shard-")?.strip_suffix(".umiak")?.parse().ok()
}

/// How many of `shards` a file takes, if all of them have `bytes`: keys are spread evenly, so each has about the same share.
pub fn shards_per_file(bytes: u64, shards: usize) -> usize {
    let files = bytes.div_ceil(GOOD_FILE).clamp(1, shards.max(1) as u64) as usize;
    shards.div_ceil(files).max(1)
}

/// Writes one file. Dropped without `finish`, it leaves nothing behind.
pub struct ShardWriter {
    blocks: BlockWriter<BufWriter<File>>,
    fresh: Fresh,
    name: String,
    shard: usize,
    count: usize,
    totals: Vec<TableTotal>,
    dense: bool,
    width: Option<usize>,
    content: Vec<u8>,
}

impl ShardWriter {
    pub fn create(dir: &Path, name: &str, head: &ShardHead) -> io::Result<Self> {
        let fresh = Fresh::create(dir, name)?;
        let out = BufWriter::with_capacity(256 << 10, fresh.file.try_clone()?);
        let blocks = BlockWriter::new(out, MAGIC, VERSION).map_err(|error| with_file(fresh.path(), &error))?;
        let mut writer = Self {
            blocks,
            fresh,
            name: name.to_owned(),
            shard: head.shard,
            count: head.count,
            totals: Vec::new(),
            dense: false,
            width: None,
            content: Vec::new(),
        };
        writer.content.extend(serde_json::to_vec(head)?);
        writer.flush_block(kind::HEADER)?;
        Ok(writer)
    }

    /// What follows belongs to this table.
    pub fn table(&mut self, name: &str, spec: &TableSpec, state: &Value) -> io::Result<()> {
        if self.totals.iter().any(|total| total.name == name) {
            return self.refuse(format!("table {name:?} is written twice"));
        }
        self.totals.push(TableTotal { name: name.to_owned(), rows: 0, elements: 0 });
        self.dense = matches!(spec, TableSpec::Dense(_));
        self.width = None;
        let head = TableHead { name: name.to_owned(), spec: spec.clone(), state: state.clone() };
        self.content.clear();
        self.content.extend(serde_json::to_vec(&head)?);
        self.flush_block(kind::TABLE)
    }

    /// Rows of the table, in any number of calls.
    pub fn rows(&mut self, batch: &RowBatch) -> io::Result<()> {
        let count = batch.keys.len();
        if self.totals.is_empty() || self.dense {
            return self.refuse("rows outside of a sparse table".to_owned());
        }
        if count == 0 {
            return Ok(());
        }
        let width = batch.data.len() / count;
        if batch.flags.len() != count || width * count != batch.data.len() || self.width.is_some_and(|w| w != width) {
            let text = format!("{count} keys, {} flags, {} numbers", batch.flags.len(), batch.data.len());
            return self.refuse(format!("rows that don't fit together: {text}"));
        }
        self.width = Some(width);
        let most = (GOOD_BLOCK / (12 + 4 * width)).max(1);
        for first in (0..count).step_by(most) {
            let part = first..count.min(first + most);
            self.content.clear();
            put_u32s(&mut self.content, &[part.len() as u32, width as u32]);
            put_u64s(&mut self.content, &batch.keys[part.clone()]);
            put_u32s(&mut self.content, &batch.flags[part.clone()]);
            put_f32s(&mut self.content, &batch.data[part.start * width..part.end * width]);
            self.flush_block(kind::ROWS)?;
        }
        if let Some(total) = self.totals.last_mut() {
            total.rows += count as u64;
        }
        Ok(())
    }

    /// A shard's piece of a dense table: elements from `offset` on, and whatever belongs to them.
    pub fn dense(&mut self, offset: u64, values: &[f32], state: &[f32]) -> io::Result<()> {
        if self.totals.is_empty() || !self.dense {
            return self.refuse("a dense piece outside of a dense table".to_owned());
        }
        self.content.clear();
        put_u64s(&mut self.content, &[offset, values.len() as u64, state.len() as u64]);
        self.flush_block(kind::DENSE)?;
        for numbers in values.chunks(GOOD_BLOCK / 4).chain(state.chunks(GOOD_BLOCK / 4)) {
            self.content.clear();
            put_f32s(&mut self.content, numbers);
            self.flush_block(kind::NUMBERS)?;
        }
        if let Some(total) = self.totals.last_mut() {
            total.elements += values.len() as u64;
        }
        Ok(())
    }

    /// Writes the end, waits for the disk, and gives the file its name. The caller syncs the directory, once for all files.
    pub fn finish(mut self) -> io::Result<ShardSummary> {
        let end = End { blocks: self.blocks.blocks() + 1, tables: std::mem::take(&mut self.totals) };
        self.content.clear();
        self.content.extend(serde_json::to_vec(&end)?);
        self.flush_block(kind::END)?;
        let (bytes, crc32) = (self.blocks.bytes(), self.blocks.crc32());
        let path = self.fresh.path().to_path_buf();
        let flushed = self.blocks.into_inner().into_inner();
        flushed.map_err(|error| with_file(&path, error.error()))?;
        self.fresh.keep()?;
        let rows = end.tables.into_iter().map(|total| (total.name, total.rows + total.elements)).collect();
        Ok(ShardSummary { name: self.name, shard: self.shard, count: self.count, bytes, crc32, rows })
    }

    fn flush_block(&mut self, kind: u32) -> io::Result<()> {
        self.blocks.block(kind, &self.content).map_err(|error| with_file(self.fresh.path(), &error))
    }

    fn refuse(&self, what: String) -> io::Result<()> {
        Err(with_file(self.fresh.path(), &io::Error::new(io::ErrorKind::InvalidInput, what)))
    }
}
