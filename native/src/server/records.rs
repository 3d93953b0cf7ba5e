//! What stands in the log: who asked, and the frame as it came; or a decision of the server's own. Values and two
//! directions; what a record does is said in `applications`.
//!
//! ```text
//! kind u64 | rank u64 | incarnation u64 | header, forty bytes | payload       an operation
//! kind u64 | JSON                                                            a decision
//! kind u64 | turn u64 | bytes of the name u64 | strings u64 | name | strings  a gather that is complete
//! ```

use serde::{Deserialize, Serialize};

use crate::wire::codec;
use crate::wire::frame::{HEADER, Header};

const OPERATION: u64 = 1;
const DECISION: u64 = 2;
const GATHERED: u64 = 3;
const HEAD: usize = 24 + HEADER;

/// What the server decided by itself, and a replay can't find out again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Decision {
    /// A trainer was given up, and the others go on.
    Lost {
        rank: u32,
    },
    /// A trainer's new connection brings its unprepared pieces again.
    Untied {
        rank: u32,
    },
    Barrier {
        name: String,
        turn: u64,
    },
    /// A checkpoint in this mode changes the statistics of the rows that it holds.
    Saved {
        mode: crate::table::spec::SaveMode,
    },
}

/// Who asked for an operation. Observers have no rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    pub rank: Option<u32>,
    pub incarnation: u64,
}

#[derive(Debug, PartialEq)]
pub enum Record<'a> {
    Operation(Author, Header, &'a [u8]),
    Decision(Decision),
    /// A decision too, and one that would be four times as long as JSON: name, turn, how many strings, and these joined.
    Gathered(&'a str, u64, u32, &'a [u8]),
}

/// The beginning of an operation's record; its payload follows.
pub fn operation_head(author: Author, header: &Header) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[0..8].copy_from_slice(&OPERATION.to_le_bytes());
    bytes[8..16].copy_from_slice(&author.rank.map_or(u64::MAX, u64::from).to_le_bytes());
    bytes[16..24].copy_from_slice(&author.incarnation.to_le_bytes());
    bytes[24..].copy_from_slice(&header.encode());
    bytes
}

pub fn decision(decision: &Decision) -> Vec<u8> {
    let mut bytes = DECISION.to_le_bytes().to_vec();
    // A value of ours always has a text.
    bytes.extend(serde_json::to_vec(decision).unwrap_or_default());
    bytes
}

/// The beginning of a gather's record; its name and its strings follow.
pub fn gathered_head(name: &str, turn: u64, count: u32) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip([GATHERED, turn, name.len() as u64, u64::from(count)]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

pub fn decode(bytes: &[u8]) -> Result<Record<'_>, String> {
    let (kind, rest) = split_u64(bytes).ok_or("it is too short")?;
    match kind {
        OPERATION => {
            let (rank, rest) = split_u64(rest).ok_or("it is too short")?;
            let (incarnation, rest) = split_u64(rest).ok_or("it is too short")?;
            let (header, payload) = rest.split_first_chunk::<HEADER>().ok_or("it is too short")?;
            let header = Header::decode(header).map_err(|error| format!("its header is not understood: {error:?}"))?;
            if header.length != payload.len() as u64 {
                return Err(format!("{} bytes follow its header instead of {}", payload.len(), header.length));
            }
            let rank = match rank {
                u64::MAX => None,
                rank => Some(u32::try_from(rank).map_err(|_| format!("there is no trainer {rank}"))?),
            };
            Ok(Record::Operation(Author { rank, incarnation }, header, payload))
        }
        DECISION => serde_json::from_slice(rest)
            .map(Record::Decision)
            .map_err(|error| format!("its text is not understood: {error}")),
        GATHERED => {
            let (turn, rest) = split_u64(rest).ok_or("it is too short")?;
            let (length, rest) = split_u64(rest).ok_or("it is too short")?;
            let (count, rest) = split_u64(rest).ok_or("it is too short")?;
            let length = usize::try_from(length).map_err(|_| "its name is too long")?;
            let (name, strings) = rest.split_at_checked(length).ok_or("it is too short")?;
            let name = std::str::from_utf8(name).map_err(|_| "its name is no text")?;
            let count = u32::try_from(count).map_err(|_| format!("there are no {count} trainers"))?;
            codec::split(strings, count).ok_or("its strings are not whole")?;
            Ok(Record::Gathered(name, turn, count, strings))
        }
        other => Err(format!("there is no kind of record {other}: a newer umiak may have written it")),
    }
}

fn split_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::Op;

    #[test]
    fn what_is_written_is_read() {
        let header = Header { rows: 1, seq: 9, length: 3, ..Header::of(Op::Push) };
        for author in [Author { rank: Some(3), incarnation: 7 }, Author { rank: None, incarnation: 0 }] {
            let mut bytes = operation_head(author, &header).to_vec();
            bytes.extend(b"abc");
            assert_eq!(decode(&bytes), Ok(Record::Operation(author, header, b"abc")));
            assert!((0..bytes.len()).all(|length| decode(&bytes[..length]).is_err()));
        }
        let lost = Decision::Lost { rank: 2 };
        assert_eq!(decode(&decision(&lost)), Ok(Record::Decision(lost)));
        assert!(decode(&4u64.to_le_bytes()).is_err());
        let strings = codec::join(&[b"x", b"", b"yz"]);
        let bytes = [&gathered_head("näme", 6, 3)[..], "näme".as_bytes(), &strings].concat();
        assert_eq!(decode(&bytes), Ok(Record::Gathered("näme", 6, 3, &strings)));
        assert!((0..bytes.len()).all(|length| decode(&bytes[..length]).is_err()));
    }
}
