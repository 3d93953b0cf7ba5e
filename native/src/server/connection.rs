//! One connection, from its first byte to its last, on a thread of its own. An adapter: frames in, calls of the service,
//! frames out. It decides nothing about tables.
//!
//! ```text
//! Hello -> Challenge -> Proof -> Welcome      within `handshake`, each at most 4 KiB
//! request -> (Wait ...) -> one reply           for ever; a frame that has begun ends within `frame`
//! ```
//!
//! Whatever is wrong with a frame is said in an `Error` frame and ends the connection; a refusal by the service is said
//! in one and does not.

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::locks;
use super::service::{Fill, Identity, Kind, Refusal, Reply, Request, RequestError, Service};
use crate::helpers;
use crate::poison::Unpoisoned;
use crate::table::Values;
use crate::wire::auth::{self, Challenge, Hello, Proof, Role};
use crate::wire::codec::{self, Buffer, Fault};
use crate::wire::frame::{HEADER, Header, Op, flag};
use crate::wire::narrow;
use crate::wire::stream::{Stream, advance, again, poll};

/// What one peer, and all of them together, may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes after a header.
    pub most_frame: u64,
    pub most_connections: usize,
    /// Connections that have not proved anything yet.
    pub most_strangers: usize,
    /// For a stranger to prove what it is.
    pub handshake: Duration,
    /// For a frame that has begun to arrive.
    pub frame: Duration,
    /// For a block of an answer to be taken.
    pub write: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            most_frame: codec::MOST_FRAME,
            most_connections: 1024,
            most_strangers: 64,
            handshake: Duration::from_secs(5),
            frame: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// How long a single read or write may sleep before the clock is looked at.
pub const SLICE: Duration = Duration::from_millis(500);
/// A buffer that was not used for this long is given back.
const IDLE: Duration = Duration::from_secs(5);
/// Answers of many rows are made and sent in equal blocks of at most this many bytes, so many of them ahead.
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 4;

/// What all connections of a server share.
pub struct Terms<'a> {
    pub service: &'a dyn Service,
    pub token: &'a [u8],
    pub job: &'a str,
    pub limits: Limits,
    pub stopping: &'a AtomicBool,
}

/// Why a conversation ended.
#[derive(Debug)]
enum End {
    /// The other side went away, or the server stops: nobody to talk to.
    Gone,
    /// Something to tell the other side before it is left.
    Fault(Fault),
    Refused(Refusal),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

impl From<Fault> for End {
    fn from(fault: Fault) -> End {
        End::Fault(fault)
    }
}

/// Talks with one peer until one of them has enough. `trusted` is called once the peer has proved what it is.
pub fn serve(terms: &Terms<'_>, stream: Stream, peer: SocketAddr, trusted: impl FnOnce()) {
    let mut line = Line { stream, limits: terms.limits, stopping: terms.stopping, buffer: Buffer::default() };
    let end = match handshake(terms, &mut line, peer) {
        Err(end) => end,
        Ok(who) => {
            trusted();
            let end = converse(terms, &mut line, &who);
            // A panic here would leave the connection counted for ever.
            let _ = catch_unwind(AssertUnwindSafe(|| terms.service.gone(&who)));
            end
        }
    };
    match end {
        End::Gone => {}
        End::Fault(fault) => line.part(&Refusal { code: fault.code, message: fault.message, hint: None }),
        End::Refused(refusal) => line.part(&refusal),
    }
    line.stream.close();
}

fn handshake(terms: &Terms<'_>, line: &mut Line<'_>, peer: SocketAddr) -> Result<Identity, End> {
    let deadline = Instant::now() + terms.limits.handshake;
    let hello: Hello = line.read_json(Op::Hello, deadline)?;
    let kind = match hello.kind.as_str() {
        "data" => Kind::Data,
        "control" => Kind::Control,
        "observer" => Kind::Observer,
        _ => return Err(Fault::new("bad-frame", "a caller is data, control or observer").into()),
    };
    let challenge = Challenge { nonce: auth::to_hex(&auth::random::<{ auth::NONCE }>()?) };
    line.write_json(Op::Challenge, &json!(challenge))?;
    let proof: Proof = line.read_json(Op::Proof, deadline)?;
    if !auth::verify(terms.token, Role::Client, &hello, &challenge, &proof.proof) {
        return Err(Fault::new("wrong-token", "the caller does not have this job's token").into());
    }
    if hello.job != terms.job {
        return Err(Fault::new("wrong-job", format!("this server belongs to the job {:?}", terms.job)).into());
    }
    let who = Identity { rank: hello.rank, incarnation: hello.incarnation, kind, peer };
    let welcome = catch_unwind(AssertUnwindSafe(|| terms.service.welcome(&who))).unwrap_or_else(|_| Err(internal()));
    let mut welcome = match welcome {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err(End::Refused(internal())),
        Err(refusal) => return Err(End::Refused(refusal)),
    };
    // `verify` has shown that the nonces are as they should be.
    let own = auth::prove(terms.token, Role::Server, &hello, &challenge).unwrap_or_default();
    welcome.insert("proof".into(), Value::String(own));
    if let Err(error) = line.write_json(Op::Welcome, &Value::Object(welcome)) {
        terms.service.gone(&who);
        return Err(error.into());
    }
    Ok(who)
}

fn converse(terms: &Terms<'_>, line: &mut Line<'_>, who: &Identity) -> End {
    let mut scratch: Vec<f32> = Vec::new();
    loop {
        let header = match line.read_request(terms.limits.most_frame) {
            Ok(header) => header,
            Err(end) => return end,
        };
        if header.client != who.rank || !header.op.is_request() || matches!(header.op, Op::Hello | Op::Proof) {
            let what = format!("{:?} of client {} makes no sense here", header.op, header.client);
            return Fault::new("bad-frame", what).into();
        }
        let Line { stream, buffer, .. } = line;
        let request = Request { who, header: &header, payload: buffer.bytes(header.length as usize) };
        let mut answer = Answer {
            stream,
            scratch: &mut scratch,
            within: terms.limits.write,
            stopping: terms.stopping,
            client: who.rank,
            narrows: header.op == Op::Pull && header.flags & flag::NARROW != 0,
            answered: false,
            broken: false,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| terms.service.request(request, &mut answer)));
        match outcome {
            Ok(Ok(())) if answer.answered && !answer.broken => {}
            Ok(Err(RequestError::Refused(refusal))) if !answer.answered && !answer.broken => {
                if answer.error(&refusal).is_err() {
                    return End::Gone;
                }
            }
            Ok(Ok(())) | Err(_) if !answer.answered && !answer.broken => return End::Refused(internal()),
            _ => return End::Gone,
        }
        buffer.settle();
        if scratch.capacity() * 4 > 2 * BLOCKS * BLOCK {
            scratch = Vec::new();
        }
    }
}

fn internal() -> Refusal {
    Refusal {
        code: "internal",
        message: "the server failed while it carried this out: a defect of umiak".into(),
        hint: Some("the server's own output says more".into()),
    }
}

/// The stream with its clock.
struct Line<'a> {
    stream: Stream,
    limits: Limits,
    stopping: &'a AtomicBool,
    buffer: Buffer,
}

impl Line<'_> {
    /// A whole frame of a stranger, as JSON.
    fn read_json<T: serde::de::DeserializeOwned>(&mut self, op: Op, deadline: Instant) -> Result<T, End> {
        let mut head = [0; HEADER];
        self.read_exact(&mut head, 0, deadline)?;
        let header = codec::read_header(&head, codec::MOST_FROM_STRANGERS)?;
        if header.op != op {
            return Err(Fault::new("bad-frame", format!("expected {op:?}, not {:?}", header.op)).into());
        }
        let length = header.length as usize;
        self.read_payload(length, deadline)?;
        serde_json::from_slice(self.buffer.bytes(length))
            .map_err(|error| Fault::new("bad-frame", format!("{op:?}: {error}")).into())
    }

    /// Waits for a request as long as it takes, then reads it as fast as it must come.
    fn read_request(&mut self, most: u64) -> Result<Header, End> {
        let mut head = [0; HEADER];
        let idle_since = Instant::now();
        let got = loop {
            match self.stream.read(&mut head) {
                Ok(0) => return Err(End::Gone),
                Ok(got) => break got,
                Err(error) if again(&error) => {
                    if self.stopping.load(Ordering::Relaxed) {
                        return Err(End::Gone);
                    }
                    let idle = idle_since.elapsed();
                    if idle > IDLE {
                        self.buffer.release();
                    }
                    // Nobody calls: sleep until somebody does. `stop` shuts the socket down, which ends the sleep too.
                    let mut fds = [libc::pollfd { fd: self.stream.fd(), events: libc::POLLIN, revents: 0 }];
                    poll(&mut fds, if idle > IDLE { None } else { Some(IDLE) })?;
                }
                Err(_) => return Err(End::Gone),
            }
        };
        let deadline = Instant::now() + self.limits.frame;
        self.read_exact(&mut head, got, deadline)?;
        let header = codec::read_header(&head, most)?;
        self.read_payload(header.length as usize, deadline)?;
        if !codec::is_narrow(&header) {
            return Ok(header);
        }
        // Behind the connection nobody knows how the numbers came: what is logged and sent on is wide.
        let (count, keys) = (
            header.rows as usize * header.dim as usize,
            if header.op == Op::Push { 8 * header.rows as usize } else { 0 },
        );
        self.buffer.widen(keys, count);
        Ok(Header { flags: header.flags & !flag::NARROW, length: (keys + 4 * count) as u64, ..header })
    }

    fn read_payload(&mut self, length: usize, deadline: Instant) -> Result<(), End> {
        let mut have = 0;
        while have < length {
            let Line { stream, buffer, .. } = self;
            match stream.read(buffer.room(have, length)) {
                Ok(0) => return Err(End::Gone),
                Ok(got) => have += got,
                Err(error) if again(&error) => {}
                Err(_) => return Err(End::Gone),
            }
            if have < length {
                self.still_time(deadline)?;
            }
        }
        Ok(())
    }

    fn read_exact(&mut self, into: &mut [u8], mut have: usize, deadline: Instant) -> Result<(), End> {
        while have < into.len() {
            match self.stream.read(&mut into[have..]) {
                Ok(0) => return Err(End::Gone),
                Ok(got) => have += got,
                Err(error) if again(&error) => {}
                Err(_) => return Err(End::Gone),
            }
            if have < into.len() {
                self.still_time(deadline)?;
            }
        }
        Ok(())
    }

    fn still_time(&self, deadline: Instant) -> Result<(), End> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(End::Gone);
        }
        if Instant::now() >= deadline {
            return Err(Fault::new("too-slow", "a frame took too long to arrive").into());
        }
        Ok(())
    }

    fn write_json(&mut self, op: Op, value: &Value) -> io::Result<()> {
        let bytes = value.to_string().into_bytes();
        let head = Header { length: bytes.len() as u64, ..Header::of(op) }.encode();
        let parts = &mut [IoSlice::new(&head), IoSlice::new(&bytes)];
        write_all(&mut self.stream, parts, self.limits.write.min(self.limits.handshake), self.stopping)
    }

    /// The last words on a connection. Nobody waits long for them to be taken.
    fn part(&mut self, refusal: &Refusal) {
        let (header, bytes) = error_frame(refusal);
        let parts = &mut [IoSlice::new(&header), IoSlice::new(&bytes)];
        let _ = write_all(&mut self.stream, parts, Duration::from_secs(1), self.stopping);
        // Closing while bytes of the peer are unread would reset the connection and could take the words with it.
        let _ = self.stream.socket().shutdown(std::net::Shutdown::Write);
        let until = Instant::now() + Duration::from_millis(200);
        let mut rest = [0; 4096];
        let mut fds = [libc::pollfd { fd: self.stream.fd(), events: libc::POLLIN, revents: 0 }];
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if !matches!(poll(&mut fds, Some(left)), Ok(1..)) || !matches!(self.stream.read(&mut rest), Ok(1..)) {
                break;
            }
        }
    }
}

fn error_frame(refusal: &Refusal) -> ([u8; HEADER], Vec<u8>) {
    let value = json!({"code": refusal.code, "message": refusal.message, "hint": refusal.hint});
    let bytes = value.to_string().into_bytes();
    (Header { length: bytes.len() as u64, ..Header::of(Op::Error) }.encode(), bytes)
}

fn write_all(
    stream: &mut Stream,
    mut parts: &mut [IoSlice<'_>],
    within: Duration,
    stopping: &AtomicBool,
) -> io::Result<()> {
    let mut deadline = None;
    let mut wait = |error: io::Error| {
        let now = Instant::now();
        if !again(&error) || stopping.load(Ordering::Relaxed) || now >= *deadline.get_or_insert(now + within) {
            return Err(error);
        }
        Ok(())
    };
    advance(&mut parts, 0);
    while !parts.is_empty() {
        match stream.write(parts) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(taken) => advance(&mut parts, taken),
            Err(error) => wait(error)?,
        }
    }
    while let Err(error) = stream.flush() {
        wait(error)?;
    }
    Ok(())
}

/// The way back for one request.
struct Answer<'a> {
    stream: &'a mut Stream,
    scratch: &'a mut Vec<f32>,
    within: Duration,
    stopping: &'a AtomicBool,
    client: u32,
    /// Rows go as bfloat16.
    narrows: bool,
    /// The final frame has begun.
    answered: bool,
    /// Part of a frame could not be sent.
    broken: bool,
}

impl Answer<'_> {
    fn send(&mut self, header: Header, parts: &[&[u8]]) -> io::Result<()> {
        locks::may_wait();
        let head = Header { client: self.client, ..header }.encode();
        let mut slices = [IoSlice::new(&head), IoSlice::new(&[]), IoSlice::new(&[])];
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let sent = write_all(self.stream, &mut slices[..=parts.len()], self.within, self.stopping);
        self.broken |= sent.is_err();
        sent
    }

    fn begin_answer(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.answered, true) {
            true => Err(io::Error::other("a request was answered twice")),
            false => Ok(()),
        }
    }

    fn last(&mut self, header: Header, parts: &[&[u8]]) -> io::Result<()> {
        self.begin_answer()?;
        self.send(header, parts)
    }

    fn error(&mut self, refusal: &Refusal) -> io::Result<()> {
        let value = json!({"code": refusal.code, "message": refusal.message, "hint": refusal.hint}).to_string();
        self.last(Header { length: value.len() as u64, ..Header::of(Op::Error) }, &[value.as_bytes()])
    }
}

impl Reply for Answer<'_> {
    fn ok(&mut self, table: u32, durable_seq: u64) -> io::Result<()> {
        self.last(Header { table, seq: durable_seq, ..Header::of(Op::Ok) }, &[])
    }

    fn rows(&mut self, (rows, dim): (u32, u32), durable_seq: u64, fill: Fill<'_>) -> io::Result<()> {
        self.begin_answer()?;
        locks::may_wait();
        let (total, width) = (rows as usize, dim as usize);
        let blocks = (total * width * 4).div_ceil(BLOCK).max(1);
        let per_block = total.div_ceil(blocks).max(1);
        let per_round = (BLOCKS * per_block).min(total);
        self.scratch.resize(self.scratch.len().max(per_round * width), 0.0);
        let narrows = self.narrows;
        let (flags, of_a_float) = if narrows { (flag::NARROW, 2) } else { (0, 4) };
        let length = (total * width * of_a_float) as u64;
        let header = Header { flags, rows, dim, seq: durable_seq, client: self.client, length, ..Header::of(Op::Rows) };
        let head = header.encode();
        let mut first = &head[..];
        // Until the last block is out, the frame is a promise that may break.
        self.broken = true;
        let mut done = 0;
        while done < total || !first.is_empty() {
            let round = done..(done + per_round).min(total);
            let floats = &mut self.scratch[..round.len() * width];
            let blocks: Vec<Mutex<&mut [f32]>> =
                floats.chunks_mut((per_block * width).max(1)).map(Mutex::new).collect();
            let block = |number: usize| blocks[number].lock().unpoisoned();
            let make = |number: usize| {
                let start = round.start + number * per_block;
                let mut floats = block(number);
                fill(start..(start + per_block).min(round.end), &mut floats);
                if narrows {
                    narrow::narrow_in_place(&mut floats);
                }
            };
            helpers::ahead(blocks.len(), &make, |need| {
                for number in 0..blocks.len().max(1) {
                    let floats = blocks.get(number).map(|_| {
                        need(number);
                        block(number)
                    });
                    let bytes = floats.as_ref().map_or(&[][..], |floats| codec::float_bytes(floats));
                    let bytes = &bytes[..bytes.len() / 4 * of_a_float];
                    let parts = &mut [IoSlice::new(first), IoSlice::new(bytes)];
                    write_all(self.stream, parts, self.within, self.stopping)?;
                    first = &[];
                }
                io::Result::Ok(())
            })?;
            done = round.end;
        }
        self.broken = false;
        Ok(())
    }

    fn values(&mut self, parts: &[Values], durable_seq: u64) -> io::Result<()> {
        self.begin_answer()?;
        locks::may_wait();
        let rows = parts.iter().map(|part| part.len()).sum::<usize>();
        let (length, client) = ((rows * 4) as u64, self.client);
        let header = Header { rows: rows as u32, dim: 1, seq: durable_seq, client, length, ..Header::of(Op::Rows) };
        let head = header.encode();
        let mut slices = vec![IoSlice::new(&head)];
        slices.extend(parts.iter().map(|part| IoSlice::new(codec::float_bytes(part))));
        self.broken = true;
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            // Not all of a large table at once: each write has its time.
            let mut room = BLOCKS * BLOCK;
            let fits = |part: &&IoSlice<'_>| {
                let fits = room > 0;
                room = room.saturating_sub(part.len());
                fits
            };
            let (now, later) = rest.split_at_mut(rest.iter().take_while(fits).count());
            write_all(self.stream, now, self.within, self.stopping)?;
            rest = later;
        }
        self.broken = false;
        Ok(())
    }

    fn keyed_rows(&mut self, keys: &[u64], rows: &[f32], dim: u32) -> io::Result<()> {
        let parts = [codec::key_bytes(keys), codec::float_bytes(rows)];
        let length = (parts[0].len() + parts[1].len()) as u64;
        let header = Header { flags: flag::KEYED, rows: keys.len() as u32, dim, length, ..Header::of(Op::Rows) };
        self.last(header, &parts)
    }

    fn strings(&mut self, count: u32, joined: &[u8], durable_seq: u64) -> io::Result<()> {
        let length = joined.len() as u64;
        self.last(Header { rows: count, seq: durable_seq, length, ..Header::of(Op::Bytes) }, &[joined])
    }

    fn json(&mut self, value: &Value) -> io::Result<()> {
        let text = value.to_string();
        self.last(Header { length: text.len() as u64, ..Header::of(Op::Json) }, &[text.as_bytes()])
    }

    fn wait(&mut self, text: &str) -> io::Result<()> {
        self.send(Header { length: text.len() as u64, ..Header::of(Op::Wait) }, &[text.as_bytes()])
    }
}
