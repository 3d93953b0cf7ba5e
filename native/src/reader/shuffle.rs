//! Deciders: permutations that depend on a seed and a number alone. A stream is shuffled in windows: a window of samples is
//! read, permuted and given out, then the next. So the state of a shuffle is two numbers and the place where its window
//! begins, and it can be rebuilt exactly.

use crate::keys::mix;

/// The numbers below `count` in an order of their own for each seed and `number`.
pub fn permutation(seed: u64, number: u64, count: usize) -> Vec<u32> {
    let mut state = mix(mix(seed) ^ number.wrapping_mul(0xD134_2543_DE82_EF95));
    let mut order: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let draw = (u128::from(mix(state)) * (last as u128 + 1)) >> 64;
        order.swap(last, draw as usize);
    }
    order
}
