//! Figures of the tables in this process: `cargo run --release --no-default-features --example tables [rows] [rounds] [rule]`.
//!
//! Pulls and pushes of about 13 thousand keys, growth, memory; times are CPU times, so that neighbours disturb less. No
//! verdicts; the benchmarks of the whole parameter server
//! are in `benchmarks/ps.py`.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a measurement that can't be made ends with its reason")]

use umiak_native::keys::{Init, Sharding, mix};
use umiak_native::table::rules::{Adagrad, AdagradScaled, AdagradShared, Adam, AdamRow, Ftrl, Optimizer, RmsProp, Sgd};
use umiak_native::table::spec::{Clip, Decay, Entry, SparseSpec};
use umiak_native::table::{Absent, SparseTable};

const DIM: usize = 16;
const BATCH: usize = 13_312;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(default, |word| word.parse().expect("a number"));
    let (rows, rounds) = (number(1_000_000), number(300) as usize);
    let only = arguments.next();
    let (learning_rate, beta1, beta2, epsilon) = (0.01, 0.9, 0.999, 1e-8);
    for (name, optimizer) in [
        ("adagrad", Optimizer::Adagrad(Adagrad { learning_rate, initial: 0.0, epsilon })),
        ("adam", Optimizer::Adam(Adam { learning_rate, beta1, beta2, epsilon, ahead: false })),
        ("adam_row", Optimizer::AdamRow(AdamRow { learning_rate, beta1, beta2, epsilon })),
        ("adagrad_scaled", Optimizer::AdagradScaled(AdagradScaled { learning_rate, initial_g2sum: 3.0 })),
        ("adagrad_shared", Optimizer::AdagradShared(AdagradShared { learning_rate, initial_g2sum: 3.0 })),
        ("sgd", Optimizer::Sgd(Sgd { learning_rate })),
        (
            "rmsprop",
            Optimizer::RmsProp(RmsProp { learning_rate, rho: 0.95, epsilon: 1e-6, momentum: 0.9, centered: true }),
        ),
        ("ftrl", Optimizer::Ftrl(Ftrl { learning_rate, beta: 1.0, l1: 0.1, l2: 0.1 })),
    ] {
        if only.as_deref().is_none_or(|only| only == name) {
            measure(name, optimizer, rows, rounds);
        }
    }
}

fn measure(name: &str, optimizer: Optimizer, rows: u64, rounds: usize) {
    let sharding = Sharding::new(256).expect("a power of two");
    let spec = SparseSpec {
        every_row: false,
        expire: None,
        dim: DIM,
        seed: 1,
        init: Init::Uniform { low: -0.1, high: 0.1 },
        optimizer,
        clip: Clip::default(),
        decay: Decay::default(),
        entry: Entry::Always,
        accessor: None,
    };
    let table = SparseTable::new(spec, sharding).expect("a good spec");
    let mut out = vec![0.0f32; BATCH * DIM];
    let mut times = Vec::new();
    let mut at_million = 0.0;
    let mut next = 0;
    while next < rows {
        let count = BATCH.min((rows - next) as usize);
        let mut keys: Vec<u64> = (next..next + count as u64).collect();
        keys.sort_by_key(|&key| sharding.shard_of(mix(key)));
        let start = now_us();
        table.pull(&keys, &mut out[..count * DIM], Absent::Made);
        times.push(now_us() - start);
        next += count as u64;
        if at_million == 0.0 && next >= 1_000_000 {
            at_million = table.memory().total() as f64 / next as f64;
        }
    }
    let memory = table.memory();
    let last = memory.total() as f64 / rows as f64;
    let longest = times.iter().copied().fold(0.0, f64::max);
    let whole: f64 = times.iter().sum();
    println!(
        "{name:15} grow: longest call {longest:.0} us, {:.0} ns/row; bytes/row {at_million:.1} at 1M, {last:.1} in the end {memory:?}",
        whole * 1e3 / rows as f64
    );
    let mut word = 1u64;
    let batches: Vec<Vec<u64>> = (0..64)
        .map(|_| {
            let mut keys: Vec<u64> = (0..BATCH)
                .map(|_| {
                    word = mix(word);
                    word % rows
                })
                .collect();
            keys.sort_unstable();
            keys.dedup();
            keys.sort_by_key(|&key| sharding.shard_of(mix(key)));
            keys
        })
        .collect();
    let gradients: Vec<f32> = (0..BATCH * DIM).map(|n| (n % 97) as f32 * 0.01 - 0.4).collect();
    let (mut pulls, mut pushes) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let keys = &batches[round % batches.len()];
        let start = now_us();
        table.pull(keys, &mut out[..keys.len() * DIM], Absent::Made);
        pulls.push(now_us() - start);
    }
    for round in 0..rounds {
        let keys = &batches[(round * 7) % batches.len()];
        let start = now_us();
        table.push(keys, &gradients[..keys.len() * DIM], round as u64);
        pushes.push(now_us() - start);
    }
    println!("{name:15} pull {}  push {}", spread(&mut pulls), spread(&mut pushes));
}

/// The CPU time of this thread.
fn now_us() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 * 1e-3
}

fn spread(times: &mut [f64]) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!("best {:.0} p10 {:.0} p50 {:.0} p99 {:.0} us", at(0.0), at(0.1), at(0.5), at(0.99))
}
