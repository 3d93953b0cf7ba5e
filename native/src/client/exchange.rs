//! Requests to several servers at once, and their answers as they come. An adapter: one loop over non-blocking sockets.
//!
//! One call per connection at a time: a request, perhaps with changes before it and pulls behind it, which are sent without
//! waiting for the answers between them. A call that fails breaks its connection and no other; the caller connects again and
//! calls again.

use std::io::{self, ErrorKind, IoSlice};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::context::{CallContext, Stop, TICK};
use super::error::ErrorDetail;
use crate::wire::frame::{HEADER, Header, Op, flag};
use crate::wire::stream::{Stream, again, poll};
use crate::wire::{codec, narrow};

/// Bytes of rows that are taken from a socket at once.
const INBOX: usize = 256 << 10;
/// Answers are from servers that have proved who they are, and may be larger than requests.
const MOST_ANSWER: u64 = 16 << 30;

/// The error of a call that was ended because another one has failed; the system's own errors have a number.
const GIVEN_UP: ErrorKind = ErrorKind::ConnectionAborted;

/// Rows as they arrive: which call, which of its answers (0: that to the request, then those to the pulls behind it), from
/// which row on, whole rows.
pub type Sink<'a> = &'a mut dyn FnMut(usize, usize, usize, &[f32]);

/// A frame to be sent.
pub struct Outgoing<'a> {
    pub header: Header,
    pub parts: [&'a [u8]; 2],
}

pub struct Call<'a> {
    pub stream: &'a mut Stream,
    /// Changes, each answered with a word; the request, whose answer counts; pulls, as many as `pulls` says.
    pub frames: Vec<Outgoing<'a>>,
    /// Answer rows must be so many, of so many columns. `None`: rows are collected, or none are expected.
    pub rows: Option<(u32, u32)>,
    /// The same for each pull behind the request. What they are answered with goes into the sink.
    pub pulls: Vec<(u32, u32)>,
    /// Where they go as they are; otherwise they go into the sink.
    pub into: Option<&'a mut [f32]>,
}

#[derive(Debug)]
pub enum Answer {
    Ok(Header),
    /// All rows have gone where they should. After a change: the newest one that is durable.
    Rows(u64),
    KeyedRows(Vec<u64>, Vec<f32>),
    Json(Value),
    /// After them the newest change that is durable.
    Strings(Vec<Vec<u8>>, u64),
    Refused(ErrorDetail),
}

impl Answer {
    /// The newest change of this trainer that the server would not lose, as far as this answer says.
    pub fn durable(&self) -> u64 {
        match self {
            Answer::Ok(header) => header.seq,
            Answer::Rows(seq) | Answer::Strings(_, seq) => *seq,
            _ => 0,
        }
    }
}

struct Progress {
    sent: usize,
    head: [u8; HEADER],
    head_have: usize,
    reply: Option<Header>,
    have: usize,
    row: usize,
    words: Vec<u64>,
    /// Rows that came as bfloat16.
    wide: Vec<f32>,
    heard: Instant,
    /// Frames that were answered, what the server said if it refused one of them, and its answer to the request.
    answered: usize,
    refused: Option<ErrorDetail>,
    answer: Option<Answer>,
    /// The server has said that it waits for somebody.
    waits: bool,
    done: Option<io::Result<Answer>>,
}

/// Carries out all calls. A server may say nothing for `silence`. The answers are in the order of the calls; an error is a
/// connection that is of no use any more. After a `Stop`, neither are those of the calls that had no answer yet.
pub fn exchange(
    calls: &mut [Call<'_>],
    sink: Sink<'_>,
    inbox: &mut Vec<u64>,
    silence: Duration,
    context: &mut CallContext<'_>,
) -> Result<Vec<io::Result<Answer>>, Stop> {
    inbox.resize(INBOX / 8, 0);
    let now = Instant::now();
    let fresh = || Progress {
        sent: 0,
        head: [0; HEADER],
        head_have: 0,
        reply: None,
        have: 0,
        row: 0,
        words: Vec::new(),
        wide: Vec::new(),
        heard: now,
        answered: 0,
        refused: None,
        answer: None,
        waits: false,
        done: None,
    };
    let mut states: Vec<Progress> = calls.iter().map(|_| fresh()).collect();
    let mut fds: Vec<libc::pollfd> = Vec::with_capacity(calls.len());
    let mut pulsed = now;
    for (call, state) in calls.iter_mut().zip(&mut states) {
        send(call, state);
    }
    loop {
        fds.clear();
        for (call, state) in calls.iter().zip(&states) {
            let writes = state.sent < total(call) || call.stream.wants_write();
            let events = if writes { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
            let fd = if state.done.is_some() { -1 } else { call.stream.fd() };
            fds.push(libc::pollfd { fd, events, revents: 0 });
        }
        let is_over = |done: &io::Result<Answer>| matches!(done, Err(_) | Ok(Answer::Refused(_)));
        if states.iter().any(|state| state.done.as_ref().is_some_and(is_over)) {
            // The others are not waited for if they wait themselves: another trainer may have got as far with them, and wait
            // in vain for this one with the server that this one has lost.
            for state in states.iter_mut().filter(|state| state.done.is_none() && state.waits) {
                state.done = Some(Err(io::Error::new(GIVEN_UP, "another server has not done its part")));
            }
        }
        if states.iter().all(|state| state.done.is_some()) {
            break;
        }
        let ready = poll(&mut fds, Some(TICK)).unwrap_or(0);
        let now = Instant::now();
        if ready == 0 || now - pulsed >= TICK {
            pulsed = now;
            if !context.goes_on() {
                return Err(Stop::Interrupted);
            }
            if context.is_over(now) {
                return Err(Stop::Limit);
            }
        }
        for (index, (call, state)) in calls.iter_mut().zip(&mut states).enumerate() {
            if state.done.is_some() {
                continue;
            }
            if fds[index].revents == 0 {
                if now.saturating_duration_since(state.heard) > silence {
                    let words = format!("it said nothing for {:.0} s", silence.as_secs_f64());
                    state.done = Some(Err(io::Error::new(ErrorKind::TimedOut, words)));
                }
                continue;
            }
            state.heard = now;
            send(call, state);
            state.done = receive(call, state, index, sink, inbox, context).transpose();
        }
    }
    Ok(states.into_iter().filter_map(|state| state.done).collect())
}

/// Whether a call was ended because another one had failed, and not by its server.
pub fn is_given_up(error: &io::Error) -> bool {
    error.kind() == GIVEN_UP && error.raw_os_error().is_none()
}

fn total(call: &Call<'_>) -> usize {
    call.frames.iter().map(|frame| HEADER + frame.parts[0].len() + frame.parts[1].len()).sum()
}

/// Sends what the socket takes. If it takes nothing any more, the server may have said why before it closed: what there is
/// to read decides.
fn send(call: &mut Call<'_>, state: &mut Progress) {
    let (all, Call { stream, frames, .. }) = (total(call), call);
    let heads: Vec<[u8; HEADER]> = frames.iter().map(|frame| frame.header.encode()).collect();
    while state.sent < all {
        let mut slices = Vec::with_capacity(3 * heads.len());
        for (head, frame) in heads.iter().zip(&*frames) {
            slices.extend([head, frame.parts[0], frame.parts[1]].map(IoSlice::new));
        }
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, state.sent);
        match stream.write(rest) {
            Ok(taken) => state.sent += taken,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if again(&error) => return,
            Err(_) => state.sent = all,
        }
    }
    let _ = stream.flush();
}

fn read(stream: &mut Stream, into: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(into) {
        Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
        Ok(got) => Ok(Some(got)),
        Err(error) if again(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes what has come. `None`: the answer is not whole yet.
fn receive(
    call: &mut Call<'_>,
    state: &mut Progress,
    index: usize,
    sink: Sink<'_>,
    inbox: &mut Vec<u64>,
    context: &CallContext<'_>,
) -> io::Result<Option<Answer>> {
    loop {
        let Some(header) = state.reply else {
            let Some(got) = read(call.stream, &mut state.head[state.head_have..])? else { return Ok(None) };
            state.head_have += got;
            if state.head_have == HEADER {
                let header = codec::read_header(&state.head, MOST_ANSWER)
                    .map_err(|fault| io::Error::new(ErrorKind::InvalidData, fault.message))?;
                state.reply = Some(header);
                (state.have, state.row) = (0, 0);
                state.words.clear();
            }
            continue;
        };
        let streamed = header.op == Op::Rows && header.flags & flag::KEYED == 0;
        let is_last = state.answered + 1 == call.frames.len();
        // Counted from the request on; before it there are words.
        let which = (state.answered + 1 + call.pulls.len()).checked_sub(call.frames.len());
        let expected = match which {
            None => None,
            Some(0) => call.rows,
            Some(behind) => call.pulls.get(behind - 1).copied(),
        };
        let is_direct = which == Some(0) && call.into.is_some();
        let is_other = expected != Some((header.rows, header.dim)) || (is_direct && codec::is_narrow(&header));
        if streamed && is_other {
            let words = format!("the server sent {} rows of {} columns", header.rows, header.dim);
            return Err(io::Error::new(ErrorKind::InvalidData, words));
        }
        let whole = match (streamed, &mut call.into) {
            (true, Some(into)) if is_direct => receive_into(call.stream, state, into)?,
            (true, _) => {
                let mut own = |row: usize, rows: &[f32]| sink(index, which.unwrap_or_default(), row, rows);
                receive_rows(call, state, &header, &mut own, inbox)?
            }
            (false, _) => receive_words(call, state, header.length as usize)?,
        };
        if !whole {
            return Ok(None);
        }
        let bytes = &codec::key_bytes(&state.words)[..if streamed { 0 } else { header.length as usize }];
        let garbled = |error: serde_json::Error| io::Error::new(ErrorKind::InvalidData, error);
        let answer = match header.op {
            Op::Ok => Answer::Ok(header),
            Op::Rows if streamed => Answer::Rows(header.seq),
            Op::Rows => {
                let (keys, rest) = codec::keys(bytes, header.rows).unwrap_or_default();
                Answer::KeyedRows(keys.into_owned(), codec::floats(rest).into_owned())
            }
            Op::Json => Answer::Json(serde_json::from_slice(bytes).map_err(garbled)?),
            Op::Bytes => {
                let strings = codec::split(bytes, header.rows)
                    .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "byte strings that are not whole"))?;
                Answer::Strings(strings.into_iter().map(<[u8]>::to_vec).collect(), header.seq)
            }
            Op::Error => Answer::Refused(serde_json::from_slice(bytes).map_err(garbled)?),
            Op::Wait => {
                context.waits_for(String::from_utf8_lossy(bytes).into_owned());
                (state.reply, state.head_have, state.waits) = (None, 0, true);
                continue;
            }
            op => return Err(io::Error::new(ErrorKind::InvalidData, format!("{op:?} is no answer"))),
        };
        match answer {
            Answer::Refused(detail) => drop(state.refused.get_or_insert(detail)),
            answer if which == Some(0) => state.answer = Some(answer),
            Answer::Rows(_) => {}
            answer if which.is_some() => {
                return Err(io::Error::new(ErrorKind::InvalidData, format!("{answer:?} is no answer to a pull")));
            }
            _ => {}
        }
        // A pull behind what was refused may wait for something that does not come.
        if is_last || (which.is_some() && state.refused.is_some()) {
            return Ok(state.refused.take().map(Answer::Refused).or_else(|| state.answer.take()));
        }
        state.answered += 1;
        (state.reply, state.head_have, state.waits) = (None, 0, false);
    }
}

/// Straight to where they belong. `call.rows` says as many as there is room for.
fn receive_into(stream: &mut Stream, state: &mut Progress, into: &mut [f32]) -> io::Result<bool> {
    let bytes = codec::float_bytes_mut(into);
    while state.have < bytes.len() {
        let Some(got) = read(stream, &mut bytes[state.have..])? else { return Ok(false) };
        state.have += got;
    }
    Ok(true)
}

/// Hands on whole rows; the beginning of one that is not whole is kept in `words`.
fn receive_rows(
    call: &mut Call<'_>,
    state: &mut Progress,
    header: &Header,
    sink: &mut dyn FnMut(usize, &[f32]),
    inbox: &mut Vec<u64>,
) -> io::Result<bool> {
    let length = header.length as usize;
    let is_narrow = codec::is_narrow(header);
    let row_bytes = (header.dim as usize * if is_narrow { 2 } else { 4 }).max(1);
    if inbox.len() * 8 < 2 * row_bytes {
        inbox.resize(row_bytes.div_ceil(4), 0);
    }
    let mut carried = state.have % row_bytes;
    codec::key_bytes_mut(inbox)[..carried].copy_from_slice(&codec::key_bytes(&state.words)[..carried]);
    while state.have < length {
        let bytes = codec::key_bytes_mut(inbox);
        let room = (bytes.len() - carried).min(length - state.have);
        let got = read(call.stream, &mut bytes[carried..carried + room])?.unwrap_or_default();
        state.have += got;
        let filled = carried + got;
        let whole = filled / row_bytes * row_bytes;
        if whole > 0 {
            if is_narrow {
                narrow::widen(&bytes[..whole], &mut state.wide);
                sink(state.row, &state.wide);
            } else {
                sink(state.row, &codec::floats(&bytes[..whole]));
            }
            state.row += whole / row_bytes;
            bytes.copy_within(whole..filled, 0);
        }
        carried = filled - whole;
        if got < room && state.have < length {
            state.words.resize(row_bytes.div_ceil(8), 0);
            codec::key_bytes_mut(&mut state.words)[..carried].copy_from_slice(&bytes[..carried]);
            return Ok(false);
        }
    }
    Ok(true)
}

fn receive_words(call: &mut Call<'_>, state: &mut Progress, length: usize) -> io::Result<bool> {
    while state.have < length {
        if state.have == state.words.len() * 8 || state.words.is_empty() {
            let step = (1 << 20).max(2 * state.have).min(length);
            state.words.resize(step.div_ceil(8), 0);
        }
        let end = length.min(state.words.len() * 8);
        let room = &mut codec::key_bytes_mut(&mut state.words)[state.have..end];
        // The borrow of `words` ends with the read.
        let Some(got) = read(call.stream, room)? else { return Ok(false) };
        state.have += got;
    }
    Ok(true)
}
