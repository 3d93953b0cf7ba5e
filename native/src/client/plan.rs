//! Which key goes where: each key once, in the order of virtual shards, so that a server's keys lie together and within
//! them those of a shard. A decider; its buffers are kept from call to call.

use crate::keys::Sharding;
use crate::table::kernels;

/// How many rows before its turn the memory of a row is asked for.
const AHEAD: usize = 12;
/// In `places`: a key that stood earlier in the caller's array too.
const REPEATED: u32 = 1 << 31;

/// How repetitions of a key become one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Merge {
    /// Each times this number, added up in the order in which they stand.
    Sum(f32),
    /// The slot (column 0) is the last one's, show and click are added up, and gradients are as in `Sum`.
    Statistics(f32),
    Last,
}

/// Columns before the gradients: slot, show, click.
const STATISTICS: usize = 3;

#[derive(Default)]
pub struct Plan {
    /// Every key once, grouped by shard.
    pub keys: Vec<u64>,
    /// Server `s` has `keys[bounds[s]..bounds[s + 1]]`.
    pub bounds: Vec<usize>,
    /// Where in the caller's array each of `keys` stands first.
    firsts: Vec<u32>,
    /// Later occurrences: where in the caller's array, and which of `keys` it is.
    repeats: Vec<(u32, u32)>,
    /// For each of the caller's keys, which of `keys` it is. Empty until rows are spread for the first time.
    places: Vec<u32>,
    mixed: Vec<u64>,
    /// Per shard: how many keys, then where they begin, then where they end.
    ends: Vec<u32>,
    /// Keys in the order of shards, with bits of their mixed value and where the caller has them.
    grouped: Vec<(u64, u32, u32)>,
    seen: Vec<u32>,
    /// What this is a plan of: the caller's keys, and how they are dealt out.
    of: Vec<u64>,
    dealt: Option<(Sharding, usize)>,
}

impl Plan {
    /// Groups keys by shard first, so that finding repetitions within a shard stays in the fastest memory. The keys of the
    /// last call need no new plan: a training step pushes what it has pulled.
    pub fn make(&mut self, keys: &[u64], sharding: Sharding, servers: usize) {
        assert!(keys.len() < REPEATED as usize, "more keys than a plan can count");
        if self.dealt == Some((sharding, servers)) && self.of == keys {
            return;
        }
        self.dealt = None;
        let largest = self.group(keys, sharding);
        self.keys.resize(keys.len(), 0);
        self.firsts.resize(keys.len(), 0);
        self.repeats.clear();
        self.places.clear();
        self.bounds.clear();
        self.seen.clear();
        self.seen.resize(slots(largest), 0);
        let (once, firsts) = (&mut self.keys[..], &mut self.firsts[..]);
        let (mut begin, mut found) = (0, 0);
        for (shard, end) in self.ends.iter().enumerate() {
            while self.bounds.len() <= sharding.server_of(shard, servers) {
                self.bounds.push(found);
            }
            // What earlier shards left in `seen` is not above this, and so as good as empty.
            let before = found as u32;
            let bucket = &self.grouped[begin..*end as usize];
            let seen = &mut self.seen[..slots(bucket.len())];
            let mask = seen.len() - 1;
            for (key, mark, index) in bucket {
                let mut slot = *mark as usize & mask;
                loop {
                    let which = seen[slot];
                    if which <= before {
                        once[found] = *key;
                        firsts[found] = *index;
                        found += 1;
                        seen[slot] = found as u32;
                        break;
                    }
                    if once[which as usize - 1] == *key {
                        self.repeats.push((*index, which - 1));
                        break;
                    }
                    slot = (slot + 1) & mask;
                }
            }
            begin = *end as usize;
        }
        self.bounds.resize(servers + 1, found);
        self.keys.truncate(found);
        self.firsts.truncate(found);
        self.of.clear();
        self.of.extend_from_slice(keys);
        self.dealt = Some((sharding, servers));
    }

    /// A stable counting sort; the size of the largest group.
    fn group(&mut self, keys: &[u64], sharding: Sharding) -> usize {
        self.mixed.resize(keys.len(), 0);
        kernels::mix_all(keys, &mut self.mixed);
        self.ends.clear();
        self.ends.resize(sharding.count(), 0);
        let ends = &mut self.ends[..];
        for mixed in &self.mixed {
            ends[sharding.shard_of(*mixed)] += 1;
        }
        let (mut start, mut largest) = (0, 0);
        for count in &mut *ends {
            largest = largest.max(*count);
            start += std::mem::replace(count, start);
        }
        self.grouped.resize(keys.len(), (0, 0, 0));
        let grouped = &mut self.grouped[..];
        for ((index, key), mixed) in (0..).zip(keys).zip(&self.mixed) {
            let at = &mut ends[sharding.shard_of(*mixed)];
            grouped[*at as usize] = (*key, *mixed as u32, index);
            *at += 1;
        }
        largest as usize
    }

    fn find_places(&mut self) {
        self.places.resize(self.of.len(), 0);
        for (place, first) in (0..).zip(&self.firsts) {
            self.places[*first as usize] = place;
        }
        for (index, which) in &self.repeats {
            self.places[*index as usize] = which | REPEATED;
        }
    }

    /// The plan's keys and the caller's rows, one per key; one part per server. Rows are read from front to back, because
    /// writing here and there is cheaper than reading so.
    pub fn spread(&mut self, rows: &[f32], width: usize, merge: Merge, parts: &mut [(Vec<u64>, Vec<f32>)]) {
        if self.places.is_empty() {
            self.find_places();
        }
        for ((keys, rows), bounds) in parts.iter_mut().zip(self.bounds.windows(2)) {
            keys.clear();
            keys.extend_from_slice(&self.keys[bounds[0]..bounds[1]]);
            // Every element is overwritten: what a buffer still holds need not be cleared.
            rows.resize((bounds[1] - bounds[0]) * width, 0.0);
        }
        for (at, (marked, row)) in self.places.iter().zip(rows.chunks_exact(width)).enumerate() {
            if let (Some(soon), [(_, part)]) = (self.places.get(at + AHEAD), &*parts) {
                prefetch_row(part, (soon & !REPEATED) as usize * width, width);
            }
            let place = (marked & !REPEATED) as usize;
            let server = match parts.len() {
                1 => 0,
                _ => self.bounds.partition_point(|bound| *bound <= place) - 1,
            };
            let start = (place - self.bounds[server]) * width;
            let into = &mut parts[server].1[start..start + width];
            let repeated = marked & REPEATED != 0;
            match merge {
                Merge::Last => copy_row(into, row),
                Merge::Sum(scale) => merge_row(into, row, scale, repeated),
                Merge::Statistics(scale) => {
                    merge_row(&mut into[1..STATISTICS], &row[1..STATISTICS], 1.0, repeated);
                    merge_row(&mut into[STATISTICS..], &row[STATISTICS..], scale, repeated);
                    into[0] = row[0];
                }
            }
        }
    }

    /// Puts rows of the plan's keys from `from` on where the caller has them first.
    pub fn scatter(&self, from: usize, rows: &[f32], width: usize, out: &mut [f32]) {
        let firsts = &self.firsts[from..];
        for (at, (first, row)) in firsts.iter().zip(rows.chunks_exact(width)).enumerate() {
            if let Some(soon) = firsts.get(at + AHEAD) {
                prefetch_row(out, *soon as usize * width, width);
            }
            copy_row(&mut out[*first as usize * width..][..width], row);
        }
    }

    /// Once all first occurrences are in place: the others.
    pub fn repeat(&self, width: usize, out: &mut [f32]) {
        for (index, which) in &self.repeats {
            let (first, at) = (self.firsts[*which as usize] as usize * width, *index as usize * width);
            match width {
                8 => repeat_row::<8>(out, first, at),
                16 => repeat_row::<16>(out, first, at),
                32 => repeat_row::<32>(out, first, at),
                _ => out.copy_within(first..first + width, at),
            }
        }
    }
}

/// Sparse enough that most keys find their place at once.
fn slots(keys: usize) -> usize {
    (4 * keys).next_power_of_two()
}

/// Asks for the memory of a row that will be written soon: waiting for it is most of the time that copying takes.
#[inline(always)]
fn prefetch_row(of: &[f32], start: usize, width: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in [start, start + width - 1] {
        if let Some(element) = of.get(at) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint about an address that is a reference's.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (of, start, width);
}

/// A row times a number: the first of its key, or one more.
#[inline(always)]
fn merge_row(into: &mut [f32], row: &[f32], scale: f32, repeated: bool) {
    let rows = into.iter_mut().zip(row);
    match repeated {
        true => rows.for_each(|(sum, value)| *sum += scale * value),
        false if scale == 1.0 => copy_row(into, row),
        false => rows.for_each(|(sum, value)| *sum = scale * value),
    }
}

#[inline(always)]
fn repeat_row<const WIDTH: usize>(rows: &mut [f32], from: usize, to: usize) {
    if let Some(row) = rows[from..].first_chunk::<WIDTH>().copied() {
        rows[to..to + WIDTH].copy_from_slice(&row);
    }
}

/// Usual widths are copied by a few instructions instead of a call.
#[inline(always)]
fn copy_row(into: &mut [f32], row: &[f32]) {
    fn fixed<const WIDTH: usize>(into: &mut [f32], row: &[f32]) {
        if let (Ok(into), Ok(row)) = (<&mut [f32; WIDTH]>::try_from(into), <&[f32; WIDTH]>::try_from(row)) {
            *into = *row;
        }
    }
    match row.len() {
        8 => fixed::<8>(into, row),
        9 => fixed::<9>(into, row),
        16 => fixed::<16>(into, row),
        32 => fixed::<32>(into, row),
        64 => fixed::<64>(into, row),
        _ => into.copy_from_slice(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::mix;

    #[test]
    fn each_key_goes_once_to_its_server_and_comes_back_to_all_its_places() {
        let mut plan = Plan::default();
        for (count, range) in [(0u64, 1u64), (1, 1), (2000, 150), (900, 1 << 40), (64, 2)] {
            let keys: Vec<u64> = (0..count).map(|i| mix(i ^ count) % range).collect();
            for servers in [1, 2, 5] {
                let sharding = Sharding::new(16).unwrap();
                plan.make(&keys, sharding, servers);
                plan.make(&keys, sharding, servers);
                assert_eq!(plan.keys.len() + plan.repeats.len(), keys.len());
                assert_eq!((plan.bounds.len(), plan.bounds[0]), (servers + 1, 0));
                assert_eq!(*plan.bounds.last().unwrap(), plan.keys.len());
                for server in 0..servers {
                    let part = &plan.keys[plan.bounds[server]..plan.bounds[server + 1]];
                    let shards: Vec<usize> = part.iter().map(|key| sharding.shard_of(mix(*key))).collect();
                    assert!(shards.is_sorted());
                    assert!(shards.iter().all(|shard| sharding.server_of(*shard, servers) == server));
                }
                for width in [1, 3, 16] {
                    let mut out = vec![-1.0; keys.len() * width];
                    for (from, key) in plan.keys.iter().enumerate() {
                        plan.scatter(from, &vec![*key as f32; width], width, &mut out);
                    }
                    plan.repeat(width, &mut out);
                    for (key, row) in keys.iter().zip(out.chunks_exact(width)) {
                        assert!(row.iter().all(|value| *value == *key as f32));
                    }
                    for merge in [Merge::Sum(1.0), Merge::Sum(0.5), Merge::Statistics(0.5), Merge::Last] {
                        if merge == Merge::Statistics(0.5) && width < STATISTICS {
                            continue;
                        }
                        let mut parts = vec![(vec![7], vec![0.5]); servers];
                        plan.spread(&out, width, merge, &mut parts);
                        let (sent, rows): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
                        assert_eq!(sent.concat(), plan.keys);
                        for (key, row) in plan.keys.iter().zip(rows.concat().chunks_exact(width)) {
                            let times = keys.iter().filter(|other| *other == key).count();
                            let value = *key as f32;
                            let sum = |scale: f32| (0..times).fold(0.0, |sum, _| sum + scale * value);
                            for (column, number) in row.iter().enumerate() {
                                let expected = match (merge, column) {
                                    (Merge::Last, _) | (Merge::Statistics(_), 0) => value,
                                    (Merge::Statistics(_), 1 | 2) => sum(1.0),
                                    (Merge::Statistics(scale) | Merge::Sum(scale), _) => sum(scale),
                                };
                                assert_eq!(*number, expected);
                            }
                        }
                    }
                }
            }
        }
    }
}
