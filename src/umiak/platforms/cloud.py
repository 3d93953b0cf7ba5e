"""SkyPilot and dstack: tools that rent machines and start one command on each. A decider.

Both number nodes from 0 and list addresses one to a line, the first being the head node; neither gives a port. Their
counts of GPUs per node are not read: how many workers a node starts is decided by the devices that it sees.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.platforms.reading import master_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.platforms.reading import Reader


def skypilot(reader: Reader) -> Placement:
    """A node of a SkyPilot task."""
    return _place(reader, "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_IPS", None, "SKYPILOT_TASK_ID")


def dstack(reader: Reader) -> Placement:
    """A node of a dstack task; older versions give the head node's address alone."""
    head = reader.text("DSTACK_MASTER_NODE_IP")
    return _place(reader, "DSTACK_NODE_RANK", "DSTACK_NODES_NUM", "DSTACK_NODES_IPS", head, "DSTACK_RUN_NAME")


def _place(reader: Reader, rank: str, nodes: str, hosts: str, head: str | None, job_id: str) -> Placement:
    listed = reader.items(hosts)
    first = head or next(iter(listed), None)
    count = reader.number(nodes, least=1) or len(listed) or None
    seat = reader.number(rank)
    placement = Placement(
        platform=reader.platform,
        reason=reader.reason(rank, nodes),
        nodes=count,
        rank=seat,
        hosts=listed,
        master=None if first is None else master_endpoint(first),
        host=listed[seat] if seat is not None and seat < len(listed) else None,
        job_id=reader.text(job_id),
    )
    return reader.settle(placement, rank=rank, nodes=nodes, hosts=hosts)
