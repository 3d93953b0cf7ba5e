//! Helper threads that share a large request while cores are idle: a small thread pool.
//!
//! Work is cut into numbered parts. The thread that comes first does a part; the caller needs no one, and does what nobody has
//! begun. Nobody is called while every core has something to do: the work would be the same, and the caches of two cores
//! would be full of it instead of one's.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;

use crate::poison::Unpoisoned;

/// Helpers at most: one request should not have all of a large machine.
const MOST_HELPERS: usize = 7;

/// Nobody has begun it.
const FREE: u8 = 0;
/// A helper is at it.
const TAKEN: u8 = 1;
const DONE: u8 = 2;
const FAILED: u8 = 3;
/// The caller does it, or has done it.
const OWN: u8 = 4;

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// Does `work` for all parts and returns when they are done.
pub fn together(parts: usize, work: &Work<'_>) {
    ahead(parts, work, |need| (0..parts).for_each(need));
}

/// Calls `caller` with a function that returns when a part is done: parts are done ahead of their need. Those that are
/// never needed may never be done.
///
/// # Panics
/// If `work` does, in whichever thread.
pub fn ahead<R>(parts: usize, work: &Work<'_>, caller: impl FnOnce(&dyn Fn(usize)) -> R) -> R {
    let helpers = helpers();
    if parts < 2 || helpers.count == 0 {
        return caller(&work);
    }
    // SAFETY: only the lifetime changes. `work` is called by the thread that has claimed a part, and `Open` claims all that are left
    // and waits for the helpers' before this function returns, also when `caller` panics.
    let work: &'static Work<'static> = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
    let states = (0..parts).map(|_| AtomicU8::new(FREE)).collect();
    let job = Job { work, states, next: AtomicUsize::new(1), lock: Mutex::new(()), bell: Condvar::new() };
    let open = Open(Arc::new(job));
    let alone = Cell::new(true);
    caller(&|part| {
        if alone.get() && part + 1 < parts && helpers.a_core_is_free() {
            alone.set(false);
            helpers.call(&open.0, helpers.count.min(parts - part - 1));
        }
        open.0.need(part);
    })
}

struct Job {
    work: &'static Work<'static>,
    states: Box<[AtomicU8]>,
    /// The parts before this one, but for the first, which is the caller's, are not free any more.
    next: AtomicUsize,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Job {
    fn is(&self, part: usize, state: u8) -> bool {
        self.states[part].load(Ordering::Acquire) == state
    }

    /// Whether the part was free and is the claimant's now.
    fn claim(&self, part: usize, state: u8) -> bool {
        self.states[part].compare_exchange(FREE, state, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn claim_next(&self, state: u8) -> Option<usize> {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.states.len() {
                return None;
            }
            if self.claim(part, state) {
                return Some(part);
            }
        }
    }

    fn help(&self) {
        while let Some(part) = self.claim_next(TAKEN) {
            let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(part)));
            self.states[part].store(if outcome.is_ok() { DONE } else { FAILED }, Ordering::Release);
            // A thread that looked before the store and sleeps by now holds no lock any more.
            drop(self.lock.lock().unpoisoned());
            self.bell.notify_all();
        }
    }

    fn need(&self, part: usize) {
        if self.claim(part, OWN) {
            return (self.work)(part);
        }
        while self.is(part, TAKEN) {
            // A helper is at it: meanwhile the next one.
            match self.claim_next(OWN) {
                Some(other) => (self.work)(other),
                None => self.wait(part),
            }
        }
        assert!(!self.is(part, FAILED), "a part of the work failed in another thread");
    }

    fn wait(&self, part: usize) {
        let mut guard = self.lock.lock().unpoisoned();
        while self.is(part, TAKEN) {
            guard = self.bell.wait(guard).unpoisoned();
        }
    }
}

/// A job whose work can still be called.
struct Open(Arc<Job>);

impl Drop for Open {
    fn drop(&mut self) {
        for part in 0..self.0.states.len() {
            if !self.0.claim(part, OWN) {
                self.0.wait(part);
            }
        }
        helpers().forget(&self.0);
    }
}

struct Helpers {
    cores: usize,
    /// How many there are.
    count: usize,
    /// Says, among other things, how many threads of the machine run or want to.
    load: Option<File>,
    calls: Mutex<VecDeque<Arc<Job>>>,
    bell: Condvar,
}

/// Those of this process; their threads are started when they are called first.
fn helpers() -> &'static Helpers {
    static HELPERS: OnceLock<Helpers> = OnceLock::new();
    static STARTED: OnceLock<()> = OnceLock::new();
    let helpers = HELPERS.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let load = File::open("/proc/loadavg").ok();
        Helpers { cores, count: (cores - 1).min(MOST_HELPERS), load, calls: Mutex::default(), bell: Condvar::new() }
    });
    STARTED.get_or_init(|| {
        for _ in 0..helpers.count {
            // Without a thread there is no help, and everything works as before; so it does in a fork.
            let _ = thread::Builder::new().name("ps-helper".into()).spawn(|| helpers.help());
        }
    });
    helpers
}

impl Helpers {
    /// "0.52 0.58 0.59 2/347 4242": two run or want to, one of them being this thread.
    fn a_core_is_free(&self) -> bool {
        let mut text = [0; 64];
        let read = self.load.as_ref().and_then(|load| load.read_at(&mut text, 0).ok());
        let words = str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        let running = words.split(' ').nth(3).and_then(|word| word.split_once('/')?.0.parse::<usize>().ok());
        running.is_some_and(|running| running < self.cores)
    }

    fn call(&self, job: &Arc<Job>, hands: usize) {
        self.calls.lock().unpoisoned().extend((0..hands).map(|_| Arc::clone(job)));
        (0..hands).for_each(|_| self.bell.notify_one());
    }

    fn forget(&self, job: &Arc<Job>) {
        self.calls.lock().unpoisoned().retain(|called| !Arc::ptr_eq(called, job));
    }

    fn help(&self) {
        let mut calls = self.calls.lock().unpoisoned();
        loop {
            match calls.pop_front() {
                Some(job) => {
                    drop(calls);
                    job.help();
                    calls = self.calls.lock().unpoisoned();
                }
                None => calls = self.bell.wait(calls).unpoisoned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_part_is_done_once_no_matter_who_does_it() {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for parts in 0..200 {
                        let done: Vec<AtomicU64> = (0..parts).map(|_| AtomicU64::new(0)).collect();
                        together(parts, &|part| {
                            done[part].fetch_add(part as u64 + 1, Ordering::Relaxed);
                        });
                        assert!((1..).zip(&done).all(|(number, done)| done.load(Ordering::Relaxed) == number));
                    }
                });
            }
        });
    }

    #[test]
    fn nothing_runs_on_after_the_caller_left() {
        for _ in 0..200 {
            let running = AtomicU64::new(0);
            let work = |_: usize| {
                running.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
            };
            let left = catch_unwind(AssertUnwindSafe(|| {
                ahead(50, &work, |need| {
                    need(3);
                    panic!("enough");
                })
            }));
            assert!(left.is_err());
            assert_eq!(running.load(Ordering::SeqCst), 0);
        }
    }

    #[test]
    fn a_part_that_fails_fails_the_whole() {
        for failing in [0, 1, 7] {
            let work = |part: usize| assert_ne!(part, failing);
            assert!(catch_unwind(|| together(8, &work)).is_err());
        }
    }
}
