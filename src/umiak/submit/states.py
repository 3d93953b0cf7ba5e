"""The words of every place for the state of a job, and what they mean here: one table. Values, and a decider.

state_of("slurm", "COMPLETING")                      State.STOPPING
outcome([State.SUCCEEDED, State.LOST], is_elastic=True)  State.SUCCEEDED
"""

from __future__ import annotations

from umiak.core.status import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

STOPPED_CODES = (130, 137, 143)
"""Exit codes of a launcher that was asked to end, or killed because it did not: SIGINT, SIGKILL, SIGTERM."""

_WORDS = {
    "local": {
        State.QUEUED: "waiting",
        State.STARTING: "starting",
        State.RUNNING: "running",
        State.RESTARTING: "restarting",
        State.STOPPING: "stopping",
        State.SUCCEEDED: "succeeded",
        State.FAILED: "failed",
        State.CANCELLED: "cancelled",
        State.LOST: "not started, killed",
    },
    "ssh": {
        State.QUEUED: "queued",
        State.STARTING: "starting",
        State.RUNNING: "running, unreachable",
        State.RESTARTING: "restarting",
        State.STOPPING: "stopping",
        State.SUCCEEDED: "succeeded",
        State.FAILED: "failed",
        State.CANCELLED: "cancelled",
        State.LOST: "lost",
    },
    "slurm": {
        State.QUEUED: "PENDING, REQUEUED, REQUEUE_HOLD, REQUEUE_FED, SPECIAL_EXIT, RESV_DEL_HOLD, EXPEDITING, LAUNCH_FAILED, SUSPENDED",
        State.STARTING: "CONFIGURING, POWER_UP_NODE",
        State.RUNNING: "RUNNING, RESIZING, SIGNALING, STOPPED",
        State.STOPPING: "COMPLETING, STAGE_OUT, UPDATE_DB",
        State.SUCCEEDED: "COMPLETED",
        State.FAILED: "FAILED, TIMEOUT, DEADLINE, OUT_OF_MEMORY, NODE_FAIL, BOOT_FAIL",
        State.CANCELLED: "PREEMPTED, CANCELLED, REVOKED",
    },
    "kubernetes": {
        State.QUEUED: "Suspended, Pending, Unschedulable",
        State.STARTING: "Starting",
        State.RUNNING: "Running",
        State.RESTARTING: "Restarting",
        State.STOPPING: "Completing, Terminating",
        State.SUCCEEDED: "Complete",
        State.FAILED: "Failed",
        State.CANCELLED: "Cancelled",
        State.LOST: "NotFound",
    },
    "paddlecloud": {
        State.QUEUED: "submit, queue",
        State.STARTING: "schedule",
        State.RUNNING: "running",
        State.STOPPING: "killing",
        State.SUCCEEDED: "success",
        State.FAILED: "fail",
        State.CANCELLED: "killed",
    },
    "ray": {
        State.QUEUED: "PENDING",
        State.RUNNING: "RUNNING",
        State.CANCELLED: "STOPPED",
        State.SUCCEEDED: "SUCCEEDED",
        State.FAILED: "FAILED",
    },
    "modelarts": {
        State.QUEUED: "Creating, Pending",
        State.RUNNING: "Running",
        State.STOPPING: "Terminating",
        State.SUCCEEDED: "Completed",
        State.FAILED: "Failed, Abnormal",
        State.CANCELLED: "Terminated",
    },
    "aihc": {
        State.QUEUED: "Created, Pending, Queued",
        State.STARTING: "Scheduled, Starting",
        State.RUNNING: "Running",
        State.RESTARTING: "Restarting",
        State.STOPPING: "Stopping, Terminating",
        State.SUCCEEDED: "Succeeded",
        State.FAILED: "Failed",
        State.CANCELLED: "ManualTermination, Stopped",
    },
    "pai": {
        State.QUEUED: "Creating, Queuing, Bidding, Pending",
        State.STARTING: "EnvPreparing, SanityChecking",
        State.RUNNING: "Running",
        State.RESTARTING: "Restarting",
        State.STOPPING: "Stopping, SucceededReserving, FailedReserving",
        State.SUCCEEDED: "Succeeded",
        State.FAILED: "Failed",
        State.CANCELLED: "Stopped",
    },
    "bml": {
        State.QUEUED: "CREATED, PENDING, QUEUING",
        State.STARTING: "STARTING",
        State.RUNNING: "RUNNING",
        State.STOPPING: "STOPPING",
        State.SUCCEEDED: "FINISHED, SUCCEEDED, SUCCESS",
        State.FAILED: "FAILED",
        State.CANCELLED: "STOPPED",
    },
    "ray placement group": {
        State.QUEUED: "PENDING",
        State.STARTING: "PREPARED",
        State.RUNNING: "CREATED",
        State.RESTARTING: "RESCHEDULING",
        State.STOPPING: "REMOVED",
    },
    "ray actor": {
        State.STARTING: "DEPENDENCIES_UNREADY, PENDING_CREATION",
        State.RUNNING: "ALIVE",
        State.RESTARTING: "RESTARTING",
        State.STOPPING: "DEAD",
    },
}
STATES = {
    backend: {word: state for state, words in table.items() for word in words.split(", ")}
    for backend, table in _WORDS.items()
}
"""By backend; Ray has words of its own for what a running job is made of.
A word that is missing here is a state that nobody knows: `state_of` says so.
"""


def state_of(backend: str, word: str) -> State | None:
    """Our word for a place's word; None if the table does not have it."""
    return STATES.get(backend, {}).get(word)


def outcome(ends: Collection[State], *, is_elastic: bool) -> State:
    """How a job ended whose launchers, or hosts, ended so. A launcher of an elastic job ends well only
    if the whole job is done: nodes that were lost on the way don't count then.
    """
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
