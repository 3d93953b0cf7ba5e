//! Synchronous steps from a trainer's side: prepare on all servers, then commit on all; and how a trainer that was
//! restarted finds out where it stood.
//!
//! ```text
//! some server has committed step t        -> the others have prepared it: commit it there too, go on with t + 1
//! none has                                -> what there is of it is forgotten everywhere, do t again
//! ```

use std::time::Duration;

use super::error::{ClientError, Outcome};
use super::link::Welcome;
use super::next_rows::NextRows;
use super::orders::{Body, Order};
use super::session::Turn;
use super::state::State;
use crate::wire::frame::{Header, Op, flag};

/// How often a step is chosen again because the servers went on without this trainer meanwhile.
const ATTEMPTS: usize = 100;

impl Turn<'_> {
    pub fn prepare(&mut self, step: u64) -> Outcome<()> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        state.tell_all(Header { seq: step, ..Header::of(Op::Prepare) }, &[], context)?;
        state.step = Some(step);
        state.step_prepared(step);
        Ok(())
    }

    /// With `next`, it is waited for as well: they are rows of the step after it.
    pub fn commit(&mut self, step: u64, next: &mut [NextRows<'_>]) -> Outcome<()> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        let ahead = state.ahead(next, step + 1)?;
        let header = Header { seq: step, ..Header::of(Op::Commit) };
        let orders = (0..state.links.len()).map(|link| Order::new(link, header, None, Body::Bytes(&[]))).collect();
        let is_pulled = state.perform_and_pull(orders, ahead, next, context)?;
        state.steps_closed(step, true);
        if is_pulled { Ok(()) } else { self.pull_next(next, step + 1) }
    }

    pub fn abort(&mut self, step: u64) -> Outcome<()> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        state.tell_all(Header { seq: step, ..Header::of(Op::Abort) }, &[], context)?;
        state.steps_closed(step, false);
        Ok(())
    }

    pub fn done(&mut self) -> Outcome<()> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        // Nobody could send it again.
        state.settle(context)?;
        state.tell_all(Header::of(Op::Done), &[], context).map(|_| ())
    }

    /// This trainer takes no more steps; everything else goes on.
    pub fn finish_steps(&mut self) -> Outcome<()> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        state.tell_all(Header { flags: flag::STEP, ..Header::of(Op::Done) }, &[], context).map(|_| ())
    }

    /// The step that comes next, as far as this client knows.
    pub fn step(&mut self) -> Option<u64> {
        self.split().0.step
    }

    /// The step to go on with. New connections are made, because only a welcome says where a server stands.
    pub fn resume(&mut self) -> Outcome<u64> {
        let (state, context) = self.split();
        for _ in 0..ATTEMPTS {
            state.links.iter_mut().for_each(|link| link.stream = None);
            state.connect_all(context)?;
            // Done before, or given up by somebody: it joins again, and says so everywhere. Where the others have gone on
            // without it, a little ahead of them.
            let given_up = state.links.iter().any(|link| !link.welcome.joined);
            let next = state.links.iter().map(|link| link.welcome.next).max().unwrap_or(0);
            let latest = state.links.iter().map(|link| link.welcome.step).max().unwrap_or(0);
            let step = if given_up && latest > next { latest + 2 } else { next };
            let mut orders = Vec::new();
            for (index, link) in state.links.iter().enumerate() {
                let op = match link.welcome {
                    _ if given_up => Op::Abort,
                    Welcome { next, .. } if next < step => Op::Commit,
                    Welcome { prepared: true, .. } => Op::Abort,
                    _ => continue,
                };
                let seq = if op == Op::Commit { link.welcome.next } else { step };
                let header = Header { seq, ..Header::of(op) };
                orders.push(Order::new(index, header, None, Body::Bytes(&[])));
            }
            match state.perform(&mut orders, &mut |_, _, _, _| {}, context) {
                Ok(_) => {
                    for link in &mut state.links {
                        link.open = None;
                        link.resumed = Some(step);
                        // A kill may take back a commit that was sent just now; it is then sent again.
                        link.committed = if given_up { None } else { step.checked_sub(1) };
                    }
                    state.step = Some(step);
                    return Ok(step);
                }
                // The others go on meanwhile, and do not everywhere notice at the same moment that this one is away.
                Err(ClientError::Refused(detail)) if matches!(detail.code.as_str(), "step-past" | "step-order") => {
                    context.nap(Duration::from_millis(100))?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(ClientError::refused("step-past", "the servers go on faster than this trainer can join them"))
    }
}

impl State {
    pub(super) fn step_prepared(&mut self, step: u64) {
        for open in self.links.iter_mut().filter_map(|link| link.open.as_mut()) {
            open.prepared |= open.step == step;
        }
    }

    pub(super) fn steps_closed(&mut self, step: u64, committed: bool) {
        self.step = Some(if committed { step + 1 } else { step });
        let mut spare = std::mem::take(&mut self.spare);
        for link in &mut self.links {
            link.close_step(step, &mut spare);
            if committed {
                link.committed = link.committed.max(Some(step));
            }
        }
        self.spare = spare;
    }
}
