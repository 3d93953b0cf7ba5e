"""The words of every place for the state of a job, and what they mean here: one table. Values.

state_of("slurm", "COMPLETING")     State.STOPPING
"""

from __future__ import annotations

from umiak.core.status import State

STATES = {
    "local": {
        "waiting": State.QUEUED,
        "starting": State.STARTING,
        "running": State.RUNNING,
        "stopping": State.STOPPING,
        "succeeded": State.SUCCEEDED,
        "failed": State.FAILED,
        "cancelled": State.CANCELLED,
        "not started": State.LOST,
        "killed": State.LOST,
    },
    "slurm": {
        "PENDING": State.QUEUED,
        "REQUEUED": State.QUEUED,
        "REQUEUE_HOLD": State.QUEUED,
        "REQUEUE_FED": State.QUEUED,
        "SPECIAL_EXIT": State.QUEUED,
        "RESV_DEL_HOLD": State.QUEUED,
        "SUSPENDED": State.QUEUED,
        "CONFIGURING": State.STARTING,
        "RUNNING": State.RUNNING,
        "RESIZING": State.RUNNING,
        "SIGNALING": State.RUNNING,
        "STOPPED": State.RUNNING,
        "COMPLETING": State.STOPPING,
        "STAGE_OUT": State.STOPPING,
        "COMPLETED": State.SUCCEEDED,
        "FAILED": State.FAILED,
        "TIMEOUT": State.FAILED,
        "DEADLINE": State.FAILED,
        "OUT_OF_MEMORY": State.FAILED,
        "NODE_FAIL": State.FAILED,
        "BOOT_FAIL": State.FAILED,
        "PREEMPTED": State.CANCELLED,
        "CANCELLED": State.CANCELLED,
        "REVOKED": State.CANCELLED,
    },
    "ray": {
        "PENDING": State.QUEUED,
        "RUNNING": State.RUNNING,
        "STOPPED": State.CANCELLED,
        "SUCCEEDED": State.SUCCEEDED,
        "FAILED": State.FAILED,
    },
    "ray placement group": {
        "PENDING": State.QUEUED,
        "PREPARED": State.STARTING,
        "CREATED": State.RUNNING,
        "RESCHEDULING": State.RESTARTING,
        "REMOVED": State.STOPPING,
    },
    "ray actor": {
        "DEPENDENCIES_UNREADY": State.STARTING,
        "PENDING_CREATION": State.STARTING,
        "ALIVE": State.RUNNING,
        "RESTARTING": State.RESTARTING,
        "DEAD": State.STOPPING,
    },
}
"""By backend; Ray has words of its own for what a running job is made of. A word that is missing here is a state that nobody knows: `state_of` says so."""


def state_of(backend: str, word: str) -> State | None:
    """Our word for a place's word; None if the table does not have it."""
    return STATES.get(backend, {}).get(word)
