"""The words of every place for the state of a job, and what they mean here: one table. Values, and a decider.

state_of("slurm", "COMPLETING")                          State.STOPPING
outcome([State.SUCCEEDED, State.LOST], is_elastic=True)  State.SUCCEEDED
"""

from __future__ import annotations

from umiak.core.status import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

STOPPED_CODES = (130, 137, 143)
"""Exit codes of a launcher that was asked to end, or killed because it did not: SIGINT, SIGKILL, SIGTERM."""

STATES = {
    "local": {
        "waiting": State.QUEUED,
        "starting": State.STARTING,
        "running": State.RUNNING,
        "restarting": State.RESTARTING,
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


def outcome(ends: Collection[State], *, is_elastic: bool) -> State:
    """How a job ended whose launchers, or hosts, ended so. A launcher of an elastic job ends well only if the whole job is done: nodes
    that were lost on the way don't count then."""
    if is_elastic and State.SUCCEEDED in ends:
        return State.SUCCEEDED
    for state in (State.FAILED, State.LOST, State.CANCELLED):
        if state in ends:
            return state
    return State.SUCCEEDED if ends else State.LOST


def end_of_node(job: State, node: State, exit_code: int | None) -> State:
    """A node's state in a job: one that was told to end because the job was cancelled has not failed by itself."""
    is_stopped = node is State.FAILED and exit_code in STOPPED_CODES
    return State.CANCELLED if job is State.CANCELLED and is_stopped else node
