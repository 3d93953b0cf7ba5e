//! A decider: where tokens and lines begin. All spaces, tabs and line ends of a text are found first, 64 bytes at a time, so
//! that parsing one token never has to wait for the length of the one before it.

use super::number::PAD;

/// So many entries behind the last token may be read (and are not used).
const SPARE: usize = 8;

/// Where tokens and lines of a text begin.
#[derive(Default)]
pub struct Marks {
    /// The beginning, and behind each mark: a space, a tab, a newline, or a carriage return right before a newline. So a
    /// token goes from one entry to the byte before the next one, where its mark is. Then `SPARE` entries.
    starts: Vec<u32>,
    /// Which token is the first one of each line; at last, which one would be if there were one more line.
    lines: Vec<u32>,
}

impl Marks {
    /// SAFETY: the text must be followed by `PAD` readable bytes.
    pub unsafe fn find(&mut self, text: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        {
            if widest::is_here() {
                // SAFETY: the processor has it; the rest is the caller's promise.
                return unsafe { widest::find(self, text) };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has it; the rest is the caller's promise.
                return unsafe { wide::find(self, text) };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.find_with(text, plain, one_by_one) }
    }

    /// Where token `number` begins. Its mark is right before the next one.
    ///
    /// SAFETY: there must be so many tokens; the one behind the last is one.
    #[inline(always)]
    pub unsafe fn start(&self, number: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { *self.starts.get_unchecked(number) as usize }
    }

    /// The number of the line's first token.
    #[inline(always)]
    pub fn first(&self, line: usize) -> usize {
        self.lines[line] as usize
    }

    pub fn lines(&self) -> usize {
        self.lines.len() - 1
    }

    /// How many of some lines have so many tokens each, counted from the first one that is asked for.
    pub fn alike(&self, lines: std::ops::Range<usize>, tokens: usize) -> usize {
        let lines = &self.lines[lines.start..=lines.end];
        lines.windows(2).take_while(|pair| (pair[1] - pair[0]) as usize == tokens).count()
    }

    /// From token `number` on, where they begin. Eight more than there are can be read.
    #[cfg(target_arch = "x86_64")]
    pub fn starts_from(&self, number: usize) -> &[u32] {
        &self.starts[number..]
    }

    /// `look` tells of 64 bytes, and `write` writes where the bits of a word are, plus a number and one.
    ///
    /// SAFETY: as `find`; `write` must not need more than 64 entries of room.
    #[inline(always)]
    unsafe fn find_with(&mut self, text: &[u8], look: impl Fn(*const u8) -> Seen, write: impl Fn(*mut u32, u64, u32)) {
        const { assert!(PAD >= 65) };
        let Self { starts, lines } = self;
        starts.clear();
        starts.push(0);
        lines.clear();
        lines.push(0);
        let mut at = 0;
        while at < text.len() {
            // SAFETY: the text is padded by at least 64 bytes.
            let from = unsafe { text.as_ptr().add(at) };
            let Seen { mut marks, mut newlines, mut returns } = look(from);
            while returns != 0 {
                let bit = returns.trailing_zeros();
                returns &= returns - 1;
                // SAFETY: one more byte is padded.
                if unsafe { *from.add(bit as usize + 1) } != b'\n' {
                    marks &= !(1 << bit);
                }
            }
            if text.len() - at < 64 {
                let within = (1 << (text.len() - at)) - 1;
                marks &= within;
                newlines &= within;
            }
            starts.reserve(64);
            lines.reserve(64);
            // SAFETY: there is room for 64 more of both; only those that were found become part of the vectors.
            unsafe {
                write(starts.as_mut_ptr().add(starts.len()), marks, at as u32);
                // One whether it is there or not: fewer surprises, and there are seldom more.
                let to = lines.as_mut_ptr().add(lines.len());
                let number = |newline: u64| starts.len() as u32 + (marks & newline.wrapping_sub(1)).count_ones();
                *to = number(newlines & newlines.wrapping_neg());
                let mut count = usize::from(newlines != 0);
                newlines &= newlines.wrapping_sub(1);
                while newlines != 0 {
                    *to.add(count) = number(newlines & newlines.wrapping_neg());
                    newlines &= newlines - 1;
                    count += 1;
                }
                lines.set_len(lines.len() + count);
                starts.set_len(starts.len() + marks.count_ones() as usize);
            }
            at += 64;
        }
        starts.resize(starts.len() + SPARE, 0);
    }
}

/// One bit for each of 64 bytes: whether it is one of the four, and which.
struct Seen {
    marks: u64,
    newlines: u64,
    returns: u64,
}

fn plain(from: *const u8) -> Seen {
    // SAFETY: `find_with` only asks for bytes that are there.
    let bytes = unsafe { std::slice::from_raw_parts(from, 64) };
    let bits = |is: fn(u8) -> bool| bytes.iter().rev().fold(0, |found, &byte| found << 1 | u64::from(is(byte)));
    Seen {
        marks: bits(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')),
        newlines: bits(|byte| byte == b'\n'),
        returns: bits(|byte| byte == b'\r'),
    }
}

#[inline(always)]
fn one_by_one(to: *mut u32, mut bits: u64, more: u32) {
    let count = bits.count_ones() as usize;
    let mut written = 0;
    // Four at a time whether they are there or not: fewer surprises than to stop at the right one.
    while written < count {
        for next in 0..4 {
            // SAFETY: `find_with` has room for 64.
            unsafe { *to.add(written + next) = more + bits.trailing_zeros() + 1 };
            bits &= bits.wrapping_sub(1);
        }
        written += 4;
    }
}

/// By its last four bits, the one byte of the four that could be meant.
#[cfg(target_arch = "x86_64")]
const MEANT: [u8; 16] = *b" \xff\xff\xff\xff\xff\xff\xff\xff\t\n\xff\xff\r\xff\xff";

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::{MEANT, Marks, Seen, one_by_one};

    /// SAFETY: as `Marks::find`, with AVX2.
    #[target_feature(enable = "avx2,bmi1,popcnt")]
    pub unsafe fn find(marks: &mut Marks, text: &[u8]) {
        // SAFETY: sixteen bytes are there.
        let meant = unsafe { _mm_loadu_si128(MEANT.as_ptr().cast::<__m128i>()) };
        let meant = _mm256_broadcastsi128_si256(meant);
        let look = |from: *const u8| {
            let mut seen = Seen { marks: 0, newlines: 0, returns: 0 };
            for part in 0..2 {
                // SAFETY: `find_with` only asks for bytes that are there.
                let bytes = unsafe { _mm256_loadu_si256(from.add(32 * part).cast::<__m256i>()) };
                let bits =
                    |other| u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, other)) as u32) << (32 * part);
                seen.marks |= bits(_mm256_shuffle_epi8(meant, bytes));
                seen.newlines |= bits(_mm256_set1_epi8(b'\n' as i8));
                seen.returns |= bits(_mm256_set1_epi8(b'\r' as i8));
            }
            seen
        };
        // SAFETY: the caller's promise.
        unsafe { marks.find_with(text, look, one_by_one) }
    }
}

#[cfg(target_arch = "x86_64")]
mod widest {
    use std::arch::x86_64::*;

    use super::{MEANT, Marks, Seen};

    pub fn is_here() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("popcnt")
    }

    /// SAFETY: as `Marks::find`, with what `is_here` asks for.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi1,popcnt")]
    pub unsafe fn find(marks: &mut Marks, text: &[u8]) {
        const BEHIND: [u8; 64] = {
            let mut behind = [0; 64];
            let mut at = 0;
            while at < 64 {
                behind[at] = at as u8 + 1;
                at += 1;
            }
            behind
        };
        // SAFETY: as many bytes are there.
        let (meant, behind) = unsafe {
            (_mm_loadu_si128(MEANT.as_ptr().cast::<__m128i>()), _mm512_loadu_si512(BEHIND.as_ptr().cast::<__m512i>()))
        };
        let meant = _mm512_broadcast_i32x4(meant);
        let look = |from: *const u8| {
            // SAFETY: `find_with` only asks for bytes that are there.
            let bytes = unsafe { _mm512_loadu_si512(from.cast::<__m512i>()) };
            Seen {
                marks: _mm512_cmpeq_epi8_mask(bytes, _mm512_shuffle_epi8(meant, bytes)),
                newlines: _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b'\n' as i8)),
                returns: _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b'\r' as i8)),
            }
        };
        let write = |to: *mut u32, bits: u64, more: u32| {
            let more = _mm512_set1_epi32(more as i32);
            let found = _mm512_maskz_compress_epi8(bits, behind);
            // SAFETY: `find_with` has room for 64.
            let write = |part: usize, bytes: __m128i| unsafe {
                let wide = _mm512_add_epi32(_mm512_cvtepu8_epi32(bytes), more);
                _mm512_storeu_si512(to.add(16 * part).cast::<__m512i>(), wide);
            };
            // Sixteen whether they are there or not; there are seldom more.
            write(0, _mm512_castsi512_si128(found));
            if bits.count_ones() > 16 {
                write(1, _mm512_extracti32x4_epi32::<1>(found));
                write(2, _mm512_extracti32x4_epi32::<2>(found));
                write(3, _mm512_extracti32x4_epi32::<3>(found));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { marks.find_with(text, look, write) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(marks: &Marks) -> (&[u32], &[u32]) {
        (&marks.starts[..marks.starts.len() - SPARE], &marks.lines)
    }

    #[test]
    fn all_ways_find_what_a_loop_finds() {
        let mut bytes: Vec<u8> = (0..20_000u64).map(|at| crate::keys::mix(at) as u8 % 40).collect();
        bytes.extend((0..=255).flat_map(|byte| [byte, b'\n', byte]));
        bytes.extend([b' '; 100]);
        bytes.extend([b'\n'; 100]);
        for length in [0, 1, 2, 63, 64, 65, 127, 128, 1000, bytes.len()] {
            let mut text = bytes[..length].to_vec();
            text.push(b'\n');
            let (mut starts, mut lines) = (vec![0], vec![0]);
            for at in 0..text.len() {
                if matches!(text[at], b' ' | b'\t' | b'\n') || (text[at] == b'\r' && text[at + 1] == b'\n') {
                    starts.push(at as u32 + 1);
                }
                if text[at] == b'\n' {
                    lines.push(starts.len() as u32 - 1);
                }
            }
            let whole = text.len();
            text.resize(whole + PAD, 0);
            let text = &text[..whole];
            let mut marks = Marks::default();
            // SAFETY: padded.
            unsafe { marks.find(text) };
            assert_eq!(seen(&marks), (&*starts, &*lines));
            // SAFETY: padded.
            unsafe { marks.find_with(text, plain, one_by_one) };
            assert_eq!(seen(&marks), (&*starts, &*lines));
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: padded, and the processor has it.
                unsafe { wide::find(&mut marks, text) };
                assert_eq!(seen(&marks), (&*starts, &*lines));
            }
        }
    }
}
