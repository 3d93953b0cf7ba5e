//! What tests of connections share: a small service that holds rows in memory, and a caller that speaks frames by hand.
#![allow(dead_code)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use umiak_native::server::service::{Identity, Refusal, Reply, Request, RequestError, Service};
use umiak_native::wire::auth::{self, Challenge, Hello, Role};
use umiak_native::wire::codec;
use umiak_native::wire::frame::{HEADER, Header, Op};

/// Rows by key (at most `MOST` of them: others share a row), each push adds; `seq` counts once.
#[derive(Default)]
pub struct Memory {
    pub rows: Mutex<HashMap<u64, Vec<f32>>>,
    pub last: Mutex<HashMap<u32, u64>>,
    pub guests: AtomicU64,
    /// Says that nothing is durable yet.
    pub log: bool,
}

pub const MOST: u64 = 1 << 17;

fn refuse(code: &'static str, message: &str) -> RequestError {
    Refusal { code, message: message.into(), hint: None }.into()
}

impl Service for Memory {
    fn welcome(&self, who: &Identity) -> Result<Value, Refusal> {
        self.guests.fetch_add(1, Ordering::SeqCst);
        let applied = self.last.lock().unwrap().get(&who.rank).copied().unwrap_or(0);
        let durable = if self.log { 0 } else { applied };
        Ok(json!({"life": "1", "applied": applied, "durable": durable, "log": self.log, "step": 0}))
    }

    fn request(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        let Request { who, header, payload } = request;
        match header.op {
            Op::Beat => reply.ok(0, 0)?,
            Op::Create => reply.ok(7, 0)?,
            Op::Pull => {
                let (keys, _) = codec::keys(payload, header.rows).ok_or_else(|| refuse("bad-frame", "short"))?;
                let dim = 4;
                let rows = self.rows.lock().unwrap();
                reply.rows((header.rows, dim), 0, &|range, out| {
                    for (key, row) in keys[range].iter().zip(out.chunks_exact_mut(dim as usize)) {
                        match rows.get(&(key % MOST)) {
                            Some(found) => row.copy_from_slice(found),
                            None => row.fill(0.0),
                        }
                    }
                })?;
            }
            Op::Push => {
                if header.dim != 4 {
                    return Err(refuse("wrong-width", "rows have 4 columns"));
                }
                let mut last = self.last.lock().unwrap();
                let last = last.entry(who.rank).or_insert(0);
                if header.seq > *last {
                    *last = header.seq;
                    let (keys, rest) = codec::keys(payload, header.rows).ok_or_else(|| refuse("bad-frame", "short"))?;
                    let mut rows = self.rows.lock().unwrap();
                    for (key, row) in keys.iter().zip(codec::floats(rest).chunks_exact(4)) {
                        let held = rows.entry(*key % MOST).or_insert_with(|| vec![0.0; 4]);
                        held.iter_mut().zip(row).for_each(|(w, g)| *w += g);
                    }
                }
                reply.ok(0, if self.log { 0 } else { header.seq })?;
            }
            Op::Barrier => {
                reply.wait("waiting for trainer 3")?;
                reply.ok(0, 0)?;
            }
            Op::Gather => reply.strings(1, &codec::join(&[payload]), 0)?,
            Op::Take => reply.json(&json!({"number": 0}))?,
            Op::Shrink => panic!("a defect"),
            Op::Status => reply.json(&json!({"guests": self.guests.load(Ordering::SeqCst)}))?,
            _ => return Err(refuse("not-here", "this service is small")),
        }
        Ok(())
    }

    fn gone(&self, _who: &Identity) {
        self.guests.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn call(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

pub fn send(socket: &mut TcpStream, header: Header, payload: &[u8]) -> std::io::Result<()> {
    let mut bytes = Header { length: payload.len() as u64, ..header }.encode().to_vec();
    bytes.extend_from_slice(payload);
    socket.write_all(&bytes)
}

pub fn receive(socket: &mut TcpStream) -> std::io::Result<(Header, Vec<u8>)> {
    let mut head = [0; HEADER];
    socket.read_exact(&mut head)?;
    let header = codec::read_header(&head, codec::MOST_FRAME).map_err(|f| std::io::Error::other(f.message))?;
    let mut payload = vec![0; header.length as usize];
    socket.read_exact(&mut payload)?;
    Ok((header, payload))
}

pub fn hello(rank: u32, kind: &str) -> Hello {
    let nonce = auth::to_hex(&auth::random::<{ auth::NONCE }>().unwrap());
    Hello { nonce, rank, incarnation: 1, kind: kind.into(), job: "j".into() }
}

/// Shakes hands; the last frame is a `Welcome` or an `Error`.
pub fn shake(socket: &mut TcpStream, token: &[u8], hello: &Hello) -> std::io::Result<(Header, Value)> {
    send(socket, Header::of(Op::Hello), json!(hello).to_string().as_bytes())?;
    let (header, payload) = receive(socket)?;
    if header.op == Op::Error {
        return Ok((header, serde_json::from_slice(&payload)?));
    }
    let challenge: Challenge = serde_json::from_slice(&payload)?;
    let proof = auth::prove(token, Role::Client, hello, &challenge).unwrap();
    send(socket, Header::of(Op::Proof), json!({"proof": proof}).to_string().as_bytes())?;
    let (header, payload) = receive(socket)?;
    let value: Value = serde_json::from_slice(&payload)?;
    if header.op == Op::Welcome {
        assert!(auth::verify(token, Role::Server, hello, &challenge, value["proof"].as_str().unwrap()));
    }
    Ok((header, value))
}
