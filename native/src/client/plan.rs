//! Which key goes where: each key once, in the order of virtual shards, so that a server's keys lie together and within
//! them those of a shard. A decider; its buffers are kept from call to call.

use crate::keys::{Sharding, mix};

const EMPTY: u32 = u32::MAX;

#[derive(Default)]
pub struct Plan {
    /// Every key once, grouped by shard.
    pub keys: Vec<u64>,
    /// Where in the caller's array each of them stands first.
    pub firsts: Vec<u32>,
    /// Later occurrences, in their order: where in the caller's array, and which of `keys` it is.
    pub repeats: Vec<(u32, u32)>,
    /// Server `s` has `keys[bounds[s]..bounds[s + 1]]`.
    pub bounds: Vec<usize>,
    seen: Vec<(u32, u32)>,
    unique: Vec<(u64, u32, u32)>,
    starts: Vec<u32>,
    places: Vec<u32>,
}

impl Plan {
    /// At most 2^32 - 2 keys, which the caller has checked.
    pub fn make(&mut self, keys: &[u64], sharding: Sharding, servers: usize) {
        assert!(keys.len() < EMPTY as usize, "more keys than a plan can count");
        self.find_unique(keys, sharding);
        let mut start = 0;
        for count in &mut self.starts {
            start += std::mem::replace(count, start);
        }
        self.bounds.clear();
        self.bounds.extend((0..=servers).map(|server| {
            let shard = if server == servers { sharding.count() } else { sharding.shards_of(server, servers).start };
            self.starts.get(shard).map_or(self.unique.len(), |start| *start as usize)
        }));
        self.keys.resize(self.unique.len(), 0);
        self.firsts.resize(self.unique.len(), 0);
        self.places.resize(self.unique.len(), 0);
        for ((key, first, shard), place) in self.unique.iter().zip(&mut self.places) {
            let at = &mut self.starts[*shard as usize];
            *place = *at;
            self.keys[*at as usize] = *key;
            self.firsts[*at as usize] = *first;
            *at += 1;
        }
        for (_, which) in &mut self.repeats {
            *which = self.places[*which as usize];
        }
    }

    fn find_unique(&mut self, keys: &[u64], sharding: Sharding) {
        let size = (keys.len() * 2).next_power_of_two().max(16);
        let mask = size - 1;
        self.seen.clear();
        self.seen.resize(size, (0, EMPTY));
        self.unique.clear();
        self.repeats.clear();
        self.starts.clear();
        self.starts.resize(sharding.count(), 0);
        for (index, key) in keys.iter().enumerate() {
            let mixed = mix(*key);
            let tag = (mixed >> 32) as u32;
            let mut slot = mixed as usize & mask;
            loop {
                let (held, which) = self.seen[slot];
                if which == EMPTY {
                    let shard = sharding.shard_of(mixed);
                    self.seen[slot] = (tag, self.unique.len() as u32);
                    self.unique.push((*key, index as u32, shard as u32));
                    self.starts[shard] += 1;
                    break;
                }
                if held == tag && self.unique[which as usize].0 == *key {
                    self.repeats.push((index as u32, which));
                    break;
                }
                slot = (slot + 1) & mask;
            }
        }
    }

    /// The first rows of a server's keys, in the order of the plan.
    pub fn gather(&self, server: usize, rows: &[f32], width: usize, into: &mut Vec<f32>) {
        let firsts = &self.firsts[self.bounds[server]..self.bounds[server + 1]];
        // Every element is overwritten: what a buffer still holds need not be cleared.
        into.resize(firsts.len() * width, 0.0);
        match width {
            8 => gather_fixed::<8>(firsts, rows, into),
            16 => gather_fixed::<16>(firsts, rows, into),
            32 => gather_fixed::<32>(firsts, rows, into),
            64 => gather_fixed::<64>(firsts, rows, into),
            _ => {
                for (first, row) in firsts.iter().zip(into.chunks_exact_mut(width)) {
                    row.copy_from_slice(&rows[*first as usize * width..][..width]);
                }
            }
        }
    }

    /// Puts rows of the plan's keys from `from` on where the caller has them first.
    pub fn scatter(&self, from: usize, rows: &[f32], width: usize, out: &mut [f32]) {
        let firsts = &self.firsts[from..from + rows.len() / width];
        match width {
            8 => scatter_fixed::<8>(firsts, rows, out),
            16 => scatter_fixed::<16>(firsts, rows, out),
            32 => scatter_fixed::<32>(firsts, rows, out),
            64 => scatter_fixed::<64>(firsts, rows, out),
            _ => {
                for (first, row) in firsts.iter().zip(rows.chunks_exact(width)) {
                    out[*first as usize * width..][..width].copy_from_slice(row);
                }
            }
        }
    }

    /// Once all first occurrences are in place: the others.
    pub fn repeat(&self, width: usize, out: &mut [f32]) {
        for (index, which) in &self.repeats {
            let first = self.firsts[*which as usize] as usize * width;
            out.copy_within(first..first + width, *index as usize * width);
        }
    }
}

fn gather_fixed<const WIDTH: usize>(firsts: &[u32], rows: &[f32], into: &mut [f32]) {
    let (rows, into) = (rows.as_chunks::<WIDTH>().0, into.as_chunks_mut::<WIDTH>().0);
    for (first, row) in firsts.iter().zip(into) {
        *row = rows[*first as usize];
    }
}

fn scatter_fixed<const WIDTH: usize>(firsts: &[u32], rows: &[f32], out: &mut [f32]) {
    let (rows, out) = (rows.as_chunks::<WIDTH>().0, out.as_chunks_mut::<WIDTH>().0);
    for (first, row) in firsts.iter().zip(rows) {
        out[*first as usize] = *row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_goes_once_to_its_server_and_comes_back_to_all_its_places() {
        let mut plan = Plan::default();
        for (count, range) in [(0u64, 1u64), (1, 1), (5000, 300), (3000, 1 << 40), (64, 2)] {
            let keys: Vec<u64> = (0..count).map(|i| mix(i ^ count) % range).collect();
            for servers in [1, 2, 5] {
                let sharding = Sharding::new(16).unwrap();
                plan.make(&keys, sharding, servers);
                assert_eq!(plan.keys.len() + plan.repeats.len(), keys.len());
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
                    let mut gathered = Vec::new();
                    for server in 0..servers {
                        plan.gather(server, &out, width, &mut gathered);
                        let part = &plan.keys[plan.bounds[server]..plan.bounds[server + 1]];
                        assert!(part.iter().zip(gathered.chunks_exact(width)).all(|(key, row)| row[0] == *key as f32));
                    }
                }
            }
        }
    }
}
