"""A worker's seat, read back from its environment: the one reader of it. A decider.

    read(inherit(anything, environment(cluster, seat, setting))).seat == seat

umiak's own variables (``UMIAK_ROLE``, ``UMIAK_RANK``, ``UMIAK_SERVERS``, ...) are believed where they are. Without them
Paddle's are, so that a job of another launcher or platform works as well: ``TRAINING_ROLE`` or
``PADDLE_TRAINING_ROLE``, ``PADDLE_PSERVERS_IP_PORT_LIST``, ``PADDLE_TRAINERS_NUM``; a trainer's number is
``PADDLE_TRAINER_ID``, and a server is told by its address (``PADDLE_CURRENT_ENDPOINT``, or ``POD_IP`` and
``PADDLE_PORT``) or else by ``PADDLE_PSERVER_ID``.

What is wrong is collected and not raised: the caller knows which codes and hints belong to it. Long lists of
endpoints are left out of an environment and stand in its backup file; lay that under the environment to have them.
"""

from __future__ import annotations

from enum import Enum

from umiak.contracts import native
from umiak.core.cluster import Role, Seat, join_host_port, split_host_port
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES = {
    **{role.value: role for role in Role},
    "PSERVER": Role.SERVER,
    "TRAINER": Role.TRAINER,
    "HETER": Role.HETER,
    "HETER_TRAINER": Role.HETER,
}
_LISTS = {Role.SERVER: native.SERVERS, Role.TRAINER: native.TRAINERS, Role.HETER: native.HETERS}
_OWN = ("UMIAK_ROLE", native.SERVERS, "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_CURRENT_ENDPOINT")
MOST_DIGITS = 9


class Topic(Enum):
    """What a complaint is about."""

    ROLE = "role"
    SERVERS = "servers"
    ADDRESS = "address"
    NUMBER = "number"


@value
class Complaint:
    """Something that is wrong with an environment."""

    topic: Topic
    what: str


@value
class WorkerSeat:
    """A worker's seat, and what its environment says of the job around it."""

    seat: Seat
    """Of another launcher's worker, what is not known of its node and its address is empty or 0."""
    trainers: int = 1
    """How many there are."""
    endpoints: Mapping[Role, tuple[str, ...]]
    """``host:port`` of every worker by role, in rank order, as far as they are known."""
    store: str = ""
    """Where the first trainer opens the framework's store."""
    variable: str
    """The variable that says so,"""
    word: str
    """and what it says."""
    has_role: bool = True
    """Whether a role was said; a child of a launcher that gives none is a trainer."""

    @property
    def role(self) -> Role:
        return self.seat.role

    @property
    def rank(self) -> int:
        return self.seat.rank

    @property
    def said_by(self) -> str:
        """For messages: ``TRAINING_ROLE=PSERVER``."""
        return f"{self.variable}={self.word}"

    @property
    def servers(self) -> tuple[str, ...]:
        return self.endpoints[Role.SERVER]


@value
class SeatReading:
    """What an environment says, and what is wrong with it."""

    found: WorkerSeat | None = None
    """None: nobody gave this process a seat, or no one knows which."""
    complaints: tuple[Complaint, ...] = ()


def read(environ: Mapping[str, str]) -> SeatReading:
    """A worker's seat."""
    reader = _Reader(environ)
    worker = reader.worker()
    return SeatReading(found=worker, complaints=tuple(reader.complaints))


def is_own(environ: Mapping[str, str]) -> bool:
    """Whether somebody gave this very process its seat; else a role may be that of its node."""
    return any(environ.get(name, "").strip() for name in _OWN)


def addresses(text: str, name: str) -> tuple[tuple[str, ...], tuple[Complaint, ...]]:
    """A list of servers as a variable or a flag has it, and what is wrong with it."""
    reader = _Reader({name: text})
    servers = reader.servers(name)
    return servers, tuple(reader.complaints)


def whole(text: str, least: int = 0) -> int | None:
    """The number that a variable has, or None."""
    if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS and int(text) >= least:
        return int(text)
    return None


class _Reader:
    """One look at one environment; complaints are collected."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.complaints: list[Complaint] = []

    def worker(self) -> WorkerSeat | None:
        name = self._first("UMIAK_ROLE", "PADDLE_TRAINING_ROLE", "TRAINING_ROLE")
        listed = self._first(native.SERVERS, "PADDLE_PSERVERS_IP_PORT_LIST")
        word = self._text(name)
        if word is None and not self._text(listed):
            return self._launched()
        role = _ROLES.get(word or "")
        if role is None:
            self._wrong(Topic.ROLE, f"{name}: neither PSERVER nor TRAINER: {word or 'not set'}")
        # What else is wrong is told as well, as of a trainer.
        acts_as = role or Role.TRAINER
        servers = self.servers(listed) if acts_as is Role.SERVER or self._text(listed) else ()
        if acts_as is Role.SERVER:
            rank = self._server_rank(servers)
        else:
            rank = self._number(self._first("UMIAK_RANK", "PADDLE_TRAINER_ID"), is_needed=bool(servers))
        world = "PADDLE_TRAINERS_NUM"
        if acts_as is Role.TRAINER:
            world = self._first("UMIAK_WORLD_SIZE", world)
        trainers = self._number(world, least=1, is_needed=bool(servers) or acts_as is Role.SERVER)
        if acts_as is Role.TRAINER and rank >= trainers and not self.complaints:
            self._wrong(Topic.NUMBER, f"trainer {rank} is out of range: {world} says that there are {trainers}")
        if role is None:
            return None
        return self._seated(role, rank, trainers, servers, name)

    def _launched(self) -> WorkerSeat | None:
        """A child of a launcher that gives no roles: everybody trains."""
        if not (self._text("PADDLE_CURRENT_ENDPOINT") and self._text("PADDLE_TRAINER_ID")):
            return None
        trainers = self._number("PADDLE_TRAINERS_NUM", least=1)
        rank = self._number("PADDLE_TRAINER_ID")
        return self._seated(Role.TRAINER, rank, trainers, (), "PADDLE_TRAINER_ID", has_role=False)

    def _seated(
        self, role: Role, rank: int, trainers: int, servers: tuple[str, ...], variable: str, *, has_role: bool = True
    ) -> WorkerSeat:
        host, port = self._address(servers[rank] if role is Role.SERVER and rank < len(servers) else None)
        seat = Seat(
            role=role,
            rank=rank,
            local_rank=self._known(native.LOCAL_RANK, "PADDLE_RANK_IN_NODE") or 0,
            local_size=self._known("UMIAK_LOCAL_SIZE", "PADDLE_LOCAL_SIZE") or 1,
            node_rank=self._known("UMIAK_WORKER_NODE_RANK") or 0,
            node=self._text(self._first("UMIAK_NODE", "POD_NAME")) or "",
            host=host,
            port=port,
        )
        endpoints = {each: tuple((self._text(name) or "").replace(",", " ").split()) for each, name in _LISTS.items()}
        return WorkerSeat(
            seat=seat,
            trainers=trainers,
            endpoints={**endpoints, Role.SERVER: servers},
            store=self._text("UMIAK_STORE") or "",
            variable=variable,
            word=self._text(variable) or "",
            has_role=has_role,
        )

    def servers(self, name: str) -> tuple[str, ...]:
        """Every server's address, in one spelling."""
        servers = []
        for item in (self._text(name) or "").replace(",", " ").split():
            try:
                host, port = split_host_port(item)
            except ValueError:
                port = None
            if port is None:
                self._wrong(Topic.SERVERS, f"{name}: not host:port: {item}")
            else:
                servers.append(join_host_port(host, port))
        if not self._text(name):
            self._wrong(Topic.SERVERS, f"{name} is not set, so the addresses of the servers are unknown")
        elif len({*servers}) < len(servers):
            self._wrong(Topic.SERVERS, f"{name}: a server is listed twice: {self._text(name)}")
        return tuple(servers)

    def _server_rank(self, servers: tuple[str, ...]) -> int:
        """A server's place in the list: by its own number, or by its address."""
        own = self._own_address()
        numbered = self._first("UMIAK_RANK", "PADDLE_PSERVER_ID")
        if self._text("UMIAK_RANK") or (own is None and self._text(numbered)):
            rank = self._number(numbered)
            if servers and rank >= len(servers):
                self._wrong(Topic.NUMBER, f"server {rank} is out of range: there are {len(servers)} servers")
            return rank
        if own is None:
            self._wrong(Topic.ADDRESS, "neither PADDLE_PORT nor PADDLE_CURRENT_ENDPOINT says which server this is")
        elif own in servers:
            return servers.index(own)
        else:
            self._wrong(Topic.ADDRESS, f"this server's address is not in PADDLE_PSERVERS_IP_PORT_LIST: {own}")
        return 0

    def _own_address(self) -> str | None:
        host, port = self._text("POD_IP") or "127.0.0.1", self._text("PADDLE_PORT")
        return self._text("PADDLE_CURRENT_ENDPOINT") or (f"{host}:{port}" if port else None)

    def _address(self, listed: str | None) -> tuple[str, int]:
        """Where this worker is reached; empty where nobody says it."""
        try:
            host, port = split_host_port(self._text("UMIAK_ENDPOINT") or listed or self._own_address() or "")
        except ValueError:
            return "", 0
        return host, port or 0

    def _text(self, name: str) -> str | None:
        return self._environ.get(name, "").strip() or None

    def _first(self, *names: str) -> str:
        """The first of these that is set; if none is, the last, which other launchers set."""
        return next((name for name in names if self._text(name)), names[-1])

    def _known(self, *names: str) -> int | None:
        """A number that nobody is asked for."""
        return whole(self._text(self._first(*names)) or "")

    def _number(self, name: str, *, least: int = 0, is_needed: bool = False) -> int:
        """A number; ``least`` stands in for one that is not there or makes no sense."""
        text = self._text(name)
        if text is None:
            if is_needed:
                self._wrong(Topic.NUMBER, f"{name} is not set, but this is a job with parameter servers")
            return least
        number = whole(text, least)
        if number is None:
            self._wrong(Topic.NUMBER, f"{name}: expected an integer, {least} or more: {text}")
            return least
        return number

    def _wrong(self, topic: Topic, what: str) -> None:
        self.complaints.append(Complaint(topic=topic, what=what))
