//! An adapter: inputs to blocks of whole lines. Files are read, ranges cut, gzip and zstd unpacked (told by their first
//! bytes), pipes waited for. What is no text is refused by its first bytes. It knows nothing of slots.
//!
//! A range `[start, end)` of a plain file means the lines that *begin* in it; so ranges that cover a file without a gap
//! give each line once, wherever they are cut.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fault::{Fault, NotText};
use super::number::PAD;

/// A line of more bytes than this is a bad one.
pub const LONGEST_LINE: usize = 16 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// So many bytes behind a range are read at once, where its last line ends.
const BEYOND: usize = 4 << 10;
/// How long a pipe is waited for before somebody is asked whether to go on.
const PATIENCE_MS: i32 = 100;

/// Called while an input keeps a reader waiting; an error ends the waiting.
pub type Idle = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Opens an input that only the caller can read.
pub type Opener = Arc<dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync>;

#[derive(Clone)]
pub enum From {
    /// A file, or the lines that begin in a part of it.
    Path {
        path: PathBuf,
        start: u64,
        end: Option<u64>,
        /// Unpacks it, where that can't be done here.
        unpack: Option<Opener>,
    },
    /// An open file, perhaps a pipe. It can be read once.
    Open(Arc<OwnedFd>),
    Bytes(Arc<Vec<u8>>),
    /// Something else that can be read from its beginning.
    Other(Opener),
}

#[derive(Clone)]
pub struct Input {
    pub name: String,
    pub from: From,
}

impl Input {
    /// The part that is read: its start, and its end if it has one.
    pub fn range(&self) -> (u64, Option<u64>) {
        match &self.from {
            From::Path { start, end, .. } => (*start, *end),
            _ => (0, None),
        }
    }

    fn fault(&self, what: &str, error: io::Error) -> Fault {
        Fault::File { file: self.name.clone(), what: what.to_string(), error }
    }
}

/// A place between two lines: input, byte in the uncompressed text, lines of this input (or range) before it (only where
/// they are counted).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub input: usize,
    pub offset: u64,
    pub lines: u64,
}

/// A place, and the bad lines before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub place: Place,
    pub bad: u64,
}

/// Whole lines of one input.
pub struct Block {
    pub place: Place,
    /// The text, then `PAD` bytes.
    bytes: Vec<u8>,
    /// Where the input goes on: a last line without a newline was given one.
    pub end: u64,
    /// This is one line of so many bytes, of which only some are here.
    pub too_long: Option<u64>,
}

impl Block {
    /// Ends with a newline, behind which `PAD` bytes can be read.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - PAD]
    }

    /// The memory, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

pub struct Source {
    inputs: Arc<Vec<Input>>,
    /// Of the next block.
    place: Place,
    open: Option<Opened>,
    /// What was read and is not yet in a block.
    carry: Vec<u8>,
    block_bytes: usize,
    stop: Arc<AtomicBool>,
    idle: Option<Idle>,
    resumed: bool,
    /// Somebody who takes blocks in any order can't count them.
    pub count_lines: bool,
}

struct Opened {
    reader: Box<dyn Read + Send>,
    /// Waiting for a full block would keep samples back that are already there.
    patient: bool,
    at_end: bool,
}

impl Source {
    /// `place` is where to begin: the beginning, or a place that an earlier reader has told.
    pub fn new(
        inputs: Arc<Vec<Input>>,
        place: Place,
        block_bytes: usize,
        stop: Arc<AtomicBool>,
        idle: Option<Idle>,
    ) -> Self {
        let resumed = place != Place { input: place.input, ..Place::default() };
        Self { inputs, place, open: None, carry: Vec::new(), block_bytes, stop, idle, resumed, count_lines: false }
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// The next block, `None` behind the last one. `memory` is used for it.
    pub fn next(&mut self, mut memory: Vec<u8>) -> Result<Option<Block>, Fault> {
        loop {
            let Some(input) = self.inputs.get(self.place.input).cloned() else { return Ok(None) };
            if self.open.is_none() {
                self.open = Some(self.open_here(&input)?);
            }
            let limit = input.range().1.unwrap_or(u64::MAX);
            if self.place.offset < limit {
                self.fill(&mut memory, limit - self.place.offset)
                    .map_err(|error| input.fault("it can't be read", error))?;
                if let Some(block) = self.cut(memory, limit).map_err(|error| input.fault("it can't be read", error))? {
                    return Ok(Some(block));
                }
                memory = Vec::new();
            }
            self.open = None;
            self.carry.clear();
            self.place = Place { input: self.place.input + 1, ..Place::default() };
        }
    }

    /// Takes what was kept and reads on until the memory has a block's bytes and a newline among them, or the input is at
    /// its end. What the memory holds is written over, so that memory which is used again needs no zeros first. Of a range that
    /// ends after `room` bytes not much more is read: of small ranges there may be very many.
    fn fill(&mut self, memory: &mut Vec<u8>, room: u64) -> io::Result<()> {
        let room = usize::try_from(room).unwrap_or(usize::MAX).saturating_add(BEYOND);
        let block_bytes = self.block_bytes.min(room);
        let mut filled = self.carry.len();
        grow(memory, filled);
        memory[..filled].copy_from_slice(&self.carry);
        self.carry.clear();
        let mut searched = 0;
        let mut newline = false;
        while let Some(open) = self.open.as_mut().filter(|open| !open.at_end) {
            newline = newline || memchr::memchr(b'\n', &memory[searched..filled]).is_some();
            searched = filled;
            let enough = if open.patient { block_bytes } else { 1 };
            if (newline && filled >= enough) || filled > LONGEST_LINE {
                break;
            }
            let wanted = block_bytes.saturating_sub(filled).max(block_bytes / 4);
            grow(memory, filled + wanted);
            let got = read(&mut open.reader, &mut memory[filled..filled + wanted])?;
            filled += got;
            open.at_end = got == 0;
        }
        memory.truncate(filled);
        Ok(())
    }

    /// A block of whole lines out of the memory; what is behind them is kept for the next one.
    fn cut(&mut self, mut memory: Vec<u8>, limit: u64) -> io::Result<Option<Block>> {
        let at_end = self.open.as_ref().is_none_or(|open| open.at_end);
        if memory.is_empty() {
            return Ok(None);
        }
        if memory.len() > LONGEST_LINE && memchr::memchr(b'\n', &memory).is_none_or(|at| at > LONGEST_LINE) {
            return self.too_long(memory).map(Some);
        }
        let mut length = match memchr::memrchr(b'\n', &memory) {
            Some(last) if !at_end => last + 1,
            _ => memory.len(),
        };
        // The line that holds the byte before the limit is the last one.
        let room = limit - self.place.offset;
        if room < length as u64 {
            let room = room as usize;
            length = memchr::memchr(b'\n', &memory[room - 1..length]).map_or(length, |at| room + at);
        }
        self.carry.extend_from_slice(&memory[length..]);
        memory.truncate(length);
        let place = self.place;
        self.place.offset += length as u64;
        if memory.last() != Some(&b'\n') {
            memory.push(b'\n');
        }
        if self.count_lines {
            self.place.lines += memchr::memchr_iter(b'\n', &memory).count() as u64;
        }
        memory.resize(memory.len() + PAD, 0);
        Ok(Some(Block { place, bytes: memory, end: self.place.offset, too_long: None }))
    }

    /// The first line is too long: the rest of it is read and dropped.
    fn too_long(&mut self, mut memory: Vec<u8>) -> io::Result<Block> {
        let place = self.place;
        let mut whole = memchr::memchr(b'\n', &memory);
        let mut length = whole.map_or(memory.len(), |at| at + 1) as u64;
        self.carry.extend_from_slice(&memory[length as usize..]);
        memory.truncate(64);
        memory.push(b'\n');
        memory.resize(memory.len() + PAD, 0);
        let mut piece = vec![0; self.block_bytes];
        while let Some(open) = self.open.as_mut().filter(|open| !open.at_end && whole.is_none()) {
            let got = read(&mut open.reader, &mut piece)?;
            open.at_end = got == 0;
            whole = memchr::memchr(b'\n', &piece[..got]);
            length += whole.map_or(got, |at| at + 1) as u64;
            if let Some(at) = whole {
                self.carry.extend_from_slice(&piece[at + 1..got]);
            }
        }
        self.place.offset += length;
        self.place.lines += 1;
        Ok(Block { place, bytes: memory, end: self.place.offset, too_long: Some(length) })
    }

    /// Opens the input at hand, at the place where reading begins.
    fn open_here(&mut self, input: &Input) -> Result<Opened, Fault> {
        let (start, end) = input.range();
        let mut raw: Box<dyn ReadSeek> = match &input.from {
            From::Path { unpack: Some(open), .. } => {
                if (start, end) != (0, None) {
                    return Err(in_one_piece(input));
                }
                Box::new(Other(open().map_err(|error| input.fault("it can't be opened", error))?))
            }
            From::Path { path, .. } => {
                // A FIFO without a writer is waited for later, where the waiting can be ended.
                let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
                self.file(file.map_err(|error| input.fault("it can't be opened", error))?)
                    .map_err(|error| input.fault("it can't be opened", error))?
            }
            From::Open(fd) => {
                let file = fd.try_clone().map(File::from).map_err(|error| input.fault("it can't be opened", error))?;
                Box::new(self.pipe(file))
            }
            From::Bytes(bytes) => Box::new(Memory { bytes: bytes.clone(), at: 0 }),
            From::Other(open) => Box::new(Other(open().map_err(|error| input.fault("it can't be opened", error))?)),
        };
        let mut first = Vec::new();
        raw.by_ref().take(4).read_to_end(&mut first).map_err(|error| input.fault("it can't be read", error))?;
        if let Some(what) = not_text(&first) {
            return Err(Fault::NotText { file: input.name.clone(), what });
        }
        let packed = first.starts_with(&GZIP) || is_zstd(&first);
        if packed && (start, end) != (0, None) {
            return Err(in_one_piece(input));
        }
        let resumed = std::mem::take(&mut self.resumed);
        let begin = if resumed { self.place.offset } else { start };
        let patient = raw.seekable();
        let mut reader: Box<dyn Read + Send> = if packed {
            unpacked(first, raw).map_err(|error| input.fault("it can't be unpacked", error))?
        } else if begin > 0 && raw.seekable() {
            raw.seek(begin - 1).map_err(|error| input.fault("it can't be read", error))?;
            raw
        } else {
            Box::new(io::Cursor::new(first).chain(raw))
        };
        if begin > 0 && (packed || !patient) {
            skip(&mut reader, begin - 1).map_err(|error| input.fault("it can't be read", error))?;
        }
        let mut open = Opened { reader, patient, at_end: false };
        self.place.offset = begin;
        self.carry.clear();
        if begin > 0 {
            let passed = self.skip_to_line(&mut open, resumed);
            let passed = passed.map_err(|error| input.fault("it can't be read", error))?;
            if resumed && (passed == 0 || (passed > 1 && !open.at_end)) {
                let text = format!("{}: no line begins at byte {begin}: the file is not as it was", input.name);
                return Err(Fault::Position(text));
            }
        } else {
            // Some editors begin a file with the mark of UTF-8.
            let mut mark = [0; 3];
            let got = read_all(&mut open.reader, &mut mark).map_err(|error| input.fault("it can't be read", error))?;
            let mark = if mark == *b"\xef\xbb\xbf" { *b"   " } else { mark };
            self.carry.extend_from_slice(&mark[..got]);
        }
        Ok(open)
    }

    /// From the byte before a range: over the rest of the line that it belongs to. Returns how many bytes these are, 1 if a
    /// line begins right here.
    fn skip_to_line(&mut self, open: &mut Opened, resumed: bool) -> io::Result<u64> {
        let mut piece = vec![0; 4096];
        let mut passed = 0;
        loop {
            let got = read(&mut open.reader, &mut piece)?;
            let end = memchr::memchr(b'\n', &piece[..got]);
            passed += end.map_or(got, |at| at + 1) as u64;
            if let Some(at) = end {
                self.carry.extend_from_slice(&piece[at + 1..got]);
            }
            if end.is_some() || got == 0 || (resumed && passed > 1) {
                open.at_end = got == 0;
                self.place.offset += passed.saturating_sub(1);
                return Ok(passed);
            }
            if piece.len() < self.block_bytes {
                piece.resize(self.block_bytes, 0);
            }
        }
    }

    fn file(&self, file: File) -> io::Result<Box<dyn ReadSeek>> {
        if file.metadata()?.is_file() {
            return Ok(Box::new(file));
        }
        Ok(Box::new(self.pipe(file)))
    }

    fn pipe(&self, file: File) -> Pipe {
        Pipe { file, stop: self.stop.clone(), idle: self.idle.clone() }
    }
}

/// How many lines end before this byte of a file; what a line's number in a range has to be raised by.
pub fn lines_before(input: &Input, byte: u64) -> io::Result<u64> {
    let From::Path { path, .. } = &input.from else { return Ok(0) };
    let mut file = File::open(path)?.take(byte);
    let mut piece = vec![0; 1 << 20];
    let mut lines = 0;
    loop {
        let got = read(&mut file, &mut piece)?;
        if got == 0 {
            return Ok(lines);
        }
        lines += memchr::memchr_iter(b'\n', &piece[..got]).count() as u64;
    }
}

fn grow(memory: &mut Vec<u8>, length: usize) {
    if memory.len() < length {
        memory.resize(length, 0);
    }
}

fn in_one_piece(input: &Input) -> Fault {
    Fault::Asked(format!("{}: it is compressed, so no part of it can be read alone", input.name))
}

fn is_zstd(first: &[u8]) -> bool {
    // A skippable frame may come first.
    first == ZSTD || (first.len() == 4 && first[0] & 0xf0 == 0x50 && first[1..] == [0x2a, 0x4d, 0x18])
}

/// What an input is that is neither text nor something that is unpacked here, by its first bytes.
fn not_text(first: &[u8]) -> Option<NotText> {
    match first {
        [b'B', b'Z', b'h', b'1'..=b'9'] => Some(NotText::Bzip2),
        [0xfd, b'7', b'z', b'X'] => Some(NotText::Xz),
        [b'P', b'K', 3, 4] => Some(NotText::Zip),
        [0x04, 0x22, 0x4d, 0x18] => Some(NotText::Lz4),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(NotText::Utf16),
        [a, 0, b, 0] | [0, a, 0, b] if *a != 0 && *b != 0 => Some(NotText::UnmarkedUtf16),
        _ => None,
    }
}

fn unpacked(first: Vec<u8>, rest: Box<dyn ReadSeek>) -> io::Result<Box<dyn Read + Send>> {
    let gzip = first.starts_with(&GZIP);
    let whole = io::BufReader::with_capacity(1 << 17, io::Cursor::new(first).chain(rest));
    if gzip {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(whole)));
    }
    Ok(Box::new(zstd::stream::read::Decoder::with_buffer(whole)?))
}

fn read(reader: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn read_all(reader: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match read(reader, &mut into[filled..])? {
            0 => break,
            got => filled += got,
        }
    }
    Ok(filled)
}

fn skip(reader: &mut dyn Read, bytes: u64) -> io::Result<()> {
    io::copy(&mut reader.take(bytes), &mut io::sink()).map(|_| ())
}

/// What inputs are made of before they are unpacked.
trait ReadSeek: Read + Send {
    fn seekable(&self) -> bool;
    fn seek(&mut self, to: u64) -> io::Result<()>;
}

impl ReadSeek for File {
    fn seekable(&self) -> bool {
        true
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        Seek::seek(self, SeekFrom::Start(to)).map(|_| ())
    }
}

struct Memory {
    bytes: Arc<Vec<u8>>,
    at: usize,
}

impl Read for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = (&self.bytes[self.at..]).read(into)?;
        self.at += got;
        Ok(got)
    }
}

impl ReadSeek for Memory {
    fn seekable(&self) -> bool {
        true
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        self.at = to.min(self.bytes.len() as u64) as usize;
        Ok(())
    }
}

struct Other(Box<dyn Read + Send>);

impl Read for Other {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl ReadSeek for Other {
    fn seekable(&self) -> bool {
        false
    }

    fn seek(&mut self, _to: u64) -> io::Result<()> {
        Err(io::Error::other("it can't be sought"))
    }
}

/// A pipe, a socket or a terminal: a thread that waits for it can be told to stop.
struct Pipe {
    file: File,
    stop: Arc<AtomicBool>,
    idle: Option<Idle>,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the reader was closed"));
            }
            let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            match unsafe { libc::poll(&mut poll, 1, PATIENCE_MS) } {
                0 => {}
                count if count < 0 => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                _ => match self.file.read(into) {
                    Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                    other => return other,
                },
            }
            if let Some(idle) = &self.idle {
                idle()?;
            }
        }
    }
}

impl ReadSeek for Pipe {
    fn seekable(&self) -> bool {
        false
    }

    fn seek(&mut self, _to: u64) -> io::Result<()> {
        Err(io::Error::other("a pipe can't be sought"))
    }
}
