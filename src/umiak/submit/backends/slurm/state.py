"""How a run is, from what Slurm says about its job and from what the run itself wrote. A decider.

Slurm forgets an ended job after some minutes (MinJobAge), and accounting, which remembers it, is not everywhere.
What job.sh wrote as its last counts then.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.names import is_digits
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import value
from umiak.submit.states import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.submit.backends.shared.layout import RunInfo

SACCT_FIELDS = ("JobID", "State", "ExitCode", "Submit", "Start", "End", "NodeList", "Reason")
SCONTROL_FIELDS = ("JobId", "JobState", "ExitCode", "SubmitTime", "StartTime", "EndTime", "NodeList", "Reason")
EARLY_S = 60
"""So much earlier than it is asked to Slurm may signal that the time limit is near."""


@value
class SlurmJob:
    """One component of a job, or all of it."""

    id: str
    said: str
    """The state, in Slurm's word."""
    reason: str = ""
    exit_code: int | None = None
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    nodes: str = ""
    restarts: int = 0

    @property
    def state(self) -> State | None:
        return STATES["slurm"].get(self.said)


@value
class SlurmFacts:
    """What can be seen of a run."""

    job_id: str = ""
    """Empty: no job was found."""
    jobs: tuple[SlurmJob, ...] = ()
    """The components that Slurm knows; none if it has forgotten the job."""
    is_cancelled: bool = False
    exit_code: int | None = None
    """That job.sh wrote; None if it has not ended by itself."""
    ended_s: float | None = None


def from_scontrol(text: str) -> tuple[SlurmJob, ...]:
    """The components in ``scontrol show job --oneliner``, times in seconds since 1970."""
    states = []
    for line in text.splitlines():
        words: dict[str, str] = {}
        for word in line.split(" "):
            name, equals, value = word.partition("=")
            if equals:
                words.setdefault(name, value)  # a name in a path or a comment comes later
        if "JobState" in words:
            states.append(_job(words, SCONTROL_FIELDS))
    return tuple(states)


def from_sacct(text: str) -> tuple[SlurmJob, ...]:
    """The components in ``sacct --parsable2 --allocations`` with `SACCT_FIELDS`."""
    rows = [line.split("|") for line in text.splitlines()]
    return tuple(
        _job(dict(zip(SACCT_FIELDS, row, strict=True)), SACCT_FIELDS) for row in rows if len(row) == len(SACCT_FIELDS)
    )


def _job(words: dict[str, str], names: tuple[str, ...]) -> SlurmJob:
    job_id, state, code, submitted, started, ended, nodes, reason = (words.get(name, "") for name in names)
    number, _, signal = code.partition(":")
    is_told = is_digits(number) and is_digits(signal or "0")
    restarts = words.get("Restarts", "0")
    return SlurmJob(
        id=job_id,
        said=state.split(" ")[0].rstrip("+"),  # CANCELLED by 1000
        reason="" if reason in ("None", "(null)") else reason,
        exit_code=(int(number) or (128 + int(signal) if int(signal or 0) else 0)) if is_told else None,
        submitted_s=_time(submitted),
        started_s=_time(started),
        ended_s=_time(ended),
        nodes="" if nodes in ("(null)", "None assigned") else nodes,
        restarts=int(restarts) if is_digits(restarts) else 0,
    )


def _time(text: str) -> float | None:
    return float(text) if is_digits(text) and int(text) else None


def status_of(info: RunInfo, facts: SlurmFacts) -> JobStatus:
    """The state of a run and of its nodes."""
    job = _deciding(facts.jobs)
    if job is None:
        return _forgotten(facts)
    state = job.state
    reason = job.reason
    exit_code = None
    if state is None:
        state, reason = State.RUNNING, f"Slurm says what nobody here knows: {job.said}"
    if state.is_over:
        exit_code = facts.exit_code if facts.exit_code is not None else job.exit_code
        if facts.is_cancelled:
            state, reason = State.CANCELLED, "cancelled"
        elif state is State.FAILED:
            reason = _why(info, job, exit_code) or reason
    elif facts.is_cancelled and state is not State.QUEUED:
        state, reason = State.STOPPING, "it was cancelled"
    elif job.restarts and state is State.QUEUED:
        reason = f"{reason or 'waiting'}; Slurm starts it again (restart {job.restarts})"
    first = facts.jobs[0]
    return JobStatus(
        state=state,
        said=job.said,
        reason=reason,
        exit_code=exit_code,
        nodes=_nodes(info, facts, state),
        submitted_s=first.submitted_s,
        started_s=None if state is State.QUEUED else first.started_s,
        ended_s=(facts.ended_s or first.ended_s) if state.is_over else None,
    )


def _deciding(jobs: tuple[SlurmJob, ...]) -> SlurmJob | None:
    """The component that tells how the whole is: one that is not over, else one that did not succeed."""
    lively = [each for each in jobs if each.state is None or not each.state.is_over]
    unlucky = [each for each in jobs if each.state is not State.SUCCEEDED]
    return next(iter([*lively, *unlucky, *jobs]), None)


def _forgotten(facts: SlurmFacts) -> JobStatus:
    """Slurm knows no such job, any more or yet."""
    if facts.exit_code is not None:
        state = State.SUCCEEDED if facts.exit_code == 0 else State.FAILED
        reason = f"exit code {facts.exit_code}" if facts.exit_code else ""
        if facts.is_cancelled:
            state, reason = State.CANCELLED, "cancelled"
        return JobStatus(state=state, reason=reason, exit_code=facts.exit_code, ended_s=facts.ended_s)
    if facts.is_cancelled:
        return JobStatus(state=State.CANCELLED, reason="cancelled")
    why = f"Slurm has forgotten job {facts.job_id}" if facts.job_id else "Slurm has no job with its name"
    return JobStatus(state=State.LOST, reason=f"{why}, and it did not write how it ended")


def _why(info: RunInfo, job: SlurmJob, exit_code: int | None) -> str:
    if job.said == "TIMEOUT":
        return "the time limit is over"
    began, ended, limit_s = job.started_s, job.ended_s, info.time_limit_s
    # The signal before the limit has ended it.
    if exit_code == 143 and began and ended and limit_s and ended - began >= limit_s - info.stop_time_s - EARLY_S:
        return "SIGTERM: the time limit is near"
    return f"exit code {exit_code}" if exit_code and job.said == "FAILED" else ""


def _nodes(info: RunInfo, facts: SlurmFacts, state: State) -> tuple[NodeStatus, ...]:
    """The nodes of each role, as far as Slurm has chosen them.
    Those of a job that waits to be started again are no longer its own.
    """
    if state is State.QUEUED:
        return ()
    from umiak.platforms.slurm import expand  # a dry run never needs it

    nodes = []
    for number, job in enumerate(facts.jobs):
        group = info.roles[number] if number < len(info.roles) else None
        try:
            hosts = expand(job.nodes) if job.nodes else ()
        except ValueError:
            hosts = (job.nodes,)
        role = Role(group.role) if group else None
        nodes += [
            NodeStatus(name=host, host=host, role=role, rank=rank, state=state) for rank, host in enumerate(hosts)
        ]
    return tuple(nodes)
