//! An adapter: a parsed input as a file of columns, mapped into memory. Its format is described in
//! docs/reference/slot-format.md.
//!
//! A cache is only used if it was made completely, from this very file, for these very slots; each block is checked when it
//! is used first. Anything else makes the caller build it again.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::columns::Columns;
use super::schema::Schema;
use super::source::{From, Input};
use super::tally::Tally;

/// Samples of a block; the last one has fewer.
pub const BLOCK: usize = 4096;
const VERSION: u32 = 2;
const HEAD: [u8; 8] = *b"UMSLOTS\x01";
const TAIL: [u8; 8] = *b"UMSLOTE\x01";
const TAIL_BYTES: usize = 32;
const ALIGNMENT: usize = 64;
/// Of a source, this much at its beginning and at its end goes into its fingerprint.
const EDGE: u64 = 64 << 10;
/// In a block's table: every sample has one value, and offsets are left out.
const SINGLE: u64 = 1 << 63;

/// The file that a cache was made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    size: u64,
    mtime_ns: i128,
    fingerprint: String,
    start: u64,
    end: Option<u64>,
}

impl Origin {
    pub fn of(input: &Input) -> io::Result<Self> {
        let From::Path { path, start, end, .. } = &input.from else {
            return Err(io::Error::other("only files can have a cache"));
        };
        let mut file = File::open(path)?;
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::other("only files can have a cache"));
        }
        let mut hash = Sha256::new();
        let mut piece = Vec::new();
        for edge in [0, facts.len().saturating_sub(EDGE)] {
            piece.clear();
            file.seek(SeekFrom::Start(edge))?;
            (&mut file).take(EDGE).read_to_end(&mut piece)?;
            hash.update(&piece);
        }
        let mtime_ns = i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec());
        Ok(Self { size: facts.len(), mtime_ns, fingerprint: hex(&hash.finalize()), start: *start, end: *end })
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    origin: Origin,
    schema: Schema,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Entry {
    offset: u64,
    length: u64,
    crc: u32,
    samples: u64,
}

#[derive(Serialize, Deserialize)]
struct Index {
    blocks: Vec<Entry>,
    tally: Tally,
}

/// Where the cache of an input is: in a directory, or hidden beside its file.
pub fn path_of(input: &Input, schema: &Schema, directory: Option<&Path>) -> io::Result<PathBuf> {
    let From::Path { path, start, end, .. } = &input.from else {
        return Err(io::Error::other("only files can have a cache"));
    };
    let whole = fs::canonicalize(path)?;
    let mut hash = Sha256::new();
    if directory.is_some() {
        hash.update(whole.as_os_str().as_encoded_bytes());
    }
    hash.update(format!("\0{start}\0{end:?}\0{}", serde_json::to_string(schema)?));
    let mark = hex(&hash.finalize()[..8]);
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(match directory {
        Some(directory) => directory.join(format!("{name}.{mark}.slots")),
        None => whole.with_file_name(format!(".{name}.{mark}.slots")),
    })
}

/// Writes a cache under another name; only `finish` gives it its own.
pub struct Writer {
    file: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    at: u64,
    index: Index,
    finished: bool,
}

impl Writer {
    pub fn create(target: &Path, origin: &Origin, schema: &Schema) -> io::Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Others may make the same cache at the same time, from other machines as well.
        let mark = format!("{}-{:016x}", std::process::id(), RandomState::new().build_hasher().finish());
        let temporary = target.with_file_name(format!(".{}.{mark}.partial", name.trim_start_matches('.')));
        let file = BufWriter::with_capacity(1 << 20, File::create_new(&temporary)?);
        let index = Index { blocks: Vec::new(), tally: Tally::new(schema) };
        let mut writer = Self { file, temporary, target: target.to_path_buf(), at: 0, index, finished: false };
        let header = Header { version: VERSION, origin: origin.clone(), schema: schema.clone() };
        let header = serde_json::to_vec(&header)?;
        writer.put(&HEAD)?;
        writer.put(&(header.len() as u32).to_le_bytes())?;
        writer.put(&crc32fast::hash(&header).to_le_bytes())?;
        writer.put(&header)?;
        Ok(writer)
    }

    pub fn block(&mut self, columns: &Columns) -> io::Result<()> {
        self.align()?;
        let mut bytes = Vec::with_capacity(columns.bytes());
        bytes.extend_from_slice(&(columns.size as u64).to_le_bytes());
        let singles = columns.singles();
        for (column, single) in columns.sparse.iter().zip(&singles) {
            let flag = if *single { SINGLE } else { 0 };
            bytes.extend_from_slice(&(column.values.len() as u64 | flag).to_le_bytes());
        }
        for (column, single) in columns.sparse.iter().zip(&singles) {
            if !single {
                column.offsets.iter().for_each(|offset| bytes.extend_from_slice(&offset.to_le_bytes()));
            }
            column.values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        }
        for column in &columns.dense {
            column.values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let (length, crc) = (bytes.len() as u64, crc32fast::hash(&bytes));
        self.index.blocks.push(Entry { offset: self.at, length, crc, samples: columns.size as u64 });
        self.put(&bytes)
    }

    /// Makes the cache be there, whole, or not at all.
    pub fn finish(mut self, tally: Tally) -> io::Result<()> {
        self.align()?;
        self.index.tally = tally;
        let index = serde_json::to_vec(&self.index)?;
        let at = self.at;
        self.put(&index)?;
        self.put(&at.to_le_bytes())?;
        self.put(&(index.len() as u64).to_le_bytes())?;
        self.put(&crc32fast::hash(&index).to_le_bytes())?;
        self.put(&[0; 4])?;
        self.put(&TAIL)?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.finished = true;
        Ok(())
    }

    fn align(&mut self) -> io::Result<()> {
        let missing = (ALIGNMENT - self.at as usize % ALIGNMENT) % ALIGNMENT;
        self.put(&[0; ALIGNMENT][..missing])
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            // It is only rubbish that would stay behind.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A cache that belongs to its source and was made completely.
pub struct Cache {
    map: Mmap,
    blocks: Vec<Entry>,
    pub tally: Tally,
    pub samples: u64,
}

impl Cache {
    /// In words why it can't be used, if it can't.
    pub fn open(path: &Path, origin: &Origin, schema: &Schema) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        // SAFETY: a cache is never changed under its name, only replaced by another file.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| error.to_string())?;
        let short = || "it is torn".to_string();
        if map.get(..8) != Some(&HEAD) {
            return Err("it is no cache of slots, or of another version".to_string());
        }
        let number =
            |at: usize| map.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])));
        let word = |at: usize| map.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap_or([0; 4])));
        let length = word(8).ok_or_else(short)? as usize;
        let header = map.get(16..16 + length).ok_or_else(short)?;
        if word(12) != Some(crc32fast::hash(header)) {
            return Err(short());
        }
        let header: Header = serde_json::from_slice(header).map_err(|error| error.to_string())?;
        if header.version != VERSION {
            return Err(format!("it has version {}", header.version));
        }
        if header.schema != *schema {
            return Err("it was made for other slots".to_string());
        }
        if header.origin != *origin {
            return Err("its file has changed".to_string());
        }
        let tail = map.len().checked_sub(TAIL_BYTES).ok_or_else(short)?;
        if map[tail + 24..] != TAIL {
            return Err(short());
        }
        let (at, length) = (number(tail).ok_or_else(short)? as usize, number(tail + 8).ok_or_else(short)? as usize);
        if at.checked_add(length) != Some(tail) {
            return Err(short());
        }
        let index = &map[at..tail];
        if word(tail + 16) != Some(crc32fast::hash(index)) {
            return Err(short());
        }
        let Index { blocks, tally } = serde_json::from_slice(index).map_err(|error| error.to_string())?;
        let samples = blocks.iter().map(|block| block.samples).sum();
        Ok(Self { map, blocks, tally, samples })
    }

    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub fn samples_of(&self, block: usize) -> usize {
        self.blocks[block].samples as usize
    }

    /// Bytes of a block, as it is in the file.
    pub fn bytes_of(&self, block: usize) -> u64 {
        self.blocks[block].length
    }

    /// A block that was checked: its bytes are as they were written, and its tables fit to them.
    pub fn view(&self, number: usize, schema: &Schema) -> Option<View> {
        let entry = self.blocks[number];
        let start = usize::try_from(entry.offset).ok().filter(|start| start % ALIGNMENT == 0)?;
        let end = start.checked_add(usize::try_from(entry.length).ok()?)?;
        let bytes = self.map.get(start..end)?;
        if crc32fast::hash(bytes) != entry.crc {
            return None;
        }
        View::new(bytes, start, entry.samples as usize, schema)
    }

    /// Adds samples of a block to columns.
    pub fn copy(&self, view: &View, samples: std::ops::Range<usize>, out: &mut Columns) {
        for (column, part) in out.sparse.iter_mut().zip(&view.sparse) {
            let first = column.values.len() as i64;
            if let Some(offsets) = &part.offsets {
                let offsets = &self.words(offsets)[samples.start..=samples.end];
                let (start, end) = (offsets[0], offsets[samples.len()]);
                column.values.extend_from_slice(&self.words(&part.values)[start as usize..end as usize]);
                let shift = first - start as i64;
                column.offsets.extend(offsets[1..].iter().map(|&offset| offset as i64 + shift));
            } else {
                column.values.extend_from_slice(&self.words(&part.values)[samples.clone()]);
                column.offsets.extend(first + 1..=first + samples.len() as i64);
            }
        }
        for (column, part) in out.dense.iter_mut().zip(&view.dense) {
            let values = &self.map[part.clone()];
            let values = &values[samples.start * column.dim * 4..samples.end * column.dim * 4];
            // SAFETY: any four bytes are a float32; a block and its arrays are aligned to eight.
            let (before, values, after) = unsafe { values.align_to::<f32>() };
            debug_assert!(before.is_empty() && after.is_empty());
            column.values.extend_from_slice(values);
        }
        out.size += samples.len();
    }

    fn words(&self, range: &std::ops::Range<usize>) -> &[u64] {
        // SAFETY: any eight bytes are a u64; a block and its arrays are aligned to eight.
        let (before, words, after) = unsafe { self.map[range.clone()].align_to::<u64>() };
        debug_assert!(before.is_empty() && after.is_empty());
        words
    }
}

/// Where the arrays of a block are in the file.
pub struct View {
    sparse: Vec<SparsePart>,
    dense: Vec<std::ops::Range<usize>>,
}

struct SparsePart {
    offsets: Option<std::ops::Range<usize>>,
    values: std::ops::Range<usize>,
}

impl View {
    fn new(bytes: &[u8], start: usize, samples: usize, schema: &Schema) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        if word(0)? != samples as u64 {
            return None;
        }
        let mut at = 8 * (1 + schema.sparse.len());
        let mut take = |length: Option<usize>| {
            let range = at..at.checked_add(length?)?;
            at = range.end.next_multiple_of(8);
            (range.end <= bytes.len()).then_some(range)
        };
        let mut sparse = Vec::with_capacity(schema.sparse.len());
        for slot in 0..schema.sparse.len() {
            let entry = word(8 * (1 + slot))?;
            let count = usize::try_from(entry & !SINGLE).ok()?;
            let offsets = match entry & SINGLE {
                0 => Some(take(samples.checked_add(1)?.checked_mul(8))?),
                _ if count != samples => return None,
                _ => None,
            };
            if let Some(offsets) = &offsets {
                let mut last = 0;
                for offset in bytes[offsets.clone()].chunks_exact(8) {
                    let offset = u64::from_le_bytes(offset.try_into().ok()?);
                    if offset < last {
                        return None;
                    }
                    last = offset;
                }
                if word(offsets.start)? != 0 || last != count as u64 {
                    return None;
                }
            }
            sparse.push(SparsePart { offsets, values: take(count.checked_mul(8))? });
        }
        let mut dense = Vec::with_capacity(schema.dense.len());
        for slot in &schema.dense {
            dense.push(take(samples.checked_mul(slot.dim)?.checked_mul(4))?);
        }
        let moved = |range: std::ops::Range<usize>| range.start + start..range.end + start;
        Some(Self {
            sparse: (sparse.into_iter())
                .map(|part| SparsePart { offsets: part.offsets.map(moved), values: moved(part.values) })
                .collect(),
            dense: dense.into_iter().map(moved).collect(),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
