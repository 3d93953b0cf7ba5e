//! Threads that send heartbeats, one per server on a connection of its own, so that neither a long operation nor a frozen
//! server keeps the others from hearing of this trainer.
//!
//! They also notice the end of a network partition: a heartbeat without an answer ends its connection, and once a new one
//! works, a data connection on which nothing has come since is ended too. TCP alone would repeat what was lost after a pause
//! as long as the partition; on a new connection the operation goes on at once.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::context::{CallContext, CallOptions, Waiting};
use super::dial::{self, Credentials, NoEntry};
use super::exchange::{self, Call, Outgoing};
use crate::poison::Unpoisoned;
use crate::wire::frame::{Header, Op};
use crate::wire::stream;

/// A heartbeat is answered within so many times their distance, or its connection is given up.
const MISSED_HEARTBEATS: u32 = 3;

pub struct Heartbeats {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    stopping: AtomicBool,
    bell: (Mutex<()>, Condvar),
    sockets: Mutex<Vec<Option<Arc<TcpStream>>>>,
    every: Duration,
    silence: Duration,
    /// By server: the data connection, while an answer is waited for on it.
    lines: Vec<Mutex<Option<Arc<TcpStream>>>>,
}

impl Heartbeats {
    pub fn start(credentials: Vec<Credentials>, every: Duration, silence: Duration) -> Heartbeats {
        let shared = Arc::new(Shared {
            stopping: AtomicBool::new(false),
            bell: (Mutex::new(()), Condvar::new()),
            sockets: Mutex::new(vec![None; credentials.len()]),
            every,
            silence: silence.min(every.max(Duration::from_secs(1)) * MISSED_HEARTBEATS),
            lines: credentials.iter().map(|_| Mutex::default()).collect(),
        });
        let threads = credentials.into_iter().enumerate().filter_map(|(index, credentials)| {
            let shared = shared.clone();
            thread::Builder::new()
                .name("ps-beat".into())
                .stack_size(512 << 10)
                .spawn(move || send_heartbeats(&shared, index, &credentials))
                .ok()
        });
        let threads = threads.collect();
        Heartbeats { shared, threads }
    }

    /// An answer is waited for on this connection, or no longer.
    pub fn waits(&self, server: usize, socket: Option<Arc<TcpStream>>) {
        *self.shared.lines[server].lock().unpoisoned() = socket;
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.bell.1.notify_all();
        for socket in self.shared.sockets.lock().unpoisoned().iter().flatten() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn stops(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        let until = Instant::now() + duration;
        let mut guard = self.bell.0.lock().unpoisoned();
        while !self.stops() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            guard = self.bell.1.wait_timeout(guard, left.min(Duration::from_millis(500))).unpoisoned().0;
        }
    }

    /// The server is heard again: a connection on which nothing has come since it last was not is of no use.
    fn heard_again(&self, index: usize, unheard: Instant) {
        let line = self.lines[index].lock().unpoisoned();
        if let Some(socket) = &*line
            && stream::silent_for(socket).is_some_and(|silent| silent >= unheard.elapsed())
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn remember(&self, index: usize, socket: Option<Arc<TcpStream>>) {
        self.sockets.lock().unpoisoned()[index] = socket;
    }
}

fn send_heartbeats(shared: &Shared, index: usize, credentials: &Credentials) {
    let waiting = Waiting::default();
    let mut inbox = Vec::new();
    let mut pause = Duration::from_millis(50);
    // When the last attempt to be heard ended without an answer, be it a heartbeat or a connection.
    let mut unheard = None;
    while !shared.stops() {
        match dial::enter(credentials, &mut || !shared.stops()) {
            Ok((mut stream, _)) => {
                pause = Duration::from_millis(50);
                shared.remember(index, Some(stream.socket().clone()));
                let _ = stream.socket().set_nonblocking(true);
                while !shared.stops() {
                    let header = Header { client: credentials.rank, ..Header::of(Op::Beat) };
                    let frames = vec![Outgoing { header, parts: [&[], &[]] }];
                    let mut calls = [Call { stream: &mut stream, frames, rows: None, pulls: Vec::new(), into: None }];
                    let mut goes_on = || !shared.stops();
                    let mut context = CallContext::new(CallOptions::new(None, &mut goes_on), &waiting);
                    let (mut sink, silence) = (|_: usize, _: usize, _: usize, _: &[f32]| {}, shared.silence);
                    let answers = exchange::exchange(&mut calls, &mut sink, &mut inbox, silence, &mut context);
                    match answers.as_deref() {
                        Ok([Ok(exchange::Answer::Ok(_))]) => {
                            if let Some(unheard) = unheard.take() {
                                shared.heard_again(index, unheard);
                            }
                            shared.sleep(shared.every);
                        }
                        _ => {
                            unheard = Some(Instant::now());
                            break;
                        }
                    }
                }
                stream.close();
                shared.remember(index, None);
            }
            Err(NoEntry::Interrupted) => return,
            Err(no_entry) => {
                pause = (pause * 2).min(Duration::from_secs(1));
                // What is refused here is refused to the data connection as well, and said there.
                if let NoEntry::Away(_) = no_entry {
                    unheard = Some(Instant::now());
                }
            }
        }
        shared.sleep(pause);
    }
}
