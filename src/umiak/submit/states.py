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
    "modelarts": {
        "Creating": State.QUEUED,
        "Pending": State.QUEUED,
        "Running": State.RUNNING,
        "Terminating": State.STOPPING,
        "Completed": State.SUCCEEDED,
        "Failed": State.FAILED,
        "Abnormal": State.FAILED,
        "Terminated": State.CANCELLED,
    },
    "aihc": {
        "Created": State.QUEUED,
        "Pending": State.QUEUED,
        "Queued": State.QUEUED,
        "Scheduled": State.STARTING,
        "Starting": State.STARTING,
        "Running": State.RUNNING,
        "Restarting": State.RESTARTING,
        "Stopping": State.STOPPING,
        "Terminating": State.STOPPING,
        "Succeeded": State.SUCCEEDED,
        "Failed": State.FAILED,
        "ManualTermination": State.CANCELLED,
        "Stopped": State.CANCELLED,
    },
    "pai": {
        "Creating": State.QUEUED,
        "Queuing": State.QUEUED,
        "Bidding": State.QUEUED,
        "Pending": State.QUEUED,
        "EnvPreparing": State.STARTING,
        "SanityChecking": State.STARTING,
        "Running": State.RUNNING,
        "Restarting": State.RESTARTING,
        "Stopping": State.STOPPING,
        "SucceededReserving": State.STOPPING,
        "FailedReserving": State.STOPPING,
        "Succeeded": State.SUCCEEDED,
        "Failed": State.FAILED,
        "Stopped": State.CANCELLED,
    },
    "bml": {
        "CREATED": State.QUEUED,
        "PENDING": State.QUEUED,
        "QUEUING": State.QUEUED,
        "STARTING": State.STARTING,
        "RUNNING": State.RUNNING,
        "STOPPING": State.STOPPING,
        "FINISHED": State.SUCCEEDED,
        "SUCCEEDED": State.SUCCEEDED,
        "SUCCESS": State.SUCCEEDED,
        "FAILED": State.FAILED,
        "STOPPED": State.CANCELLED,
    },
}
"""By backend. A word that is missing here is a state that nobody knows: `state_of` says so."""


def state_of(backend: str, word: str) -> State | None:
    """Our word for a place's word; None if the table does not have it."""
    return STATES.get(backend, {}).get(word)
