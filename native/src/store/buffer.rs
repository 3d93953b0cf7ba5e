//! Where records stay until they are on disk: memory that outlives the process. An adapter.
//!
//! A buffer is a file that is mapped into memory. What is copied into it belongs to the kernel at once, as after a write(2)
//! and without the call, so a process that is killed loses none of it. Against the loss of the machine only the log's
//! segments help, into which a buffer's bytes go every interval.
//!
//! ```text
//! file   how many salts u64 | salts u64, up to 511 | from byte 4096 on, records as segments have them
//! ```
//!
//! Behind the newest records lie remains of older ones. They are told apart by their numbers, which only rise.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use super::block::u64_at;
use super::segment::{self, Lsn};
use super::with_file;

const BEGIN: usize = 4096;
const MOST_SALTS: usize = BEGIN / 8 - 1;
const SMALLEST: usize = 64 << 10;

pub(super) struct Buffer {
    map: MmapMut,
    length: usize,
    /// Without one it is memory of the process, for a log that is made in one go and worth nothing before it is whole.
    file: Option<(File, PathBuf)>,
}

impl Buffer {
    /// An empty one, in a file that is made or overwritten, or in memory.
    pub fn new(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { map: MmapMut::map_anon(SMALLEST)?, length: 0, file: None });
        };
        let open = || {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
            Ok((Self::mapped(&file, SMALLEST)?, file))
        };
        let (map, file) = open().map_err(|error| with_file(path, &error))?;
        Ok(Self { map, length: 0, file: Some((file, path.to_path_buf())) })
    }

    /// The disk's space is taken first: a page that finds none later would end the process.
    fn mapped(file: &File, size: usize) -> io::Result<MmapMut> {
        // SAFETY: it takes a descriptor, which `file` keeps open, and touches no memory of ours.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as libc::off_t) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        // SAFETY: the log's lock keeps other servers from this file, and nobody else has a reason to shorten it.
        unsafe { MmapMut::map_mut(file) }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map[BEGIN..BEGIN + self.length]
    }

    /// Empties it. What is put into it is under this salt.
    pub fn begin(&mut self, salt: u64) {
        self.length = 0;
        self.map[..8].copy_from_slice(&1u64.to_le_bytes());
        self.map[8..16].copy_from_slice(&salt.to_le_bytes());
    }

    /// What follows is under another salt. `false`: it has had too many.
    pub fn turn_to(&mut self, salt: u64) -> bool {
        let count = u64_at(&self.map, 0) as usize;
        if count >= MOST_SALTS {
            return false;
        }
        self.map[8 + 8 * count..16 + 8 * count].copy_from_slice(&salt.to_le_bytes());
        self.map[..8].copy_from_slice(&(count as u64 + 1).to_le_bytes());
        true
    }

    /// Makes room for so many bytes more.
    pub fn reserve(&mut self, more: usize) -> io::Result<()> {
        let needed = BEGIN + self.length + more;
        if needed <= self.map.len() {
            return Ok(());
        }
        let size = needed.max(2 * self.map.len()).next_multiple_of(BEGIN);
        self.map = match &self.file {
            // The file has what was in it.
            Some((file, path)) => Self::mapped(file, size).map_err(|error| with_file(path, &error))?,
            None => {
                let mut map = MmapMut::map_anon(size)?;
                map[..BEGIN + self.length].copy_from_slice(&self.map[..BEGIN + self.length]);
                map
            }
        };
        Ok(())
    }

    /// Appends what there is room for.
    pub fn put(&mut self, bytes: &[u8]) {
        let at = BEGIN + self.length;
        self.map[at..at + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Gives memory back that one long batch has taken.
    pub fn shrink(&mut self, most: usize) {
        if self.map.len() <= most {
            return;
        }
        let smaller = match &self.file {
            // Shortened after the old map is gone: touching it beyond the end would end the process.
            Some((file, _)) => Self::mapped(file, SMALLEST).and_then(|map| {
                drop(std::mem::replace(&mut self.map, map));
                file.set_len(SMALLEST as u64)?;
                Self::mapped(file, SMALLEST)
            }),
            None => MmapMut::map_anon(SMALLEST),
        };
        if let Ok(map) = smaller {
            self.map = map;
        }
    }

    /// It is empty, and the log complete without it.
    pub fn remove(&self) {
        if let Some((_, path)) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The records in a buffer's file that follow each other, with their numbers. Not an error: a buffer may be anything.
pub(super) fn remains(path: &Path) -> Vec<(Lsn, Vec<u8>)> {
    let mut found: Vec<(Lsn, Vec<u8>)> = Vec::new();
    let Ok(bytes) = std::fs::read(path) else { return found };
    if bytes.len() < BEGIN {
        return found;
    }
    let count = (u64_at(&bytes, 0) as usize).min(MOST_SALTS);
    let mut salts = (0..count).map(|n| u64_at(&bytes, 8 + 8 * n)).peekable();
    let mut at = BEGIN;
    while let Some(salt) = salts.peek().copied() {
        match segment::record_at(&bytes[at..], salt) {
            Some((lsn, content)) if found.last().is_none_or(|(last, _)| lsn == last + 1) => {
                at += segment::HEAD + content.len();
                found.push((lsn, content.to_vec()));
            }
            Some(_) => break,
            None => drop(salts.next()),
        }
    }
    found
}
