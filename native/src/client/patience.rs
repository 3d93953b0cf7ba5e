//! How long servers may be away before an operation fails.

use std::io;
use std::time::{Duration, Instant};

use super::error::{ClientError, ErrorDetail, Outcome};
use super::exchange;
use super::link::Link;
use crate::wire::auth;

/// How long servers may be away, in all, during one operation.
pub(super) struct Patience {
    within: Duration,
    since: Option<Instant>,
}

impl Patience {
    pub fn new(timeout_s: f64) -> Patience {
        Patience { within: Duration::from_secs_f64(timeout_s), since: None }
    }

    /// A connection broke. One that had held for a while begins a new count.
    pub fn lost(&mut self, link: &mut Link, error: &io::Error) -> Outcome<()> {
        link.stream = None;
        // The silence of a server has used up the patience; that of the system's own clock (with a number) has not.
        if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() {
            return Err(self.over(link, &error.to_string()));
        }
        if exchange::is_given_up(error) {
            // It was there; the one that was not is counted.
            return Ok(());
        }
        if link.since.elapsed() > Duration::from_secs(5) {
            self.since = None;
        }
        self.tried(link, &error.to_string())
    }

    pub fn tried(&mut self, link: &Link, reason: &str) -> Outcome<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.within { Ok(()) } else { Err(self.over(link, reason)) }
    }

    pub fn over(&self, link: &Link, reason: &str) -> ClientError {
        ClientError::ServerLost(ErrorDetail::new(
            "server-lost",
            format!(
                "server {} could not be reached for {:.0} s: {reason}",
                link.credentials.endpoint,
                self.within.as_secs_f64()
            ),
            Some("see whether it runs, and what its own log says"),
        ))
    }
}

/// Growing pauses, each different, so that many trainers do not come back at the same moment.
pub(super) fn back_off(attempt: u32) -> Duration {
    let base = 20.0 * 1.6f64.powi(attempt.min(12) as i32);
    let jitter = auth::random::<2>().map_or(0.5, |bytes| f64::from(u16::from_le_bytes(bytes)) / 65536.0);
    Duration::from_secs_f64(base.min(1000.0) * (0.5 + jitter) / 1000.0)
}
