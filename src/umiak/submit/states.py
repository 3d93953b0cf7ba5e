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
    "ssh": {
        "queued": State.QUEUED,
        "starting": State.STARTING,
        "running": State.RUNNING,
        "unreachable": State.RUNNING,
        "restarting": State.RESTARTING,
        "stopping": State.STOPPING,
        "succeeded": State.SUCCEEDED,
        "failed": State.FAILED,
        "cancelled": State.CANCELLED,
        "lost": State.LOST,
    },
    "slurm": {
        "PENDING": State.QUEUED,
        "REQUEUED": State.QUEUED,
        "REQUEUE_HOLD": State.QUEUED,
        "REQUEUE_FED": State.QUEUED,
        "SPECIAL_EXIT": State.QUEUED,
        "RESV_DEL_HOLD": State.QUEUED,
        "EXPEDITING": State.QUEUED,
        "LAUNCH_FAILED": State.QUEUED,
        "SUSPENDED": State.QUEUED,
        "CONFIGURING": State.STARTING,
        "POWER_UP_NODE": State.STARTING,
        "RUNNING": State.RUNNING,
        "RESIZING": State.RUNNING,
        "SIGNALING": State.RUNNING,
        "STOPPED": State.RUNNING,
        "COMPLETING": State.STOPPING,
        "STAGE_OUT": State.STOPPING,
        "UPDATE_DB": State.STOPPING,
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
    "kubernetes": {
        "Suspended": State.QUEUED,
        "Pending": State.QUEUED,
        "Unschedulable": State.QUEUED,
        "Starting": State.STARTING,
        "Running": State.RUNNING,
        "Restarting": State.RESTARTING,
        "Completing": State.STOPPING,
        "Terminating": State.STOPPING,
        "Complete": State.SUCCEEDED,
        "Failed": State.FAILED,
        "Cancelled": State.CANCELLED,
        "NotFound": State.LOST,
    },
    "paddlecloud": {
        "submit": State.QUEUED,
        "queue": State.QUEUED,
        "schedule": State.STARTING,
        "running": State.RUNNING,
        "killing": State.STOPPING,
        "success": State.SUCCEEDED,
        "fail": State.FAILED,
        "killed": State.CANCELLED,
    },
    "ray": {
        "PENDING": State.QUEUED,
        "RUNNING": State.RUNNING,
        "STOPPED": State.CANCELLED,
        "SUCCEEDED": State.SUCCEEDED,
        "FAILED": State.FAILED,
    },
}
"""By backend. A word that is missing here is a state that nobody knows: `state_of` says so."""


def state_of(backend: str, word: str) -> State | None:
    """Our word for a place's word; None if the table does not have it."""
    return STATES.get(backend, {}).get(word)
