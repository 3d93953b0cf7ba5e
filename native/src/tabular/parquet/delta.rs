//! A decider: DELTA_BINARY_PACKED, integers as differences in blocks, each with the number of bits that it needs.

use super::hybrid::bits;
use crate::tabular::fault::{Fault, Result};

/// Miniblocks of more values than this are refused; usual are 32.
const LARGEST: u64 = 1 << 16;

/// A place in such a stream.
#[derive(Clone, Debug)]
pub struct Delta {
    at: usize,
    end: usize,
    per_block: usize,
    miniblocks: usize,
    /// Values that were not given out yet.
    left: usize,
    last: i64,
    first: bool,
    least: i64,
    /// Bits of each miniblock of the block, and which comes next.
    widths: Vec<u8>,
    next: usize,
    /// Of the miniblock: its bits, values that are left of it, and the place of the next one.
    width: u32,
    in_miniblock: usize,
    bit: usize,
}

fn wrong() -> Fault {
    Fault::damaged("differences end too early, or are damaged")
}

impl Delta {
    pub fn new(bytes: &[u8], at: usize, end: usize) -> Result<Self> {
        let mut delta = Self {
            at,
            end,
            per_block: 0,
            miniblocks: 0,
            left: 0,
            last: 0,
            first: true,
            least: 0,
            widths: Vec::new(),
            next: 0,
            width: 0,
            in_miniblock: 0,
            bit: 0,
        };
        let (block, count) = (delta.varint(bytes)?, delta.varint(bytes)?);
        delta.left = usize::try_from(delta.varint(bytes)?).map_err(|_| wrong())?;
        delta.last = delta.zigzag(bytes)?;
        if block == 0
            || count == 0
            || block % count != 0
            || block / count % 8 != 0
            || block / count > LARGEST
            || count > 1024
        {
            return Err(wrong());
        }
        delta.per_block = block as usize;
        delta.miniblocks = count as usize;
        Ok(delta)
    }

    pub fn read(&mut self, bytes: &[u8], out: &mut [i64]) -> Result<()> {
        if out.len() > self.left {
            return Err(wrong());
        }
        for value in &mut *out {
            if self.first {
                self.first = false;
            } else {
                if self.in_miniblock == 0 {
                    self.miniblock(bytes)?;
                }
                let difference = match self.width {
                    0 => 0,
                    width @ 1..=57 => bits(bytes, self.bit, width),
                    width => bits(bytes, self.bit, 32) | bits(bytes, self.bit + 32, width - 32) << 32,
                };
                self.bit += self.width as usize;
                self.in_miniblock -= 1;
                self.last = self.last.wrapping_add(self.least).wrapping_add(difference as i64);
            }
            *value = self.last;
        }
        self.left -= out.len();
        Ok(())
    }

    /// Where the stream ends: all of it is passed over, by its widths alone.
    pub fn finish(mut self, bytes: &[u8]) -> Result<usize> {
        let mut left = self.left.saturating_sub(usize::from(self.first));
        left -= left.min(self.in_miniblock);
        while left > 0 {
            self.miniblock(bytes)?;
            left -= left.min(self.in_miniblock);
        }
        Ok(self.at)
    }

    fn miniblock(&mut self, bytes: &[u8]) -> Result<()> {
        if self.next == self.widths.len() {
            self.least = self.zigzag(bytes)?;
            let widths = bytes[..self.end].get(self.at..self.at + self.miniblocks).ok_or_else(wrong)?;
            self.widths.clear();
            self.widths.extend_from_slice(widths);
            self.at += self.miniblocks;
            self.next = 0;
        }
        self.width = u32::from(self.widths[self.next]);
        self.next += 1;
        self.in_miniblock = self.per_block / self.miniblocks;
        self.bit = self.at * 8;
        let size = self.in_miniblock / 8 * self.width as usize;
        if self.width > 64 || size > self.end - self.at {
            return Err(wrong());
        }
        self.at += size;
        Ok(())
    }

    fn zigzag(&mut self, bytes: &[u8]) -> Result<i64> {
        let value = self.varint(bytes)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn varint(&mut self, bytes: &[u8]) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *bytes[..self.end].get(self.at).ok_or_else(wrong)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(wrong())
    }
}
