//! Gathering: keys without repeats, rows of the same key added up, rows pooled over segments. Pure functions over slices;
//! `tests/support/oracle` says the same in numpy.
//!
//! ```text
//! keys     7 9 7 4          unique   7 9 4        inverse   0 1 0 2
//! pool     rows[inverse], added up over offsets[i]..offsets[i + 1]
//! ```

use crate::keys::mix;

/// How a segment's rows become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    Sum,
    /// The sum divided by the number of rows; an empty segment is zeros.
    Mean,
}

/// Numbers keys in the order in which they first come.
pub struct Numbering {
    /// Number plus one by place; 0 is free.
    places: Vec<u32>,
    keys: Vec<u64>,
    mask: usize,
}

impl Numbering {
    /// Room for at most `most` different keys.
    pub fn new(most: usize) -> Self {
        let size = (2 * most.max(8)).next_power_of_two();
        Self { places: vec![0; size], keys: Vec::with_capacity(most), mask: size - 1 }
    }

    /// The number of a key: a new one if it comes for the first time.
    #[inline(always)]
    pub fn number(&mut self, key: u64) -> usize {
        let mut place = mix(key) as usize & self.mask;
        loop {
            match self.places[place] {
                0 => {
                    self.keys.push(key);
                    self.places[place] = self.keys.len() as u32;
                    return self.keys.len() - 1;
                }
                taken if self.keys[taken as usize - 1] == key => return taken as usize - 1,
                _ => place = (place + 1) & self.mask,
            }
        }
    }

    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    pub fn into_keys(self) -> Vec<u64> {
        self.keys
    }
}

/// The different keys in the order in which they first come, and for each key its place among them.
pub fn unique(keys: &[u64]) -> (Vec<u64>, Vec<i64>) {
    let mut numbering = Numbering::new(keys.len());
    let inverse = keys.iter().map(|&key| numbering.number(key) as i64).collect();
    (numbering.into_keys(), inverse)
}

pub fn has_repeats(keys: &[u64]) -> bool {
    let mut numbering = Numbering::new(keys.len());
    keys.iter().enumerate().any(|(place, &key)| numbering.number(key) != place)
}

/// Rows of the same key added up in float32, in the order in which they come. Of the first `last_counts` columns the
/// last row's stand instead.
pub fn merge(parts: &[(&[u64], &[f32])], width: usize, last_counts: usize) -> (Vec<u64>, Vec<f32>) {
    let most = parts.iter().map(|(keys, _)| keys.len()).sum();
    let mut numbering = Numbering::new(most);
    let mut sums: Vec<f32> = Vec::with_capacity(most * width);
    for (keys, rows) in parts {
        assert_eq!(rows.len(), keys.len() * width, "{} rows of {width} columns", keys.len());
        for (place, &key) in keys.iter().enumerate() {
            let row = &rows[place * width..(place + 1) * width];
            let start = numbering.number(key) * width;
            if start == sums.len() {
                sums.extend_from_slice(row);
            } else {
                let sum = &mut sums[start..start + width];
                sum[..last_counts].copy_from_slice(&row[..last_counts]);
                for (sum, more) in sum[last_counts..].iter_mut().zip(&row[last_counts..]) {
                    *sum += more;
                }
            }
        }
    }
    (numbering.into_keys(), sums)
}

/// Segment i of the result: rows[inverse[j]] for j from offsets[i] to offsets[i + 1], added up in this order.
///
/// # Panics
/// If an index or an offset is out of range; `check` says so beforehand.
pub fn pool(rows: &[f32], width: usize, inverse: &[i64], offsets: &[i64], pooling: Pooling, out: &mut [f32]) {
    for (segment, sum) in out.chunks_exact_mut(width).enumerate() {
        let places = &inverse[offsets[segment] as usize..offsets[segment + 1] as usize];
        sum.fill(0.0);
        for (n, &place) in places.iter().enumerate() {
            let row = &rows[place as usize * width..(place as usize + 1) * width];
            if n == 0 {
                sum.copy_from_slice(row);
            } else {
                add(sum, row);
            }
        }
        if pooling == Pooling::Mean && places.len() > 1 {
            let count = places.len() as f32;
            sum.iter_mut().for_each(|number| *number /= count);
        }
    }
}

/// The way back: each row gets the gradients of the segments that it was pooled into, in the order of `inverse`.
pub fn pool_grad(gradients: &[f32], width: usize, inverse: &[i64], offsets: &[i64], pooling: Pooling, out: &mut [f32]) {
    out.fill(0.0);
    let mut scaled = vec![0.0f32; width];
    for (segment, gradient) in gradients.chunks_exact(width).enumerate() {
        let places = &inverse[offsets[segment] as usize..offsets[segment + 1] as usize];
        let gradient = if pooling == Pooling::Mean && places.len() > 1 {
            let count = places.len() as f32;
            scaled.iter_mut().zip(gradient).for_each(|(out, number)| *out = number / count);
            &scaled
        } else {
            gradient
        };
        for &place in places {
            add(&mut out[place as usize * width..(place as usize + 1) * width], gradient);
        }
    }
}

#[inline(always)]
fn add(sum: &mut [f32], row: &[f32]) {
    for (sum, more) in sum.iter_mut().zip(row) {
        *sum += more;
    }
}

/// Whether `inverse` points into `rows` rows, and `offsets` ascends from 0 to the length of `inverse`.
pub fn check(rows: usize, inverse: &[i64], offsets: &[i64]) -> Result<(), String> {
    match (offsets.first(), offsets.last()) {
        (Some(0), Some(&last)) if last == inverse.len() as i64 => {}
        _ => return Err(format!("offsets must begin with 0 and end with {}, the number of keys", inverse.len())),
    }
    if !offsets.is_sorted() {
        return Err("offsets must ascend".into());
    }
    match inverse.iter().find(|&&place| place < 0 || place >= rows as i64) {
        Some(place) => Err(format!("inverse points to row {place} of {rows}")),
        None => Ok(()),
    }
}
