//! A decider: the values of one page, in each of Parquet's encodings, as many at a time as are asked for.

use super::delta::Delta;
use super::hybrid::Hybrid;
use super::schema::{Leaf, Physical};
use crate::tabular::columns::Column;
use crate::tabular::fault::{Fault, Result};
use crate::tabular::filler::{Filler, Raw};

/// Texts that were put together are handed on when there are so many bytes of them.
const TEXT_AT_ONCE: usize = 4 << 20;
const DAY_NANOS: i64 = 86_400_000_000_000;
/// The day on which Unix time begins, in INT96's count.
const EPOCH_DAY: i64 = 2_440_588;

/// Where reading a page's values is, by their encoding.
pub enum Values {
    Plain { at: usize, end: usize },
    Bits { bit: usize, end: usize },
    Runs(Hybrid),
    Words(Hybrid),
    Differences(Delta),
    Lengths { lengths: Delta, at: usize, end: usize },
    Fronts { fronts: Delta, lengths: Delta, at: usize, end: usize, last: Vec<u8> },
    Split { at: usize, count: usize, next: usize },
}

/// Memory that is used again for every step.
#[derive(Default)]
pub struct Scratch {
    ints: Vec<i64>,
    more: Vec<i64>,
    indices: Vec<u32>,
    floats: Vec<f32>,
    doubles: Vec<f64>,
    bytes: Vec<u8>,
    spans: Vec<(u32, u32)>,
}

fn short() -> Fault {
    Fault::damaged("a page has fewer values than it is said to have")
}

impl Values {
    /// Of the bytes from `at` to `end` of a page that has `count` values at most.
    pub fn new(encoding: i32, leaf: &Leaf, page: &[u8], at: usize, end: usize) -> Result<Self> {
        let texts = matches!(leaf.physical, Physical::ByteArray | Physical::Fixed(_));
        let whole = matches!(leaf.physical, Physical::Int32 | Physical::Int64);
        Ok(match encoding {
            0 if leaf.physical == Physical::Boolean => Self::Bits { bit: at * 8, end: end * 8 },
            0 => Self::Plain { at, end },
            2 | 8 if at == end => Self::Words(Hybrid::new(at, end, 0)?),
            2 | 8 => Self::Words(Hybrid::new(at + 1, end, u32::from(page[at]))?),
            3 if leaf.physical == Physical::Boolean => {
                if end - at < 4 {
                    return Err(short());
                }
                Self::Runs(Hybrid::new(at + 4, end, 1)?)
            }
            5 if whole => Self::Differences(Delta::new(page, at, end)?),
            6 if leaf.physical == Physical::ByteArray => {
                let lengths = Delta::new(page, at, end)?;
                let at = lengths.clone().finish(page)?;
                Self::Lengths { lengths, at, end }
            }
            7 if texts => {
                let fronts = Delta::new(page, at, end)?;
                let at = fronts.clone().finish(page)?;
                let lengths = Delta::new(page, at, end)?;
                let at = lengths.clone().finish(page)?;
                Self::Fronts { fronts, lengths, at, end, last: Vec::new() }
            }
            9 if leaf.width() > 0 => Self::Split { at, count: (end - at) / leaf.width(), next: 0 },
            other => return Err(Fault::unsupported(format!("encoding {other} of a column of this type"))),
        })
    }

    /// Appends the next `count` values.
    #[expect(clippy::too_many_arguments, reason = "a page's, its column's, and memory of the caller")]
    pub fn read(
        &mut self,
        page: &[u8],
        leaf: &Leaf,
        count: usize,
        words: Option<&Column>,
        filler: &mut Filler,
        scratch: &mut Scratch,
        out: &mut Column,
    ) -> Result<()> {
        match self {
            Self::Words(hybrid) => {
                let words = words.ok_or_else(|| Fault::damaged("a page without its dictionary"))?;
                scratch.indices.resize(count, 0);
                hybrid.read(page, &mut scratch.indices)?;
                out.gather(words, &scratch.indices).map_err(Fault::damaged)?;
            }
            Self::Runs(hybrid) => {
                scratch.indices.resize(count, 0);
                hybrid.read(page, &mut scratch.indices)?;
                scratch.bytes.clear();
                scratch.bytes.extend(scratch.indices.iter().map(|&truth| u8::from(truth != 0)));
                filler.fill(Raw::Bools(&scratch.bytes), out);
            }
            Self::Bits { bit, end } => {
                if *end - *bit < count {
                    return Err(short());
                }
                scratch.bytes.clear();
                scratch.bytes.extend((*bit..*bit + count).map(|bit| page[bit / 8] >> (bit % 8) & 1));
                *bit += count;
                filler.fill(Raw::Bools(&scratch.bytes), out);
            }
            Self::Plain { at, end } if leaf.physical == Physical::ByteArray => {
                spans_of(page, at, *end, count, &mut scratch.spans)?;
                filler.fill(Raw::Bytes(page, &scratch.spans), out);
            }
            Self::Plain { at, end } => {
                let bytes = count * leaf.width();
                if *end - *at < bytes {
                    return Err(short());
                }
                fixed(&page[*at..*at + bytes], leaf, filler, scratch, out);
                *at += bytes;
            }
            Self::Differences(delta) => {
                scratch.ints.resize(count, 0);
                delta.read(page, &mut scratch.ints)?;
                if leaf.physical == Physical::Int32 {
                    scratch.ints.iter_mut().for_each(|value| *value = i64::from(*value as i32));
                }
                ints(leaf, filler, scratch, out);
            }
            Self::Lengths { lengths, at, end } => {
                scratch.ints.resize(count, 0);
                lengths.read(page, &mut scratch.ints)?;
                scratch.spans.clear();
                for &length in &scratch.ints {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    if length > *end - *at {
                        return Err(short());
                    }
                    scratch.spans.push((*at as u32, (*at + length) as u32));
                    *at += length;
                }
                filler.fill(Raw::Bytes(page, &scratch.spans), out);
            }
            Self::Fronts { fronts, lengths, at, end, last } => {
                scratch.ints.resize(count, 0);
                scratch.more.resize(count, 0);
                fronts.read(page, &mut scratch.ints)?;
                lengths.read(page, &mut scratch.more)?;
                scratch.bytes.clear();
                scratch.spans.clear();
                for (&front, &length) in scratch.ints.iter().zip(&scratch.more) {
                    let front = usize::try_from(front).unwrap_or(usize::MAX);
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    if front > last.len() || length > *end - *at {
                        return Err(short());
                    }
                    last.truncate(front);
                    last.extend_from_slice(&page[*at..*at + length]);
                    *at += length;
                    if let Physical::Fixed(width) = leaf.physical
                        && last.len() != width
                    {
                        return Err(Fault::damaged("a value of another length than its column's"));
                    }
                    let start = scratch.bytes.len() as u32;
                    scratch.bytes.extend_from_slice(last);
                    scratch.spans.push((start, scratch.bytes.len() as u32));
                    if scratch.bytes.len() > TEXT_AT_ONCE {
                        filler.fill(Raw::Bytes(&scratch.bytes, &scratch.spans), out);
                        scratch.bytes.clear();
                        scratch.spans.clear();
                        check_text(out)?;
                    }
                }
                filler.fill(Raw::Bytes(&scratch.bytes, &scratch.spans), out);
            }
            Self::Split { at, count: all, next } => {
                if *all - *next < count {
                    return Err(short());
                }
                let width = leaf.width();
                let mut joined = std::mem::take(&mut scratch.bytes);
                joined.clear();
                for number in *next..*next + count {
                    joined.extend((0..width).map(|byte| page[*at + byte * *all + number]));
                }
                *next += count;
                fixed(&joined, leaf, filler, scratch, out);
                scratch.bytes = joined;
            }
        }
        check_text(out)
    }
}

/// The words of a dictionary's page, in PLAIN.
pub fn dictionary(page: &[u8], end: usize, count: usize, leaf: &Leaf, filler: &mut Filler) -> Result<Column> {
    if count > end {
        return Err(short()); // each takes a byte at least
    }
    let mut words = filler.column(false);
    let mut values = Values::Plain { at: 0, end };
    if leaf.physical == Physical::Boolean {
        return Err(Fault::damaged("a dictionary of booleans"));
    }
    values.read(page, leaf, count, None, filler, &mut Scratch::default(), &mut words)?;
    Ok(words)
}

fn check_text(out: &Column) -> Result<()> {
    out.check_text().map_err(Fault::unsupported)
}

/// Where `count` texts lie, each behind its length.
fn spans_of(page: &[u8], at: &mut usize, end: usize, count: usize, spans: &mut Vec<(u32, u32)>) -> Result<()> {
    spans.clear();
    let mut place = *at;
    for _ in 0..count {
        let Some(head) = page[..end].get(place..place + 4) else { return Err(short()) };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        place += 4;
        if length > end - place {
            return Err(short());
        }
        spans.push((place as u32, (place + length) as u32));
        place += length;
    }
    *at = place;
    Ok(())
}

/// Values of a fixed width, end to end.
fn fixed(bytes: &[u8], leaf: &Leaf, filler: &mut Filler, scratch: &mut Scratch, out: &mut Column) {
    match leaf.physical {
        Physical::Int32 => {
            scratch.ints.clear();
            let (words, _) = bytes.as_chunks::<4>();
            scratch.ints.extend(words.iter().map(|word| i64::from(i32::from_le_bytes(*word))));
            ints(leaf, filler, scratch, out);
        }
        Physical::Int64 => {
            scratch.ints.clear();
            let (words, _) = bytes.as_chunks::<8>();
            scratch.ints.extend(words.iter().map(|word| i64::from_le_bytes(*word)));
            ints(leaf, filler, scratch, out);
        }
        Physical::Int96 => {
            scratch.ints.clear();
            let (words, _) = bytes.as_chunks::<12>();
            scratch.ints.extend(words.iter().map(|&[a, b, c, d, e, f, g, h, days @ ..]| {
                let nanos = i64::from_le_bytes([a, b, c, d, e, f, g, h]);
                let days = i64::from(i32::from_le_bytes(days)) - EPOCH_DAY;
                days.saturating_mul(DAY_NANOS).saturating_add(nanos)
            }));
            ints(leaf, filler, scratch, out);
        }
        Physical::Float => {
            scratch.floats.clear();
            let (words, _) = bytes.as_chunks::<4>();
            scratch.floats.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
            filler.fill(Raw::Floats32(&scratch.floats), out);
        }
        Physical::Double => {
            scratch.doubles.clear();
            let (words, _) = bytes.as_chunks::<8>();
            scratch.doubles.extend(words.iter().map(|word| f64::from_le_bytes(*word)));
            filler.fill(Raw::Floats64(&scratch.doubles), out);
        }
        Physical::Fixed(_) if leaf.half => {
            scratch.floats.clear();
            let (words, _) = bytes.as_chunks::<2>();
            scratch.floats.extend(words.iter().map(|word| half(u16::from_le_bytes(*word))));
            filler.fill(Raw::Floats32(&scratch.floats), out);
        }
        Physical::Fixed(width) => {
            scratch.spans.clear();
            scratch.spans.extend((0..bytes.len() / width).map(|at| ((at * width) as u32, ((at + 1) * width) as u32)));
            filler.fill(Raw::Bytes(bytes, &scratch.spans), out);
        }
        Physical::Boolean | Physical::ByteArray => {}
    }
}

fn ints(leaf: &Leaf, filler: &mut Filler, scratch: &mut Scratch, out: &mut Column) {
    if leaf.unsigned32 {
        scratch.ints.iter_mut().for_each(|value| *value &= 0xffff_ffff);
    }
    filler.fill(Raw::Ints(&scratch.ints), out);
}

/// A float16 as a float32, exactly.
fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

impl Leaf {
    /// Bytes of a value that has a fixed number of them, else 0.
    pub fn width(&self) -> usize {
        match self.physical {
            Physical::Int32 | Physical::Float => 4,
            Physical::Int64 | Physical::Double => 8,
            Physical::Int96 => 12,
            Physical::Fixed(width) => width,
            Physical::Boolean | Physical::ByteArray => 0,
        }
    }
}
