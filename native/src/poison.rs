//! Locks that were held by a thread that panicked. A panic ends the request in which it happened, and its client is told; the
//! others go on with what the lock guards.

use std::sync::{LockResult, PoisonError};

/// What a lock guards, whatever has become of those who held it before.
pub trait Unpoisoned {
    type Guard;

    fn unpoisoned(self) -> Self::Guard;
}

impl<G> Unpoisoned for LockResult<G> {
    type Guard = G;

    #[inline]
    fn unpoisoned(self) -> G {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_lock_goes_on_after_a_panic() {
        let mutex = Mutex::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = mutex.lock().unpoisoned();
            panic!("while it is held");
        }));
        assert!(panicked.is_err() && mutex.is_poisoned());
        *mutex.lock().unpoisoned() += 1;
        assert_eq!(mutex.into_inner().unpoisoned(), 2);
    }
}
