"""What is simulated: one node or process of a job, and the addresses of all. Values for the other modules here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from umiak.core.value import value

ANYWHERE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "SHLVL": "1"}
IN_A_POD = {
    **ANYWHERE,
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
}


@value
class Site:
    """Which node or process of which job is simulated."""

    nodes: int
    rank: int
    per_node: int = 1
    servers: int = 0

    @property
    def processes(self) -> int:
        return self.nodes * self.per_node

    @property
    def node(self) -> int:
        return self.rank // self.per_node

    @property
    def local(self) -> int:
        return self.rank % self.per_node

    @property
    def trainers(self) -> int:
        return self.nodes - self.servers

    @property
    def is_server(self) -> bool:
        return self.rank < self.servers

    @property
    def index(self) -> int:
        """The number within the role."""
        return self.rank if self.is_server else self.rank - self.servers


def hosts(platform: str, nodes: int, *, servers: int = 0) -> tuple[str, ...]:
    """The nodes' addresses in rank order, or nothing where the platform does not tell them."""
    return HOSTS[platform](Site(nodes=nodes, rank=0, servers=servers)) if platform in HOSTS else ()


def files(platform: str, nodes: int, *, per_node: int = 2) -> dict[str, str]:
    """The files that the environment points to, by path."""
    lines = "".join(f"{host}\n" * per_node for host in hosts(platform, nodes))
    if platform == "pbs":
        return {"/var/spool/pbs/aux/1234.head": lines}
    if platform == "lsf":
        return {"/home/user/.lsbatch/1700000000.1234.hostfile": "launch01\n" + lines}
    return {}


def _numbered(pattern: str) -> Callable[[Site], tuple[str, ...]]:
    return lambda site: tuple(pattern.format(number, number + 1) for number in range(site.nodes))


def _by_role(pattern: str) -> Callable[[Site], tuple[str, ...]]:
    def names(site: Site) -> tuple[str, ...]:
        servers = [pattern.format("ps", number) for number in range(site.servers)]
        return (*servers, *(pattern.format("worker", number) for number in range(site.trainers)))

    return names


def _servers_last(site: Site) -> tuple[str, ...]:
    """Slurm lists nodes by name, whatever their component: here the first ranks, the servers', have the last names."""
    names = _numbered("gpu-{1:03d}")(site)
    return names[site.trainers :] + names[: site.trainers] if site.servers else names


HOSTS: Mapping[str, Callable[[Site], tuple[str, ...]]] = {
    "umiak": _numbered("node{0}.example"),
    "paddlejob": _numbered("10.1.0.{1}"),
    "modelarts": _by_role("modelarts-job-1-{0}-{1}.modelarts-job-1.default.svc.cluster.local"),
    "modelarts-old": lambda site: _numbered("job0001-{0}.job0001")(site) if site.nodes > 1 else (),
    "mlp": _numbered("10.128.97.{1}"),
    "sagemaker": _numbered("algo-{1}"),
    "vertex": _by_role("cmle-training-{0}-0a1b2c3d4e-{1}"),
    "skypilot": _numbered("10.0.0.{1}"),
    "dstack": _numbered("10.0.0.{1}"),
    "tensorflow": _by_role("ctr-{0}-{1}.default.svc"),
    "volcano": _by_role("ctr-{0}-{1}.ctr"),
    "slurm": _servers_last,
    "lsf": _numbered("c05n{1:02d}"),
    "pbs": _numbered("r1i0n{0}"),
    "jobset": _by_role("ctr-{0}-0-{1}.ctr"),
}
