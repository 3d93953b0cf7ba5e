"""umiak's own names in a worker's environment, the same for every framework and every role. A decider.

UMIAK_RANK and UMIAK_WORLD_SIZE count the workers of the worker's own role. The names that a launcher takes as input
(UMIAK_NNODES, UMIAK_NODE_RANK, UMIAK_MASTER, ...) are never set: a launcher that is started inside a worker would
believe them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.contracts.worker import Worker

SERVERS = "UMIAK_SERVERS"
TRAINERS = "UMIAK_TRAINERS"
HETERS = "UMIAK_HETERS"
WORKERS_ON_HOST = "UMIAK_WORKERS_ON_HOST"

NAMES = frozenset(
    [
        "UMIAK_JOB_ID",
        "UMIAK_GENERATION",
        "UMIAK_RESTART_COUNT",
        "UMIAK_ROLE",
        "UMIAK_RANK",
        "UMIAK_WORLD_SIZE",
        "UMIAK_LOCAL_RANK",
        "UMIAK_LOCAL_SIZE",
        "UMIAK_NODE",
        "UMIAK_WORKER_NODE_RANK",
        "UMIAK_WORKERS_ON_HOST",
        "UMIAK_ENDPOINT",
        "UMIAK_STORE",
        "UMIAK_SERVERS",
        "UMIAK_TRAINERS",
        "UMIAK_HETERS",
    ]
)
"""Every name that this family may set."""


def environment(worker: Worker) -> dict[str, str]:
    """umiak's variables for one worker."""
    seat, cluster = worker.seat, worker.cluster
    variables = {
        "UMIAK_JOB_ID": cluster.job_id,
        "UMIAK_GENERATION": str(cluster.generation),
        "UMIAK_RESTART_COUNT": str(worker.setting.restart_count),
        "UMIAK_ROLE": seat.role.value,
        "UMIAK_RANK": str(seat.rank),
        "UMIAK_WORLD_SIZE": str(worker.world),
        "UMIAK_LOCAL_RANK": str(seat.local_rank),
        "UMIAK_LOCAL_SIZE": str(seat.local_size),
        "UMIAK_NODE": seat.node,
        "UMIAK_WORKER_NODE_RANK": str(seat.node_rank),
        WORKERS_ON_HOST: str(worker.workers_on_host),
        "UMIAK_ENDPOINT": seat.endpoint,
        "UMIAK_STORE": worker.store,
    }
    for name, endpoints in ((SERVERS, worker.servers), (TRAINERS, worker.trainers), (HETERS, worker.heters)):
        if endpoints:
            variables[name] = ",".join(endpoints)
    return variables
