"""Huawei ModelArts, whose training jobs are Volcano jobs with variables of their own, and its older training module.
A decider.

New: MA_NUM_HOSTS nodes, VC_TASK_INDEX is this one, VC_WORKER_HOSTS names all in order, without ports. A job with
parameter servers has one VC_<TASK>_HOSTS per role and says the own role in MA_TASK_NAME.
Old: DLS_TASK_NUMBER nodes, DLS_TASK_INDEX is this one, BATCH_CUSTOM<i>_HOSTS is ``host:port`` of node i.

Traps
- It *is* Volcano, so this rule must come before Volcano's.
- VC_TASK_INDEX has no meaning on one node.
- Host names may not resolve at once; the address in MA_CURRENT_IP does for this node.
- Where VC_WORKER_HOSTS is missing, names follow from MA_VJ_NAME, MA_HJ_NAME and MA_NAMESPACE.
- A one-node job of the old module has its host under another name, so none is read.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.platforms import roles, volcano
from umiak.platforms.reading import master_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


def place(reader: Reader) -> Placement | None:
    """A container of a ModelArts training job."""
    count = reader.number("MA_NUM_HOSTS", least=1) or 1
    tasks = volcano.groups(reader) or _by_pattern(reader, count)
    listed = sum(map(len, tasks.values()))
    reason = reader.reason("VC_TASK_INDEX", "MA_NUM_HOSTS") or "one node by MA_NUM_HOSTS"
    if listed < 2:
        placement = Placement(
            platform=reader.platform,
            reason=reason,
            nodes=count,
            rank=0 if count == 1 else reader.needed("VC_TASK_INDEX"),
            hosts=tuple(host for hosts in tasks.values() for host in hosts),
            host=reader.text("MA_CURRENT_IP"),
        )
        return reader.settle(placement, rank="VC_TASK_INDEX", nodes="MA_NUM_HOSTS", hosts="VC_WORKER_HOSTS")
    own = (reader.text("MA_TASK_NAME") or "worker").lower().replace("-", "_")
    # Whether MA_NUM_HOSTS counts servers is not documented, so it is held against jobs without them only.
    if len(tasks) == 1 and listed != count and reader.text("MA_NUM_HOSTS") is not None:
        reader.wrong("005", "VC_WORKER_HOSTS", f"{listed} hosts are listed, but MA_NUM_HOSTS says: {count}")
    return roles.place(
        reader,
        tasks,
        own=own if own in tasks or len(tasks) > 1 else next(iter(tasks)),
        index=reader.needed("VC_TASK_INDEX"),
        names=("MA_TASK_NAME", "VC_TASK_INDEX", "VC_WORKER_HOSTS"),
        reason=reason,
        host=reader.text("MA_CURRENT_IP"),
    )


def old(reader: Reader) -> Placement | None:
    """A container of the older training module."""
    count = reader.needed("DLS_TASK_NUMBER", least=1)
    rank = reader.needed("DLS_TASK_INDEX") if count > 1 else 0
    names = [f"BATCH_CUSTOM{number}_HOSTS" for number in range(count)] if count > 1 else []
    for name in names:
        if reader.text(name) is None:
            reader.wrong("011", name, f"not set, but DLS_TASK_NUMBER says: {count}")
    parts = [reader.host_port(reader.text(name) or name, name) for name in names]
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason("DLS_TASK_INDEX", "DLS_TASK_NUMBER"),
        nodes=count,
        rank=rank,
        hosts=tuple(host for host, _ in parts),
        master=master_endpoint(*parts[0]) if parts else None,
        host=reader.text("BATCH_CURRENT_HOST"),
        job_id=reader.text("DLS_JOB_ID"),
    )
    return reader.settle(
        placement,
        rank="DLS_TASK_INDEX",
        nodes="DLS_TASK_NUMBER",
        hosts="BATCH_CUSTOM<i>_HOSTS",
        host="BATCH_CURRENT_HOST",
    )


def _by_pattern(reader: Reader, count: int) -> dict[str, tuple[str, ...]]:
    job, group, namespace = (reader.text(name) for name in ("MA_VJ_NAME", "MA_HJ_NAME", "MA_NAMESPACE"))
    if job is None or group is None or namespace is None:
        return {}
    domain = f"{group}.{namespace}.svc.cluster.local"
    return {"worker": tuple(f"{job}-worker-{number}.{domain}" for number in range(count))}
