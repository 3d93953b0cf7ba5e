//! A decider: where tokens end. All spaces, tabs and line ends of a text are found first, 64 bytes at a time, so that
//! parsing one token never has to wait for the length of the one before it.

use super::number::PAD;

/// Where the spaces, tabs, newlines and carriage returns right before newlines are.
///
/// SAFETY: the text must be followed by `PAD` readable bytes.
pub unsafe fn find(text: &[u8], marks: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it; the rest is the caller's promise.
        return unsafe { wide::find(text, marks) };
    }
    // SAFETY: the caller's promise.
    unsafe { find_with(text, marks, plain) }
}

/// `look` gives one bit for each of 64 bytes: whether it is one of the four, and whether it is a carriage return.
///
/// SAFETY: as `find`.
#[inline(always)]
unsafe fn find_with(text: &[u8], marks: &mut Vec<u32>, look: impl Fn(*const u8) -> (u64, u64)) {
    const { assert!(PAD >= 65) };
    marks.clear();
    let mut at = 0;
    while at < text.len() {
        // SAFETY: the text is padded by at least 64 bytes.
        let from = unsafe { text.as_ptr().add(at) };
        let (mut found, mut returns) = look(from);
        while returns != 0 {
            let bit = returns.trailing_zeros();
            returns &= returns - 1;
            // SAFETY: one more byte is padded.
            if unsafe { *from.add(bit as usize + 1) } != b'\n' {
                found &= !(1 << bit);
            }
        }
        if text.len() - at < 64 {
            found &= (1 << (text.len() - at)) - 1;
        }
        marks.reserve(64);
        let count = found.count_ones() as usize;
        // SAFETY: there is room for 64 more; only those that were found become part of the vector.
        unsafe {
            let to = marks.as_mut_ptr().add(marks.len());
            let mut written = 0;
            // Four at a time whether they are there or not: fewer surprises than to stop at the right one.
            while written < count {
                for more in 0..4 {
                    *to.add(written + more) = (at + found.trailing_zeros() as usize) as u32;
                    found &= found.wrapping_sub(1);
                }
                written += 4;
            }
            marks.set_len(marks.len() + count);
        }
        at += 64;
    }
}

fn plain(from: *const u8) -> (u64, u64) {
    // SAFETY: `find_with` only asks for bytes that are there.
    let bytes = unsafe { std::slice::from_raw_parts(from, 64) };
    let bits = |is: fn(u8) -> bool| bytes.iter().rev().fold(0, |found, &byte| found << 1 | u64::from(is(byte)));
    (bits(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')), bits(|byte| byte == b'\r'))
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_shuffle_epi8,
    };

    /// By its last four bits, the one byte of the four that could be meant.
    const MEANT: [u8; 16] = *b" \xff\xff\xff\xff\xff\xff\xff\xff\t\n\xff\xff\r\xff\xff";

    /// SAFETY: as `super::find`, with AVX2.
    #[target_feature(enable = "avx2,bmi1,popcnt")]
    pub unsafe fn find(text: &[u8], marks: &mut Vec<u32>) {
        // SAFETY: sixteen bytes are there.
        let meant = unsafe { _mm_loadu_si128(MEANT.as_ptr().cast::<__m128i>()) };
        let meant = _mm256_broadcastsi128_si256(meant);
        let look = |from: *const u8| {
            let (mut found, mut returns) = (0, 0);
            for part in 0..2 {
                // SAFETY: `find_with` only asks for bytes that are there.
                let bytes = unsafe { _mm256_loadu_si256(from.add(32 * part).cast::<__m256i>()) };
                let same = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(meant, bytes), bytes);
                let back = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\r' as i8));
                found |= u64::from(_mm256_movemask_epi8(same) as u32) << (32 * part);
                returns |= u64::from(_mm256_movemask_epi8(back) as u32) << (32 * part);
            }
            (found, returns)
        };
        // SAFETY: the caller's promise.
        unsafe { super::find_with(text, marks, look) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_what_a_loop_finds() {
        let mut bytes: Vec<u8> = (0..20_000u64).map(|at| crate::keys::mix(at) as u8 % 40).collect();
        bytes.extend((0..=255).flat_map(|byte| [byte, b'\n', byte]));
        for length in [0, 1, 2, 63, 64, 65, 127, 128, 1000, bytes.len()] {
            let mut text = bytes[..length].to_vec();
            text.push(b'\n');
            let expected: Vec<u32> = (0..text.len())
                .filter(|&at| matches!(text[at], b' ' | b'\t' | b'\n') || (text[at] == b'\r' && text[at + 1] == b'\n'))
                .map(|at| at as u32)
                .collect();
            let whole = text.len();
            text.resize(whole + PAD, 0);
            let mut marks = Vec::new();
            // SAFETY: padded.
            unsafe { find(&text[..whole], &mut marks) };
            assert_eq!(marks, expected);
            // SAFETY: padded.
            unsafe { find_with(&text[..whole], &mut marks, plain) };
            assert_eq!(marks, expected);
        }
    }
}
