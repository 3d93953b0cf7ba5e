//! Manifests: what a checkpoint, or a server's own snapshot, consists of. Written last; without it there is nothing.
//!
//! ```text
//! umiak checkpoint 2
//! { ... JSON ... }
//! crc32 89abcdef
//! ```
//!
//! The checksum is that of all bytes before its line. `umiak.ps.checkpoint` reads and writes the same. In format 1
//! every file holds one shard.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shardfile::ShardSummary;
use super::{Fresh, StoreError, Trouble, open_regular, sync_dir, with_file};
use crate::keys::Sharding;
use crate::table::spec::TableSpec;

pub const NAME: &str = "MANIFEST";
pub const VERSION: u32 = 2;
const READ: [&str; 2] = ["1", "2"];
const FIRST: &str = "umiak checkpoint ";
/// `crc32 ` + eight digits + newline.
const LAST: usize = 15;
const MOST_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub name: String,
    /// Virtual shards of the job.
    pub shards: usize,
    pub step: u64,
    /// When it was saved, in seconds since 1970.
    pub saved: f64,
    pub tables: BTreeMap<String, TableEntry>,
    pub files: Vec<ShardSummary>,
    /// Whatever else belongs to it: plain JSON.
    pub metadata: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    pub spec: TableSpec,
    pub state: Value,
}

impl Manifest {
    /// Writes `MANIFEST` into the directory: all or nothing, and on disk, names of the other files included.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let mut text = format!("{FIRST}{VERSION}\n");
        text.push_str(&serde_json::to_string_pretty(self)?);
        text.push('\n');
        let crc = crc32fast::hash(text.as_bytes());
        text.push_str(&format!("crc32 {crc:08x}\n"));
        let mut fresh = Fresh::create(dir, NAME)?;
        fresh.file.write_all(text.as_bytes()).map_err(|error| with_file(fresh.path(), &error))?;
        fresh.keep()?;
        sync_dir(dir)
    }

    /// Reads `MANIFEST` of the directory, and compares the files that it lists in number and size, not in content.
    pub fn read(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(NAME);
        let (file, size) = open_regular(&path)?;
        if size > MOST_BYTES {
            return Err(StoreError::new(
                Trouble::Foreign,
                &path,
                format!("has {size} bytes: no manifest is that long"),
            ));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        file.take(MOST_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| StoreError::io(&path, "can't be read", &error))?;
        let manifest = Self::parse(&path, &bytes)?;
        manifest.check_files(dir)?;
        Ok(manifest)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let wrong = |trouble, what: String| StoreError::new(trouble, path, what);
        let there = bytes.len().min(FIRST.len());
        if bytes[..there] != FIRST.as_bytes()[..there] {
            return Err(wrong(Trouble::Foreign, "is not a manifest of umiak".to_owned()));
        }
        let torn = || wrong(Trouble::Torn, "is cut off: its last line is not a checksum".to_owned());
        let body = bytes.len().checked_sub(LAST).ok_or_else(torn)?;
        let (text, last) = bytes.split_at(body);
        let version = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let version = String::from_utf8_lossy(&version[FIRST.len().min(version.len())..]).into_owned();
        if text.contains(&b'\n') && !READ.contains(&version.as_str()) {
            let text = format!("is a manifest of format {version:?}, and this umiak reads formats up to {VERSION}");
            return Err(wrong(Trouble::Version, text));
        }
        if last != format!("crc32 {:08x}\n", crc32fast::hash(text)).as_bytes() {
            return Err(if last.starts_with(b"crc32 ") && last.ends_with(b"\n") {
                wrong(Trouble::Damaged, "is damaged or was edited: its checksum is wrong".to_owned())
            } else {
                torn()
            });
        }
        let json = &text[FIRST.len() + version.len() + 1..];
        let manifest: Manifest = serde_json::from_slice(json)
            .map_err(|error| wrong(Trouble::Schema, format!("is not understood: {error}")))?;
        if Sharding::new(manifest.shards).is_none() {
            return Err(wrong(Trouble::Schema, format!("has {} shards, which can't be", manifest.shards)));
        }
        Ok(manifest)
    }

    fn check_files(&self, dir: &Path) -> Result<(), StoreError> {
        let mut names = HashSet::new();
        for listed in &self.files {
            let path = dir.join(&listed.name);
            if Path::new(&listed.name).file_name() != Some(listed.name.as_ref()) || !names.insert(&listed.name) {
                let text = format!("lists a file {:?}, which can't be", listed.name);
                return Err(StoreError::new(Trouble::Schema, &dir.join(NAME), text));
            }
            let (_, size) = open_regular(&path)?;
            if size != listed.bytes {
                let text = format!("has {size} bytes, and its manifest says {}", listed.bytes);
                return Err(StoreError::new(Trouble::Torn, &path, text));
            }
        }
        Ok(())
    }
}
