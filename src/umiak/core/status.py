"""How a submitted job fares, in words that are the same for every place. Values.

State       one word; a place's own words are mapped onto these
NodeStatus  one node of it
JobStatus   the whole: state, exit code, why, since when
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Role
from umiak.core.problem import Exit
from umiak.core.value import value


class State(str, Enum):
    """Where a job, or one of its nodes, stands."""

    QUEUED = "queued"
    """The place has it, and has not started it."""
    STARTING = "starting"
    """Machines, images or peers are waited for."""
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    """The place no longer knows it, and it did not say how it ended."""

    @property
    def is_over(self) -> bool:
        return self in _OVER


_OVER = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST})


@value
class NodeStatus:
    """One node of a job."""

    name: str
    """As the place calls it."""
    host: str = ""
    """The machine where it runs, by name or address, if that is known."""
    role: Role | None = None
    rank: int | None = None
    state: State
    exit_code: int | None = None
    reason: str = ""


@value
class JobStatus:
    """A job as its place sees it now."""

    state: State
    said: str = ""
    """The place's own word for it."""
    reason: str = ""
    exit_code: int | None = None
    """Of the worker that failed first, once it is known."""
    nodes: tuple[NodeStatus, ...] = ()
    submitted_s: float | None = None
    """Times in seconds since 1970, as far as the place knows them."""
    started_s: float | None = None
    ended_s: float | None = None

    @property
    def exit_status(self) -> int | None:
        """What `umiak wait` ends with; None while the job is not over."""
        if not self.state.is_over:
            return None
        if self.state is State.SUCCEEDED:
            return Exit.DONE
        if self.state is State.LOST:
            return Exit.REFUSED
        return self.exit_code or Exit.JOB_FAILED
