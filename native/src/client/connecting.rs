//! Connecting to servers, and what those that came back must be told. An adapter; `link` decides what that is.

use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::config::Kind;
use super::context::CallContext;
use super::delivery::unexpected;
use super::dial::{self, Credentials, NoEntry};
use super::error::{ClientError, ErrorDetail, Outcome};
use super::exchange::Answer;
use super::heartbeats::Heartbeats;
use super::link::{Todo, Welcome};
use super::orders::{Body, Order};
use super::patience::{Patience, back_off};
use super::state::State;
use crate::wire::frame::{Header, Op, flag};
use crate::wire::stream;

impl State {
    pub(super) fn connect_all(&mut self, context: &mut CallContext<'_>) -> Outcome<()> {
        if self.closed {
            return Err(ClientError::refused("closed", "this client is closed"));
        }
        if self.links.iter().all(|link| link.stream.is_some()) {
            return Ok(());
        }
        let mut patience = Patience::new(self.config.timeout_s);
        for link in 0..self.links.len() {
            if self.links[link].stream.is_none() {
                self.reconnect(link, &mut patience, context)?;
            }
        }
        if self.heartbeats.is_none() && self.config.kind == Kind::Trainer {
            let credentials =
                self.links.iter().map(|link| Credentials { kind: "control", ..link.credentials.clone() }).collect();
            let [every, silence] = [self.config.beat_s, self.config.timeout_s].map(Duration::from_secs_f64);
            self.heartbeats = Some(Heartbeats::start(credentials, every, silence));
        }
        Ok(())
    }

    /// Connects to one server and brings it what it does not have.
    pub(super) fn reconnect(
        &mut self,
        link: usize,
        patience: &mut Patience,
        context: &mut CallContext<'_>,
    ) -> Outcome<()> {
        let begun = Instant::now();
        let mut attempt = 0;
        loop {
            let (until, pulse) = (context.until, &mut *context.options.pulse);
            let mut stopped = false;
            let mut heeding = || {
                stopped = !pulse();
                !stopped && until.is_none_or(|until| Instant::now() < until)
            };
            let reason = match dial::enter(&self.links[link].credentials, &mut heeding) {
                Ok((stream, welcome)) => match self.take_up(link, stream, welcome, context)? {
                    Ok(()) => return Ok(()),
                    Err(error) => error.to_string(),
                },
                Err(NoEntry::Away(reason)) => reason,
                Err(NoEntry::Refused(detail)) => {
                    let message = format!("server {}: {}", self.links[link].credentials.endpoint, detail.message);
                    return Err(ClientError::Refused(ErrorDetail { message, ..detail }));
                }
                Err(NoEntry::Interrupted) if stopped => return Err(ClientError::Interrupted),
                Err(NoEntry::Interrupted) => "it does not answer".to_owned(),
            };
            self.links[link].stream = None;
            let away = format!("server {} is away: {reason}", self.links[link].credentials.endpoint);
            context.waits_for(format!("{away} (for {:.0} s)", begun.elapsed().as_secs_f64()));
            patience.tried(&self.links[link], &reason)?;
            if context.is_over(Instant::now()) {
                return Err(context.over_limit());
            }
            let left = context.until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            context.nap(back_off(attempt).min(left))?;
            attempt += 1;
        }
    }

    /// A new connection: who is there, and what must it be told? The inner error is a connection that broke again.
    fn take_up(
        &mut self,
        index: usize,
        stream: stream::Stream,
        json: Value,
        context: &mut CallContext<'_>,
    ) -> Outcome<io::Result<()>> {
        let welcome: Welcome = serde_json::from_value(json.clone())
            .map_err(|error| ClientError::refused("foreign", format!("a welcome that is not one: {error}")))?;
        self.check_place(index, &welcome)?;
        if let Err(error) = stream.socket().set_nonblocking(true) {
            return Ok(Err(error));
        }
        let link = &mut self.links[index];
        let todo = link.todo(&welcome).map_err(ClientError::ServerForgot)?;
        if !link.known {
            self.seq = self.seq.max(welcome.applied);
        }
        link.stream = Some(stream);
        link.since = Instant::now();
        link.welcome_json = json;
        link.known = true;
        link.welcome = Welcome { durable: welcome.durable.max(link.let_go), ..welcome };
        for table in 0..self.tables.len() {
            let request = self.tables[table].request.clone();
            let header = Header { length: request.len() as u64, ..Header::of(Op::Create) };
            let order = Order::new(index, header, None, Body::Bytes(&request));
            match self.one(order, context)? {
                Ok(answer) => self.created(index, table, answer)?,
                Err(error) => return Ok(Err(error)),
            }
        }
        for todo in todo {
            let order = match &todo {
                Todo::Send(frame) => {
                    let mut order = Order::of_frame(index, frame.clone());
                    // Nobody waits here for what comes of it.
                    order.header.flags &= !flag::VALUES;
                    order
                }
                Todo::Step(op, step) => {
                    Order::new(index, Header { seq: *step, ..Header::of(*op) }, None, Body::Bytes(&[]))
                }
            };
            match self.one(order, context)? {
                Ok(answer) => {
                    let link = &mut self.links[index];
                    link.welcome.durable = link.welcome.durable.max(answer.durable());
                    if let Todo::Send(frame) = &todo {
                        frame.acknowledge();
                    }
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// A server has a table: under which number, and what it has changed about it.
    pub(super) fn created(&mut self, link: usize, table: usize, answer: Answer) -> Outcome<()> {
        let number = match &answer {
            Answer::Ok(header) => Some(header.table),
            Answer::Json(value) => {
                let change = value["change"].as_str().map(str::to_owned);
                self.said.extend(change.filter(|change| !self.said.contains(change)));
                value["table"].as_u64().and_then(|number| u32::try_from(number).ok())
            }
            _ => None,
        };
        let number = number.ok_or_else(|| unexpected(&answer))?;
        let numbers = &mut self.links[link].numbers;
        numbers.resize(numbers.len().max(table + 1), 0);
        numbers[table] = number;
        Ok(())
    }

    /// One request on a connection that has just been made.
    fn one(&mut self, order: Order<'_>, context: &mut CallContext<'_>) -> Outcome<io::Result<Answer>> {
        let link = order.link;
        let answers = self.call(&mut [order], &[0], &mut |_, _, _, _| {}, context);
        match answers.map(|mut answers| answers.pop()) {
            Ok(Some(Ok(Answer::Refused(detail)))) if dial::passes(&detail.code) => {
                Ok(Err(io::Error::other(detail.message)))
            }
            Ok(Some(Ok(Answer::Refused(detail)))) => Err(ClientError::from_server(detail)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Ok(Err(io::Error::other("the connection is gone"))),
            Err(stop) => {
                self.links[link].stream = None;
                Err(context.stopped(&stop))
            }
        }
    }

    fn check_place(&self, index: usize, welcome: &Welcome) -> Outcome<()> {
        let expected = [
            ("is server", welcome.server, index),
            ("belongs to a number of servers of", welcome.servers, self.links.len()),
            ("has a number of virtual shards of", welcome.shards, self.config.shards),
            ("expects a number of trainers of", welcome.world, self.config.world),
        ];
        for (what, theirs, ours) in expected {
            let matters = what != "expects a number of trainers of" || self.config.kind == Kind::Trainer;
            if matters && theirs.is_some_and(|theirs| theirs != ours) {
                let endpoint = &self.links[index].credentials.endpoint;
                let words = format!("{endpoint} {what} {}, here it is {ours}", theirs.unwrap_or_default());
                let hint = "all processes of a job need the same list of servers, in the same order";
                return Err(ClientError::Refused(ErrorDetail::new("wrong-server", words, Some(hint))));
            }
        }
        Ok(())
    }
}
