"""Which ports pods listen on. A decider.

Each pod has a block of 20. Blocks lie below the range that kernels take ports of outgoing connections
from (32768 and up) and below that of NodePorts (30000 and up), so that nothing else takes them by chance.

    PodIP     one block per job, the same for all pods: each has an address of its own
    Service   36000, as the old operator had it: people's manifests and tools name it
    Host      one block per pod, and none twice in a job. Pods ask for the first port of theirs as a hostPort, so the
              scheduler never puts two pods with one block on one node, of whatever jobs. Blocks that other jobs use are avoided.
"""

from __future__ import annotations

from itertools import islice
from zlib import crc32

from umiak.contracts.paddlejob import PORTS_PER_POD
from umiak.paddlejob.resource import Intranet, JobApi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.policies.view import JobView
    from umiak.paddlejob.resource import PaddleJob

SERVICE_PORT = 36000
FIRST_PORT, LAST_PORT = 10_000, 29_999
LARGEST_PORT = 65_535
_BLOCKS = (LAST_PORT + 1 - FIRST_PORT) // PORTS_PER_POD


def job_port(job: PaddleJob) -> int:
    """The first port of a job's pods; in Host mode the first of the first pod."""
    if 0 < job.report.port <= LARGEST_PORT - PORTS_PER_POD:
        return job.report.port
    return SERVICE_PORT if job.spec.intranet is Intranet.SERVICE else _port(_start(job.uid))


def host_ports(view: JobView) -> dict[str, int]:
    """The first port of each pod in Host mode, those in the status as they are; empty in other modes."""
    if view.spec.intranet is not Intranet.HOST or view.job.api is JobApi.KUBEFLOW:
        return {}
    known = {name: port for name, port in view.report.node_ports if FIRST_PORT <= port <= LAST_PORT}
    needed = [slot.name for slot in view.slots if slot.name not in known]
    if not needed:
        return known
    own = {(port - FIRST_PORT) // PORTS_PER_POD for port in known.values()}
    others = {(port - FIRST_PORT) // PORTS_PER_POD for _, port in view.facts.kept_ports}
    free = _free_blocks(_start(view.job.uid), len(needed), own, others)
    return {**known, **{name: _port(block) for name, block in zip(needed, free, strict=True)}}


def _free_blocks(start: int, count: int, own: set[int], others: set[int]) -> list[int]:
    """As many blocks: first those that nobody uses, then other jobs', then our own a second time, on other nodes."""
    rounds = [(start + step) % _BLOCKS for step in range(_BLOCKS)]
    blocks: list[int] = []
    for usable in (
        (block for block in rounds if block not in own and block not in others),
        (block for block in rounds if block not in own and block in others),
    ):
        blocks.extend(islice(usable, count - len(blocks)))
    while len(blocks) < count:
        blocks.extend(rounds[: count - len(blocks)])
    return blocks


def _start(uid: str) -> int:
    """Where a job begins to look: another place for each, and always the same for one."""
    return crc32(uid.encode()) % _BLOCKS


def _port(block: int) -> int:
    return FIRST_PORT + PORTS_PER_POD * (block % _BLOCKS)
