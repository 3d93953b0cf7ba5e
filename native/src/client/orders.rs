//! Orders: what is asked of one server, and changes cut into the frames that carry them.

use std::sync::Arc;

use super::error::{ClientError, ErrorDetail, Outcome};
use super::link::Frame;
use super::state::State;
use crate::wire::codec::MOST_FRAME;
use crate::wire::frame::{Header, flag};

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
