"""Where a node stands: one class per phase, each with the fields that exist in it alone. A decider.

    SEEKING --joined--> JOINED --Form--> RUNNING --Stop--> STOPPING --gone--> JOINED
       ^                   the master is lost: stop, then seek the next one
       +-----------------------------------------------+

A field that would mean nothing in another phase can't be read or written there: who is not running waits for no server,
and who seeks no master has no time at which to call one. What outlives a phase (the offer, the last formation, the link
to the master) belongs to `machine`.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Role
from umiak.launch.events import (
    AwaitListening,
    CheckReachable,
    ConsoleLine,
    KillWorkers,
    MessageToMaster,
    SignalWorkers,
    StartWorkers,
)
from umiak.launch.node import succession
from umiak.launch.protocol import Done, Failed, Ready
from umiak.launch.reports import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from umiak.core.cluster import Cluster, Seat
    from umiak.launch.events import NodeAction
    from umiak.launch.node.succession import Search
    from umiak.launch.protocol import Failure, Finish, RestartWorker, Terms

FIRST_PAUSE_S = 0.05
"""Before the master's address is dialled again; each time it takes twice as long."""
NOTE_EVERY_S = 5.0
SIGTERM = 15


class NodePhase(str, Enum):
    """The names of the phases."""

    SEEKING = "seeking"
    JOINED = "joined"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Loss(str, Enum):
    """How a master was lost."""

    DEAD = "dead"
    """Its connection was closed: its launcher is gone."""
    SILENT = "silent"
    """It was not heard for the heartbeat timeout: it may be alive."""
    EVICTED = "evicted"
    """It is there, and says that it did not hear this node for so long, and gave it up."""


class NodeInPhase:
    """What can be asked in every phase."""

    name: NodePhase
    workers: Mapping[str, Seat] = {}
    """Those that should be alive now, by key."""
    search: Search | None = None
    """For the master after a lost one, until that has formed a generation."""

    def times(self) -> tuple[float | None, ...]:
        """When a Tick is wanted."""
        return ()


class SeekingNode(NodeInPhase):
    """It looks for its master, or has reached it and does not hold its ports yet."""

    name = NodePhase.SEEKING

    def __init__(
        self,
        search: Search | None = None,
        *,
        note_at: float | None = None,
        dial_at: float | None = None,
        ask_at: float | None = None,
    ) -> None:
        self.search = search
        self.note_at = note_at
        self.dial_at = dial_at
        self.ask_at = ask_at
        self.pause_s = FIRST_PAUSE_S

    def times(self) -> tuple[float | None, ...]:
        return self.note_at, self.dial_at, self.ask_at


class JoinedNode(NodeInPhase):
    """It has offered its ports to a master, and waits for a generation."""

    name = NodePhase.JOINED

    def __init__(self, search: Search | None = None) -> None:
        self.search = search


class RunningNode(NodeInPhase):
    """Its workers of a generation run, or wait for servers."""

    name = NodePhase.RUNNING

    def __init__(self, cluster: Cluster, name: str, terms: Terms, reachable: Set[tuple[str, int]]) -> None:
        self.workers: dict[str, Seat] = {}
        self._cluster = cluster
        self._node = name
        self._terms = terms
        self._reachable = reachable
        self._seats = cluster.seats_on(name)
        self._waiting_seats: tuple[Seat, ...] = ()  # trainers that start at Go
        self._unready: set[str] = set()  # servers that do not accept connections yet
        self._unready_note_at: float | None = None
        self._check_reachable_at: float | None = None
        self._failed_keys: set[str] = set()  # workers that failed and were not started again
        self._is_done = False  # and the master knows it

    def times(self) -> tuple[float | None, ...]:
        return self._unready_note_at, self._check_reachable_at

    def begin(self, now: float) -> list[NodeAction]:
        """Start what may start at once: all workers, or the servers."""
        cluster, terms, seats = self._cluster, self._terms, self._seats
        replicas = f"replicas {len(cluster.nodes)}[{terms.least}:{terms.most}], elastic {terms.elastic}"
        actions: list[NodeAction] = [
            ConsoleLine(text=f"Job: {cluster.job_id}, mode {terms.mode.value}, {replicas}"),
            ConsoleLine(text=f"Run Pod: {self._node}, replicas {len(seats)}, status ready"),
        ]
        others = tuple(seat for seat in seats if seat.role is not Role.SERVER)
        if not terms.mode.has_servers:
            actions += self._launch(others)
        else:
            servers = tuple(seat for seat in seats if seat.role is Role.SERVER)
            keys = tuple(seat.key for seat in servers)
            self._waiting_seats, self._unready = others, {*keys}
            actions += self._launch(servers)
            if servers:
                actions.append(AwaitListening(keys=keys, within_s=terms.join_timeout_s))
                self._unready_note_at = now + NOTE_EVERY_S
            else:
                actions.append(MessageToMaster(message=Ready(generation=cluster.generation)))
        actions.append(ConsoleLine(text=f"Watching Pod: {self._node}, replicas {len(seats)}, status running"))
        if terms.survives_its_master and len(cluster.nodes) > 1:
            self._check_reachable_at = now + succession.calls_after_s(cluster, self._node)
        return actions

    def go(self) -> list[NodeAction]:
        """The servers of all nodes accept connections: the trainers start."""
        seats, self._waiting_seats = self._waiting_seats, ()
        return [*self._launch(seats), *self._check_done()]

    def restart(self, message: RestartWorker) -> list[NodeAction]:
        """Start a worker that failed again, in its place."""
        seat = next((seat for seat in self._seats if seat.key == message.key), None)
        if seat is None or seat.key in self.workers:
            return []
        self._failed_keys.discard(seat.key)
        self.workers[seat.key] = seat
        return [
            ConsoleLine(
                text=f"restarting {seat.role.value} {seat.rank} in its place ({seat.endpoint})", level="WARNING"
            ),
            StartWorkers(cluster=self._cluster, seats=(seat,), restarts=message.restarts),
        ]

    def ready(self, key: str) -> list[NodeAction]:
        """This server accepts connections, or has ended well before and has nothing to do."""
        if key not in self._unready:
            return []
        self._unready.discard(key)
        return [] if self._unready else [MessageToMaster(message=Ready(generation=self._cluster.generation))]

    def exited(self, key: str, failure: Failure | None) -> list[NodeAction]:
        """A worker has ended by itself."""
        del self.workers[key]
        if failure is None:
            return [*self.ready(key), *self._check_done()]
        self._failed_keys.add(key)
        failed = Failed(generation=self._cluster.generation, failure=failure)
        return [MessageToMaster(message=failed), ConsoleLine(text=words.describe(failure), level="ERROR")]

    def tick(self, now: float) -> list[NodeAction]:
        """What is due."""
        actions: list[NodeAction] = []
        if self._check_reachable_at is not None and now >= self._check_reachable_at:
            self._check_reachable_at = None
            nodes = succession.to_call(self._cluster, self._node, self._reachable)
            if nodes:
                actions.append(CheckReachable(generation=self._cluster.generation, nodes=nodes))
        if self._unready_note_at is not None and now >= self._unready_note_at:
            seats = [seat for key, seat in self.workers.items() if key in self._unready]
            self._unready_note_at = now + NOTE_EVERY_S if seats else None
            if seats:
                servers = ", ".join(f"{seat.role.value} {seat.rank} at {seat.endpoint}" for seat in seats)
                actions.append(ConsoleLine(text=f"waiting for connections to be accepted by {servers}"))
        return actions

    def _launch(self, seats: tuple[Seat, ...]) -> list[NodeAction]:
        self.workers.update({seat.key: seat for seat in seats})
        return [StartWorkers(cluster=self._cluster, seats=seats, restarts=self._cluster.restarts)] if seats else []

    def _check_done(self) -> list[NodeAction]:
        trainers_left = self._waiting_seats or any(seat.role is not Role.SERVER for seat in self.workers.values())
        if trainers_left or self._is_done or self._failed_keys:
            return []
        self._is_done = True
        return [MessageToMaster(message=Done(generation=self._cluster.generation))]


class StoppingNode(NodeInPhase):
    """Its workers are being ended: a signal, time to obey, then SIGKILL."""

    name = NodePhase.STOPPING

    def __init__(self, before: NodeInPhase) -> None:
        self.workers: dict[str, Seat] = {**before.workers}
        self.search = before.search
        self.lost: Loss | None = None
        """How the master was lost, if another one is to be found once the workers are gone."""
        self.finish: Finish | None = None
        """How this node will end once they are gone, if it will."""
        self._signal = SIGTERM
        self._grace_s = 0.0
        self._signal_at: float | None = None
        self._kill_at: float | None = None

    def times(self) -> tuple[float | None, ...]:
        return self._signal_at, self._kill_at

    def begin(self, now: float, *, grace_s: float, after_s: float, signal: int) -> None:
        """The workers get this signal after a while, and then the grace to end."""
        self._signal, self._grace_s = signal, grace_s
        self._signal_at = now + after_s

    def hurry(self, now: float, grace_s: float) -> None:
        """If the time to obey is running, so much of it is left at the most."""
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, now + grace_s)

    def killed(self) -> None:
        """They were killed already."""
        self._kill_at = None

    def over(self) -> None:
        """No worker is left."""
        self._signal_at = self._kill_at = None

    def tick(self, now: float) -> list[NodeAction]:
        """What is due."""
        actions: list[NodeAction] = []
        if self._signal_at is not None and now >= self._signal_at:
            self._signal_at = None
            if self._grace_s > 0:
                actions.append(SignalWorkers(number=self._signal))
                self._kill_at = now + self._grace_s
            else:
                actions.append(KillWorkers())
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            late = ", ".join(self.workers)
            text = f"still running after {self._grace_s:g} s, killed: {late}"
            actions += [ConsoleLine(text=text, level="WARNING"), KillWorkers()]
        return actions


class EndedNode(NodeInPhase):
    """The launcher exits."""

    name = NodePhase.ENDED
