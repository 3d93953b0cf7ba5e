"""Which host starts what: a job and the hosts of a place become one plan for each host. A decider.

    plans_of(job, "ctr-3f2a9c", settings, Known(master="node0:41234", files="9f31..."))     -> (HostPlan, ...)

Nodes take hosts in the order of the list, servers first, then trainers, then heter workers. A job with parameter
servers may have more nodes than there are hosts: it begins again at the first one, as where every host has a server and
a trainer.
"""

from __future__ import annotations

from umiak.core.bundle import placeholder
from umiak.core.cluster import Placement, Role, join_host_port
from umiak.core.value import replace, value
from umiak.platforms import native
from umiak.submit.node.plan import LAUNCHER, LONGEST_GRACE_S, PLATFORM, PYTHON, PlannedLauncher, RunPlan
from umiak.submit.payload import node_plan
from umiak.submit.payload.node_plan import PlaceTraits, SentFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.job import Job, RoleSpec
    from umiak.submit.backends.ssh.settings import SshHost, SshSettings
    from umiak.submit.payload.node_plan import NodePlan

START_S = 120
"""So far apart launchers may start, which one client starts at the same time."""
STORE = "../../../files"
"""Seen from a run's directory on a host."""
UNKNOWN_PORT, UNKNOWN_DIGEST = placeholder("free port"), placeholder("hash of the files")


@value
class KnownAtStart:
    """What hosts say before they start, and what a dry run can't know."""

    port: str = UNKNOWN_PORT
    """Of the first host, where the nodes meet."""
    files: str = UNKNOWN_DIGEST
    """The content hash of the job's files."""
    devices: tuple[int, ...] = ()
    """Of each node; empty: not asked."""
    master: str = ""
    """Of a part of the run that was started before."""


@value
class HostPlan:
    """What one host gets."""

    host: SshHost
    plan: RunPlan
    nodes: tuple[tuple[str, NodePlan], ...]
    """For each launcher the name of its file, and what is in it."""

    @property
    def texts(self) -> dict[str, str]:
        return {name: node_plan.as_text(each) for name, each in self.nodes}


@value
class _Seat:
    """One launcher of the job."""

    spec: RoleSpec
    rank: int
    """Among all."""
    role_rank: int
    host: SshHost


def seats_of(job: Job, hosts: Sequence[SshHost]) -> tuple[_Seat, ...]:
    """Every launcher with its host."""
    seats: list[_Seat] = []
    number = 0
    for spec in sorted(job.roles, key=lambda each: list(Role).index(each.role)):
        nodes = min(spec.nodes.most, max(spec.nodes.least, len(hosts)))
        launchers = (spec.workers or 1) if job.mode.has_servers else 1
        for node in range(nodes):
            for each in range(launchers):
                host = hosts[number % len(hosts)]
                seats.append(_Seat(spec=spec, rank=len(seats), role_rank=node * launchers + each, host=host))
            number += 1
    return tuple(seats)


def plans_of(job: Job, run_id: str, settings: SshSettings, known: KnownAtStart) -> tuple[HostPlan, ...]:
    """The plans of all hosts that the job uses, in the order of the list."""
    seats = seats_of(job, settings.hosts)
    used = list(dict.fromkeys(seat.host for seat in seats))
    machines = tuple(host.label for host in used)
    plans = []
    for host in used:
        own = [seat for seat in seats if seat.host is host]
        launchers = [_launcher(job, seat, seats, known) for seat in own]
        nodes = [
            (f"{launcher.name}.json", _node(job, seat, launcher.name, run_id, known, is_alone=len(own) == 1))
            for seat, launcher in zip(own, launchers, strict=True)
        ]
        plan = RunPlan(
            run_id=run_id,
            directory=".",
            launchers=tuple(launchers),
            time_limit_s=job.time_limit_s,
            machines=machines,
            is_elastic=job.nodes.is_elastic,
        )
        plans.append(HostPlan(host=host, plan=plan, nodes=tuple(nodes)))
    return tuple(plans)


def placement_of(job: Job, seat: _Seat, seats: Sequence[_Seat], known: KnownAtStart) -> Placement:
    """Which node of the job a launcher is."""
    placement = Placement(platform=PLATFORM, reason="", nodes=len(seats), rank=seat.rank)
    if job.nodes.is_elastic:
        placement = replace(placement, nodes=None, rank=None)
    if len(seats) == 1 and not job.nodes.is_elastic:
        return placement
    addresses = tuple(each.host.address or each.host.host for each in seats)
    return replace(
        placement,
        hosts=addresses if len({*addresses}) == len(addresses) and not job.nodes.is_elastic else (),
        master=known.master or f"{join_host_port(addresses[0], 0).rpartition(':')[0]}:{known.port}",
        host=addresses[seat.rank],
        role=seat.spec.role if job.mode.has_servers else None,
    )


def _launcher(job: Job, seat: _Seat, seats: Sequence[_Seat], known: KnownAtStart) -> PlannedLauncher:
    is_ps = job.mode.has_servers
    name = f"{seat.spec.role.value}-{seat.role_rank}" if is_ps else f"node-{seat.rank}"
    return PlannedLauncher(
        name=name,
        argv=(PYTHON, LAUNCHER, "-m", "umiak.submit.payload.node_start", f"{name}.json"),
        role=seat.spec.role if is_ps else None,
        first_rank=seat.role_rank if is_ps else _first_rank(seat, known),
        placement=tuple(native.environment_of(placement_of(job, seat, seats, known)).items()),
        node=seat.host.label,
    )


def _first_rank(seat: _Seat, known: KnownAtStart) -> int | None:
    workers = seat.spec.workers or seat.spec.resource.devices
    if workers:
        return seat.rank * workers
    if not known.devices:
        return None
    return sum(each or 1 for each in known.devices[: seat.rank])


def _node(job: Job, seat: _Seat, name: str, run_id: str, known: KnownAtStart, *, is_alone: bool) -> NodePlan:
    traits = PlaceTraits(
        # Each launcher unpacks the files into a directory of its own: none finds a file that another one is writing.
        directory="work" if is_alone else f"work-{seat.spec.role.value}-{seat.role_rank}",
        tee="none",
        log_directory=f"../log/{name}",
        grace_s=LONGEST_GRACE_S,
        start_s=START_S,
        files=SentFiles(digest=known.files, store=STORE) if known.files else None,
    )
    return node_plan.of(job, seat.spec, run_id, traits)
