//! When a server writes a snapshot of itself: one at a time, when it was asked for or the log has grown long, and not again
//! soon after one that failed. Time is an argument, in milliseconds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::poison::Unpoisoned;

/// After a snapshot that could not be written, the log may grow for so long.
const SECOND_TRY: u64 = 10_000;

#[derive(Default)]
pub struct Schedule {
    running: AtomicBool,
    wanted: AtomicBool,
    written: AtomicU64,
    /// A long log is no reason before this moment, because the last snapshot failed.
    not_before: AtomicU64,
    /// Why the last one could not be written.
    failure: Mutex<Option<String>>,
}

impl Schedule {
    /// One is begun when the server looks next.
    pub fn ask(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    /// Whether a log that has grown long is a reason for one. Looked at before the log is: one that has just been written
    /// has made the log short.
    pub fn is_free(&self, now: u64) -> bool {
        !self.running.load(Ordering::SeqCst) && now >= self.not_before.load(Ordering::Relaxed)
    }

    /// Whether one is to be written now. It is over with `end`.
    pub fn begin(&self) -> bool {
        // What is asked for while one is being written comes after it. One thread alone looks.
        !self.running.load(Ordering::SeqCst)
            && self.wanted.swap(false, Ordering::SeqCst)
            && !self.running.swap(true, Ordering::SeqCst)
    }

    pub fn end(&self, outcome: Result<(), String>, now: u64) {
        if outcome.is_err() {
            self.not_before.store(now + SECOND_TRY, Ordering::Relaxed);
        }
        *self.failure.lock().unpoisoned() = outcome.err();
        self.running.store(false, Ordering::SeqCst);
    }

    pub fn count(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unpoisoned().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_not_soon_after_a_failure() {
        let schedule = Schedule::default();
        assert!(!schedule.begin() && schedule.is_free(0));
        schedule.ask();
        assert!(schedule.begin());
        schedule.ask();
        assert!(!schedule.begin() && !schedule.is_free(400), "one is being written");
        schedule.end(Ok(()), 500);
        assert!(schedule.begin(), "the one that was asked for meanwhile");
        schedule.end(Err("no space".into()), 1_000);
        assert!(!schedule.is_free(10_999) && schedule.is_free(11_000));
        assert_eq!(schedule.failure().as_deref(), Some("no space"));
        schedule.ask();
        assert!(schedule.begin(), "asked for by a client, not by the log");
        schedule.end(Ok(()), 2_000);
        assert_eq!(schedule.failure(), None);
    }
}
