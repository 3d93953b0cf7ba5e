//! A decider: packed bytes of a page, unpacked. Never into more memory than was announced, nor than packed bytes can become.

use std::io::Read;

use crate::tabular::fault::{Fault, Result};

/// A page of more bytes than this, unpacked, is refused.
pub const LARGEST_PAGE: usize = 1 << 30;
/// So many bytes behind a page can be read, and are not used.
pub const PAD: usize = 16;

/// Appends what `packed` becomes: exactly `size` bytes.
pub fn unpack(codec: i32, packed: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
    if size > LARGEST_PAGE {
        return Err(Fault::unsupported(format!("a page of {size} bytes: up to {LARGEST_PAGE} are read")));
    }
    let before = out.len();
    match codec {
        0 => out.extend_from_slice(packed),
        1 => {
            // A copy of 64 bytes takes 2 at least.
            room(packed, size, 64)?;
            if snap::raw::decompress_len(packed).ok() != Some(size) {
                return Err(wrong());
            }
            out.resize(before + size, 0);
            snap::raw::Decoder::new().decompress(packed, &mut out[before..]).map_err(|_| wrong())?;
        }
        2 => streamed(flate2::read::MultiGzDecoder::new(packed), size, out)?,
        6 => streamed(zstd::stream::read::Decoder::with_buffer(packed)?, size, out)?,
        7 => {
            room(packed, size, 256)?;
            out.resize(before + size, 0);
            let got = lz4_flex::block::decompress_into(packed, &mut out[before..]).map_err(|_| wrong())?;
            out.truncate(before + got);
        }
        other => return Err(refused(other)),
    }
    if out.len() - before != size {
        return Err(wrong());
    }
    Ok(())
}

/// Whether columns packed so can be read.
pub fn check(codec: i32) -> Result<()> {
    if matches!(codec, 0..=2 | 6 | 7) { Ok(()) } else { Err(refused(codec)) }
}

fn refused(codec: i32) -> Fault {
    let name = match codec {
        3 => "lzo",
        4 => "brotli",
        5 => "lz4 in Hadoop's frames",
        _ => return Fault::damaged(format!("no codec is known by the number {codec}")),
    };
    Fault::unsupported(format!("its pages are packed with {name}; snappy, gzip, zstd and lz4_raw are read"))
}

fn room(packed: &[u8], size: usize, most: usize) -> Result<()> {
    if size > packed.len().saturating_mul(most).saturating_add(64) { Err(wrong()) } else { Ok(()) }
}

fn streamed(reader: impl Read, size: usize, out: &mut Vec<u8>) -> Result<()> {
    out.reserve(size.min(1 << 20));
    reader.take(size as u64 + 1).read_to_end(out).map(drop).map_err(|_| wrong())
}

fn wrong() -> Fault {
    Fault::damaged("a page can't be unpacked")
}
