//! Clients against small services: what is sent, and that a broken connection neither loses nor repeats a push.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::Memory;
use umiak_native::client::context::CallOptions;
use umiak_native::client::error::ClientError;
use umiak_native::client::orders::RowChange;
use umiak_native::client::session::{Client, Turn};
use umiak_native::keys::mix;
use umiak_native::server::connection::Limits;
use umiak_native::server::listener::{Listener, Setup};
use umiak_native::server::service::{Identity, Refusal, Reply, Request, RequestError, Service};
use umiak_native::table::Absent;
use umiak_native::wire::frame::Op;

const SPEC: &str = r#"{"kind": "sparse", "dim": 4, "seed": 1, "init": {"kind": "constant", "value": 0.0},
                       "optimizer": {"rule": "sum"}}"#;

fn start<S: Service>(service: &Arc<S>, port: u16) -> Listener {
    let limits = Limits::default();
    let setup = Setup { host: "127.0.0.1".into(), port, job: "j".into(), token: Some(b"t".into()), tls: None, limits };
    Listener::start(setup, service.clone()).unwrap()
}

fn client(addresses: &[SocketAddr], timeout_s: f64) -> Client {
    let endpoints: Vec<String> = addresses.iter().map(|address| address.to_string()).collect();
    let config = serde_json::json!({"endpoints": endpoints, "job": "j", "timeout_s": timeout_s, "beat_s": 0.05});
    Client::new(&config.to_string(), Some(b"t")).unwrap()
}

/// Carries out an operation that nobody interrupts.
fn ask<T>(client: &Client, work: impl FnOnce(&mut Turn<'_>) -> T) -> T {
    work(&mut client.turn(CallOptions::new(None, &mut || true)).unwrap())
}

fn push(client: &Client, table: u32, keys: &[u64], rows: &[f32]) -> Result<(), ClientError> {
    ask(client, |turn| turn.change(&pushed(table, keys, rows), None))
}

fn pushed<'a>(table: u32, keys: &'a [u64], rows: &'a [f32]) -> RowChange<'a> {
    RowChange { op: Op::Push, table, keys, rows, scale: 1.0, mean: false }
}

fn pull(client: &Client, table: u32, keys: &[u64]) -> Result<Vec<f32>, ClientError> {
    let mut out = vec![-1.0; keys.len() * 4];
    ask(client, |turn| turn.pull(table, keys, &mut out, Absent::Made, 0)).map(|()| out)
}

fn create(client: &Client) -> Result<u32, ClientError> {
    ask(client, |turn| turn.create_table("t", SPEC, false))
}

#[test]
fn keys_go_to_their_servers_and_repetitions_are_summed() {
    let services: Vec<Arc<Memory>> = (0..3).map(|_| Arc::new(Memory::default())).collect();
    let listeners: Vec<Listener> = services.iter().map(|service| start(service, 0)).collect();
    let addresses: Vec<SocketAddr> = listeners.iter().map(Listener::address).collect();
    let client = client(&addresses, 5.0);
    let table = create(&client).unwrap();
    let keys: Vec<u64> = (0..30_000u64).map(|i| mix(i) % 9_000).collect();
    let rows: Vec<f32> = keys.iter().flat_map(|key| [*key as f32, 1.0, 2.0, 0.5]).collect();
    push(&client, table, &keys, &rows).unwrap();
    let out = pull(&client, table, &keys).unwrap();
    let mut count = std::collections::HashMap::new();
    keys.iter().for_each(|key| *count.entry(*key).or_insert(0u32) += 1);
    for (key, row) in keys.iter().zip(out.chunks_exact(4)) {
        let n = count[key] as f32;
        assert_eq!(row, [*key as f32 * n, n, 2.0 * n, 0.5 * n]);
    }
    let held: Vec<usize> = services.iter().map(|service| service.rows.lock().unwrap().len()).collect();
    assert_eq!(held.iter().sum::<usize>(), count.len());
    assert!(held.iter().all(|rows| *rows > count.len() / 6));
    assert!(pull(&client, table, &[]).unwrap().is_empty());
    assert!(push(&client, table, &keys, &rows[1..]).is_err() && push(&client, 9, &keys, &rows).is_err());
    drop(client);
}

/// Passes bytes on, and cuts the connection after a number of them that is different each time.
struct Flaky {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
}

impl Flaky {
    fn start(target: SocketAddr) -> Flaky {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stopping, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, cut) = (stopping.clone(), cuts.clone());
        thread::spawn(move || {
            for (number, near) in (0u64..).zip(listener.incoming()) {
                let (Ok(near), false) = (near, stop.load(Ordering::SeqCst)) else { return };
                let Ok(far) = TcpStream::connect(target) else { continue };
                for (from, to, salt) in [(&near, &far, 1), (&far, &near, 2)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let mut left = 900 + mix(number * 2 + salt) % 60_000;
                    let cut = cut.clone();
                    thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        loop {
                            let most = bytes.len().min(left as usize);
                            let got = from.read(&mut bytes[..most]).unwrap_or(0);
                            if got == 0 || to.write_all(&bytes[..got]).is_err() {
                                cut.fetch_add(u64::from(left == 0), Ordering::SeqCst);
                                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                                return;
                            }
                            left -= got as u64;
                        }
                    });
                }
            }
        });
        Flaky { address, stopping, cuts }
    }
}

impl Drop for Flaky {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

#[test]
fn a_push_counts_once_however_often_the_connection_breaks() {
    let services: Vec<Arc<Memory>> =
        (0..2).map(|log| Arc::new(Memory { log: log == 1, ..Memory::default() })).collect();
    let listeners: Vec<Listener> = services.iter().map(|service| start(service, 0)).collect();
    let proxies: Vec<Flaky> = listeners.iter().map(|listener| Flaky::start(listener.address())).collect();
    let client = client(&[proxies[0].address, proxies[1].address], 20.0);
    let table = create(&client).unwrap();
    let keys: Vec<u64> = (0..300).collect();
    let rows = vec![1.0; keys.len() * 4];
    for turn in 1..=100 {
        push(&client, table, &keys, &rows).unwrap();
        let out = pull(&client, table, &keys).unwrap();
        assert!(out.iter().all(|value| *value == turn as f32), "after {turn} pushes");
    }
    assert!(proxies.iter().all(|proxy| proxy.cuts.load(Ordering::SeqCst) > 5));
}

/// Passes the first connection on until `cut`, and then swallows what comes; closes the others until `healed`.
#[derive(Default)]
struct Outage {
    cut: AtomicBool,
    healed: AtomicBool,
    turned_away: AtomicU64,
}

impl Outage {
    fn start(self: &Arc<Outage>, target: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let outage = self.clone();
        thread::spawn(move || {
            for (number, near) in (0u64..).zip(listener.incoming()) {
                let near = near.unwrap();
                if number > 0 && !outage.healed.load(Ordering::SeqCst) {
                    outage.turned_away.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let far = TcpStream::connect(target).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let outage = outage.clone();
                    thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(got @ 1..) = from.read(&mut bytes) {
                            let swallowed = number == 0 && outage.cut.load(Ordering::SeqCst);
                            if !swallowed && to.write_all(&bytes[..got]).is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        address
    }
}

#[test]
fn a_cut_before_the_first_heartbeat_is_noticed_when_it_heals() {
    let service = Arc::new(Memory::default());
    let listener = start(&service, 0);
    let outage = Arc::new(Outage::default());
    let client = client(&[outage.start(listener.address())], 60.0);
    let table = create(&client).unwrap();
    outage.cut.store(true, Ordering::SeqCst);
    let healing = outage.clone();
    let healer = thread::spawn(move || {
        while healing.turned_away.load(Ordering::SeqCst) < 3 {
            thread::sleep(Duration::from_millis(5));
        }
        healing.healed.store(true, Ordering::SeqCst);
    });
    push(&client, table, &[1], &[1.0; 4]).unwrap();
    assert_eq!(pull(&client, table, &[1]).unwrap(), [1.0; 4]);
    healer.join().unwrap();
}

#[test]
fn a_server_that_comes_back_without_its_rows_is_found_out() {
    let service = Arc::new(Memory::default());
    let listener = start(&service, 0);
    let address = listener.address();
    let client = client(&[address], 10.0);
    let table = create(&client).unwrap();
    push(&client, table, &[1, 2], &[1.0; 8]).unwrap();
    drop(listener);
    // The same service again: it has everything.
    let listener = start(&service, address.port());
    push(&client, table, &[1, 2], &[1.0; 8]).unwrap();
    assert_eq!(pull(&client, table, &[2]).unwrap(), [2.0; 4]);
    drop(listener);
    let listener = start(&Arc::new(Memory::default()), address.port());
    let error = pull(&client, table, &[2]).unwrap_err();
    assert!(matches!(&error, ClientError::ServerForgot(_)), "{error:?}");
    assert!(error.to_string().contains("hint: load the newest checkpoint"), "{error}");
    drop(listener);
}

#[test]
fn words_for_a_server_that_is_not_there_or_says_no() {
    let service = Arc::new(Memory::default());
    let listener = start(&service, 0);
    let address = listener.address();
    let config = serde_json::json!({"endpoints": [address.to_string()], "job": "j"}).to_string();
    let stranger = Client::new(&config, Some(b"u")).unwrap();
    let error = create(&stranger).unwrap_err();
    assert!(matches!(&error, ClientError::Refused(detail) if detail.code == "wrong-token"), "{error:?}");
    let good = client(&[address], 0.3);
    let table = create(&good).unwrap();
    drop(listener);
    let error = pull(&good, table, &[1]).unwrap_err();
    let ClientError::ServerLost(detail) = &error else { panic!("{error:?}") };
    assert!(detail.message.contains(&address.to_string()), "{error}");
    // Interrupted while it waits for a server: nothing was sent, and the client goes on later.
    let mut looks = 0;
    let mut pulse = || {
        looks += 1;
        looks < 3
    };
    let mut turn = good.turn(CallOptions::new(None, &mut pulse)).unwrap();
    let error = turn.change(&pushed(table, &[1], &[1.0; 4]), None).unwrap_err();
    assert_eq!(error, ClientError::Interrupted);
    drop(turn);
    let _listener = start(&service, address.port());
    push(&good, table, &[1], &[1.0; 4]).unwrap();
    assert_eq!(pull(&good, table, &[1]).unwrap(), [1.0; 4]);
    for bad in ["{}", r#"{"endpoints": ["a"], "rank": 3, "shards": 5, "timeout_s": 0}"#, r#"{"endpoints": [], "x": 1}"#]
    {
        let error = Client::new(bad, None).err().unwrap();
        assert!(matches!(&error, ClientError::Refused(detail) if detail.code == "bad-config"), "{error:?}");
    }
}

#[test]
fn a_waiting_answer_says_for_whom_and_a_limit_ends_it() {
    let service = Arc::new(Memory::default());
    let listener = start(&service, 0);
    let client = client(&[listener.address()], 5.0);
    ask(&client, |turn| turn.barrier("all")).unwrap();
    // Nobody there at all: the limit is what ends it.
    drop(listener);
    let mut on = || true;
    let mut turn = client.turn(CallOptions::new(Some(Duration::from_millis(300)), &mut on)).unwrap();
    let error = turn.barrier("all").unwrap_err();
    assert!(matches!(&error, ClientError::Timeout(_)), "{error:?}");
}

/// One of two servers: commits break the connection of the first one once, and the second one waits until they come again.
struct Meeting {
    first: bool,
    commits_of_first: Arc<AtomicU64>,
    others: Memory,
}

impl Service for Meeting {
    fn welcome(&self, who: &Identity) -> Result<serde_json::Value, Refusal> {
        self.others.welcome(who)
    }

    fn request(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError> {
        if request.header.op != Op::Commit {
            return self.others.request(request, reply);
        }
        if self.first && self.commits_of_first.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(std::io::Error::other("the connection is lost").into());
        }
        while !self.first && self.commits_of_first.load(Ordering::SeqCst) < 2 {
            reply.wait("waiting for trainer 1")?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(reply.ok(0, 0)?)
    }

    fn gone(&self, who: &Identity) {
        self.others.gone(who);
    }
}

#[test]
fn a_lost_server_is_called_again_though_another_one_waits() {
    let commits = Arc::new(AtomicU64::new(0));
    let meeting = |first| Meeting { first, commits_of_first: commits.clone(), others: Memory::default() };
    let listeners = [true, false].map(|first| start(&Arc::new(meeting(first)), 0));
    let client = client(&[listeners[0].address(), listeners[1].address()], 20.0);
    let mut on = || true;
    // The limit only ends a test that fails.
    let mut turn = client.turn(CallOptions::new(Some(Duration::from_secs(15)), &mut on)).unwrap();
    turn.commit(0, &mut []).unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 2);
}
