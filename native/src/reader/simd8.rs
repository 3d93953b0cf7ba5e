//! Kernels: eight lines at once, for processors with AVX-512. Lines that all go as predicted have their tokens at the same
//! numbers; so one step reads the same slot of eight lines, and numbers of the same slot lie side by side in their column.
//!
//! It takes what nearly all numbers look like, and gives what `number` gives for them. Other numbers are read by `number`,
//! one at a time. Whatever is wrong with a line, or not as predicted, is none of its business: it says no to all eight.

use std::arch::x86_64::*;

use super::number;
use super::steps::{Step, Target};

pub const LINES: usize = 8;

/// Where the values of one step go.
#[derive(Clone, Copy)]
pub struct Room {
    /// That of the next line.
    pub to: *mut u8,
    /// Bytes from one line's to the next one's.
    pub stride: usize,
    /// Which of a line's values of this slot it is.
    pub within: usize,
}

/// Where the tokens of eight lines begin, token by token.
pub type Begins = Vec<[u32; LINES]>;

/// Whether the processor has what all of this is compiled for.
pub fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512vpopcntdq")
}

/// Reads eight lines with a token for each step, and perhaps an empty one behind them (as a space at the end of a line makes
/// it). `starts` is where the tokens of the first line begin and so on, and `apart` says how far the lines are apart in it,
/// where those behind the first `lines` are the last of these again. False if a line is not like that; what was written
/// then means nothing.
///
/// SAFETY: the processor must be as `is_here` wants it. `starts` must be of this text, `lines` lines with `apart` tokens
/// each (as many as there are steps, or one more), one more start and eight more entries. The text must be padded as `number`
/// says. At each room must be eight lines' values.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx512vpopcntdq")]
pub unsafe fn read(
    text: *const u8,
    starts: &[u32],
    apart: usize,
    lines: usize,
    steps: &[Step],
    rooms: &[Room],
    begins: &mut Begins,
) -> bool {
    begins.resize((apart + 1).next_multiple_of(8), [0; LINES]);
    let mut unlike = _mm512_setzero_si512();
    // SAFETY: the caller's promise; a token and what is read behind it are within the text and its padding.
    unsafe {
        turn(starts, apart, lines, begins);
        for ((step, room), pair) in steps.iter().zip(rooms).zip(begins.windows(2)) {
            let (begin, next) = (&pair[0], &pair[1]);
            let names = Sixteens::load(text, begin);
            unlike = _mm512_or_si512(unlike, names.unlike(step));
            let behind = _mm256_set1_epi32(step.length as i32);
            let values = _mm256_add_epi32(eight(begin), behind);
            let length = _mm256_sub_epi32(_mm256_sub_epi32(eight(next), values), _mm256_set1_epi32(1));
            let length = _mm512_cvtepi32_epi64(length);
            let others = match step.target {
                Target::Sparse(_) => {
                    let (ids, others) = if step.length <= 8 && all_short(length) {
                        short_ids(names.from(step.length), length)
                    } else {
                        long_ids(text, values, length)
                    };
                    _mm512_storeu_si512(room.to.cast::<__m512i>(), ids);
                    others
                }
                Target::Dense(_) => {
                    let (floats, others) = floats(text, values, length);
                    let floats: [f32; LINES] = std::mem::transmute(floats);
                    for (line, float) in floats.into_iter().enumerate() {
                        room.to.add(line * room.stride).cast::<f32>().write(float);
                    }
                    others
                }
                Target::Unknown(_) => 0,
            };
            if others != 0
                && (_mm512_test_epi64_mask(unlike, unlike) != 0
                    || !one_by_one(text, step, room, &array(values), next, others))
            {
                return false;
            }
        }
        if apart > steps.len() {
            let gap = _mm256_sub_epi32(eight(&begins[apart]), eight(&begins[apart - 1]));
            if _mm256_cmpneq_epi32_mask(gap, _mm256_set1_epi32(1)) != 0 {
                return false;
            }
        }
        _mm512_test_epi64_mask(unlike, unlike) == 0
    }
}

/// The numbers that the kernels did not take; one bit for each of them.
///
/// SAFETY: as `read`; the names must be those of the step.
#[cold]
#[inline(never)]
unsafe fn one_by_one(
    text: *const u8,
    step: &Step,
    room: &Room,
    values: &[u32; LINES],
    next: &[u32; LINES],
    others: u8,
) -> bool {
    for line in (0..LINES).filter(|line| others >> line & 1 == 1) {
        let (start, end) = (values[line] as usize, next[line] as usize - 1);
        // SAFETY: the token has the step's name, so that its value begins before its end; the rest is the caller's promise.
        unsafe {
            let (value, length) = (text.add(start), end - start);
            let token = std::slice::from_raw_parts(value, length);
            let to = room.to.add(line * room.stride);
            match step.target {
                Target::Sparse(_) => {
                    let Some(id) = number::id::<number::Wide>(value, length).or_else(|| number::slow_id(token).ok())
                    else {
                        return false;
                    };
                    to.cast::<u64>().write(id);
                }
                Target::Dense(_) => {
                    let Some(float) =
                        number::float::<number::Wide>(value, length).or_else(|| number::slow_float(token).ok())
                    else {
                        return false;
                    };
                    to.cast::<f32>().write(float);
                }
                Target::Unknown(_) => {}
            }
        }
    }
    true
}

/// Lines by tokens becomes tokens by lines, eight of both at a time.
///
/// SAFETY: as `read`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn turn(starts: &[u32], apart: usize, lines: usize, begins: &mut [[u32; LINES]]) {
    for at in (0..apart + 1).step_by(8) {
        // SAFETY: the line's tokens, one more start, and at most seven more entries are read; `begins` is made of eights.
        unsafe {
            let row = |line: usize| {
                let from = line.min(lines - 1) * apart + at;
                _mm256_loadu_si256(starts.as_ptr().add(from).cast::<__m256i>())
            };
            let pair = |one: usize, two: usize| {
                (_mm256_unpacklo_epi32(row(one), row(two)), _mm256_unpackhi_epi32(row(one), row(two)))
            };
            let (a, b) = pair(0, 1);
            let (c, d) = pair(2, 3);
            let (e, f) = pair(4, 5);
            let (g, h) = pair(6, 7);
            let lower = [
                _mm256_unpacklo_epi64(a, c),
                _mm256_unpackhi_epi64(a, c),
                _mm256_unpacklo_epi64(b, d),
                _mm256_unpackhi_epi64(b, d),
            ];
            let upper = [
                _mm256_unpacklo_epi64(e, g),
                _mm256_unpackhi_epi64(e, g),
                _mm256_unpacklo_epi64(f, h),
                _mm256_unpackhi_epi64(f, h),
            ];
            for more in 0..4 {
                let to = begins.as_mut_ptr().add(at + more).cast::<__m256i>();
                _mm256_storeu_si256(to, _mm256_permute2x128_si256::<0x20>(lower[more], upper[more]));
                _mm256_storeu_si256(to.add(4), _mm256_permute2x128_si256::<0x31>(lower[more], upper[more]));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn eight(numbers: &[u32; LINES]) -> __m256i {
    // SAFETY: as many bytes are there.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast::<__m256i>()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn array(numbers: __m256i) -> [u32; LINES] {
    // SAFETY: any bits make eight numbers.
    unsafe { std::mem::transmute(numbers) }
}

/// Sixteen bytes of each line: those with even numbers, those with odd ones. So `words` has them in order.
struct Sixteens(__m512i, __m512i);

impl Sixteens {
    /// SAFETY: sixteen bytes must be readable at each place.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(text: *const u8, places: &[u32; LINES]) -> Self {
        // SAFETY: the caller's promise.
        let load = |line: usize| unsafe { _mm_loadu_si128(text.add(places[line] as usize).cast::<__m128i>()) };
        let four = |first: usize| {
            let all = _mm512_castsi128_si512(load(first));
            let all = _mm512_inserti32x4::<1>(all, load(first + 2));
            let all = _mm512_inserti32x4::<2>(all, load(first + 4));
            _mm512_inserti32x4::<3>(all, load(first + 6))
        };
        Self(four(0), four(1))
    }

    /// Bits that are set where a name is not that of the step.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn unlike(&self, step: &Step) -> __m512i {
        let (want, mask) = step.wanted();
        // SAFETY: both are sixteen bytes.
        let all = |bytes: &u128| unsafe {
            _mm512_broadcast_i32x4(_mm_loadu_si128(std::ptr::from_ref(bytes).cast::<__m128i>()))
        };
        let (want, mask) = (all(want), all(mask));
        let differ = _mm512_or_si512(_mm512_xor_si512(self.0, want), _mm512_xor_si512(self.1, want));
        _mm512_and_si512(differ, mask)
    }

    /// The first eight bytes of each, and the others.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn words(&self) -> (__m512i, __m512i) {
        (_mm512_unpacklo_epi64(self.0, self.1), _mm512_unpackhi_epi64(self.0, self.1))
    }

    /// Eight bytes of each, from the one with this number on, which is at most 8.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vbmi2")]
    fn from(&self, first: usize) -> __m512i {
        let (low, high) = self.words();
        if first == 8 {
            return high;
        }
        _mm512_shrdv_epi64(low, high, _mm512_set1_epi64(8 * first as i64))
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn all(number: i64) -> __m512i {
    _mm512_set1_epi64(number)
}

/// Bytes with the value of their digit; `beyond` says which are none.
#[inline]
#[target_feature(enable = "avx512f")]
fn digits(bytes: __m512i) -> __m512i {
    _mm512_xor_si512(bytes, all(0x3030_3030_3030_3030))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn beyond(digits: __m512i) -> __m512i {
    _mm512_subs_epu8(digits, _mm512_set1_epi8(9))
}

/// The number that eight digits make.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn joined(digits: __m512i) -> __m512i {
    let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
    _mm512_add_epi64(_mm512_mul_epu32(fours, all(10_000)), _mm512_srli_epi64::<32>(fours))
}

/// Whether all lengths are 1 to 8.
#[inline]
#[target_feature(enable = "avx512f")]
fn all_short(length: __m512i) -> bool {
    _mm512_cmplt_epu64_mask(_mm512_sub_epi64(length, all(1)), all(8)) == 0xff
}

/// Ids of 1 to 8 digits, and which of them are something else.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn short_ids(bytes: __m512i, length: __m512i) -> (__m512i, u8) {
    let unused = _mm512_sub_epi64(all(64), _mm512_slli_epi64::<3>(length));
    let digits = _mm512_sllv_epi64(digits(bytes), unused);
    let beyond = beyond(digits);
    (joined(digits), _mm512_test_epi64_mask(beyond, beyond))
}

/// Ids of 1 to 20 digits, and which of them are something else, or too large.
///
/// SAFETY: as `read`.
#[inline(never)]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2")]
unsafe fn long_ids(text: *const u8, values: __m256i, length: __m512i) -> (__m512i, u8) {
    // The last sixteen digits, or all of them.
    let more = _mm512_max_epi64(_mm512_sub_epi64(length, all(16)), _mm512_setzero_si512());
    let tails = _mm256_add_epi32(values, _mm512_cvtepi64_epi32(more));
    // SAFETY: the caller's promise; a value that is longer than sixteen bytes has sixteen behind its first ones. Lengths
    // that make no sense, of tokens with other names, are at most those of their tokens.
    let (low, high) = unsafe { Sixteens::load(text, &array(tails)).words() };
    let (low, high) = (digits(low), digits(high));
    let count = _mm512_sub_epi64(length, more);
    let unused = _mm512_sub_epi64(all(128), _mm512_slli_epi64::<3>(count));
    // Moved to the end, behind zeros: those of more than eight digits by less than a word.
    let two = _mm512_cmpgt_epi64_mask(count, all(8));
    let last = _mm512_shldv_epi64(_mm512_mask_mov_epi64(low, two, high), _mm512_maskz_mov_epi64(two, low), unused);
    let first = _mm512_sllv_epi64(low, unused);
    let mut strange = _mm512_or_si512(beyond(first), beyond(last));
    let mut ids = _mm512_add_epi64(_mm512_mul_epu32(joined(first), all(100_000_000)), joined(last));
    let mut others = _mm512_cmpge_epu64_mask(_mm512_sub_epi64(length, all(1)), all(20));
    if _mm512_test_epi64_mask(more, more) != 0 {
        // SAFETY: the caller's promise.
        let (head, _) = unsafe { Sixteens::load(text, &array(values)).words() };
        let unused = _mm512_sub_epi64(all(64), _mm512_slli_epi64::<3>(more));
        let head = _mm512_sllv_epi64(digits(head), unused);
        strange = _mm512_or_si512(strange, beyond(head));
        let head = joined(head);
        // 2^64 - 1 is 1844, and then these sixteen digits.
        let most = all(6_744_073_709_551_615);
        let full = _mm512_cmpeq_epi64_mask(head, all(1844)) & _mm512_cmpgt_epu64_mask(ids, most);
        others |= full | _mm512_cmpgt_epu64_mask(head, all(1844));
        ids = _mm512_add_epi64(ids, _mm512_mullo_epi64(head, all(10_000_000_000_000_000)));
    }
    (ids, others | _mm512_test_epi64_mask(strange, strange))
}

/// Numbers with 1 to 7 digits before the point, if there is one, and which of them are something else, or too near the middle
/// between two float32.
///
/// SAFETY: as `read`.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx512vpopcntdq")]
unsafe fn floats(text: *const u8, values: __m256i, length: __m512i) -> (__m256, u8) {
    // SAFETY: the caller's promise.
    let bytes = unsafe { Sixteens::load(text, &array(values)) };
    if _mm512_cmpgt_epu64_mask(length, all(16)) != 0 {
        // SAFETY: the caller's promise.
        return unsafe { long_floats(text, values, bytes, length) };
    }
    let (low, high) = bytes.words();
    let sign = sign(low);
    let low = _mm512_shrdv_epi64(low, high, sign);
    let high = _mm512_srlv_epi64(high, sign);
    let (mantissa, tenths, others) = decimal(low, high, _mm512_sub_epi64(_mm512_slli_epi64::<3>(length), sign));
    // Fifteen digits are a float64. As in `number`, the product is only trusted where nothing near could be rounded to
    // another float32.
    let near = _mm512_castpd_si512(_mm512_mul_pd(_mm512_cvtepi64_pd(mantissa), tenths));
    let middle = _mm512_sub_epi64(_mm512_and_si512(near, all(0x1fff_ffff)), all(0x1000_0000 - 8));
    let others = others | _mm512_cmple_epu64_mask(middle, all(16));
    (signed(_mm512_cvtpd_ps(_mm512_castsi512_pd(near)), sign), others)
}

/// The same for numbers of up to 32 bytes. Of digits behind the fifteenth it is only seen that they are digits; so the number
/// lies between two others, and is known if both are rounded to the same float32.
///
/// SAFETY: as `read`.
#[inline(never)]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx512vpopcntdq")]
unsafe fn long_floats(text: *const u8, values: __m256i, bytes: Sixteens, length: __m512i) -> (__m256, u8) {
    let (low, high) = bytes.words();
    // SAFETY: the caller's promise; a value is followed by more than 32 bytes.
    let (third, fourth) =
        unsafe { Sixteens::load(text, &array(_mm256_add_epi32(values, _mm256_set1_epi32(16)))).words() };
    let sign = sign(low);
    let low = _mm512_shrdv_epi64(low, high, sign);
    let high = _mm512_shrdv_epi64(high, third, sign);
    let third = _mm512_shrdv_epi64(third, fourth, sign);
    let fourth = _mm512_srlv_epi64(fourth, sign);
    let bits = _mm512_sub_epi64(_mm512_slli_epi64::<3>(length), sign);
    let (mantissa, tenths, mut others) = decimal(low, high, bits);
    let third = kept(third, _mm512_sub_epi64(all(192), bits));
    let fourth = kept(fourth, _mm512_sub_epi64(all(256), bits));
    let strange = _mm512_or_si512(beyond(third), beyond(fourth));
    others |= _mm512_test_epi64_mask(strange, strange) | _mm512_cmpgt_epu64_mask(length, all(32));
    let more = _mm512_maskz_mov_epi64(_mm512_cmpgt_epi64_mask(bits, all(128)), all(1));
    let float =
        |mantissa: __m512i, tenths: __m512d| _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtepi64_pd(mantissa), tenths));
    // Products are at most two units of float64 away from the number; the four that are added here are more than that.
    let least = float(mantissa, _mm512_mul_pd(tenths, _mm512_set1_pd(1.0 - 4.0 * f64::EPSILON)));
    let most = float(_mm512_add_epi64(mantissa, more), _mm512_mul_pd(tenths, _mm512_set1_pd(1.0 + 4.0 * f64::EPSILON)));
    others |= _mm256_cmp_ps_mask::<_CMP_NEQ_UQ>(least, most);
    (signed(least, sign), others)
}

/// Eight where a number begins with a minus: the bits that are to be passed over.
#[inline]
#[target_feature(enable = "avx512f")]
fn sign(low: __m512i) -> __m512i {
    let negative = _mm512_cmpeq_epi64_mask(_mm512_and_si512(low, all(0xff)), all(b'-' as i64));
    _mm512_maskz_mov_epi64(negative, all(8))
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn signed(floats: __m256, sign: __m512i) -> __m256 {
    let sign = _mm256_slli_epi32::<28>(_mm512_cvtepi64_epi32(sign));
    _mm256_or_ps(floats, _mm256_castsi256_ps(sign))
}

/// Digits without the last ones, of which so many bits are; these become zeros. No number of bits is a mistake.
#[inline]
#[target_feature(enable = "avx512f")]
fn kept(bytes: __m512i, unused: __m512i) -> __m512i {
    let unused = _mm512_max_epi64(unused, _mm512_setzero_si512());
    _mm512_and_si512(digits(bytes), _mm512_srlv_epi64(all(-1), unused))
}

/// The first fifteen digits of a number without a sign that has so many bits, behind which zeros are added; what they are
/// multiplied with; and which numbers are something else.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vbmi2,avx512vpopcntdq")]
fn decimal(low: __m512i, high: __m512i, bits: __m512i) -> (__m512i, __m512d, u8) {
    /// By the number of digits before the point.
    const TENTHS: [f64; 8] = [0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8];
    let low = kept(low, _mm512_sub_epi64(all(64), bits));
    let high = kept(high, _mm512_sub_epi64(all(128), bits));
    // The digits before the point move onto its place.
    let points = _mm512_movm_epi8(_mm512_cmpeq_epi8_mask(low, _mm512_set1_epi8((b'.' ^ b'0') as i8)));
    let before = _mm512_andnot_si512(points, _mm512_sub_epi64(points, all(1)));
    let moved = _mm512_slli_epi64::<8>(_mm512_and_si512(low, before));
    let point = _mm512_or_si512(_mm512_slli_epi64::<8>(before), all(0xff));
    let low = _mm512_or_si512(moved, _mm512_andnot_si512(point, low));
    let whole = _mm512_srli_epi64::<3>(_mm512_min_epi64(_mm512_popcnt_epi64(before), bits));
    let strange = _mm512_or_si512(beyond(low), beyond(high));
    let others = _mm512_cmpge_epu64_mask(_mm512_sub_epi64(whole, all(1)), all(7));
    let others = others | _mm512_test_epi64_mask(strange, strange);
    let mantissa = _mm512_add_epi64(_mm512_mul_epu32(joined(low), all(100_000_000)), joined(high));
    // SAFETY: as many numbers are there.
    let tenths = _mm512_permutexvar_pd(whole, unsafe { _mm512_loadu_pd(TENTHS.as_ptr()) });
    (mantissa, tenths, others)
}
