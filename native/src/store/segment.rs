//! A log on disk: its segments, how records lie in them, and how they are read again after a crash.
//!
//! ```text
//! segment  magic 8 bytes | version u32 | zero u32 | first lsn u64 | salt u64 | crc32 u32 | zero u32
//! record   mark u32 | length u32 | crc32 of the content u32 | crc32 of the head u32 | lsn u64 | durable u64 | content
//! ```
//!
//! Little-endian. Records are numbered from 1 without gaps, through all segments; a segment is named after its first.
//! `durable` is the newest record that was known to be on disk when this one was written. That is how a torn end is told
//! from damage: what a crash may leave unreadable is only what no readable record calls durable. The salt, a random
//! number that goes into the checksum of heads, keeps a record's content from passing for a head.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crc32fast::Hasher;

use super::block::{u32_at, u64_at};
use super::{Fresh, StoreError, Trouble, open_regular, sync_dir};

/// The number of a record. The first one is 1; 0 is before all.
pub type Lsn = u64;

/// Who gets the records: number and content. What it can't use, it says why.
pub type Visit<'a> = &'a mut dyn FnMut(Lsn, &[u8]) -> Result<(), String>;

pub const MAGIC: [u8; 8] = *b"UMIAKLOG";
pub const VERSION: u32 = 1;
pub const PROLOGUE: usize = 40;
pub const HEAD: usize = 32;
pub const MOST_RECORD: usize = 512 << 20;

const RECORD: u32 = u32::from_le_bytes(*b"umRc");
/// The last head of a log that was closed in peace. It has no content, and its number is the next record's.
const CLOSED: u32 = u32::from_le_bytes(*b"umCl");

#[derive(Clone, Debug)]
pub struct Segment {
    pub first: Lsn,
    pub salt: u64,
    pub path: PathBuf,
    pub bytes: u64,
}

/// What was found in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records that were handed out.
    pub records: u64,
    /// The newest record of the log, 0 if it has none.
    pub last: Lsn,
    /// What a crash left unfinished and was cut off: file, from which byte, how many bytes.
    pub torn: Option<(PathBuf, u64, u64)>,
}

pub(super) fn record_head(salt: u64, length: usize, content_crc: u32, lsn: Lsn, durable: Lsn) -> [u8; HEAD] {
    head(RECORD, salt, length as u32, content_crc, lsn, durable)
}

pub(super) fn closing_head(salt: u64, next: Lsn, durable: Lsn) -> [u8; HEAD] {
    head(CLOSED, salt, 0, 0, next, durable)
}

fn head(mark: u32, salt: u64, length: u32, content_crc: u32, lsn: Lsn, durable: Lsn) -> [u8; HEAD] {
    let mut bytes = [0u8; HEAD];
    bytes[..4].copy_from_slice(&mark.to_le_bytes());
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..12].copy_from_slice(&content_crc.to_le_bytes());
    bytes[16..24].copy_from_slice(&lsn.to_le_bytes());
    bytes[24..].copy_from_slice(&durable.to_le_bytes());
    let crc = head_crc(salt, &bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn head_crc(salt: u64, head: &[u8]) -> u32 {
    let mut crc = Hasher::new();
    crc.update(&salt.to_le_bytes());
    crc.update(&head[..12]);
    crc.update(&head[16..HEAD]);
    crc.finalize()
}

/// A whole record at the beginning of these bytes: its number and its content.
pub(super) fn record_at(bytes: &[u8], salt: u64) -> Option<(Lsn, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let good = u32_at(head, 0) == RECORD && u32_at(head, 12) == head_crc(salt, head);
    let content = rest.get(..u32_at(head, 4) as usize).filter(|_| good)?;
    (u32_at(head, 8) == crc32fast::hash(content)).then(|| (u64_at(head, 16), content))
}

/// Makes an empty segment that lasts, name and all.
pub(super) fn create(dir: &Path, first: Lsn, salt: u64) -> std::io::Result<(File, Segment)> {
    use std::io::Write;
    let mut prologue = [0u8; PROLOGUE];
    prologue[..8].copy_from_slice(&MAGIC);
    prologue[8..12].copy_from_slice(&VERSION.to_le_bytes());
    prologue[16..24].copy_from_slice(&first.to_le_bytes());
    prologue[24..32].copy_from_slice(&salt.to_le_bytes());
    let crc = crc32fast::hash(&prologue[..32]);
    prologue[32..36].copy_from_slice(&crc.to_le_bytes());
    let mut fresh = Fresh::create(dir, &format!("log-{first:020}.umiak"))?;
    fresh.file.write_all(&prologue)?;
    let path = fresh.path().to_path_buf();
    let file = fresh.keep()?;
    sync_dir(dir)?;
    Ok((file, Segment { first, salt, path, bytes: PROLOGUE as u64 }))
}

/// The segments of a directory, oldest first, their prologues checked.
pub(super) fn survey(dir: &Path) -> Result<Vec<Segment>, StoreError> {
    let refuse = |error: std::io::Error| StoreError::io(dir, "can't be read", &error);
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(digits) = name.strip_prefix("log-").and_then(|rest| rest.strip_suffix(".umiak")) {
            let segment = prologue(&path)?;
            if digits.parse() != Ok(segment.first) {
                let text = format!("begins with record {}, not with that of its name", segment.first);
                return Err(StoreError::new(Trouble::Damaged, &path, text));
            }
            segments.push(segment);
        }
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

fn prologue(path: &Path) -> Result<Segment, StoreError> {
    let (mut file, size) = open_regular(path)?;
    let wrong = |trouble, what: String| Err(StoreError::new(trouble, path, what));
    let mut bytes = [0u8; PROLOGUE];
    let there = size.min(PROLOGUE as u64) as usize;
    file.read_exact(&mut bytes[..there]).map_err(|error| StoreError::io(path, "can't be read", &error))?;
    if bytes[..there.min(8)] != MAGIC[..there.min(8)] {
        return wrong(Trouble::Foreign, "is not a log of umiak".to_owned());
    }
    if there < PROLOGUE {
        return wrong(Trouble::Torn, format!("is cut off: a log is longer than {size} bytes"));
    }
    if u32_at(&bytes, 8) != VERSION {
        let text = format!("is a log of format {}, and this umiak reads format {VERSION}", u32_at(&bytes, 8));
        return wrong(Trouble::Version, text);
    }
    if u32_at(&bytes, 32) != crc32fast::hash(&bytes[..32]) || u32_at(&bytes, 12) != 0 || u32_at(&bytes, 36) != 0 {
        return wrong(Trouble::Damaged, format!("is damaged within its first {PROLOGUE} bytes"));
    }
    Ok(Segment { first: u64_at(&bytes, 16), salt: u64_at(&bytes, 24), path: path.to_path_buf(), bytes: size })
}

/// Hands out the records from `from` on, and cuts off what a crash left unfinished at the very end. Anything else that
/// is unreadable or missing is refused with its file and byte, before or after some records were handed out.
pub(super) fn read_all(
    segments: &mut [Segment],
    dir: &Path,
    from: Lsn,
    visit: Visit<'_>,
) -> Result<Replayed, StoreError> {
    let from = from.max(1);
    let mut replayed = Replayed::default();
    let begin = segments.first().map_or(1, |segment| segment.first);
    if begin > from {
        let text = format!("the log begins with record {begin}, and records from {from} on are needed");
        return Err(StoreError::new(Trouble::Schema, dir, text));
    }
    let count = segments.len();
    for index in 0..count {
        let next = segments.get(index + 1).map(|segment| segment.first);
        if next.is_some_and(|next| next <= from) {
            continue;
        }
        let segment = &mut segments[index];
        let mut reader = RecordReader::open(segment)?;
        let stop = loop {
            match reader.advance() {
                Ok(Some(lsn)) if lsn >= from => {
                    visit(lsn, &reader.content).map_err(|why| {
                        let text = format!("record {lsn}, which ends at byte {}, can't be applied: {why}", reader.at);
                        StoreError::new(Trouble::Schema, &segment.path, text)
                    })?;
                    replayed.records += 1;
                }
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        replayed.last = reader.next - 1;
        match (stop, next) {
            (None, None) => {}
            (None, Some(next)) if reader.next == next => {}
            (None, Some(next)) => {
                let text = format!("ends with record {}, and the next file begins with {next}", reader.next - 1);
                return Err(StoreError::new(Trouble::Damaged, &segment.path, text));
            }
            (Some(error), None) if !reader.closed && matches!(error.trouble, Trouble::Torn | Trouble::Damaged) => {
                let (at, next) = (reader.at, reader.next);
                refuse_if_it_was_durable(segment, at, next, error)?;
                replayed.torn = Some((segment.path.clone(), at, segment.bytes - at));
                cut(segment, at)?;
            }
            (Some(error), _) => return Err(error),
        }
    }
    if from > replayed.last + 1 {
        let end = if count == 0 {
            "there is no log".to_owned()
        } else {
            format!("the log ends with record {}", replayed.last)
        };
        let text = format!("{end}, and records up to {} were on disk", from - 1);
        return Err(StoreError::new(Trouble::Schema, dir, text));
    }
    Ok(replayed)
}

/// Reads the records of one segment in order.
struct RecordReader {
    input: BufReader<File>,
    path: PathBuf,
    salt: u64,
    size: u64,
    /// Where the next record begins, and its number.
    at: u64,
    next: Lsn,
    content: Vec<u8>,
    closed: bool,
}

impl RecordReader {
    fn open(segment: &Segment) -> Result<Self, StoreError> {
        let (mut file, size) = open_regular(&segment.path)?;
        let at = PROLOGUE as u64;
        file.seek(SeekFrom::Start(at)).map_err(|error| StoreError::io(&segment.path, "can't be read", &error))?;
        Ok(Self {
            input: BufReader::with_capacity(size.clamp(64, 256 << 10) as usize, file),
            path: segment.path.clone(),
            salt: segment.salt,
            size,
            at,
            next: segment.first,
            content: Vec::new(),
            closed: false,
        })
    }

    /// The next record's number, its content in `content`; `None` at a proper end. `at` moves past good records only.
    fn advance(&mut self) -> Result<Option<Lsn>, StoreError> {
        let left = self.size - self.at;
        if left == 0 {
            return Ok(None);
        }
        if self.closed {
            return Err(self.wrong(Trouble::Damaged, "something follows the end of the log"));
        }
        if left < HEAD as u64 {
            return Err(self.wrong(Trouble::Torn, "the file ends within a record"));
        }
        let mut head = [0u8; HEAD];
        self.take_head(&mut head)?;
        let (mark, length, lsn) = (u32_at(&head, 0), u32_at(&head, 4) as usize, u64_at(&head, 16));
        let known = mark == RECORD || (mark == CLOSED && length == 0);
        if !known || u32_at(&head, 12) != head_crc(self.salt, &head) {
            return Err(self.wrong(Trouble::Damaged, "the head of a record is unreadable"));
        }
        if lsn != self.next {
            return Err(self.wrong(Trouble::Damaged, &format!("this is record {lsn}")));
        }
        if mark == CLOSED {
            self.closed = true;
            self.at += HEAD as u64;
            return self.advance();
        }
        if length as u64 > left - HEAD as u64 || length > MOST_RECORD {
            return Err(self.wrong(Trouble::Torn, "the file ends within a record"));
        }
        self.content.clear();
        self.content.resize(length, 0);
        self.input
            .read_exact(&mut self.content)
            .map_err(|error| StoreError::io(&self.path, "can't be read", &error))?;
        if u32_at(&head, 8) != crc32fast::hash(&self.content) {
            return Err(self.wrong(Trouble::Damaged, "the checksum of a record is wrong"));
        }
        self.at += (HEAD + length) as u64;
        self.next += 1;
        Ok(Some(lsn))
    }

    fn take_head(&mut self, head: &mut [u8; HEAD]) -> Result<(), StoreError> {
        self.input.read_exact(head).map_err(|error| StoreError::io(&self.path, "can't be read", &error))
    }

    fn wrong(&self, trouble: Trouble, why: &str) -> StoreError {
        let text = format!("record {} can't be read at byte {}: {why}", self.next, self.at);
        StoreError::new(trouble, &self.path, text)
    }
}

/// Looks behind an unreadable place for a record that calls the unreadable one durable. Then it is damage, not the trace
/// of a crash. In pieces, so that a long file needs little memory.
fn refuse_if_it_was_durable(segment: &Segment, at: u64, lost: Lsn, error: StoreError) -> Result<(), StoreError> {
    let refuse = |error: std::io::Error| StoreError::io(&segment.path, "can't be read", &error);
    let (mut file, _) = open_regular(&segment.path)?;
    file.seek(SeekFrom::Start(at)).map_err(refuse)?;
    let mut window: Vec<u8> = Vec::new();
    loop {
        let more = Read::by_ref(&mut file).take(4 << 20).read_to_end(&mut window).map_err(refuse)?;
        if more == 0 {
            return Ok(());
        }
        for place in memchr::memmem::find_iter(&window, b"um") {
            let Some(head) = window.get(place..place + HEAD) else { break };
            let mark = u32_at(head, 0);
            let is_head = (mark == RECORD || mark == CLOSED) && u32_at(head, 12) == head_crc(segment.salt, head);
            if is_head && u64_at(head, 24) >= lost {
                let text = format!("{}; records behind it are whole, so this is damage, not a crash", error.what);
                return Err(StoreError::new(Trouble::Damaged, &segment.path, text));
            }
        }
        let keep = window.len().min(HEAD - 1);
        window.drain(..window.len() - keep);
    }
}

fn cut(segment: &mut Segment, at: u64) -> Result<(), StoreError> {
    let refuse = |error: std::io::Error| StoreError::io(&segment.path, "its torn end can't be cut off", &error);
    let file = File::options().write(true).open(&segment.path).map_err(refuse)?;
    file.set_len(at).and_then(|()| file.sync_all()).map_err(refuse)?;
    segment.bytes = at;
    Ok(())
}

/// One process at a time uses a log; the kernel forgets the lock with the process.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("lock");
        let refuse = |error: std::io::Error| StoreError::io(&path, "can't be opened", &error);
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(refuse)?;
        // SAFETY: flock takes a descriptor, which `file` keeps open, and touches no memory of ours.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = std::io::Error::last_os_error();
            let text = if error.kind() == std::io::ErrorKind::WouldBlock {
                "another process uses this log: is a server with the same directory running?".to_owned()
            } else {
                format!("can't be locked: {error}")
            };
            return Err(StoreError::new(Trouble::Io(error.kind()), &path, text));
        }
        Ok(Self { _file: file })
    }
}
