//! Rows of the step that comes next, asked for with the end of this one.
//!
//! A pull stands behind another request on the same connection, so a server reads the rows once it has done that: they have
//! this trainer's gradients in them, and in a synchronous step everybody's. They are what a pull after the answer would have
//! read, an exchange earlier.

use super::context::CallContext;
use super::error::{ClientError, Outcome};
use super::exchange::Answer;
use super::orders::{Body, Order, PullBehind};
use super::plan::Plan;
use super::session::{Turn, made_flags};
use super::state::State;
use crate::table::Absent;
use crate::wire::codec;
use crate::wire::frame::{Header, Op};

/// What is to be read of one table, and where to.
pub struct NextRows<'a> {
    pub table: u32,
    pub keys: &'a [u64],
    pub out: &'a mut [f32],
}

/// What goes where, made before the orders that borrow it.
pub(super) struct Ahead {
    wanted: Vec<Wanted>,
    step: u64,
}

struct Wanted {
    table: u32,
    width: usize,
    flags: u16,
    plan: Plan,
}

/// For each order of a round, and each pull behind it: which table's rows they are, and from which key of its plan on.
pub(super) type Places = Vec<Vec<(usize, usize)>>;

impl State {
    /// `None` if a server would have to be asked in several parts: they are pulled afterwards. `step`: which the rows are for.
    pub(super) fn ahead(&mut self, rows: &[NextRows<'_>], step: u64) -> Outcome<Option<Ahead>> {
        let mut plans = std::mem::take(&mut self.plans);
        plans.resize_with(rows.len().max(plans.len()), Plan::default);
        let mut wanted = Vec::with_capacity(rows.len());
        let mut fits = !rows.is_empty();
        for (NextRows { table, keys, out }, mut plan) in rows.iter().zip(plans) {
            let known = self.table(*table)?;
            let (width, flags) = (known.sparse()?.0, made_flags(known.is_narrow));
            if out.len() != keys.len() * width {
                let words = format!("{} keys are not {} floats", keys.len(), out.len());
                return Err(ClientError::refused("wrong-shape", words));
            }
            plan.make(keys, self.sharding, self.links.len());
            let most = (self.config.most_frame / (4 * width).max(8)).max(1);
            fits &= plan.bounds.windows(2).all(|bounds| bounds[1] - bounds[0] <= most);
            wanted.push(Wanted { table: *table, width, flags, plan });
        }
        Ok(fits.then_some(Ahead { wanted, step }))
    }

    /// Changes that take effect at once, with pulls behind the last of them. The answers, and whether the rows are there.
    pub(super) fn learn_at_once(
        &mut self,
        rounds: Vec<Vec<Order<'_>>>,
        ahead: Option<Ahead>,
        rows: &mut [NextRows<'_>],
        context: &mut CallContext<'_>,
    ) -> Outcome<(Vec<Answer>, bool)> {
        let Some(ahead) = ahead else { return Ok((self.send(rounds, context)?, rows.is_empty())) };
        // For as long as what they ask for.
        let mut rounds: Vec<Vec<Order<'_>>> = rounds;
        let mut round = rounds.pop().unwrap_or_default();
        let places = ahead.stand_behind(self.links.len(), &mut round);
        rounds.push(round);
        let mut sink = |order: usize, which: usize, row: usize, part: &[f32]| {
            ahead.take(&places, rows, (order, which, row), part);
        };
        let (answers, is_pulled) = self.send_and_pull(rounds, &mut sink, context)?;
        self.pulled(ahead, rows);
        Ok((answers, is_pulled))
    }

    /// Requests with pulls behind them. Whether the rows are there.
    pub(super) fn perform_and_pull(
        &mut self,
        orders: Vec<Order<'_>>,
        ahead: Option<Ahead>,
        rows: &mut [NextRows<'_>],
        context: &mut CallContext<'_>,
    ) -> Outcome<bool> {
        let mut orders: Vec<Order<'_>> = orders;
        let Some(ahead) = ahead else {
            self.perform(&mut orders, &mut |_, _, _, _| {}, context)?;
            return Ok(rows.is_empty());
        };
        // For as long as what they ask for.
        let mut orders: Vec<Order<'_>> = orders;
        let places = ahead.stand_behind(self.links.len(), &mut orders);
        let mut sink = |order: usize, which: usize, row: usize, part: &[f32]| {
            ahead.take(&places, rows, (order, which, row), part);
        };
        self.perform(&mut orders, &mut sink, context)?;
        let is_pulled = orders.iter().all(Order::has_pulled);
        drop(orders);
        self.pulled(ahead, rows);
        Ok(is_pulled)
    }

    /// All rows that come are there: also those of keys that stand in several places. Plans are kept; one that is alone is
    /// that of the next push.
    fn pulled(&mut self, ahead: Ahead, rows: &mut [NextRows<'_>]) {
        for (Wanted { plan, width, .. }, next) in ahead.wanted.iter().zip(rows) {
            plan.repeat(*width, next.out);
        }
        let mut plans: Vec<Plan> = ahead.wanted.into_iter().map(|wanted| wanted.plan).collect();
        if let [only] = &mut plans[..] {
            std::mem::swap(only, &mut self.plan);
        }
        self.plans = plans;
    }
}

impl Ahead {
    /// Lets the pulls stand behind the orders of a round. A server that has none gets one, which asks for nothing else.
    pub(super) fn stand_behind<'a>(&'a self, links: usize, round: &mut Vec<Order<'a>>) -> Places {
        let mut places: Places = round.iter().map(|_| Vec::new()).collect();
        for (number, Wanted { table, width, flags, plan }) in self.wanted.iter().enumerate() {
            for link in 0..links {
                let (begin, end) = (plan.bounds[link], plan.bounds[link + 1]);
                // The first server is where trainers meet: it must know of everybody who waits for a step.
                let is_meeting = number == 0 && link == 0 && self.step > 0;
                if begin == end && !is_meeting {
                    continue;
                }
                let at = round.iter().position(|order| order.link == link).unwrap_or_else(|| {
                    round.push(Order::new(link, Header::of(Op::Beat), None, Body::Bytes(&[])));
                    places.push(Vec::new());
                    round.len() - 1
                });
                let keys = &plan.keys[begin..end];
                let (rows, dim, length) = (keys.len() as u32, *width as u32, codec::key_bytes(keys).len() as u64);
                let header = Header { flags: *flags, rows, dim, seq: self.step, length, ..Header::of(Op::Pull) };
                round[at].pulls.push(PullBehind { header, table: *table as usize, keys });
                places[at].push((number, begin));
            }
        }
        places
    }

    /// Rows that have come: which order, which of its answers, from which row on.
    pub(super) fn take(
        &self,
        places: &Places,
        outs: &mut [NextRows<'_>],
        (order, which, row): (usize, usize, usize),
        rows: &[f32],
    ) {
        let place = which.checked_sub(1).and_then(|behind| places.get(order)?.get(behind).copied());
        if let Some((number, begin)) = place {
            let Wanted { plan, width, .. } = &self.wanted[number];
            plan.scatter(begin + row, rows, *width, outs[number].out);
        }
    }
}

impl Turn<'_> {
    /// The rows one table after the other, where they could not come behind something else.
    pub(super) fn pull_next(&mut self, rows: &mut [NextRows<'_>], step: u64) -> Outcome<()> {
        rows.iter_mut().try_for_each(|next| self.pull(next.table, next.keys, next.out, Absent::Made, step))
    }
}
