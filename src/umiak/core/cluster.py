"""Who takes part in a job and where each worker sits: values, and the pure questions one asks of them.

    Placement   what a node's environment says about the cluster, before anybody has talked
    Node        one machine or pod of a formed cluster, with the ports that it holds for its workers
    Cluster     one formation: the nodes in rank order, with a generation number
    Seat        one worker's place: role, rank, node, endpoint

Words: a *node* is a machine or pod, a *worker* is a process, a *rank* is a worker's number, a *generation* is
the number of a formation. See docs/reference/glossary.md.
"""

from __future__ import annotations

from enum import Enum
from itertools import chain
from operator import attrgetter

from umiak.core.decode import Malformed, short
from umiak.core.names import LAST_PORT, is_digits, is_port
from umiak.core.value import fields, from_columns, value


class Role(str, Enum):
    """What a worker does. A collective job has trainers only."""

    SERVER = "server"
    TRAINER = "trainer"
    HETER = "heter"


class Mode(str, Enum):
    """How the workers of a job work together; the values are Paddle's ``--run_mode`` words."""

    COLLECTIVE = "collective"
    PS = "ps"
    PS_HETER = "ps-heter"
    RPC = "rpc"

    @property
    def has_servers(self) -> bool:
        return self in (Mode.PS, Mode.PS_HETER)


class StrategyName(str, Enum):
    """How trainers and parameter servers work together."""

    SYNC = "sync"
    ASYNC = "async"
    HALF_ASYNC = "half_async"
    GEO = "geo"
    HYBRID = "hybrid"

    @property
    def waits_for_others(self) -> bool:
        """Whether a step of one trainer waits for those of the others."""
        return self in (StrategyName.SYNC, StrategyName.HYBRID)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

MOST_NODES = 65_536
MOST_WORKERS_ON_NODE = 4096
"""Servers, trainers and heter workers together."""
MOST_PORTS = 1 << 20
"""Of all nodes of a formation together. Each bound is far beyond any cluster,
and keeps a message from filling the memory.
"""

# The order in which a node's ports belong to its workers, and the order in which roles are started.
ROLES = (Role.SERVER, Role.TRAINER, Role.HETER)


@value
class Placement:
    """What the environment of one node says about the cluster. ``None`` and ``()`` mean: it does not say."""

    platform: str
    """A word for the platform: ``slurm``, ``modelarts``, ``paddlejob``, ..."""
    reason: str
    """Which variables led to this, for the one line that is printed: ``SLURM_NODEID=1 of SLURM_NNODES=2``."""
    nodes: int | None = None
    """How many nodes (all roles together)."""
    rank: int | None = None
    """This node's rank among them, from 0. With servers: first all servers, then all trainers."""
    hosts: tuple[str, ...] = ()
    """The nodes' addresses in rank order."""
    master: str | None = None
    """``host:port`` where the nodes meet, or ``etcd://...``."""
    host: str | None = None
    """The address by which peers reach this node."""
    job_id: str | None = None
    workers: int | None = None
    """Worker processes that this launcher should start, if the platform says it."""
    role: Role | None = None
    """This node's role where nodes have roles; ``None`` where every node does the same."""
    server_endpoints: tuple[str, ...] = ()
    """``host:port`` of every parameter server, where the platform fixes them (also: their number)."""
    trainer_endpoints: tuple[str, ...] = ()
    heter_endpoints: tuple[str, ...] = ()
    local_rank: int | None = None
    """Set where the platform starts one launcher per *process* (mpirun -n 4, srun -n 4):
    this process's number on its host.
    """
    local_size: int | None = None


@value
class Node:
    """One machine or pod of a formed cluster.

    ``home`` orders the nodes: a node that comes back sits where it sat. ``ports`` are held by the node's launcher
    for its servers, trainers and heter workers, in that order, one for gloo beside servers, and one for a store.
    """

    name: str
    host: str
    home: int
    ports: tuple[int, ...]
    trainers: int = 1
    servers: int = 0
    heters: int = 0
    link_port: int = 0
    """Where this node's launcher listens, so that it can become the next master."""
    first_local_rank: int = 0
    """More than 0 where several launchers, one per process, stand on the same host."""
    local_size: int = 0
    """Workers on the host over all its launchers; 0 means: just this node's."""

    def count(self, role: Role) -> int:
        """How many workers of this role the node runs."""
        if role is Role.SERVER:
            return self.servers
        return self.trainers if role is Role.TRAINER else self.heters

    def ports_of(self, role: Role) -> tuple[int, ...]:
        """The ports that belong to the workers of this role."""
        first = sum(self.count(earlier) for earlier in ROLES[: ROLES.index(role)])
        return self.ports[first : first + self.count(role)]

    @property
    def store_port(self) -> int:
        """The port for a framework's own store, should this be the first node."""
        return self.ports[-1]

    @property
    def gloo_port(self) -> int:
        """The port where gloo meets beside parameter servers: one of its own, where the node holds one."""
        workers = self.servers + self.trainers + self.heters
        return self.ports[workers]


@value
class Seat:
    """One worker's place in a cluster."""

    role: Role
    rank: int
    """Number among all workers of this role."""
    local_rank: int
    """Number among the workers of this role on the same host."""
    local_size: int
    node_rank: int
    node: str
    """The node's name."""
    host: str
    port: int

    @property
    def key(self) -> str:
        """A short name that is unique on its node: ``trainer.0``; with the log file's number."""
        return f"{self.role.value}.{self.local_rank}"

    @property
    def endpoint(self) -> str:
        return join_host_port(self.host, self.port)


@value
class Cluster:
    """One formation of a job: who takes part, in rank order (a node's index is its node rank)."""

    job_id: str
    generation: int
    nodes: tuple[Node, ...]
    coordinator: str
    """The name of the node whose launcher coordinates this generation: the master."""
    restarts: int = 0
    """How many restarts after a failure the job has had."""
    lineage: str = ""
    """Random, made with generation 1 and kept by all later ones; only nodes that took part know it."""

    def node(self, name: str) -> Node:
        return self.nodes[self.node_rank(name)]

    def node_rank(self, name: str) -> int:
        for rank, node in enumerate(self.nodes):
            if node.name == name:
                return rank
        raise KeyError(name)

    def seats(self, role: Role) -> tuple[Seat, ...]:
        """Every worker of one role over all nodes, in rank order."""
        return tuple(seat for name in self.names for seat in self._seats_of(name, role))

    def seats_on(self, name: str) -> tuple[Seat, ...]:
        """Every worker of one node, servers first."""
        return tuple(seat for role in ROLES for seat in self._seats_of(name, role))

    def endpoints(self, role: Role) -> tuple[str, ...]:
        """``host:port`` of every worker of one role, in rank order."""
        return tuple(join_host_port(node.host, port) for node in self.nodes for port in node.ports_of(role))

    def size(self, role: Role) -> int:
        """How many workers of one role there are."""
        return sum(node.count(role) for node in self.nodes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(node.host for node in self.nodes)

    @property
    def store(self) -> str:
        """``host:port`` on the first node, for a framework's own store (PADDLE_MASTER, MASTER_ADDR:MASTER_PORT)."""
        return join_host_port(self.nodes[0].host, self.nodes[0].store_port)

    def _seats_of(self, name: str, role: Role) -> list[Seat]:
        node_rank = self.node_rank(name)
        node = self.nodes[node_rank]
        ports = node.ports_of(role)
        if not ports:
            return []
        first_rank = sum([earlier.count(role) for earlier in self.nodes[:node_rank]])
        return [
            Seat(
                role=role,
                rank=first_rank + local,
                local_rank=node.first_local_rank + local,
                local_size=node.local_size or len(ports),
                node_rank=node_rank,
                node=node.name,
                host=node.host,
                port=port,
            )
            for local, port in enumerate(ports)
        ]

    # On the wire the nodes are columns, a column of equal entries is one entry, and consecutive ports are a first one
    # and their number: a thousand nodes then cost every launcher three milliseconds instead of twenty.

    def to_plain(self) -> dict[str, object]:
        columns: dict[str, list[object]] = {name: [*map(attrgetter(name), self.nodes)] for name in fields(Node)}
        columns["ports"] = [_dense_ports(node.ports) for node in self.nodes]
        return {
            "job_id": self.job_id,
            "generation": self.generation,
            "coordinator": self.coordinator,
            "restarts": self.restarts,
            "lineage": self.lineage,
            "size": len(self.nodes),
            "nodes": {name: column[0] if _is_uniform(column) else column for name, column in columns.items()},
        }

    @classmethod
    def from_plain(cls, data: dict[str, object], where: str) -> Cluster:
        columns, size = data.get("nodes"), data.get("size")
        texts, numbers = ("job_id", "coordinator", "lineage"), ("generation", "restarts")
        head: JsonObject = {name: data.get(name) for name in (*texts, *numbers)}
        for name, item in head.items():
            if type(item) is not (str if name in texts else int):
                raise Malformed(f"{where}.{name}: {short(item)}")
        if len(data) != len(head) + 2 or not isinstance(columns, dict) or type(size) is not int:
            raise Malformed(f"{where}: not a cluster")
        if set(columns) != set(fields(Node)):
            raise Malformed(f"{where}.nodes: not the fields of a node")
        if not 0 <= size <= MOST_NODES:
            raise Malformed(f"{where}: {short(size)} nodes, at most {MOST_NODES} are taken")
        if size != (len(columns["name"]) if isinstance(columns["name"], list) else 1):
            raise Malformed(f"{where}: not {size} names")
        table = [_column(columns[name], name, size, where) for name in fields(Node)]
        return cls(nodes=from_columns(Node, table, size), **head)


def _dense_ports(ports: tuple[int, ...]) -> list[int]:
    """``[first, minus how many]`` for consecutive ports, else all of them."""
    count = len(ports)
    if count > 2 and 0 < ports[0] <= 65536 - count and ports == tuple(range(ports[0], ports[0] + count)):
        return [ports[0], -count]
    return [*ports]


def _all_ports(dense: list[int], where: str) -> tuple[int, ...]:
    if _is_range(dense):
        first, last = dense[0], dense[0] - dense[1] - 1
        ports = tuple(range(first, last + 1))
    else:
        first, last = min(dense, default=1), max(dense, default=1)
        ports = tuple(dense)
    if not 0 < first <= last <= LAST_PORT:
        raise Malformed(f"{where}.nodes.ports: {short(dense)}")
    return ports


def _is_range(dense: list[int]) -> bool:
    return len(dense) == 2 and dense[1] < 0


def _is_uniform(column: list[object]) -> bool:
    return bool(column) and column.count(column[0]) == len(column)


def _column(column: object, name: str, size: int, where: str) -> list[object]:
    """One field of all nodes, checked."""
    if name == "ports":
        if isinstance(column, list) and not any(isinstance(item, list) for item in column):
            column = [column] * size  # the same on every node
        if not isinstance(column, list) or len(column) != size or {*map(type, column)} - {list}:
            raise Malformed(f"{where}.nodes.ports: not {size} lists")
        if {*map(type, chain.from_iterable(column))} - {int}:
            raise Malformed(f"{where}.nodes.ports: not a list of numbers")
        # Counted before they are written out.
        if sum([-dense[1] if _is_range(dense) else len(dense) for dense in column]) > MOST_PORTS:
            raise Malformed(f"{where}.nodes.ports: more than {MOST_PORTS} in all")
        return [_all_ports(dense, where) for dense in column]
    if not isinstance(column, list):
        column = [column] * size
    kind = str if name in ("name", "host") else int
    if len(column) != size or {*map(type, column)} - {kind}:
        raise Malformed(f"{where}.nodes.{name}: not {size} times {kind.__name__}")
    return column


def join_host_port(host: str, port: int) -> str:
    """``10.0.0.1:80``, or ``[fe80::1]:80`` for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def node_range(text: str) -> tuple[int, int]:
    """``2`` is 2 to 2, ``2:4`` is 2 to 4.
    ValueError with a phrase that says what is wrong, to which the caller adds who says it.
    """
    least_text, colon, most_text = (part.strip() for part in text.partition(":"))
    most_text = most_text if colon else least_text
    if not is_digits(least_text) or not is_digits(most_text):
        raise ValueError("fewer than one node" if text.startswith("-") else "not a number of nodes")
    if max(len(least_text), len(most_text)) > 9 or int(most_text) > MOST_NODES:
        raise ValueError(f"more than {MOST_NODES} nodes")
    least, most = int(least_text), int(most_text)
    if least < 1:
        raise ValueError("fewer than one node")
    if most < least:
        raise ValueError("the largest number of nodes is smaller than the smallest")
    return least, most


def split_host_port(text: str) -> tuple[str, int | None]:
    """The two parts of ``host:port``, ``[v6]:port``, a bare host or a bare IPv6 address.
    ValueError if the port is no port.
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"not a host and port: {text}")
        port_text = rest[1:]
    elif text.count(":") > 1:
        return text, None
    else:
        host, _, port_text = text.partition(":")
    if not host:
        raise ValueError(f"no host in: {text}")
    if not port_text:
        return host, None
    if not is_digits(port_text) or len(port_text) > 9 or not is_port(int(port_text)):
        raise ValueError(f"not a port between 1 and 65535: {port_text}")
    return host, int(port_text)
