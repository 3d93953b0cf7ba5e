//! One server as a client sees it: the connection, and what the server does not have for good yet. `todo` is the decider
//! of what a server must be told after it came back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Deserialize;

use super::dial::Credentials;
use super::error::ErrorDetail;
use crate::wire::frame::{Header, Op, flag};
use crate::wire::stream::Stream;
use crate::wire::{codec, narrow};

/// A change on its way to one server, kept until the server has it for good.
pub struct Frame {
    /// Without the table's number, which is another one after a server restarted.
    pub header: Header,
    /// The table's number in this client.
    pub table: usize,
    pub keys: Vec<u64>,
    /// With the flag NARROW two of the numbers that are sent lie in each of these.
    pub rows: Vec<f32>,
    acknowledged: AtomicBool,
}

impl Frame {
    pub fn new(header: Header, table: usize, keys: Vec<u64>, rows: Vec<f32>) -> Frame {
        let mut frame = Frame { header, table, keys, rows, acknowledged: AtomicBool::new(false) };
        let mut bytes = size_of_val(&frame.rows[..]);
        if codec::is_narrow(&header) {
            bytes = narrow::narrow_in_place(&mut frame.rows).len();
            frame.rows.truncate(bytes.div_ceil(4));
        }
        frame.header.length = (frame.keys.len() * 8 + bytes) as u64;
        frame
    }

    pub fn bytes(&self) -> usize {
        self.header.length as usize
    }

    pub fn parts(&self) -> [&[u8]; 2] {
        let keys = codec::key_bytes(&self.keys);
        [keys, &codec::float_bytes(&self.rows)[..self.bytes() - keys.len()]]
    }

    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub fn acknowledge(&self) {
        self.acknowledged.store(true, Ordering::Relaxed);
    }
}

/// This trainer's part of a step that is not committed.
pub struct OpenStep {
    pub step: u64,
    pub frames: Vec<Arc<Frame>>,
    pub prepared: bool,
}

/// What a server says in its welcome.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Welcome {
    /// Another one after every restart.
    #[serde(default)]
    pub life: String,
    /// It keeps a log.
    #[serde(default)]
    pub log: bool,
    #[serde(default)]
    pub server: Option<usize>,
    #[serde(default)]
    pub servers: Option<usize>,
    #[serde(default)]
    pub shards: Option<usize>,
    #[serde(default)]
    pub world: Option<usize>,
    #[serde(default)]
    pub step: u64,
    /// The newest numbered change of this rank that it has carried out, and the newest that it would not lose.
    #[serde(default)]
    pub applied: u64,
    #[serde(default)]
    pub durable: u64,
    /// The step that this rank has not committed.
    #[serde(default)]
    pub next: u64,
    /// That step is prepared, and by this process.
    #[serde(default)]
    pub prepared: bool,
    #[serde(default)]
    pub yours: bool,
    #[serde(default = "yes")]
    pub joined: bool,
}

fn yes() -> bool {
    true
}

pub struct Link {
    pub credentials: Credentials,
    pub stream: Option<Stream>,
    pub since: Instant,
    /// Its newest welcome, as it is understood and as it was.
    pub welcome: Welcome,
    pub welcome_json: serde_json::Value,
    /// It has been reached before,
    pub known: bool,
    /// and in its present life has answered more than that a table is there.
    pub used: bool,
    /// The tables' numbers there.
    pub numbers: Vec<u32>,
    /// Numbered changes that are not durable there.
    pub kept: VecDeque<Arc<Frame>>,
    pub kept_bytes: usize,
    /// The newest numbered change that was let go because it was durable.
    pub let_go: u64,
    pub open: Option<OpenStep>,
    /// The newest step that it has acknowledged as committed.
    pub committed: Option<u64>,
    /// The step with which this process began: what an earlier one had prepared of it was aborted.
    pub resumed: Option<u64>,
}

/// What a server that came back must be told, in this order.
pub enum Todo {
    Send(Arc<Frame>),
    Step(Op, u64),
}

impl Link {
    pub fn new(credentials: Credentials) -> Link {
        Link {
            credentials,
            stream: None,
            since: Instant::now(),
            welcome: Welcome::default(),
            welcome_json: serde_json::Value::Null,
            known: false,
            used: false,
            numbers: Vec::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            let_go: 0,
            open: None,
            committed: None,
            resumed: None,
        }
    }

    pub fn todo(&self, welcome: &Welcome) -> Result<Vec<Todo>, ErrorDetail> {
        if self.known && welcome.applied < self.let_go {
            return Err(self.forgot(format!(
                "it has changes up to number {}, and had acknowledged number {} for good",
                welcome.applied, self.let_go
            )));
        }
        if self.used && !welcome.log && welcome.life != self.welcome.life {
            return Err(self.forgot("it was started again and keeps no log".to_owned()));
        }
        let mut todo = Vec::new();
        for frame in &self.kept {
            if frame.header.seq <= welcome.applied {
                frame.acknowledge();
            } else {
                todo.push(Todo::Send(frame.clone()));
            }
        }
        if let Some(committed) = self.committed
            && welcome.next <= committed
        {
            if welcome.next < committed || !welcome.prepared {
                return Err(self.forgot(format!(
                    "it is at step {} of this trainer, and had acknowledged step {committed}",
                    welcome.next
                )));
            }
            todo.push(Todo::Step(Op::Commit, committed));
        }
        if let Some(open) = &self.open
            && welcome.next <= open.step
        {
            let prepared = welcome.next == open.step && welcome.prepared;
            if prepared && welcome.yours {
                open.frames.iter().for_each(|frame| frame.acknowledge());
            } else {
                if prepared {
                    todo.push(Todo::Step(Op::Abort, open.step));
                }
                todo.extend(open.frames.iter().cloned().map(Todo::Send));
                if open.prepared {
                    todo.push(Todo::Step(Op::Prepare, open.step));
                }
            }
        } else if self.resumed == Some(welcome.next) && welcome.prepared && !welcome.yours {
            // A kill has brought back what was aborted before this process had anything of its own to bring.
            todo.push(Todo::Step(Op::Abort, welcome.next));
        }
        Ok(todo)
    }

    fn forgot(&self, how: String) -> ErrorDetail {
        ErrorDetail::new(
            "server-forgot",
            format!("server {} came back without what it had: {how}", self.credentials.endpoint),
            Some("load the newest checkpoint; with a log (state directory) a server comes back with everything"),
        )
    }

    /// Remembers a change until the server has it for good.
    pub fn keep(&mut self, frame: Arc<Frame>) {
        if frame.header.flags & flag::STEP == 0 {
            self.kept_bytes += frame.bytes();
            self.kept.push_back(frame);
            return;
        }
        let step = frame.header.seq;
        match &mut self.open {
            Some(open) if open.step == step => open.frames.push(frame),
            open => *open = Some(OpenStep { step, frames: vec![frame], prepared: false }),
        }
    }

    /// The server refused it: it is not to be sent again.
    pub fn forget(&mut self, frame: &Arc<Frame>) {
        self.kept.retain(|kept| !Arc::ptr_eq(kept, frame));
        self.kept_bytes = self.kept.iter().map(|kept| kept.bytes()).sum();
        if let Some(open) = &mut self.open {
            open.frames.retain(|kept| !Arc::ptr_eq(kept, frame));
        }
    }

    /// Everything up to this number is durable; returns what is not needed any more.
    pub fn let_go(&mut self, durable: u64, spare: &mut Vec<Frame>) {
        while let Some(frame) = self.kept.front()
            && frame.header.seq <= durable
            && frame.is_acknowledged()
        {
            self.let_go = frame.header.seq;
            self.kept_bytes -= frame.bytes();
            if let Some(frame) = self.kept.pop_front().and_then(Arc::into_inner) {
                keep_spare(frame, spare);
            }
        }
    }

    pub fn close_step(&mut self, step: u64, spare: &mut Vec<Frame>) {
        if self.open.as_ref().is_some_and(|open| open.step <= step)
            && let Some(open) = self.open.take()
        {
            open.frames.into_iter().filter_map(Arc::into_inner).for_each(|frame| keep_spare(frame, spare));
        }
    }
}

/// Buffers are used again, within reason.
fn keep_spare(frame: Frame, spare: &mut Vec<Frame>) {
    if spare.len() < 16 && frame.rows.capacity() <= 16 << 20 {
        spare.push(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        let (token, job, endpoint) = (Vec::new(), String::new(), "h:1".to_owned());
        let mut link =
            Link::new(Credentials { endpoint, token, tls: None, rank: 0, incarnation: 1, kind: "data", job });
        link.known = true;
        link
    }

    fn frame(seq: u64, flags: u16) -> Arc<Frame> {
        let header = Header { seq, flags, rows: 1, dim: 1, ..Header::of(Op::Push) };
        Arc::new(Frame::new(header, 0, vec![7], vec![1.0]))
    }

    /// What is to be done, in short: numbers of changes, and steps with their operation.
    fn to_tell(link: &Link, welcome: Welcome) -> Result<String, ErrorDetail> {
        let name = |todo: &Todo| match todo {
            Todo::Send(frame) => frame.header.seq.to_string(),
            Todo::Step(op, step) => format!("{op:?} {step}"),
        };
        Ok(link.todo(&welcome)?.iter().map(name).collect::<Vec<_>>().join(", "))
    }

    fn at(next: u64, prepared: bool, yours: bool) -> Welcome {
        Welcome { next, prepared, yours, applied: 99, ..Welcome::default() }
    }

    #[test]
    fn what_was_not_applied_is_sent_again_and_what_was_durable_must_be_there() {
        let mut link = link();
        (1..=4).for_each(|seq| link.keep(frame(seq, 0)));
        link.kept.iter().take(2).for_each(|frame| frame.acknowledge());
        let mut spare = Vec::new();
        link.let_go(1, &mut spare);
        assert_eq!((link.let_go, link.kept.len(), link.kept_bytes, spare.len()), (1, 3, 36, 1));
        assert_eq!(to_tell(&link, Welcome { applied: 1, ..Welcome::default() }).unwrap(), "2, 3, 4");
        assert_eq!(to_tell(&link, Welcome { applied: 3, ..Welcome::default() }).unwrap(), "4");
        assert!(link.kept[1].is_acknowledged() && !link.kept[2].is_acknowledged());
        assert_eq!(to_tell(&link, Welcome::default()).unwrap_err().code, "server-forgot");
        // Not acknowledged, though durable: an answer that was lost. It stays until the next word about it.
        link.let_go(9, &mut spare);
        assert_eq!(link.kept.len(), 1);
    }

    #[test]
    fn a_server_without_a_log_that_was_started_again_has_forgotten_what_it_answered() {
        let life = |life: &str, log| Welcome { life: life.to_owned(), log, ..Welcome::default() };
        let mut link = link();
        link.welcome = life("a", false);
        assert!(to_tell(&link, life("b", false)).is_ok(), "nothing had come of it");
        link.used = true;
        assert_eq!(to_tell(&link, life("b", false)).unwrap_err().code, "server-forgot");
        assert!(to_tell(&link, life("a", false)).is_ok(), "only the connection was lost");
        link.welcome = life("a", true);
        assert!(to_tell(&link, life("b", true)).is_ok());
    }

    #[test]
    fn a_step_goes_on_where_the_server_stands() {
        let mut link = link();
        link.committed = Some(4);
        link.keep(frame(5, flag::STEP));
        link.keep(frame(5, flag::STEP));
        assert_eq!(to_tell(&link, at(6, false, false)).unwrap(), "");
        assert_eq!(to_tell(&link, at(5, true, true)).unwrap(), "");
        assert_eq!(to_tell(&link, at(5, true, false)).unwrap(), "Abort 5, 5, 5");
        assert_eq!(to_tell(&link, at(5, false, false)).unwrap(), "5, 5");
        assert_eq!(to_tell(&link, at(4, true, true)).unwrap(), "Commit 4, 5, 5");
        assert_eq!(to_tell(&link, at(4, false, false)).unwrap_err().code, "server-forgot");
        assert_eq!(to_tell(&link, at(3, true, true)).unwrap_err().code, "server-forgot");
        if let Some(open) = &mut link.open {
            open.prepared = true;
        }
        assert_eq!(to_tell(&link, at(5, false, false)).unwrap(), "5, 5, Prepare 5");
        link.close_step(5, &mut Vec::new());
        assert_eq!(to_tell(&link, at(5, false, false)).unwrap(), "");
    }

    #[test]
    fn what_an_earlier_process_had_prepared_stays_aborted() {
        let mut link = link();
        assert_eq!(to_tell(&link, at(5, true, false)).unwrap(), "");
        link.resumed = Some(5);
        link.committed = Some(4);
        assert_eq!(to_tell(&link, at(5, true, false)).unwrap(), "Abort 5");
        assert_eq!(to_tell(&link, at(5, true, true)).unwrap(), "");
        assert_eq!(to_tell(&link, at(5, false, false)).unwrap(), "");
        assert_eq!(to_tell(&link, at(4, true, false)).unwrap(), "Commit 4");
    }
}
