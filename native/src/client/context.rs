//! What goes with one operation through all the requests that it takes: how long it may last, who is asked whether it may
//! go on, and what it waits for.

use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::error::{ClientError, ErrorDetail, Outcome};
use crate::poison::Unpoisoned;

/// Called at least every 0.2 s while something is waited for; `false` ends the waiting.
pub type Pulse<'a> = &'a mut dyn FnMut() -> bool;

pub const TICK: Duration = Duration::from_millis(100);

/// What the caller of an operation says about it.
pub struct CallOptions<'a> {
    /// For the whole operation, however many requests it takes.
    pub limit: Option<Duration>,
    pub pulse: Pulse<'a>,
}

impl<'a> CallOptions<'a> {
    pub fn new(limit: Option<Duration>, pulse: Pulse<'a>) -> CallOptions<'a> {
        CallOptions { limit, pulse }
    }
}

/// What an operation waits for, for other threads to read.
#[derive(Default)]
pub struct Waiting(Mutex<Option<String>>);

impl Waiting {
    fn text(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unpoisoned()
    }

    pub fn get(&self) -> Option<String> {
        self.text().clone()
    }

    pub fn set(&self, text: Option<String>) {
        *self.text() = text;
    }
}

/// One operation that is under way.
pub struct CallContext<'a> {
    pub options: CallOptions<'a>,
    /// The moment at which its time is over.
    pub until: Option<Instant>,
    pub waiting: &'a Waiting,
}

/// Why an operation ends before its answers are there.
#[derive(Debug)]
pub enum Stop {
    Interrupted,
    /// The time for the whole operation is over.
    Limit,
}

impl<'a> CallContext<'a> {
    /// Its time begins now.
    pub fn new(options: CallOptions<'a>, waiting: &'a Waiting) -> CallContext<'a> {
        CallContext { until: options.limit.map(|limit| Instant::now() + limit), options, waiting }
    }

    /// Whether the caller lets it go on.
    pub fn goes_on(&mut self) -> bool {
        (self.options.pulse)()
    }

    pub fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    pub fn waits_for(&self, text: String) {
        self.waiting.set(Some(text));
    }

    /// The error of an operation whose time is over.
    pub fn over_limit(&self) -> ClientError {
        let seconds =
            self.options.limit.map(|limit| format!(" after {:.1} s", limit.as_secs_f64())).unwrap_or_default();
        let what = self.waiting.get().unwrap_or_else(|| "the servers work on it".into());
        ClientError::Timeout(ErrorDetail::new("timeout", format!("given up{seconds}: {what}"), None))
    }

    pub fn stopped(&self, stop: &Stop) -> ClientError {
        match stop {
            Stop::Interrupted => ClientError::Interrupted,
            Stop::Limit => self.over_limit(),
        }
    }

    pub fn nap(&mut self, duration: Duration) -> Outcome<()> {
        let until = Instant::now() + duration;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            thread::sleep(left.min(TICK));
            if !self.goes_on() {
                return Err(ClientError::Interrupted);
            }
        }
        Ok(())
    }
}
