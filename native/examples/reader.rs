//! Figures of the slot reader in this process: `cargo run --release --no-default-features --example reader FILE [rounds]`.
//!
//! One thread reads a file like that of `benchmarks/reader.py` (a label, 13 numbers, 26 ids), batch by batch. Times are CPU
//! times, so that neighbours disturb less; once from the page cache, once from memory, so that the kernel's part is seen.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a measurement that can't be made ends with its reason")]

use std::path::PathBuf;
use std::sync::Arc;

use umiak_native::reader::batches::{Reader, Settings};
use umiak_native::reader::source::{From, Input};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().expect("a file"));
    let rounds: usize = arguments.next().map_or(9, |word| word.parse().expect("a number"));
    let bytes = Arc::new(std::fs::read(&path).expect("a file that can be read"));
    let sparse: Vec<String> =
        std::iter::once("click".into()).chain((1..27).map(|slot: u32| slot.to_string())).collect();
    let settings = serde_json::json!({
        "sparse": sparse, "dense": [{"name": "dense_feature", "dim": 13}], "padding": 0, "dense_padding": 0.0,
        "unknown": "count", "batch_size": 512, "drop_last": false, "threads": 1, "ordered": true, "bad_lines": 0,
        "shuffle": null, "cache": null, "block_bytes": null,
    });
    let settings: Settings = serde_json::from_value(settings).expect("good settings");
    let froms =
        [("file", From::Path { path, start: 0, end: None, unpack: None }), ("memory", From::Bytes(bytes.clone()))];
    for (name, from) in froms {
        let mut best = f64::INFINITY;
        let mut samples = 0;
        for _ in 0..rounds {
            let input = Input { name: name.into(), from: from.clone() };
            let start = now_s();
            let mut reader = Reader::new(vec![input], settings.clone(), None, None).expect("a reader");
            samples = 0;
            while let Some(batch) = reader.next_batch().expect("good lines") {
                samples += batch.size;
            }
            best = best.min(now_s() - start);
        }
        let (rate, batch) = (bytes.len() as f64 / best / 1e9, best / samples as f64 * 512.0 * 1e6);
        println!("{name:7} {rate:.3} GB per CPU second, {batch:.0} us for 512 of {samples} samples");
    }
}

/// The CPU time of this thread.
fn now_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
