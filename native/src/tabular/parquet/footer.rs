//! A decider: the footer of a file, from its bytes. What it says of places and counts is checked where it is used.

use super::thrift::{Compact, Type};
use crate::tabular::fault::{Fault, Result};
use crate::tabular::ranges::{Ranges, piece};

const MAGIC: &[u8] = b"PAR1";
const ENCRYPTED: &[u8] = b"PARE";
/// A larger footer is refused.
const LARGEST: u64 = 512 << 20;

/// An element of the schema, as it lies in the footer.
#[derive(Clone, Debug, Default)]
pub struct Element {
    pub physical: Option<i32>,
    pub length: i32,
    pub repetition: i32,
    pub name: String,
    pub children: usize,
    pub converted: Option<i32>,
    pub scale: i32,
    pub logical: Option<Logical>,
}

/// A logical type: its number among them all, and what it says besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logical {
    pub number: i16,
    pub scale: i32,
    pub zoned: bool,
    pub unit: i16,
    pub bits: u8,
    pub signed: bool,
}

/// A column of a row group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk {
    pub codec: i32,
    pub values: i64,
    pub start: i64,
    pub bytes: i64,
    /// Its values are in another file.
    pub elsewhere: bool,
    pub encrypted: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Group {
    pub rows: u64,
    pub bytes: u64,
    pub chunks: Vec<Chunk>,
}

#[derive(Clone, Debug, Default)]
pub struct Footer {
    pub elements: Vec<Element>,
    pub rows: u64,
    pub groups: Vec<Group>,
    pub writer: String,
}

pub fn read(from: &dyn Ranges) -> Result<Footer> {
    let size = from.size();
    if size < 12 {
        return Err(Fault::damaged(format!("it is no Parquet file: it has {size} bytes")));
    }
    // Most footers are small: one look at the end of the file is enough.
    let first = size.min(64 << 10);
    let mut end = piece(from, size - first, first as usize)?;
    let magic = &end[end.len() - 4..];
    if magic == ENCRYPTED {
        return Err(Fault::unsupported("it is encrypted, which is not read here"));
    }
    if magic != MAGIC {
        return Err(Fault::damaged("it is no Parquet file, or was cut off: its last bytes are not PAR1"));
    }
    let mut length = [0; 4];
    length.copy_from_slice(&end[end.len() - 8..end.len() - 4]);
    let length = u64::from(u32::from_le_bytes(length));
    if length > size - 12 || length > LARGEST {
        return Err(Fault::damaged(format!("its footer is said to have {length} bytes, and the file has {size}")));
    }
    if length + 8 > first {
        end = piece(from, size - 8 - length, length as usize + 8)?;
    }
    let start = end.len() - 8 - length as usize;
    parsed(&end[start..end.len() - 8])
}

fn parsed(bytes: &[u8]) -> Result<Footer> {
    let mut footer = Footer::default();
    let mut encrypted = false;
    let mut compact = Compact::new(bytes);
    compact.structure(|compact, id, kind| {
        match (id, kind) {
            (2, Type::List) => {
                let (count, _) = compact.list()?;
                for _ in 0..count {
                    footer.elements.push(element(compact)?);
                }
            }
            (3, Type::Integer) => footer.rows = count(compact.integer()?)?,
            (4, Type::List) => {
                let (count, _) = compact.list()?;
                let columns = footer.elements.iter().filter(|element| element.physical.is_some()).count();
                for number in 0..count {
                    let group = group(compact, columns).map_err(|fault| fault.in_group(number))?;
                    footer.groups.push(group);
                }
            }
            (6, Type::Binary) => footer.writer = String::from_utf8_lossy(compact.binary()?).into_owned(),
            (8, _) => {
                encrypted = true;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if encrypted {
        return Err(Fault::unsupported("it is encrypted, which is not read here"));
    }
    let rows = footer.groups.iter().try_fold(0u64, |sum, group| sum.checked_add(group.rows));
    if rows != Some(footer.rows) {
        return Err(Fault::damaged("its row groups have not as many rows together as the file is said to have"));
    }
    Ok(footer)
}

fn count(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| Fault::damaged("its metadata is damaged: a negative count"))
}

fn element(compact: &mut Compact<'_>) -> Result<Element> {
    let mut element = Element::default();
    compact.structure(|compact, id, kind| {
        match (id, kind) {
            (1, Type::Integer) => element.physical = Some(compact.small()?),
            (2, Type::Integer) => element.length = compact.small()?,
            (3, Type::Integer) => element.repetition = compact.small()?,
            (4, Type::Binary) => element.name = String::from_utf8_lossy(compact.binary()?).into_owned(),
            (5, Type::Integer) => element.children = count(compact.integer()?)? as usize,
            (6, Type::Integer) => element.converted = Some(compact.small()?),
            (7, Type::Integer) => element.scale = compact.small()?,
            (10, Type::Struct) => element.logical = logical(compact)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(element)
}

fn logical(compact: &mut Compact<'_>) -> Result<Option<Logical>> {
    let mut found = None;
    compact.structure(|compact, number, kind| {
        if kind != Type::Struct {
            return Ok(false);
        }
        let mut logical = Logical { number, ..Logical::default() };
        compact.structure(|compact, id, kind| {
            match (number, id, kind) {
                (5, 1, Type::Integer) => logical.scale = compact.small()?,
                (7 | 8, 1, Type::True) => logical.zoned = true,
                (7 | 8, 2, Type::Struct) => compact.structure(|_, unit, _| {
                    logical.unit = unit;
                    Ok(false)
                })?,
                (10, 2, Type::True) => logical.signed = true,
                _ => return Ok(false),
            }
            // A truth is in its type; nothing follows it.
            Ok(true)
        })?;
        found = Some(logical);
        Ok(true)
    })?;
    Ok(found)
}

fn group(compact: &mut Compact<'_>, columns: usize) -> Result<Group> {
    let mut group = Group::default();
    compact.structure(|compact, id, kind| {
        match (id, kind) {
            (1, Type::List) => {
                let (count, _) = compact.list()?;
                if count != columns {
                    return Err(Fault::damaged(format!("it has {count} columns, and the schema has {columns}")));
                }
                for _ in 0..count {
                    group.chunks.push(chunk(compact)?);
                }
            }
            (2, Type::Integer) => group.bytes = compact.integer()?.max(0) as u64,
            (3, Type::Integer) => group.rows = count(compact.integer()?)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if group.chunks.len() != columns {
        return Err(Fault::damaged("a row group without its columns"));
    }
    Ok(group)
}

fn chunk(compact: &mut Compact<'_>) -> Result<Chunk> {
    let mut chunk = Chunk::default();
    let (mut data, mut dictionary) = (0, None);
    compact.structure(|compact, id, kind| {
        match (id, kind) {
            (1, Type::Binary) => {
                compact.binary()?;
                chunk.elsewhere = true;
            }
            (3, Type::Struct) => compact.structure(|compact, id, kind| {
                match (id, kind) {
                    (4, Type::Integer) => chunk.codec = compact.small()?,
                    (5, Type::Integer) => chunk.values = compact.integer()?,
                    (7, Type::Integer) => chunk.bytes = compact.integer()?,
                    (9, Type::Integer) => data = compact.integer()?,
                    (11, Type::Integer) => dictionary = Some(compact.integer()?),
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            (8, _) => {
                chunk.encrypted = true;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    // Some writers set the dictionary's place to 0 where there is none.
    chunk.start = dictionary.filter(|&at| at > 0 && at < data).unwrap_or(data);
    Ok(chunk)
}
