"""What happens to a launcher, and what it decides, a node's and the master's: closed unions. Values.

Events are fed to the deciders `machine` (a node) and `rendezvous` (the master) and are journalled; actions are what the
deciders answer, for `agent` to perform.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Cluster, Seat
from umiak.core.value import value
from umiak.launch.protocol import Failure, FromMaster, FromNode, Offer, Terms


class Discovery(str, Enum):
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
    discovery: Discovery = Discovery.ALONE
    leads: bool = True
    """Meeting at an address: whether this node tries to be the master there."""
    master_host: str = ""
    master_port: int = 0
    callback_key: str = ""
    lineage: str = ""
    """Random: the lineage of the job, if this node forms its first generation."""


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

    silent_s: float = 0.0
    """For so long it was not heard before: it may have died that long ago, and the end of the connection came late."""


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
class MessageFromMaster:
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
class Reachable:
    """The launcher of this node of the generation was called at its address, and answered."""

    name: str
    generation: int


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
    | MessageFromMaster
    | WorkerExited
    | WorkerListening
    | WorkerHung
    | Reachable
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
    MessageFromMaster,
    WorkerExited,
    WorkerListening,
    WorkerHung,
    Reachable,
    PortsHeld,
    SignalReceived,
    Tick,
)


# ---- what a node decides


@value
class Probe:
    """A node's launcher that is called at its address, to see whether it is there."""

    name: str
    host: str
    port: int


@value
class Lead:
    """Become the master: start a coordinator here, after this generation and with what is known of its nodes."""

    previous: Cluster | None = None
    basis: tuple[tuple[str, ...], ...] = ()
    """Earlier lines of succession that count as well: it is not known whether all nodes have that generation."""
    dead: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    reachable: tuple[str, ...] = ()
    """Nodes of that generation whose launchers have answered this one: if they refuse, they are dead."""
    refusals_count_until: float = 0.0
    """Up to this time they died as voters of that generation; later on they may have formed another one before."""
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
class CheckReachable:
    """Call these launchers of a generation until each has answered once: later, a refusal of theirs is a death."""

    generation: int
    nodes: tuple[Probe, ...]


@value
class HangUp:
    """Let go of the link to the master."""


@value
class MessageToMaster:
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
    """Report as soon as each of these servers accepts connections; one that does not in time has failed."""

    keys: tuple[str, ...]
    within_s: float = 600.0


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
class ConsoleLine:
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
    | CheckReachable
    | HangUp
    | MessageToMaster
    | StartWorkers
    | AwaitListening
    | SignalWorkers
    | KillWorkers
    | DumpStacks
    | HoldPorts
    | ConsoleLine
    | Exit
)


# ---- what happens to the master


@value
class MessageFromNode:
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
class NodeRefused:
    """A node was probed and nobody, or another launcher, listens at its address."""

    name: str
    at: float = 0.0


@value
class TakeoverCalled:
    """Another launcher says that it leads this job, or is about to."""

    call: int
    """Which call this is, for the answer."""
    host: str
    port: int
    generation: int
    """The last one that it knows."""
    lineage: str
    formed: bool
    """Whether it has formed that generation itself."""
    ready: bool = False
    """Whether it has a majority for the next one; if not, it is still looking for it."""
    proven: bool = False
    """Whether it has proved that it knows the job's token, or is on the same machine."""


@value
class TakeoverRefused:
    """A launcher that was called because of a take-over answers that the job is led from there."""

    host: str
    port: int


RendezvousEvent = MessageFromNode | NodeClosed | NodeSilent | NodeRefused | TakeoverCalled | TakeoverRefused | Tick
RENDEZVOUS_EVENTS = (MessageFromNode, NodeClosed, NodeSilent, NodeRefused, TakeoverCalled, TakeoverRefused, Tick)


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
class AnswerTakeover:
    """Tell that caller that the job is led from here, and that it can join here."""

    call: int


@value
class StandDown:
    """This launcher does not lead any more; its nodes have been told where to go, or that the job is over here."""

    text: str


RendezvousAction = Send | Drop | AnswerTakeover | StandDown
