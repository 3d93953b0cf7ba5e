//! Values: samples as columns. A sparse slot is CSR (values, and offsets that begin with 0), a dense one a matrix.

use std::ops::Range;

use super::schema::Schema;

/// Reserved at once for this many samples at most, however large a batch is asked for.
const RESERVED: usize = 8192;
/// The parser may write so many samples at once, of which the last ones may be none.
const AT_ONCE: usize = 8;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sparse {
    pub values: Vec<u64>,
    pub offsets: Vec<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dense {
    pub dim: usize,
    pub values: Vec<f32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    pub size: usize,
    pub sparse: Vec<Sparse>,
    pub dense: Vec<Dense>,
}

impl Columns {
    pub fn new(schema: &Schema, expected: usize) -> Self {
        let expected = expected.min(RESERVED) + AT_ONCE;
        let sparse = || {
            let mut offsets = Vec::with_capacity(expected + 1);
            offsets.push(0);
            Sparse { values: Vec::with_capacity(expected), offsets }
        };
        // A declared dimension may be large, and lines with it may never come.
        let room = |dim: usize| (dim * expected).min(1 << 20);
        Self {
            size: 0,
            sparse: schema.sparse.iter().map(|_| sparse()).collect(),
            dense: (schema.dense.iter())
                .map(|slot| Dense { dim: slot.dim, values: Vec::with_capacity(room(slot.dim)) })
                .collect(),
        }
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.size = 0;
        for column in &mut self.sparse {
            column.values.clear();
            column.offsets.truncate(1);
        }
        self.dense.iter_mut().for_each(|column| column.values.clear());
    }

    /// Room for the values of so many samples with one id in every sparse slot.
    pub(super) fn reserve(&mut self, samples: usize) {
        self.sparse.iter_mut().for_each(|column| column.values.reserve(samples));
        self.dense.iter_mut().for_each(|column| column.values.reserve(samples * column.dim));
    }

    /// Takes over such samples that were written there. Their offsets are still to be written.
    ///
    /// SAFETY: their values must have been written, and room for them reserved.
    pub(super) unsafe fn written(&mut self, samples: usize) {
        for column in &mut self.sparse {
            // SAFETY: the caller's promise.
            unsafe { column.values.set_len(column.values.len() + samples) };
        }
        for column in &mut self.dense {
            // SAFETY: the caller's promise.
            unsafe { column.values.set_len(column.values.len() + samples * column.dim) };
        }
        self.size += samples;
    }

    /// Adds samples of others with the same slots.
    pub fn append(&mut self, from: &Columns, samples: Range<usize>) {
        for (own, other) in self.sparse.iter_mut().zip(&from.sparse) {
            own.append(&other.values, &other.offsets, &samples);
        }
        for (own, other) in self.dense.iter_mut().zip(&from.dense) {
            own.values.extend_from_slice(&other.values[samples.start * own.dim..samples.end * own.dim]);
        }
        self.size += samples.len();
    }

    /// Adds samples of others, in the order of `picked`.
    pub fn gather(&mut self, from: &Columns, picked: &[u32]) {
        for (own, other) in self.sparse.iter_mut().zip(&from.sparse) {
            if single(&other.offsets) {
                let first = own.values.len() as i64;
                own.values.extend(picked.iter().map(|&at| other.values[at as usize]));
                own.offsets.extend(first + 1..=first + picked.len() as i64);
                continue;
            }
            for &at in picked {
                let (start, end) = (other.offsets[at as usize], other.offsets[at as usize + 1]);
                own.values.extend_from_slice(&other.values[start as usize..end as usize]);
                own.offsets.push(own.values.len() as i64);
            }
        }
        for (own, other) in self.dense.iter_mut().zip(&from.dense) {
            for &at in picked {
                own.values.extend_from_slice(&other.values[at as usize * own.dim..(at as usize + 1) * own.dim]);
            }
        }
        self.size += picked.len();
    }

    /// Which sparse columns have exactly one value per sample.
    pub fn singles(&self) -> Vec<bool> {
        self.sparse.iter().map(|column| single(&column.offsets)).collect()
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        let sparse: usize = self.sparse.iter().map(|column| (column.values.len() + column.offsets.len()) * 8).sum();
        sparse + self.dense.iter().map(|column| column.values.len() * 4).sum::<usize>()
    }
}

impl Sparse {
    fn append(&mut self, values: &[u64], offsets: &[i64], samples: &Range<usize>) {
        let (start, end) = (offsets[samples.start], offsets[samples.end]);
        let shift = self.values.len() as i64 - start;
        self.values.extend_from_slice(&values[start as usize..end as usize]);
        self.offsets.extend(offsets[samples.start + 1..=samples.end].iter().map(|offset| offset + shift));
    }
}

/// Whether every sample has exactly one value.
pub fn single(offsets: &[i64]) -> bool {
    // Of a column with as many values as samples all are looked at: that is faster than to stop at the first one.
    offsets.last().is_some_and(|&last| last + 1 == offsets.len() as i64)
        && offsets.iter().zip(0i64..).fold(true, |all, (&offset, at)| all & (offset == at))
}

/// Columns of as many samples each, side by side: one row per sample.
pub fn matrix<T: Copy + Default>(columns: &[&[T]], samples: usize) -> Vec<T> {
    /// Rows that stay in the nearest cache while all columns go over them.
    const AT_ONCE: usize = 64;
    let mut out = vec![T::default(); columns.len() * samples];
    if columns.is_empty() {
        return out;
    }
    for (part, rows) in out.chunks_mut(AT_ONCE * columns.len()).enumerate() {
        for (number, column) in columns.iter().enumerate() {
            for (row, &value) in rows.chunks_exact_mut(columns.len()).zip(&column[part * AT_ONCE..]) {
                row[number] = value;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_has_a_row_for_each_sample() {
        for samples in [0, 1, 63, 64, 65, 200] {
            let columns: Vec<Vec<u64>> =
                (0..3).map(|slot| (0..samples as u64).map(|at| 1000 * slot + at).collect()).collect();
            let expected: Vec<u64> = (0..samples as u64).flat_map(|at| [at, 1000 + at, 2000 + at]).collect();
            assert_eq!(matrix(&columns.iter().map(|column| &**column).collect::<Vec<_>>(), samples), expected);
        }
        assert!(matrix::<u64>(&[], 5).is_empty());
    }

    #[test]
    fn one_value_for_each_sample() {
        for (offsets, expected) in [
            (vec![0], true),
            (vec![0, 1, 2, 3], true),
            (vec![0, 2, 2, 3], false),
            (vec![0, 1, 3], false),
            (vec![0, 0], false),
        ] {
            assert_eq!(single(&offsets), expected, "{offsets:?}");
        }
    }
}
