"""How a run on a Ray cluster is, from what the dashboard says. A decider.

Ray calls a job running as soon as its driver does; the driver then waits for resources, which Ray's placement group tells.
"""

from __future__ import annotations

import signal

from umiak.core.cluster import Role
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.submit.states import state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

BACKEND = "ray"
GROUPS = "ray placement group"
ACTORS = "ray actor"
INFEASIBLE = "INFEASIBLE"


def status_of(
    job: Mapping[str, Any], groups: Sequence[Mapping[str, Any]] = (), actors: Sequence[Mapping[str, Any]] = ()
) -> JobStatus | None:
    """The status of a run; None if the word for it is not known. Groups and actors are those of the run."""
    word = str(job.get("status"))
    state = state_of(BACKEND, word)
    if state is None:
        return None
    reason = "" if state is State.RUNNING else _reason(job)
    if state is State.RUNNING:
        group = groups[0] if groups else {}
        placed = state_of(GROUPS, str(group.get("state"))) if group else State.STARTING
        state = placed or state
        if state is State.QUEUED:
            reason = _waits(group)
    code = job.get("driver_exit_code")
    if state is State.CANCELLED:
        code = 128 + signal.SIGTERM
    elif isinstance(code, int) and code < 0:
        code = 128 - code
    return JobStatus(
        state=state,
        said=word,
        reason=reason,
        exit_code=code if isinstance(code, int) else None,
        nodes=()
        if state.is_over
        else tuple(_node(each) for each in sorted(actors, key=lambda each: str(each.get("name")))),
        submitted_s=_seconds(job.get("start_time")),
        ended_s=_seconds(job.get("end_time")),
    )


def _reason(job: Mapping[str, Any]) -> str:
    """Ray's message without the log that it repeats."""
    code = job.get("driver_exit_code")
    if job.get("status") == "SUCCEEDED":
        return ""
    if job.get("error_type") == "JOB_ENTRYPOINT_COMMAND_ERROR" and isinstance(code, int):
        return f"exit code {code}" if code >= 0 else f"its driver was killed by signal {-code}"
    lines = [line.strip() for line in str(job.get("message") or "").splitlines() if line.strip()]
    kind = str(job.get("error_type") or "")
    said = " ".join([*lines[:1], *(lines[-1:] if len(lines) > 1 else [])])[:300]
    return f"{kind}: {said}" if kind else said


def _waits(group: Mapping[str, Any]) -> str:
    wanted: dict[str, int] = {}
    for bundle in group.get("bundles") or ():
        text = ", ".join(f"{name} {count:g}" for name, count in sorted((bundle.get("unit_resources") or {}).items()))
        wanted[text] = wanted.get(text, 0) + 1
    asked = ", ".join(f"{count} x ({text})" for text, count in wanted.items())
    why = str((group.get("stats") or {}).get("scheduling_state") or "")
    if why == INFEASIBLE:
        return f"no nodes of the cluster can hold it: {asked} ({why})"
    return f"waits for resources: {asked}" + (f" ({why})" if why else "")


def _node(actor: Mapping[str, Any]) -> NodeStatus:
    name = str(actor.get("name")).rpartition("/")[2]
    word, _, number = name.partition(".")
    role = next((each for each in Role if each.value == word), None)
    state = state_of(ACTORS, str(actor.get("state"))) or State.RUNNING
    return NodeStatus(name=name, role=role, rank=int(number) if number.isdecimal() else None, state=state)


def _seconds(said: object) -> float | None:
    return said / 1000 if isinstance(said, (int, float)) and said else None
