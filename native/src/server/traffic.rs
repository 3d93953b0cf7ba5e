//! How much was asked of a server since it began. Values.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

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
}
