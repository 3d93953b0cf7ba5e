//! Connecting to a server, and the handshake. An adapter; blocking, but the caller's pulse is heard all the while.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};

use super::context::{Pulse, TICK};
use super::error::ErrorDetail;
use crate::wire::auth::{self, Challenge, Hello, Role};
use crate::wire::codec;
use crate::wire::frame::{HEADER, Header, Op};
use crate::wire::stream::{self, Stream, advance, again};

/// One attempt. A server that lives answers in milliseconds.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Of which connecting: the kernel repeats itself after one second, and then after pauses that a new attempt has not.
const CONNECT: Duration = Duration::from_secs(2);
const MOST_WELCOME: u64 = 16 << 20;

/// How a caller of one server presents itself.
#[derive(Clone)]
pub struct Credentials {
    pub endpoint: String,
    pub token: Vec<u8>,
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub rank: u32,
    pub incarnation: u64,
    pub kind: &'static str,
    pub job: String,
}

#[derive(Debug)]
pub enum NoEntry {
    /// May be different in a moment.
    Away(String),
    /// Will not be different.
    Refused(ErrorDetail),
    Interrupted,
}

/// A server that says one of these may be asked again: itself, or the one that is started in its place.
pub fn passes(code: &str) -> bool {
    matches!(code, "full" | "busy" | "stopping" | "too-slow" | "log-failed")
}

/// Connects, shakes hands, and returns the connection with what the server said in its welcome.
pub fn enter(credentials: &Credentials, pulse: Pulse<'_>) -> Result<(Stream, Value), NoEntry> {
    let socket = connect(&credentials.endpoint, pulse)?;
    let ready = stream::tune(&socket)
        .and_then(|()| socket.set_read_timeout(Some(TICK)))
        .and_then(|()| socket.set_write_timeout(Some(TICK)));
    ready.map_err(|error| NoEntry::Away(error.to_string()))?;
    let stream =
        Stream::client(Arc::new(socket), credentials.tls.as_ref()).map_err(|error| NoEntry::Away(error.to_string()))?;
    let mut talk = Talk { stream, pulse, deadline: Instant::now() + ATTEMPT };
    let nonce = auth::random::<{ auth::NONCE }>().map_err(|error| NoEntry::Away(error.to_string()))?;
    let hello = Hello {
        nonce: auth::to_hex(&nonce),
        rank: credentials.rank,
        incarnation: credentials.incarnation,
        kind: credentials.kind.into(),
        job: credentials.job.clone(),
    };
    talk.send(Op::Hello, &json!(hello))?;
    let challenge: Challenge = talk.receive(Op::Challenge)?;
    let Some(proof) = auth::prove(&credentials.token, Role::Client, &hello, &challenge) else {
        return Err(NoEntry::Refused(ErrorDetail::new("foreign", "the server's challenge is not one", None)));
    };
    talk.send(Op::Proof, &json!({"proof": proof}))?;
    let mut welcome: Value = talk.receive(Op::Welcome)?;
    let theirs = welcome.as_object_mut().and_then(|fields| fields.remove("proof"));
    let theirs = theirs.as_ref().and_then(Value::as_str).unwrap_or_default();
    if !auth::verify(&credentials.token, Role::Server, &hello, &challenge, theirs) {
        return Err(NoEntry::Refused(ErrorDetail::new(
            "wrong-token",
            "the server does not have this job's token",
            Some("something else may be listening at this address; all processes of a job need the same UMIAK_TOKEN"),
        )));
    }
    Ok((talk.stream, welcome))
}

/// Connects as somebody who only looks, and returns how the server says that it is. One attempt.
pub fn status(credentials: &Credentials, pulse: Pulse<'_>) -> Result<Value, NoEntry> {
    let (stream, _) = enter(credentials, &mut *pulse)?;
    let mut talk = Talk { stream, pulse, deadline: Instant::now() + ATTEMPT };
    talk.send_bytes(Op::Status, &[])?;
    let status = talk.receive(Op::Json);
    talk.stream.close();
    status
}

/// Name look-up and connecting can't be interrupted, so a thread does them while this one listens to its pulse.
fn connect(endpoint: &str, pulse: Pulse<'_>) -> Result<TcpStream, NoEntry> {
    let (send, receive) = channel();
    let target = endpoint.to_owned();
    thread::Builder::new()
        .name("ps-dial".into())
        .stack_size(256 << 10)
        .spawn(move || send.send(stream::dial(&target, CONNECT)))
        .map_err(|error| NoEntry::Away(error.to_string()))?;
    loop {
        match receive.recv_timeout(TICK) {
            Ok(done) => return done.map_err(|error| NoEntry::Away(error.to_string())),
            Err(RecvTimeoutError::Disconnected) => return Err(NoEntry::Away("no thread to connect with".into())),
            Err(RecvTimeoutError::Timeout) if pulse() => {}
            Err(RecvTimeoutError::Timeout) => return Err(NoEntry::Interrupted),
        }
    }
}

struct Talk<'a> {
    stream: Stream,
    pulse: Pulse<'a>,
    deadline: Instant,
}

impl Talk<'_> {
    fn send(&mut self, op: Op, value: &Value) -> Result<(), NoEntry> {
        self.send_bytes(op, value.to_string().as_bytes())
    }

    fn send_bytes(&mut self, op: Op, bytes: &[u8]) -> Result<(), NoEntry> {
        let head = Header { length: bytes.len() as u64, ..Header::of(op) }.encode();
        let mut parts = &mut [IoSlice::new(&head), IoSlice::new(bytes)][..];
        while !parts.is_empty() {
            match self.stream.write(parts) {
                Ok(taken) => advance(&mut parts, taken),
                // What was said before the connection closed says why: it is read first.
                Err(error) if !again(&error) && op == Op::Proof => return Ok(()),
                Err(error) => self.wait(error)?,
            }
        }
        while let Err(error) = self.stream.flush() {
            self.wait(error)?;
        }
        Ok(())
    }

    fn receive<T: serde::de::DeserializeOwned>(&mut self, expected: Op) -> Result<T, NoEntry> {
        let mut head = [0; HEADER];
        self.read_exact(&mut head)?;
        let header = codec::read_header(&head, MOST_WELCOME).map_err(|fault| {
            NoEntry::Refused(ErrorDetail::new(
                fault.code,
                fault.message,
                Some("is this a server of this job, of this version?"),
            ))
        })?;
        let mut payload = vec![0; header.length as usize];
        self.read_exact(&mut payload)?;
        let garbled = |what: String| NoEntry::Refused(ErrorDetail::new("foreign", what, None));
        if header.op == Op::Error {
            let detail: ErrorDetail = serde_json::from_slice(&payload).map_err(|error| garbled(error.to_string()))?;
            return Err(if passes(&detail.code) { NoEntry::Away(detail.message) } else { NoEntry::Refused(detail) });
        }
        if header.op != expected {
            return Err(garbled(format!("the server sent {:?} instead of {expected:?}", header.op)));
        }
        serde_json::from_slice(&payload).map_err(|error| garbled(error.to_string()))
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), NoEntry> {
        let mut have = 0;
        while have < into.len() {
            match self.stream.read(&mut into[have..]) {
                Ok(0) => return Err(NoEntry::Away("the server closed the connection during the handshake".into())),
                Ok(got) => have += got,
                Err(error) => self.wait(error)?,
            }
        }
        Ok(())
    }

    fn wait(&mut self, error: io::Error) -> Result<(), NoEntry> {
        if !again(&error) {
            // TLS tells a wrong certificate in this way: another attempt will not help.
            let tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
            return Err(if tls {
                let hint = "the server's certificate, its name, and the file of trusted certificates must fit together";
                NoEntry::Refused(ErrorDetail::new("tls", format!("no TLS connection: {error}"), Some(hint)))
            } else {
                NoEntry::Away(error.to_string())
            });
        }
        if !(self.pulse)() {
            return Err(NoEntry::Interrupted);
        }
        if Instant::now() >= self.deadline {
            return Err(NoEntry::Away("the server did not answer".into()));
        }
        Ok(())
    }
}
