//! A decider: runs of one value, mixed with values packed into a fixed number of bits. Levels and indices of dictionaries are
//! stored so. It reads as many at a time as are asked for.

use super::codecs::PAD;
use crate::tabular::fault::{Fault, Result};

/// A place in such a stream. The bytes are given with each call, and have `PAD` more behind their end.
#[derive(Clone, Debug)]
pub struct Hybrid {
    at: usize,
    end: usize,
    width: u32,
    run: usize,
    value: u32,
    packed: usize,
    bit: usize,
}

fn wrong() -> Fault {
    Fault::damaged("runs and packed values end too early")
}

/// `width` bits (up to 57) from a bit on; it may read 7 bytes behind them.
#[inline]
pub fn bits(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let mut word = [0; 8];
    match bytes.get(bit / 8..bit / 8 + 8) {
        Some(eight) => word.copy_from_slice(eight),
        None => return 0,
    }
    u64::from_le_bytes(word) >> (bit % 8) & ((1u64 << width) - 1)
}

impl Hybrid {
    /// From `at` to `end`, values of `width` bits, up to 32.
    pub fn new(at: usize, end: usize, width: u32) -> Result<Self> {
        if width > 32 || end < at {
            return Err(Fault::damaged("values of more than 32 bits"));
        }
        Ok(Self { at, end, width, run: 0, value: 0, packed: 0, bit: 0 })
    }

    /// How many of one value come next, if it is a run.
    pub fn run(&mut self, bytes: &[u8]) -> Result<Option<(u32, usize)>> {
        self.more(bytes)?;
        Ok((self.run > 0).then_some((self.value, self.run)))
    }

    /// Passes over values of the run that comes next.
    pub fn pass(&mut self, count: usize) {
        self.run -= count.min(self.run);
    }

    pub fn read(&mut self, bytes: &[u8], out: &mut [u32]) -> Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            self.more(bytes)?;
            let left = out.len() - filled;
            if self.run > 0 {
                let count = left.min(self.run);
                out[filled..filled + count].fill(self.value);
                self.run -= count;
                filled += count;
                continue;
            }
            let count = left.min(self.packed);
            self.unpack(bytes, &mut out[filled..filled + count]);
            self.packed -= count;
            filled += count;
        }
        Ok(())
    }

    #[inline]
    fn unpack(&mut self, bytes: &[u8], out: &mut [u32]) {
        let width = self.width as usize;
        for value in &mut *out {
            *value = bits(bytes, self.bit, width as u32) as u32;
            self.bit += width;
        }
    }

    /// The next run or packed values, if the last are used up.
    fn more(&mut self, bytes: &[u8]) -> Result<()> {
        debug_assert!(bytes.len() >= self.end + PAD);
        while self.run == 0 && self.packed == 0 {
            let head = self.varint(bytes)?;
            if head & 1 == 0 {
                self.run = (head >> 1) as usize;
                let count = self.width.div_ceil(8) as usize;
                let Some(value) = bytes[..self.end].get(self.at..self.at + count) else { return Err(wrong()) };
                self.value = value.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
                self.at += count;
                continue;
            }
            let groups = (head >> 1) as usize;
            let count = groups.checked_mul(self.width as usize).ok_or_else(wrong)?;
            // Some writers leave out the end of the last group.
            let there = count.min(self.end - self.at);
            self.packed = if self.width == 0 {
                groups.checked_mul(8).ok_or_else(wrong)?
            } else {
                there * 8 / self.width as usize
            };
            self.packed = self.packed.min(groups.saturating_mul(8));
            self.bit = self.at * 8;
            self.at += there;
            if self.packed == 0 && self.at >= self.end {
                return Err(wrong());
            }
        }
        Ok(())
    }

    fn varint(&mut self, bytes: &[u8]) -> Result<u64> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(bytes: &[u8]) -> Vec<u8> {
        let mut all = bytes.to_vec();
        all.resize(bytes.len() + PAD, 0xff);
        all
    }

    #[test]
    fn runs_and_packed_values_are_read_in_any_steps() {
        // Five of 3, then the eight values 0 to 7 in three bits each.
        let bytes = padded(&[10, 3, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        for step in 1..=13 {
            let mut hybrid = Hybrid::new(0, 6, 3).unwrap();
            let mut got = Vec::new();
            while got.len() < 13 {
                let mut some = vec![0; step.min(13 - got.len())];
                hybrid.read(&bytes, &mut some).unwrap();
                got.extend(some);
            }
            assert_eq!(got, [3, 3, 3, 3, 3, 0, 1, 2, 3, 4, 5, 6, 7]);
            assert!(hybrid.read(&bytes, &mut [0]).is_err());
        }
    }

    #[test]
    fn what_ends_too_early_is_damaged() {
        for bytes in [&[][..], &[0x80], &[2], &[0, 0, 0, 0], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            let padded = padded(bytes);
            let mut hybrid = Hybrid::new(0, bytes.len(), 20).unwrap();
            assert!(hybrid.read(&padded, &mut [0; 4]).is_err(), "{bytes:?}");
        }
    }
}
