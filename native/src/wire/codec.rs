//! What may follow a header, and how it is read. Deciders and a buffer; no sockets.
//!
//! `check` looks at a header alone: whether the length fits the operation and its counts, and whether it is within the
//! limits. Only then is memory set aside, and that in steps as bytes arrive, so that a length that is merely claimed
//! costs nothing.

use std::borrow::Cow;
use std::mem::size_of;

use super::frame::{HEADER, Header, NotAHeader, Op, VERSION, flag};
use super::narrow;
use crate::table::spec::MOST_COLUMNS;

#[cfg(target_endian = "big")]
compile_error!("keys and rows are taken from the wire as they are, and the wire is little-endian");

/// What follows a header at most, in bytes: unless said otherwise, before the handshake is done, and as text.
pub const MOST_FRAME: u64 = 256 << 20;
pub const MOST_FROM_STRANGERS: u64 = 4 << 10;
pub const MOST_TEXT: u64 = 16 << 20;
/// The name of a barrier, a gather or a counter. Names are kept for ever.
pub const MOST_NAME: u64 = 256;
/// What one trainer brings to a gather.
pub const MOST_GATHERED: u64 = 1 << 20;

/// A frame that is not accepted. The connection ends after saying so: what follows cannot be told apart any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub message: String,
}

impl Fault {
    pub fn new(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into() }
    }
}

impl From<NotAHeader> for Fault {
    fn from(error: NotAHeader) -> Fault {
        match error {
            NotAHeader::Foreign => Fault::new("foreign", "the other side does not speak umiak's protocol"),
            NotAHeader::Version(theirs) => Fault::new(
                "other-version",
                format!("the other side speaks version {theirs} of the protocol, this side version {VERSION}"),
            ),
            NotAHeader::UnknownOp(op) => Fault::new("bad-frame", format!("there is no operation {op}")),
        }
    }
}

/// Decodes a header and checks what it announces.
pub fn read_header(bytes: &[u8; HEADER], most: u64) -> Result<Header, Fault> {
    let header = Header::decode(bytes)?;
    check(&header, most)?;
    Ok(header)
}

/// Whether the announced length fits the operation, its counts, and the limit.
pub fn check(header: &Header, most: u64) -> Result<(), Fault> {
    let (rows, dim) = (u128::from(header.rows), u128::from(header.dim));
    let keys = rows * size_of::<u64>() as u128;
    let wide = rows * dim * size_of::<f32>() as u128;
    let floats = if is_narrow(header) { wide / 2 } else { wide };
    let length = u128::from(header.length);
    let fits = match header.op {
        Op::Hello
        | Op::Proof
        | Op::Create
        | Op::Barrier
        | Op::Save
        | Op::Load
        | Op::Challenge
        | Op::Welcome
        | Op::Json
        | Op::Wait
        | Op::Error => rows == 0 && dim == 0 && length <= u128::from(MOST_TEXT),
        Op::Take => rows == 0 && dim == 0 && header.length <= MOST_NAME,
        Op::Gather | Op::Post => {
            let brought = header.length.saturating_sub(u64::from(header.rows));
            if brought > MOST_GATHERED {
                let op = header.op;
                let words = format!("{op:?} announces {brought} bytes of one trainer, the limit is {MOST_GATHERED}");
                return Err(Fault::new("too-long", words));
            }
            rows <= length && rows <= u128::from(MOST_NAME) && dim == 0
        }
        Op::Bytes => dim == 0 && length >= keys,
        Op::Pull => length == keys,
        Op::Push | Op::Set | Op::Add => dim > 0 && length == keys + floats,
        Op::PushDense | Op::SetDense => dim == 1 && length == floats,
        Op::LearningRate => rows == 1 && dim == 1 && length == floats,
        Op::Rows if header.flags & flag::KEYED != 0 => length == keys + floats,
        Op::Rows => length == floats,
        Op::PullDense
        | Op::Changed
        | Op::Shrink
        | Op::Prepare
        | Op::Commit
        | Op::Abort
        | Op::Beat
        | Op::Done
        | Op::Status
        | Op::Ok => length == 0,
    };
    // What is narrow on the way becomes wide where it arrives.
    let bytes = if is_narrow(header) { length + wide / 2 } else { length };
    if bytes > u128::from(most) {
        return Err(Fault::new("too-long", format!("{:?} announces {bytes} bytes, the limit is {most}", header.op)));
    }
    if !fits || dim > MOST_COLUMNS as u128 + 8 {
        return Err(Fault::new(
            "bad-frame",
            format!(
                "{:?} with {} rows of {} columns cannot have {} bytes",
                header.op, header.rows, header.dim, header.length
            ),
        ));
    }
    Ok(())
}

/// Whether the floats that follow a header are bfloat16.
pub fn is_narrow(header: &Header) -> bool {
    let can_be = match header.op {
        Op::Push | Op::PushDense => true,
        Op::Rows => header.flags & flag::KEYED == 0,
        _ => false,
    };
    can_be && header.flags & flag::NARROW != 0
}

/// The keys at the start of a payload, and what follows them. Copied only if the bytes do not lie on an address for
/// u64, which those of a connection always do.
pub fn keys(payload: &[u8], rows: u32) -> Option<(Cow<'_, [u64]>, &[u8])> {
    let (keys, rest) = payload.split_at_checked(rows as usize * size_of::<u64>())?;
    // SAFETY: any bits are a u64.
    let (before, aligned, _) = unsafe { keys.align_to::<u64>() };
    let keys = if before.is_empty() {
        Cow::Borrowed(aligned)
    } else {
        keys.chunks_exact(8).map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])).collect()
    };
    Some((keys, rest))
}

/// Bytes as floats; copied only if they do not lie on an address for f32.
pub fn floats(payload: &[u8]) -> Cow<'_, [f32]> {
    // SAFETY: any bits are an f32.
    let (before, aligned, _) = unsafe { payload.align_to::<f32>() };
    if before.is_empty() {
        Cow::Borrowed(aligned)
    } else {
        payload.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

/// Keys as the bytes that go over the wire.
pub fn key_bytes(keys: &[u64]) -> &[u8] {
    // SAFETY: a u64 is eight bytes without padding, and the machine is little-endian.
    unsafe { std::slice::from_raw_parts(keys.as_ptr().cast(), size_of_val(keys)) }
}

/// Floats as the bytes that go over the wire.
pub fn float_bytes(floats: &[f32]) -> &[u8] {
    // SAFETY: an f32 is four bytes without padding, and the machine is little-endian.
    unsafe { std::slice::from_raw_parts(floats.as_ptr().cast(), size_of_val(floats)) }
}

/// Floats as bytes to receive into.
pub fn float_bytes_mut(floats: &mut [f32]) -> &mut [u8] {
    // SAFETY: an f32 is four bytes without padding, any bits are one, and the machine is little-endian.
    unsafe { std::slice::from_raw_parts_mut(floats.as_mut_ptr().cast(), size_of_val(floats)) }
}

/// Keys as bytes to receive into.
pub fn key_bytes_mut(keys: &mut [u64]) -> &mut [u8] {
    // SAFETY: a u64 is eight bytes without padding, any bits are one, and the machine is little-endian.
    unsafe { std::slice::from_raw_parts_mut(keys.as_mut_ptr().cast(), size_of_val(keys)) }
}

/// Byte strings as they go over the wire, to disk and back: their lengths, then themselves.
pub fn join(strings: &[&[u8]]) -> Vec<u8> {
    let lengths = strings.iter().flat_map(|string| (string.len() as u64).to_le_bytes());
    let mut bytes: Vec<u8> = lengths.collect();
    strings.iter().for_each(|string| bytes.extend_from_slice(string));
    bytes
}

/// So many byte strings; `None` if the bytes are not exactly those.
pub fn split(bytes: &[u8], count: u32) -> Option<Vec<&[u8]>> {
    let (lengths, mut rest) = keys(bytes, count)?;
    let mut strings = Vec::with_capacity(lengths.len());
    for length in lengths.iter() {
        let (string, behind) = rest.split_at_checked(usize::try_from(*length).ok()?)?;
        strings.push(string);
        rest = behind;
    }
    rest.is_empty().then_some(strings)
}

/// Where a payload is received: always on an address for u64, kept from frame to frame.
#[derive(Default)]
pub struct Buffer {
    words: Vec<u64>,
    /// The most bytes used since `settle` last looked.
    used: usize,
    quiet: u32,
}

impl Buffer {
    const STEP: usize = 1 << 20;
    /// What a connection may keep while it is in use.
    const KEPT: usize = 4 << 20;

    /// Room for bytes from `have` on, towards `length` in all: at least one and not much more than there are already.
    pub fn room(&mut self, have: usize, length: usize) -> &mut [u8] {
        if self.words.len() * 8 < length {
            let step = Self::STEP.max(2 * have).max(self.words.len() * 8).min(length);
            if have == self.words.len() * 8 || self.words.is_empty() {
                self.words.resize(step.div_ceil(8), 0);
            }
        }
        self.used = self.used.max(length);
        let end = length.min(self.words.len() * 8);
        &mut key_bytes_mut(&mut self.words)[have..end]
    }

    pub fn bytes(&self, length: usize) -> &[u8] {
        &key_bytes(&self.words)[..length]
    }

    /// Makes floats of the bfloat16 numbers that stand behind so many bytes of keys.
    pub fn widen(&mut self, keys: usize, count: usize) {
        let length = keys + count * size_of::<f32>();
        self.words.resize(self.words.len().max(length.div_ceil(8)), 0);
        self.used = self.used.max(length);
        narrow::widen_in_place(&mut key_bytes_mut(&mut self.words)[keys..length], count);
    }

    /// After each frame: a buffer that one big frame blew up goes back once a few frames did without it.
    pub fn settle(&mut self) {
        let capacity = self.words.capacity() * 8;
        if capacity > Self::KEPT && self.used < capacity / 4 {
            self.quiet += 1;
            if self.quiet >= 16 {
                self.release();
            }
        } else {
            self.quiet = 0;
        }
        self.used = 0;
    }

    pub fn release(&mut self) {
        self.words = Vec::new();
        self.quiet = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_must_fit_the_counts() {
        let push = Header { rows: 3, dim: 4, length: 3 * 8 + 3 * 4 * 4, ..Header::of(Op::Push) };
        assert!(check(&push, MOST_FRAME).is_ok());
        assert_eq!(check(&push, 71).unwrap_err().code, "too-long");
        assert_eq!(check(&Header { length: 71, ..push }, MOST_FRAME).unwrap_err().code, "bad-frame");
        let huge = Header { rows: u32::MAX, dim: u32::MAX, length: 8, ..Header::of(Op::Push) };
        assert!(check(&huge, u64::MAX).is_err());
        assert!(check(&Header { length: u64::MAX, ..huge }, u64::MAX).is_err());
        assert!(check(&Header { length: 1, ..Header::of(Op::Beat) }, MOST_FRAME).is_err());
    }

    #[test]
    fn narrow_floats_take_half_the_bytes_and_count_as_wide_ones() {
        let push = Header { rows: 3, dim: 5, flags: flag::NARROW, length: 3 * 8 + 3 * 5 * 2, ..Header::of(Op::Push) };
        assert!(check(&push, 84).is_ok());
        assert_eq!(check(&push, 83).unwrap_err().code, "too-long", "it is widened where it arrives");
        assert_eq!(check(&Header { flags: 0, ..push }, MOST_FRAME).unwrap_err().code, "bad-frame");
        for op in [Op::Set, Op::Add] {
            assert!(check(&Header { op, ..push }, MOST_FRAME).is_err(), "only gradients can be narrow");
        }
        let keyed = Header { flags: flag::NARROW | flag::KEYED, ..push };
        assert!(check(&Header { op: Op::Rows, ..keyed }, MOST_FRAME).is_err());
    }

    #[test]
    fn a_buffer_is_widened_behind_its_keys() {
        let mut buffer = Buffer::default();
        let payload: Vec<u8> =
            [7u64.to_le_bytes().to_vec(), [0x3f80u16, 0xc000].map(u16::to_le_bytes).concat()].concat();
        buffer.room(0, payload.len()).copy_from_slice(&payload);
        buffer.widen(8, 2);
        let (keys, rest) = keys(buffer.bytes(16), 1).unwrap();
        assert_eq!((&keys[..], &floats(rest)[..]), (&[7][..], &[1.0, -2.0][..]));
    }

    #[test]
    fn names_and_what_is_gathered_have_limits() {
        let gather = |rows: u32, length: u64| {
            let header = Header { rows, length, ..Header::of(Op::Gather) };
            check(&header, MOST_FRAME).map_err(|fault| fault.code)
        };
        assert_eq!(gather(256, 256 + MOST_GATHERED), Ok(()));
        assert_eq!(gather(0, 0), Ok(()));
        assert_eq!(gather(256, 257 + MOST_GATHERED), Err("too-long"));
        assert_eq!(gather(0, u64::MAX), Err("too-long"));
        assert_eq!(gather(257, 257), Err("bad-frame"));
        assert_eq!(gather(u32::MAX, u64::from(u32::MAX)), Err("too-long"), "longer than any frame");
        assert_eq!(gather(3, 2), Err("bad-frame"));
        let take = |length: u64| check(&Header { length, ..Header::of(Op::Take) }, MOST_FRAME).is_ok();
        assert!(take(0) && take(MOST_NAME) && !take(MOST_NAME + 1));
    }

    #[test]
    fn strings_come_back_as_they_were_and_nothing_else_is_taken_for_some() {
        let strings = [&b"ab"[..], b"", b"cde"];
        let bytes = join(&strings);
        assert_eq!(split(&bytes, 3).unwrap(), strings);
        assert!(split(&join(&[]), 0).unwrap().is_empty());
        assert!((0..bytes.len()).all(|length| split(&bytes[..length], 3).is_none()));
        assert!(split(&[bytes.clone(), vec![0]].concat(), 3).is_none());
        assert!(split(&bytes, 2).is_none() && split(&bytes, 4).is_none() && split(&bytes, u32::MAX).is_none());
        let mut huge = bytes.clone();
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(split(&huge, 3).is_none());
    }

    #[test]
    fn views_agree_wherever_the_bytes_lie() {
        let bytes: Vec<u8> = (0..49).collect();
        for offset in 0..9 {
            let (keys, rest) = keys(&bytes[offset..offset + 40], 3).unwrap();
            assert_eq!(keys[1], u64::from_le_bytes(bytes[offset + 8..offset + 16].try_into().unwrap()));
            assert_eq!(
                floats(rest)[2].to_bits(),
                u32::from_le_bytes(bytes[offset + 32..offset + 36].try_into().unwrap())
            );
            assert_eq!((keys.len(), floats(rest).len()), (3, 4));
        }
        assert!(super::keys(&bytes, 7).is_none());
    }

    #[test]
    fn a_buffer_grows_with_what_arrives_and_goes_back() {
        let mut buffer = Buffer::default();
        let length = 100 << 20;
        assert!(buffer.room(0, length).len() <= Buffer::STEP);
        let mut have = 0;
        while have < length {
            let room = buffer.room(have, length).len();
            assert!(room > 0);
            have += room;
        }
        assert_eq!(buffer.bytes(length).len(), length);
        for _ in 0..20 {
            buffer.settle();
            buffer.room(0, 100);
        }
        assert!(buffer.words.capacity() * 8 <= Buffer::KEPT);
    }
}
