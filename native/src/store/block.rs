//! Blocks: a file as a row of pieces, each with its length, its kind, its number and a checksum over all of that.
//!
//! ```text
//! prologue   magic 8 bytes | version u32 | zero u32
//! block      length u32 | kind u32 | number u32 | crc32 u32 | length bytes        (numbers count from 0)
//! ```
//!
//! Little-endian. A block's checksum covers its length, kind, number and content, so no byte of a file can change, and
//! no block can vanish or change places, without being noticed. What kinds mean is said elsewhere.

use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crc32fast::Hasher;

use super::{StoreError, Trouble};

pub const PROLOGUE: u64 = 16;
pub const HEAD: u64 = 16;
/// No block is longer; what is longer is written as several.
pub const MOST_BLOCK: usize = 64 << 20;

/// Writes a prologue and blocks, and keeps the checksum and the length of all that it wrote.
pub struct BlockWriter<W: Write> {
    out: W,
    number: u32,
    bytes: u64,
    crc: Hasher,
}

impl<W: Write> BlockWriter<W> {
    pub fn new(out: W, magic: [u8; 8], version: u32) -> io::Result<Self> {
        let mut writer = Self { out, number: 0, bytes: 0, crc: Hasher::new() };
        let mut prologue = [0u8; PROLOGUE as usize];
        prologue[..8].copy_from_slice(&magic);
        prologue[8..12].copy_from_slice(&version.to_le_bytes());
        writer.put(&prologue)?;
        Ok(writer)
    }

    pub fn block(&mut self, kind: u32, content: &[u8]) -> io::Result<()> {
        if content.len() > MOST_BLOCK {
            let text = format!("a block of {} bytes is longer than the limit of {MOST_BLOCK}", content.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut head = [0u8; HEAD as usize];
        head[..4].copy_from_slice(&(content.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&kind.to_le_bytes());
        head[8..12].copy_from_slice(&self.number.to_le_bytes());
        let crc = checksum(&head, content);
        head[12..].copy_from_slice(&crc.to_le_bytes());
        self.put(&head)?;
        self.put(content)?;
        self.number += 1;
        Ok(())
    }

    pub fn blocks(&self) -> u32 {
        self.number
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn crc32(&self) -> u32 {
        self.crc.clone().finalize()
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.crc.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Reads what a `BlockWriter` wrote. `size` is the file's length: nothing is set aside beyond it.
pub struct BlockReader<R: Read> {
    input: R,
    file: PathBuf,
    size: u64,
    at: u64,
    number: u32,
    version: u32,
    content: Vec<u8>,
    crc: Hasher,
}

impl<R: Read> BlockReader<R> {
    /// Reads the prologue; `what` says what the file should be ("shard file"), `versions` which formats are understood.
    pub fn new(
        input: R,
        file: &Path,
        size: u64,
        magic: [u8; 8],
        versions: RangeInclusive<u32>,
        what: &str,
    ) -> Result<Self, StoreError> {
        let file = file.to_path_buf();
        let (content, crc) = (Vec::new(), Hasher::new());
        let mut reader = Self { input, file, size, at: 0, number: 0, version: 0, content, crc };
        let mut prologue = [0u8; PROLOGUE as usize];
        let there = size.min(PROLOGUE) as usize;
        reader.take(&mut prologue[..there])?;
        if prologue[..there.min(8)] != magic[..there.min(8)] {
            return Err(reader.wrong(Trouble::Foreign, format!("is not a {what} of umiak")));
        }
        if size < PROLOGUE {
            return Err(reader.wrong(Trouble::Torn, format!("is cut off: a {what} is longer than {size} bytes")));
        }
        let found = u32_at(&prologue, 8);
        if !versions.contains(&found) {
            let text = format!("is a {what} of format {found}, and this umiak reads formats up to {}", versions.end());
            return Err(reader.wrong(Trouble::Version, text));
        }
        reader.version = found;
        if u32_at(&prologue, 12) != 0 {
            return Err(reader.wrong(Trouble::Damaged, "is damaged: bytes 12 to 15 should be zero"));
        }
        Ok(reader)
    }

    /// The next block's kind; its content is in `content()`. `None` at the end of the file.
    pub fn advance(&mut self) -> Result<Option<u32>, StoreError> {
        let begin = self.at;
        let left = self.left();
        if left == 0 {
            return Ok(None);
        }
        if left < HEAD {
            let text = format!("is cut off: a block begins at byte {begin}, and the file ends {left} bytes later");
            return Err(self.wrong(Trouble::Torn, text));
        }
        let mut head = [0u8; HEAD as usize];
        self.take(&mut head)?;
        let (length, kind, number, crc) = (u32_at(&head, 0), u32_at(&head, 4), u32_at(&head, 8), u32_at(&head, 12));
        if u64::from(length) > self.left() {
            let left = self.left();
            let text = format!(
                "is cut off or damaged: the block at byte {begin} has {length} bytes, the file only {left} more"
            );
            return Err(self.wrong(Trouble::Torn, text));
        }
        if length as usize > MOST_BLOCK {
            let text = format!("is damaged: the block at byte {begin} says it has {length} bytes, beyond all limits");
            return Err(self.wrong(Trouble::Damaged, text));
        }
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        content.resize(length as usize, 0);
        self.take(&mut content)?;
        self.content = content;
        if checksum(&head, &self.content) != crc {
            let text = format!("is damaged: the checksum of the block at byte {begin} ({length} bytes) is wrong");
            return Err(self.wrong(Trouble::Damaged, text));
        }
        if number != self.number {
            let text = format!("is damaged: block {} was expected at byte {begin}, not block {number}", self.number);
            return Err(self.wrong(Trouble::Damaged, text));
        }
        self.number += 1;
        Ok(Some(kind))
    }

    /// The format that the file says it has.
    pub fn version(&self) -> u32 {
        self.version
    }

    pub fn content(&self) -> &[u8] {
        &self.content
    }

    pub fn blocks(&self) -> u32 {
        self.number
    }

    /// How many bytes of the file have not been read.
    pub fn left(&self) -> u64 {
        self.size - self.at
    }

    /// The checksum of everything read so far.
    pub fn crc32(&self) -> u32 {
        self.crc.clone().finalize()
    }

    pub fn wrong(&self, trouble: Trouble, what: impl Into<String>) -> StoreError {
        StoreError::new(trouble, &self.file, what)
    }

    fn take(&mut self, into: &mut [u8]) -> Result<(), StoreError> {
        self.input.read_exact(into).map_err(|error| StoreError::io(&self.file, "can't be read", &error))?;
        self.crc.update(into);
        self.at += into.len() as u64;
        Ok(())
    }
}

/// Of the first twelve bytes of a block's head, and of its content.
fn checksum(head: &[u8; HEAD as usize], content: &[u8]) -> u32 {
    let mut crc = Hasher::new();
    crc.update(&head[..12]);
    crc.update(content);
    crc.finalize()
}

/// The number at this place. Callers have checked that it is there.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0u8; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Numbers as bytes, at the end of `out`. These loops become copies.
pub(crate) fn put_u64s(out: &mut Vec<u8>, numbers: &[u64]) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

pub(crate) fn put_u32s(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

pub(crate) fn put_f32s(out: &mut Vec<u8>, numbers: &[f32]) {
    let begin = out.len();
    out.resize(begin + 4 * numbers.len(), 0);
    for (place, number) in out[begin..].chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

pub(crate) fn f32s(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.chunks_exact(4).map(|word| f32::from_bits(u32_at(word, 0)))
}
