//! What a client knows and has under way, for one operation at a time.

use std::collections::HashMap;

use super::config::{Config, Kind};
use super::error::{ClientError, Outcome};
use super::heartbeats::Heartbeats;
use super::link::{Frame, Link};
use super::plan::Plan;
use super::tables::Table;
use crate::keys::Sharding;
use crate::wire::frame::{Header, flag};

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
    /// Of rows that were asked for with the end of a step.
    pub plans: Vec<Plan>,
    pub spare: Vec<Frame>,
    pub inbox: Vec<u64>,
    pub turns: Turns,
    /// What servers have said about tables, for a person to read.
    pub said: Vec<String>,
    pub heartbeats: Option<Heartbeats>,
    pub closed: bool,
}

/// By name: how often this trainer has met the others at a barrier or to gather, and how many numbers it has taken.
#[derive(Default)]
pub struct Turns {
    pub barriers: HashMap<String, u64>,
    pub gathers: HashMap<String, u64>,
    pub takes: HashMap<String, u64>,
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
}
