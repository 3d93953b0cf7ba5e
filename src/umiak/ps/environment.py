"""Which seat this process has in a job with parameter servers, read from its environment. A decider.

    seat({})                                          alone: no job, so this process is its own server
    seat({"TRAINING_ROLE": "TRAINER", ...})           trainer 1 of 2, with the servers' addresses

umiak's own variables (``UMIAK_ROLE``, ``UMIAK_RANK``, ``UMIAK_SERVERS``, ...) are believed where they are; without
them Paddle's (``TRAINING_ROLE``, ``PADDLE_PSERVERS_IP_PORT_LIST``, ``PADDLE_TRAINER_ID``, ``PADDLE_TRAINERS_NUM``,
``POD_IP``, ``PADDLE_PORT``), so that a job of another launcher works as well. All that is wrong is raised at once.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import join_host_port, split_host_port
from umiak.core.names import is_loopback
from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LAUNCH = "start it with `umiak launch --server_num 2 --trainer_num 2 ...`, which sets everything"
_HOW_TO_MAKE_ONE = (
    'on one node: export UMIAK_TOKEN="$(umiak token)"; on every other node the same one, before `umiak launch`'
)
SHORTEST_TOKEN = 16
"""In characters: whoever pretends to be a server can try tokens on what a trainer says to it."""


MOST_PORT = 65535


class SeatRole(str, Enum):
    """What this process is."""

    SERVER = "server"
    TRAINER = "trainer"
    ALONE = "alone"


_ROLES = {
    "server": SeatRole.SERVER,
    "trainer": SeatRole.TRAINER,
    "PSERVER": SeatRole.SERVER,
    "TRAINER": SeatRole.TRAINER,
}


@value
class Seat:
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


def seat(environ: Mapping[str, str]) -> Seat:
    """This process's seat. `BadRequest` with everything that is wrong."""
    reading = _Reading(environ)
    role_name = reading.first("UMIAK_ROLE", "TRAINING_ROLE")
    list_name = reading.first("UMIAK_SERVERS", "PADDLE_PSERVERS_IP_PORT_LIST")
    if not reading.text(role_name) and not reading.text(list_name):
        return Seat()
    role = reading.role(role_name)
    if role is SeatRole.TRAINER and not reading.text(list_name):
        return reading.without_servers()
    servers = reading.servers(list_name)
    if role is SeatRole.SERVER:
        world_name = "PADDLE_TRAINERS_NUM"
        rank = reading.server_rank(servers)
    else:
        world_name = reading.first("UMIAK_WORLD_SIZE", "PADDLE_TRAINERS_NUM")
        rank = reading.number(reading.first("UMIAK_RANK", "PADDLE_TRAINER_ID"))
    world = reading.number(world_name, least=1)
    if role is SeatRole.TRAINER and rank >= world and not reading.problems:
        reading.note("UM-PS-004", f"rank {rank} is out of range: {world_name} gives {world} trainers")
    token = reading.text("UMIAK_TOKEN")
    if token is None and any(not is_loopback(split_host_port(item)[0]) for item in servers):
        reading.note(
            "UM-PS-006",
            "servers that can be reached from other machines need a token, and UMIAK_TOKEN is not set",
            hint=_HOW_TO_MAKE_ONE,
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        reading.note(
            "UM-PS-033",
            f"a UMIAK_TOKEN of {len(token)} characters, at least {SHORTEST_TOKEN} are required",
            hint=_HOW_TO_MAKE_ONE,
        )
    restarts = reading.number("UMIAK_RESTART_COUNT") if reading.text("UMIAK_RESTART_COUNT") else 0
    metrics = reading.text("UMIAK_PS_METRICS") if role is SeatRole.SERVER else None
    told = metrics_address(metrics, "UMIAK_PS_METRICS", rank, has_token=token is not None) if metrics else None
    if isinstance(told, Problem):
        reading.problems.append(told)
    reading.raise_problems()
    return Seat(
        role=role,
        rank=rank,
        world=world,
        servers=servers,
        job=reading.text(reading.first("UMIAK_JOB_ID", "PADDLE_JOB_ID")) or "",
        token=token,
        state_dir=reading.state_dir(rank) if role is SeatRole.SERVER else None,
        restarts=restarts,
        metrics=None if isinstance(told, Problem) else told,
        launched=reading.text("UMIAK_GENERATION") is not None,
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
    reading = _Reading({name: text})
    found = reading.servers(name)
    reading.raise_problems()
    return found


class _Reading:
    """One look at one environment; problems are collected."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.problems: list[Problem] = []

    def note(self, code: str, what: str, hint: str = _LAUNCH) -> None:
        self.problems.append(Problem(code=code, what=what, hint=hint))

    def raise_problems(self) -> None:
        if self.problems:
            raise BadRequest(*self.problems)

    def text(self, name: str) -> str | None:
        return self._environ.get(name, "").strip() or None

    def first(self, *names: str) -> str:
        """The first of these that is set; if none is, the last, which other launchers set."""
        return next((name for name in names if self.text(name)), names[-1])

    def number(self, name: str, *, least: int = 0) -> int:
        """A number that must be there; ``least`` stands in for it until the problems are raised."""
        text = self.text(name)
        if text is None:
            self.note("UM-PS-004", f"{name} is not set, but this is a job with parameter servers")
            return least
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least):
            self.note("UM-PS-004", f"{name}: expected an integer, {least} or more: {text}")
            return least
        return int(text)

    def role(self, name: str) -> SeatRole:
        word = self.text(name)
        if word in ("heter", "HETER_TRAINER"):
            self.note("UM-PS-001", f"{name}: umiak.ps has no heter workers: {word}", "start trainers instead")
        elif word not in _ROLES:
            self.note("UM-PS-001", f"{name}: neither PSERVER nor TRAINER: {word or 'not set'}")
        return _ROLES.get(word or "", SeatRole.TRAINER)

    def without_servers(self) -> Seat:
        """A trainer in a job without servers: fine alone, a mistake in company."""
        world_name = self.first("UMIAK_WORLD_SIZE", "PADDLE_TRAINERS_NUM")
        if (self.text(world_name) or "1") != "1":
            what = f"this job has {self.text(world_name)} trainers and no parameter server"
            self.note("UM-PS-005", what, "add servers: `umiak launch --server_num 2 --trainer_num 2 ...`")
        self.raise_problems()
        return Seat()

    def servers(self, name: str) -> tuple[str, ...]:
        found = []
        for item in (self.text(name) or "").replace(",", " ").split():
            try:
                host, port = split_host_port(item)
            except ValueError:
                port = None
            if port is None:
                self.note("UM-PS-002", f"{name}: not host:port: {item}")
            else:
                found.append(join_host_port(host, port))
        if not self.text(name):
            self.note("UM-PS-002", f"{name} is not set, so the addresses of the servers are unknown")
        elif len({*found}) < len(found):
            self.note("UM-PS-002", f"{name}: a server is listed twice: {self.text(name)}")
        return tuple(found)

    def server_rank(self, servers: tuple[str, ...]) -> int:
        """A server's place in the list: by its own rank, or by its address."""
        if self.text("UMIAK_RANK"):
            rank = self.number("UMIAK_RANK")
            if servers and rank >= len(servers):
                self.note("UM-PS-004", f"server {rank} is out of range: there are {len(servers)} servers")
            return rank
        host, port = self.text("POD_IP") or "127.0.0.1", self.text("PADDLE_PORT")
        own = self.text("PADDLE_CURRENT_ENDPOINT") or (f"{host}:{port}" if port else None)
        if own is None:
            self.note("UM-PS-003", "neither PADDLE_PORT nor PADDLE_CURRENT_ENDPOINT says which server this is")
        elif own in servers:
            return servers.index(own)
        else:
            self.note("UM-PS-003", f"this server's address is not in PADDLE_PSERVERS_IP_PORT_LIST: {own}")
        return 0

    def state_dir(self, rank: int) -> str | None:
        """Below the log directory, with the launcher's name of this run, so that another run never takes it for its own."""
        log_dir = self.text("PADDLE_LOG_DIR")
        run = "-".join(self.text(name) or "0" for name in ("UMIAK_NODE", "UMIAK_GENERATION"))
        return f"{log_dir}/ps/server.{rank}/{run}" if log_dir else None
