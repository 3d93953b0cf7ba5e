"""What a person asks `umiak doctor` about: the job as the launcher would be told of it. Values."""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.doctor.facts import PlaceFacts


@value
class DoctorRequest:
    """Everything that checks may look at. ``None`` and ``()`` mean: not said."""

    environ: Mapping[str, str]
    directory: str
    """Absolute: the working directory, where the job would be started."""
    least_nodes: int = 1
    most_nodes: int = 1
    hosts: tuple[str, ...] = ()
    """Of the nodes."""
    master: tuple[str, int] | None = None
    """The launcher that leads."""
    etcd: tuple[tuple[str, int], ...] = ()
    host: str | None = None
    """The address by which the other nodes reach this one."""
    start_port: int | None = None
    workers: int = 1
    """On this node."""
    devices: tuple[str, ...] | None = None
    job_id: str = "default"
    elastic_level: int = -1
    elastic_timeout_s: float = 30.0
    max_restart: int = 3
    log_dir: str = "log"
    place: str | None = None
    examine_place: Callable[[], PlaceFacts] | None = None
    """Asks the place's backend. Without a place it tells which places there are."""

    @property
    def has_other_nodes(self) -> bool:
        """Whether other machines must reach this one."""
        return self.most_nodes > 1 or len(self.hosts) > 1 or bool(self.etcd)

    @property
    def remote_hosts(self) -> tuple[str, ...]:
        """Every host that was named."""
        named = [*self.hosts, *([self.master[0]] if self.master else []), *(host for host, _ in self.etcd)]
        return tuple(dict.fromkeys(named))
