//! An adapter: the bytes of a part one after the other, unpacked where they are packed with gzip or zstd, which their first
//! bytes say.

use std::io::{self, Read};
use std::sync::Arc;

use super::fault::{Fault, Result};
use super::ranges::Ranges;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The bytes from a place on.
struct Bytes {
    from: Arc<dyn Ranges>,
    at: u64,
    piece: Vec<u8>,
    given: usize,
}

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.from.size() - self.at.min(self.from.size());
        if self.given == self.piece.len() {
            let count = left.min(self.from.piece() as u64) as usize;
            if into.len() >= count {
                self.from.read(self.at, &mut into[..count])?;
                self.at += count as u64;
                return Ok(count);
            }
            self.piece.resize(count, 0);
            self.from.read(self.at, &mut self.piece)?;
            self.at += count as u64;
            self.given = 0;
        }
        let got = (&self.piece[self.given..]).read(into)?;
        self.given += got;
        Ok(got)
    }
}

/// Whether a file is packed, and so can't be read from its middle.
pub fn is_packed(from: &dyn Ranges) -> Result<bool> {
    let mut first = [0; 4];
    let count = from.size().min(4) as usize;
    from.read(0, &mut first[..count])?;
    Ok(first.starts_with(&GZIP) || is_zstd(first))
}

fn is_zstd(first: [u8; 4]) -> bool {
    // A skippable frame may come first.
    first == ZSTD || first[0] & 0xf0 == 0x50 && first[1..] == [0x2a, 0x4d, 0x18]
}

/// A window on the unpacked bytes of a part, which moves on.
pub struct Window {
    reader: Box<dyn Read + Send>,
    pub bytes: Vec<u8>,
    /// Where the window begins, in the unpacked file.
    pub place: u64,
    pub at_end: bool,
}

impl Window {
    /// From a byte of the file on; of a packed one only from its first.
    pub fn open(from: &Arc<dyn Ranges>, start: u64) -> Result<Self> {
        let bytes = Bytes { from: from.clone(), at: start, piece: Vec::new(), given: 0 };
        let mut first = [0; 4];
        let count = from.size().min(4) as usize;
        from.read(0, &mut first[..count])?;
        let gzip = first.starts_with(&GZIP);
        if (gzip || is_zstd(first)) && start > 0 {
            return Err(Fault::asked("it is compressed, so no part of it can be read alone"));
        }
        let reader: Box<dyn Read + Send> = if gzip {
            Box::new(flate2::bufread::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 17, bytes)))
        } else if is_zstd(first) {
            Box::new(zstd::stream::read::Decoder::new(bytes)?)
        } else {
            Box::new(bytes)
        };
        let mut window = Self { reader, bytes: Vec::new(), place: start, at_end: false };
        if start == 0 {
            window.more(0, 3)?;
            if window.bytes.starts_with(b"\xef\xbb\xbf") {
                // Some editors begin a file with the mark of UTF-8.
                window.bytes.drain(..3);
                window.place = 3;
            }
        }
        Ok(window)
    }

    /// Lets go of the first bytes and reads on, until there are so many more, or the end.
    pub fn more(&mut self, drop: usize, wanted: usize) -> Result<()> {
        self.bytes.drain(..drop);
        self.place += drop as u64;
        let had = self.bytes.len();
        self.bytes.resize(had + wanted, 0);
        let mut filled = had;
        while filled < had + wanted {
            let got = match self.reader.read(&mut self.bytes[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.bytes.truncate(filled);
                    return Err(error.into());
                }
                Ok(got) => got,
            };
            if got == 0 {
                self.at_end = true;
                break;
            }
            filled += got;
        }
        self.bytes.truncate(filled);
        Ok(())
    }
}

/// How many lines end before a byte: what the line of a row in a part has to be raised by.
pub fn lines_before(from: &Arc<dyn Ranges>, byte: u64) -> Result<u64> {
    let (mut at, mut lines) = (0, 0);
    let mut piece = vec![0; 1 << 20];
    while at < byte {
        let count = (byte - at).min(1 << 20) as usize;
        from.read(at, &mut piece[..count])?;
        lines += memchr::memchr_iter(b'\n', &piece[..count]).count() as u64;
        at += count as u64;
    }
    Ok(lines)
}
