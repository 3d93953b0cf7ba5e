//! How orders get to servers whatever happens: sending, repeating after a server came back, and keeping changes until they
//! are durable. An adapter.

use std::io;
use std::time::{Duration, Instant};

use super::config::Kind;
use super::context::{CallContext, Stop};
use super::dial;
use super::error::{ClientError, Outcome};
use super::exchange::{self, Answer, Call, Outgoing, Sink};
use super::orders::{Body, Order};
use super::patience::Patience;
use super::state::State;
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};

impl State {
    /// Keeps changes, sends them, and lets go of what is durable. Returns the answers of the last round.
    pub(super) fn send(&mut self, rounds: Vec<Vec<Order<'_>>>, context: &mut CallContext<'_>) -> Outcome<Vec<Answer>> {
        self.send_and_pull(rounds, &mut |_, _, _, _| {}, context).map(|(answers, _)| answers)
    }

    /// The same with pulls behind what is sent last; also whether all of them were answered.
    pub(super) fn send_and_pull(
        &mut self,
        mut rounds: Vec<Vec<Order<'_>>>,
        sink: Sink<'_>,
        context: &mut CallContext<'_>,
    ) -> Outcome<(Vec<Answer>, bool)> {
        for order in rounds.iter().flatten().filter(|order| order.changes().next().is_some()) {
            let bytes = order.changes().map(|frame| frame.bytes()).sum();
            self.wait_durable(order.link, self.config.replay_bytes.saturating_sub(bytes), context)?;
        }
        for order in rounds.iter().flatten() {
            for frame in order.changes().filter(|frame| frame.header.seq > 0 || frame.header.flags & flag::STEP != 0) {
                self.links[order.link].keep(frame.clone());
            }
        }
        let mut answers = Ok(Vec::new());
        for orders in &mut rounds {
            answers = self.perform(orders, sink, context);
            if answers.is_err() {
                break;
            }
        }
        let is_pulled = rounds.iter().flatten().all(Order::has_pulled);
        if let Err(error) = &answers {
            let has_parts = rounds.len() > 1 || rounds.iter().flatten().any(|order| !order.before.is_empty());
            let is_refused = matches!(error, ClientError::Refused(_));
            for order in rounds.iter().flatten() {
                let link = &mut self.links[order.link];
                if has_parts {
                    // Servers may have some of the parts. A new connection brings all of them, or none if they were refused.
                    link.stream = None;
                }
                if is_refused {
                    // One that was refused by one server is not to be sent again to another, which has not answered.
                    let open = order.changes().filter(|frame| has_parts || !frame.is_acknowledged());
                    open.for_each(|frame| link.forget(frame));
                }
            }
        }
        drop(rounds);
        for link in &mut self.links {
            link.let_go(link.welcome.durable, &mut self.spare);
        }
        answers.map(|answers| (answers, is_pulled))
    }

    /// Waits until everything that was acknowledged is durable: from now on, it does not take this trainer to bring it back.
    pub fn settle(&mut self, context: &mut CallContext<'_>) -> Outcome<()> {
        (0..self.links.len()).try_for_each(|link| self.wait_durable(link, 0, context))
    }

    /// Waits until no more than so many bytes are kept for a server because they are not durable.
    fn wait_durable(&mut self, link: usize, most: usize, context: &mut CallContext<'_>) -> Outcome<()> {
        let silence = Duration::from_secs_f64(self.config.timeout_s);
        let mut moved = Instant::now();
        loop {
            let kept = &self.links[link];
            if kept.kept.is_empty() || (most > 0 && kept.kept_bytes <= most) {
                return Ok(());
            }
            let before = kept.kept_bytes;
            let order = Order::new(link, Header::of(Op::Beat), None, Body::Bytes(&[]));
            self.perform(&mut [order], &mut |_, _, _, _| {}, context)?;
            let link = &mut self.links[link];
            link.let_go(link.welcome.durable, &mut self.spare);
            if link.kept_bytes != before {
                moved = Instant::now();
                continue;
            }
            context.waits_for(format!("waiting for the disk of server {}", link.credentials.endpoint));
            if moved.elapsed() >= silence {
                return Err(Patience::new(self.config.timeout_s).over(link, "its log does not get on"));
            }
            if context.is_over(Instant::now()) {
                return Err(context.over_limit());
            }
            context.nap(Duration::from_millis(5))?;
        }
    }

    pub(super) fn tell_all(
        &mut self,
        header: Header,
        body: &[u8],
        context: &mut CallContext<'_>,
    ) -> Outcome<Vec<Answer>> {
        let order = |link| Order::new(link, header, None, Body::Bytes(body));
        let mut orders: Vec<Order<'_>> = (0..self.links.len()).map(order).collect();
        self.perform(&mut orders, &mut |_, _, _, _| {}, context)
    }

    /// Carries out one order per server, and connects again and repeats where that is needed.
    pub(super) fn perform(
        &mut self,
        orders: &mut [Order<'_>],
        sink: Sink<'_>,
        context: &mut CallContext<'_>,
    ) -> Outcome<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = orders.iter().map(|_| None).collect();
        let mut patience = Patience::new(self.config.timeout_s);
        loop {
            let mut open = Vec::with_capacity(orders.len());
            for (index, order) in orders.iter().enumerate() {
                if answers[index].is_some() {
                    continue;
                }
                if let Body::Frame(frame) = &order.body
                    && frame.is_acknowledged()
                {
                    // It was kept when the connection was made again for a part before it.
                    answers[index] = Some(Answer::Ok(frame.header));
                    continue;
                }
                if self.links[order.link].stream.is_none() {
                    self.reconnect(order.link, &mut patience, context)?;
                    // Connecting again has brought the server everything that is kept, this one too.
                    if let Body::Frame(frame) = &order.body
                        && frame.is_acknowledged()
                    {
                        answers[index] = Some(Answer::Ok(frame.header));
                        continue;
                    }
                }
                open.push(index);
            }
            if open.is_empty() {
                return Ok(answers.into_iter().flatten().collect());
            }
            let results = self.call(orders, &open, sink, context);
            let results = match results {
                Ok(results) => results,
                Err(stop) => {
                    // What is on its way can't be told apart from a later answer.
                    open.iter().for_each(|index| self.links[orders[*index].link].stream = None);
                    return Err(context.stopped(&stop));
                }
            };
            let mut refused = None;
            for (index, result) in open.into_iter().zip(results) {
                let order = &mut orders[index];
                let link = &mut self.links[order.link];
                match result {
                    Err(error) => patience.lost(link, &error)?,
                    Ok(Answer::Refused(detail)) if dial::passes(&detail.code) => {
                        patience.lost(link, &io::Error::other(detail.message))?;
                    }
                    Ok(Answer::Refused(detail)) => {
                        order.changes().for_each(|frame| link.forget(frame));
                        if !order.pulls.is_empty() {
                            // Their answers may still come.
                            link.stream = None;
                        }
                        refused.get_or_insert(detail);
                        answers[index] = Some(Answer::Rows(0));
                    }
                    Ok(answer) => {
                        if self.config.kind == Kind::Trainer {
                            link.welcome.durable = link.welcome.durable.max(answer.durable());
                            link.used |= order.header.op != Op::Create;
                        }
                        order.changes().for_each(|frame| frame.acknowledge());
                        order.is_pulled = true;
                        answers[index] = Some(answer);
                    }
                }
            }
            if let Some(detail) = refused {
                return Err(ClientError::from_server(detail));
            }
        }
    }

    pub(super) fn call(
        &mut self,
        orders: &mut [Order<'_>],
        open: &[usize],
        sink: Sink<'_>,
        context: &mut CallContext<'_>,
    ) -> Result<Vec<io::Result<Answer>>, Stop> {
        let State { links, inbox, config, heartbeats, .. } = self;
        if let Some(heartbeats) = heartbeats {
            for link in open.iter().map(|index| orders[*index].link) {
                heartbeats.waits(link, links[link].stream.as_ref().map(|stream| stream.socket().clone()));
            }
        }
        let mut streams: Vec<_> =
            links.iter_mut().map(|link| link.stream.as_mut().map(|stream| (stream, &link.numbers))).collect();
        let mut calls = Vec::with_capacity(open.len());
        for (_, order) in orders.iter_mut().enumerate().filter(|(index, _)| open.contains(index)) {
            // There is one order per server, and `perform` has connected it.
            let Some((stream, numbers)) = streams[order.link].take() else { continue };
            let outgoing = |header: Header, table: Option<usize>, parts| {
                let number = table.and_then(|table| numbers.get(table)).copied().unwrap_or(0);
                Outgoing { header: Header { client: config.rank, table: number, ..header }, parts }
            };
            let last = match &order.body {
                Body::Bytes(bytes) => [bytes, &[][..]],
                Body::Frame(frame) => frame.parts(),
            };
            // Those that are acknowledged came with what was sent again on a new connection.
            let before = order.before.iter().filter(|frame| !frame.is_acknowledged());
            let mut frames: Vec<Outgoing<'_>> =
                before.map(|frame| outgoing(frame.header, Some(frame.table), frame.parts())).collect();
            frames.push(outgoing(order.header, order.table, last));
            let pulls = order.pulls.iter().map(|pull| {
                frames.push(outgoing(pull.header, Some(pull.table), [codec::key_bytes(pull.keys), &[][..]]));
                (pull.header.rows, pull.header.dim)
            });
            let pulls = pulls.collect();
            calls.push(Call { stream, frames, rows: order.rows, pulls, into: order.into.as_deref_mut() });
        }
        let silence = Duration::from_secs_f64(config.timeout_s);
        let mut numbered = |call: usize, which: usize, row: usize, rows: &[f32]| sink(open[call], which, row, rows);
        let results = exchange::exchange(&mut calls, &mut numbered, inbox, silence, context);
        drop(calls);
        if let Some(heartbeats) = heartbeats {
            open.iter().for_each(|index| heartbeats.waits(orders[*index].link, None));
        }
        results
    }
}

pub(super) fn unexpected(answer: &dyn std::fmt::Debug) -> ClientError {
    ClientError::refused("foreign", format!("a server answered with something else than was asked for: {answer:?}"))
}
