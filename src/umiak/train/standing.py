"""Where this process stands: alone, on a node of a cluster, or already a worker with a seat. A decider.

    standing(environ, platforms.detect(environ))

A process that a launcher or a platform has given a role (``UMIAK_ROLE``, ``TRAINING_ROLE``) is a worker: its rank and its servers
are known, and it trains or serves. On a node where only the node's place is known, workers have yet to be started.
``PADDLE_PADDLEREC_ROLE=WORKER`` says that this is a node, whatever else is known, and ``PADDLEREC_CLUSTER_TYPE=MPI`` that its data is its own.
"""

from __future__ import annotations

from umiak.core.cluster import Placement, Role
from umiak.core.problem import Problem
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES = {"server": Role.SERVER, "trainer": Role.TRAINER, "PSERVER": Role.SERVER, "TRAINER": Role.TRAINER}


@value
class Seat:
    """A worker's place among those of its role."""

    role: Role
    rank: int = 0
    trainers: int = 1
    servers: tuple[str, ...] = ()
    """``host:port`` of every parameter server."""
    said_by: str = ""
    """The variable that says so, for messages: ``TRAINING_ROLE=PSERVER``."""


@value
class Standing:
    """What is known about this process before it looks at a config."""

    seat: Seat | None = None
    placement: Placement | None = None
    """Where this node stands in its cluster, if a platform says so and workers have yet to be started."""
    is_node: bool = False
    """Whether the environment insists that this is a node of a cluster."""
    has_own_data: bool = False
    """Whether the platform gives each node its own part of the data, as PaddleCloud does on MPI clusters."""
    problems: tuple[Problem, ...] = ()


def standing(environ: Mapping[str, str], placement: Placement | None = None) -> Standing:
    """Where this process stands, from its environment and from what `umiak.platforms` made of it."""
    reading = _Reading(environ)
    is_node = (reading.text("PADDLE_PADDLEREC_ROLE") or "").upper() == "WORKER"
    if placement is not None and placement.platform == "nested":
        placement = None  # A launcher inside of a worker is no news to the worker itself.
    seat = None if placement is not None and not has_seat(environ) else reading.seat()
    return Standing(
        seat=seat,
        placement=None if seat else placement,
        is_node=is_node,
        has_own_data=(reading.text("PADDLEREC_CLUSTER_TYPE") or "").upper() == "MPI",
        problems=tuple(reading.problems),
    )


def has_seat(environ: Mapping[str, str]) -> bool:
    """Whether somebody gave this very process its place; else a role may be that of its node."""
    names = ("UMIAK_ROLE", "UMIAK_SERVERS", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_CURRENT_ENDPOINT")
    return any(environ.get(name, "").strip() for name in names)


class _Reading:
    """One look at one environment; problems are collected."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.problems: list[Problem] = []

    def text(self, name: str) -> str | None:
        return self.environ.get(name, "").strip() or None

    def first(self, *names: str) -> str:
        """The first of these that is set; if none is, the last."""
        return next((name for name in names if self.text(name)), names[-1])

    def seat(self) -> Seat | None:
        name = self.first("UMIAK_ROLE", "PADDLE_TRAINING_ROLE", "TRAINING_ROLE")
        word = self.text(name)
        servers = self._servers()
        if word is None and not servers:
            return self._launched()
        if word not in _ROLES:
            what = f"{name}: neither PSERVER nor TRAINER: {word or 'not set'}"
            hint = "`umiak launch` and PaddlePaddle's platforms set it on every node"
            if word in ("heter", "HETER", "HETER_TRAINER"):
                what, hint = (
                    f"{name}: there are no heter workers in training from a config: {word}",
                    "start trainers instead",
                )
            self.problems.append(Problem(code="UM-TRAIN-003", what=what, hint=hint))
            return None
        role = _ROLES[word]
        world = self.first("UMIAK_WORLD_SIZE", "PADDLE_TRAINERS_NUM") if role is Role.TRAINER else "PADDLE_TRAINERS_NUM"
        trainers = self._number(world, least=1, default=1)
        if role is Role.SERVER:
            rank = self._server_rank(servers)
        else:
            rank = self._number(self.first("UMIAK_RANK", "PADDLE_TRAINER_ID"), default=0)
            if rank >= trainers:
                self._wrong(f"trainer {rank} is out of range: {world} says that there are {trainers}")
        return Seat(role=role, rank=rank, trainers=trainers, servers=servers, said_by=f"{name}={word}")

    def _launched(self) -> Seat | None:
        """A child of a launcher that gives no roles: everybody trains."""
        if not (self.text("PADDLE_CURRENT_ENDPOINT") and self.text("PADDLE_TRAINER_ID")):
            return None
        trainers = self._number("PADDLE_TRAINERS_NUM", least=1, default=1)
        rank = self._number("PADDLE_TRAINER_ID", default=0)
        return Seat(role=Role.TRAINER, rank=rank, trainers=trainers, said_by=f"PADDLE_TRAINER_ID={rank}")

    def _servers(self) -> tuple[str, ...]:
        listed = self.text(self.first("UMIAK_SERVERS", "PADDLE_PSERVERS_IP_PORT_LIST")) or ""
        return tuple(listed.replace(",", " ").split())

    def _server_rank(self, servers: tuple[str, ...]) -> int:
        """A server is told by its number, or by its address."""
        if self.text("UMIAK_RANK") or self.text("PADDLE_PSERVER_ID"):
            return self._number(self.first("UMIAK_RANK", "PADDLE_PSERVER_ID"), default=0)
        own = self.text("PADDLE_CURRENT_ENDPOINT") or f"{self.text('POD_IP') or '127.0.0.1'}:{self.text('PADDLE_PORT')}"
        if own not in servers:
            self._wrong(f"this server's address is not in PADDLE_PSERVERS_IP_PORT_LIST: {own}")
            return 0
        return servers.index(own)

    def _number(self, name: str, *, default: int, least: int = 0) -> int:
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least):
            self._wrong(f"{name}: expected an integer, {least} or more: {text}")
            return default
        return int(text)

    def _wrong(self, what: str) -> None:
        self.problems.append(Problem(code="UM-TRAIN-003", what=what))
