//! Pieces: frames that wait for their time, because their step or their other parts are not here yet. Values, and the
//! buffers that they are copied into.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::poison::Unpoisoned;
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};

/// Part of a synchronous step: a frame that waits for its time.
pub struct Piece {
    pub header: Header,
    /// The payload, on an address for u64.
    words: Vec<u64>,
}

impl Piece {
    /// A copy, in memory that was used before.
    pub fn new(header: &Header, payload: &[u8], mut words: Vec<u64>) -> Self {
        words.clear();
        let whole = (payload.len() / 8) as u32;
        if let Some((copied, rest)) = codec::keys(payload, whole) {
            words.extend_from_slice(&copied);
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            words.push(u64::from_le_bytes(last));
        }
        Self { header: *header, words }
    }

    /// The change of which these are the parts.
    pub fn join(parts: &[&Piece]) -> Option<Self> {
        let last = parts.last()?.header;
        let (mut header, keyed) = (last, matches!(last.op, Op::Push | Op::Set | Op::Add));
        header.flags &= !(flag::PART | flag::FIRST | flag::MORE);
        header.rows = parts.iter().map(|part| part.header.rows).sum();
        header.length = parts.iter().map(|part| part.header.length).sum();
        let mut words = vec![0; (header.length as usize).div_ceil(8) + 1];
        let mut room = &mut codec::key_bytes_mut(&mut words)[..];
        let mut put = |bytes: &[u8]| {
            let (here, rest) = std::mem::take(&mut room).split_at_mut(bytes.len());
            here.copy_from_slice(bytes);
            room = rest;
        };
        // All keys come before all rows.
        let split = |part: &Piece| if keyed { 8 * part.header.rows as usize } else { 0 };
        parts.iter().for_each(|part| put(&part.payload()[..split(part)]));
        parts.iter().for_each(|part| put(&part.payload()[split(part)..]));
        Some(Self { header, words })
    }

    pub fn payload(&self) -> &[u8] {
        &codec::key_bytes(&self.words)[..self.header.length as usize]
    }
}

/// Buffers of pieces that were applied, for those to come: fresh memory costs more than what is copied into it.
#[derive(Default)]
pub struct BufferPool(Mutex<Vec<Vec<u64>>>);

impl BufferPool {
    /// Words in all that are kept.
    const MOST: usize = 8 << 20;

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u64>>> {
        self.0.lock().unpoisoned()
    }

    pub fn take(&self) -> Vec<u64> {
        self.buffers().pop().unwrap_or_default()
    }

    /// Takes back the buffers of pieces that nobody has any more.
    pub fn put(&self, used: impl Iterator<Item = Arc<Piece>>) {
        let mut buffers = self.buffers();
        let mut kept: usize = buffers.iter().map(Vec::capacity).sum();
        for words in used.filter_map(Arc::into_inner).map(|piece| piece.words) {
            kept += words.capacity();
            if kept > Self::MOST {
                break;
            }
            buffers.push(words);
        }
    }
}

pub enum Joined<'a> {
    Whole(&'a Piece),
    Made(Piece),
}

impl Joined<'_> {
    pub fn piece(&self) -> &Piece {
        match self {
            Joined::Whole(piece) => piece,
            Joined::Made(piece) => piece,
        }
    }
}

/// Those that came in parts are put together. The parts of a trainer follow each other.
pub fn whole_pieces<'a>(pieces: &[&'a Piece]) -> Vec<Joined<'a>> {
    let (mut whole, mut parts) = (Vec::with_capacity(pieces.len()), Vec::new());
    for piece in pieces {
        if piece.header.flags & flag::PART == 0 {
            whole.push(Joined::Whole(piece));
            continue;
        }
        if piece.header.flags & flag::FIRST != 0 {
            parts.clear();
        }
        parts.push(*piece);
        if piece.header.flags & flag::MORE == 0 {
            whole.extend(Piece::join(&parts).map(Joined::Made));
            parts.clear();
        }
    }
    whole
}
