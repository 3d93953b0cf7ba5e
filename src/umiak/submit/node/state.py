"""How a run is on one machine, from what its files and processes say. A decider.

A run is over when its supervisor wrote how it ended. A supervisor that is gone without having done so was killed: the run is
stopping while one of its launchers still ends, and lost then.
"""

from __future__ import annotations

from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import value
from umiak.submit.states import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.submit.node.plan import RunPlan

WAITING_S = 60.0
"""A supervisor takes a fraction of a second to begin. A run that has none after this long never gets one."""


@value
class RunEnd:
    """What a supervisor wrote when its run was over."""

    exit_code: int
    ended_s: float
    stopped: str = ""
    """Why the supervisor stopped it; empty: it ended by itself."""
    is_cancelled: bool = False
    exit_codes: Mapping[str, int]
    """By launcher."""


@value
class RunFacts:
    """What can be seen of a run."""

    age_s: float
    """Since it was written down."""
    is_claimed: bool = False
    """Whether a supervisor has begun."""
    is_supervised: bool = False
    """Whether it is there now."""
    is_other_boot: bool = False
    """Whether the machine was restarted since."""
    started_s: float | None = None
    """When the launchers were started; None: they were not."""
    alive: frozenset[str] = frozenset()
    """Launchers that run."""
    is_cancelled: bool = False
    """Whether somebody asked for its end."""
    end: RunEnd | None = None


def status_of(plan: RunPlan, facts: RunFacts) -> JobStatus:
    """The state of a run and of its launchers."""
    word, reason = _word(facts)
    end = facts.end
    nodes = tuple(
        NodeStatus(
            name=each.node or each.name,
            role=each.role,
            rank=each.first_rank if each.role else None,
            state=_state_of_launcher(each.name, word, facts),
            exit_code=end.exit_codes.get(each.name) if end else None,
        )
        for each in plan.launchers
    )
    return JobStatus(
        state=STATES["local"][word],
        said=word,
        reason=reason,
        exit_code=end.exit_code if end else None,
        nodes=nodes,
        started_s=facts.started_s,
        ended_s=end.ended_s if end else None,
    )


def _word(facts: RunFacts) -> tuple[str, str]:
    """The word of the table in `umiak.submit.states`, and why."""
    end = facts.end
    if end is not None:
        if end.is_cancelled:
            return "cancelled", end.stopped
        reason = end.stopped or (f"exit code {end.exit_code}" if end.exit_code else "")
        return ("failed" if end.exit_code else "succeeded"), reason
    if not facts.is_claimed:
        if facts.age_s < WAITING_S:
            return "waiting", ""
        return "not started", "the client ended before it could start the job"
    if facts.is_supervised:
        if facts.is_cancelled:
            return "stopping", "it was cancelled"
        return ("starting" if facts.started_s is None else "running"), ""
    if facts.alive:
        return "stopping", "its supervisor was killed"
    if facts.is_cancelled:
        return "cancelled", "its supervisor was killed before"
    why = "the machine was restarted" if facts.is_other_boot else "its supervisor was killed"
    return "killed", f"{why}; how the job ended is not known"


def _state_of_launcher(name: str, word: str, facts: RunFacts) -> State:
    if facts.end is not None and name in facts.end.exit_codes:
        return State.FAILED if facts.end.exit_codes[name] else State.SUCCEEDED
    if name in facts.alive:
        return State.STOPPING if word == "stopping" else State.RUNNING
    return STATES["local"][word]
