//! The gate before the tables: changes go through it together, and a moment at which nothing changes (a snapshot begins,
//! a table shrinks, a checkpoint takes a table's place) has it alone. Unlike a `RwLock` it can be waited at for a while only,
//! so that a connection can tell its client what it waits for; and a caller that wants it alone goes before newcomers.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::poison::Unpoisoned;

#[derive(Default)]
struct Traffic {
    inside: usize,
    alone: bool,
    queueing: usize,
}

#[derive(Default)]
pub struct Gate {
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

/// One change on its way.
pub struct Pass<'a>(&'a Gate);

/// Nobody else is inside.
pub struct Alone<'a>(&'a Gate);

impl Gate {
    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unpoisoned()
    }

    /// `None` if somebody had it alone for all that time.
    pub fn enter(&self, patience: Duration) -> Option<Pass<'_>> {
        let mut traffic = self.traffic();
        if traffic.alone || traffic.queueing > 0 {
            let closed = |traffic: &mut Traffic| traffic.alone || traffic.queueing > 0;
            let waited = self.changed.wait_timeout_while(traffic, patience, closed);
            let (guard, timeout) = waited.unpoisoned();
            if timeout.timed_out() {
                return None;
            }
            traffic = guard;
        }
        traffic.inside += 1;
        Some(Pass(self))
    }

    pub fn alone(&self) -> Alone<'_> {
        let mut traffic = self.traffic();
        traffic.queueing += 1;
        let busy = |traffic: &mut Traffic| traffic.alone || traffic.inside > 0;
        traffic = self.changed.wait_while(traffic, busy).unpoisoned();
        traffic.queueing -= 1;
        traffic.alone = true;
        Alone(self)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut traffic = self.0.traffic();
        traffic.inside -= 1;
        if traffic.inside == 0 && traffic.queueing > 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.traffic().alone = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn many_pass_together_and_one_is_alone() {
        let gate = Gate::default();
        let first = gate.enter(AT_ONCE);
        assert!(first.is_some() && gate.enter(AT_ONCE).is_some());
        drop(first);
        let alone = gate.alone();
        assert!(gate.enter(AT_ONCE).is_none());
        drop(alone);
        assert!(gate.enter(AT_ONCE).is_some());
    }

    #[test]
    fn changes_and_lonely_moments_never_meet() {
        use std::sync::atomic::{AtomicI64, Ordering};
        let gate = Gate::default();
        let inside = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..3000 {
                        let _pass = gate.enter(Duration::from_secs(60)).unwrap();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) >= 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let _alone = gate.alone();
                        assert_eq!(inside.swap(-1000, Ordering::SeqCst), 0);
                        inside.store(0, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
