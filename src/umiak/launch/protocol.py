"""What launchers say to one another: values only.
`links.link` carries them, `rendezvous` and `machine` decide over them.

    node -> master    Join  HasLater  Accepted  Ready  Done  Failed  Stopped  Leaving
    master -> node    Waiting  Seated  Form  Committed  Go  Stop  RestartWorker  Standby  Evict  Finish  Refuse  Moved

A message that belongs to one formation carries its generation, so that one that arrives late is recognised and dropped.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Cluster, Mode, Role
from umiak.core.value import value
from umiak.launch.options import TrainerRestart


@value
class Terms:
    """The rules of one job, the same on every node; the master refuses a node that joins with other ones."""

    job_id: str
    mode: Mode
    least: int
    most: int
    max_restart: int = 3
    restart_wanted: bool = False
    elastic_level: int = -1
    elastic_timeout_s: float = 30.0
    join_timeout_s: float = 600.0
    heartbeat_timeout_s: float = 5.0
    failure_grace_s: float = 5.0
    grace_s: float = 30.0
    trainer_restart: TrainerRestart = TrainerRestart.GROUP
    fails_at_start: bool = False
    """Whether a node that is lost before the first generation ends the job: where nobody starts launchers again."""
    sort_ip: bool = False
    fence_s: float = 1.25
    """After silence: how long a new formation waits, so that a side that was cut off has surely stopped."""
    settle_s: float = 0.5
    """How long a running job waits for further nodes before it grows."""

    @property
    def elastic(self) -> bool:
        return self.least < self.most

    @property
    def waits_for_lost_nodes(self) -> bool:
        """Whether a node that is lost before the first generation may come back, or another in its place."""
        return self.elastic or not self.fails_at_start

    @property
    def survives_its_master(self) -> bool:
        """Whether the other nodes look for the next master when this one is lost, instead of failing."""
        return self.elastic or self.restart_wanted or self.elastic_level == 0

    @property
    def restarts_workers(self) -> bool:
        """Whether workers that failed, or whose peers are gone, may be started again."""
        return self.survives_its_master or (self.mode.has_servers and self.max_restart > 0)

    @property
    def old_workers_end_s(self) -> float:
        """How long after the loss of their master workers of its generation may live,
        on nodes that others can't reach.
        """
        return max(self.heartbeat_timeout_s, self.failure_grace_s)


@value
class Offer:
    """What a node brings when it joins: who it is, what it will run, which ports it holds."""

    name: str
    host: str
    ports: tuple[int, ...]
    trainers: int = 1
    servers: int = 0
    heters: int = 0
    link_port: int = 0
    rank: int | None = None
    """The node rank that was asked for explicitly."""
    first_local_rank: int = 0
    local_size: int = 0


class FailureKind(str, Enum):
    """How a job was brought down."""

    EXITED = "exited"
    KILLED = "killed"
    NOT_STARTED = "not-started"
    HUNG = "hung"
    NODE_LOST = "node-lost"
    NODE_LEFT = "node-left"


@value
class Failure:
    """One failure: who, when, how, and the last words. ``at`` is wall time on the master's clock."""

    kind: FailureKind
    at: float
    node: str
    host: str
    role: Role | None = None
    rank: int | None = None
    key: str = ""
    """The worker's name on its node: ``trainer.0``."""
    exit_code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    port_taken: bool = False
    """The worker said that its address is in use: another process took the port between our hold and its bind."""
    what: str = ""
    log_path: str = ""
    log_end: str = ""
    traceback: str = ""

    @property
    def exit_status(self) -> int:
        """The launcher's own exit status for this failure: the worker's code, or 128 plus its signal."""
        if self.signal is not None:
            return 128 + self.signal
        return self.exit_code if self.exit_code else 1


# ---- node to master


@value
class Join:
    """The first message of a node."""

    offer: Offer
    terms: Terms
    callback_key: str = ""
    """What the master says when it calls back at the offered address, and what only this launcher recognises."""
    generation: int = 0
    """The last one that this node took part in, if any, and its lineage."""
    lineage: str = ""


@value
class HasLater:
    """This node has a later generation than the one that the master goes by. The earlier lines count as in Form."""

    cluster: Cluster
    basis: tuple[tuple[str, ...], ...] = ()


@value
class Accepted:
    """This node has the formation, and goes by no earlier one from now on."""

    generation: int


@value
class Ready:
    """Every server of this node accepts connections (at once on a node without servers)."""

    generation: int


@value
class Done:
    """Every trainer of this node has ended well."""

    generation: int


@value
class Failed:
    """A worker of this node failed."""

    generation: int
    failure: Failure


@value
class Stopped:
    """No worker of this generation lives on this node any more; these ports are held for the next one."""

    generation: int
    ports: tuple[int, ...]


@value
class Leaving:
    """This node was told to stop by a signal, and is stopping its workers."""

    signal: int


# ---- master to node


@value
class Waiting:
    """Who is there and who is missing, for the person at each node's console."""

    text: str


@value
class Seated:
    """This node waits here for the next generation.
    The last one that the master knows, and whether it has formed that.
    """

    generation: int
    formed_here: bool = False


@value
class Form:
    """A generation is complete: start the workers."""

    cluster: Cluster
    basis: tuple[tuple[str, ...], ...] = ()
    """Earlier lines of succession, which count as well until it is known that all nodes have this generation."""


@value
class Committed:
    """All nodes have this generation: what was before it does not count any more."""

    generation: int


@value
class Go:
    """Parameter-server mode: every server is there, the trainers may start."""

    generation: int


@value
class Stop:
    """Stop the workers of this generation; those that are left after the grace are killed."""

    generation: int
    why: str
    grace_s: float
    dump_stacks: bool = False
    reform: bool = False
    """Whether the job goes on with a next generation."""


@value
class RestartWorker:
    """Start one worker again in its seat, with the same endpoint."""

    generation: int
    key: str
    restarts: int


@value
class Standby:
    """This node is not needed now, and stays in case another one is lost."""

    text: str
    cluster: Cluster | None = None
    basis: tuple[tuple[str, ...], ...] = ()
    formed_here: bool = False
    """Whether this master has formed that generation, or only taken over after it."""


@value
class Evict:
    """This node was not heard for the heartbeat timeout: it kills its workers at once, and may join again."""

    text: str


@value
class Finish:
    """The job is over for this node."""

    exit_status: int
    words: str = ""
    """What happened, in one line."""
    code: str = ""
    """The error's code in docs/reference/errors.md."""
    hint: str = ""
    failure: Failure | None = None
    at_once: bool = False
    """Workers are killed without grace: this side of a cut must not go on for a moment."""


@value
class Refuse:
    """This node can't take part. It says so and ends with this status."""

    text: str
    code: str
    hint: str = ""
    exit_status: int = 3
    gone: bool = False
    """This master was cut off and has ended: a node that took part looks for the next one instead."""


@value
class Moved:
    """The job runs elsewhere: a restarted master tells this to those who met at its old address."""

    host: str
    port: int


FromNode = Join | HasLater | Accepted | Ready | Done | Failed | Stopped | Leaving
FromMaster = Waiting | Seated | Form | Committed | Go | Stop | RestartWorker | Standby | Evict | Finish | Refuse | Moved
FROM_NODE = (Join, HasLater, Accepted, Ready, Done, Failed, Stopped, Leaving)
FROM_MASTER = (Waiting, Seated, Form, Committed, Go, Stop, RestartWorker, Standby, Evict, Finish, Refuse, Moved)
