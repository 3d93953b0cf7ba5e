//! The blackboard: what trainers have said last, under a few names. A decider.
//!
//! Nobody waits for anybody here, and nothing of it is kept anywhere: a trainer says it again soon.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Names are kept as long as the server lives, so there are few.
pub const MOST_NAMES: usize = 64;

#[derive(Debug, Default)]
pub struct Blackboard(BTreeMap<String, Vec<Arc<[u8]>>>);

impl Blackboard {
    /// Everybody's latest words under a name, in order of rank, this one among them; `None` if there are too many names.
    pub fn put(&mut self, name: &str, rank: u32, said: Arc<[u8]>, world: usize) -> Option<Vec<Arc<[u8]>>> {
        if !self.0.contains_key(name) {
            if self.0.len() >= MOST_NAMES {
                return None;
            }
            self.0.insert(name.to_owned(), vec![Arc::from([]); world]);
        }
        let latest = self.0.get_mut(name)?;
        *latest.get_mut(rank as usize)? = said;
        Some(latest.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_word_of_everybody_counts() {
        let mut blackboard = Blackboard::default();
        let said = |blackboard: &mut Blackboard, rank, word: &str| {
            let all = blackboard.put("a", rank, word.as_bytes().into(), 2).unwrap();
            all.iter().map(|each| String::from_utf8(each.to_vec()).unwrap()).collect::<Vec<_>>().join("|")
        };
        assert_eq!(said(&mut blackboard, 1, "x"), "|x");
        assert_eq!(said(&mut blackboard, 0, "y"), "y|x");
        assert_eq!(said(&mut blackboard, 1, "z"), "y|z");
    }

    #[test]
    fn names_and_ranks_have_limits() {
        let mut blackboard = Blackboard::default();
        for number in 0..MOST_NAMES {
            assert!(blackboard.put(&number.to_string(), 0, [].into(), 1).is_some());
        }
        assert!(blackboard.put("one more", 0, [].into(), 1).is_none());
        assert!(blackboard.put("0", 1, [].into(), 1).is_none());
    }
}
