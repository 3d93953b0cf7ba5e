//! One run of a server, from its start until it is stopped: its number, its clock, and the threads that work for it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use crate::poison::Unpoisoned;

pub struct Lifetime {
    /// Tells this run of the server from earlier and later ones.
    number: u64,
    begun: Instant,
    stopped: AtomicBool,
    /// To be waited for when the server stops.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Lifetime {
    pub fn begin() -> Self {
        Self { number: random(), begun: Instant::now(), stopped: AtomicBool::new(false), threads: Mutex::default() }
    }

    /// As clients are told.
    pub fn name(&self) -> String {
        format!("{:016x}", self.number)
    }

    /// In milliseconds since the server began.
    pub fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// `false` if it was stopped before.
    pub fn stop(&self) -> bool {
        !self.stopped.swap(true, Ordering::SeqCst)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unpoisoned()
    }

    /// Starts a thread that `join` waits for.
    pub fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = Builder::new().name(name.to_owned()).spawn(work)?;
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Wakes the threads and waits for their end.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A number that nobody can guess: the standard library's hashers begin with one.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
