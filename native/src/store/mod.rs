//! What is on disk: shard files, the log of operations, manifests. Nothing here knows what a row or an operation means.
//!
//! Every file is read as if it came from a stranger: sizes are compared with what the file can hold before memory is set
//! aside, every byte is under a checksum, and what is wrong becomes one sentence that names the file.

pub mod block;
mod buffer;
pub mod log;
pub mod manifest;
pub mod segment;
pub mod shardfile;
pub mod shardread;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What kind of trouble a file makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The system refused: not there, no permission, disk full.
    Io(io::ErrorKind),
    /// It is something else altogether.
    Foreign,
    /// Written by a version of umiak that writes another format.
    Version,
    /// It ends too early.
    Torn,
    /// Its bytes are not those that were written.
    Damaged,
    /// Whole, but not for this table or this job.
    Schema,
}

/// Why a file can't be used: one sentence with the file's name in it.
#[derive(Clone, Debug)]
pub struct StoreError {
    pub trouble: Trouble,
    pub file: PathBuf,
    pub what: String,
}

impl StoreError {
    pub fn new(trouble: Trouble, file: &Path, what: impl Into<String>) -> Self {
        Self { trouble, file: file.to_path_buf(), what: what.into() }
    }

    pub fn io(file: &Path, doing: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::new(Trouble::Torn, file, "ended while it was read: another program shortened it");
        }
        Self::new(Trouble::Io(error.kind()), file, format!("{doing}: {error}"))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.file.display(), self.what)
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        let kind = match error.trouble {
            Trouble::Io(kind) => kind,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

/// Makes what was created, renamed or removed in a directory last.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(|error| with_file(dir, &error))
}

/// An error of the system with the file's name in front, of the same kind.
pub(crate) fn with_file(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// A file under a temporary name in the directory where it will stay. It vanishes unless it is kept.
pub(crate) struct Fresh {
    pub file: File,
    temporary: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl Fresh {
    pub fn create(dir: &Path, name: &str) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = dir.join(format!(".{name}.{}-{count}.tmp", std::process::id()));
        // What a killed process with this number left behind is nobody's.
        let _ = std::fs::remove_file(&temporary);
        let opened = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = opened.map_err(|error| with_file(&temporary, &error))?;
        Ok(Self { file, temporary, path: dir.join(name), kept: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Content to disk, then the real name. The name itself lasts after `sync_dir`.
    pub fn keep(mut self) -> io::Result<File> {
        self.file.sync_data().map_err(|error| with_file(&self.path, &error))?;
        std::fs::rename(&self.temporary, &self.path).map_err(|error| with_file(&self.path, &error))?;
        self.kept = true;
        self.file.try_clone().map_err(|error| with_file(&self.path, &error))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Opens a regular file for reading and says how long it is. A pipe or a directory is refused without being opened.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64), StoreError> {
    let refuse = |error: io::Error| StoreError::io(path, "can't be opened", &error);
    if !std::fs::metadata(path).map_err(refuse)?.is_file() {
        return Err(StoreError::new(Trouble::Foreign, path, "is not a regular file"));
    }
    let file = File::open(path).map_err(refuse)?;
    let size = file.metadata().map_err(refuse)?.len();
    Ok((file, size))
}

#[cfg(test)]
mod tests;
