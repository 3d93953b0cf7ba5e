//! What a connection asks of the state behind it, and what that state may answer. Values and two traits: connections know
//! nothing of tables, and the state knows nothing of sockets.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use super::records::Author;
use crate::table::Values;
use crate::wire::frame::Header;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pulls and pushes of one trainer.
    Data,
    /// A trainer's heartbeats.
    Control,
    /// Looks and asks; is no trainer.
    Observer,
}

/// Who is at the other end, once it has proved it.
#[derive(Clone, Debug)]
pub struct Identity {
    pub rank: u32,
    /// Told apart from an earlier process with the same rank; the newest one counts.
    pub incarnation: u64,
    pub kind: Kind,
    pub peer: SocketAddr,
}

/// What is asked, and who asks.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub who: &'a Identity,
    pub header: &'a Header,
    pub payload: &'a [u8],
}

impl Request<'_> {
    /// As the log names who asks.
    pub fn author(&self) -> Author {
        let rank = (self.who.kind != Kind::Observer).then_some(self.who.rank);
        Author { rank, incarnation: self.who.incarnation }
    }

    pub fn has(&self, flag: u16) -> bool {
        self.header.flags & flag != 0
    }
}

/// Why a request was not carried out. It becomes an `Error` frame and then an exception.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

pub trait Service: Send + Sync + 'static {
    /// After the proof. The answer goes into the `Welcome` frame.
    fn welcome(&self, who: &Identity) -> Result<serde_json::Value, Refusal>;

    /// Answers with exactly one of `Reply`'s final calls, after any number of `wait`s; or with a refusal.
    fn request(&self, request: Request<'_>, reply: &mut dyn Reply) -> Result<(), RequestError>;

    /// The connection has closed.
    fn gone(&self, who: &Identity);
}

#[derive(Debug)]
pub enum RequestError {
    Refused(Refusal),
    /// The answer could not be sent: the connection is over.
    Io(io::Error),
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        RequestError::Io(error)
    }
}

impl From<Refusal> for RequestError {
    fn from(refusal: Refusal) -> Self {
        RequestError::Refused(refusal)
    }
}

/// Writes the rows of a range. Several threads may do so at once.
pub type Fill<'a> = &'a (dyn Fn(Range<usize>, &mut [f32]) + Sync);

pub trait Reply {
    fn ok(&mut self, table: u32, durable_seq: u64) -> io::Result<()>;

    /// Rows that are made while they are sent, in blocks, so that the other side receives while this one gathers.
    fn rows(&mut self, shape: (u32, u32), durable_seq: u64, fill: Fill<'_>) -> io::Result<()>;

    /// Rows of one column, which are there already: parts that follow each other.
    fn values(&mut self, parts: &[Values], durable_seq: u64) -> io::Result<()>;

    fn keyed_rows(&mut self, keys: &[u64], rows: &[f32], dim: u32) -> io::Result<()>;

    /// Byte strings, so many of them, as `codec::join` makes them.
    fn strings(&mut self, count: u32, joined: &[u8], durable_seq: u64) -> io::Result<()>;

    fn json(&mut self, value: &serde_json::Value) -> io::Result<()>;

    /// The server is alive and says what it waits for; the answer itself comes later.
    fn wait(&mut self, text: &str) -> io::Result<()>;
}
