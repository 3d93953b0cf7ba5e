"""What happens to a launcher, and what it decides: closed unions of values, for a node and for the master.

Events are fed to the deciders `machine` (a node) and `rendezvous` (the master) and are journalled; actions are what the
deciders answer, for `agent` to perform.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Cluster, Seat
from umiak.core.value import value
from umiak.launch.protocol import Failure, FromMaster, FromNode, Offer, Terms


class Meeting(str, Enum):
    """How the master is found when the job starts."""

    ALONE = "alone"
    """One node: this one leads, nobody else is asked."""
    ADDRESS = "address"
    """``--master host:port``."""
    ETCD = "etcd"


@value
class NodeSetting:
    """What a node knows before anything has happened."""

    terms: Terms
    offer: Offer
    meeting: Meeting = Meeting.ALONE
    leads: bool = True
    """Meeting at an address: whether this node tries to be the master there."""
    master_host: str = ""
    master_port: int = 0


# ---- what happens to a node


@value
class LinkUp:
    """The master (or this node's own one) takes messages now. ``host`` is this node's address on that route."""

    host: str


@value
class LinkFailed:
    """Nobody could be reached there. ``refused``: the host answered that nothing listens."""

    refused: bool
    why: str
    fatal: bool = False
    """It makes no sense to try again: a wrong token, or another program listens there."""


@value
class LinkClosed:
    """The master's launcher is gone."""


@value
class LinkSilent:
    """The master was not heard for the heartbeat timeout."""


@value
class LinkMoved:
    """The node that was asked does not lead, and says who does."""

    host: str
    port: int


@value
class Elected:
    """etcd: this node is the master."""


@value
class LeaderAt:
    """etcd: that node is the master."""

    host: str
    port: int


@value
class Received:
    """A message from the master."""

    message: FromMaster


@value
class WorkerExited:
    """A worker ended. ``failure`` says how, unless it ended well."""

    key: str
    generation: int
    failure: Failure | None = None


@value
class WorkerListening:
    """A server accepts connections."""

    key: str
    generation: int


@value
class WorkerHung:
    """A worker showed no sign of life for ``--hang_timeout``."""

    key: str
    generation: int
    failure: Failure


@value
class PortsHeld:
    """These ports are held for the next generation."""

    ports: tuple[int, ...]


@value
class SignalReceived:
    """The launcher was sent SIGTERM, SIGINT or the like."""

    number: int


@value
class Tick:
    """The deadline that the decider asked for has come."""


NodeEvent = (
    LinkUp
    | LinkFailed
    | LinkClosed
    | LinkSilent
    | LinkMoved
    | Elected
    | LeaderAt
    | Received
    | WorkerExited
    | WorkerListening
    | WorkerHung
    | PortsHeld
    | SignalReceived
    | Tick
)
NODE_EVENTS = (
    LinkUp,
    LinkFailed,
    LinkClosed,
    LinkSilent,
    LinkMoved,
    Elected,
    LeaderAt,
    Received,
    WorkerExited,
    WorkerListening,
    WorkerHung,
    PortsHeld,
    SignalReceived,
    Tick,
)


# ---- what a node decides


@value
class Lead:
    """Become the master: start a coordinator here, after this generation and with what is known of its nodes."""

    previous: Cluster | None = None
    dead: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    wait_s: float = 0.0
    """Form nothing before, so that one who leads this job already, since this node was lost, can say so."""


@value
class Dial:
    """Connect to the launcher at this address."""

    host: str
    port: int
    patience_s: float
    """After so much silence nobody answers there."""


@value
class Campaign:
    """etcd: become the master, or find out who is. The one at the given address is known to be gone."""

    gone_host: str = ""
    gone_port: int = 0


@value
class HangUp:
    """Let go of the link to the master."""


@value
class Tell:
    """Say something to the master."""

    message: FromNode


@value
class StartWorkers:
    """Start these workers of a generation."""

    cluster: Cluster
    seats: tuple[Seat, ...]
    restarts: int = 0


@value
class AwaitListening:
    """Report as soon as each of these servers accepts connections."""

    keys: tuple[str, ...]


@value
class SignalWorkers:
    """Send a signal to every worker of this node."""

    number: int


@value
class KillWorkers:
    """SIGKILL to every process that this launcher's workers ever started."""


@value
class DumpStacks:
    """Have every worker write its Python stacks to the log directory."""


@value
class HoldPorts:
    """Hold fresh ports for the next generation, then report them."""


@value
class Say:
    """A line for the person at the console."""

    text: str
    level: str = "INFO"


@value
class Exit:
    """End the launcher, after everything that was said has been sent."""

    status: int
    failure: Failure | None = None
    words: str = ""
    code: str = ""
    hint: str = ""


NodeAction = (
    Lead
    | Dial
    | Campaign
    | HangUp
    | Tell
    | StartWorkers
    | AwaitListening
    | SignalWorkers
    | KillWorkers
    | DumpStacks
    | HoldPorts
    | Say
    | Exit
)


# ---- what happens to the master


@value
class NodeSaid:
    """A message from a node; the first one from each is its Join. ``at`` is wall time on the master's clock."""

    name: str
    message: FromNode
    at: float = 0.0


@value
class NodeClosed:
    """The node's connection was closed: its launcher is gone, and its workers with it."""

    name: str
    at: float = 0.0


@value
class NodeSilent:
    """Nothing was heard from the node for the heartbeat timeout: it may be dead, or cut off and alive."""

    name: str
    at: float = 0.0


@value
class Superseded:
    """Another node has led this job all along, which was not known where it was formed once more."""

    host: str


RendezvousEvent = NodeSaid | NodeClosed | NodeSilent | Superseded | Tick
RENDEZVOUS_EVENTS = (NodeSaid, NodeClosed, NodeSilent, Superseded, Tick)


# ---- what the master decides


@value
class Send:
    """Send a message to these nodes."""

    names: tuple[str, ...]
    message: FromMaster


@value
class Drop:
    """This node takes no further part: forget its link once what was sent has arrived."""

    name: str


@value
class Probe:
    """Find out whether this node's launcher is really gone: nothing listens there any more."""

    name: str
    host: str
    port: int


RendezvousAction = Send | Drop | Probe
