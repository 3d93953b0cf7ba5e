//! A checkpoint that was read and checked, and waits for the word to take its place.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use serde::Deserialize;

use super::registry::Registry;
use crate::poison::Unpoisoned;

/// One that nobody wanted after all is kept for so long, in milliseconds.
const STALE: u64 = 60_000;

/// What a client asks for.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    pub path: PathBuf,
    /// Names of files; without them, all shard files that are there.
    #[serde(default)]
    pub files: Option<Vec<String>>,
    /// From here on, the steps of all trainers.
    #[serde(default)]
    pub step: Option<u64>,
    /// Only read and checked, not put in its place.
    #[serde(default)]
    pub check: bool,
}

/// Tables that were read, and in words what of their settings is not as it was saved.
pub type Loaded = (Registry, Vec<String>);

/// New tables beside the old ones.
pub struct Staged {
    pub request: LoadRequest,
    /// Names of the tables whose changes were followed then.
    pub tracked: Vec<String>,
    pub loaded: Loaded,
    pub since: u64,
}

#[derive(Default)]
pub struct Staging(Mutex<Option<Staged>>);

impl Staging {
    fn staged(&self) -> MutexGuard<'_, Option<Staged>> {
        self.0.lock().unpoisoned()
    }

    /// In the place of one that waits.
    pub fn put(&self, staged: Staged) {
        // Many rows may go, and nobody waits for that at the lock.
        let before = self.staged().replace(staged);
        drop(before);
    }

    /// What was read for this very request. Whatever waits does so no longer.
    pub fn take(&self, request: &LoadRequest) -> Option<Staged> {
        let staged = self.staged().take()?;
        let is_same = LoadRequest { check: true, ..request.clone() } == staged.request;
        is_same.then_some(staged)
    }

    pub fn drop_stale(&self, now: u64) {
        let stale = self.staged().take_if(|staged| now >= staged.since + STALE);
        drop(stale);
    }
}
