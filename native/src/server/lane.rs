//! One rank's way through a server: which of its connections counts, and how far its numbered operations have come.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use super::applications::Piece;
use super::service::{Identity, Kind};
use crate::store::log::Log;

#[derive(Default)]
pub struct Lane {
    incarnation: Option<u64>,
    /// The data connection, told from earlier ones of the same process by its address.
    peer: Option<SocketAddr>,
    /// The newest numbered operation that was carried out.
    pub last_seq: u64,
    durable_seq: u64,
    /// Operations that wait for the disk: where in the log, and which number.
    waiting: VecDeque<(u64, u64)>,
    /// Per table, the keys of the last answer to `Changed` and its number, in case it was lost on its way.
    pub told: HashMap<u32, (u64, Vec<u64>)>,
    /// Per table, the shard at which the next answer to `Changed` begins.
    pub cursors: HashMap<u32, usize>,
    /// Parts of a change whose last part is not here yet. A new connection brings all of them again.
    pub parts: Vec<Piece>,
}

impl Lane {
    pub fn restored(last_seq: u64) -> Self {
        Self { last_seq, durable_seq: last_seq, ..Self::default() }
    }

    pub fn take(&mut self, who: &Identity) {
        if self.incarnation != Some(who.incarnation) {
            self.incarnation = Some(who.incarnation);
            self.peer = None;
            self.told.clear();
        }
        if who.kind == Kind::Data {
            self.peer = Some(who.peer);
            self.parts.clear();
        }
    }

    /// That of the process whose operations it has; 0 before any.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.unwrap_or(0)
    }

    pub fn is_held_by(&self, who: &Identity) -> bool {
        self.incarnation == Some(who.incarnation) && (who.kind == Kind::Control || self.peer == Some(who.peer))
    }

    /// Whether an operation with this number was carried out before. 0 is no number.
    pub fn has(&self, seq: u64) -> bool {
        seq != 0 && seq <= self.last_seq
    }

    pub fn carried_out(&mut self, seq: u64, lsn: u64) {
        if seq > self.last_seq {
            self.last_seq = seq;
            if lsn > 0 {
                self.waiting.push_back((lsn, seq));
            } else {
                self.durable_seq = seq;
            }
        }
    }

    /// The newest number that a restart would come back with.
    pub fn durable_seq(&mut self, log: Option<&Log>) -> u64 {
        if let Some(log) = log
            && !self.waiting.is_empty()
        {
            let durable = log.durable();
            while let Some((lsn, seq)) = self.waiting.front().copied()
                && lsn <= durable
            {
                self.waiting.pop_front();
                self.durable_seq = seq;
            }
        }
        self.durable_seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(incarnation: u64, kind: Kind, port: u16) -> Identity {
        Identity { rank: 0, incarnation, kind, peer: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    #[test]
    fn the_newest_connection_has_the_lane() {
        let mut lane = Lane::default();
        let (old, new) = (identity(1, Kind::Data, 10), identity(1, Kind::Data, 11));
        lane.take(&old);
        assert!(lane.is_held_by(&old) && lane.is_held_by(&identity(1, Kind::Control, 99)));
        lane.take(&new);
        assert!(lane.is_held_by(&new) && !lane.is_held_by(&old));
        lane.take(&identity(2, Kind::Control, 12));
        assert!(!lane.is_held_by(&new), "another process is there, though not with its data yet");
    }

    #[test]
    fn numbers_are_carried_out_once() {
        let mut lane = Lane::restored(5);
        assert!(lane.has(5) && !lane.has(6) && !lane.has(0));
        lane.carried_out(8, 0);
        assert!(lane.has(6) && lane.has(8) && !lane.has(9));
        assert_eq!(lane.durable_seq(None), 8);
        lane.carried_out(9, 3);
        assert_eq!((lane.last_seq, lane.durable_seq(None)), (9, 8), "not on disk yet");
    }
}
