"""umiak's own names in a worker's environment, the same for every framework and every role. A decider.

UMIAK_RANK and UMIAK_WORLD_SIZE count the workers of the worker's own role. The names that a launcher takes as input
(UMIAK_NNODES, UMIAK_NODE_RANK, UMIAK_MASTER, ...) are never set: a launcher that is started inside a worker would
believe them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.contracts.worker import Worker

JOB_ID = "UMIAK_JOB_ID"
GENERATION = "UMIAK_GENERATION"
RESTART_COUNT = "UMIAK_RESTART_COUNT"
ROLE = "UMIAK_ROLE"
RANK = "UMIAK_RANK"
LOCAL_RANK = "UMIAK_LOCAL_RANK"
WORLD_SIZE = "UMIAK_WORLD_SIZE"
NODE = "UMIAK_NODE"
SERVERS = "UMIAK_SERVERS"
TRAINERS = "UMIAK_TRAINERS"
HETERS = "UMIAK_HETERS"
WORKERS_ON_HOST = "UMIAK_WORKERS_ON_HOST"
PS_METRICS = "UMIAK_PS_METRICS"
PS_DURABILITY = "UMIAK_PS_DURABILITY_MS"
PS_WIRE = "UMIAK_PS_WIRE"
PS_PREFETCH = "UMIAK_PS_PREFETCH"
PASSED_ON = (PS_METRICS, PS_DURABILITY, PS_WIRE, PS_PREFETCH)
"""Not part of the contract: said by the person who starts the job, and passed on."""
EXEC = "UMIAK_EXEC"
"""Neither: set for a command that `umiak exec` runs with a worker's variables,
so that it is not taken for the worker.
"""

NAMES = frozenset(
    [
        JOB_ID,
        GENERATION,
        RESTART_COUNT,
        ROLE,
        RANK,
        WORLD_SIZE,
        LOCAL_RANK,
        "UMIAK_LOCAL_SIZE",
        NODE,
        "UMIAK_WORKER_NODE_RANK",
        WORKERS_ON_HOST,
        "UMIAK_ENDPOINT",
        "UMIAK_STORE",
        SERVERS,
        TRAINERS,
        HETERS,
    ]
)
"""Every name that this family may set."""


def environment(worker: Worker) -> dict[str, str]:
    """umiak's variables for one worker."""
    seat, cluster = worker.seat, worker.cluster
    variables = {
        JOB_ID: cluster.job_id,
        GENERATION: str(cluster.generation),
        RESTART_COUNT: str(worker.setting.restart_count),
        ROLE: seat.role.value,
        RANK: str(seat.rank),
        WORLD_SIZE: str(worker.world),
        LOCAL_RANK: str(seat.local_rank),
        "UMIAK_LOCAL_SIZE": str(seat.local_size),
        NODE: seat.node,
        "UMIAK_WORKER_NODE_RANK": str(seat.node_rank),
        WORKERS_ON_HOST: str(worker.workers_on_host),
        "UMIAK_ENDPOINT": seat.endpoint,
        "UMIAK_STORE": worker.store,
    }
    for name, endpoints in ((SERVERS, worker.servers), (TRAINERS, worker.trainers), (HETERS, worker.heters)):
        if endpoints:
            variables[name] = ",".join(endpoints)
    return variables
