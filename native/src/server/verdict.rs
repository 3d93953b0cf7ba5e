//! How a job ended, as one server sees it. Values.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Every trainer is done, or those are that were to go on without the lost ones.
    pub ok: bool,
    pub text: String,
    pub done: Vec<u32>,
    pub lost: Vec<u32>,
    /// It could not keep what it was told: another one in its place goes on, once there is room.
    pub log_failed: bool,
}

/// What the verdict will be about.
#[derive(Debug, Default)]
pub struct Ending {
    /// When the last trainer said that it is done.
    pub last_done: u64,
    /// A trainer was refused because another one is lost, or because they wait for each other: the job has failed.
    failed: Option<String>,
    /// Once it is there it stays as it is.
    pub verdict: Option<Verdict>,
}

impl Ending {
    /// The first reason counts.
    pub fn fail(&mut self, why: impl FnOnce() -> String) {
        self.failed.get_or_insert_with(why);
    }

    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}
