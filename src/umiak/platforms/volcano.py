"""Volcano jobs with the env and svc plugins. A decider.

Every container gets VC_<TASK>_HOSTS and VC_<TASK>_NUM for every task of the job, and its index in VC_TASK_INDEX (or
the older VK_TASK_INDEX). Hosts are ``<job>-<task>-<i>.<job>``, without ports.

Traps
- The index counts *within the task*, and no variable says which task this is: the pod's HOSTNAME does, compared as a
  whole with the first label of each host, for by prefix worker-1 would be worker-10 as well.
- With the env plugin alone there are no hosts, and so no cluster to be seen.
- ModelArts runs on Volcano and has a rule of its own, which comes first.
"""

from __future__ import annotations

from umiak.platforms import roles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Placement
    from umiak.platforms.reading import Reader


def place(reader: Reader) -> Placement | None:
    """A pod of a Volcano job."""
    tasks = groups(reader)
    if not tasks:
        return None
    index_from = reader.first("VC_TASK_INDEX", "VK_TASK_INDEX")
    own = _own_task(reader, tasks)
    index = reader.needed(index_from)
    if own is None:
        name = reader.text("HOSTNAME") or "not set"
        reader.wrong("007", "HOSTNAME", f"no host of this job has this name: {name}", why="the own task is told by it")
        return None
    hosts_from = f"VC_{own.upper()}_HOSTS"
    return roles.place(
        reader,
        tasks,
        own=own,
        index=index,
        names=(hosts_from, index_from, hosts_from),
        reason=f"{index_from}={index} of task {own} in {hosts_from}",
    )


def groups(reader: Reader) -> dict[str, tuple[str, ...]]:
    """The hosts of each task by its name in lower case, as VC_<TASK>_HOSTS list them."""
    groups: dict[str, tuple[str, ...]] = {}
    for name in sorted(reader.environ):
        hosts = reader.items(name) if name.startswith("VC_") and name.endswith("_HOSTS") else ()
        if not hosts:
            continue
        task = name.removeprefix("VC_").removesuffix("_HOSTS")
        count = reader.number(f"VC_{task}_NUM")
        if count is not None and count != len(hosts):
            reader.wrong("005", name, f"{len(hosts)} hosts are listed, but VC_{task}_NUM says: {count}")
        groups[task.lower()] = hosts
    return groups


def _own_task(reader: Reader, tasks: dict[str, tuple[str, ...]]) -> str | None:
    if len(tasks) == 1:
        return next(iter(tasks))
    own = (reader.text("HOSTNAME") or "").partition(".")[0]
    return next((task for task, hosts in tasks.items() for host in hosts if host.partition(".")[0] == own), None)
