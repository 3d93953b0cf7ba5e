//! Rows that expire: behind its state each has the days that have passed since a push last brought it. A decider.

use crate::table::spec::Expire;

/// A push brings the row.
#[inline(always)]
pub fn seen(state: &mut [f32]) {
    if let [.., days] = state {
        *days = 0.0;
    }
}

/// A day passes. `false`: nobody has needed the row for too long.
pub fn pass(expire: &Expire, state: &mut [f32]) -> bool {
    let [.., days] = state else { return true };
    *days += 1.0;
    *days <= expire.days as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_the_day_after_its_last() {
        let mut state = [7.0, 0.0];
        let expire = Expire { days: 2 };
        assert!(pass(&expire, &mut state) && pass(&expire, &mut state));
        seen(&mut state);
        assert!(pass(&expire, &mut state) && pass(&expire, &mut state));
        assert!(!pass(&expire, &mut state));
        assert_eq!(state[0], 7.0);
    }
}
