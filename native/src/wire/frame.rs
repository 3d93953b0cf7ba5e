//! A frame: forty bytes that say what follows, then that. A value and its two directions, nothing that touches a socket.
//!
//! Little-endian. A header is checked as soon as it is there, and its length against its counts, before a single byte is
//! set aside for what follows.

pub const HEADER: usize = 40;
pub const MAGIC: u32 = u32::from_le_bytes(*b"UMPS");
pub const VERSION: u8 = 2;

/// What a frame is for. Requests are below 128, replies above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    // Coming to trust each other, in this order.
    Hello = 1, // JSON: who calls
    Proof = 2, // JSON: the answer to the challenge
    // Tables.
    Create = 3,        // JSON {name, spec}; the reply's `table` is its number
    Pull = 4,          // keys; `seq` is the step to wait for; flags CREATE, ZEROS
    Push = 5,          // keys, then rows of `dim` floats
    PullDense = 6,     // nothing; `seq` is the step to wait for
    PushDense = 7,     // floats: this server's part; flag VALUES
    SetDense = 8,      // floats: this server's part; flags IF_UNSET, STEP
    Set = 9,           // keys, then rows: overwrite values
    Add = 10,          // keys, then rows: geo's differences
    Changed = 11,      // nothing: geo's rows that others changed since this trainer asked last
    LearningRate = 12, // one float
    Shrink = 13,
    // Steps of a synchronous job.
    Prepare = 14, // `seq` is the step: everything of it is here
    Commit = 15,  // `seq` is the step: everybody has it; flag VALUES with `table`
    Abort = 16,   // `seq` is the step: forget what of it is here
    // The job.
    Barrier = 17, // JSON {name}
    Beat = 18,
    Done = 19,   // with the flag STEP: no more steps, but here
    Save = 20,   // JSON {path, mode, ...}; the reply lists files
    Load = 21,   // JSON {path, files}
    Status = 22, // the reply is JSON
    Gather = 23, // a name of `rows` bytes, then this trainer's bytes; `seq` is the turn
    Take = 24,   // a name; `seq` is how many this trainer has taken of it; the reply is JSON {number}
    Post = 25,   // as Gather, without a turn; the answer is what everybody has posted last, and nobody waits
    // Replies.
    Challenge = 128, // JSON
    Welcome = 129,   // JSON
    Ok = 130,        // `seq`: the newest push of this client that is durable
    Rows = 131,      // floats, or keys and floats; `seq` as in Ok, where the request was a change
    Json = 132,
    Wait = 133,  // text: what the server waits for; the reply proper follows
    Error = 134, // JSON {code, message, hint}
    Bytes = 135, // `rows` byte strings: their lengths as u64, then themselves; `seq` as in Ok
}

pub mod flag {
    /// Pull: rows that do not exist are created.
    pub const CREATE: u16 = 1;
    /// SetDense: leave values alone that are already set.
    pub const IF_UNSET: u16 = 2;
    /// Push, PushDense, SetDense, LearningRate: part of a synchronous step, whose number is `seq`. Done: with steps only.
    pub const STEP: u16 = 4;
    /// Rows: keys stand before the floats.
    pub const KEYED: u16 = 8;
    /// PushDense, Commit: the answer is the dense table's values afterwards, for a commit once the step is applied.
    pub const VALUES: u16 = 16;
    /// A piece of a synchronous step: it is the last one, and the step is prepared with it.
    pub const LAST: u16 = 32;
    /// Pull without CREATE: rows that do not exist read as zeros, not as what they would be.
    pub const ZEROS: u16 = 64;
    /// Push, PushDense, SetDense, Set, Add: part of a change that is too long for a frame. All parts have the same `seq`, and
    /// the change counts, as one, with the last of them.
    pub const PART: u16 = 128;
    /// The first part: what came of an earlier attempt is forgotten.
    pub const FIRST: u16 = 256;
    /// Not the last part.
    pub const MORE: u16 = 512;
    /// Push, PushDense of a step: gradients that count by 1 / trainers, and by more if fewer take part in the step.
    pub const MEAN: u16 = 1024;
    /// Push, PushDense, Rows: the floats are bfloat16, two bytes each. Pull: those of the answer may be.
    pub const NARROW: u16 = 2048;
}

const OPS: [Op; 33] = [
    Op::Hello,
    Op::Proof,
    Op::Create,
    Op::Pull,
    Op::Push,
    Op::PullDense,
    Op::PushDense,
    Op::SetDense,
    Op::Set,
    Op::Add,
    Op::Changed,
    Op::LearningRate,
    Op::Shrink,
    Op::Prepare,
    Op::Commit,
    Op::Abort,
    Op::Barrier,
    Op::Beat,
    Op::Done,
    Op::Save,
    Op::Load,
    Op::Status,
    Op::Gather,
    Op::Take,
    Op::Post,
    Op::Challenge,
    Op::Welcome,
    Op::Ok,
    Op::Rows,
    Op::Json,
    Op::Wait,
    Op::Error,
    Op::Bytes,
];

impl Op {
    pub fn from_byte(byte: u8) -> Option<Op> {
        OPS.into_iter().find(|op| *op as u8 == byte)
    }

    pub fn is_request(self) -> bool {
        (self as u8) < 128
    }
}

/// Forty bytes, in this order: magic u32, version u8, op u8, flags u16, table u32, rows u32, dim u32, client u32, seq u64,
/// length u64.
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

/// Why forty bytes are no header of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAHeader {
    /// The other side speaks something else altogether.
    Foreign,
    /// It is umiak, of another version of the protocol.
    Version(u8),
    UnknownOp(u8),
}

impl Header {
    /// A header with nothing but an operation; the rest is zero.
    pub fn of(op: Op) -> Header {
        Header { op, flags: 0, table: 0, rows: 0, dim: 0, client: 0, seq: 0, length: 0 }
    }

    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4] = VERSION;
        bytes[5] = self.op as u8;
        bytes[6..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.table.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.rows.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.dim.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.client.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.seq.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; HEADER]) -> Result<Header, NotAHeader> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u32_at(0) != MAGIC {
            return Err(NotAHeader::Foreign);
        }
        if bytes[4] != VERSION {
            return Err(NotAHeader::Version(bytes[4]));
        }
        let op = Op::from_byte(bytes[5]).ok_or(NotAHeader::UnknownOp(bytes[5]))?;
        let flags = u16::from_le_bytes([bytes[6], bytes[7]]);
        Ok(Header {
            op,
            flags,
            table: u32_at(8),
            rows: u32_at(12),
            dim: u32_at(16),
            client: u32_at(20),
            seq: u64_at(24),
            length: u64_at(32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_and_field_comes_back() {
        for byte in 0..=255 {
            if let Some(op) = Op::from_byte(byte) {
                assert_eq!(op as u8, byte);
                let header =
                    Header { flags: 7, table: 1, rows: 2, dim: 3, client: 4, seq: u64::MAX - 5, length: 6, op };
                assert_eq!(Header::decode(&header.encode()), Ok(header));
            }
        }
        assert_eq!(OPS.len(), (0..=255).filter(|byte| Op::from_byte(*byte).is_some()).count());
    }

    #[test]
    fn what_is_no_header_says_why() {
        let mut bytes = Header::of(Op::Beat).encode();
        bytes[5] = 99;
        assert_eq!(Header::decode(&bytes), Err(NotAHeader::UnknownOp(99)));
        bytes[4] = 9;
        assert_eq!(Header::decode(&bytes), Err(NotAHeader::Version(9)));
        bytes[0] = b'G';
        assert_eq!(Header::decode(&bytes), Err(NotAHeader::Foreign));
    }
}
