//! A decider: where the fields of many rows of CSV begin and end, looked at 64 bytes at a time. Quotes are understood that are around
//! whole fields; the first row with others ends it.

use super::scan::Marks;

/// Where the fields of whole rows begin and end: the place of the first one, then behind each delimiter or newline that ends
/// a field.
#[derive(Default)]
pub struct Places {
    starts: Vec<u32>,
    count: usize,
    /// Rows among them.
    pub rows: usize,
    /// Whether a field may be in quotes, and whether a newline may be within quotes.
    pub quotes: bool,
    pub newlines_within: bool,
}

impl Places {
    pub fn starts(&self) -> &[u32] {
        &self.starts[..self.count]
    }

    pub fn clear(&mut self) {
        (self.count, self.rows) = (0, 0);
    }

    /// Of the rows that begin at `from` and lie before `to` as a whole. It stops before the first row whose quotes are not
    /// around whole fields: those have to be read by the rules.
    pub fn find(&mut self, bytes: &[u8], from: usize, to: usize, marks: Marks) {
        #[cfg(target_arch = "x86_64")]
        if wide::is_there() {
            // SAFETY: the processor has what it is compiled for.
            return unsafe { wide::find(self, bytes, from, to, marks) };
        }
        self.find_with(bytes, from, to, marks, equal);
    }

    #[inline(always)]
    fn find_with(&mut self, bytes: &[u8], from: usize, to: usize, marks: Marks, equal: impl Fn(&[u8; 64], u8) -> u64) {
        self.clear();
        (self.quotes, self.newlines_within) = (false, false);
        self.room();
        (self.starts[0], self.count) = (from as u32, 1);
        let mut before = Before { inside: 0, end: 1, closed: 0 };
        let mut at = from;
        while at < to {
            let mut last = [0; 64];
            let length = (to - at).min(64);
            let (block, there) = match bytes[at..to].first_chunk::<64>() {
                Some(block) => (block, u64::MAX),
                None => {
                    last[..length].copy_from_slice(&bytes[at..to]);
                    (&last, (1 << length) - 1)
                }
            };
            let mut found = masks(block, marks, &equal);
            found.keep(there);
            let mut good = u64::MAX;
            if found.quotes | before.inside | before.closed != 0 {
                self.quotes = true;
                good = self.quoted(&mut found, &mut before, equal(block, b'\r') & there, there);
            } else {
                before.end = found.ends >> 63;
            }
            self.rows += (found.ends & found.newlines & good).count_ones() as usize;
            self.push(found.ends & good, at);
            if good != u64::MAX {
                break;
            }
            at += 64;
        }
        while self.count > 1 && bytes[self.starts[self.count - 1] as usize - 1] != b'\n' {
            self.count -= 1;
        }
    }

    /// Takes out what is within quotes. Returns which bytes are before the first quote that is not where it should be.
    fn quoted(&mut self, found: &mut Masks, before: &mut Before, returns: u64, there: u64) -> u64 {
        let inside = running_xor(found.quotes) ^ before.inside;
        let closing = found.quotes & !inside;
        self.newlines_within |= found.newlines & inside != 0;
        found.ends &= !inside;
        let after_end = found.ends << 1 | before.end;
        let after_close = closing << 1 | before.closed;
        let opens_late = found.quotes & inside & !(after_end | after_close);
        let goes_on = after_close & there & !(found.ends | found.quotes | returns);
        *before = Before { inside: (inside as i64 >> 63) as u64, end: found.ends >> 63, closed: closing >> 63 };
        match opens_late | goes_on {
            0 => u64::MAX,
            wrong => (wrong & wrong.wrapping_neg()) - 1,
        }
    }

    /// Appends the places behind these bytes.
    #[inline(always)]
    fn push(&mut self, mut ends: u64, at: usize) {
        self.room();
        let count = ends.count_ones() as usize;
        if let Some(into) = self.starts[self.count..].first_chunk_mut::<64>() {
            // Eight at a time, whether there are so many or not: what is too much is written over.
            for eight in into.as_chunks_mut::<8>().0 {
                for place in eight {
                    *place = (at + 1) as u32 + ends.trailing_zeros();
                    ends &= ends.wrapping_sub(1);
                }
                if ends == 0 {
                    break;
                }
            }
        }
        self.count += count;
    }

    #[inline]
    fn room(&mut self) {
        if self.starts.len() < self.count + 64 {
            self.starts.resize(2 * self.count + 1024, 0);
        }
    }
}

/// What the bytes before a block leave: all ones within quotes; one if the last byte ended a field, or closed a quote.
struct Before {
    inside: u64,
    end: u64,
    closed: u64,
}

/// Of 64 bytes, which are delimiters or newlines, which are newlines, and which are quotes.
struct Masks {
    ends: u64,
    newlines: u64,
    quotes: u64,
}

impl Masks {
    fn keep(&mut self, there: u64) {
        self.ends &= there;
        self.newlines &= there;
        self.quotes &= there;
    }
}

#[inline(always)]
fn masks(block: &[u8; 64], marks: Marks, equal: &impl Fn(&[u8; 64], u8) -> u64) -> Masks {
    let newlines = equal(block, b'\n');
    let quotes = marks.quote.map_or(0, |quote| equal(block, quote));
    Masks { ends: newlines | equal(block, marks.delimiter), newlines, quotes }
}

/// From each one to the next, that one not included.
fn running_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Which of 64 bytes are this one.
#[cfg(target_arch = "x86_64")]
#[inline]
fn equal(block: &[u8; 64], byte: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let mut bits = 0;
    for (number, block) in block.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: SSE2 is part of every x86_64, and 16 bytes are read from a block of 16.
        let some = unsafe {
            let block = _mm_loadu_si128(block.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8(byte as i8)))
        };
        bits |= u64::from(some as u32) << (16 * number);
    }
    bits
}

/// The same for processors with AVX2, which nearly all have.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8};

    use super::{Marks, Places};

    pub fn is_there() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt")
    }

    #[target_feature(enable = "avx2,bmi1,popcnt")]
    pub fn find(places: &mut Places, bytes: &[u8], from: usize, to: usize, marks: Marks) {
        places.find_with(bytes, from, to, marks, |block, byte| equal(block, byte));
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn equal(block: &[u8; 64], byte: u8) -> u64 {
        let wanted = _mm256_set1_epi8(byte as i8);
        let half = |at: usize| {
            // SAFETY: 32 bytes are read from one half of 64.
            let half = unsafe { _mm256_loadu_si256(block.as_ptr().add(at).cast()) };
            u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half, wanted)) as u32)
        };
        half(0) | half(32) << 32
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn equal(block: &[u8; 64], byte: u8) -> u64 {
    block.iter().enumerate().fold(0, |bits, (at, &one)| bits | u64::from(one == byte) << at)
}

#[cfg(test)]
mod tests {
    use super::super::scan::{field, row_end};
    use super::*;

    const COMMA: Marks = Marks { delimiter: b',', quote: Some(b'"') };

    /// Whole rows by the rules, up to the first whose quotes are not around whole fields.
    fn by_the_rules(text: &[u8]) -> Vec<u32> {
        let (mut starts, mut at) = (vec![0], 0);
        while let Some(end) = row_end(text, at, COMMA) {
            let mut row = text[..end].to_vec();
            let before = starts.len();
            while at < end {
                let quoted = text[at] == b'"';
                let next = field(&mut row, at, COMMA).next;
                let raw = &text[at..next - 1];
                let raw = if text[next - 1] == b'\n' { raw.strip_suffix(b"\r").unwrap_or(raw) } else { raw };
                let inner = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\""));
                let ok = match inner {
                    Some(inner) if quoted => !String::from_utf8_lossy(inner).replace("\"\"", "").contains('"'),
                    _ => !raw.contains(&b'"'),
                };
                if !ok {
                    starts.truncate(before);
                    return starts;
                }
                starts.push(next as u32);
                at = next;
            }
        }
        starts
    }

    #[test]
    fn places_are_those_of_the_rules() {
        let mut draw = 1u64;
        let mut places = Places::default();
        for round in 0..20_000 {
            let mut next = |most: u64| {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (draw >> 33) % most
            };
            let words: [&[u8]; 12] =
                [b"a", b"bcd", b",", b"\n", b"\r\n", b"\"", b"\"x\"", b"\"\"", b"\",", b",\"", b"\"\n", b"\n\""];
            // Some texts without single quotes, so that many rows are well-formed.
            let kinds = if round % 2 == 0 { 12 } else { 5 };
            let text: Vec<u8> = (0..next(120)).flat_map(|_| words[next(kinds) as usize].to_vec()).collect();
            places.find(&text, 0, text.len(), COMMA);
            let wanted = by_the_rules(&text);
            let got = places.starts();
            assert!(got.len() <= wanted.len(), "{:?}", String::from_utf8_lossy(&text));
            assert_eq!(got, &wanted[..got.len()], "{:?}", String::from_utf8_lossy(&text));
            // A carriage return behind a closing quote is left to anyone who takes the field.
            assert_eq!(got.len(), wanted.len(), "{:?}", String::from_utf8_lossy(&text));
            let rows = got[1..].iter().filter(|&&start| text[start as usize - 1] == b'\n').count();
            assert_eq!(places.rows, rows);
        }
    }

    #[test]
    fn places_end_before_the_first_quote_within_a_field() {
        let text = "abc,de\n".repeat(30);
        for quote in (0..text.len()).chain([usize::MAX]) {
            let mut bytes = text.clone().into_bytes();
            if let Some(byte) = bytes.get_mut(quote) {
                *byte = b'"';
            }
            let mut places = Places::default();
            places.find(&bytes, 0, bytes.len(), COMMA);
            let first_bad = (quote.min(bytes.len()) / 7 * 7) as u32;
            assert_eq!(places.starts().last(), Some(&first_bad), "{quote}");
            assert_eq!(places.rows as u32, first_bad / 7);
        }
    }
}
