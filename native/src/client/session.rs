//! What a trainer can ask of a job's servers; one operation at a time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::beats::Beats;
use super::config::{Config, Kind};
use super::dial::{self, Card, NoEntry, Pulse, TICK};
use super::error::{ClientError, Outcome, Told};
use super::exchange::{self, Answer, Call, Clock, Sink, Stop};
use super::link::{Frame, Link, Todo, Words};
use super::plan::{Merge, Plan};
use super::tables::Table;
use crate::keys::Sharding;
use crate::wire::auth;
use crate::wire::codec::{self, MOST_FRAME};
use crate::wire::frame::{Header, Op, flag};
use crate::wire::stream;

pub struct Client {
    pub(super) state: Mutex<State>,
    /// Rung when somebody leaves `state`.
    turn: (Mutex<()>, Condvar),
    /// The thread that is inside, so that a signal handler's call does not wait for itself.
    inside: AtomicU64,
    waiting: Mutex<Option<String>>,
    /// The process that made it. A fork has copies of its sockets, and none of its threads.
    process: u32,
}

pub struct State {
    pub(super) config: Config,
    sharding: Sharding,
    pub(super) links: Vec<Link>,
    pub(super) tables: Vec<Table>,
    /// The newest number that was given to a change.
    seq: u64,
    plan: Plan,
    pub(super) spare: Vec<Frame>,
    inbox: Vec<u64>,
    turns: std::collections::HashMap<String, u64>,
    beats: Option<Beats>,
    closed: bool,
}

/// What is asked of one server.
pub(super) struct Order<'a> {
    pub link: usize,
    pub header: Header,
    pub table: Option<usize>,
    pub body: Body<'a>,
    pub rows: Option<(u32, u32)>,
}

pub(super) enum Body<'a> {
    Bytes(&'a [u8]),
    Frame(Arc<Frame>),
}

/// The turn of one caller.
pub struct Turn<'a> {
    pub(super) state: Option<MutexGuard<'a, State>>,
    pub(super) client: &'a Client,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.client.inside.store(0, Ordering::SeqCst);
        *self.client.words() = None;
        self.state = None;
        self.client.turn.1.notify_one();
    }
}

/// Told apart from all other living threads by the address of something of its own.
fn thread_number() -> u64 {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as u64)
}

impl Client {
    pub fn new(config: &str, token: Option<&[u8]>) -> Outcome<Client> {
        let bad = |text: String| ClientError::refused("bad-config", text);
        let (config, sharding) = Config::parse(config).map_err(bad)?;
        let random = auth::random::<8>().map_err(|error| bad(error.to_string()))?;
        let incarnation = u64::from_le_bytes(random) | 1;
        let mut links = Vec::new();
        for endpoint in &config.endpoints {
            let tls = match &config.tls {
                None => None,
                Some(files) => Some(stream::client_tls(files, endpoint).map_err(bad)?),
            };
            links.push(Link::new(Card {
                endpoint: endpoint.clone(),
                token: token.unwrap_or_default().to_vec(),
                tls,
                rank: config.rank,
                incarnation,
                kind: if config.kind == Kind::Trainer { "data" } else { "observer" },
                job: config.job.clone(),
            }));
        }
        let state = State {
            config,
            sharding,
            links,
            tables: Vec::new(),
            seq: 0,
            plan: Plan::default(),
            spare: Vec::new(),
            inbox: Vec::new(),
            turns: Default::default(),
            beats: None,
            closed: false,
        };
        Ok(Client {
            state: Mutex::new(state),
            turn: (Mutex::new(()), Condvar::new()),
            inside: AtomicU64::new(0),
            waiting: Mutex::new(None),
            process: std::process::id(),
        })
    }

    fn words(&self) -> MutexGuard<'_, Option<String>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the operation that is under way waits for.
    pub fn waiting_for(&self) -> Option<String> {
        self.words().clone()
    }

    /// Whether this process is a fork of the one that made it.
    pub fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Waits for the operations of other threads.
    pub fn turn(&self, pulse: Pulse<'_>) -> Outcome<Turn<'_>> {
        if self.is_forked() {
            let words = "a client belongs to the process that made it, and this is a fork of that one";
            return Err(ClientError::Refused(Told::new("forked", words, Some("make a client after the fork"))));
        }
        if self.inside.load(Ordering::SeqCst) == thread_number() {
            let words = "this client is in the middle of an operation that a signal has interrupted";
            return Err(ClientError::refused("busy", words));
        }
        loop {
            match self.state.try_lock() {
                Ok(state) => {
                    self.inside.store(thread_number(), Ordering::SeqCst);
                    return Ok(Turn { state: Some(state), client: self });
                }
                Err(TryLockError::Poisoned(_)) => {
                    return Err(ClientError::refused("internal", "an earlier operation failed: a defect of umiak"));
                }
                Err(TryLockError::WouldBlock) => {
                    let guard = self.turn.0.lock().unwrap_or_else(PoisonError::into_inner);
                    drop(self.turn.1.wait_timeout(guard, Duration::from_millis(20)));
                    if !pulse() {
                        return Err(ClientError::Interrupted);
                    }
                }
            }
        }
    }
}

/// The limits of one operation, and who is asked whether it may go on.
pub struct Wish<'a> {
    pub limit: Option<Duration>,
    pub pulse: Pulse<'a>,
}

impl Turn<'_> {
    pub(super) fn split(&mut self) -> (&mut State, &Mutex<Option<String>>) {
        // It is there until the turn is dropped.
        (self.state.as_mut().expect("a turn has its state"), &self.client.waiting)
    }

    pub fn connect(&mut self, wish: &mut Wish<'_>) -> Outcome<Value> {
        let (state, waiting) = self.split();
        state.connect_all(waiting, wish)?;
        Ok(state.links.iter().map(|link| link.welcome.clone()).collect())
    }

    pub fn close(&mut self) {
        let (state, _) = self.split();
        state.closed = true;
        state.beats = None;
        for link in &mut state.links {
            if let Some(mut stream) = link.stream.take() {
                stream.close();
            }
        }
    }

    pub fn table(&mut self, table: u32) -> Outcome<&Table> {
        self.split().0.table(table)
    }

    pub fn create_table(&mut self, name: &str, spec: &str, wish: &mut Wish<'_>) -> Outcome<u32> {
        let (state, waiting) = self.split();
        let table = Table::new(name, spec, state.sharding, state.links.len())?;
        state.connect_all(waiting, wish)?;
        let known = state.tables.iter().position(|known| known.name == name);
        let header = Header { length: table.request.len() as u64, ..Header::of(Op::Create) };
        let orders: Vec<Order<'_>> = (0..state.links.len())
            .map(|link| Order { link, header, table: None, body: Body::Bytes(&table.request), rows: None })
            .collect();
        let answers = state.perform(&orders, &mut |_, _, _| {}, waiting, wish)?;
        drop(orders);
        let handle = known.unwrap_or(state.tables.len());
        for (link, answer) in state.links.iter_mut().zip(answers) {
            let Answer::Ok(header) = answer else { return Err(unexpected(&answer)) };
            link.numbers.resize(link.numbers.len().max(handle + 1), 0);
            link.numbers[handle] = header.table;
        }
        match known {
            Some(known) => state.tables[known] = table,
            None => state.tables.push(table),
        }
        Ok(handle as u32)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn pull(
        &mut self,
        table: u32,
        keys: &[u64],
        out: &mut [f32],
        create: bool,
        step: u64,
        wish: &mut Wish<'_>,
    ) -> Outcome<()> {
        let (state, waiting) = self.split();
        let (width, _, _) = state.table(table)?.sparse()?;
        if out.len() != keys.len() * width {
            return Err(ClientError::refused(
                "wrong-shape",
                format!("{} keys are not {} floats", keys.len(), out.len()),
            ));
        }
        state.connect_all(waiting, wish)?;
        let mut plan = std::mem::take(&mut state.plan);
        plan.make(keys, state.sharding, state.links.len());
        let mut orders = Vec::with_capacity(state.links.len());
        let flags = if create { flag::CREATE } else { 0 };
        for (link, bounds) in plan.bounds.windows(2).enumerate() {
            let part = &plan.keys[bounds[0]..bounds[1]];
            let bytes = codec::key_bytes(part);
            fits(bytes.len().max(part.len() * width * 4))?;
            let (rows, dim) = (part.len() as u32, width as u32);
            let header = Header { flags, rows, dim, seq: step, length: bytes.len() as u64, ..Header::of(Op::Pull) };
            if !part.is_empty() {
                let (table, body) = (Some(table as usize), Body::Bytes(bytes));
                orders.push(Order { link, header, table, body, rows: Some((rows, dim)) });
            }
        }
        let bases: Vec<usize> = orders.iter().map(|order| plan.bounds[order.link]).collect();
        let mut sink = |order: usize, row: usize, rows: &[f32]| plan.scatter(bases[order] + row, rows, width, out);
        let done = state.perform(&orders, &mut sink, waiting, wish);
        drop(orders);
        if done.is_ok() {
            plan.repeat(width, out);
        }
        state.plan = plan;
        for answer in done? {
            if !matches!(answer, Answer::Rows) {
                return Err(unexpected(&answer));
            }
        }
        Ok(())
    }

    /// Push, set and add: rows that change something. With `step`, a part of a synchronous step.
    pub fn change(
        &mut self,
        op: Op,
        table: u32,
        keys: &[u64],
        rows: &[f32],
        step: Option<u64>,
        wish: &mut Wish<'_>,
    ) -> Outcome<()> {
        let (state, waiting) = self.split();
        let (pull_width, push_width, has_slot) = state.table(table)?.sparse()?;
        let (width, merge) = match op {
            Op::Push if has_slot => (push_width, Merge::SumButSlot),
            Op::Push => (push_width, Merge::Sum),
            Op::Set => (pull_width, Merge::Last),
            _ => (pull_width, Merge::Sum),
        };
        if rows.len() != keys.len() * width {
            let words = format!("{} keys need {} floats, not {}", keys.len(), keys.len() * width, rows.len());
            return Err(ClientError::refused("wrong-shape", words));
        }
        state.connect_all(waiting, wish)?;
        let mut plan = std::mem::take(&mut state.plan);
        plan.make(keys, state.sharding, state.links.len());
        let frames = state.row_frames(&plan, op, table, rows, width, merge, step);
        state.plan = plan;
        state.send_frames(frames?, waiting, wish)
    }

    /// Gradients or values of a whole dense table.
    pub fn change_dense(
        &mut self,
        op: Op,
        flags: u16,
        table: u32,
        values: &[f32],
        step: Option<u64>,
        wish: &mut Wish<'_>,
    ) -> Outcome<()> {
        let (state, waiting) = self.split();
        let (elements, parts) = state.table(table)?.dense()?;
        let parts = parts.to_vec();
        if values.len() != elements {
            let words = format!("the table has {elements} elements, not {}", values.len());
            return Err(ClientError::refused("wrong-shape", words));
        }
        state.connect_all(waiting, wish)?;
        let header = state.numbered(Header { flags, dim: 1, ..Header::of(op) }, step);
        let mut frames = Vec::new();
        for (link, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            fits(part.len() * 4)?;
            let (_, mut copy) = state.buffers();
            copy.clear();
            copy.extend_from_slice(&values[part]);
            let header = Header { rows: copy.len() as u32, ..header };
            frames.push((link, Arc::new(Frame::new(header, table as usize, Vec::new(), copy))));
        }
        state.send_frames(frames, waiting, wish)
    }

    pub fn pull_dense(&mut self, table: u32, out: &mut [f32], step: u64, wish: &mut Wish<'_>) -> Outcome<()> {
        let (state, waiting) = self.split();
        let (elements, parts) = state.table(table)?.dense()?;
        let parts = parts.to_vec();
        if out.len() != elements {
            let words = format!("the table has {elements} elements, not {}", out.len());
            return Err(ClientError::refused("wrong-shape", words));
        }
        state.connect_all(waiting, wish)?;
        let header = Header { seq: step, ..Header::of(Op::PullDense) };
        let parts: Vec<_> = parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()).collect();
        let orders: Vec<Order<'_>> = parts
            .iter()
            .map(|(link, part)| {
                let rows = Some((part.len() as u32, 1));
                Order { link: *link, header, table: Some(table as usize), body: Body::Bytes(&[]), rows }
            })
            .collect();
        let mut sink = |order: usize, row: usize, values: &[f32]| {
            let start = parts[order].1.start + row;
            out[start..start + values.len()].copy_from_slice(values);
        };
        for answer in state.perform(&orders, &mut sink, waiting, wish)? {
            if !matches!(answer, Answer::Rows) {
                return Err(unexpected(&answer));
            }
        }
        Ok(())
    }

    pub fn set_learning_rate(&mut self, table: u32, rate: f32, step: Option<u64>, wish: &mut Wish<'_>) -> Outcome<()> {
        let (state, waiting) = self.split();
        state.table(table)?;
        state.connect_all(waiting, wish)?;
        let header = state.numbered(Header { rows: 1, dim: 1, ..Header::of(Op::LearningRate) }, step);
        let frame = || Arc::new(Frame::new(header, table as usize, Vec::new(), vec![rate]));
        let frames = (0..state.links.len()).map(|link| (link, frame())).collect();
        state.send_frames(frames, waiting, wish)
    }

    /// Rows that went.
    pub fn shrink(&mut self, table: u32, wish: &mut Wish<'_>) -> Outcome<u64> {
        let (state, waiting) = self.split();
        state.table(table)?;
        state.connect_all(waiting, wish)?;
        let header = state.numbered(Header::of(Op::Shrink), None);
        let frame = || Arc::new(Frame::new(header, table as usize, Vec::new(), Vec::new()));
        let frames = (0..state.links.len()).map(|link| (link, frame())).collect();
        let answers = state.send(frames, waiting, wish)?;
        Ok(answers
            .iter()
            .map(|answer| match answer {
                Answer::Json(value) => value["removed"].as_u64().unwrap_or(0),
                _ => 0,
            })
            .sum())
    }

    /// Keys that others changed, and their values.
    pub fn changed(&mut self, table: u32, wish: &mut Wish<'_>) -> Outcome<(Vec<u64>, Vec<f32>)> {
        let (state, waiting) = self.split();
        state.table(table)?.sparse()?;
        state.connect_all(waiting, wish)?;
        state.seq += 1;
        let header = Header { seq: state.seq, ..Header::of(Op::Changed) };
        let orders: Vec<Order<'_>> = (0..state.links.len())
            .map(|link| Order { link, header, table: Some(table as usize), body: Body::Bytes(&[]), rows: None })
            .collect();
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        for answer in state.perform(&orders, &mut |_, _, _| {}, waiting, wish)? {
            let Answer::KeyedRows(more, values, _) = answer else { return Err(unexpected(&answer)) };
            keys.extend(more);
            rows.extend(values);
        }
        Ok((keys, rows))
    }

    /// Waits until all living trainers are there.
    pub fn barrier(&mut self, name: &str, wish: &mut Wish<'_>) -> Outcome<()> {
        let (state, waiting) = self.split();
        state.connect_all(waiting, wish)?;
        let turn = state.turns.get(name).copied().unwrap_or(0);
        let bytes = json!({"name": name, "turn": turn}).to_string().into_bytes();
        let header = Header { length: bytes.len() as u64, ..Header::of(Op::Barrier) };
        // One place to meet is enough.
        let orders = [Order { link: 0, header, table: None, body: Body::Bytes(&bytes), rows: None }];
        state.perform(&orders, &mut |_, _, _| {}, waiting, wish)?;
        state.turns.insert(name.into(), turn + 1);
        Ok(())
    }

    /// The same text to all servers; their answers.
    pub fn ask_all(&mut self, op: Op, text: &str, wish: &mut Wish<'_>) -> Outcome<Value> {
        let (state, waiting) = self.split();
        state.connect_all(waiting, wish)?;
        let header = Header { length: text.len() as u64, ..Header::of(op) };
        let answers = state.tell_all(header, text.as_bytes(), waiting, wish)?;
        let value = |answer| match answer {
            Answer::Json(value) => value,
            _ => Value::Null,
        };
        Ok(answers.into_iter().map(value).collect())
    }
}

pub(super) fn unexpected(answer: &Answer) -> ClientError {
    ClientError::refused("foreign", format!("a server answered with something else than was asked for: {answer:?}"))
}

fn fits(bytes: usize) -> Outcome<()> {
    if bytes as u64 <= MOST_FRAME {
        return Ok(());
    }
    let words = format!("{bytes} bytes for one server are more than a frame's {MOST_FRAME}");
    Err(ClientError::Refused(Told::new("too-long", words, Some("use fewer keys at once, or more servers"))))
}

impl State {
    fn table(&self, table: u32) -> Outcome<&Table> {
        let unknown = || ClientError::refused("unknown-table", format!("this client has created no table {table}"));
        self.tables.get(table as usize).ok_or_else(unknown)
    }

    /// Gives a change its number: the step's, or the next one of this trainer. Observers have none.
    fn numbered(&mut self, header: Header, step: Option<u64>) -> Header {
        match step {
            Some(step) => Header { flags: header.flags | flag::STEP, seq: step, ..header },
            None if self.config.kind == Kind::Observer => header,
            None => {
                self.seq += 1;
                Header { seq: self.seq, ..header }
            }
        }
    }

    fn buffers(&mut self) -> (Vec<u64>, Vec<f32>) {
        self.spare.pop().map(|frame| (frame.keys, frame.rows)).unwrap_or_default()
    }

    #[allow(clippy::too_many_arguments)]
    fn row_frames(
        &mut self,
        plan: &Plan,
        op: Op,
        table: u32,
        rows: &[f32],
        width: usize,
        merge: Merge,
        step: Option<u64>,
    ) -> Outcome<Vec<(usize, Arc<Frame>)>> {
        let header = self.numbered(Header { dim: width as u32, ..Header::of(op) }, step);
        let (mut keys, mut parts): (Vec<Vec<u64>>, Vec<Vec<f32>>) = Default::default();
        for bounds in plan.bounds.windows(2) {
            let part = &plan.keys[bounds[0]..bounds[1]];
            fits(part.len() * (8 + 4 * width))?;
            let (mut copy, values) = if part.is_empty() { Default::default() } else { self.buffers() };
            copy.clear();
            copy.extend_from_slice(part);
            keys.push(copy);
            parts.push(values);
        }
        plan.spread(rows, width, merge, &mut parts);
        let frame = |(keys, rows): (Vec<u64>, Vec<f32>)| {
            let header = Header { rows: keys.len() as u32, ..header };
            Arc::new(Frame::new(header, table as usize, keys, rows))
        };
        Ok(keys.into_iter().zip(parts).map(frame).enumerate().filter(|(_, frame)| !frame.keys.is_empty()).collect())
    }

    fn send_frames(
        &mut self,
        frames: Vec<(usize, Arc<Frame>)>,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<()> {
        self.send(frames, waiting, wish).map(|_| ())
    }

    /// Keeps changes, sends them, and lets go of what is durable.
    fn send(
        &mut self,
        frames: Vec<(usize, Arc<Frame>)>,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<Vec<Answer>> {
        self.make_room(&frames, waiting, wish)?;
        let mut orders = Vec::with_capacity(frames.len());
        for (link, frame) in frames {
            if frame.header.seq > 0 || frame.header.flags & flag::STEP != 0 {
                self.links[link].keep(frame.clone());
            }
            let (header, table) = (frame.header, Some(frame.table));
            orders.push(Order { link, header, table, body: Body::Frame(frame), rows: None });
        }
        let answers = self.perform(&orders, &mut |_, _, _| {}, waiting, wish);
        drop(orders);
        for link in &mut self.links {
            link.let_go(link.words.durable, &mut self.spare);
        }
        answers
    }

    /// Waits until enough of what is kept is durable.
    fn make_room(
        &mut self,
        frames: &[(usize, Arc<Frame>)],
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<()> {
        for (link, frame) in frames {
            loop {
                let kept = &self.links[*link];
                if kept.kept.is_empty() || kept.kept_bytes + frame.bytes() <= self.config.replay_bytes {
                    break;
                }
                let before = kept.kept_bytes;
                let order = Order {
                    link: *link,
                    header: Header::of(Op::Beat),
                    table: None,
                    body: Body::Bytes(&[]),
                    rows: None,
                };
                self.perform(&[order], &mut |_, _, _| {}, waiting, wish)?;
                let link = &mut self.links[*link];
                link.let_go(link.words.durable, &mut self.spare);
                if link.kept_bytes == before {
                    *waiting.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(format!("waiting for the disk of server {}", link.card.endpoint));
                    nap(Duration::from_millis(5), wish.pulse)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn tell_all(
        &mut self,
        header: Header,
        body: &[u8],
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<Vec<Answer>> {
        let order = |link| Order { link, header, table: None, body: Body::Bytes(body), rows: None };
        let orders: Vec<Order<'_>> = (0..self.links.len()).map(order).collect();
        self.perform(&orders, &mut |_, _, _| {}, waiting, wish)
    }

    /// Carries out one order per server, and connects anew and repeats where that is needed.
    pub(super) fn perform(
        &mut self,
        orders: &[Order<'_>],
        sink: Sink<'_>,
        waiting: &Mutex<Option<String>>,
        wish: &mut Wish<'_>,
    ) -> Outcome<Vec<Answer>> {
        let begun = Instant::now();
        let limit = wish.limit.map(|limit| begun + limit);
        let clock = Clock { silence: Duration::from_secs_f64(self.config.timeout_s), limit };
        let mut answers: Vec<Option<Answer>> = orders.iter().map(|_| None).collect();
        let mut patience = Patience::new(self.config.timeout_s);
        loop {
            let mut open = Vec::with_capacity(orders.len());
            for (index, order) in orders.iter().enumerate() {
                if answers[index].is_some() {
                    continue;
                }
                if self.links[order.link].stream.is_none() {
                    self.reconnect(order.link, &mut patience, waiting, limit, wish.pulse)?;
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
                        answers[index] = Some(Answer::Rows);
                    }
                    Ok(answer) => {
                        if let Answer::Ok(header) = &answer
                            && self.config.kind == Kind::Trainer
                        {
                            link.words.durable = link.words.durable.max(header.seq);
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
        orders: &[Order<'_>],
        open: &[usize],
        sink: Sink<'_>,
        waiting: &Mutex<Option<String>>,
        clock: &Clock,
        pulse: Pulse<'_>,
    ) -> Result<Vec<io::Result<Answer>>, Stop> {
        let State { links, inbox, config, .. } = self;
        let mut streams: Vec<_> =
            links.iter_mut().map(|link| link.stream.as_mut().map(|stream| (stream, &link.numbers))).collect();
        let mut calls = Vec::with_capacity(open.len());
        for index in open {
            let order = &orders[*index];
            // There is one order per server, and `perform` has connected it.
            let Some((stream, numbers)) = streams[order.link].take() else { continue };
            let number = order.table.and_then(|table| numbers.get(table)).copied().unwrap_or(0);
            let header = Header { client: config.rank, table: number, ..order.header };
            let parts = match &order.body {
                Body::Bytes(bytes) => [bytes, &[][..]],
                Body::Frame(frame) => frame.parts(),
            };
            calls.push(Call { stream, header, parts, rows: order.rows });
        }
        let mut numbered = |call: usize, row: usize, rows: &[f32]| sink(open[call], row, rows);
        exchange::exchange(&mut calls, &mut numbered, inbox, waiting, clock, pulse)
    }

    pub(super) fn connect_all(&mut self, waiting: &Mutex<Option<String>>, wish: &mut Wish<'_>) -> Outcome<()> {
        if self.closed {
            return Err(ClientError::refused("closed", "this client is closed"));
        }
        if self.links.iter().all(|link| link.stream.is_some()) {
            return Ok(());
        }
        let limit = wish.limit.map(|limit| Instant::now() + limit);
        let mut patience = Patience::new(self.config.timeout_s);
        for link in 0..self.links.len() {
            if self.links[link].stream.is_none() {
                self.reconnect(link, &mut patience, waiting, limit, wish.pulse)?;
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
        limit: Option<Instant>,
        pulse: Pulse<'_>,
    ) -> Outcome<()> {
        let begun = Instant::now();
        let mut attempt = 0;
        loop {
            let reason = match dial::enter(&self.links[link].card, pulse) {
                Ok((stream, welcome)) => match self.take_up(link, stream, welcome, waiting, pulse)? {
                    Ok(()) => return Ok(()),
                    Err(error) => error.to_string(),
                },
                Err(NoEntry::Away(reason)) => reason,
                Err(NoEntry::Refused(told)) => {
                    let message = format!("server {}: {}", self.links[link].card.endpoint, told.message);
                    return Err(ClientError::Refused(Told { message, ..told }));
                }
                Err(NoEntry::Interrupted) => return Err(ClientError::Interrupted),
            };
            self.links[link].stream = None;
            let away = format!("server {} is away: {reason}", self.links[link].card.endpoint);
            *waiting.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(format!("{away} (for {:.0} s)", begun.elapsed().as_secs_f64()));
            patience.tried(&self.links[link], &reason)?;
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                return Err(over_limit(waiting, None));
            }
            nap(back_off(attempt), pulse)?;
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
        pulse: Pulse<'_>,
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
            let order = Order { link: index, header, table: None, body: Body::Bytes(&request), rows: None };
            match self.one(order, waiting, pulse)? {
                Ok(Answer::Ok(header)) => {
                    let numbers = &mut self.links[index].numbers;
                    numbers.resize(numbers.len().max(table + 1), 0);
                    numbers[table] = header.table;
                }
                Ok(answer) => return Err(unexpected(&answer)),
                Err(error) => return Ok(Err(error)),
            }
        }
        for todo in todo {
            let order = match &todo {
                Todo::Send(frame) => {
                    let (header, table, body) = (frame.header, Some(frame.table), Body::Frame(frame.clone()));
                    Order { link: index, header, table, body, rows: None }
                }
                Todo::Step(op, step) => {
                    let header = Header { seq: *step, ..Header::of(*op) };
                    Order { link: index, header, table: None, body: Body::Bytes(&[]), rows: None }
                }
            };
            match self.one(order, waiting, pulse)? {
                Ok(answer) => {
                    let link = &mut self.links[index];
                    if let Answer::Ok(header) = answer {
                        link.words.durable = link.words.durable.max(header.seq);
                    }
                    if let Todo::Send(frame) = &todo {
                        frame.acknowledge();
                    }
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// One request on a connection that has just been made.
    fn one(
        &mut self,
        order: Order<'_>,
        waiting: &Mutex<Option<String>>,
        pulse: Pulse<'_>,
    ) -> Outcome<io::Result<Answer>> {
        let clock = Clock { silence: Duration::from_secs_f64(self.config.timeout_s), limit: None };
        let link = order.link;
        let answers = self.call(&[order], &[0], &mut |_, _, _| {}, waiting, &clock, pulse);
        match answers.map(|mut answers| answers.pop()) {
            Ok(Some(Ok(Answer::Refused(told)))) if dial::passes(&told.code) => Ok(Err(io::Error::other(told.message))),
            Ok(Some(Ok(Answer::Refused(told)))) => Err(ClientError::told(told)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Ok(Err(io::Error::other("the connection is gone"))),
            Err(_) => {
                self.links[link].stream = None;
                Err(ClientError::Interrupted)
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
