//! An adapter: a column of a row group, page after page, in as many rows at a time as are asked for. Pages are fetched when they
//! are needed, so memory holds one page of each column, packed and unpacked, and its dictionary.

use std::sync::Arc;

use super::codecs::{self, PAD};
use super::footer;
use super::hybrid::Hybrid;
use super::schema::Leaf;
use super::thrift::{Compact, Type};
use super::values::{self, Scratch, Values};
use crate::tabular::columns::{Column, MISSING, THERE};
use crate::tabular::fault::{Fault, Result};
use crate::tabular::filler::Filler;
use crate::tabular::ranges::Ranges;

/// So many values are decoded at a time: they stay in the processor's cache.
const STEP: usize = 4096;
/// A list of more elements is refused.
const LONGEST_LIST: usize = 1 << 24;
/// A page's header is no longer than this.
const LONGEST_HEADER: usize = 16 << 20;

pub struct ChunkReader {
    from: Arc<dyn Ranges>,
    leaf: Leaf,
    filler: Filler,
    codec: i32,
    /// Where the next page begins, and where the last one ends.
    at: u64,
    end: u64,
    /// Values (and empty lists) that no page was begun for.
    values_left: u64,
    /// Bytes of the file from `window_at` on.
    window: Vec<u8>,
    window_at: u64,
    words: Option<Column>,
    page: Option<Page>,
    scratch: Scratch,
    levels: Vec<u32>,
    repeats: Vec<u32>,
    there: Vec<u8>,
    /// Of lists: rows that were begun, the last of them perhaps not to its end.
    begun: Column,
}

struct Page {
    bytes: Vec<u8>,
    left: usize,
    repeats: Option<Hybrid>,
    levels: Option<Hybrid>,
    values: Values,
}

/// What a page says of itself.
#[derive(Default)]
struct Header {
    kind: i32,
    size: usize,
    packed: usize,
    crc: Option<u32>,
    values: usize,
    encoding: i32,
    level_encodings: [i32; 2],
    level_bytes: [usize; 2],
    is_unpacked: bool,
    bytes: usize,
}

const DATA: i32 = 0;
const DICTIONARY: i32 = 2;
const DATA_V2: i32 = 3;
const RLE: i32 = 3;

impl ChunkReader {
    pub fn new(from: Arc<dyn Ranges>, chunk: &footer::Chunk, leaf: &Leaf, filler: Filler, rows: u64) -> Result<Self> {
        if chunk.encrypted {
            return Err(Fault::unsupported("it is encrypted, which is not read here"));
        }
        if chunk.elsewhere {
            return Err(Fault::unsupported("its values are in another file, which is not read here"));
        }
        codecs::check(chunk.codec)?;
        let place = u64::try_from(chunk.start).ok().zip(u64::try_from(chunk.bytes).ok());
        let within = place.and_then(|(at, bytes)| Some((at, at.checked_add(bytes)?)));
        // Without rows, writers put it at any place.
        let is_empty = rows == 0 && chunk.values == 0;
        let Some((at, end)) = within.filter(|&(at, end)| is_empty || at >= 4 && end <= from.size()) else {
            return Err(Fault::damaged("it lies outside of the file"));
        };
        let values_left = u64::try_from(chunk.values).map_err(|_| Fault::damaged("a negative number of values"))?;
        if leaf.most_repeated == 0 && values_left != rows {
            return Err(Fault::damaged(format!("it has {values_left} values, and its row group {rows} rows")));
        }
        Ok(Self {
            begun: filler.column(leaf.most_repeated > 0),
            from,
            leaf: leaf.clone(),
            filler,
            codec: chunk.codec,
            at,
            end,
            values_left,
            window: Vec::new(),
            window_at: at,
            words: None,
            page: None,
            scratch: Scratch::default(),
            levels: Vec::new(),
            repeats: Vec::new(),
            there: Vec::new(),
        })
    }

    /// The next rows; that there are so many is known from the row group.
    pub fn read(&mut self, rows: usize) -> Result<Column> {
        if self.leaf.most_repeated > 0 {
            return self.read_lists(rows);
        }
        let mut out = self.filler.column(false);
        let mut left = rows;
        while left > 0 {
            left -= self.step(left, &mut out)?;
        }
        Ok(out)
    }

    /// Passes over rows; pages that lie among them as a whole are not unpacked.
    pub fn skip(&mut self, rows: u64) -> Result<()> {
        let mut left = rows;
        while left > 0 {
            if self.leaf.most_repeated == 0 && self.page.is_none() {
                let header = self.header()?;
                let values = header.values as u64;
                if matches!(header.kind, DATA | DATA_V2) && values <= left && values <= self.values_left && values > 0 {
                    self.at += (header.bytes + header.packed) as u64;
                    self.values_left -= values;
                    left -= values;
                    continue;
                }
                self.open(&header)?;
                continue;
            }
            let some = left.min(STEP as u64) as usize;
            self.read(some)?;
            left -= some as u64;
        }
        Ok(())
    }

    fn step(&mut self, most: usize, out: &mut Column) -> Result<usize> {
        self.more()?;
        let Some(page) = &mut self.page else { return Err(too_few()) };
        let mut count = most.min(page.left).min(STEP);
        let words = self.words.as_ref();
        let (filler, scratch) = (&mut self.filler, &mut self.scratch);
        let most_defined = self.leaf.most_defined;
        match &mut page.levels {
            None => page.values.read(&page.bytes, &self.leaf, count, words, filler, scratch, out)?,
            Some(levels) => {
                if let Some((level, run)) = levels.run(&page.bytes)? {
                    count = count.min(run);
                    levels.pass(count);
                    match level {
                        level if level == most_defined => {
                            page.values.read(&page.bytes, &self.leaf, count, words, filler, scratch, out)?;
                        }
                        level if level < most_defined => out.pad(count),
                        _ => return Err(wrong_level()),
                    }
                } else {
                    self.levels.resize(count, 0);
                    levels.read(&page.bytes, &mut self.levels)?;
                    self.there.clear();
                    self.there.extend(self.levels.iter().map(|&level| u8::from(level == most_defined)));
                    if self.levels.iter().any(|&level| level > most_defined) {
                        return Err(wrong_level());
                    }
                    let present = self.there.iter().map(|&there| usize::from(there)).sum();
                    let start = out.values();
                    page.values.read(&page.bytes, &self.leaf, present, words, filler, scratch, out)?;
                    if present < count {
                        out.spread(start, &self.there);
                    }
                }
            }
        }
        page.left -= count;
        if page.left == 0 {
            self.page = None;
        }
        Ok(count)
    }

    fn read_lists(&mut self, rows: usize) -> Result<Column> {
        loop {
            let begun = self.begun.rows();
            let at_end = self.page.is_none() && self.values_left == 0;
            if begun > rows || (begun == rows && at_end) {
                return Ok(self.begun.split_front(rows));
            }
            if at_end {
                return Err(too_few());
            }
            self.step_lists()?;
        }
    }

    fn step_lists(&mut self) -> Result<()> {
        self.more()?;
        let Some(page) = &mut self.page else { return Err(too_few()) };
        let count = page.left.min(STEP);
        let leaf = &self.leaf;
        self.repeats.resize(count, 0);
        self.levels.resize(count, 0);
        let (Some(repeats), Some(levels)) = (&mut page.repeats, &mut page.levels) else { return Err(wrong_level()) };
        repeats.read(&page.bytes, &mut self.repeats)?;
        levels.read(&page.bytes, &mut self.levels)?;
        self.there.clear();
        let start = self.begun.values();
        let mut end = start as u64;
        if let Some(lists) = &mut self.begun.lists {
            for (&repeat, &level) in self.repeats.iter().zip(&self.levels) {
                let is_element = level >= leaf.list_defined;
                if repeat == 0 {
                    lists.ends.push(end);
                    lists.missing.push(if level + 1 < leaf.list_defined { MISSING } else { THERE });
                } else if repeat > 1 || !is_element {
                    return Err(wrong_level());
                }
                if level > leaf.most_defined {
                    return Err(wrong_level());
                }
                let rows = lists.ends.len();
                let Some(last) = lists.ends.last_mut() else { return Err(wrong_level()) };
                if is_element {
                    self.there.push(u8::from(level == leaf.most_defined));
                    end += 1;
                    *last = end;
                    let before = if rows > 1 { lists.ends[rows - 2] } else { 0 };
                    if end - before > LONGEST_LIST as u64 {
                        return Err(Fault::unsupported(format!("a list of more than {LONGEST_LIST} elements")));
                    }
                }
            }
        }
        let present = self.there.iter().map(|&there| usize::from(there)).sum();
        let words = self.words.as_ref();
        let (filler, scratch) = (&mut self.filler, &mut self.scratch);
        page.values.read(&page.bytes, leaf, present, words, filler, scratch, &mut self.begun)?;
        self.begun.spread(start, &self.there);
        page.left -= count;
        if page.left == 0 {
            self.page = None;
        }
        Ok(())
    }

    /// Opens the next page with values, if none is open.
    fn more(&mut self) -> Result<()> {
        while self.page.is_none() {
            if self.values_left == 0 {
                return Err(too_few());
            }
            let header = self.header()?;
            self.open(&header)?;
        }
        Ok(())
    }

    /// Makes the bytes from `at` on lie in the window, `count` of them or as many as there are.
    fn fetch(&mut self, count: usize) -> Result<&[u8]> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let count = count.min(left);
        let start = usize::try_from(self.at - self.window_at).unwrap_or(usize::MAX);
        if start.saturating_add(count) > self.window.len() {
            // What is there already is kept.
            self.window.drain(..start.min(self.window.len()));
            self.window_at = self.at;
            let had = self.window.len();
            let wanted = count.max(self.from.piece().min(left)).max(had);
            self.window.resize(wanted, 0);
            self.from.read(self.at + had as u64, &mut self.window[had..])?;
        }
        let start = (self.at - self.window_at) as usize;
        Ok(&self.window[start..start + count])
    }

    fn header(&mut self) -> Result<Header> {
        let mut count = 512;
        loop {
            let left = self.end - self.at;
            let bytes = self.fetch(count)?;
            let mut compact = Compact::new(bytes);
            let read = header(&mut compact);
            let short = compact.at_end() && (bytes.len() as u64) < left && count < LONGEST_HEADER;
            match read {
                Ok(header) => {
                    if header.packed as u64 > left - header.bytes as u64 {
                        return Err(Fault::damaged("a page goes beyond its column"));
                    }
                    return Ok(header);
                }
                Err(_) if short => count *= 8,
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Unpacks the page that begins here.
    fn open(&mut self, header: &Header) -> Result<()> {
        self.at += header.bytes as u64;
        let codec = self.codec;
        let (is_data, v2) = (matches!(header.kind, DATA | DATA_V2), header.kind == DATA_V2);
        if is_data && header.values as u64 > self.values_left {
            return Err(Fault::damaged("its pages have more values than it has"));
        }
        let packed = self.fetch(header.packed)?;
        if header.crc.is_some_and(|crc| crc != crc32fast::hash(packed)) {
            return Err(Fault::damaged("a page's checksum is wrong"));
        }
        let mut bytes = Vec::new();
        if is_data || header.kind == DICTIONARY {
            let levels: usize = header.level_bytes.iter().sum();
            if levels > packed.len() || levels > header.size {
                return Err(Fault::damaged("a page's levels go beyond it"));
            }
            bytes.extend_from_slice(&packed[..levels]);
            let codec = if header.is_unpacked { 0 } else { codec };
            if header.size > levels || codec == 0 {
                codecs::unpack(codec, &packed[levels..], header.size - levels, &mut bytes)?;
            }
        }
        let end = bytes.len();
        bytes.resize(end + PAD, 0);
        self.at += header.packed as u64;
        if header.kind == DICTIONARY {
            if self.words.is_some() || !matches!(header.encoding, 0 | 2) {
                return Err(Fault::damaged("a second dictionary, or one of another encoding"));
            }
            self.words = Some(values::dictionary(&bytes, end, header.values, &self.leaf, &mut self.filler)?);
        } else if is_data {
            self.values_left -= header.values as u64;
            if header.values > 0 {
                self.page = Some(self.begin(header, bytes, end, v2)?);
            }
        }
        Ok(())
    }

    fn begin(&self, header: &Header, bytes: Vec<u8>, end: usize, v2: bool) -> Result<Page> {
        let mut at = 0;
        let leaf = &self.leaf;
        let most = [leaf.most_repeated, leaf.most_defined];
        let mut levels = [None, None];
        for number in 0..2 {
            if most[number] == 0 {
                at += header.level_bytes[number];
                continue;
            }
            let length = if v2 {
                header.level_bytes[number]
            } else {
                if header.level_encodings[number] != RLE {
                    return Err(Fault::unsupported("levels in the encoding BIT_PACKED, which was given up in 2013"));
                }
                let Some(head) = bytes[..end].get(at..at + 4) else { return Err(wrong_level()) };
                at += 4;
                u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize
            };
            if length > end - at {
                return Err(wrong_level());
            }
            levels[number] = Some(Hybrid::new(at, at + length, u32::BITS - most[number].leading_zeros())?);
            at += length;
        }
        let [repeats, levels] = levels;
        let values = Values::new(header.encoding, leaf, &bytes, at, end)?;
        Ok(Page { bytes, left: header.values, repeats, levels, values })
    }
}

fn too_few() -> Fault {
    Fault::damaged("it ends before its last row")
}

fn wrong_level() -> Fault {
    Fault::damaged("a page's levels are damaged")
}

fn header(compact: &mut Compact<'_>) -> Result<Header> {
    let mut header = Header { kind: -1, ..Header::default() };
    let size = |number: i32| usize::try_from(number).map_err(|_| Fault::damaged("a page of negative size"));
    compact.structure(|compact, id, kind| {
        match (id, kind) {
            (1, Type::Integer) => header.kind = compact.small()?,
            (2, Type::Integer) => header.size = size(compact.small()?)?,
            (3, Type::Integer) => header.packed = size(compact.small()?)?,
            (4, Type::Integer) => header.crc = Some(compact.small()? as u32),
            (5, Type::Struct) => compact.structure(|compact, id, kind| {
                match (id, kind) {
                    (1, Type::Integer) => header.values = size(compact.small()?)?,
                    (2, Type::Integer) => header.encoding = compact.small()?,
                    (3, Type::Integer) => header.level_encodings[1] = compact.small()?,
                    (4, Type::Integer) => header.level_encodings[0] = compact.small()?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            (7, Type::Struct) => compact.structure(|compact, id, kind| {
                match (id, kind) {
                    (1, Type::Integer) => header.values = size(compact.small()?)?,
                    (2, Type::Integer) => header.encoding = compact.small()?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            (8, Type::Struct) => compact.structure(|compact, id, kind| {
                match (id, kind) {
                    (1, Type::Integer) => header.values = size(compact.small()?)?,
                    (4, Type::Integer) => header.encoding = compact.small()?,
                    (5, Type::Integer) => header.level_bytes[1] = size(compact.small()?)?,
                    (6, Type::Integer) => header.level_bytes[0] = size(compact.small()?)?,
                    (7, Type::False) => header.is_unpacked = true,
                    (7, Type::True) => {}
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if header.kind < 0 {
        return Err(Fault::damaged("a page without a type"));
    }
    header.bytes = compact.at();
    Ok(header)
}
