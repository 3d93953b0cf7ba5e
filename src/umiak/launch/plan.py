"""From what was asked and where we are to what this node will do: a pure decider.

    plan(options, placement, local) -> LaunchPlan

``options`` is what a person typed, ``placement`` what the platform's environment says, ``local`` what this machine
knows of itself. What was typed wins; the platform fills in the rest; contradictions are errors, all of them at once.
"""

from __future__ import annotations

from types import MappingProxyType

from umiak.core.cluster import Mode, Placement, Role, join_host_port, split_host_port
from umiak.core.devices import DeviceKind
from umiak.core.names import DefaultPort, is_host, is_loopback
from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import inert
from umiak.core.value import from_fields, value
from umiak.launch.events import Discovery
from umiak.launch.options import HEARTBEAT_TIMEOUT_S, LaunchOptions
from umiak.launch.protocol import Terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_ALONE_S = 30.0
"""In a job of one node no other node gives this one up, so a machine with too much to do may keep
its launcher waiting for so long, unless ``--heartbeat_timeout`` says another time than usual.
"""
FENCE_BEATS = 1.25
"""After a cut, one side may notice the silence up to a beat before the other one; a quarter more is for late timers."""


@value
class Local:
    """What this machine knows of itself."""

    addresses: tuple[str, ...]
    """Its own addresses, loopback included."""
    devices: int | None = None
    """How many accelerators its workers may use; None: it has none."""
    device_kind: DeviceKind | None = None
    cpus: int = 1
    """How many CPUs this process may use."""
    resolved: Mapping[str, str] = MappingProxyType({})
    """Host names of the options and the placement, with the addresses that they have here."""


@value
class LaunchPlan:
    """What this node will do."""

    terms: Terms
    discovery: Discovery
    master_host: str = ""
    master_port: int = 0
    etcd: tuple[tuple[str, int], ...] = ()
    may_lead: bool = True
    """Whether this node tries to listen at the master's address."""
    must_lead: bool = False
    """Whether nobody else can: no master was named, so this node is it, and prints the command for the others."""
    rank: int | None = None
    host: str = ""
    trainers: int = 1
    servers: int = 0
    heters: int = 0
    ports: tuple[int, ...] = ()
    """Fixed ports of the workers; empty: free ones are held."""
    first_local_rank: int = 0
    local_size: int = 0
    gloo_port: int | None = None
    store_port: int | None = None
    """Where the first worker's store is to be, should it be on this node; ``None``: wherever a port is free."""
    patience_s: float = 0.0
    """How much longer than usual the watchdog waits for a sign of life."""

    @property
    def own_store_port(self) -> int | None:
        """The port that this node holds for the store, if it has to be this one and the first worker will be here."""
        is_first = self.discovery is Discovery.ALONE or self.rank == 0 or (self.rank is None and self.may_lead)
        return self.store_port if is_first else None

    @property
    def port_count(self) -> int:
        """How many ports this node holds: one per worker,
        one for a store, and one for gloo beside parameter servers.
        """
        return self.servers + self.trainers + self.heters + 1 + self.terms.mode.has_servers


def plan(options: LaunchOptions, placement: Placement | None, local: Local) -> LaunchPlan:
    """What this node will do. UmiakError with every contradiction that was found."""
    return _Planner(options, placement, local).plan()


class _Planner:
    def __init__(self, options: LaunchOptions, placement: Placement | None, local: Local) -> None:
        self.options = options
        self.placement = placement or Placement(platform="none", reason="")
        self.local = local
        self.problems: list[Problem] = []
        lists = bool(options.server_endpoints or options.trainer_endpoints or options.heter_endpoints)
        from_placement = not lists and not options.node_hosts
        self.server_endpoints = options.server_endpoints or (self.placement.server_endpoints if from_placement else ())
        self.trainer_endpoints = options.trainer_endpoints or (
            self.placement.trainer_endpoints if from_placement else ()
        )
        self.heter_endpoints = options.heter_endpoints or (self.placement.heter_endpoints if from_placement else ())
        self.mode = options.mode
        if self.mode is Mode.COLLECTIVE and (self.placement.role is not None or self.server_endpoints):
            self.mode = Mode.PS  # a platform names roles only where a job has more than one
        if self.mode is Mode.PS and self.heter_endpoints:
            self.mode = Mode.PS_HETER

    def plan(self) -> LaunchPlan:
        least, most = self._node_range()
        hosts = self._hosts()
        rank = self._rank(hosts)
        discovery, master_host, master_port, etcd = self._discovery(most, hosts)
        trainers, servers, heters, ports = self._workers(rank)
        host = self.options.host or self.placement.host or (hosts[rank] if hosts and rank is not None else "")
        if host and not is_host(host):
            # The other nodes would refuse it; better to say so here.
            self._problem("UM-LAUNCH-109", f"not a host: {inert(host)}", "name this node's address with --host")
        UmiakError.raise_any(self.problems)
        is_alone = discovery is Discovery.ALONE
        must_lead = discovery is Discovery.ADDRESS and not master_host
        # A platform's name for the first node may belong to a service in front of it;
        # a typed address is taken at its word.
        local_master = self._is_local(master_host) or (rank == 0 and not self.options.master)
        if self.options.rank_leads and rank is not None:
            local_master = rank == 0
        elif self.options.is_host is not None:
            local_master = self.options.is_host
        return LaunchPlan(
            terms=self._terms(least, most),
            discovery=discovery,
            master_host=master_host,
            master_port=master_port,
            etcd=etcd,
            may_lead=is_alone or must_lead or local_master,
            must_lead=must_lead,
            rank=None if is_alone else rank,
            host=host or ("127.0.0.1" if is_alone else ""),
            trainers=trainers,
            servers=servers,
            heters=heters,
            ports=ports,
            first_local_rank=self.placement.local_rank or 0,
            local_size=self.placement.local_size or 0,
            gloo_port=self.options.gloo_port,
            store_port=self.options.store_port,
            patience_s=self._patience_s(is_alone=is_alone),
        )

    def _patience_s(self, *, is_alone: bool) -> float:
        return PATIENCE_ALONE_S if is_alone and self.options.heartbeat_timeout_s == HEARTBEAT_TIMEOUT_S else 0.0

    def _terms(self, least: int, most: int) -> Terms:
        options = self.options
        is_named = options.job_id != "default" or not self.placement.job_id
        return from_fields(
            Terms,
            options,
            job_id=options.job_id if is_named else self.placement.job_id,
            mode=self.mode,
            least=least,
            most=most,
            failure_grace_s=min(options.failure_grace_s, options.grace_s),
            fence_s=FENCE_BEATS * min(1.0, options.heartbeat_timeout_s / 5),
        )

    def _node_range(self) -> tuple[int, int]:
        options = self.options
        if options.node_hosts:
            count = len(options.node_hosts)
            if options.nodes_said and options.most_nodes != count:
                self._problem("UM-LAUNCH-301", f"--nnodes {options.most_nodes}, but --ips names {count} nodes")
            return count, count
        if options.nodes_said:
            return options.least_nodes, options.most_nodes
        listed = self._hosts_of_lists() if options.server_endpoints or options.trainer_endpoints else ()
        count = len(listed) or self.placement.nodes or 1
        return count, count

    def _hosts(self) -> tuple[str, ...]:
        """Every node's address in rank order, where that is known."""
        return self.options.node_hosts or self._hosts_of_lists() or self.placement.hosts

    def _hosts_of_lists(self) -> tuple[str, ...]:
        """The hosts of explicit endpoint lists, each once, servers first; a platform's lists are not taken apart."""
        if not (self.options.server_endpoints or self.options.trainer_endpoints):
            return ()
        endpoints = (*self.server_endpoints, *self.trainer_endpoints, *self.heter_endpoints)
        return tuple(dict.fromkeys(split_host_port(endpoint)[0] for endpoint in endpoints))

    def _rank(self, hosts: tuple[str, ...]) -> int | None:
        options = self.options
        if options.rank is not None:
            return options.rank
        if not (options.node_hosts or self._hosts_of_lists()):
            return self._rank_by_platform(hosts)
        if len(hosts) == 1:
            return 0
        own = [number for number, host in enumerate(hosts) if self._is_me(host)]
        flag = "--ips" if options.node_hosts else "--servers and --trainers"
        if not own:
            mine = options.host or ", ".join(address for address in self.local.addresses if not is_loopback(address))
            self._problem(
                "UM-LAUNCH-302",
                f"this node ({mine}) is not among the hosts of {flag}: {', '.join(hosts)}",
                "name this node's address with --host, or its place with --rank",
            )
            return None
        if len(own) > 1:
            self._problem(
                "UM-LAUNCH-303",
                f"several hosts of {flag} are this machine: {', '.join(hosts[number] for number in own)}",
                "say which one this launcher is with --host or --rank",
            )
        return own[0]

    def _rank_by_platform(self, hosts: tuple[str, ...]) -> int | None:
        """The platform's word, or this machine's place in its list of hosts."""
        placement = self.placement
        if placement.rank and placement.nodes is None and not self.options.nodes_said:
            self._problem(
                "UM-LAUNCH-304",
                f"{placement.platform} says that this is node {placement.rank}, but not of how many",
                "say the number of nodes with --nnodes",
            )
        if placement.rank is None and hosts:
            own = [number for number, host in enumerate(hosts) if self._is_local(host)]
            return own[0] if len(own) == 1 else None
        return placement.rank

    def _discovery(self, most: int, hosts: tuple[str, ...]) -> tuple[Discovery, str, int, tuple[tuple[str, int], ...]]:
        """How the nodes meet, where, and the etcd endpoints."""
        options = self.options
        # A list of hosts says where the nodes meet: at the first one. A master that was typed wins over both.
        from_hosts = ""
        if hosts and (options.node_hosts or options.server_endpoints or options.trainer_endpoints):
            port = (options.start_port or DefaultPort.START) - 1 if options.node_hosts else DefaultPort.MASTER
            from_hosts = join_host_port(hosts[0], port)
        master = options.master or from_hosts or self.placement.master or ""
        if master.startswith("etcd://"):
            endpoints = [split_host_port(part) for part in master.removeprefix("etcd://").split(",")]
            return Discovery.ETCD, "", 0, tuple((host, port or DefaultPort.ETCD) for host, port in endpoints)
        if most == 1 and not options.check:
            return Discovery.ALONE, "", 0, ()
        if not master and self._rank(hosts):
            self._problem(
                "UM-LAUNCH-305",
                f"this is node {self._rank(hosts)} of {most}, and nothing says where they meet",
                "name the first node's address with --master HOST:PORT, on every node",
            )
        if not master:
            return (Discovery.ALONE if most == 1 else Discovery.ADDRESS), "", 0, ()
        master_host, master_port = split_host_port(master)
        return Discovery.ADDRESS, master_host, master_port or DefaultPort.MASTER, ()

    def _workers(self, rank: int | None) -> tuple[int, int, int, tuple[int, ...]]:
        """How many trainers, servers and heter workers this node runs, and their fixed ports."""
        options = self.options
        if options.server_endpoints or options.trainer_endpoints:
            return self._workers_of_lists(rank)
        if self.placement.role is not None and self.mode.has_servers:
            return self._workers_of_role(rank)
        if self.mode.has_servers:
            trainers = 1 if options.trainers_per_node is None else options.trainers_per_node
            servers = 1 if options.servers_per_node is None else options.servers_per_node
            return trainers, servers, options.heters_per_node or 0, ()
        count = options.workers_per_node or self._counted() or self.placement.workers or self.local.devices or 1
        ports: tuple[int, ...] = ()
        if options.node_hosts:
            first = options.start_port or DefaultPort.START
            ports = tuple(range(first, first + count + 1))
        elif options.start_port is not None:
            ports = tuple(range(options.start_port, options.start_port + count + 1))
        return count, 0, 0, ports

    def _counted(self) -> int | None:
        """What ``--nproc_per_node`` means as a word on this node."""
        word, local = self.options.workers_word, self.local
        if word in ("gpu", "xpu") and (local.device_kind is None or local.device_kind.paddle_word != word):
            has = f"its devices are {local.device_kind.value}" if local.device_kind else "no devices were found"
            self._problem(
                "UM-LAUNCH-345",
                f"no {word} to count on this node ({has}): --nproc_per_node {word}",
                "write the number of workers, or --nproc_per_node auto for whatever this node has",
            )
            return None
        if word == "cpu" or (word == "auto" and local.devices is None):
            return local.cpus
        return local.devices if word else None

    def _workers_of_lists(self, rank: int | None) -> tuple[int, int, int, tuple[int, ...]]:
        hosts = self._hosts_of_lists()
        if rank is None or rank >= len(hosts):
            return 1, 0, 0, ()
        mine = hosts[rank]
        counts, ports = [], []
        for endpoints in (self.server_endpoints, self.trainer_endpoints, self.heter_endpoints):
            own = [split_host_port(endpoint)[1] or 0 for endpoint in endpoints if split_host_port(endpoint)[0] == mine]
            counts.append(len(own))
            ports += own
        servers, trainers, heters = counts
        return trainers, servers, heters, (*ports, *self._gloo_and_store_ports())

    def _gloo_and_store_ports(self) -> tuple[int, int]:
        """Two ports that no endpoint of the lists has, the same on every node."""
        gloo = self.options.gloo_port or DefaultPort.GLOO
        endpoints = (*self.server_endpoints, *self.trainer_endpoints, *self.heter_endpoints)
        taken = {gloo, DefaultPort.MASTER, *(split_host_port(endpoint)[1] for endpoint in endpoints)}
        if self.options.master and not self.options.master.startswith("etcd://"):
            taken.add(split_host_port(self.options.master)[1])
        return gloo, next(port for port in range(DefaultPort.STORE, 65536) if port not in taken)

    def _workers_of_role(self, rank: int | None) -> tuple[int, int, int, tuple[int, ...]]:
        placement = self.placement
        endpoints = {
            Role.SERVER: placement.server_endpoints,
            Role.TRAINER: placement.trainer_endpoints,
            Role.HETER: placement.heter_endpoints,
        }
        role = placement.role or Role.TRAINER
        index = (rank or 0) - {
            Role.SERVER: 0,
            Role.TRAINER: len(placement.server_endpoints),
            Role.HETER: len(placement.server_endpoints) + len(placement.trainer_endpoints),
        }[role]
        own = endpoints[role]
        port = split_host_port(own[index])[1] if 0 <= index < len(own) else None
        ports = (port, port + 1) if port else ()
        return int(role is Role.TRAINER), int(role is Role.SERVER), int(role is Role.HETER), ports

    def _is_me(self, host: str) -> bool:
        if self.options.host:
            return host == self.options.host or self.local.resolved.get(host) == self.options.host
        return self._is_local(host)

    def _is_local(self, host: str) -> bool:
        if not host:
            return False
        address = self.local.resolved.get(host, host)
        return is_loopback(address) or address in self.local.addresses

    def _problem(self, code: str, what: str, hint: str | None = None) -> None:
        self.problems.append(Problem(code=code, what=what, hint=hint))
