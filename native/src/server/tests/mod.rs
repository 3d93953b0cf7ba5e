//! A server without sockets: what it answers, what it keeps, and what it comes back with.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::config::{EngineConfig, OnLoss};
use super::engine::Engine;
use super::locks;
use super::records::Decision;
use super::service::{Fill, Identity, Kind, Refusal, Reply, Request, RequestError, Service};
use crate::table::Values;
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};

mod changes;
mod checkpoints;
mod durability;
mod meetings;
mod steps;

#[derive(Default)]
struct Heard {
    ok: Option<(u32, u64)>,
    rows: Vec<f32>,
    keys: Vec<u64>,
    strings: Vec<String>,
    json: Option<Value>,
    words: Vec<String>,
}

impl Reply for Heard {
    fn ok(&mut self, table: u32, durable_seq: u64) -> io::Result<()> {
        locks::may_wait();
        self.ok = Some((table, durable_seq));
        Ok(())
    }

    fn rows(&mut self, (rows, dim): (u32, u32), _durable_seq: u64, fill: Fill<'_>) -> io::Result<()> {
        self.rows = vec![0.0; rows as usize * dim as usize];
        fill(0..rows as usize, &mut self.rows);
        Ok(())
    }

    fn values(&mut self, parts: &[Values], _durable_seq: u64) -> io::Result<()> {
        locks::may_wait();
        self.rows = parts.iter().flat_map(|part| part.iter().copied()).collect();
        Ok(())
    }

    fn keyed_rows(&mut self, keys: &[u64], rows: &[f32], _dim: u32) -> io::Result<()> {
        (self.keys, self.rows) = (keys.to_vec(), rows.to_vec());
        Ok(())
    }

    fn strings(&mut self, count: u32, joined: &[u8], _durable_seq: u64) -> io::Result<()> {
        let strings = codec::split(joined, count).unwrap();
        self.strings = strings.iter().map(|string| String::from_utf8(string.to_vec()).unwrap()).collect();
        Ok(())
    }

    fn json(&mut self, value: &Value) -> io::Result<()> {
        locks::may_wait();
        self.json = Some(value.clone());
        Ok(())
    }

    fn wait(&mut self, text: &str) -> io::Result<()> {
        locks::may_wait();
        self.words.push(text.to_owned());
        Ok(())
    }
}

struct Trainer {
    engine: Arc<Engine>,
    who: Identity,
    welcome: Value,
}

fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1000);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

fn trainer(engine: &Arc<Engine>, rank: u32, incarnation: u64) -> Trainer {
    let who = Identity { rank, incarnation, kind: Kind::Data, peer: SocketAddr::from(([127, 0, 0, 1], port())) };
    let welcome = engine.welcome(&who).unwrap();
    Trainer { engine: engine.clone(), who, welcome }
}

const DIM: u32 = 2;
const RATED: &str = r#"{"name": "words", "spec": {"kind": "sparse", "dim": 2, "seed": 1,
    "init": {"kind": "constant", "value": 0}, "optimizer": {"rule": "sgd", "learning_rate": 0.5}}}"#;

impl Trainer {
    fn ask(&self, header: Header, payload: &[u8]) -> Result<Heard, Refusal> {
        let mut heard = Heard::default();
        let header = Header { length: payload.len() as u64, client: self.who.rank, ..header };
        match self.engine.request(Request { who: &self.who, header: &header, payload }, &mut heard) {
            Ok(()) => Ok(heard),
            Err(RequestError::Refused(refusal)) => Err(refusal),
            Err(RequestError::Io(error)) => panic!("{error}"),
        }
    }

    fn create(&self, name: &str, rule: &str) -> u32 {
        let text = format!(
            r#"{{"name": "{name}", "spec": {{"kind": "sparse", "dim": {DIM}, "seed": 1,
            "init": {{"kind": "constant", "value": 0}}, "optimizer": {rule}}}}}"#
        );
        self.ask(Header::of(Op::Create), text.as_bytes()).unwrap().ok.unwrap().0
    }

    fn sgd(&self) -> u32 {
        self.create("words", r#"{"rule": "sgd", "learning_rate": 1}"#)
    }

    fn keyed(&self, op: Op, table: u32, seq: u64, flags: u16, keys: &[u64], value: f32) -> Result<Heard, Refusal> {
        let rows = vec![value; keys.len() * DIM as usize];
        let payload = [codec::key_bytes(keys), codec::float_bytes(&rows)].concat();
        self.ask(Header { table, seq, flags, rows: keys.len() as u32, dim: DIM, ..Header::of(op) }, &payload)
    }

    fn push(&self, table: u32, seq: u64, keys: &[u64], value: f32) -> u64 {
        self.keyed(Op::Push, table, seq, 0, keys, value).unwrap().ok.unwrap().1
    }

    fn pull(&self, table: u32, keys: &[u64]) -> Vec<f32> {
        let header = Header { table, rows: keys.len() as u32, ..Header::of(Op::Pull) };
        self.ask(header, codec::key_bytes(keys)).unwrap().rows
    }

    fn turn(&self, op: Op, seq: u64) -> Result<(u32, u64), Refusal> {
        self.ask(Header { seq, ..Header::of(op) }, &[]).map(|heard| heard.ok.unwrap())
    }

    fn step(&self, table: u32, step: u64, keys: &[u64], value: f32) {
        self.keyed(Op::Push, table, step, flag::STEP, keys, value).unwrap();
        self.turn(Op::Prepare, step).unwrap();
        self.turn(Op::Commit, step).unwrap();
    }

    fn json(&self, op: Op, text: &str) -> Result<Heard, Refusal> {
        self.ask(Header::of(op), text.as_bytes())
    }
}

fn config(world: usize, dir: Option<&PathBuf>) -> EngineConfig {
    let mut config: EngineConfig =
        serde_json::from_value(json!({"server": 0, "servers": 1, "shards": 4, "world": world})).unwrap();
    config.state_dir = dir.cloned();
    config.log_ms = 1;
    config
}

fn open(world: usize, dir: Option<&PathBuf>) -> Arc<Engine> {
    Engine::open(config(world, dir)).unwrap()
}

/// A directory that is gone when the test is over.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("umiak-engine-{}-{}", std::process::id(), port()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
