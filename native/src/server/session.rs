//! The session of each rank with a server: which of its connections counts, how far its numbered operations have come, and
//! when it was last heard.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::locks::{Guard, Lock, Rank};
use super::pieces::Piece;
use super::refusals;
use super::service::{Identity, Kind, Refusal};
use crate::store::log::Log;

#[derive(Default)]
pub struct Session {
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

impl Session {
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

/// Those of all ranks.
pub struct Sessions {
    sessions: Vec<Lock<Session>>,
    /// When something was last heard of each rank, in milliseconds since the server began.
    heard: Vec<AtomicU64>,
}

impl Sessions {
    pub fn new(world: usize) -> Self {
        let session = |_| Lock::new(Rank::Session, Session::default());
        Self { sessions: (0..world).map(session).collect(), heard: (0..world).map(|_| AtomicU64::new(0)).collect() }
    }

    pub fn of(&self, rank: u32) -> Guard<'_, Session> {
        self.sessions[rank as usize].lock()
    }

    /// That of a connection that is still the one that counts.
    pub fn held_by(&self, who: &Identity) -> Result<Guard<'_, Session>, Refusal> {
        let session = self.of(who.rank);
        if session.is_held_by(who) { Ok(session) } else { Err(refusals::replaced(who.rank)) }
    }

    /// Whether a connection still counts. Those of observers always do.
    pub fn check(&self, who: &Identity) -> Result<(), Refusal> {
        if who.kind != Kind::Observer {
            drop(self.held_by(who)?);
        }
        Ok(())
    }

    pub fn hear(&self, rank: u32, now: u64) {
        self.heard[rank as usize].store(now, Ordering::Relaxed);
    }

    /// Each rank, and when it was last heard.
    pub fn heard(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(&self.heard).map(|(rank, heard)| (rank, heard.load(Ordering::Relaxed)))
    }

    /// Per rank, the newest number that was carried out.
    pub fn applied(&self) -> Vec<u64> {
        self.sessions.iter().map(|session| session.lock().last_seq).collect()
    }

    pub fn restore(&self, applied: &[u64]) {
        for (session, last_seq) in self.sessions.iter().zip(applied) {
            *session.lock() = Session::restored(*last_seq);
        }
    }

    /// The newest number of a caller that a restart would come back with.
    pub fn durable_seq(&self, who: &Identity, log: Option<&Log>) -> u64 {
        if who.kind == Kind::Observer { 0 } else { self.of(who.rank).durable_seq(log) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(incarnation: u64, kind: Kind, port: u16) -> Identity {
        Identity { rank: 0, incarnation, kind, peer: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    #[test]
    fn the_newest_connection_has_the_session() {
        let mut session = Session::default();
        let (old, new) = (identity(1, Kind::Data, 10), identity(1, Kind::Data, 11));
        session.take(&old);
        assert!(session.is_held_by(&old) && session.is_held_by(&identity(1, Kind::Control, 99)));
        session.take(&new);
        assert!(session.is_held_by(&new) && !session.is_held_by(&old));
        session.take(&identity(2, Kind::Control, 12));
        assert!(!session.is_held_by(&new), "another process is there, though not with its data yet");
    }

    #[test]
    fn numbers_are_carried_out_once() {
        let mut session = Session::restored(5);
        assert!(session.has(5) && !session.has(6) && !session.has(0));
        session.carried_out(8, 0);
        assert!(session.has(6) && session.has(8) && !session.has(9));
        assert_eq!(session.durable_seq(None), 8);
        session.carried_out(9, 3);
        assert_eq!((session.last_seq, session.durable_seq(None)), (9, 8), "not on disk yet");
    }
}
