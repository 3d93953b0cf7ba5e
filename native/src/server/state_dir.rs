//! A server's state directory: whose it is, and the snapshots in it. An adapter.
//!
//! It belongs to one server of one job; anything else is refused before it is touched.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::EngineConfig;
use crate::store::{Fresh, sync_dir, with_file};

/// Whose a state directory is.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Owner {
    format: u32,
    job: String,
    server: usize,
    servers: usize,
    shards: usize,
    world: usize,
}

const OWNER: &str = "server.json";
const FORMAT: u32 = 1;

/// Writes down whose the directory is, or compares.
pub fn claim(dir: &Path, config: &EngineConfig) -> Result<(), String> {
    let own = Owner {
        format: FORMAT,
        job: config.job.clone(),
        server: config.server,
        servers: config.servers,
        shards: config.shards,
        world: config.world,
    };
    let path = dir.join(OWNER);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if !holds_nothing(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
                return Err(format!("{}: is not empty, and not a server's state directory", dir.display()));
            }
            let text = serde_json::to_string_pretty(&own).map_err(|error| error.to_string())?;
            return write_owner(dir, &text).map_err(|error| error.to_string());
        }
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let theirs: Owner =
        serde_json::from_str(&text).map_err(|error| format!("{}: is not understood: {error}", path.display()))?;
    if theirs == own {
        return Ok(());
    }
    let mut differences = Vec::new();
    let mut compare = |name: &str, theirs: String, own: String| {
        if theirs != own {
            differences.push(format!("{name} is {theirs} there and {own} here"));
        }
    };
    compare("format", theirs.format.to_string(), own.format.to_string());
    compare("job", format!("{:?}", theirs.job), format!("{:?}", own.job));
    compare("server", theirs.server.to_string(), own.server.to_string());
    compare("the number of servers", theirs.servers.to_string(), own.servers.to_string());
    compare("the number of shards", theirs.shards.to_string(), own.shards.to_string());
    compare("the number of trainers", theirs.world.to_string(), own.world.to_string());
    Err(format!(
        "{}: holds the state of another server: {}; a checkpoint can move it, a state directory can't",
        dir.display(),
        differences.join(", ")
    ))
}

/// Whether there is nothing but what a server left that was killed, or had no space, while it claimed the directory.
fn holds_nothing(dir: &Path) -> std::io::Result<bool> {
    let begun = format!(".{OWNER}.");
    for entry in std::fs::read_dir(dir)? {
        if !entry?.file_name().as_encoded_bytes().starts_with(begun.as_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write_owner(dir: &Path, text: &str) -> std::io::Result<()> {
    let mut fresh = Fresh::create(dir, OWNER)?;
    fresh.file.write_all(text.as_bytes()).map_err(|error| with_file(fresh.path(), &error))?;
    fresh.keep()?;
    sync_dir(dir)
}

/// Whole snapshots of a state directory, oldest first, by the log's position. What a crash left half made is removed.
pub fn snapshots(dir: &Path) -> Result<Vec<(u64, PathBuf)>, String> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("snapshot-") else { continue };
        if number.ends_with(".partial") {
            remove(&entry.path())?;
        } else if let Ok(lsn) = number.parse() {
            found.push((lsn, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

pub fn remove_snapshots_before(dir: &Path, lsn: u64) -> Result<(), String> {
    for (_, path) in snapshots(dir)?.into_iter().filter(|(number, _)| *number < lsn) {
        remove(&path)?;
    }
    sync_dir(dir).map_err(|error| error.to_string())
}

/// Removes a directory, in such a way that half of it is never taken for a whole one.
pub fn remove(path: &Path) -> Result<(), String> {
    if !path.exists() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: can't be removed: {error}", path.display());
    let mut doomed = path.to_path_buf();
    if path.extension().is_none_or(|extension| extension != "partial") {
        doomed.as_mut_os_string().push(".partial");
        std::fs::rename(path, &doomed).map_err(failed)?;
    }
    std::fs::remove_dir_all(&doomed).map_err(failed)
}
