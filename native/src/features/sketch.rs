//! A decider: what is to be known of many numbers. Sums are exact, so that pieces that are merged, in whatever order, are the same as the
//! whole. Different values are counted one by one up to a limit; beyond it in cells whose width is a share of their value, which is again the
//! same in whatever order it happens.

use std::collections::{BTreeMap, HashMap};

/// So many different values are kept as they are.
pub const MOST_VALUES: usize = 65_536;
/// A cell is that of all numbers with the same sign, exponent and so many bits of the mantissa.
const CELL_BITS: u32 = 11;
const CUT: u32 = 52 - CELL_BITS;

/// Sums of numbers with one exponent, of which a number is a whole multiple: of them, and of the parts of their squares.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Sums {
    pub sum: i128,
    pub high: u128,
    pub middle: u128,
    pub low: u128,
}

#[derive(Clone, Default)]
pub struct NumberSketch {
    pub count: u64,
    pub missing: u64,
    pub infinite: u64,
    pub minimum: f64,
    pub maximum: f64,
    pub sums: BTreeMap<i32, Sums>,
    /// None: nobody asks for quantiles.
    values: Option<HashMap<u64, u64>>,
    /// Whether `values` are cells.
    pub in_cells: bool,
}

impl NumberSketch {
    pub fn new(quantiles: bool) -> Self {
        Self {
            minimum: f64::INFINITY,
            maximum: f64::NEG_INFINITY,
            values: quantiles.then(HashMap::new),
            ..Self::default()
        }
    }

    pub fn add(&mut self, numbers: &[f64]) {
        for &number in numbers {
            if number.is_nan() {
                self.missing += 1;
                continue;
            }
            let number = number + 0.0;
            self.count += 1;
            self.minimum = self.minimum.min(number);
            self.maximum = self.maximum.max(number);
            if number.is_infinite() {
                self.infinite += 1;
            } else {
                self.sum(number);
            }
            self.count_value(in_order(number), 1);
        }
    }

    fn sum(&mut self, number: f64) {
        let (mantissa, exponent) = whole(number);
        let sums = self.sums.entry(exponent).or_default();
        let signed = i128::from(mantissa);
        sums.sum += if number < 0.0 { -signed } else { signed };
        let (high, low) = (u128::from(mantissa >> 27), u128::from(mantissa & ((1 << 27) - 1)));
        sums.high += high * high;
        sums.middle += high * low;
        sums.low += low * low;
    }

    fn count_value(&mut self, key: u64, times: u64) {
        let key = if self.in_cells { key >> CUT } else { key };
        let Some(values) = &mut self.values else { return };
        *values.entry(key).or_default() += times;
        if !self.in_cells && values.len() > MOST_VALUES {
            self.move_to_cells();
        }
    }

    fn move_to_cells(&mut self) {
        if self.in_cells {
            return;
        }
        self.in_cells = true;
        if let Some(values) = &mut self.values {
            for (key, count) in std::mem::take(values) {
                *values.entry(key >> CUT).or_default() += count;
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.missing += other.missing;
        self.infinite += other.infinite;
        self.minimum = self.minimum.min(other.minimum);
        self.maximum = self.maximum.max(other.maximum);
        for (&exponent, more) in &other.sums {
            let sums = self.sums.entry(exponent).or_default();
            sums.sum += more.sum;
            sums.high += more.high;
            sums.middle += more.middle;
            sums.low += more.low;
        }
        if other.in_cells {
            self.move_to_cells();
        }
        for (&key, &count) in other.values.iter().flatten() {
            match (self.in_cells, other.in_cells) {
                (true, true) => {
                    if let Some(values) = &mut self.values {
                        *values.entry(key).or_default() += count;
                    }
                }
                _ => self.count_value(key, count),
            }
        }
    }

    /// As bytes that `unpacked` reads.
    pub fn packed(&self) -> Vec<u8> {
        let values = self.values.iter().flatten();
        let mut out = vec![u8::from(self.values.is_some()), u8::from(self.in_cells)];
        for number in [self.count, self.missing, self.infinite, self.minimum.to_bits(), self.maximum.to_bits()] {
            out.extend(number.to_le_bytes());
        }
        out.extend((self.sums.len() as u64).to_le_bytes());
        for (exponent, sums) in &self.sums {
            out.extend(exponent.to_le_bytes());
            out.extend(sums.sum.to_le_bytes());
            [sums.high, sums.middle, sums.low].iter().for_each(|part| out.extend(part.to_le_bytes()));
        }
        values.for_each(|(key, count)| [key, count].iter().for_each(|number| out.extend(number.to_le_bytes())));
        out
    }

    /// The sketch that was packed. `None`: it is not whole.
    pub fn unpacked(packed: &[u8]) -> Option<Self> {
        let (&[quantiles, in_cells], mut rest) = packed.split_first_chunk()?;
        let mut made = Self { in_cells: in_cells == 1, ..Self::new(quantiles == 1) };
        (made.count, made.missing, made.infinite) = (word(&mut rest)?, word(&mut rest)?, word(&mut rest)?);
        (made.minimum, made.maximum) = (f64::from_bits(word(&mut rest)?), f64::from_bits(word(&mut rest)?));
        for _ in 0..word(&mut rest)? {
            let exponent = i32::from_le_bytes(bytes(&mut rest)?);
            let sum = i128::from_le_bytes(bytes(&mut rest)?);
            let mut part = || Some(u128::from_le_bytes(bytes(&mut rest)?));
            made.sums.insert(exponent, Sums { sum, high: part()?, middle: part()?, low: part()? });
        }
        while !rest.is_empty() {
            let (key, count) = (word(&mut rest)?, word(&mut rest)?);
            made.values.as_mut()?.insert(key, count);
        }
        Some(made)
    }

    /// Values with their counts, in ascending order; of a cell the number in its middle.
    pub fn values(&self) -> Vec<(f64, u64)> {
        let mut found: Vec<(u64, u64)> = self.values.iter().flatten().map(|(&key, &count)| (key, count)).collect();
        found.sort_unstable();
        let number = |key| match self.in_cells {
            true => from_order(key << CUT | 1 << (CUT - 1)).clamp(self.minimum, self.maximum),
            false => from_order(key),
        };
        found.into_iter().map(|(key, count)| (number(key), count)).collect()
    }
}

fn bytes<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    bytes(rest).map(u64::from_le_bytes)
}

/// A finite number's size as a whole number and the exponent of two that it is a multiple of.
fn whole(number: f64) -> (u64, i32) {
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// Numbers as whole ones in the same order.
fn in_order(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn from_order(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_comes_back() {
        let numbers = [f64::NEG_INFINITY, -1e300, -1.0, 0.0, 5e-324, 1.0, f64::INFINITY];
        let keys: Vec<u64> = numbers.iter().map(|&number| in_order(number)).collect();
        assert!(keys.is_sorted());
        assert_eq!(keys.iter().map(|&key| from_order(key)).collect::<Vec<_>>(), numbers);
    }

    #[test]
    fn pieces_are_the_whole_also_beyond_the_limit() {
        let numbers: Vec<f64> = (0..100_000).map(|number| f64::from(number) * 0.37 - 5000.0).collect();
        let mut whole = NumberSketch::new(true);
        whole.add(&numbers);
        let mut merged = NumberSketch::new(true);
        for piece in numbers.chunks(30_000).rev() {
            let mut one = NumberSketch::new(true);
            one.add(piece);
            let sent = NumberSketch::unpacked(&one.packed()).unwrap();
            assert!(NumberSketch::unpacked(&one.packed()[..100]).is_none());
            merged.merge(&sent);
        }
        assert!(whole.in_cells);
        assert_eq!(whole.values(), merged.values());
        assert_eq!((&whole.sums, whole.count), (&merged.sums, merged.count));
        let exact = numbers[70_000];
        let mut before = 0;
        let value = merged.values().into_iter().find(|&(_, count)| {
            before += count;
            before > 70_000
        });
        assert!((value.map_or(0.0, |(value, _)| value) - exact).abs() <= exact.abs() / 4096.0);
    }

    #[test]
    fn sums_are_exact() {
        let mut sketch = NumberSketch::new(false);
        sketch.add(&[1e300, 1.0, -1e300, f64::NAN, f64::INFINITY]);
        let total: i128 = sketch.sums.iter().filter(|&(&exponent, _)| exponent < 0).map(|(_, sums)| sums.sum).sum();
        assert_eq!((total, sketch.missing, sketch.infinite), (1 << 52, 1, 1));
        assert!(sketch.values().is_empty());
    }
}
