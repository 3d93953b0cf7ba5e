//! Threads that say that this trainer lives, one per server on a connection of its own, so that neither a long operation
//! nor a frozen server keeps the others from hearing of it.
//!
//! They also notice a network that was cut and has healed: a beat without an answer ends its connection, and once a new one
//! works, a data connection on which nothing has come since is ended too. TCP alone would repeat what was lost after a pause
//! as long as the cut; on a new connection the operation goes on at once.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::dial::{self, Card, NoEntry};
use super::exchange::{self, Call, Clock};
use crate::wire::frame::{Header, Op};
use crate::wire::stream;

/// A beat is answered within so many times their distance, or its connection is given up.
const SILENT_BEATS: u32 = 3;

pub struct Beats {
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

impl Beats {
    pub fn start(cards: Vec<Card>, every: Duration, silence: Duration) -> Beats {
        let shared = Arc::new(Shared {
            stopping: AtomicBool::new(false),
            bell: (Mutex::new(()), Condvar::new()),
            sockets: Mutex::new(vec![None; cards.len()]),
            every,
            silence: silence.min(every.max(Duration::from_secs(1)) * SILENT_BEATS),
            lines: cards.iter().map(|_| Mutex::default()).collect(),
        });
        let threads = cards.into_iter().enumerate().filter_map(|(index, card)| {
            let shared = shared.clone();
            thread::Builder::new()
                .name("ps-beat".into())
                .stack_size(512 << 10)
                .spawn(move || beat(&shared, index, &card))
                .ok()
        });
        let threads = threads.collect();
        Beats { shared, threads }
    }

    /// An answer is waited for on this connection, or no longer.
    pub fn waits(&self, server: usize, socket: Option<Arc<TcpStream>>) {
        *self.shared.lines[server].lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.bell.1.notify_all();
        for socket in self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten() {
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
        let mut guard = self.bell.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.stops() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            guard = match self.bell.1.wait_timeout(guard, left.min(Duration::from_millis(500))) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// The server is heard again: a connection on which nothing has come since it last was not is of no use.
    fn heard_again(&self, index: usize, unheard: Instant) {
        let line = self.lines[index].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = &*line
            && stream::silent_for(socket).is_some_and(|silent| silent >= unheard.elapsed())
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn remember(&self, index: usize, socket: Option<Arc<TcpStream>>) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)[index] = socket;
    }
}

fn beat(shared: &Shared, index: usize, card: &Card) {
    let waiting = Mutex::new(None);
    let mut inbox = Vec::new();
    let mut pause = Duration::from_millis(50);
    // When the last attempt to be heard ended without an answer, be it a beat or a connection.
    let mut unheard = None;
    while !shared.stops() {
        match dial::enter(card, &mut || !shared.stops()) {
            Ok((mut stream, _)) => {
                pause = Duration::from_millis(50);
                shared.remember(index, Some(stream.socket().clone()));
                let _ = stream.socket().set_nonblocking(true);
                while !shared.stops() {
                    let header = Header { client: card.rank, ..Header::of(Op::Beat) };
                    let mut calls = [Call { stream: &mut stream, header, parts: [&[], &[]], rows: None, into: None }];
                    let clock = Clock { silence: shared.silence, limit: None };
                    let beaten =
                        exchange::exchange(&mut calls, &mut |_, _, _| {}, &mut inbox, &waiting, &clock, &mut || {
                            !shared.stops()
                        });
                    match beaten.as_deref() {
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
