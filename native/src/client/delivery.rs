//! Orders to servers, and how they get there whatever happens: connecting, sending, repeating after a server came back, and
//! keeping changes until they are durable. An adapter; `link` decides what a server that came back must be told.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::beats::Beats;
use super::config::{Config, Kind};
use super::dial::{self, Card, NoEntry, Pulse, TICK};
use super::error::{ClientError, Outcome, Told};
use super::exchange::{self, Answer, Call, Clock, Sink, Stop};
use super::link::{Frame, Link, Todo, Words};
use super::plan::Plan;
use super::session::Wish;
use super::tables::Table;
use crate::keys::Sharding;
use crate::wire::auth;
use crate::wire::codec::MOST_FRAME;
use crate::wire::frame::{Header, Op, flag};
use crate::wire::stream;

pub struct State {
    pub config: Config,
    pub sharding: Sharding,
    pub links: Vec<Link>,
    pub tables: Vec<Table>,
    /// The step that comes next, once somebody has taken one or asked where to go on.
    pub step: Option<u64>,
    /// The newest number that was given to a change.
    pub seq: u64,
    pub plan: Plan,
    pub spare: Vec<Frame>,
    pub inbox: Vec<u64>,
    pub turns: Turns,
    /// What servers have said about tables, for a person to read.
    pub said: Vec<String>,
    pub beats: Option<Beats>,
    pub closed: bool,
}

/// By name: how often this trainer has met the others at a barrier or to gather, and how many numbers it has taken.
#[derive(Default)]
pub struct Turns {
    pub barriers: HashMap<String, u64>,
    pub gathers: HashMap<String, u64>,
    pub takes: HashMap<String, u64>,
}

/// What is asked of one server.
pub(super) struct Order<'a> {
    pub link: usize,
    pub header: Header,
    pub table: Option<usize>,
    pub body: Body<'a>,
    /// The rows that it is to be answered with, and where they go if not into the sink.
    pub rows: Option<(u32, u32)>,
    pub into: Option<&'a mut [f32]>,
}

impl<'a> Order<'a> {
    /// Answered with one word or a text.
    pub fn new(link: usize, header: Header, table: Option<usize>, body: Body<'a>) -> Self {
        Order { link, header, table, body, rows: None, into: None }
    }

    pub fn of_frame(link: usize, frame: Arc<Frame>) -> Self {
        Order::new(link, frame.header, Some(frame.table), Body::Frame(frame))
    }
}

pub(super) enum Body<'a> {
    Bytes(&'a [u8]),
    Frame(Arc<Frame>),
}

impl State {
    pub fn table(&self, table: u32) -> Outcome<&Table> {
        let unknown = || ClientError::refused("unknown-table", format!("this client has created no table {table}"));
        self.tables.get(table as usize).ok_or_else(unknown)
    }

    /// Gives a change its number: the step's, or the next one of this trainer. Observers have none.
    pub fn numbered(&mut self, header: Header, step: Option<u64>) -> Header {
        match step {
            Some(step) => {
                self.step = Some(step);
                Header { flags: header.flags | flag::STEP, seq: step, ..header }
            }
            None if self.config.kind == Kind::Observer => header,
            None => {
                self.seq += 1;
                Header { seq: self.seq, ..header }
            }
        }
    }

    pub fn buffers(&mut self) -> (Vec<u64>, Vec<f32>) {
        self.spare.pop().map(|frame| (frame.keys, frame.rows)).unwrap_or_default()
    }

    /// One frame, or as many as it takes: keys and rows of `width` columns, or floats without keys.
    pub(super) fn frames(
        &self,
        header: Header,
        table: usize,
        keys: Vec<u64>,
        rows: Vec<f32>,
        width: usize,
    ) -> Outcome<Vec<Arc<Frame>>> {
        let (count, of_a_row) = (rows.len() / width, if keys.is_empty() { 4 * width } else { 8 + 4 * width });
        let most = (self.config.most_frame / of_a_row).max(1);
        if count <= most {
            return Ok(vec![Arc::new(Frame::new(Header { rows: count as u32, ..header }, table, keys, rows))]);
        }
        let in_step = header.flags & flag::STEP != 0;
        if header.seq == 0 && !in_step {
            // Its parts could not be told from those of another caller.
            fits(count * of_a_row)?;
        }
        // Pieces of a step with different keys are one push anyhow.
        let joined = !in_step || keys.is_empty();
        let frame = |start: usize| {
            let part = start..(start + most).min(count);
            let (first, last) = (start == 0, part.end == count);
            let mut flags = header.flags;
            if !last {
                flags &= !(flag::VALUES | flag::LAST);
            }
            if joined {
                flags |= flag::PART | if first { flag::FIRST } else { 0 } | if last { 0 } else { flag::MORE };
            }
            let header = Header { flags, rows: part.len() as u32, ..header };
            let keys = if keys.is_empty() { Vec::new() } else { keys[part.clone()].to_vec() };
            Arc::new(Frame::new(header, table, keys, rows[part.start * width..part.end * width].to_vec()))
        };
        Ok((0..count).step_by(most).map(frame).collect())
    }

    /// Frames of several servers in rounds, in which each server has one at most, and in the last one each has its last.
    pub(super) fn rounds<'a>(of_links: Vec<(usize, Vec<Arc<Frame>>)>) -> Vec<Vec<Order<'a>>> {
        let count = of_links.iter().map(|(_, frames)| frames.len()).max().unwrap_or(0);
        let mut rounds: Vec<Vec<Order<'a>>> = (0..count).map(|_| Vec::new()).collect();
        for (link, frames) in of_links {
            let begin = count - frames.len();
            for (round, frame) in rounds[begin..].iter_mut().zip(frames) {
                round.push(Order::of_frame(link, frame));
            }
        }
        rounds
    }

    /// Keeps changes, sends them, and lets go of what is durable. Returns the answers of the last round.
    pub(super) fn send(
        &mut self,
        mut rounds: Vec<Vec<Order<'_>>>,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<Vec<Answer>> {
        for order in rounds.iter().flatten() {
            let Body::Frame(frame) = &order.body else { continue };
            let most = self.config.replay_bytes.saturating_sub(frame.bytes());
            self.wait_durable(order.link, most, waiting, wish)?;
        }
        for order in rounds.iter().flatten() {
            let Body::Frame(frame) = &order.body else { continue };
            if frame.header.seq > 0 || frame.header.flags & flag::STEP != 0 {
                self.links[order.link].keep(frame.clone());
            }
        }
        let mut answers = Ok(Vec::new());
        for orders in &mut rounds {
            answers = self.perform(orders, &mut |_, _, _| {}, waiting, wish);
            if answers.is_err() {
                break;
            }
        }
        if let (Err(error), true) = (&answers, rounds.len() > 1) {
            // Servers may have some of the parts. A new connection brings all of them, or none if they were refused.
            for order in rounds.iter().flatten() {
                let link = &mut self.links[order.link];
                link.stream = None;
                if let (Body::Frame(frame), ClientError::Refused(_)) = (&order.body, error) {
                    link.forget(frame);
                }
            }
        }
        drop(rounds);
        for link in &mut self.links {
            link.let_go(link.words.durable, &mut self.spare);
        }
        answers
    }

    /// Waits until everything that was acknowledged is durable: from now on, it does not take this trainer to bring it back.
    pub fn settle(&mut self, waiting: &Mutex<Option<String>>, wish: &mut Wish<'_>) -> Outcome<()> {
        (0..self.links.len()).try_for_each(|link| self.wait_durable(link, 0, waiting, wish))
    }

    /// Waits until no more than so many bytes are kept for a server because they are not durable.
    fn wait_durable(
        &mut self,
        link: usize,
        most: usize,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<()> {
        let silence = Duration::from_secs_f64(self.config.timeout_s);
        let mut moved = Instant::now();
        loop {
            let kept = &self.links[link];
            if kept.kept.is_empty() || (most > 0 && kept.kept_bytes <= most) {
                return Ok(());
            }
            let before = kept.kept_bytes;
            let order = Order::new(link, Header::of(Op::Beat), None, Body::Bytes(&[]));
            self.perform(&mut [order], &mut |_, _, _| {}, waiting, wish)?;
            let link = &mut self.links[link];
            link.let_go(link.words.durable, &mut self.spare);
            if link.kept_bytes != before {
                moved = Instant::now();
                continue;
            }
            *waiting.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(format!("waiting for the disk of server {}", link.card.endpoint));
            if moved.elapsed() >= silence {
                return Err(Patience::new(self.config.timeout_s).over(link, "its log does not get on"));
            }
            if wish.is_over() {
                return Err(over_limit(waiting, wish.limit));
            }
            nap(Duration::from_millis(5), wish.pulse)?;
        }
    }

    pub(super) fn tell_all(
        &mut self,
        header: Header,
        body: &[u8],
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<Vec<Answer>> {
        let order = |link| Order::new(link, header, None, Body::Bytes(body));
        let mut orders: Vec<Order<'_>> = (0..self.links.len()).map(order).collect();
        self.perform(&mut orders, &mut |_, _, _| {}, waiting, wish)
    }

    /// Carries out one order per server, and connects anew and repeats where that is needed.
    pub(super) fn perform(
        &mut self,
        orders: &mut [Order<'_>],
        sink: Sink<'_>,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<Vec<Answer>> {
        let clock = Clock { silence: Duration::from_secs_f64(self.config.timeout_s), limit: wish.until };
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
                    self.reconnect(order.link, &mut patience, waiting, wish)?;
                    // Connecting anew has brought the server everything that is kept, this one too.
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
            let results = self.call(orders, &open, sink, waiting, &clock, wish.pulse);
            let results = match results {
                Ok(results) => results,
                Err(stop) => {
                    // What is on its way can't be told apart from a later answer.
                    open.iter().for_each(|index| self.links[orders[*index].link].stream = None);
                    return Err(match stop {
                        Stop::Interrupted => ClientError::Interrupted,
                        Stop::Limit => over_limit(waiting, wish.limit),
                    });
                }
            };
            let mut refused = None;
            for (index, result) in open.into_iter().zip(results) {
                let order = &orders[index];
                let link = &mut self.links[order.link];
                match result {
                    Err(error) => patience.lost(link, &error)?,
                    Ok(Answer::Refused(told)) if dial::passes(&told.code) => {
                        patience.lost(link, &io::Error::other(told.message))?;
                    }
                    Ok(Answer::Refused(told)) => {
                        if let Body::Frame(frame) = &order.body {
                            link.forget(frame);
                        }
                        refused.get_or_insert(told);
                        answers[index] = Some(Answer::Rows(0));
                    }
                    Ok(answer) => {
                        if self.config.kind == Kind::Trainer {
                            link.words.durable = link.words.durable.max(answer.durable());
                            link.used |= order.header.op != Op::Create;
                        }
                        if let Body::Frame(frame) = &order.body {
                            frame.acknowledge();
                        }
                        answers[index] = Some(answer);
                    }
                }
            }
            if let Some(told) = refused {
                return Err(ClientError::told(told));
            }
        }
    }

    fn call(
        &mut self,
        orders: &mut [Order<'_>],
        open: &[usize],
        sink: Sink<'_>,
        waiting: &Mutex<Option<String>>,
        clock: &Clock,
        pulse: Pulse<'_>,
    ) -> Result<Vec<io::Result<Answer>>, Stop> {
        let State { links, inbox, config, beats, .. } = self;
        if let Some(beats) = beats {
            for link in open.iter().map(|index| orders[*index].link) {
                beats.waits(link, links[link].stream.as_ref().map(|stream| stream.socket().clone()));
            }
        }
        let mut streams: Vec<_> =
            links.iter_mut().map(|link| link.stream.as_mut().map(|stream| (stream, &link.numbers))).collect();
        let mut calls = Vec::with_capacity(open.len());
        for (_, order) in orders.iter_mut().enumerate().filter(|(index, _)| open.contains(index)) {
            // There is one order per server, and `perform` has connected it.
            let Some((stream, numbers)) = streams[order.link].take() else { continue };
            let number = order.table.and_then(|table| numbers.get(table)).copied().unwrap_or(0);
            let header = Header { client: config.rank, table: number, ..order.header };
            let parts = match &order.body {
                Body::Bytes(bytes) => [bytes, &[][..]],
                Body::Frame(frame) => frame.parts(),
            };
            calls.push(Call { stream, header, parts, rows: order.rows, into: order.into.as_deref_mut() });
        }
        let mut numbered = |call: usize, row: usize, rows: &[f32]| sink(open[call], row, rows);
        let results = exchange::exchange(&mut calls, &mut numbered, inbox, waiting, clock, pulse);
        drop(calls);
        if let Some(beats) = beats {
            open.iter().for_each(|index| beats.waits(orders[*index].link, None));
        }
        results
    }

    pub(super) fn connect_all(&mut self, waiting: &Mutex<Option<String>>, wish: &mut Wish<'_>) -> Outcome<()> {
        if self.closed {
            return Err(ClientError::refused("closed", "this client is closed"));
        }
        if self.links.iter().all(|link| link.stream.is_some()) {
            return Ok(());
        }
        let mut patience = Patience::new(self.config.timeout_s);
        for link in 0..self.links.len() {
            if self.links[link].stream.is_none() {
                self.reconnect(link, &mut patience, waiting, wish)?;
            }
        }
        if self.beats.is_none() && self.config.kind == Kind::Trainer {
            let cards = self.links.iter().map(|link| Card { kind: "control", ..link.card.clone() }).collect();
            let [every, silence] = [self.config.beat_s, self.config.timeout_s].map(Duration::from_secs_f64);
            self.beats = Some(Beats::start(cards, every, silence));
        }
        Ok(())
    }

    /// Connects to one server and brings it what it does not have.
    fn reconnect(
        &mut self,
        link: usize,
        patience: &mut Patience,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<()> {
        let begun = Instant::now();
        let mut attempt = 0;
        loop {
            let (until, pulse) = (wish.until, &mut *wish.pulse);
            let mut stopped = false;
            let mut heeding = || {
                stopped = !pulse();
                !stopped && until.is_none_or(|until| Instant::now() < until)
            };
            let reason = match dial::enter(&self.links[link].card, &mut heeding) {
                Ok((stream, welcome)) => match self.take_up(link, stream, welcome, waiting, wish)? {
                    Ok(()) => return Ok(()),
                    Err(error) => error.to_string(),
                },
                Err(NoEntry::Away(reason)) => reason,
                Err(NoEntry::Refused(told)) => {
                    let message = format!("server {}: {}", self.links[link].card.endpoint, told.message);
                    return Err(ClientError::Refused(Told { message, ..told }));
                }
                Err(NoEntry::Interrupted) if stopped => return Err(ClientError::Interrupted),
                Err(NoEntry::Interrupted) => "it does not answer".to_owned(),
            };
            self.links[link].stream = None;
            let away = format!("server {} is away: {reason}", self.links[link].card.endpoint);
            *waiting.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(format!("{away} (for {:.0} s)", begun.elapsed().as_secs_f64()));
            patience.tried(&self.links[link], &reason)?;
            if wish.is_over() {
                return Err(over_limit(waiting, wish.limit));
            }
            let left = wish.until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            nap(back_off(attempt).min(left), wish.pulse)?;
            attempt += 1;
        }
    }

    /// A new connection: who is there, and what must it be told? The inner error is a connection that broke again.
    fn take_up(
        &mut self,
        index: usize,
        stream: stream::Stream,
        welcome: Value,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<io::Result<()>> {
        let words: Words = serde_json::from_value(welcome.clone())
            .map_err(|error| ClientError::refused("foreign", format!("a welcome that is not one: {error}")))?;
        self.check_place(index, &words)?;
        if let Err(error) = stream.socket().set_nonblocking(true) {
            return Ok(Err(error));
        }
        let link = &mut self.links[index];
        let todo = link.todo(&words).map_err(ClientError::ServerForgot)?;
        if !link.known {
            self.seq = self.seq.max(words.applied);
        }
        link.stream = Some(stream);
        link.since = Instant::now();
        link.welcome = welcome;
        link.known = true;
        link.words = Words { durable: words.durable.max(link.let_go), ..words };
        for table in 0..self.tables.len() {
            let request = self.tables[table].request.clone();
            let header = Header { length: request.len() as u64, ..Header::of(Op::Create) };
            let order = Order::new(index, header, None, Body::Bytes(&request));
            match self.one(order, waiting, wish)? {
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
            match self.one(order, waiting, wish)? {
                Ok(answer) => {
                    let link = &mut self.links[index];
                    link.words.durable = link.words.durable.max(answer.durable());
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
    fn one(
        &mut self,
        order: Order<'_>,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<io::Result<Answer>> {
        let clock = Clock { silence: Duration::from_secs_f64(self.config.timeout_s), limit: wish.until };
        let link = order.link;
        let answers = self.call(&mut [order], &[0], &mut |_, _, _| {}, waiting, &clock, wish.pulse);
        match answers.map(|mut answers| answers.pop()) {
            Ok(Some(Ok(Answer::Refused(told)))) if dial::passes(&told.code) => Ok(Err(io::Error::other(told.message))),
            Ok(Some(Ok(Answer::Refused(told)))) => Err(ClientError::told(told)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Ok(Err(io::Error::other("the connection is gone"))),
            Err(stop) => {
                self.links[link].stream = None;
                Err(match stop {
                    Stop::Interrupted => ClientError::Interrupted,
                    Stop::Limit => over_limit(waiting, wish.limit),
                })
            }
        }
    }

    fn check_place(&self, index: usize, words: &Words) -> Outcome<()> {
        let expected = [
            ("is server", words.server, index),
            ("belongs to a number of servers of", words.servers, self.links.len()),
            ("has a number of virtual shards of", words.shards, self.config.shards),
            ("expects a number of trainers of", words.world, self.config.world),
        ];
        for (what, theirs, ours) in expected {
            let matters = what != "expects a number of trainers of" || self.config.kind == Kind::Trainer;
            if matters && theirs.is_some_and(|theirs| theirs != ours) {
                let endpoint = &self.links[index].card.endpoint;
                let words = format!("{endpoint} {what} {}, here it is {ours}", theirs.unwrap_or_default());
                let hint = "all processes of a job need the same list of servers, in the same order";
                return Err(ClientError::Refused(Told::new("wrong-server", words, Some(hint))));
            }
        }
        Ok(())
    }
}

pub(super) fn unexpected(answer: &dyn std::fmt::Debug) -> ClientError {
    ClientError::refused("foreign", format!("a server answered with something else than was asked for: {answer:?}"))
}

pub(super) fn fits(bytes: usize) -> Outcome<()> {
    if bytes as u64 <= MOST_FRAME {
        return Ok(());
    }
    let words = format!("{bytes} bytes for one server are more than a frame's {MOST_FRAME}");
    Err(ClientError::Refused(Told::new("too-long", words, Some("use fewer keys at once, or more servers"))))
}

fn over_limit(waiting: &Mutex<Option<String>>, limit: Option<Duration>) -> ClientError {
    let text = waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let seconds = limit.map(|limit| format!(" after {:.1} s", limit.as_secs_f64())).unwrap_or_default();
    let what = text.unwrap_or_else(|| "the servers work on it".into());
    ClientError::Timeout(Told::new("timeout", format!("given up{seconds}: {what}"), None))
}

/// How long servers may be away, in all, during one operation.
struct Patience {
    within: Duration,
    since: Option<Instant>,
}

impl Patience {
    fn new(timeout_s: f64) -> Patience {
        Patience { within: Duration::from_secs_f64(timeout_s), since: None }
    }

    /// A connection broke. One that had held for a while begins a new count.
    fn lost(&mut self, link: &mut Link, error: &io::Error) -> Outcome<()> {
        link.stream = None;
        // The silence of a server has used up the patience; that of the system's own clock (with a number) has not.
        if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() {
            return Err(self.over(link, &error.to_string()));
        }
        if exchange::is_given_up(error) {
            // It was there; the one that was not is counted.
            return Ok(());
        }
        if link.since.elapsed() > Duration::from_secs(5) {
            self.since = None;
        }
        self.tried(link, &error.to_string())
    }

    fn tried(&mut self, link: &Link, reason: &str) -> Outcome<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.within { Ok(()) } else { Err(self.over(link, reason)) }
    }

    fn over(&self, link: &Link, reason: &str) -> ClientError {
        ClientError::ServerLost(Told::new(
            "server-lost",
            format!(
                "server {} could not be reached for {:.0} s: {reason}",
                link.card.endpoint,
                self.within.as_secs_f64()
            ),
            Some("see whether it runs, and what its own log says"),
        ))
    }
}

/// Growing pauses, each different, so that many trainers do not come back at the same moment.
fn back_off(attempt: u32) -> Duration {
    let base = 20.0 * 1.6f64.powi(attempt.min(12) as i32);
    let jitter = auth::random::<2>().map_or(0.5, |bytes| f64::from(u16::from_le_bytes(bytes)) / 65536.0);
    Duration::from_secs_f64(base.min(1000.0) * (0.5 + jitter) / 1000.0)
}

pub(super) fn nap(duration: Duration, pulse: Pulse<'_>) -> Outcome<()> {
    let until = Instant::now() + duration;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(left.min(TICK));
        if !pulse() {
            return Err(ClientError::Interrupted);
        }
    }
    Ok(())
}
