//! A decider: words counted. What is counted in pieces is the same as what is counted at once, in whatever order the pieces come.

use std::collections::HashMap;

/// Each different word, with how often it came.
#[derive(Default)]
pub struct WordCounts {
    counts: HashMap<Box<[u8]>, u64>,
    bytes: u64,
}

/// What one word takes besides its text.
const EACH: u64 = 48;

impl WordCounts {
    pub fn add(&mut self, word: &[u8], times: u64) {
        if times == 0 {
            return;
        }
        if let Some(count) = self.counts.get_mut(word) {
            *count += times;
        } else {
            self.bytes += word.len() as u64 + EACH;
            self.counts.insert(word.into(), times);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.counts.iter().for_each(|(word, &count)| self.add(word, count));
    }

    /// How much memory it takes, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.counts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The most frequent first; of equally frequent ones by their bytes.
    pub fn sorted(&self, least: u64) -> Vec<(&[u8], u64)> {
        let counts = self.counts.iter().filter(|&(_, &count)| count >= least);
        let mut found: Vec<(&[u8], u64)> = counts.map(|(word, &count)| (&**word, count)).collect();
        found.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole() {
        let (mut one, mut other) = (WordCounts::default(), WordCounts::default());
        for word in [b"b", b"a", b"b"] {
            one.add(word, 1);
        }
        other.add(b"a", 1);
        other.add(b"c", 0);
        one.merge(&other);
        assert_eq!(one.sorted(1), [(&b"a"[..], 2), (b"b", 2)]);
        assert_eq!((one.sorted(3).len(), one.len(), one.bytes()), (0, 2, 2 + 2 * EACH));
    }
}
