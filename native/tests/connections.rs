//! The listener and its connections, with a small service behind them.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::Read;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Memory, call, hello, receive, send, shake};
use serde_json::Value;
use umiak_native::server::connection::Limits;
use umiak_native::server::listener::{Listener, Setup};
use umiak_native::wire::codec;
use umiak_native::wire::frame::{Header, Op};

fn setup(token: Option<&[u8]>, limits: Limits) -> Setup {
    Setup { host: "127.0.0.1".into(), port: 0, job: "j".into(), token: token.map(Into::into), tls: None, limits }
}

fn start(token: Option<&[u8]>, limits: Limits) -> (Listener, Arc<Memory>) {
    let service = Arc::new(Memory::default());
    (Listener::start(setup(token, limits), service.clone()).unwrap(), service)
}

fn code(payload: &[u8]) -> String {
    serde_json::from_slice::<Value>(payload).unwrap()["code"].as_str().unwrap().into()
}

#[test]
fn a_trainer_pushes_and_pulls() {
    let (listener, service) = start(Some(b"secret"), Limits::default());
    let mut socket = call(listener.address());
    let (header, welcome) = shake(&mut socket, b"secret", &hello(2, "data")).unwrap();
    assert_eq!((header.op, &welcome["life"]), (Op::Welcome, &Value::from("1")));
    let keys: Vec<u64> = (0..20_000).map(|i| i * 7).collect();
    let rows: Vec<f32> = (0..80_000).map(|i| i as f32).collect();
    let payload = [codec::key_bytes(&keys), codec::float_bytes(&rows)].concat();
    let push = Header { rows: 20_000, dim: 4, client: 2, seq: 1, ..Header::of(Op::Push) };
    for _ in 0..2 {
        send(&mut socket, push, &payload).unwrap();
        assert_eq!(receive(&mut socket).unwrap().0.op, Op::Ok);
    }
    let pull = Header { rows: 20_000, client: 2, ..Header::of(Op::Pull) };
    send(&mut socket, pull, codec::key_bytes(&keys)).unwrap();
    let (header, payload) = receive(&mut socket).unwrap();
    assert_eq!((header.op, header.rows, header.dim), (Op::Rows, 20_000, 4));
    assert_eq!(payload, codec::float_bytes(&rows));
    // A refusal and a waiting answer leave the connection as it is.
    send(&mut socket, Header { dim: 5, ..push }, &vec![0; 20_000 * 28]).unwrap();
    let (header, payload) = receive(&mut socket).unwrap();
    assert_eq!((header.op, code(&payload).as_str()), (Op::Error, "wrong-width"));
    send(&mut socket, Header { client: 2, ..Header::of(Op::Barrier) }, b"{}").unwrap();
    assert_eq!(receive(&mut socket).unwrap().1, b"waiting for trainer 3");
    assert_eq!(receive(&mut socket).unwrap().0.op, Op::Ok);
    // Two requests at once are answered one after the other, and a panic ends the connection with a word.
    let mut two = Header { rows: 0, client: 2, ..Header::of(Op::Pull) }.encode().to_vec();
    two.extend(Header { client: 2, ..Header::of(Op::Beat) }.encode());
    std::io::Write::write_all(&mut socket, &two).unwrap();
    assert_eq!(receive(&mut socket).unwrap().0.op, Op::Rows);
    assert_eq!(receive(&mut socket).unwrap().0.op, Op::Ok);
    send(&mut socket, Header { client: 2, ..Header::of(Op::Shrink) }, b"").unwrap();
    assert_eq!(code(&receive(&mut socket).unwrap().1), "internal");
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    drop(listener);
    assert_eq!(service.guests.load(Ordering::SeqCst), 0);
}

#[test]
fn strangers_are_told_why() {
    let (listener, _) = start(Some(b"secret"), Limits::default());
    let mut socket = call(listener.address());
    assert_eq!(shake(&mut socket, b"other", &hello(0, "data")).unwrap().1["code"], "wrong-token");
    let mut socket = call(listener.address());
    let other = common::hello(0, "data");
    let other = umiak_native::wire::auth::Hello { job: "k".into(), ..other };
    assert_eq!(shake(&mut socket, b"secret", &other).unwrap().1["code"], "wrong-job");
    let mut socket = call(listener.address());
    assert_eq!(shake(&mut socket, b"secret", &hello(0, "king")).unwrap().1["code"], "bad-frame");
    let mut socket = call(listener.address());
    let mut bytes = Header::of(Op::Hello).encode();
    bytes[4] = 9;
    std::io::Write::write_all(&mut socket, &bytes).unwrap();
    let (_, payload) = receive(&mut socket).unwrap();
    assert_eq!(code(&payload), "other-version");
    assert!(String::from_utf8_lossy(&payload).contains("version 9"));
    let mut socket = call(listener.address());
    send(&mut socket, Header::of(Op::Hello), &[b' '; 5000]).unwrap();
    assert_eq!(code(&receive(&mut socket).unwrap().1), "too-long");
    let mut socket = call(listener.address());
    send(&mut socket, Header::of(Op::Status), b"").unwrap();
    assert_eq!(code(&receive(&mut socket).unwrap().1), "bad-frame");
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
}

#[test]
fn without_a_token_nobody_listens_beyond_this_machine() {
    let mut open = setup(None, Limits::default());
    open.host = "0.0.0.0".into();
    let refusal = Listener::start(open, Arc::new(Memory::default())).err().unwrap();
    assert_eq!(refusal.code, "token-needed");
    let (listener, _) = start(None, Limits::default());
    let mut taken = setup(None, Limits::default());
    taken.port = listener.address().port();
    assert_eq!(Listener::start(taken, Arc::new(Memory::default())).err().unwrap().code, "address-in-use");
    let mut socket = call(listener.address());
    assert_eq!(shake(&mut socket, b"", &hello(0, "observer")).unwrap().0.op, Op::Welcome);
}

#[test]
fn slow_and_silent_peers_are_shown_out_and_others_are_served() {
    let limits = Limits {
        most_strangers: 4,
        most_connections: 8,
        handshake: Duration::from_millis(600),
        frame: Duration::from_millis(600),
        ..Limits::default()
    };
    let (listener, service) = start(None, limits);
    let silent: Vec<_> = (0..12).map(|_| call(listener.address())).collect();
    let mut honest = call(listener.address());
    assert_eq!(shake(&mut honest, b"", &hello(0, "data")).unwrap().0.op, Op::Welcome);
    for mut socket in silent {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    // Half a frame, and then nothing.
    std::io::Write::write_all(&mut honest, &Header::of(Op::Beat).encode()[..20]).unwrap();
    assert_eq!(code(&receive(&mut honest).unwrap().1), "too-slow");
    assert_eq!(honest.read(&mut [0]).unwrap(), 0);
    drop(honest);
    // As many as may be: one more is told so.
    let mut guests = Vec::new();
    while listener.connections() > 0 {
        std::thread::yield_now();
    }
    for rank in 0..8 {
        let mut socket = call(listener.address());
        assert_eq!(shake(&mut socket, b"", &hello(rank, "data")).unwrap().0.op, Op::Welcome);
        guests.push(socket);
    }
    let (header, payload) = receive(&mut call(listener.address())).unwrap();
    assert_eq!((header.op, code(&payload).as_str()), (Op::Error, "full"));
    guests[0].shutdown(Shutdown::Both).unwrap();
    drop(listener);
    assert_eq!(service.guests.load(Ordering::SeqCst), 0);
    assert_eq!(guests[7].read(&mut [0]).unwrap_or(0), 0);
}
