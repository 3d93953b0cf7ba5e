//! What this machine can do at best with requests of the size that `benchmarks.ps` sends: one JSON object on stdout.
//!
//! Nothing of the parameter server is in it, so that `rustc` alone makes it within a second. The exchanges are two threads and a loopback
//! connection that carries bytes and nothing else; the gather and the look-up are bare loops with prefetching over one
//! flat array. A server can't be faster than their sum unless it overlaps them.

use std::hint::black_box;
use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const IDS: usize = 13_312;
const COLUMNS: usize = 16;
const AHEAD: usize = 16;

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let rows: usize = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let (keys, values) = (IDS * 8, IDS * COLUMNS * 4);
    let pull = exchange(40 + keys, 40 + values, seconds)?;
    let push = exchange(40 + keys + values, 40, seconds)?;
    let gather = gather(rows, seconds);
    let lookup = lookup(rows, seconds);
    let text = [("exchange_pull", pull), ("exchange_push", push), ("gather", gather), ("lookup", lookup)]
        .map(|(name, times)| format!("\"{name}\": {}", times.json()))
        .join(", ");
    writeln!(std::io::stdout(), "{{\"rows\": {rows}, \"ids\": {IDS}, {text}}}")
}

/// Times of single calls in seconds, sorted.
struct Times(Vec<f64>);

impl Times {
    fn of(seconds: f64, mut call: impl FnMut(usize)) -> Self {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut times = Vec::new();
        while Instant::now() < until || times.len() < 100 {
            let began = Instant::now();
            call(times.len());
            times.push(began.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    fn json(&self) -> String {
        let at = |share: f64| self.0[((self.0.len() - 1) as f64 * share) as usize] * 1e6;
        let (p10, p50, p99) = (at(0.1), at(0.5), at(0.99));
        format!("{{\"p10_us\": {p10:.1}, \"p50_us\": {p50:.1}, \"p99_us\": {p99:.1}, \"calls\": {}}}", self.0.len())
    }
}

/// So many bytes to another thread over loopback, and so many back.
fn exchange(out: usize, back: usize, seconds: f64) -> Result<Times> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let serving = thread::spawn(move || {
        let (mut request, answer) = (vec![0u8; out], vec![1u8; back]);
        while server.read_exact(&mut request).is_ok() && server.write_all(&answer).is_ok() {}
    });
    let (request, mut answer) = (vec![1u8; out], vec![0u8; back]);
    let mut failure = None;
    let times = Times::of(seconds, |_| {
        if let Err(error) = client.write_all(&request).and_then(|()| client.read_exact(&mut answer)) {
            failure = Some(error);
        }
    });
    drop(client);
    let _ = serving.join();
    failure.map_or(Ok(times), Err)
}

/// A row that is one line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row([f32; COLUMNS]);

/// Rows of one flat array, copied side by side.
fn gather(rows: usize, seconds: f64) -> Times {
    let values = huge(rows, Row([1.0; COLUMNS]));
    let batches = batches(rows, |mixed| (mixed % rows as u64) as usize);
    let mut out = vec![0.0f32; IDS * COLUMNS];
    Times::of(seconds, |call| {
        let slots = &batches[call % batches.len()];
        for (number, row) in out.chunks_exact_mut(COLUMNS).enumerate() {
            if let Some(&slot) = slots.get(number + AHEAD) {
                prefetch(&values[slot]);
            }
            row.copy_from_slice(&values[slots[number]].0);
        }
        black_box(&mut out);
    })
}

/// Slots of keys in one flat table with open addressing, half full at most, that knows all of them.
fn lookup(rows: usize, seconds: f64) -> Times {
    let size = (rows * 2).next_power_of_two();
    let mask = size - 1;
    let mut entries = huge(size, (0u64, u64::MAX));
    for key in 0..rows as u64 {
        let mut place = mix(key) as usize & mask;
        while entries[place].1 != u64::MAX {
            place = (place + 1) & mask;
        }
        entries[place] = (key, key);
    }
    let batches = batches(rows, |mixed| mixed % rows as u64);
    let mut out = vec![0u64; IDS];
    Times::of(seconds, |call| {
        let keys = &batches[call % batches.len()];
        for (number, slot) in out.iter_mut().enumerate() {
            if let Some(&key) = keys.get(number + AHEAD) {
                prefetch(&entries[mix(key) as usize & mask]);
            }
            let mut place = mix(keys[number]) as usize & mask;
            while entries[place].0 != keys[number] {
                place = (place + 1) & mask;
            }
            *slot = entries[place].1;
        }
        black_box(&mut out);
    })
}

/// Enough different batches that no cache holds the rows of the last time.
fn batches<T>(rows: usize, of: impl Fn(u64) -> T) -> Vec<Vec<T>> {
    let count = (2 * rows / IDS).clamp(16, 256) as u64;
    (0..count).map(|batch| (0..IDS as u64).map(|n| of(mix(batch * IDS as u64 + n))).collect()).collect()
}

/// An array on pages of 2 MiB, if the kernel has any.
fn huge<T: Copy>(length: usize, value: T) -> Vec<T> {
    let mut array = Vec::with_capacity(length);
    #[cfg(target_os = "linux")]
    {
        let (begin, bytes) = (array.as_ptr() as usize, length * size_of::<T>());
        let aligned = begin.next_multiple_of(1 << 21);
        if aligned < begin + bytes {
            // SAFETY: the range lies within memory that the vector has set aside, and the call changes no contents.
            unsafe { madvise(aligned as *mut std::ffi::c_void, begin + bytes - aligned, MADV_HUGEPAGE) };
        }
    }
    array.resize(length, value);
    array
}

#[cfg(target_os = "linux")]
const MADV_HUGEPAGE: i32 = 14;

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn madvise(begin: *mut std::ffi::c_void, bytes: usize, advice: i32) -> i32;
}

/// Spreads a key's bits over all 64.
#[inline(always)]
fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[inline(always)]
fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching reads nothing that the program could see, and the address is that of a living reference.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
