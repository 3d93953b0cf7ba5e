//! A frame: forty bytes that say what follows, then that. A value and its two directions, nothing that touches a socket.
//!
//! Little-endian. A header is checked as soon as it is there, and its length against its counts, before a single byte is
//! set aside for what follows.

pub const HEADER: usize = 40;
pub const MAGIC: u32 = u32::from_le_bytes(*b"UMPS");
pub const VERSION: u8 = 1;

/// What a frame is for. Requests are below 128, replies above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    // Coming to trust each other, in this order.
    Hello = 1, // JSON: who calls
    Proof = 2, // JSON: the answer to the challenge
    // Tables.
    Create = 3,        // JSON {name, spec}; the reply's `table` is its number
    Pull = 4,          // keys; `seq` is the step to wait for; flag CREATE
    Push = 5,          // keys, then rows of `dim` floats
    PullDense = 6,     // nothing; `seq` is the step to wait for
    PushDense = 7,     // floats: this server's part
    SetDense = 8,      // floats: this server's part; flag IF_UNSET
    Set = 9,           // keys, then rows: overwrite values
    Add = 10,          // keys, then rows: geo's differences
    Changed = 11,      // nothing: geo's rows that others changed since this trainer asked last
    LearningRate = 12, // one float
    Shrink = 13,
    // Steps of a synchronous job.
    Prepare = 14, // `seq` is the step: everything of it is here
    Commit = 15,  // `seq` is the step: everybody has it
    Abort = 16,   // `seq` is the step: forget what of it is here
    // The job.
    Barrier = 17, // JSON {name}
    Beat = 18,
    Done = 19,
    Save = 20,   // JSON {path, mode, ...}; the reply lists files
    Load = 21,   // JSON {path, files}
    Status = 22, // the reply is JSON
    // Replies.
    Challenge = 128, // JSON
    Welcome = 129,   // JSON
    Ok = 130,        // `seq`: the newest push of this client that is durable
    Rows = 131,      // floats, or keys and floats
    Json = 132,
    Wait = 133,  // text: what the server waits for; the reply proper follows
    Error = 134, // JSON {code, message, hint}
}

pub mod flag {
    /// Pull: rows that do not exist are created.
    pub const CREATE: u16 = 1;
    /// SetDense: leave values alone that are already set.
    pub const IF_UNSET: u16 = 2;
    /// Push: part of a synchronous step, whose number is `seq`.
    pub const STEP: u16 = 4;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub op: Op,
    pub flags: u16,
    pub table: u32,
    pub rows: u32,
    pub dim: u32,
    pub client: u32,
    pub seq: u64,
    pub length: u64,
}
