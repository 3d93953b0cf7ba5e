//! What the ranks of a job share on a server: steps, members, meetings, and who waits for whom. All of it is behind one
//! lock, with a bell that rings when something has changed.

use std::sync::Arc;
use std::sync::Condvar;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::config::OnLoss;
use super::locks::{Guard, Lock, Rank};
use super::meetings::Meetings;
use super::members::{Members, Patience, State};
use super::pieces::Piece;
use super::steps::Steps;
use super::verdict::Ending;
use super::waits::{Place, Waits};

/// Trainers that have waited for each other for so long wait for ever, in milliseconds. Connections that are gone are
/// noticed earlier than this.
const MUTUAL: u64 = 5_000;

pub struct Coordination {
    core: Lock<Core>,
    changed: Condvar,
    /// A copy of the core's step, for those who need not wait. `publish_step` alone writes it.
    step: AtomicU64,
}

pub struct Core {
    on_loss: OnLoss,
    pub steps: Steps<Arc<Piece>>,
    pub members: Members,
    pub meetings: Meetings,
    pub waits: Waits,
    pub ending: Ending,
}

impl Coordination {
    pub fn new(world: usize, patience: Patience, on_loss: OnLoss) -> Self {
        let core = Core {
            on_loss,
            steps: Steps::new(world),
            members: Members::new(world, patience, 0),
            meetings: Meetings::default(),
            waits: Waits::default(),
            ending: Ending::default(),
        };
        Self { core: Lock::new(Rank::Core, core), changed: Condvar::new(), step: AtomicU64::new(0) }
    }

    pub fn lock(&self) -> Guard<'_, Core> {
        self.core.lock()
    }

    /// Gives the lock up until something has changed, or for so long.
    pub fn wait<'a>(&self, core: Guard<'a, Core>, timeout: Duration) -> Guard<'a, Core> {
        core.wait_timeout(&self.changed, timeout)
    }

    /// Wakes all who wait for something in the core.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// The step that is applied next: all before it are in the tables.
    pub fn step(&self) -> u64 {
        self.step.load(Ordering::Acquire)
    }

    /// The core's step has changed.
    pub fn publish_step(&self, core: &Core) {
        self.step.store(core.steps.step(), Ordering::Release);
        self.notify();
    }
}

impl Core {
    /// Those whom barriers and gathers count.
    pub fn counted(&self) -> Vec<u32> {
        let mut counted = self.members.counted();
        if self.on_loss != OnLoss::GoOn {
            counted.extend(self.members.in_state(State::Lost));
            counted.sort_unstable();
        }
        counted
    }

    /// Those of these who are lost, when that is a reason to fail.
    pub fn fatal(&self, ranks: &[u32]) -> Vec<u32> {
        if self.on_loss != OnLoss::Fail {
            return Vec::new();
        }
        ranks.iter().copied().filter(|rank| self.members.state(*rank) == State::Lost).collect()
    }

    /// Trainers that wait for each other are told, instead of waiting for ever. Whether there are any that were not told
    /// before.
    pub fn end_mutual_waits(&mut self, now: u64) -> bool {
        let counted = self.counted();
        let Core { waits, members, steps, meetings, .. } = self;
        let is_here = |rank| members.state(rank) == State::Here && members.connections(rank) > 0;
        let missing = |place: &Place| match place {
            Place::Step(step) if steps.step() >= *step => Vec::new(),
            Place::Step(_) => steps.waits_for(),
            place => meetings.missing(place, &counted),
        };
        let found = waits.end_mutual(now, MUTUAL, is_here, missing);
        let is_new = found.is_some();
        if let Some(text) = found {
            self.ending.fail(|| text);
        }
        is_new
    }
}
