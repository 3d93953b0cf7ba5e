"""umiak's own contract: what a submission writes for a node, and what a worker of ours carries. A decider.

    UMIAK_NNODES=2  UMIAK_NODE_RANK=1  UMIAK_HOSTS=a,b  UMIAK_MASTER=a:6768

`explicit` reads it and `environment_of` writes it; one is the inverse of the other. No name here is one that a worker
gets (UMIAK_RANK, UMIAK_LOCAL_RANK, UMIAK_NODE, UMIAK_ROLE, UMIAK_JOB_ID, ...).

The trap: workers inherit their launcher's environment, so a launcher started *by a worker*, say for an evaluation at
the end of an epoch, sees the outer platform and would join that cluster a second time. The two variables that only a
worker has give it away; such a launch is a job of its own on this node. The names above do not reach workers (see
`umiak.contracts`), so where a worker's launcher has them nevertheless, they were meant for it and count.
"""

from __future__ import annotations

from umiak.core.cluster import Placement, Role
from umiak.core.value import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader

VARIABLES = {
    "nodes": "UMIAK_NNODES",
    "rank": "UMIAK_NODE_RANK",
    "hosts": "UMIAK_HOSTS",
    "master": "UMIAK_MASTER",
    "host": "UMIAK_HOST",
    "job_id": "UMIAK_TOPOLOGY_JOB_ID",
    "workers": "UMIAK_NPROC_PER_NODE",
    "role": "UMIAK_NODE_ROLE",
    "server_endpoints": "UMIAK_SERVER_ENDPOINTS",
    "trainer_endpoints": "UMIAK_TRAINER_ENDPOINTS",
    "heter_endpoints": "UMIAK_HETER_ENDPOINTS",
    "local_rank": "UMIAK_NODE_LOCAL_RANK",
    "local_size": "UMIAK_NODE_LOCAL_SIZE",
}
"""The variable of each field of a `Placement`; lists are joined with commas."""


def nested(reader: Reader) -> Placement | None:
    """A launcher that one of umiak's workers started."""
    if reader.text("UMIAK_JOB_ID") is None:
        return None
    reason = f"started by a worker of job {reader.text('UMIAK_JOB_ID')} (UMIAK_RANK={reader.text('UMIAK_RANK')})"
    return Placement(platform=reader.platform, reason=reason, nodes=1, rank=0)


def explicit(reader: Reader) -> Placement:
    """The cluster as a submission, or a person, spelled it out."""
    name = VARIABLES
    hosts = reader.items(name["hosts"])
    nodes = reader.number(name["nodes"], least=1)
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason(name["rank"], name["nodes"]) or _said(reader),
        nodes=nodes or len(hosts) or None,
        rank=reader.number(name["rank"]),
        hosts=hosts,
        master=reader.master(name["master"]),
        host=reader.text(name["host"]),
        job_id=reader.text(name["job_id"]),
        workers=reader.number(name["workers"], least=1),
        role=_role(reader),
        server_endpoints=reader.endpoints(name["server_endpoints"]),
        trainer_endpoints=reader.endpoints(name["trainer_endpoints"]),
        heter_endpoints=reader.endpoints(name["heter_endpoints"]),
        local_rank=reader.number(name["local_rank"]),
        local_size=reader.number(name["local_size"], least=1),
    )
    local_rank, local_size = placement.local_rank, placement.local_size
    if local_rank is not None and local_size is not None and local_rank >= local_size:
        reader.wrong(
            "004", name["local_rank"], f"local rank {local_rank} is out of range: {local_size} are on this host"
        )
    return reader.settle(placement, rank=name["rank"], nodes=name["nodes"], hosts=name["hosts"], host=name["host"])


def environment_of(placement: Placement) -> dict[str, str]:
    """The variables from which a node rebuilds this placement: ``detect(environment_of(p))`` is ``p``."""
    environ: dict[str, str] = {}
    for field in fields(placement):
        item = getattr(placement, field)
        if field not in VARIABLES or item is None or item == ():
            continue
        if isinstance(item, Role):
            item = item.value
        environ[VARIABLES[field]] = ",".join(item) if isinstance(item, tuple) else str(item)
    return environ


def _role(reader: Reader) -> Role | None:
    name = VARIABLES["role"]
    text = reader.text(name)
    role = next((role for role in Role if role.value == text), None)
    if text is not None and role is None:
        reader.wrong(
            "010", name, f"expected a role, got {text}", hint=f"say one of: {', '.join(role.value for role in Role)}"
        )
    return role


def _said(reader: Reader) -> str:
    return ", ".join(f"{name}={reader.text(name)}" for name in VARIABLES.values() if reader.text(name) is not None)
