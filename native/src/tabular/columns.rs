//! Values: what was read of a column: ids, numbers or values, missing ones, lists.

use super::fault::shown;

/// Texts of one batch take no more bytes together than this.
const MOST_TEXT: usize = 1 << 30;
const TOO_MUCH_TEXT: &str = "its texts take more than 1 GiB in one batch: ask for fewer rows at a time";
/// So many bad values of one piece are kept with their text.
const BAD_KEPT: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Ids(Vec<u64>),
    Numbers(Vec<f64>),
    Bools(Vec<u8>),
    Ints(Vec<i64>),
    UInts(Vec<u64>),
    Floats32(Vec<f32>),
    Floats64(Vec<f64>),
    /// Where each text ends, and all of them end to end.
    Texts(Vec<u64>, Vec<u8>),
}

/// Of a value: there, missing, or not what was asked for.
pub const THERE: u8 = 0;
pub const MISSING: u8 = 1;
pub const BAD: u8 = 2;

/// A value that is not what was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Bad {
    pub at: usize,
    pub value: String,
    pub expected: &'static str,
}

/// Where each row's elements end, and which rows have no list at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lists {
    pub ends: Vec<u64>,
    pub missing: Vec<u8>,
}

/// Values of one column, one per row, or any number in lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub data: Data,
    pub state: Vec<u8>,
    /// The first of the bad ones.
    pub bad: Vec<Bad>,
    pub lists: Option<Lists>,
}

impl Lists {
    /// A row whose elements end here.
    pub fn push(&mut self, end: usize, missing: bool) {
        self.ends.push(end as u64);
        self.missing.push(u8::from(missing));
    }
}

impl Bad {
    /// Keeps a bad value's text, if it is one of the first.
    pub fn keep(kept: &mut Vec<Self>, at: usize, word: &[u8]) {
        if kept.len() < BAD_KEPT {
            kept.push(Self { at, value: shown(word), expected: "a number" });
        }
    }
}

impl Column {
    /// Values, in lists or not.
    pub fn values(&self) -> usize {
        self.state.len()
    }

    pub fn rows(&self) -> usize {
        self.lists.as_ref().map_or(self.state.len(), |lists| lists.ends.len())
    }

    /// Whether its texts take no more than a batch may have.
    pub fn check_text(&self) -> Result<(), &'static str> {
        match &self.data {
            Data::Texts(_, bytes) if bytes.len() > MOST_TEXT => Err(TOO_MUCH_TEXT),
            _ => Ok(()),
        }
    }

    /// Makes room for so many values; texts get theirs when they come.
    pub fn reserve(&mut self, count: usize) {
        self.state.reserve(count);
        match &mut self.data {
            Data::Ids(values) | Data::UInts(values) | Data::Texts(values, _) => values.reserve(count),
            Data::Numbers(values) | Data::Floats64(values) => values.reserve(count),
            Data::Bools(values) => values.reserve(count),
            Data::Ints(values) => values.reserve(count),
            Data::Floats32(values) => values.reserve(count),
        }
    }

    /// Appends missing values.
    pub fn pad(&mut self, count: usize) {
        let length = self.state.len() + count;
        self.state.resize(length, MISSING);
        match &mut self.data {
            Data::Ids(values) | Data::UInts(values) => values.resize(length, 0),
            Data::Numbers(values) | Data::Floats64(values) => values.resize(length, f64::NAN),
            Data::Bools(values) => values.resize(length, 0),
            Data::Ints(values) => values.resize(length, 0),
            Data::Floats32(values) => values.resize(length, f32::NAN),
            Data::Texts(ends, bytes) => ends.resize(length, bytes.len() as u64),
        }
    }

    /// Forgets all rows but the first, also what a last list has that was not ended.
    pub fn truncate(&mut self, rows: usize) {
        let values = match &mut self.lists {
            None => rows,
            Some(lists) => {
                lists.ends.truncate(rows);
                lists.missing.truncate(rows);
                lists.ends.last().map_or(0, |&end| end as usize)
            }
        };
        match &mut self.data {
            Data::Ids(all) | Data::UInts(all) => all.truncate(values),
            Data::Numbers(all) | Data::Floats64(all) => all.truncate(values),
            Data::Bools(all) => all.truncate(values),
            Data::Ints(all) => all.truncate(values),
            Data::Floats32(all) => all.truncate(values),
            Data::Texts(ends, bytes) => {
                ends.truncate(values);
                bytes.truncate(ends.last().map_or(0, |&end| end as usize));
            }
        }
        self.state.truncate(values);
        self.bad.retain(|bad| bad.at < values);
    }

    /// Appends words of a dictionary, or says why that can't be.
    pub fn gather(&mut self, words: &Self, indices: &[u32]) -> Result<(), &'static str> {
        let count = words.values();
        if indices.iter().fold(0, |most, &index| most.max(index)) as usize >= count && !indices.is_empty() {
            return Err("an index beyond the end of its dictionary");
        }
        let before = self.state.len();
        match (&mut self.data, &words.data) {
            (Data::Ids(into), Data::Ids(from)) | (Data::UInts(into), Data::UInts(from)) => pick(into, from, indices),
            (Data::Numbers(into), Data::Numbers(from)) | (Data::Floats64(into), Data::Floats64(from)) => {
                pick(into, from, indices);
            }
            (Data::Bools(into), Data::Bools(from)) => pick(into, from, indices),
            (Data::Ints(into), Data::Ints(from)) => pick(into, from, indices),
            (Data::Floats32(into), Data::Floats32(from)) => pick(into, from, indices),
            (Data::Texts(ends, bytes), Data::Texts(from_ends, from)) => {
                for &index in indices {
                    let index = index as usize;
                    let start = if index == 0 { 0 } else { from_ends[index - 1] };
                    if bytes.len() > MOST_TEXT {
                        return Err(TOO_MUCH_TEXT);
                    }
                    bytes.extend_from_slice(&from[start as usize..from_ends[index] as usize]);
                    ends.push(bytes.len() as u64);
                }
            }
            _ => return Err("a dictionary of another type"),
        }
        if words.state.iter().all(|&state| state == THERE) {
            self.state.resize(before + indices.len(), THERE);
        } else {
            pick(&mut self.state, &words.state, indices);
            for (at, &index) in indices.iter().enumerate() {
                if self.state[before + at] == BAD && self.bad.len() < BAD_KEPT {
                    let known = words.bad.iter().find(|bad| bad.at == index as usize);
                    let value = known.map_or_else(|| "...".into(), |bad| bad.value.clone());
                    self.bad.push(Bad { at: before + at, value, expected: "a number" });
                }
            }
        }
        Ok(())
    }

    /// Spreads the values from `start` on over as many places as `there` has, of which those with 0 are missing.
    pub fn spread(&mut self, start: usize, there: &[u8]) {
        let present = self.state.len() - start;
        for bad in self.bad.iter_mut().filter(|bad| bad.at >= start) {
            let mut left = bad.at - start;
            let place = there.iter().position(|&is_there| {
                let found = is_there != 0 && left == 0;
                left -= usize::from(is_there != 0 && left > 0);
                found
            });
            bad.at = start + place.unwrap_or(0);
        }
        match &mut self.data {
            Data::Ids(values) | Data::UInts(values) => spread(values, start, present, there, 0),
            Data::Numbers(values) | Data::Floats64(values) => spread(values, start, present, there, f64::NAN),
            Data::Bools(values) => spread(values, start, present, there, 0),
            Data::Ints(values) => spread(values, start, present, there, 0),
            Data::Floats32(values) => spread(values, start, present, there, f32::NAN),
            Data::Texts(ends, _) => {
                let before = if start == 0 { 0 } else { ends[start - 1] };
                spread(ends, start, present, there, 0);
                let mut end = before;
                for (place, &is_there) in ends[start..].iter_mut().zip(there) {
                    if is_there == 0 {
                        *place = end;
                    }
                    end = *place;
                }
            }
        }
        spread(&mut self.state, start, present, there, MISSING);
    }

    /// Takes the first rows off.
    pub fn split_front(&mut self, rows: usize) -> Self {
        let values = match &self.lists {
            None => rows,
            Some(_) if rows == 0 => 0,
            Some(lists) => lists.ends[rows - 1] as usize,
        };
        let lists = self.lists.as_mut().map(|lists| {
            let mut rest = lists.ends.split_off(rows);
            rest.iter_mut().for_each(|end| *end -= values as u64);
            let missing = front(&mut lists.missing, rows);
            Lists { ends: std::mem::replace(&mut lists.ends, rest), missing }
        });
        let data = match &mut self.data {
            Data::Ids(all) => Data::Ids(front(all, values)),
            Data::Numbers(all) => Data::Numbers(front(all, values)),
            Data::Bools(all) => Data::Bools(front(all, values)),
            Data::Ints(all) => Data::Ints(front(all, values)),
            Data::UInts(all) => Data::UInts(front(all, values)),
            Data::Floats32(all) => Data::Floats32(front(all, values)),
            Data::Floats64(all) => Data::Floats64(front(all, values)),
            Data::Texts(ends, bytes) => {
                let ends_here = front(ends, values);
                let cut = ends_here.last().copied().unwrap_or(0);
                ends.iter_mut().for_each(|end| *end -= cut);
                Data::Texts(ends_here, front(bytes, cut as usize))
            }
        };
        let (bad, mut later): (Vec<Bad>, Vec<Bad>) =
            std::mem::take(&mut self.bad).into_iter().partition(|bad| bad.at < values);
        later.iter_mut().for_each(|bad| bad.at -= values);
        self.bad = later;
        Self { data, state: front(&mut self.state, values), bad, lists }
    }

    /// Marks the rows with a bad value.
    pub fn mark_bad_rows(&self, rows: &mut [u8]) {
        if !self.state.contains(&BAD) {
            return;
        }
        match &self.lists {
            None => rows.iter_mut().zip(&self.state).for_each(|(row, &state)| *row |= u8::from(state == BAD)),
            Some(lists) => {
                let mut start = 0;
                for (row, &end) in rows.iter_mut().zip(&lists.ends) {
                    *row |= u8::from(self.state[start..end as usize].contains(&BAD));
                    start = end as usize;
                }
            }
        }
    }

    /// The row of the first bad value, and that value.
    pub fn first_bad(&self) -> Option<(usize, &Bad)> {
        let bad = self.bad.first()?;
        let row = self.lists.as_ref().map_or(bad.at, |lists| lists.ends.partition_point(|&end| end <= bad.at as u64));
        Some((row, bad))
    }

    /// Takes out the rows that are marked.
    pub fn drop_rows(&mut self, marked: &[u8]) {
        let mut keep = Vec::with_capacity(self.values());
        match &mut self.lists {
            None => keep.extend(marked.iter().map(|&marked| marked == 0)),
            Some(lists) => {
                let (mut start, mut kept, mut rows) = (0, 0, Vec::new());
                for (&end, &marked) in lists.ends.iter().zip(marked) {
                    let length = end - start;
                    keep.extend(std::iter::repeat_n(marked == 0, length as usize));
                    if marked == 0 {
                        kept += length;
                        rows.push(kept);
                    }
                    start = end;
                }
                lists.ends = rows;
                let mut marks = marked.iter();
                lists.missing.retain(|_| marks.next() == Some(&0));
            }
        }
        match &mut self.data {
            Data::Ids(values) | Data::UInts(values) => keep_some(values, &keep),
            Data::Numbers(values) | Data::Floats64(values) => keep_some(values, &keep),
            Data::Bools(values) => keep_some(values, &keep),
            Data::Ints(values) => keep_some(values, &keep),
            Data::Floats32(values) => keep_some(values, &keep),
            Data::Texts(ends, bytes) => {
                let (mut new_ends, mut new_bytes, mut start) = (Vec::new(), Vec::new(), 0);
                for (&end, &keep) in ends.iter().zip(&keep) {
                    if keep {
                        new_bytes.extend_from_slice(&bytes[start as usize..end as usize]);
                        new_ends.push(new_bytes.len() as u64);
                    }
                    start = end;
                }
                (*ends, *bytes) = (new_ends, new_bytes);
            }
        }
        keep_some(&mut self.state, &keep);
        self.bad.clear();
    }
}

fn keep_some<T>(values: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    values.retain(|_| keep.next() == Some(&true));
}

fn front<T>(all: &mut Vec<T>, count: usize) -> Vec<T> {
    let rest = all.split_off(count);
    std::mem::replace(all, rest)
}

#[inline]
fn pick<T: Copy>(into: &mut Vec<T>, from: &[T], indices: &[u32]) {
    into.extend(indices.iter().map(|&index| from[index as usize]));
}

/// From the end on, so that nothing is overwritten that is still needed.
fn spread<T: Copy>(values: &mut Vec<T>, start: usize, present: usize, there: &[u8], missing: T) {
    values.resize(start + there.len(), missing);
    let mut from = start + present;
    for at in (0..there.len()).rev() {
        values[start + at] = if there[at] == 0 {
            missing
        } else {
            from -= 1;
            values[from]
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::asked::{Kind, Want};
    use super::super::filler::Raw;
    use super::super::filler::tests::{filler, texts};
    use super::*;

    #[test]
    fn bad_values_are_marked_where_they_are() {
        let (bytes, spans) = texts(&["1", "x", "2"]);
        let mut column = filler(Kind::Text, Want::Numbers).column(false);
        column.pad(1);
        filler(Kind::Text, Want::Numbers).fill(Raw::Bytes(&bytes, &spans), &mut column);
        column.spread(1, &[0, 1, 0, 1, 1]);
        assert_eq!(column.state, [MISSING, MISSING, THERE, MISSING, BAD, THERE]);
        assert_eq!(column.first_bad().map(|(row, bad)| (row, bad.value.as_str())), Some((4, "x")));
        let mut marked = vec![0; 6];
        column.mark_bad_rows(&mut marked);
        column.drop_rows(&marked);
        assert_eq!((column.rows(), column.state.contains(&BAD)), (5, false));
    }

    #[test]
    fn a_dictionary_s_words_are_hashed_once_and_its_bounds_are_kept() {
        let (bytes, spans) = texts(&["a", "", "b"]);
        let mut words = filler(Kind::Text, Want::Ids).column(false);
        filler(Kind::Text, Want::Ids).fill(Raw::Bytes(&bytes, &spans), &mut words);
        let mut column = filler(Kind::Text, Want::Ids).column(false);
        assert_eq!(column.gather(&words, &[2, 1, 2]), Ok(()));
        assert_eq!(column.state, [THERE, MISSING, THERE]);
        assert!(column.gather(&words, &[3]).is_err());
        assert_eq!(column.gather(&words, &[]), Ok(()));
    }

    #[test]
    fn the_first_rows_of_lists_are_taken_off() {
        let (bytes, spans) = texts(&["a", "bc", "d"]);
        let mut filler = filler(Kind::Text, Want::Values);
        let mut column = filler.column(true);
        filler.fill(Raw::Bytes(&bytes, &spans), &mut column);
        column.lists = Some(Lists { ends: vec![0, 2, 3], missing: vec![1, 0, 0] });
        let first = column.split_front(2);
        assert_eq!(first.data, Data::Texts(vec![1, 3], b"abc".to_vec()));
        assert_eq!(first.lists, Some(Lists { ends: vec![0, 2], missing: vec![1, 0] }));
        assert_eq!(column.data, Data::Texts(vec![1], b"d".to_vec()));
        assert_eq!((column.rows(), first.rows()), (1, 2));
    }
}
