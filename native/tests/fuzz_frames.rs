//! Mutated frames against a listener: no panic of ours, no hang, no growth, and somebody honest is served all the while.
//!
//! The generator is deterministic. `UMIAK_FUZZ_FRAMES=5000000 cargo test --release --no-default-features --test
//! fuzz_frames` sends so many; without it a small share is sent.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Memory, call, hello, receive, send, shake};
use umiak_native::keys::draw;
use umiak_native::server::connection::Limits;
use umiak_native::server::listener::{Listener, Setup};
use umiak_native::wire::codec;
use umiak_native::wire::frame::{HEADER, Header, Op};

/// Words that have broken programs before.
const EDGES: [u64; 12] = [
    0,
    1,
    7,
    8,
    255,
    4096,
    u16::MAX as u64,
    u32::MAX as u64,
    u32::MAX as u64 + 1,
    codec::MOST_FRAME,
    i64::MAX as u64,
    u64::MAX,
];

struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.thrown += 1;
        draw(self.seed, self.thrown) % bound.max(1)
    }
}

fn frame(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Header { length: payload.len() as u64, client: 9, ..header }.encode().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let rows = [1.0f32; 12];
    let keys = [1u64, 2, 3];
    let both = [codec::key_bytes(&keys), codec::float_bytes(&rows)].concat();
    let mut seeds = vec![
        frame(Header::of(Op::Hello), serde_json::json!(hello(9, "data")).to_string().as_bytes()),
        frame(Header::of(Op::Proof), br#"{"proof": "00"}"#),
        frame(Header { rows: 3, ..Header::of(Op::Pull) }, codec::key_bytes(&keys)),
        frame(Header { rows: 3, dim: 4, ..Header::of(Op::Push) }, &both),
        frame(Header { rows: 12, dim: 1, ..Header::of(Op::PushDense) }, codec::float_bytes(&rows)),
        frame(Header { rows: 1, dim: 1, ..Header::of(Op::LearningRate) }, codec::float_bytes(&rows[..1])),
        frame(Header::of(Op::Barrier), br#"{"name": "x", "turn": 0}"#),
        frame(Header { rows: 1, ..Header::of(Op::Gather) }, b"x, and what is brought"),
        frame(Header::of(Op::Take), b"x"),
        frame(Header { rows: 2, ..Header::of(Op::Bytes) }, &codec::join(&[b"a", b"bc"])),
        frame(Header::of(Op::Save), br#"{"path": "/nowhere"}"#),
    ];
    for op in [Op::Beat, Op::Status, Op::Done, Op::Changed, Op::Prepare, Op::Commit, Op::Abort, Op::Shrink, Op::Ok] {
        seeds.push(frame(Header::of(op), b""));
    }
    seeds
}

fn mutate(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len() as u64) as usize].clone();
    for _ in 0..dice.below(4) {
        let at = dice.below(bytes.len() as u64) as usize;
        match dice.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = dice.below(256) as u8,
            2 => bytes.truncate(at),
            3 => {
                let more = dice.below(64);
                bytes.extend((0..more).map(|_| dice.below(256) as u8));
            }
            4 => {
                let other = &seeds[dice.below(seeds.len() as u64) as usize];
                bytes.splice(at.., other.iter().copied());
            }
            // A field of the header becomes an edge.
            _ if bytes.len() >= HEADER => {
                let (start, size) =
                    [(5, 1), (6, 2), (8, 4), (12, 4), (16, 4), (20, 4), (24, 8), (32, 8)][dice.below(8) as usize];
                let edge = EDGES[dice.below(EDGES.len() as u64) as usize].to_le_bytes();
                bytes[start..start + size].copy_from_slice(&edge[..size]);
            }
            _ => {}
        }
    }
    bytes
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Pushes to one key and reads it back until told to stop; how often.
fn honest(address: SocketAddr, stop: &AtomicBool) -> u64 {
    let mut socket = call(address);
    assert_eq!(shake(&mut socket, b"t", &hello(1, "data")).unwrap().0.op, Op::Welcome);
    let mut seq = 0;
    while !stop.load(Ordering::SeqCst) {
        seq += 1;
        let payload = [&77u64.to_le_bytes()[..], codec::float_bytes(&[1.0; 4])].concat();
        let header = Header { rows: 1, dim: 4, client: 1, seq, ..Header::of(Op::Push) };
        send(&mut socket, header, &payload).unwrap();
        assert_eq!(receive(&mut socket).unwrap().0.op, Op::Ok);
        thread::sleep(Duration::from_millis(1));
    }
    seq
}

#[test]
fn mutated_frames_do_no_harm() {
    std::panic::set_hook(Box::new(|info| {
        // The service's own panic (it plays a defect) is expected, and none else.
        let text = info.to_string();
        if !text.contains("a defect") {
            eprintln!("{text}");
        }
    }));
    let frames: u64 = std::env::var("UMIAK_FUZZ_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let service = Arc::new(Memory::default());
    let limits = Limits { frame: Duration::from_secs(2), ..Limits::default() };
    let setup =
        Setup { host: "127.0.0.1".into(), port: 0, job: "j".into(), token: Some(b"t".into()), tls: None, limits };
    let mut listener = Listener::start(setup, service.clone()).unwrap();
    let address = listener.address();
    let stop = Arc::new(AtomicBool::new(false));
    let served = thread::spawn({
        let stop = stop.clone();
        move || honest(address, &stop)
    });
    let seeds = seeds();
    let (mut sent, mut before) = (0, 0);
    for turn in 0.. {
        let dice = &mut Dice { seed: turn, thrown: 0 };
        let mut socket = call(address);
        if dice.below(8) > 0 {
            assert_eq!(shake(&mut socket, b"t", &hello(9, "data")).unwrap().0.op, Op::Welcome);
        }
        for _ in 0..=dice.below(20) {
            sent += 1;
            if socket.write_all(&mutate(dice, &seeds)).is_err() {
                break;
            }
        }
        if dice.below(4) > 0 {
            let _ = socket.shutdown(Shutdown::Write);
            let mut rest = Vec::new();
            let _ = (&mut socket).take(1 << 20).read_to_end(&mut rest);
        }
        if sent * 4 > frames && before == 0 {
            before = resident();
        }
        if sent >= frames {
            break;
        }
    }
    stop.store(true, Ordering::SeqCst);
    assert!(served.join().unwrap() > 0);
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 20, "grown by {grown} bytes");
    listener.stop();
    assert_eq!((service.guests.load(Ordering::SeqCst), listener.connections()), (0, 0));
}
