//! Keys: how a key is mixed, which virtual shard and which server it belongs to, and what its first row looks like.
//!
//! Everything here is a pure function of the key, so a row starts with the same numbers whatever the order in which
//! keys arrive and however many servers there are. `tests/support/oracle` says the same in numpy, bit for bit.

use std::hash::Hasher;
use std::ops::Range;

use serde::{Deserialize, Serialize};

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads a key's bits over all 64 (the finalizer of SplitMix64). A bijection: no two keys collide.
#[inline(always)]
pub fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Hashes a key with `mix`: the same on every machine and in every run.
#[derive(Default)]
pub struct MixHasher(u64);

impl Hasher for MixHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }
}

/// The fixed number of virtual shards of a job, a power of two, and how they are dealt out to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    bits: u32,
}

impl Sharding {
    pub const DEFAULT: usize = 256;
    pub const MOST: usize = 4096;

    /// `None` unless `shards` is a power of two from 1 to `MOST`.
    pub fn new(shards: usize) -> Option<Self> {
        (shards.is_power_of_two() && shards <= Self::MOST).then(|| Self { bits: shards.trailing_zeros() })
    }

    pub fn count(self) -> usize {
        1 << self.bits
    }

    /// The shard of a mixed key: its top bits.
    #[inline(always)]
    pub fn shard_of(self, mixed: u64) -> usize {
        if self.bits == 0 { 0 } else { (mixed >> (64 - self.bits)) as usize }
    }

    /// The server of a shard: shards are dealt out in contiguous, nearly equal ranges.
    #[inline(always)]
    pub fn server_of(self, shard: usize, servers: usize) -> usize {
        (shard * servers) >> self.bits
    }

    /// The shards of one server.
    pub fn shards_of(self, server: usize, servers: usize) -> Range<usize> {
        let first = |s: usize| (s << self.bits).div_ceil(servers);
        first(server)..first(server + 1)
    }
}

/// What a new row holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Init {
    Constant {
        value: f32,
    },
    /// Uniform in [low, high).
    Uniform {
        low: f32,
        high: f32,
    },
    /// Nearly normal: the sum of twelve uniform numbers, so it ends at six deviations and needs integers only.
    Normal {
        mean: f32,
        deviation: f32,
    },
}

impl Init {
    /// Fills `row` with the first numbers of `key`.
    #[inline(always)]
    pub fn fill(self, seed: u64, key: u64, row: &mut [f32]) {
        match self {
            Init::Constant { value } => row.fill(value),
            Init::Uniform { low, high } => {
                let base = mix(key ^ mix(seed));
                for (column, out) in row.iter_mut().enumerate() {
                    *out = low + unit(draw(base, column as u64)) * (high - low);
                }
            }
            Init::Normal { mean, deviation } => {
                let base = mix(key ^ mix(seed));
                for (column, out) in row.iter_mut().enumerate() {
                    let mut sum = 0i64;
                    for word in 0..3 {
                        let bits = draw(base, 3 * column as u64 + word);
                        sum += (0..4).map(|part| ((bits >> (16 * part)) & 0xFFFF) as i64).sum::<i64>();
                    }
                    let standard = (sum - 6 * 65535) as f32 * (1.0 / 65536.0);
                    *out = mean + standard * deviation;
                }
            }
        }
    }
}

/// The `n`-th random word that belongs to a base.
#[inline(always)]
pub fn draw(base: u64, n: u64) -> u64 {
    mix(base.wrapping_add(n.wrapping_mul(GOLDEN)))
}

/// A word as a float32 in [0, 1): its top 24 bits, exactly.
#[inline(always)]
pub fn unit(word: u64) -> f32 {
    (word >> 40) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_has_one_server_and_ranges_agree() {
        for shards in [1, 2, 8, 256] {
            let sharding = Sharding::new(shards).unwrap();
            for servers in 1..=9 {
                for server in 0..servers {
                    for shard in sharding.shards_of(server, servers) {
                        assert_eq!(sharding.server_of(shard, servers), server);
                    }
                }
                let dealt: usize = (0..servers).map(|s| sharding.shards_of(s, servers).len()).sum();
                assert_eq!(dealt, shards);
            }
        }
        assert!(Sharding::new(0).is_none() && Sharding::new(3).is_none() && Sharding::new(8192).is_none());
    }

    #[test]
    fn rows_start_within_their_bounds() {
        let mut row = [0.0f32; 64];
        for key in 0..1000 {
            Init::Uniform { low: -0.5, high: 0.25 }.fill(7, key, &mut row);
            assert!(row.iter().all(|w| (-0.5..0.25).contains(w)));
            Init::Normal { mean: 1.0, deviation: 2.0 }.fill(7, key, &mut row);
            assert!(row.iter().all(|w| (-11.0..=13.0).contains(w)));
        }
    }
}
