//! Lines that go as predicted are read eight at a time. When that is worth an attempt is decided here; how it is done, in
//! `simd8`.

use super::columns::{Columns, Dense};
use super::marks::Marks;
use super::simd8::{self, Begins, Room};
use super::steps::{Step, Target};

/// Lines that are read together before columns are told of them, and how few are as fast when they are read alone.
const MOST_TOGETHER: usize = 64;
const LEAST_TOGETHER: usize = 4;
/// After lines that could not be read together, so many are read alone before the next attempt: at first, and at most.
const ALONE: std::ops::RangeInclusive<usize> = 8..=1024;

pub struct Together {
    /// One for each step but the last; none if lines can't be read together.
    rooms: Vec<Room>,
    begins: Begins,
    /// Lines to read alone before the next attempt, and how many it will be if that fails.
    alone: usize,
    patience: usize,
}

// SAFETY: rooms are pointers into columns that are set before each use and are not used behind it.
unsafe impl Send for Together {}

impl Together {
    /// None where the processor can't do it.
    pub fn here() -> Option<Self> {
        let patience = *ALONE.start();
        simd8::is_here().then(|| Self { rooms: Vec::new(), begins: Vec::new(), alone: 0, patience })
    }

    /// From now on lines that go by these steps are read together; none if there are no steps. A line must have one value in
    /// every sparse slot, and the right number in each of so many dense ones.
    pub fn allow(&mut self, steps: &[Step], dense: usize) {
        let mut times = vec![0; dense];
        self.rooms.clear();
        self.rooms.extend(steps.iter().map(|step| {
            let mut within = 0;
            if let Target::Dense(column) = step.target {
                within = times[column as usize];
                times[column as usize] += 1;
            }
            Room { to: std::ptr::null_mut(), stride: 0, within }
        }));
    }

    /// Whether the next line is worth an attempt.
    #[inline(always)]
    pub fn is_due(&mut self) -> bool {
        if !self.rooms.is_empty() && self.alone == 0 {
            return true;
        }
        self.alone = self.alone.saturating_sub(1);
        false
    }

    /// Reads lines that go by these steps, from `line` on and up to `most` of them; returns how many. They are in the columns
    /// but for the offsets of the sparse ones.
    ///
    /// SAFETY: the steps must be those that were allowed, and the marks those of this text, which ends with a newline and has
    /// `PAD` bytes behind it. The line must be one of them.
    #[inline(never)]
    pub unsafe fn read(
        &mut self,
        text: *const u8,
        marks: &Marks,
        line: usize,
        most: usize,
        steps: &[Step],
        out: &mut Columns,
    ) -> usize {
        let most = most.min(MOST_TOGETHER).min(marks.lines() - line);
        let first = marks.first(line);
        // A space or a carriage return at the end of the line has one more token behind it, an empty one.
        let apart = (marks.first(line + 1) - first).clamp(steps.len(), steps.len() + 1);
        let alike = marks.alike(line..line + most, apart);
        if alike < LEAST_TOGETHER {
            self.alone = alike;
            return 0;
        }
        out.reserve(alike.next_multiple_of(simd8::LINES));
        make_room(steps, &mut self.rooms, out);
        let mut read = 0;
        while read < alike {
            let lines = (alike - read).min(simd8::LINES);
            let starts = marks.starts_from(first + read * apart);
            // SAFETY: so many lines are alike, and there is room for them. Their rooms were made for these steps.
            let good = unsafe { simd8::read(text, starts, apart, lines, steps, &self.rooms, &mut self.begins) };
            if !good {
                break;
            }
            for room in &mut self.rooms {
                room.to = room.to.wrapping_add(lines * room.stride);
            }
            read += lines;
        }
        if read < alike {
            self.alone = self.patience;
            self.patience = (2 * self.patience).min(*ALONE.end());
        }
        if read >= 2 * simd8::LINES {
            self.patience = *ALONE.start();
        }
        if read > 0 {
            // SAFETY: every column got a value of every line, since regular lines alone have rooms.
            unsafe { out.written(read) };
        }
        read
    }
}

/// Points at the next line's values. `Columns::reserve` must have been called.
fn make_room(steps: &[Step], rooms: &mut [Room], out: &mut Columns) {
    fn next<T>(values: &mut Vec<T>, more: usize) -> *mut u8 {
        values.as_mut_ptr().wrapping_add(values.len() + more).cast()
    }
    for (step, room) in steps.iter().zip(rooms) {
        (room.to, room.stride) = match step.target {
            Target::Sparse(column) => (next(&mut out.sparse[column as usize].values, 0), 8),
            Target::Dense(column) => {
                let Dense { dim, values } = &mut out.dense[column as usize];
                (next(values, room.within), 4 * *dim)
            }
            Target::Unknown(_) => (std::ptr::null_mut(), 0),
        };
    }
}
