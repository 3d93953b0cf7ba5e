//! What a trainer can ask of a job's servers; one operation at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use serde_json::{Value, json};

use super::config::{Config, Kind};
use super::context::{CallContext, CallOptions, Waiting};
use super::delivery::unexpected;
use super::dial::Credentials;
use super::error::{ClientError, ErrorDetail, Outcome};
use super::exchange::Answer;
use super::link::{Frame, Link};
use super::orders::{Body, Order, RowChange};
use super::plan::Plan;
use super::state::State;
use super::tables::Table;
use crate::poison::Unpoisoned;
use crate::table::Absent;
use crate::wire::auth;
use crate::wire::codec;
use crate::wire::frame::{Header, Op, flag};
use crate::wire::stream;

pub struct Client {
    state: Mutex<State>,
    /// Rung when somebody leaves `state`.
    turn: (Mutex<()>, Condvar),
    /// The thread that is inside, so that a signal handler's call does not wait for itself.
    inside: AtomicU64,
    waiting: Waiting,
    /// The process that made it. A fork has copies of its sockets, and none of its threads.
    process: u32,
}

/// The turn of one caller. Fields are dropped in their order: the state is free before the next one is called.
pub struct Turn<'a> {
    state: MutexGuard<'a, State>,
    context: CallContext<'a>,
    next: Next<'a>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.next.0.inside.store(0, Ordering::SeqCst);
        self.next.0.waiting.set(None);
    }
}

/// Calls who waits for its turn.
struct Next<'a>(&'a Client);

impl Drop for Next<'_> {
    fn drop(&mut self) {
        self.0.turn.1.notify_one();
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
            links.push(Link::new(Credentials {
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
            step: None,
            seq: 0,
            plan: Plan::default(),
            plans: Vec::new(),
            spare: Vec::new(),
            inbox: Vec::new(),
            turns: Default::default(),
            said: Vec::new(),
            heartbeats: None,
            closed: false,
        };
        Ok(Client {
            state: Mutex::new(state),
            turn: (Mutex::new(()), Condvar::new()),
            inside: AtomicU64::new(0),
            waiting: Waiting::default(),
            process: std::process::id(),
        })
    }

    /// What the operation that is under way waits for.
    pub fn waiting_for(&self) -> Option<String> {
        self.waiting.get()
    }

    /// Whether this process is a fork of the one that made it.
    pub fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Waits for the operations of other threads.
    pub fn turn<'a>(&'a self, options: CallOptions<'a>) -> Outcome<Turn<'a>> {
        if self.is_forked() {
            let words = "a client belongs to the process that made it, and this is a fork of that one";
            return Err(ClientError::Refused(ErrorDetail::new("forked", words, Some("make a client after the fork"))));
        }
        if self.inside.load(Ordering::SeqCst) == thread_number() {
            let words = "this client is in the middle of an operation that a signal has interrupted";
            return Err(ClientError::refused("busy", words));
        }
        loop {
            match self.state.try_lock() {
                Ok(state) => {
                    self.inside.store(thread_number(), Ordering::SeqCst);
                    let context = CallContext::new(options, &self.waiting);
                    return Ok(Turn { state, context, next: Next(self) });
                }
                Err(TryLockError::Poisoned(_)) => {
                    return Err(ClientError::refused("internal", "an earlier operation failed: a defect of umiak"));
                }
                Err(TryLockError::WouldBlock) => {
                    let guard = self.turn.0.lock().unpoisoned();
                    drop(self.turn.1.wait_timeout(guard, Duration::from_millis(20)));
                    if !(options.pulse)() {
                        return Err(ClientError::Interrupted);
                    }
                }
            }
        }
    }
}

impl<'a> Turn<'a> {
    pub(super) fn split(&mut self) -> (&mut State, &mut CallContext<'a>) {
        (&mut self.state, &mut self.context)
    }

    pub fn connect(&mut self) -> Outcome<Value> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        Ok(state.links.iter().map(|link| link.welcome_json.clone()).collect())
    }

    pub fn close(&mut self) {
        let (state, _) = self.split();
        state.closed = true;
        state.heartbeats = None;
        for link in &mut state.links {
            if let Some(mut stream) = link.stream.take() {
                stream.close();
            }
        }
    }

    /// What servers have done otherwise than they were asked, for a person to read; each line once.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.split().0.said)
    }

    pub fn table(&mut self, table: u32) -> Outcome<&Table> {
        self.split().0.table(table)
    }

    pub fn create_table(&mut self, name: &str, spec: &str, is_narrow: bool) -> Outcome<u32> {
        let (state, context) = self.split();
        let table = Table::new(name, spec, is_narrow, state.sharding, state.links.len())?;
        state.connect_all(context)?;
        let known = state.tables.iter().position(|known| known.name == name);
        let header = Header { length: table.request.len() as u64, ..Header::of(Op::Create) };
        let answers = state.tell_all(header, &table.request, context)?;
        let handle = known.unwrap_or(state.tables.len());
        for (link, answer) in answers.into_iter().enumerate() {
            state.created(link, handle, answer)?;
        }
        match known {
            Some(known) => state.tables[known] = table,
            None => state.tables.push(table),
        }
        Ok(handle as u32)
    }

    pub fn pull(&mut self, table: u32, keys: &[u64], out: &mut [f32], absent: Absent, step: u64) -> Outcome<()> {
        let (state, context) = self.split();
        let known = state.table(table)?;
        let ((width, _, _), is_narrow) = (known.sparse()?, known.is_narrow);
        if out.len() != keys.len() * width {
            return Err(ClientError::refused(
                "wrong-shape",
                format!("{} keys are not {} floats", keys.len(), out.len()),
            ));
        }
        state.connect_all(context)?;
        let mut plan = std::mem::take(&mut state.plan);
        plan.make(keys, state.sharding, state.links.len());
        let flags = match absent {
            Absent::Made => made_flags(is_narrow),
            Absent::Initial => 0,
            Absent::Zeros => flag::ZEROS,
        };
        let most = (state.config.most_frame / (4 * width).max(8)).max(1);
        let longest = plan.bounds.windows(2).map(|bounds| bounds[1] - bounds[0]).max().unwrap_or(0);
        let mut done = Ok(Vec::new());
        // One round, unless there are more keys for one server than a frame holds.
        for round in (0..longest.max(1)).step_by(most) {
            let (mut orders, mut bases) = (Vec::with_capacity(state.links.len()), Vec::new());
            for (link, bounds) in plan.bounds.windows(2).enumerate() {
                let begin = (bounds[0] + round).min(bounds[1]);
                let part = &plan.keys[begin..(begin + most).min(bounds[1])];
                let bytes = codec::key_bytes(part);
                let (rows, dim) = (part.len() as u32, width as u32);
                let header = Header { flags, rows, dim, seq: step, length: bytes.len() as u64, ..Header::of(Op::Pull) };
                // The first server is where trainers meet: it must know of everybody who waits for a step.
                if !part.is_empty() || (round == 0 && link == 0 && step > 0) {
                    let (table, body) = (Some(table as usize), Body::Bytes(bytes));
                    orders.push(Order { rows: Some((rows, dim)), ..Order::new(link, header, table, body) });
                    bases.push(begin);
                }
            }
            let mut sink =
                |order: usize, _: usize, row: usize, rows: &[f32]| plan.scatter(bases[order] + row, rows, width, out);
            done = state.perform(&mut orders, &mut sink, context);
            let strange = |answers: &Vec<Answer>| answers.iter().any(|answer| !matches!(answer, Answer::Rows(_)));
            if done.as_ref().map_or(true, strange) {
                break;
            }
        }
        if done.is_ok() {
            plan.repeat(width, out);
        }
        state.plan = plan;
        for answer in done? {
            if !matches!(answer, Answer::Rows(_)) {
                return Err(unexpected(&answer));
            }
        }
        Ok(())
    }

    /// Push, set and add: rows that change something, in a push times `scale`. With `step`, a part of a synchronous step.
    pub fn change(&mut self, change: &RowChange<'_>, step: Option<u64>) -> Outcome<()> {
        let (state, context) = self.split();
        state.row_layout(change)?;
        state.connect_all(context)?;
        let of_links = state.row_frames(change, step)?;
        state.send(State::rounds(of_links), context).map(drop)
    }

    pub fn set_learning_rate(&mut self, table: u32, rate: f32, step: Option<u64>) -> Outcome<()> {
        let (state, context) = self.split();
        state.table(table)?;
        state.connect_all(context)?;
        let header = state.numbered(Header { rows: 1, dim: 1, ..Header::of(Op::LearningRate) }, step);
        let frame = || Arc::new(Frame::new(header, table as usize, Vec::new(), vec![rate]));
        let orders = (0..state.links.len()).map(|link| Order::of_frame(link, frame())).collect();
        state.send(vec![orders], context).map(drop)
    }

    /// Rows that went.
    pub fn shrink(&mut self, table: u32) -> Outcome<u64> {
        let (state, context) = self.split();
        state.table(table)?;
        state.connect_all(context)?;
        let header = state.numbered(Header::of(Op::Shrink), None);
        let frame = || Arc::new(Frame::new(header, table as usize, Vec::new(), Vec::new()));
        let orders = (0..state.links.len()).map(|link| Order::of_frame(link, frame())).collect();
        let answers = state.send(vec![orders], context)?;
        Ok(answers
            .iter()
            .map(|answer| match answer {
                Answer::Json(value) => value["removed"].as_u64().unwrap_or(0),
                _ => 0,
            })
            .sum())
    }

    /// Keys that others changed, and their values.
    pub fn changed(&mut self, table: u32) -> Outcome<(Vec<u64>, Vec<f32>)> {
        let (state, context) = self.split();
        state.table(table)?.sparse()?;
        state.connect_all(context)?;
        state.seq += 1;
        let header = Header { seq: state.seq, ..Header::of(Op::Changed) };
        let order = |link| Order::new(link, header, Some(table as usize), Body::Bytes(&[]));
        let mut orders: Vec<Order<'_>> = (0..state.links.len()).map(order).collect();
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        for answer in state.perform(&mut orders, &mut |_, _, _, _| {}, context)? {
            let Answer::KeyedRows(more, values) = answer else { return Err(unexpected(&answer)) };
            keys.extend(more);
            rows.extend(values);
        }
        Ok((keys, rows))
    }

    /// Waits until all living trainers are there, each with everything that it has changed.
    pub fn barrier(&mut self, name: &str) -> Outcome<()> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        // A server that is killed while others wait here could not get it from this trainer before they go on.
        state.settle(context)?;
        let turn = state.turns.barriers.get(name).copied().unwrap_or(0);
        let bytes = json!({"name": name, "turn": turn}).to_string().into_bytes();
        let header = Header { length: bytes.len() as u64, ..Header::of(Op::Barrier) };
        // One place to meet is enough.
        let mut orders = [Order::new(0, header, None, Body::Bytes(&bytes))];
        state.perform(&mut orders, &mut |_, _, _, _| {}, context)?;
        state.turns.barriers.insert(name.into(), turn + 1);
        Ok(())
    }

    /// What all living trainers bring, in order of rank. Nothing is settled: what was pushed may still be on its way to disk.
    pub fn gather(&mut self, name: &str, payload: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        check_gathered("gather", name, payload)?;
        let (state, context) = self.split();
        state.connect_all(context)?;
        let turn = state.turns.gathers.get(name).copied().unwrap_or(0);
        let bytes = [name.as_bytes(), payload].concat();
        let (rows, length) = (name.len() as u32, bytes.len() as u64);
        let header = Header { rows, seq: turn, length, ..Header::of(Op::Gather) };
        let mut orders = [Order::new(0, header, None, Body::Bytes(&bytes))];
        let answer = state.perform(&mut orders, &mut |_, _, _, _| {}, context)?.pop();
        match answer {
            Some(Answer::Strings(strings, _)) if strings.len() == state.config.world => {
                state.turns.gathers.insert(name.into(), turn + 1);
                Ok(strings)
            }
            answer => Err(unexpected(&answer)),
        }
    }

    /// Says something, and hears what everybody has said last under that name; waits for nobody.
    pub fn post(&mut self, name: &str, payload: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        check_gathered("post", name, payload)?;
        let (state, context) = self.split();
        state.connect_all(context)?;
        let bytes = [name.as_bytes(), payload].concat();
        let (rows, length) = (name.len() as u32, bytes.len() as u64);
        let header = Header { rows, length, ..Header::of(Op::Post) };
        let mut orders = [Order::new(0, header, None, Body::Bytes(&bytes))];
        match state.perform(&mut orders, &mut |_, _, _, _| {}, context)?.pop() {
            Some(Answer::Strings(strings, _)) if strings.len() == state.config.world => Ok(strings),
            answer => Err(unexpected(&answer)),
        }
    }

    /// A number that nobody else gets, counted from 0.
    pub fn take(&mut self, name: &str) -> Outcome<u64> {
        check_name(name)?;
        let (state, context) = self.split();
        state.connect_all(context)?;
        let turn = state.turns.takes.get(name).copied().unwrap_or(0);
        let header = Header { seq: turn, length: name.len() as u64, ..Header::of(Op::Take) };
        let mut orders = [Order::new(0, header, None, Body::Bytes(name.as_bytes()))];
        let answer = state.perform(&mut orders, &mut |_, _, _, _| {}, context)?.pop();
        let number = match &answer {
            Some(Answer::Json(value)) => value["number"].as_u64(),
            _ => None,
        };
        let number = number.ok_or_else(|| unexpected(&answer))?;
        state.turns.takes.insert(name.into(), turn + 1);
        Ok(number)
    }

    /// All servers load, or none: they are asked to check first.
    pub fn load(&mut self, text: &str) -> Outcome<Value> {
        if self.split().0.links.len() > 1
            && let Ok(Value::Object(mut fields)) = serde_json::from_str(text)
        {
            fields.insert("check".into(), true.into());
            self.ask_all(Op::Load, &Value::Object(fields).to_string())?;
        }
        self.ask_all(Op::Load, text)
    }

    /// The same text to all servers; their answers.
    pub fn ask_all(&mut self, op: Op, text: &str) -> Outcome<Value> {
        let (state, context) = self.split();
        state.connect_all(context)?;
        let header = Header { length: text.len() as u64, ..Header::of(op) };
        let answers = state.tell_all(header, text.as_bytes(), context)?;
        let value = |answer| match answer {
            Answer::Json(value) => value,
            _ => Value::Null,
        };
        Ok(answers.into_iter().map(value).collect())
    }
}

/// Of a pull whose rows are to be trained; what is read otherwise is exact.
pub(super) fn made_flags(is_narrow: bool) -> u16 {
    flag::CREATE | if is_narrow { flag::NARROW } else { 0 }
}

fn check_gathered(op: &str, name: &str, payload: &[u8]) -> Outcome<()> {
    check_name(name)?;
    if payload.len() as u64 > codec::MOST_GATHERED {
        let words = format!("{op} {name:?}: {} bytes are more than {}", payload.len(), codec::MOST_GATHERED);
        return Err(ClientError::Refused(ErrorDetail::new(
            "too-long",
            words,
            Some("gather what is small, or in parts"),
        )));
    }
    Ok(())
}

fn check_name(name: &str) -> Outcome<()> {
    if name.len() as u64 <= codec::MOST_NAME {
        return Ok(());
    }
    let words = format!("a name of {} bytes is longer than the limit of {}", name.len(), codec::MOST_NAME);
    Err(ClientError::refused("too-long", words))
}
