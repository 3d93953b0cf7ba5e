"""One worker as every framework's contract sees it: its seat, and what all of them ask of the cluster. A value.

Worked out once per worker, so that the families can't disagree about where the store is or how many nodes there are.
"""

from __future__ import annotations

from umiak.contracts.setting import WorkerSetting
from umiak.core.cluster import Cluster, Mode, Node, Role, Seat, join_host_port
from umiak.core.devices import Devices
from umiak.core.value import value


@value
class Worker:
    """A worker's place in its cluster, with the answers to the questions that contracts ask."""

    cluster: Cluster
    seat: Seat
    setting: WorkerSetting
    servers: tuple[str, ...]
    """Endpoints in rank order; likewise the next two."""
    trainers: tuple[str, ...]
    heters: tuple[str, ...]
    store_host: str
    """Where the first trainer runs, since it is the one that opens a framework's store."""
    store_port: int
    hosts: int
    """How many machines take part, which is less than the nodes where each process has a launcher of its own."""
    group: int
    """This worker's machine among those that have workers of its role."""
    groups: int
    workers_on_host: int
    """Over all roles and all launchers on this machine."""

    @property
    def is_trainer(self) -> bool:
        return self.seat.role is Role.TRAINER

    @property
    def world(self) -> int:
        """How many workers of this worker's role there are."""
        return len(self.peers)

    @property
    def peers(self) -> tuple[str, ...]:
        """The endpoints of this worker's role."""
        if self.seat.role is Role.SERVER:
            return self.servers
        return self.trainers if self.is_trainer else self.heters

    @property
    def store(self) -> str:
        """``host:port`` where the first trainer opens a store for all trainers."""
        return join_host_port(self.store_host, self.store_port)

    @property
    def devices(self) -> Devices | None:
        """The node's devices, if a worker of this role is to use them.

        Servers never are. With parameter servers, trainers compute on the CPU unless a person chose devices, and
        heter workers are there for the devices' sake, unless a person put them on the CPU.
        """
        mode, devices, role = self.setting.mode, self.setting.devices, self.seat.role
        if devices is None or role is Role.SERVER:
            return None
        if mode is Mode.PS:
            return devices if devices.chosen is not None else None
        if mode is Mode.PS_HETER:
            return devices if role is Role.HETER and self.setting.heter_device != "cpu" else None
        return devices


def worker_at(cluster: Cluster, seat: Seat, setting: WorkerSetting) -> Worker:
    """Everything the contracts need to know about the worker on one seat."""
    store_node = next((node for node in cluster.nodes if node.trainers), cluster.nodes[0])
    groups = _machines([node for node in cluster.nodes if node.count(seat.role)])
    return Worker(
        cluster=cluster,
        seat=seat,
        setting=setting,
        servers=cluster.endpoints(Role.SERVER),
        trainers=cluster.endpoints(Role.TRAINER),
        heters=cluster.endpoints(Role.HETER),
        store_host=store_node.host,
        store_port=store_node.store_port,
        hosts=len(_machines(cluster.nodes)),
        group=groups.index(_machine(cluster.nodes[seat.node_rank])),
        groups=len(groups),
        workers_on_host=sum(
            node.servers + node.trainers + node.heters for node in cluster.nodes if node.host == seat.host
        ),
    )


def _machine(node: Node) -> str:
    """Nodes with one launcher per process are together one machine; otherwise each node is its own."""
    return node.host if node.local_size else node.name


def _machines(nodes: tuple[Node, ...] | list[Node]) -> list[str]:
    return list(dict.fromkeys(_machine(node) for node in nodes))
