//! Deciders: how ids are numbered. In every table 0 is padding and 1 a missing value; all else begins at 2.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::tabular::canon;
use crate::xxhash::xxh64;

pub const PADDING: u64 = 0;
pub const MISSING: u64 = 1;
pub const FIRST: u64 = 2;

/// A permutation of all numbers of 64 bits in which near ones come to lie far apart.
#[inline]
fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// What a number of one table is among those of all tables. Padding stays 0, and nothing else becomes 0.
#[inline]
pub fn spread(number: u64, seed: u64) -> u64 {
    match number {
        PADDING => PADDING,
        _ => match mixed(number ^ seed) {
            0 => seed | 1,
            key => key,
        },
    }
}

/// What a table's numbers are mixed with.
pub fn seed_of(table: &str) -> u64 {
    xxh64(table.as_bytes(), 0)
}

/// Open tables: the hash itself, spread.
pub fn open(ids: &[u64], missing: &[bool], seed: u64) -> Vec<u64> {
    each(ids, missing, |id| if id < FIRST { id + FIRST } else { id })
        .into_iter()
        .map(|number| spread(number, seed))
        .collect()
}

pub fn buckets(ids: &[u64], missing: &[bool], count: u64) -> Vec<u64> {
    let count = count.max(1);
    each(ids, missing, |id| FIRST + id % count)
}

fn each(ids: &[u64], missing: &[bool], number: impl Fn(u64) -> u64) -> Vec<u64> {
    ids.iter().zip(missing).map(|(&id, &missing)| if missing { MISSING } else { number(id) }).collect()
}

/// A hash is its own.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

/// Words, known by the hashes of their texts.
pub struct Vocabulary {
    numbers: HashMap<u64, u64, BuildHasherDefault<Same>>,
    oov: u64,
}

impl Vocabulary {
    /// `ids` are those of the words in order; two that are the same are refused, with their places.
    pub fn new(ids: &[u64], oov: u64) -> Result<Self, (usize, usize)> {
        let oov = oov.max(1);
        let mut numbers = HashMap::with_capacity_and_hasher(ids.len(), BuildHasherDefault::default());
        for (place, &id) in ids.iter().enumerate() {
            if let Some(before) = numbers.insert(id, FIRST + oov + place as u64) {
                return Err(((before - FIRST - oov) as usize, place));
            }
        }
        Ok(Self { numbers, oov })
    }

    pub fn numbers(&self, ids: &[u64], missing: &[bool]) -> Vec<u64> {
        each(ids, missing, |id| self.numbers.get(&id).copied().unwrap_or(FIRST + id % self.oov))
    }
}

/// The range that each number is in: a boundary belongs to the range above it. What is no number is missing.
pub fn ranges(numbers: &[f64], boundaries: &[f64]) -> Vec<u64> {
    let one = |number: &f64| match number.is_nan() {
        true => MISSING,
        false => FIRST + boundaries.partition_point(|boundary| boundary <= number) as u64,
    };
    numbers.iter().map(one).collect()
}

/// The ids of numbers: hashes of their canonical texts.
pub fn of_numbers(numbers: &[f64]) -> (Vec<u64>, Vec<bool>) {
    let mut text = Vec::new();
    let mut one = |number: &f64| {
        text.clear();
        canon::f64_text(*number, &mut text);
        xxh64(&text, 0)
    };
    let ids = numbers.iter().map(|number| if number.is_nan() { 0 } else { one(number) }).collect();
    (ids, numbers.iter().map(|number| number.is_nan()).collect())
}

/// The hash of the parts' ids in order, eight bytes each with the lowest first; 0 is a part that is missing. It is missing where all are.
pub fn crossed(parts: &[(&[u64], &[bool])]) -> (Vec<u64>, Vec<bool>) {
    let rows = parts.iter().map(|(ids, _)| ids.len()).min().unwrap_or(0);
    let mut bytes = vec![0; parts.len() * 8];
    let (mut ids, mut missing) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    for row in 0..rows {
        let mut gone = true;
        for ((part, states), place) in parts.iter().zip(bytes.as_chunks_mut::<8>().0) {
            gone &= states[row];
            *place = if states[row] { 0 } else { part[row] }.to_le_bytes();
        }
        ids.push(if gone { 0 } else { xxh64(&bytes, 0) });
        missing.push(gone);
    }
    (ids, missing)
}

/// The ends of lists, or their beginnings, as places of elements; and how many each row has.
pub fn ends(offsets: &[i64], most: usize, last: bool) -> (Vec<i64>, Vec<i64>) {
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(offsets.len().saturating_sub(1)));
    for pair in offsets.windows(2) {
        let (start, end) = (pair[0], pair[1].max(pair[0]));
        let kept = (end - start).min(i64::try_from(most).unwrap_or(i64::MAX));
        let from = if last { end - kept } else { start };
        places.extend(from..from + kept);
        lengths.push(kept);
    }
    (places, lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_numbers_are_the_same_in_all_tables() {
        let (ids, missing) = ([0, 1, 7], [true, false, false]);
        assert_eq!(buckets(&ids, &missing, 5), [MISSING, 3, 4]);
        let open = open(&ids, &missing, seed_of("a"));
        assert_eq!(open[0], spread(MISSING, seed_of("a")));
        assert_eq!(open[2], spread(7, seed_of("a")));
        assert_ne!(open[2], spread(7, seed_of("b")));
        assert_eq!(spread(PADDING, 5), PADDING);
        assert_ne!(spread(5, 5), 0);
    }

    #[test]
    fn words_have_numbers_behind_those_of_unknown_ones() {
        let words = Vocabulary::new(&[70, 80], 2).ok().unwrap();
        assert_eq!(words.numbers(&[80, 70, 5, 6, 0], &[false, false, false, false, true]), [5, 4, 3, 2, 1]);
        assert_eq!(Vocabulary::new(&[1, 2, 1], 1).err(), Some((0, 2)));
    }

    #[test]
    fn a_boundary_belongs_to_the_range_above() {
        let numbers = [f64::NAN, -1.0, 1.0, 9.9, 10.0, f64::INFINITY];
        assert_eq!(ranges(&numbers, &[1.0, 10.0]), [1, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn crosses_know_order_and_missing_parts() {
        let (a, b): (&[u64], &[u64]) = (&[1, 2, 0], &[2, 1, 0]);
        let (none, last) = ([false, false, false], [false, false, true]);
        let (ids, missing) = crossed(&[(a, &last), (b, &last)]);
        assert_ne!(ids[0], ids[1]);
        assert_eq!((ids[2], missing), (0, vec![false, false, true]));
        assert_eq!(crossed(&[(a, &none), (b, &last)]).1, [false; 3]);
        assert_eq!(ids[0], xxh64(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], 0));
    }

    #[test]
    fn lists_keep_one_of_their_ends() {
        assert_eq!(ends(&[0, 3, 3, 4], 2, true), (vec![1, 2, 3], vec![2, 0, 1]));
        assert_eq!(ends(&[0, 3, 3, 4], 2, false), (vec![0, 1, 3], vec![2, 0, 1]));
    }
}
