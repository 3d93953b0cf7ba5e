//! The door of a server: who is let in, how many, and how everything ends. An adapter.
//!
//! Without a token only this machine is served. When as many strangers are in as may be, those who had time to prove what
//! they are make room, so that silent peers cannot keep honest ones out.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use super::connection::{self, Limits, SLICE, Terms};
use super::service::{Refusal, Service};
use crate::poison::Unpoisoned;
use crate::wire::frame::{Header, Op};
use crate::wire::stream::{Stream, poll, tune};

/// How long a stranger is left in peace when others wait at the door.
const STRANGER: Duration = Duration::from_millis(250);
const MOST_WAITING: i32 = 1024;
/// How long `stop` waits for threads whose sockets are already closed.
const GOODBYE: Duration = Duration::from_secs(30);

pub struct Setup {
    pub host: String,
    pub port: u16,
    pub job: String,
    pub token: Option<Vec<u8>>,
    pub tls: Option<Arc<ServerConfig>>,
    pub limits: Limits,
}

pub struct Listener {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<thread::JoinHandle<()>>,
}

struct Shared {
    service: Arc<dyn Service>,
    setup: Setup,
    stopping: AtomicBool,
    /// Becomes readable when the server stops.
    bell: OwnedFd,
    guests: Mutex<HashMap<u64, Guest>>,
    left: Condvar,
}

struct Guest {
    socket: Arc<TcpStream>,
    since: Instant,
    trusted: bool,
}

impl Shared {
    fn guests(&self) -> MutexGuard<'_, HashMap<u64, Guest>> {
        // No panic happens while it is held that would leave the map half changed.
        self.guests.lock().unpoisoned()
    }
}

impl Listener {
    /// Binds and begins to serve.
    pub fn start(setup: Setup, service: Arc<dyn Service>) -> Result<Listener, Refusal> {
        let refuse = |code, message: String, hint: Option<&str>| Refusal { code, message, hint: hint.map(Into::into) };
        let place = format!("{}:{}", setup.host, setup.port);
        let found: Vec<SocketAddr> = match (setup.host.as_str(), setup.port).to_socket_addrs() {
            Ok(found) => found.collect(),
            Err(error) => return Err(refuse("bad-address", format!("cannot listen on {place}: {error}"), None)),
        };
        if setup.token.as_ref().is_none_or(|token| token.is_empty())
            && let Some(open) = found.iter().find(|address| !is_loopback(address.ip()))
        {
            return Err(refuse(
                "token-needed",
                format!("{} can be reached from other machines, and there is no token", open.ip()),
                Some("set UMIAK_TOKEN to the same secret for all processes of the job, or listen on 127.0.0.1"),
            ));
        }
        let listener = TcpListener::bind(&found[..]).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => refuse(
                "address-in-use",
                format!("{place} is in use by another process"),
                Some("`ss -ltnp` shows which one; port 0 takes any that is free"),
            ),
            _ => refuse("bad-address", format!("cannot listen on {place}: {error}"), None),
        })?;
        let failed = |error: io::Error| refuse("bad-address", format!("cannot listen on {place}: {error}"), None);
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        // SAFETY: the descriptor is an open listening socket; listening again only makes its queue longer.
        unsafe { libc::listen(listener.as_raw_fd(), MOST_WAITING) };
        raise_descriptor_limit(setup.limits.most_connections as u64 + 512);
        let shared = Arc::new(Shared {
            service,
            setup,
            stopping: AtomicBool::new(false),
            bell: bell().map_err(failed)?,
            guests: Mutex::new(HashMap::new()),
            left: Condvar::new(),
        });
        let accepting = thread::Builder::new()
            .name("ps-accept".into())
            .spawn({
                let shared = shared.clone();
                move || accept_all(&shared, &listener)
            })
            .map_err(failed)?;
        Ok(Listener { shared, address, accepting: Some(accepting) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connections(&self) -> usize {
        self.shared.guests().len()
    }

    /// Closes the door and every connection, and waits for their threads.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let ring = 1u64.to_ne_bytes();
        // SAFETY: eight bytes are written to an eventfd that lives as long as `shared`.
        unsafe { libc::write(self.shared.bell.as_raw_fd(), ring.as_ptr().cast(), ring.len()) };
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        let deadline = Instant::now() + GOODBYE;
        let mut guests = self.shared.guests();
        for guest in guests.values() {
            let _ = guest.socket.shutdown(std::net::Shutdown::Both);
        }
        while !guests.is_empty() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
            guests = self.shared.left.wait_timeout(guests, left).unpoisoned().0;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn bell() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; its result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connections need descriptors; the usual soft limit is 1024 while the hard one is far higher.
fn raise_descriptor_limit(wanted: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a pointer to a struct on this stack.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < wanted {
            limit.rlim_cur = wanted.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

fn accept_all(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut next = 0u64;
    let nap = |duration| {
        let mut fds = [libc::pollfd { fd: shared.bell.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        let _ = poll(&mut fds, Some(duration));
    };
    loop {
        let mut fds = [
            libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: shared.bell.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        let polled = poll(&mut fds, None);
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        if polled.is_err() || !make_room(shared) {
            nap(Duration::from_millis(20));
            continue;
        }
        match listener.accept() {
            Ok((socket, peer)) => {
                next += 1;
                admit(shared, next, socket, peer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors, or the peer has already gone.
            Err(_) => nap(Duration::from_millis(20)),
        }
    }
}

/// Whether another stranger may come in. Those who had their time are shown out.
fn make_room(shared: &Shared) -> bool {
    let guests = shared.guests();
    let strangers = guests.values().filter(|guest| !guest.trusted);
    if strangers.clone().count() < shared.setup.limits.most_strangers {
        return true;
    }
    for guest in strangers.filter(|guest| guest.since.elapsed() > STRANGER) {
        let _ = guest.socket.shutdown(std::net::Shutdown::Both);
    }
    false
}

fn admit(shared: &Arc<Shared>, id: u64, socket: TcpStream, peer: SocketAddr) {
    let tokenless = shared.setup.token.as_ref().is_none_or(|token| token.is_empty());
    if tokenless && !is_loopback(peer.ip()) {
        return turn_away(&socket, "token-needed", "without a token only callers on the same machine are served");
    }
    if shared.guests().len() >= shared.setup.limits.most_connections {
        return turn_away(&socket, "full", "this server has as many connections as it may have");
    }
    let ready = socket.set_nonblocking(false).is_ok()
        && tune(&socket).is_ok()
        && socket.set_read_timeout(Some(SLICE)).is_ok()
        && socket.set_write_timeout(Some(SLICE)).is_ok();
    if !ready {
        return;
    }
    let socket = Arc::new(socket);
    shared.guests().insert(id, Guest { socket: socket.clone(), since: Instant::now(), trusted: false });
    let leave = Leave { shared: shared.clone(), id };
    // A thread that cannot be started drops `leave`, and with it the guest.
    let _ = thread::Builder::new().name("ps-connection".into()).stack_size(1 << 20).spawn(move || {
        let shared = &leave.shared;
        let terms = Terms {
            service: &*shared.service,
            token: shared.setup.token.as_deref().unwrap_or_default(),
            job: &shared.setup.job,
            limits: shared.setup.limits,
            stopping: &shared.stopping,
        };
        let trusted = || {
            if let Some(guest) = shared.guests().get_mut(&leave.id) {
                guest.trusted = true;
            }
        };
        if let Ok(stream) = Stream::server(socket, shared.setup.tls.as_ref()) {
            connection::serve(&terms, stream, peer, trusted);
        }
    });
}

/// Says why, if that can be said at once. A peer that expects TLS will not understand it.
fn turn_away(socket: &TcpStream, code: &str, message: &str) {
    let text = serde_json::json!({"code": code, "message": message, "hint": null}).to_string();
    let mut frame = Header { length: text.len() as u64, ..Header::of(Op::Error) }.encode().to_vec();
    frame.extend_from_slice(text.as_bytes());
    let _ = socket.set_nonblocking(true);
    let _ = (&mut &*socket).write(&frame);
    let _ = socket.shutdown(std::net::Shutdown::Write);
}

/// Takes a guest off the list when its thread ends, whatever ends it.
struct Leave {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.shared.guests().remove(&self.id);
        self.shared.left.notify_all();
    }
}
