//! Orders: what is asked of one server, and changes cut into the frames that carry them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{ClientError, ErrorDetail, Outcome};
use super::link::Frame;
use super::plan::Merge;
use super::state::State;
use crate::wire::codec::MOST_FRAME;
use crate::wire::frame::{Header, Op, flag};

/// Rows that change something.
#[derive(Clone, Copy)]
pub struct RowChange<'a> {
    pub op: Op,
    pub table: u32,
    pub keys: &'a [u64],
    pub rows: &'a [f32],
    /// What gradients count by; what is counted (show, click) is not touched by it.
    pub scale: f32,
    /// In a step: the gradients are parts of a mean, see `flag::MEAN`.
    pub mean: bool,
}

/// What is asked of one server.
pub(super) struct Order<'a> {
    pub link: usize,
    pub header: Header,
    pub table: Option<usize>,
    pub body: Body<'a>,
    /// Changes that go before it on the same connection: nobody waits for the answers between them.
    pub before: Vec<Arc<Frame>>,
    /// The rows that it is to be answered with, and where they go if not into the sink.
    pub rows: Option<(u32, u32)>,
    pub into: Option<&'a mut [f32]>,
    /// What is asked behind it on the same connection, so that the server answers once it has done this.
    pub pulls: Vec<PullBehind<'a>>,
    /// Whether they were answered: not where connecting again has brought the server the request.
    pub is_pulled: bool,
}

/// A pull that does not wait for the answer to the request before it.
pub(super) struct PullBehind<'a> {
    pub header: Header,
    pub table: usize,
    pub keys: &'a [u64],
}

impl<'a> Order<'a> {
    /// Answered with one word or a text.
    pub fn new(link: usize, header: Header, table: Option<usize>, body: Body<'a>) -> Self {
        let (before, pulls) = (Vec::new(), Vec::new());
        Order { link, header, table, body, before, rows: None, into: None, pulls, is_pulled: false }
    }

    pub fn of_frame(link: usize, frame: Arc<Frame>) -> Self {
        Order::new(link, frame.header, Some(frame.table), Body::Frame(frame))
    }

    pub fn has_pulled(&self) -> bool {
        self.is_pulled || self.pulls.is_empty()
    }

    /// All changes that it brings, in their order.
    pub fn changes(&self) -> impl Iterator<Item = &Arc<Frame>> {
        let last = match &self.body {
            Body::Frame(frame) => Some(frame),
            Body::Bytes(_) => None,
        };
        self.before.iter().chain(last)
    }
}

/// Lets changes, in the order of their numbers, go before the orders of a round; a server that has none gets one.
pub(super) fn go_before(changes: Vec<(usize, Vec<Arc<Frame>>)>, round: &mut Vec<Order<'_>>) {
    let mut of_links: BTreeMap<usize, Vec<Arc<Frame>>> = BTreeMap::new();
    for (link, frames) in changes {
        of_links.entry(link).or_default().extend(frames);
    }
    for (link, mut frames) in of_links {
        if let Some(order) = round.iter_mut().find(|order| order.link == link) {
            order.before = frames;
        } else if let Some(last) = frames.pop() {
            round.push(Order { before: frames, ..Order::of_frame(link, last) });
        }
    }
}

pub(super) enum Body<'a> {
    Bytes(&'a [u8]),
    Frame(Arc<Frame>),
}

impl State {
    /// Columns of changed rows, and how repetitions of a key become one; or what is wrong with them.
    pub(super) fn row_layout(&self, change: &RowChange<'_>) -> Outcome<(usize, Merge)> {
        let RowChange { op, table, keys, rows, scale, .. } = *change;
        let (pull_width, push_width, has_slot) = self.table(table)?.sparse()?;
        let (width, merge) = match op {
            Op::Push if has_slot => (push_width, Merge::Statistics(scale)),
            Op::Push => (push_width, Merge::Sum(scale)),
            Op::Set => (pull_width, Merge::Last),
            _ => (pull_width, Merge::Sum(1.0)),
        };
        if rows.len() != keys.len() * width {
            let words = format!("{} keys need {} floats, not {}", keys.len(), keys.len() * width, rows.len());
            return Err(ClientError::refused("wrong-shape", words));
        }
        Ok((width, merge))
    }

    /// The frames of changed rows, for each server that has one of them.
    pub(super) fn row_frames(
        &mut self,
        change: &RowChange<'_>,
        step: Option<u64>,
    ) -> Outcome<Vec<(usize, Vec<Arc<Frame>>)>> {
        let (width, merge) = self.row_layout(change)?;
        let RowChange { op, table, keys, rows, mean, .. } = *change;
        let known = self.table(table)?;
        let (to_all, narrow) = (op == Op::Push && known.counts_pushes(), known.flags(op));
        let mut plan = std::mem::take(&mut self.plan);
        plan.make(keys, self.sharding, self.links.len());
        let flags = narrow | if mean && step.is_some() { flag::MEAN } else { 0 };
        let header = self.numbered(Header { flags, dim: width as u32, ..Header::of(op) }, step);
        let mut parts: Vec<(Vec<u64>, Vec<f32>)> = plan.bounds[1..].iter().map(|_| self.buffers()).collect();
        plan.spread(rows, width, merge, &mut parts);
        self.plan = plan;
        let mut of_links = Vec::with_capacity(parts.len());
        for (link, (keys, rows)) in parts.into_iter().enumerate().filter(|(_, (keys, _))| to_all || !keys.is_empty()) {
            of_links.push((link, self.frames(header, table as usize, keys, rows, width)?));
        }
        Ok(of_links)
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
}

fn fits(bytes: usize) -> Outcome<()> {
    if bytes as u64 <= MOST_FRAME {
        return Ok(());
    }
    let words = format!("{bytes} bytes for one server are more than a frame's {MOST_FRAME}");
    Err(ClientError::Refused(ErrorDetail::new("too-long", words, Some("use fewer keys at once, or more servers"))))
}
