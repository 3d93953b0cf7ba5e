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

    /// As bytes that `take` reads, in pieces of about so many bytes: of each word its count, its length and its text, in no order.
    pub fn packed(&self, most: usize) -> Vec<Vec<u8>> {
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for (word, count) in &self.counts {
            if pieces.last().is_none_or(|piece| piece.len() >= most) {
                pieces.push(Vec::new());
            }
            let Some(out) = pieces.last_mut() else { continue };
            out.extend(count.to_le_bytes());
            out.extend((word.len() as u32).to_le_bytes());
            out.extend_from_slice(word);
        }
        pieces
    }

    /// Adds what others have packed. `false`: it is not whole.
    pub fn take(&mut self, mut packed: &[u8]) -> bool {
        while !packed.is_empty() {
            let Some((count, rest)) = packed.split_first_chunk() else { return false };
            let Some((length, rest)) = rest.split_first_chunk() else { return false };
            let Some((word, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else { return false };
            self.add(word, u64::from_le_bytes(*count));
            packed = rest;
        }
        true
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
        let mut sent = WordCounts::default();
        assert_eq!((one.packed(1).len(), one.packed(14).len()), (2, 1));
        for most in [1, 100] {
            assert!(one.packed(most).iter().all(|piece| sent.take(piece)) && sent.take(&[]));
        }
        assert_eq!(sent.sorted(1), [(&b"a"[..], 4), (b"b", 4)]);
        assert!(!sent.take(&one.packed(100)[0][1..]) && !sent.take(&[1, 2, 3]));
        assert_eq!((one.sorted(3).len(), one.len(), one.bytes()), (0, 2, 2 + 2 * EACH));
    }
}
