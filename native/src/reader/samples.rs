//! Values: samples of slots that are ids or floats, each any number of them, in columns; cut, picked, joined, and as bytes.

use std::ops::Range;

/// A column's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Ids(Vec<u64>),
    Floats(Vec<f32>),
}

impl Values {
    fn new(is_float: bool) -> Self {
        if is_float { Self::Floats(Vec::new()) } else { Self::Ids(Vec::new()) }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Ids(values) => values.len(),
            Self::Floats(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_float(&self) -> bool {
        matches!(self, Self::Floats(_))
    }

    /// Adds some of another column, which must be of the same kind.
    fn extend(&mut self, from: &Values, range: Range<usize>) {
        match (self, from) {
            (Self::Ids(own), Self::Ids(other)) => own.extend_from_slice(&other[range]),
            (Self::Floats(own), Self::Floats(other)) => own.extend_from_slice(&other[range]),
            _ => {}
        }
    }
}

/// A slot of all samples: its values, and where each sample's begin; the first offset is 0, the last their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub values: Values,
    pub offsets: Vec<i64>,
}

impl Column {
    pub fn new(is_float: bool) -> Self {
        Self { values: Values::new(is_float), offsets: vec![0] }
    }

    /// What was added since the last one is a sample's.
    #[inline(always)]
    pub fn end_sample(&mut self) {
        self.offsets.push(self.values.len() as i64);
    }

    fn range(&self, sample: usize) -> Range<usize> {
        self.offsets[sample] as usize..self.offsets[sample + 1] as usize
    }

    fn append(&mut self, from: &Column, samples: Range<usize>) {
        let start = from.offsets[samples.start];
        let shift = self.values.len() as i64 - start;
        self.values.extend(&from.values, start as usize..from.offsets[samples.end] as usize);
        self.offsets.extend(from.offsets[samples.start + 1..=samples.end].iter().map(|offset| offset + shift));
    }

    fn take(&self, picked: &[i64]) -> Column {
        let mut column = Column::new(self.values.is_float());
        column.offsets.reserve(picked.len());
        for &sample in picked {
            column.values.extend(&self.values, self.range(sample as usize));
            column.end_sample();
        }
        column
    }

    fn bytes(&self) -> usize {
        let each = if self.values.is_float() { 4 } else { 8 };
        self.values.len() * each + self.offsets.len() * 8
    }
}

/// Some samples. All columns have as many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    pub size: usize,
    pub columns: Vec<Column>,
}

impl Samples {
    /// Of all arrays.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    /// Whether others have the same slots.
    pub fn is_like(&self, other: &Samples) -> bool {
        let kinds =
            |samples: &Samples| samples.columns.iter().map(|column| column.values.is_float()).collect::<Vec<_>>();
        kinds(self) == kinds(other)
    }

    pub fn cut(&self, samples: Range<usize>) -> Samples {
        let one = |column: &Column| {
            let mut cut = Column::new(column.values.is_float());
            cut.append(column, samples.clone());
            cut
        };
        Samples { size: samples.len(), columns: self.columns.iter().map(one).collect() }
    }

    /// Those whose numbers are given, in that order. The numbers must be below `size`.
    pub fn take(&self, picked: &[i64]) -> Samples {
        Samples { size: picked.len(), columns: self.columns.iter().map(|column| column.take(picked)).collect() }
    }

    /// The same samples, but some slots are those of the samples that are given; as many as there are samples.
    pub fn with_slots_of(&self, slots: &[usize], picked: &[i64]) -> Samples {
        let one = |(slot, column): (usize, &Column)| {
            if slots.contains(&slot) { column.take(picked) } else { column.clone() }
        };
        Samples { size: self.size, columns: self.columns.iter().enumerate().map(one).collect() }
    }

    /// One after the other. They must have the same slots.
    pub fn join(parts: &[&Samples]) -> Samples {
        let Some(first) = parts.first() else { return Samples::default() };
        let mut joined = first.cut(0..first.size);
        for part in &parts[1..] {
            for (own, other) in joined.columns.iter_mut().zip(&part.columns) {
                own.append(other, 0..part.size);
            }
            joined.size += part.size;
        }
        joined
    }

    /// As bytes: the number of samples, of columns, and for each column its kind, its number of values, how many each sample
    /// has, and the values. Little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes() + 12 + 9 * self.columns.len());
        out.extend((self.size as u64).to_le_bytes());
        out.extend((self.columns.len() as u32).to_le_bytes());
        for column in &self.columns {
            out.push(u8::from(column.values.is_float()));
            out.extend((column.values.len() as u64).to_le_bytes());
            column.offsets.windows(2).for_each(|pair| out.extend(((pair[1] - pair[0]) as u32).to_le_bytes()));
            match &column.values {
                Values::Ids(values) => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
                Values::Floats(values) => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
            }
        }
        out
    }

    /// `None`: these bytes are no samples. Nothing is reserved for what is not there.
    pub fn decode(bytes: &[u8]) -> Option<Samples> {
        let mut rest = bytes;
        let size = usize::try_from(u64::from_le_bytes(next(&mut rest)?)).ok()?;
        let count = u32::from_le_bytes(next(&mut rest)?);
        if count == 0 && size > 0 {
            return None;
        }
        let mut columns = Vec::new();
        for _ in 0..count {
            let [kind] = next(&mut rest)?;
            let values = usize::try_from(u64::from_le_bytes(next(&mut rest)?)).ok()?;
            let lengths = split(&mut rest, size.checked_mul(4)?)?;
            let mut offsets = Vec::with_capacity(size + 1);
            offsets.push(0);
            let mut end = 0i64;
            for length in lengths.chunks_exact(4) {
                end = end.checked_add(i64::from(u32::from_le_bytes(length.try_into().ok()?)))?;
                offsets.push(end);
            }
            if end != i64::try_from(values).ok()? {
                return None;
            }
            let values = match kind {
                0 => {
                    let bytes = split(&mut rest, values.checked_mul(8)?)?;
                    Values::Ids(bytes.chunks_exact(8).map(|each| u64::from_le_bytes(array(each))).collect())
                }
                1 => {
                    let bytes = split(&mut rest, values.checked_mul(4)?)?;
                    Values::Floats(bytes.chunks_exact(4).map(|each| f32::from_le_bytes(array(each))).collect())
                }
                _ => return None,
            };
            columns.push(Column { values, offsets });
        }
        rest.is_empty().then_some(Samples { size, columns })
    }
}

fn split<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(first)
}

fn next<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    split(rest, N)?.try_into().ok()
}

/// A chunk of exactly so many bytes.
fn array<const N: usize>(chunk: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(chunk);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(first: u64, sizes: &[usize]) -> Samples {
        let (mut ids, mut floats) = (Column::new(false), Column::new(true));
        for (at, &size) in sizes.iter().enumerate() {
            for more in 0..size as u64 {
                let (Values::Ids(own), Values::Floats(other)) = (&mut ids.values, &mut floats.values) else { continue };
                own.push(first + at as u64 * 100 + more);
                other.push(more as f32 / 2.0);
            }
            ids.end_sample();
            floats.end_sample();
        }
        Samples { size: sizes.len(), columns: vec![ids, floats] }
    }

    #[test]
    fn parts_joined_are_the_whole() {
        let whole = some(5, &[1, 0, 3, 2]);
        for at in 0..=4 {
            assert_eq!(Samples::join(&[&whole.cut(0..at), &whole.cut(at..4)]), whole);
        }
        assert_eq!(whole.take(&[0, 1, 2, 3]), whole);
        assert_eq!(whole.take(&[2]), whole.cut(2..3));
        assert_eq!(Samples::join(&[]), Samples::default());
    }

    #[test]
    fn slots_of_other_samples() {
        let mixed = some(5, &[1, 2]).with_slots_of(&[0], &[1, 0]);
        assert_eq!(mixed.columns[0], some(5, &[1, 2]).take(&[1, 0]).columns[0]);
        assert_eq!(mixed.columns[1], some(5, &[1, 2]).columns[1]);
    }

    #[test]
    fn bytes_are_read_back() {
        for samples in [some(u64::MAX - 300, &[1, 0, 3]), some(0, &[]), Samples::default()] {
            assert_eq!(Samples::decode(&samples.encode()), Some(samples));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let good = some(7, &[1, 2, 0]).encode();
        for length in 0..good.len() {
            assert_eq!(Samples::decode(&good[..length]), None);
        }
        assert_eq!(Samples::decode(&[&good[..], b"x"].concat()), None);
        for round in 0..100_000u64 {
            let mut bytes = good.clone();
            let draw = crate::keys::mix(round);
            let at = draw as usize % bytes.len();
            bytes[at] ^= (draw >> 32) as u8;
            if let Some(samples) = Samples::decode(&bytes) {
                assert!(samples.columns.iter().all(|column| column.offsets.len() == samples.size + 1));
                assert!(
                    samples.columns.iter().all(|column| column.offsets[samples.size] == column.values.len() as i64)
                );
            }
        }
    }
}
