//! Reading shard files: piece by piece, each checked before it is handed out, the totals at the end.
//!
//! A reader trusts nothing: a torn, damaged, foreign or newer file gives one sentence, and no more memory is used than
//! the file is long. Rows come before the end is known to be good; who must not use half a file calls `verify` first.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::block::{BlockReader, f32s, u32_at, u64_at};
use super::shardfile::{End, MAGIC, OLDEST, ShardHead, ShardSummary, TableHead, TableTotal, VERSION, kind};
use super::{StoreError, Trouble, open_regular};
use crate::keys::Sharding;
use crate::table::RowBatch;
use crate::table::spec::TableSpec;

/// What comes out of a file, in this order for each table.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Table(TableHead),
    /// Rows of the sparse table that came last.
    Rows(RowBatch),
    /// Elements of the dense table that came last.
    Dense {
        offset: u64,
        values: Vec<f32>,
        state: Vec<f32>,
    },
}

/// An iterator over a file's pieces. After an error it is at its end.
pub struct ShardReader {
    blocks: BlockReader<BufReader<File>>,
    head: ShardHead,
    totals: Vec<TableTotal>,
    dense: bool,
    width: Option<u32>,
    done: bool,
    whole: bool,
    size: u64,
}

impl ShardReader {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (file, size) = open_regular(path)?;
        let input = BufReader::with_capacity(size.clamp(64, 256 << 10) as usize, file);
        let mut blocks = BlockReader::new(input, path, size, MAGIC, OLDEST..=VERSION, "shard file")?;
        match blocks.advance()? {
            Some(kind::HEADER) => {}
            Some(_) => return Err(blocks.wrong(Trouble::Damaged, "is damaged: its first block is not a header")),
            None => return Err(blocks.wrong(Trouble::Torn, "is cut off: it ends before its header")),
        }
        let head: ShardHead = json(&blocks, "header")?;
        // No checksum covers the format's number, so the header must fit it.
        let plain: serde_json::Value = json(&blocks, "header")?;
        if plain.get("count").is_some() != (blocks.version() > OLDEST) {
            return Err(blocks.wrong(Trouble::Damaged, "is damaged: its header is of another format than it says"));
        }
        let end = head.shard.saturating_add(head.count);
        if Sharding::new(head.shards).is_none() || head.count == 0 || end > head.shards {
            let text = format!(
                "says that it holds {} from shard {} of {}, which can't be",
                head.count, head.shard, head.shards
            );
            return Err(blocks.wrong(Trouble::Schema, text));
        }
        let (totals, width) = (Vec::new(), None);
        Ok(Self { blocks, head, totals, dense: false, width, done: false, whole: false, size })
    }

    pub fn head(&self) -> &ShardHead {
        &self.head
    }

    /// How long the file is and the checksum of all of it, as manifests list it; `None` until the last piece was read.
    pub fn fingerprint(&self) -> Option<(u64, u32)> {
        self.whole.then(|| (self.size, self.blocks.crc32()))
    }

    /// What the file held of each table; complete after the last piece.
    pub fn totals(&self) -> &[TableTotal] {
        &self.totals
    }

    fn piece(&mut self) -> Result<Option<Piece>, StoreError> {
        let Some(kind) = self.blocks.advance()? else {
            let text = format!("is cut off: it ends after {} bytes without its end block", self.size);
            return Err(self.blocks.wrong(Trouble::Torn, text));
        };
        match kind {
            kind::TABLE => self.table().map(Some),
            kind::ROWS => self.rows().map(Some),
            kind::DENSE => self.dense().map(Some),
            kind::END => self.end().map(|()| None),
            other => Err(self.damaged(format!("a block of unknown kind {other}"))),
        }
    }

    fn table(&mut self) -> Result<Piece, StoreError> {
        let table: TableHead = json(&self.blocks, "description of a table")?;
        if self.totals.iter().any(|total| total.name == table.name) {
            return Err(self.damaged(format!("table {:?} is in it twice", table.name)));
        }
        self.totals.push(TableTotal { name: table.name.clone(), rows: 0, elements: 0 });
        self.dense = matches!(table.spec, TableSpec::Dense(_));
        self.width = None;
        Ok(Piece::Table(table))
    }

    fn rows(&mut self) -> Result<Piece, StoreError> {
        let content = self.blocks.content();
        let fits = content.len() >= 8 && {
            let (count, width) = (u64::from(u32_at(content, 0)), u64::from(u32_at(content, 4)));
            content.len() as u64 - 8 == count * 12 + count * width * 4
        };
        if !fits {
            return Err(self.damaged("a block of rows has not the size that it says"));
        }
        let (count, width) = (u32_at(content, 0) as usize, u32_at(content, 4));
        let (keys, rest) = content[8..].split_at(8 * count);
        let (flags, data) = rest.split_at(4 * count);
        let batch = RowBatch {
            keys: keys.chunks_exact(8).map(|word| u64_at(word, 0)).collect(),
            flags: flags.chunks_exact(4).map(|word| u32_at(word, 0)).collect(),
            data: f32s(data).collect(),
        };
        let same_width = *self.width.get_or_insert(width) == width;
        match self.totals.last_mut() {
            Some(total) if !self.dense && same_width => total.rows += count as u64,
            _ => return Err(self.damaged("rows that belong to no table, or to another")),
        }
        Ok(Piece::Rows(batch))
    }

    fn dense(&mut self) -> Result<Piece, StoreError> {
        let content = self.blocks.content();
        if content.len() != 24 {
            return Err(self.damaged("the head of a dense piece has not the size that it should"));
        }
        let (offset, values, state) = (u64_at(content, 0), u64_at(content, 8), u64_at(content, 16));
        let wanted = u128::from(values) + u128::from(state);
        if 4 * wanted > u128::from(self.blocks.left()) {
            let text =
                format!("is cut off or damaged: {wanted} numbers should follow, and the file has no room for them");
            return Err(self.blocks.wrong(Trouble::Torn, text));
        }
        let wanted = wanted as usize;
        let mut numbers: Vec<f32> = Vec::with_capacity(wanted);
        while numbers.len() < wanted {
            match self.blocks.advance()? {
                Some(kind::NUMBERS) => {}
                Some(_) => return Err(self.damaged("a dense piece has fewer numbers than it says")),
                None => return Err(self.blocks.wrong(Trouble::Torn, "is cut off within a dense piece")),
            }
            let content = self.blocks.content();
            if content.is_empty() || !content.len().is_multiple_of(4) || content.len() / 4 > wanted - numbers.len() {
                return Err(self.damaged("a dense piece has more numbers than it says"));
            }
            numbers.extend(f32s(content));
        }
        match self.totals.last_mut() {
            Some(total) if self.dense => total.elements += values,
            _ => return Err(self.damaged("a dense piece that belongs to no dense table")),
        }
        let state = numbers.split_off(values as usize);
        Ok(Piece::Dense { offset, values: numbers, state })
    }

    fn end(&mut self) -> Result<(), StoreError> {
        let end: End = json(&self.blocks, "end")?;
        if end.blocks != self.blocks.blocks() || end.tables != self.totals {
            return Err(self.damaged("its end counts other blocks and rows than it has"));
        }
        if self.blocks.left() > 0 {
            let text = format!("something was added to it: {} bytes follow its end", self.blocks.left());
            return Err(self.damaged(text));
        }
        self.whole = true;
        Ok(())
    }

    fn damaged(&self, what: impl AsRef<str>) -> StoreError {
        self.blocks.wrong(Trouble::Damaged, format!("is damaged: {}", what.as_ref()))
    }
}

impl Iterator for ShardReader {
    type Item = Result<Piece, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let piece = self.piece();
        self.done = !matches!(piece, Ok(Some(_)));
        piece.transpose()
    }
}

/// Reads a whole file and says what it holds. With `listed`, it must also be the very file that a manifest lists.
pub fn verify(path: &Path, listed: Option<&ShardSummary>) -> Result<ShardSummary, StoreError> {
    let mut reader = ShardReader::open(path)?;
    for piece in reader.by_ref() {
        piece?;
    }
    let (bytes, crc32) = reader.fingerprint().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let rows = reader.totals().iter().map(|total| (total.name.clone(), total.rows + total.elements)).collect();
    let (shard, count) = (reader.head().shard, reader.head().count);
    let found = ShardSummary { name, shard, count, bytes, crc32, rows };
    match listed {
        Some(listed) if *listed != found => {
            let text = "is whole, but not the file that the manifest lists: it was replaced after the save";
            Err(StoreError::new(Trouble::Schema, path, text))
        }
        _ => Ok(found),
    }
}

fn json<T: serde::de::DeserializeOwned>(blocks: &BlockReader<BufReader<File>>, what: &str) -> Result<T, StoreError> {
    serde_json::from_slice(blocks.content())
        .map_err(|error| blocks.wrong(Trouble::Schema, format!("its {what} is not understood: {error}")))
}
