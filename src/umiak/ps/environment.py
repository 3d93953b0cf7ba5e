"""Which seat this process has in a job with parameter servers, read from its environment. A decider.

    seat({})                                          alone: no job, so this process is its own server
    seat({"TRAINING_ROLE": "TRAINER", ...})           trainer 1 of 2, with the servers' addresses

`umiak.contracts.seat` reads the seat itself; here are what only a process with parameter servers has (its token, what a server
keeps and where it tells its metrics), and what it may not be. All that is wrong is raised at once.
"""

from __future__ import annotations

from enum import Enum

from umiak.contracts import native, paddle, start
from umiak.contracts import seat as worker_seat
from umiak.contracts.seat import Topic
from umiak.core.cluster import Role, split_host_port
from umiak.core.names import is_loopback
from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.contracts.seat import Complaint, WorkerSeat

_LAUNCH = "start it with `umiak launch --server_num 2 --trainer_num 2 ...`, which sets everything"
_HOW_TO_MAKE_ONE = (
    'on one node: export UMIAK_TOKEN="$(umiak token)"; on every other node the same one, before `umiak launch`'
)
SHORTEST_TOKEN = 16
"""In characters: a process that pretends to be a server can try tokens on what a trainer says to it."""


MOST_PORT = 65535


class SeatRole(str, Enum):
    """What this process is."""

    SERVER = "server"
    TRAINER = "trainer"
    ALONE = "alone"


_CODES = {
    Topic.ROLE: "UM-PS-001",
    Topic.SERVERS: "UM-PS-002",
    Topic.ADDRESS: "UM-PS-003",
    Topic.NUMBER: "UM-PS-004",
}


@value
class PsSeat:
    """This process's place in its job."""

    role: SeatRole = SeatRole.ALONE
    rank: int = 0
    """Its number among its role."""
    world: int = 1
    """How many trainers there are."""
    servers: tuple[str, ...] = ()
    """``host:port`` of every server, in rank order."""
    job: str = ""
    token: str | None = None
    state_dir: str | None = None
    """Where a server may keep what must survive a restart in place; it belongs to this run of the job alone."""
    restarts: int = 0
    metrics: tuple[str, int] | None = None
    """Where a server tells Prometheus how it is: UMIAK_PS_METRICS."""
    launched: bool = False
    """Whether `umiak launch` started it, which ends servers when all trainers have ended."""

    @property
    def endpoint(self) -> tuple[str, int]:
        """A server's own host and port."""
        host, port = split_host_port(self.servers[self.rank])
        assert port is not None
        return host, port


def seat(environ: Mapping[str, str]) -> PsSeat:
    """This process's seat. `BadRequest` with everything that is wrong."""
    reading = worker_seat.read(environ)
    problems = _problems(reading.complaints)
    found = reading.found
    if found is None or not found.has_role:
        _raise(problems)
        return PsSeat()
    if found.role is Role.HETER:
        what = f"{found.variable}: umiak.ps has no heter workers: {found.word}"
        problems.insert(0, Problem(code="UM-PS-001", what=what, hint="start trainers instead"))
    if found.role is not Role.SERVER and not found.servers:
        _raise([*problems, *_without_servers(found)])
        return PsSeat()
    is_server = found.role is Role.SERVER
    token = _text(environ, start.TOKEN)
    if token is None and any(not is_loopback(split_host_port(item)[0]) for item in found.servers):
        what = "servers that can be reached from other machines need a token, and UMIAK_TOKEN is not set"
        problems.append(Problem(code="UM-PS-006", what=what, hint=_HOW_TO_MAKE_ONE))
    if token is not None and len(token) < SHORTEST_TOKEN:
        what = f"a UMIAK_TOKEN of {len(token)} characters, at least {SHORTEST_TOKEN} are required"
        problems.append(Problem(code="UM-PS-033", what=what, hint=_HOW_TO_MAKE_ONE))
    said_restarts = _text(environ, native.RESTART_COUNT) or "0"
    restarts = worker_seat.whole(said_restarts)
    if restarts is None:
        what = f"{native.RESTART_COUNT}: expected an integer, 0 or more: {said_restarts}"
        problems.append(Problem(code="UM-PS-004", what=what, hint=_LAUNCH))
    metrics = _text(environ, native.PS_METRICS) if is_server else None
    told = metrics_address(metrics, native.PS_METRICS, found.rank, has_token=token is not None) if metrics else None
    if isinstance(told, Problem):
        problems.append(told)
    _raise(problems)
    return PsSeat(
        role=SeatRole.SERVER if is_server else SeatRole.TRAINER,
        rank=found.rank,
        world=found.trainers,
        servers=found.servers,
        job=_text(environ, native.JOB_ID) or _text(environ, paddle.JOB_ID) or "",
        token=token,
        state_dir=_state_dir(environ, found.rank) if is_server else None,
        restarts=restarts or 0,
        metrics=None if isinstance(told, Problem) else told,
        launched=_text(environ, native.GENERATION) is not None,
    )


def metrics_address(text: str, name: str, rank: int, *, has_token: bool) -> tuple[str, int] | Problem:
    """Where server number ``rank`` tells its metrics: ``9100`` is on this machine only, ``0.0.0.0:9100`` is not; the port is
    counted up by the server's number, so that several on one machine have one each. 0 is any free port.
    """
    try:
        host, port = ("127.0.0.1", int(text)) if text.isascii() and text.isdecimal() else split_host_port(text)
    except ValueError:
        host, port = "", None
    if not host or port is None or (port and port + rank > MOST_PORT):
        what = f"{name}: neither a port nor host:port for server {rank}: {text}"
        return Problem(code="UM-PS-175", what=what, hint=f"{name}=9100, for every server its number higher")
    if not has_token and not is_loopback(host):
        what = f"{name}: metrics that can be reached from other machines need a token: {text}"
        return Problem(code="UM-PS-175", what=what, hint=_HOW_TO_MAKE_ONE)
    return host, port + rank if port else 0


def addresses(text: str, name: str) -> tuple[str, ...]:
    """A list of servers as a variable or a flag has it. `BadRequest` with everything that is wrong."""
    found, complaints = worker_seat.addresses(text, name)
    _raise(_problems(complaints))
    return found


def _problems(complaints: tuple[Complaint, ...]) -> list[Problem]:
    return [Problem(code=_CODES[each.topic], what=each.what, hint=_LAUNCH) for each in complaints]


def _raise(problems: list[Problem]) -> None:
    BadRequest.raise_any(problems)


def _without_servers(found: WorkerSeat) -> list[Problem]:
    """A trainer in a job without servers: fine alone, a mistake in company."""
    if found.trainers == 1:
        return []
    what = f"this job has {found.trainers} trainers and no parameter server"
    hint = "add servers: `umiak launch --server_num 2 --trainer_num 2 ...`"
    return [Problem(code="UM-PS-005", what=what, hint=hint)]


def _text(environ: Mapping[str, str], name: str) -> str | None:
    return environ.get(name, "").strip() or None


def _state_dir(environ: Mapping[str, str], rank: int) -> str | None:
    """Below the log directory, with the launcher's name of this run, so that another run never takes it for its own."""
    log_dir = _text(environ, paddle.LOG_DIR)
    run = "-".join(_text(environ, name) or "0" for name in (native.NODE, native.GENERATION))
    return f"{log_dir}/ps/server.{rank}/{run}" if log_dir else None
