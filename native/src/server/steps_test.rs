//! Steps by example, then by walking at random through everything that can happen to a few ranks and two servers.

use std::collections::BTreeMap;

use super::*;
use crate::keys;

fn bring(steps: &mut Steps<&'static str>, rank: u32, step: u64, pieces: &[&'static str]) {
    for piece in pieces {
        assert_eq!(steps.offer(rank, step, piece), Ok(Outcome::New));
    }
    assert_eq!(steps.prepare(rank, step, 7), Ok(Outcome::New));
    assert_eq!(steps.commit(rank, step), Ok(Outcome::New));
}

#[test]
fn a_step_is_ripe_when_all_have_committed_and_comes_in_the_order_of_ranks() {
    let mut steps = Steps::new(3);
    bring(&mut steps, 2, 0, &["c"]);
    bring(&mut steps, 0, 0, &["a", "aa"]);
    assert_eq!(steps.waits_for(), [1]);
    assert!(steps.take_ripe().is_none());
    bring(&mut steps, 1, 0, &[]);
    assert_eq!(steps.take_ripe(), Some((0, vec![(0, vec!["a", "aa"]), (1, vec![]), (2, vec!["c"])])));
    assert_eq!((steps.step(), steps.take_ripe()), (1, None));
    assert_eq!(steps.waits_for(), [0, 1, 2]);
}

#[test]
fn repetitions_change_nothing() {
    let mut steps = Steps::new(2);
    bring(&mut steps, 0, 0, &["a"]);
    assert_eq!(steps.offer(0, 0, "again"), Ok(Outcome::Before));
    assert_eq!(steps.prepare(0, 0, 7), Ok(Outcome::Before));
    assert_eq!(steps.commit(0, 0), Ok(Outcome::Before));
    assert_eq!(steps.offer(0, 1, "b"), Ok(Outcome::New));
    assert_eq!(steps.prepare(0, 1, 7), Ok(Outcome::New));
    assert_eq!(steps.offer(0, 1, "late"), Ok(Outcome::Before));
    assert_eq!(steps.prepare(0, 1, 7), Ok(Outcome::Before));
    bring(&mut steps, 1, 0, &["c"]);
    assert_eq!(steps.take_ripe(), Some((0, vec![(0, vec!["a"]), (1, vec!["c"])])));
    assert_eq!(steps.offer(1, 0, "long past"), Ok(Outcome::Before));
}

#[test]
fn calls_out_of_order_are_refused_and_change_nothing() {
    let mut steps = Steps::new(2);
    assert_eq!(steps.commit(0, 0), Err(Disorder::NotPrepared { rank: 0, step: 0 }));
    assert_eq!(steps.offer(0, 1, "a"), Err(Disorder::Ahead { rank: 0, step: 1, next: 0 }));
    assert_eq!(steps.prepare(0, 1, 7), Err(Disorder::Ahead { rank: 0, step: 1, next: 0 }));
    assert_eq!(steps.commit(0, 1), Err(Disorder::Ahead { rank: 0, step: 1, next: 0 }));
    assert_eq!(steps.abort(0, 1), Err(Disorder::Ahead { rank: 0, step: 1, next: 0 }));
    bring(&mut steps, 0, 0, &[]);
    assert_eq!(steps.abort(0, 0), Err(Disorder::Committed { rank: 0, step: 0 }));
}

#[test]
fn an_aborted_step_is_brought_again() {
    let mut steps = Steps::new(1);
    steps.offer(0, 0, "old").unwrap();
    assert!(steps.has_loose_ends(0));
    steps.prepare(0, 0, 7).unwrap();
    assert!(!steps.has_loose_ends(0));
    assert_eq!(steps.abort(0, 0), Ok(Outcome::New));
    assert_eq!(steps.abort(0, 0), Ok(Outcome::Before));
    bring(&mut steps, 0, 0, &["new"]);
    assert_eq!(steps.take_ripe(), Some((0, vec![(0, vec!["new"])])));
}

#[test]
fn who_leaves_is_waited_for_no_longer_but_what_it_committed_counts() {
    let mut steps = Steps::new(2);
    bring(&mut steps, 0, 0, &["a"]);
    bring(&mut steps, 1, 0, &["b"]);
    assert!(steps.take_ripe().is_some());
    bring(&mut steps, 1, 1, &["bb"]);
    steps.offer(1, 2, "never committed").unwrap();
    steps.leave(1);
    bring(&mut steps, 0, 1, &["aa"]);
    assert_eq!(steps.take_ripe(), Some((1, vec![(0, vec!["aa"]), (1, vec!["bb"])])));
    bring(&mut steps, 0, 2, &["aaa"]);
    assert_eq!(steps.take_ripe(), Some((2, vec![(0, vec!["aaa"])])));
    steps.leave(0);
    assert_eq!(steps.take_ripe(), None, "without anybody the steps stand still");
}

#[test]
fn who_was_given_up_joins_again_with_a_step_of_its_choice() {
    let mut steps = Steps::new(2);
    bring(&mut steps, 0, 0, &["a"]);
    steps.leave(1);
    assert!(steps.take_ripe().is_some());
    assert_eq!(steps.offer(1, 1, "b"), Err(Disorder::Outside { rank: 1, step: 1 }));
    assert_eq!(steps.abort(1, 0), Err(Disorder::Past { step: 0, now: 1 }));
    assert_eq!(steps.abort(1, 2), Ok(Outcome::New));
    assert_eq!(steps.abort(1, 3), Ok(Outcome::New), "another server may want a later one");
    bring(&mut steps, 0, 1, &[]);
    bring(&mut steps, 0, 2, &[]);
    assert!(steps.take_ripe().is_some() && steps.take_ripe().is_some());
    bring(&mut steps, 0, 3, &["a"]);
    assert_eq!((steps.take_ripe(), steps.waits_for()), (None, vec![1]));
    bring(&mut steps, 1, 3, &["b"]);
    assert_eq!(steps.take_ripe(), Some((3, vec![(0, vec!["a"]), (1, vec!["b"])])));
}

#[test]
fn steps_that_nobody_takes_part_in_are_passed_over() {
    let mut steps: Steps<&str> = Steps::new(2);
    steps.leave(0);
    steps.leave(1);
    steps.abort(1, 2).unwrap();
    assert_eq!(steps.take_ripe(), Some((0, vec![])));
    assert_eq!(steps.take_ripe(), Some((1, vec![])));
    assert_eq!(steps.take_ripe(), None);
}

#[test]
fn what_is_kept_goes_on_where_it_was() {
    let mut steps = Steps::new(3);
    bring(&mut steps, 0, 0, &["a"]);
    steps.offer(0, 1, "aa").unwrap();
    steps.offer(1, 0, "b").unwrap();
    steps.prepare(1, 0, 7).unwrap();
    steps.leave(2);
    let (step, kept) = steps.keep();
    let mut again = Steps::restore(step, kept);
    assert_eq!(again.standing(0), Standing { next: 1, prepared: None, joined: true });
    assert!(again.has_loose_ends(0));
    assert_eq!(again.standing(1), Standing { next: 0, prepared: Some(7), joined: true });
    assert!(!again.standing(2).joined);
    again.commit(1, 0).unwrap();
    assert_eq!(again.take_ripe(), Some((0, vec![(0, vec!["a"]), (1, vec!["b"])])));
    again.prepare(0, 1, 7).unwrap();
    again.commit(0, 1).unwrap();
    bring(&mut again, 1, 1, &[]);
    assert_eq!(again.take_ripe(), Some((1, vec![(0, vec!["aa"]), (1, vec![])])));
}

// ---------------------------------------------------------------------------------------------------------------------
// The walk: trainers follow the protocol as a client does; at every moment anybody may be killed, or a connection may break.

const SERVERS: usize = 2;

/// What a trainer brings to a step: its rank, the step, and which of its lives computed it.
type Piece = (u32, u64, u64);

#[derive(Clone)]
enum Record {
    Offer(u32, u64, Piece),
    Prepare(u32, u64, u64),
    Commit(u32, u64),
    Abort(u32, u64),
}

/// A server whose memory is a log; only a prefix of it outlives a kill.
struct Server {
    life: u64,
    steps: Steps<Piece>,
    applied: Vec<Vec<(u32, Vec<Piece>)>>,
    log: Vec<Record>,
    durable: usize,
}

impl Server {
    fn new(world: usize) -> Self {
        Self { life: 0, steps: Steps::new(world), applied: Vec::new(), log: Vec::new(), durable: 0 }
    }

    fn act(&mut self, record: Record) {
        match record.clone() {
            Record::Offer(rank, step, piece) => self.steps.offer(rank, step, piece).map(drop),
            Record::Prepare(rank, step, life) => self.steps.prepare(rank, step, life).map(drop),
            Record::Commit(rank, step) => self.steps.commit(rank, step).map(drop),
            Record::Abort(rank, step) => self.steps.abort(rank, step).map(drop),
        }
        .expect("a client that keeps to the protocol is never refused");
        self.log.push(record);
        while let Some((step, parts)) = self.steps.take_ripe() {
            assert_eq!(step, self.applied.len() as u64);
            self.applied.push(parts);
        }
    }

    fn killed(&mut self, survives: usize) {
        let world = self.steps.seats.len();
        let log = std::mem::take(&mut self.log);
        let life = self.life + 1;
        *self = Self { life, ..Self::new(world) };
        for record in log.into_iter().take(survives) {
            self.act(record);
        }
        self.durable = self.log.len();
    }

    fn connect(&mut self, rank: u32) -> Standing {
        if self.steps.has_loose_ends(rank) {
            let step = self.steps.standing(rank).next;
            self.act(Record::Abort(rank, step));
        }
        self.steps.standing(rank)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// Sends what it has to one server after the other; `usize` counts frames that went to this server.
    Bring,
    Commit,
}

/// A trainer's client: everything in it is lost when it is killed.
struct Trainer {
    rank: u32,
    life: u64,
    /// `None` until all servers were asked.
    step: Option<u64>,
    asked: [Option<u64>; SERVERS],
    phase: Phase,
    /// Per server: the life it was connected to, frames sent, prepared, committed.
    seen: [Option<(u64, usize, bool, bool)>; SERVERS],
}

impl Trainer {
    fn new(rank: u32, life: u64) -> Self {
        Self { rank, life, step: None, asked: [None; SERVERS], phase: Phase::Bring, seen: [None; SERVERS] }
    }

    /// One thing that it can do now, chosen by `dice`; `false` if it has to wait or has done all steps.
    fn act(&mut self, servers: &mut [Server], dice: &mut Dice, steps: u64) -> bool {
        let rank = self.rank;
        let Some(step) = self.step else {
            self.begin(servers, dice);
            return true;
        };
        let s = dice.below(SERVERS);
        let server = &mut servers[s];
        let Some((life, sent, prepared, committed)) = self.seen[s] else {
            self.reconnect(s, server, step);
            return true;
        };
        if life != server.life {
            self.seen[s] = None;
            return true;
        }
        if step >= steps {
            return false;
        }
        match self.phase {
            // Pulls of the step come first: they wait for it.
            Phase::Bring if server.steps.step() < step => false,
            Phase::Bring if !prepared && sent < 2 => {
                server.act(Record::Offer(rank, step, (rank, step, self.life)));
                self.seen[s] = Some((life, sent + 1, false, false));
                true
            }
            Phase::Bring if !prepared => {
                server.act(Record::Prepare(rank, step, self.life));
                // The reply comes when it is durable.
                server.durable = server.log.len();
                self.seen[s] = Some((life, sent, true, false));
                if self.seen.iter().all(|seen| seen.is_some_and(|(_, _, prepared, _)| prepared)) {
                    self.phase = Phase::Commit;
                }
                true
            }
            Phase::Bring => false,
            Phase::Commit if !committed => {
                server.act(Record::Commit(rank, step));
                self.seen[s] = Some((life, sent, true, true));
                if self.seen.iter().all(|seen| seen.is_some_and(|(_, _, _, committed)| committed)) {
                    self.step = Some(step + 1);
                    self.phase = Phase::Bring;
                    self.seen.iter_mut().flatten().for_each(|seen| *seen = (seen.0, 0, false, false));
                }
                true
            }
            Phase::Commit => false,
        }
    }

    /// A new process asks every server where it stands, and takes the highest step; the rest is as for any new connection.
    fn begin(&mut self, servers: &mut [Server], dice: &mut Dice) {
        let s = dice.below(SERVERS);
        self.asked[s] = Some(servers[s].connect(self.rank).next);
        if let [Some(one), Some(other)] = self.asked {
            self.step = Some(one.max(other));
        }
    }

    fn reconnect(&mut self, s: usize, server: &mut Server, step: u64) {
        let mut standing = server.connect(self.rank);
        if standing.next + 1 == step {
            assert!(standing.prepared.is_some(), "committed elsewhere or before, so prepared and durable here");
            server.act(Record::Commit(self.rank, standing.next));
            standing = server.steps.standing(self.rank);
        }
        let committed = standing.next > step;
        let prepared = committed || standing.prepared == Some(self.life);
        if standing.next == step && standing.prepared.is_some() && !prepared {
            // An earlier life's, which the kill brought back.
            server.act(Record::Abort(self.rank, step));
        }
        self.seen[s] = Some((server.life, 0, prepared, committed));
        if self.phase == Phase::Commit {
            assert!(prepared, "what was answered as prepared is durable");
        }
        // The last reply may have been lost with the connection: what Welcome tells stands in for it.
        if self.seen.iter().all(|seen| seen.is_some_and(|(_, _, prepared, _)| prepared)) {
            self.phase = Phase::Commit;
        }
        if self.phase == Phase::Commit && self.seen.iter().all(|seen| seen.is_some_and(|(_, _, _, done)| done)) {
            self.step = Some(step + 1);
            self.phase = Phase::Bring;
            self.seen.iter_mut().flatten().for_each(|seen| *seen = (seen.0, 0, false, false));
        }
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (keys::mix(self.0) % most as u64) as usize
    }
}

/// Walks one random path with trouble, then lets everybody finish, and looks at what was applied where.
fn walk(seed: u64) -> BTreeMap<&'static str, u32> {
    let mut dice = Dice(keys::mix(seed));
    let world = 2 + dice.below(2);
    let steps = 4;
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| Server::new(world)).collect();
    let mut trainers: Vec<Trainer> = (0..world).map(|rank| Trainer::new(rank as u32, 0)).collect();
    let mut seen = BTreeMap::new();
    let trouble = 1 + dice.below(30);
    for turn in 0..20_000 {
        let troubled = turn < 400 && dice.below(trouble) == 0;
        match if troubled { dice.below(4) } else { 9 } {
            0 => {
                let server = &mut servers[dice.below(SERVERS)];
                let survives = server.durable + dice.below(server.log.len() - server.durable + 1);
                *seen.entry(if survives < server.log.len() { "lost a tail" } else { "lost nothing" }).or_default() += 1;
                server.killed(survives);
            }
            1 => {
                let trainer = &mut trainers[dice.below(world)];
                *seen.entry(if trainer.phase == Phase::Commit { "died in commit" } else { "died" }).or_default() += 1;
                *trainer = Trainer::new(trainer.rank, trainer.life + 1);
            }
            2 => {
                *seen.entry("cut").or_default() += 1;
                let trainer = &mut trainers[dice.below(world)];
                trainer.seen[dice.below(SERVERS)] = None;
            }
            3 => {
                // The group commit comes round.
                let server = &mut servers[dice.below(SERVERS)];
                server.durable = server.log.len();
            }
            _ => {
                trainers[dice.below(world)].act(&mut servers, &mut dice, steps);
            }
        }
        if servers.iter().all(|server| server.steps.step() == steps) && turn > 400 {
            for server in &servers {
                for (step, parts) in server.applied.iter().enumerate() {
                    let ranks: Vec<u32> = parts.iter().map(|(rank, _)| *rank).collect();
                    assert_eq!(ranks, (0..world as u32).collect::<Vec<_>>(), "each rank once, in order");
                    for (rank, pieces) in parts {
                        assert_eq!(pieces.len(), 2, "whole, and not twice");
                        assert_eq!((pieces[0], pieces[0].0, pieces[0].1), (pieces[1], *rank, step as u64));
                    }
                }
            }
            assert_eq!(servers[0].applied, servers[1].applied, "both servers applied the same life's work");
            return seen;
        }
    }
    panic!("stuck with seed {seed}: steps {} and {}", servers[0].steps.step(), servers[1].steps.step());
}

#[test]
fn no_step_is_half_applied_or_applied_twice_or_stuck_no_matter_who_dies_when() {
    let mut seen = BTreeMap::new();
    for seed in 0..20_000 {
        for (what, times) in walk(seed) {
            *seen.entry(what).or_insert(0) += times;
        }
    }
    for what in ["lost a tail", "lost nothing", "died in commit", "died", "cut"] {
        assert!(seen.get(what).copied().unwrap_or(0) > 1000, "the walk hardly met: {what} {seen:?}");
    }
}
