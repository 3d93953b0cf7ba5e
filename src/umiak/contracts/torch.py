"""What PyTorch reads from a worker's environment: the variables of torchrun. A decider.

They go to trainers of every mode, also beside parameter servers, where trainers may well average dense gradients among
themselves: RANK and WORLD_SIZE count trainers. Servers and heter workers get none of them, because a program that
finds RANK joins the trainers' process group, and one server too many in it hangs everybody.

MASTER_ADDR and MASTER_PORT are PADDLE_MASTER in two parts: Paddle reads these first. The first trainer opens the store
(TORCHELASTIC_USE_AGENT_STORE=False); the launcher opens none.

A script that is decorated with torch's ``@record`` writes the exception that ended it to TORCHELASTIC_ERROR_FILE,
one file for each worker and each start; the launcher reads it when the worker has failed.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.contracts.worker import Worker

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"

NAMES = frozenset(
    [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "NODE_RANK",
        "ROLE_NAME",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
        "TORCHELASTIC_USE_AGENT_STORE",
        "TORCHELASTIC_ERROR_FILE",
        "TORCHELASTIC_SIGNALS_TO_HANDLE",
    ]
)
"""Every name that this family may set."""


def environment(worker: Worker) -> dict[str, str]:
    """PyTorch's variables for one worker; none unless it is a trainer."""
    if not worker.is_trainer:
        return {}
    seat, setting, world = worker.seat, worker.setting, str(worker.world)
    return {
        "RANK": str(seat.rank),
        "WORLD_SIZE": world,
        "LOCAL_RANK": str(seat.local_rank),
        "LOCAL_WORLD_SIZE": str(seat.local_size),
        "GROUP_RANK": str(worker.group),
        "GROUP_WORLD_SIZE": str(worker.groups),
        "NODE_RANK": str(worker.group),
        "ROLE_NAME": setting.role_name,
        "ROLE_RANK": str(seat.rank),
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": worker.store_host,
        "MASTER_PORT": str(worker.store_port),
        "TORCHELASTIC_RUN_ID": worker.cluster.job_id,
        "TORCHELASTIC_RESTART_COUNT": str(setting.restart_count),
        "TORCHELASTIC_MAX_RESTARTS": str(setting.max_restarts),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        ERROR_FILE: os.path.join(
            setting.log_dir, f"error.{seat.key}.{worker.cluster.generation}-{setting.restart_count}.json"
        ),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": setting.signals,
    }
