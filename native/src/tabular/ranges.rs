//! An adapter: pieces of a file by their place, whether it lies here or behind a URL.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::fault::{Fault, Result};

/// Something whose bytes can be had by their place.
pub trait Ranges: Send + Sync {
    fn size(&self) -> u64;

    /// Fills `into` with the bytes from `at` on; fewer are an error.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// How many bytes are asked for at once: few where that costs little.
    fn piece(&self) -> usize;
}

/// A file of this machine.
pub struct LocalFile {
    file: File,
    size: u64,
}

impl LocalFile {
    pub fn open(path: &Path) -> Result<Self> {
        let opened = |error: io::Error| Fault::from(error).in_file(&path.display().to_string());
        let file = File::open(path).map_err(opened)?;
        let about = file.metadata().map_err(opened)?;
        if !about.is_file() {
            return Err(
                Fault::asked("it is no file: a directory, a pipe or a device").in_file(&path.display().to_string())
            );
        }
        Ok(Self { file, size: about.len() })
    }
}

impl Ranges for LocalFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn piece(&self) -> usize {
        256 << 10
    }
}

impl Ranges for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(at).unwrap_or(usize::MAX).min(self.len());
        let Some(bytes) = self[start..].get(..into.len()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn piece(&self) -> usize {
        64 << 10
    }
}

/// A piece in memory of its own.
pub fn piece(from: &dyn Ranges, at: u64, count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    from.read(at, &mut bytes)?;
    Ok(bytes)
}
