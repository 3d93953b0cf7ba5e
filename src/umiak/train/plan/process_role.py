"""Where this process stands: alone, on a node of a cluster, or already a worker with a seat. A decider.

    process_role(environ, platforms.detect(environ))

A process that a launcher or a platform has given a role (`umiak.contracts.seat`) is a worker: its rank and its servers
are known, and it trains or serves. On a node where only the node's place is known, workers have yet to be started.
``PADDLE_PADDLEREC_ROLE=WORKER`` says that this is a node, whatever else is known, and ``PADDLEREC_CLUSTER_TYPE=MPI`` that its data is its own.
"""

from __future__ import annotations

from umiak.contracts import seat
from umiak.contracts.paddle import PADDLEREC_ROLE
from umiak.contracts.seat import Complaint, SeatReading, Topic, WorkerSeat
from umiak.core.cluster import Placement, Role
from umiak.core.problem import Problem
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_CODE = "UM-TRAIN-003"


@value
class ProcessRole:
    """What is known about this process before it looks at a config."""

    seat: WorkerSeat | None = None
    placement: Placement | None = None
    """Where this node stands in its cluster, if a platform says so and workers have yet to be started."""
    is_node: bool = False
    """Whether the environment insists that this is a node of a cluster."""
    has_own_data: bool = False
    """Whether the platform gives each node its own part of the data, as PaddleCloud does on MPI clusters."""
    problems: tuple[Problem, ...] = ()


def process_role(environ: Mapping[str, str], placement: Placement | None = None) -> ProcessRole:
    """Where this process stands, from its environment and from what `umiak.platforms` made of it."""
    if placement is not None and placement.platform == "nested":
        placement = None  # A launcher inside of a worker is no news to the worker itself.
    reading = SeatReading() if placement is not None and not seat.is_own(environ) else seat.read(environ)
    found = reading.found
    problems = [_problem(each) for each in reading.complaints]
    if found is not None and found.role is Role.HETER:
        what = f"{found.variable}: there are no heter workers in training from a config: {found.word}"
        problems.insert(0, Problem(code=_CODE, what=what, hint="start trainers instead"))
        found = None
    return ProcessRole(
        seat=found,
        placement=None if found else placement,
        is_node=_word(environ, PADDLEREC_ROLE) == "WORKER",
        has_own_data=_word(environ, "PADDLEREC_CLUSTER_TYPE") == "MPI",
        problems=tuple(problems),
    )


def _problem(complaint: Complaint) -> Problem:
    is_role = complaint.topic is Topic.ROLE
    hint = "`umiak launch` and PaddlePaddle's platforms set it on every node" if is_role else None
    return Problem(code=_CODE, what=complaint.what, hint=hint)


def _word(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip().upper()
