//! The order in which a server's locks are taken, and a check of it. A thread that holds one takes only later ones:
//!
//! ```text
//! writing   the right to write tables to disk, or to do what must not happen meanwhile
//! gate      changes pass it together; a moment in which nothing changes has it alone
//! session   one rank's operations, in order; one session at a time
//! core      steps, members, meetings
//! registry  which tables there are
//! ```
//!
//! Locks inside tables, the log, the buffer pool and the list of threads are the last ones: nobody takes another while holding
//! them. From the gate on, nobody writes to a socket or waits for the disk while holding one.
//!
//! In debug builds and in all tests each thread remembers what it holds, and taking a lock out of order panics, also when
//! no other thread is in the way. Other builds do nothing of it.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use crate::poison::Unpoisoned;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Writing,
    Gate,
    Session,
    Core,
    Registry,
}

#[cfg(any(test, debug_assertions))]
mod held {
    use super::Rank;
    use std::cell::RefCell;

    thread_local!(static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) });

    #[expect(clippy::panic, reason = "a defect that debug builds and tests are to find")]
    pub fn take(rank: Rank) {
        HELD.with_borrow_mut(|held| {
            if let Some(last) = held.iter().max().filter(|last| **last >= rank) {
                panic!("locks out of order: {rank:?} is taken by a thread that holds {last:?}");
            }
            held.push(rank);
        });
    }

    pub fn drop(rank: Rank) {
        HELD.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|each| *each == rank) {
                held.remove(at);
            }
        });
    }

    #[expect(clippy::panic, reason = "a defect that debug builds and tests are to find")]
    pub fn none_from(rank: Rank) {
        if let Some(rank) = HELD.with_borrow(|held| held.iter().copied().find(|each| *each >= rank)) {
            panic!("a thread that holds {rank:?} waits for a socket or the disk");
        }
    }
}

/// That this thread holds a lock of a rank. It must not go to another thread.
struct Held {
    #[cfg(any(test, debug_assertions))]
    rank: Rank,
    _here: PhantomData<*const ()>,
}

impl Held {
    #[cfg_attr(not(any(test, debug_assertions)), allow(unused_variables))]
    fn take(rank: Rank) -> Self {
        #[cfg(any(test, debug_assertions))]
        held::take(rank);
        Held {
            #[cfg(any(test, debug_assertions))]
            rank,
            _here: PhantomData,
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl Drop for Held {
    fn drop(&mut self) {
        held::drop(self.rank);
    }
}

/// A guard and its rank.
pub struct Ranked<G> {
    // In this order: the lock is free before its rank is.
    guard: G,
    held: Held,
}

/// Takes a lock in its turn. The order is checked before anything is waited for.
pub fn take<G>(rank: Rank, lock: impl FnOnce() -> G) -> Ranked<G> {
    let held = Held::take(rank);
    Ranked { guard: lock(), held }
}

pub fn take_if<G>(rank: Rank, lock: impl FnOnce() -> Option<G>) -> Option<Ranked<G>> {
    let held = Held::take(rank);
    lock().map(|guard| Ranked { guard, held })
}

/// Says that what follows may take long: a socket or the disk is waited for.
pub fn may_wait() {
    #[cfg(any(test, debug_assertions))]
    held::none_from(Rank::Gate);
}

impl<G: Deref> Deref for Ranked<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Ranked<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

pub type Guard<'a, T> = Ranked<MutexGuard<'a, T>>;

impl<T> Guard<'_, T> {
    /// Gives the lock up until the bell rings, or for so long.
    pub fn wait_timeout(self, bell: &Condvar, timeout: Duration) -> Self {
        let Ranked { guard, held } = self;
        let guard = bell.wait_timeout(guard, timeout).unpoisoned().0;
        Ranked { guard, held }
    }
}

/// A `Mutex` with a rank.
pub struct Lock<T> {
    rank: Rank,
    inner: Mutex<T>,
}

impl<T> Lock<T> {
    pub fn new(rank: Rank, inner: T) -> Self {
        Lock { rank, inner: Mutex::new(inner) }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        take(self.rank, || self.inner.lock().unpoisoned())
    }

    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        take_if(self.rank, || match self.inner.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(work: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(work).is_err()
    }

    #[test]
    fn locks_are_taken_in_one_order_only() {
        let locks = || (Lock::new(Rank::Session, 1), Lock::new(Rank::Session, 2), Lock::new(Rank::Core, 3));
        assert!(!panics(move || {
            let (session, other, core) = locks();
            drop((session.lock(), core.lock()));
            drop((other.lock(), core.try_lock()));
        }));
        assert!(panics(move || drop((locks().2.lock(), locks().0.lock()))), "backwards");
        assert!(panics(move || drop((locks().0.lock(), locks().1.lock()))), "two of one rank");
        assert!(panics(move || drop((locks().2.lock(), locks().0.try_lock()))), "also if it would not be waited for");
    }

    #[test]
    fn nobody_waits_while_holding_what_others_need() {
        assert!(!panics(|| {
            let writing = Lock::new(Rank::Writing, ());
            let _writing = writing.lock();
            may_wait();
        }));
        assert!(panics(|| {
            let session = Lock::new(Rank::Session, ());
            let _session = session.lock();
            may_wait();
        }));
        may_wait();
    }
}
