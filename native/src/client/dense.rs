//! Dense tables from a trainer's side: all elements at once, each server its part.
//!
//! `learn_dense` is how a training step ends: gradients go out, those of rows before them, the step counts, and the new values
//! come back, in as few exchanges as that needs. Without a step one: the answer to the gradients is the values. With a step
//! two: the gradients prepare it everywhere, and the answer to its commit is the values, once everybody's are applied.

use std::ops::Range;

use super::delivery::unexpected;
use super::error::{ClientError, Outcome};
use super::exchange::Answer;
use super::next_rows::NextRows;
use super::orders::{Body, Order, RowChange, go_before};
use super::session::Turn;
use super::state::State;
use crate::table::absent;
use crate::wire::frame::{Header, Op, flag};

/// Numbers for all elements of a dense table: arrays that follow each other, each number times `scale`. An array without a
/// gradient has marks in its places (`table::absent`).
#[derive(Clone, Copy)]
pub struct Pieces<'a> {
    pub arrays: &'a [&'a [f32]],
    pub scale: f32,
    /// In a step: they are parts of a mean, see `flag::MEAN`.
    pub mean: bool,
}

impl Pieces<'_> {
    fn flags(&self) -> u16 {
        if self.mean { flag::MEAN } else { 0 }
    }

    fn len(&self) -> usize {
        self.arrays.iter().map(|array| array.len()).sum()
    }

    /// Those of some elements, appended.
    fn copy(&self, part: &Range<usize>, into: &mut Vec<f32>) {
        let mut start = 0;
        for array in self.arrays {
            let cut = |at: usize| at.clamp(start, start + array.len()) - start;
            let here = &array[cut(part.start)..cut(part.end)];
            match self.scale {
                1.0 => into.extend_from_slice(here),
                scale => into.extend(here.iter().map(|number| absent::scaled(*number, scale))),
            }
            start += array.len();
        }
    }
}

impl Turn<'_> {
    /// Gradients or values of all elements.
    pub fn change_dense(&mut self, header: Header, table: u32, pieces: Pieces<'_>, step: Option<u64>) -> Outcome<()> {
        let (state, context) = self.split();
        let parts = state.parts(table, pieces.len())?;
        state.connect_all(context)?;
        let flags = header.flags | if step.is_some() { pieces.flags() } else { 0 };
        let header = state.numbered(Header { flags, ..header }, step);
        let rounds = state.dense_rounds(header, table, pieces, &parts)?;
        state.send(rounds, context).map(drop)
    }

    pub fn pull_dense(&mut self, table: u32, out: &mut [f32], step: u64) -> Outcome<()> {
        let (state, context) = self.split();
        let parts = state.parts(table, out.len())?;
        state.connect_all(context)?;
        let header = Header { seq: step, ..Header::of(Op::PullDense) };
        let mut orders: Vec<Order<'_>> =
            parts.iter().map(|(link, _)| Order::new(*link, header, Some(table as usize), Body::Bytes(&[]))).collect();
        expect_values(&mut orders, &parts, out);
        for answer in state.perform(&mut orders, &mut |_, _, _, _| {}, context)? {
            if !matches!(answer, Answer::Rows(_)) {
                return Err(unexpected(&answer));
            }
        }
        Ok(())
    }

    /// Gradients out, first those of rows, the step counts (with `step`, it is committed and waited for), values in, and with
    /// them the rows of the next step.
    pub fn learn_dense(
        &mut self,
        table: u32,
        gradients: Pieces<'_>,
        pushes: &[RowChange<'_>],
        out: &mut [f32],
        next: &mut [NextRows<'_>],
        step: Option<u64>,
    ) -> Outcome<()> {
        let (state, context) = self.split();
        let parts = state.parts(table, gradients.len())?;
        state.parts(table, out.len())?;
        pushes.iter().try_for_each(|push| state.row_layout(push).map(drop))?;
        state.connect_all(context)?;
        let mut of_rows = Vec::new();
        for push in pushes {
            of_rows.extend(state.row_frames(push, step)?);
        }
        let flags = if step.is_some() { flag::LAST | gradients.flags() } else { flag::VALUES };
        let header = state.numbered(Header { flags, dim: 1, ..Header::of(Op::PushDense) }, step);
        let mut rounds = state.dense_rounds(header, table, gradients, &parts)?;
        let mut last = rounds.pop().unwrap_or_default();
        let next_step = step.map_or(0, |step| step + 1);
        let ahead = state.ahead(next, next_step)?;
        let Some(step) = step else {
            expect_values(&mut last, &parts, out);
            rounds.push(last);
            go_before(of_rows, &mut rounds[0]);
            let (answers, is_pulled) = state.learn_at_once(rounds, ahead, next, context)?;
            // A server that was away has had its part while it was connected to, and said nothing of the values or rows.
            if !answers.iter().take(parts.len()).all(|answer| matches!(answer, Answer::Rows(_))) {
                self.pull_dense(table, out, 0)?;
            }
            return if is_pulled { Ok(()) } else { self.pull_next(next, next_step) };
        };
        for_the_others(state, &parts, Header { seq: step, ..Header::of(Op::Prepare) }, &mut last);
        rounds.push(last);
        go_before(of_rows, &mut rounds[0]);
        state.send(rounds, context)?;
        state.step_prepared(step);
        let header = Header { seq: step, flags: flag::VALUES, ..Header::of(Op::Commit) };
        let mut orders: Vec<Order<'_>> =
            parts.iter().map(|(link, _)| Order::new(*link, header, Some(table as usize), Body::Bytes(&[]))).collect();
        expect_values(&mut orders, &parts, out);
        for_the_others(state, &parts, Header { flags: 0, ..header }, &mut orders);
        let is_pulled = state.perform_and_pull(orders, ahead, next, context)?;
        state.steps_closed(step, true);
        if is_pulled { Ok(()) } else { self.pull_next(next, next_step) }
    }
}

/// A server and the elements that it has.
type Part = (usize, Range<usize>);

impl State {
    /// Who has which elements of a table, if it has as many as the caller thinks.
    fn parts(&self, table: u32, length: usize) -> Outcome<Vec<Part>> {
        let (elements, parts) = self.table(table)?.dense()?;
        if length != elements {
            let words = format!("the table has {elements} elements, not {length}");
            return Err(ClientError::refused("wrong-shape", words));
        }
        Ok(parts.iter().cloned().enumerate().filter(|(_, part)| !part.is_empty()).collect())
    }

    fn dense_rounds<'a>(
        &mut self,
        header: Header,
        table: u32,
        pieces: Pieces<'_>,
        parts: &[Part],
    ) -> Outcome<Vec<Vec<Order<'a>>>> {
        let header = Header { flags: header.flags | self.table(table)?.flags(header.op), ..header };
        let mut of_links = Vec::with_capacity(parts.len());
        for (link, part) in parts {
            let (mut keys, mut copy) = self.buffers();
            keys.clear();
            copy.clear();
            pieces.copy(part, &mut copy);
            of_links.push((*link, self.frames(header, table as usize, keys, copy, 1)?));
        }
        Ok(State::rounds(of_links))
    }
}

/// The answers are values of these parts, and go straight to their places.
fn expect_values<'a>(orders: &mut [Order<'a>], parts: &[Part], out: &'a mut [f32]) {
    let mut rest = out;
    for (order, (_, part)) in orders.iter_mut().zip(parts) {
        // Parts follow each other without a gap.
        let (here, after) = rest.split_at_mut(part.len());
        (order.rows, order.into) = (Some((part.len() as u32, 1)), Some(here));
        rest = after;
    }
}

/// Servers without elements take part in steps all the same.
fn for_the_others(state: &State, parts: &[Part], header: Header, orders: &mut Vec<Order<'_>>) {
    let has_part = |link: &usize| parts.iter().any(|(having, _)| having == link);
    let others = (0..state.links.len()).filter(|link| !has_part(link));
    orders.extend(others.map(|link| Order::new(link, header, None, Body::Bytes(&[]))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_from_arrays_that_follow_each_other() {
        let numbers: Vec<f32> = (0..10).map(|n| n as f32).collect();
        for cuts in [[0, 0], [0, 10], [3, 4], [5, 5], [10, 10]] {
            let arrays = [&numbers[..cuts[0]], &numbers[cuts[0]..cuts[1]], &numbers[cuts[1]..]];
            for scale in [1.0, 0.5] {
                let pieces = Pieces { arrays: &arrays, scale, mean: false };
                assert_eq!(pieces.len(), 10);
                for start in 0..=10 {
                    for end in start..=10 {
                        let mut copy = vec![-1.0];
                        pieces.copy(&(start..end), &mut copy);
                        let expected: Vec<f32> = numbers[start..end].iter().map(|n| n * scale).collect();
                        assert_eq!(copy[1..], expected);
                    }
                }
            }
        }
    }
}
