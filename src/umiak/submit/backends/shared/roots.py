"""Where the files of a run on a shared file system are. A decider.

roots_of(run, info, node, ("node0", "node1"))     one directory for all nodes, in which each has logs of its own
"""

from __future__ import annotations

from umiak.submit.backend import RunFileRoots
from umiak.submit.backends.shared import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.submit.backend import JobNode
    from umiak.submit.backends.shared.layout import RunInfo, SharedRun

SHARED = "shared"


def roots_of(run: SharedRun, info: RunInfo, node: JobNode, names: Sequence[str]) -> RunFileRoots:
    """``node``: through which they are reached. ``names``: of the run's nodes, in the order of their numbers."""
    count = max(len(names), sum(each.nodes for each in info.roles))
    known = [*names, *(f"node-{number}" for number in range(len(names), count))]
    return RunFileRoots(
        name=SHARED,
        node=node,
        base=run.path,
        only=("work", layout.LOGS),
        in_place="" if info.directory == run.work else info.directory,
        parts=tuple((name, f"{layout.LOGS}/{number}") for number, name in enumerate(known)),
    )
