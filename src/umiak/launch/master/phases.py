"""Where a job stands, as its master sees it: one class per phase, each with the fields that exist in it alone.
A decider.

    GATHERING --enough nodes--> RUNNING --all done--> ENDED
        ^                          | a failure, a lost node, a joining node
        +----------- STOPPING <----+        (or ENDED, if nothing may restart)

What follows from them is decided in `deciding`.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value
from umiak.launch.master.backoff import Backoff
from umiak.launch.protocol import Moved, RestartWorker

WAITING_NOTE_EVERY_S = 5.0


class MasterPhase(str, Enum):
    """The names of the phases."""

    GATHERING = "gathering"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class GatheringJob:
    """Nodes come, until a generation can be formed."""

    name = MasterPhase.GATHERING

    def __init__(self, now: float, deadline: float) -> None:
        self.deadline = deadline
        self.note_at = now + WAITING_NOTE_EVERY_S
        self.last_change = now
        self.is_reform = False
        """Whether a generation was formed before, here or by a master that was lost."""
        self.await_until = now
        """After a take-over: so long nodes of the last generation may come that are not known to be lost."""


@value
class WorkerRestart:
    """A worker that is started again in its place."""

    at: float
    node: str
    message: RestartWorker


class RunningJob:
    """A generation runs."""

    name = MasterPhase.RUNNING

    def __init__(self, *, trainers_started: bool) -> None:
        self.trainers_started = trainers_started
        self.grow_at: float | None = None
        self.restarts: list[WorkerRestart] = []
        self._backoffs: dict[tuple[str, str], Backoff] = {}  # by node and key

    def backoff(self, node: str, key: str, of_job: Backoff) -> Backoff:
        """The failures in a row of this worker."""
        return self._backoffs.setdefault((node, key), Backoff(of_job.name, of_job.since))


class StoppingJob:
    """The generation's workers end."""

    name = MasterPhase.STOPPING

    def __init__(self, *, reform: bool) -> None:
        self.reform = reform
        """Whether another generation is formed then; if not, the job ends."""


@value
class EndedJob:
    """The job is over here."""

    name = MasterPhase.ENDED
    moved: Moved | None = None
    """Where everybody went."""
    is_cut_off: bool = False
    """The job may go on without this master."""


JobInPhase = GatheringJob | RunningJob | StoppingJob | EndedJob
