//! How much was asked of a server since it began. Values.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::latencies::{Latencies, PER_OCTAVE};
use crate::wire::frame::{Header, Op};

/// Requests, and the rows in them. Only ever growing.
#[derive(Debug, Default)]
pub struct Traffic {
    requests: AtomicU64,
    pulls: AtomicU64,
    pulled_rows: AtomicU64,
    pushes: AtomicU64,
    pushed_rows: AtomicU64,
    dense_pulls: AtomicU64,
    dense_pushes: AtomicU64,
    pulling: Latencies,
    pushing: Latencies,
    dense_pulling: Latencies,
    dense_pushing: Latencies,
}

impl Traffic {
    pub fn count(&self, header: &Header) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (requests, rows) = match header.op {
            Op::Pull => (&self.pulls, Some(&self.pulled_rows)),
            Op::Push | Op::Add => (&self.pushes, Some(&self.pushed_rows)),
            Op::PullDense => (&self.dense_pulls, None),
            Op::PushDense => (&self.dense_pushes, None),
            _ => return,
        };
        requests.fetch_add(1, Ordering::Relaxed);
        if let Some(rows) = rows {
            rows.fetch_add(u64::from(header.rows), Ordering::Relaxed);
        }
    }

    /// A request was carried out, and its answer sent.
    pub fn took(&self, op: Op, time: Duration) {
        match op {
            Op::Pull => self.pulling.count(time),
            Op::Push | Op::Add => self.pushing.count(time),
            Op::PullDense => self.dense_pulling.count(time),
            Op::PushDense => self.dense_pushing.count(time),
            _ => {}
        }
    }

    /// All that was asked, of whatever kind.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn told(&self) -> Value {
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        json!({
            "pulls": number(&self.pulls),
            "pulled_rows": number(&self.pulled_rows),
            "pushes": number(&self.pushes),
            "pushed_rows": number(&self.pushed_rows),
            "dense_pulls": number(&self.dense_pulls),
            "dense_pushes": number(&self.dense_pushes),
        })
    }
    /// By the names that `told` has.
    pub fn latencies(&self) -> Value {
        json!({
            "per_octave": PER_OCTAVE,
            "pulls": self.pulling.told(),
            "pushes": self.pushing.told(),
            "dense_pulls": self.dense_pulling.told(),
            "dense_pushes": self.dense_pushing.told(),
        })
    }
}
