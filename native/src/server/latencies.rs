//! How long requests took: counted in buckets of a fixed width on a logarithmic scale, so that counting costs two additions and quantiles of any
//! time, and of any number of servers, follow from differences and sums. Values.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// A bucket ends at a time that is this root of 2 above that of the one before; the first ends at a microsecond.
pub const PER_OCTAVE: usize = 4;
/// The last but one ends at 67 seconds; what took longer is in the last.
const BUCKETS: usize = 26 * PER_OCTAVE + 2;

/// Requests of one kind by how long they took. Only ever growing.
#[derive(Debug)]
pub struct Latencies {
    counts: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: [const { AtomicU64::new(0) }; BUCKETS], nanoseconds: AtomicU64::new(0) }
    }
}

impl Latencies {
    pub fn count(&self, took: Duration) {
        self.counts[bucket_of(took)].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(took.as_nanos().min(u128::from(u64::MAX >> 16)) as u64, Ordering::Relaxed);
    }

    /// The buckets that have something in them, by their numbers, and all the time in seconds.
    pub fn told(&self) -> Value {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        let counts: Vec<(usize, u64)> = counts.filter(|(_, count)| *count > 0).collect();
        json!({"counts": counts, "seconds": self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9})
    }
}

/// Number `i` has what took longer than 2^((i - 1) / 4) microseconds, and at most 2^(i / 4).
fn bucket_of(took: Duration) -> usize {
    let microseconds = took.as_nanos() as f64 / 1e3;
    let number = (microseconds.max(1.0).log2() * PER_OCTAVE as f64).ceil();
    (number as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_at_most_the_end_of_its_bucket_and_above_that_of_the_one_before() {
        for nanoseconds in [0, 1, 999, 1000, 1001, 1190, 2000, 12_345, 1_000_000, 33_000_000_000] {
            let number = bucket_of(Duration::from_nanos(nanoseconds));
            let end = |number: usize| 1e3 * 2f64.powf(number as f64 / PER_OCTAVE as f64);
            assert!(nanoseconds as f64 <= end(number) * 1.000_001, "{nanoseconds} ns are in bucket {number}");
            assert!(number == 0 || nanoseconds as f64 > end(number - 1) * 0.999_999, "{nanoseconds} ns");
        }
        assert_eq!(bucket_of(Duration::from_secs(60)), bucket_of(Duration::from_secs(67)));
        assert_eq!(bucket_of(Duration::from_secs(100)), BUCKETS - 1);
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn only_buckets_with_something_in_them_are_told() {
        let latencies = Latencies::default();
        latencies.count(Duration::from_micros(1));
        latencies.count(Duration::from_micros(4));
        latencies.count(Duration::from_micros(4));
        assert_eq!(latencies.told(), json!({"counts": [[0, 1], [8, 2]], "seconds": 9e-6}));
    }
}
