"""How a run is on one machine, from what its files and processes say. A decider.

A run is over when its supervisor wrote how it ended. A supervisor that is gone without having done so was killed: the
run is stopping while one of its launchers still ends, and lost then. It is restarting while one of its launchers says
so.
"""

from __future__ import annotations

from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import value
from umiak.submit.states import STATES, end_of_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.node_report import NodeReport
    from umiak.submit.node.plan import PlannedLauncher, RunPlan

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
    reports: Mapping[str, NodeReport] = {}
    """What launchers have written about themselves."""


def status_of(plan: RunPlan, facts: RunFacts) -> JobStatus:
    """The state of a run and of its launchers."""
    word, reason = _word(facts)
    end = facts.end
    return JobStatus(
        state=STATES["local"][word],
        said=word,
        reason=reason,
        exit_code=end.exit_code if end else None,
        nodes=tuple(_node(each, word, facts) for each in plan.launchers),
        started_s=facts.started_s,
        ended_s=end.ended_s if end else None,
    )


def _word(facts: RunFacts) -> tuple[str, str]:
    """The word of the table in `umiak.submit.states`, and why."""
    end = facts.end
    if end is not None:
        if end.is_cancelled:
            return "cancelled", end.stopped
        return ("failed" if end.exit_code else "succeeded"), end.stopped or _why_failed(end, facts.reports)
    if not facts.is_claimed:
        if facts.age_s < WAITING_S:
            return "waiting", ""
        return "not started", "the client ended before it could start the job"
    if facts.is_supervised:
        if facts.is_cancelled:
            return "stopping", "it was cancelled"
        if facts.started_s is None:
            return "starting", ""
        return _running(facts)
    if facts.alive:
        return "stopping", "its supervisor was killed"
    if facts.is_cancelled:
        return "cancelled", "its supervisor was killed before"
    if facts.is_other_boot:
        return "killed", "the machine was restarted; how the job ended is not known"
    if facts.reports and all(each.state.is_over for each in facts.reports.values()):
        return "killed", "its supervisor was killed, and its launchers have ended their workers then"
    return "killed", "its supervisor was killed; how the job ended is not known"


def _running(facts: RunFacts) -> tuple[str, str]:
    own = [report for name, report in sorted(facts.reports.items()) if name in facts.alive]
    for report in own:
        if report.state is State.RESTARTING:
            return "restarting", report.reason
    return "running", next((each.story for each in own if each.restarts), "")


def _why_failed(end: RunEnd, reports: Mapping[str, NodeReport]) -> str:
    if not end.exit_code:
        return ""
    first = next((name for name, code in end.exit_codes.items() if code), "")
    report = reports.get(first)
    reason = report.reason if report and report.exit_code == end.exit_code else ""
    return f"exit code {end.exit_code}" + (f": {reason}" if reason else "")


def _node(launcher: PlannedLauncher, word: str, facts: RunFacts) -> NodeStatus:
    end, report = facts.end, facts.reports.get(launcher.name)
    code = end.exit_codes.get(launcher.name) if end else None
    if code is None and report and launcher.name not in facts.alive:
        code = report.exit_code
    state = _state_of_launcher(launcher.name, word, facts)
    return NodeStatus(
        name=launcher.node or launcher.name,
        host=report.host if report else "",
        role=launcher.role,
        rank=launcher.first_rank if launcher.role else None,
        state=state,
        exit_code=code,
        reason=report.reason_in(state) if report else "",
    )


def _state_of_launcher(name: str, word: str, facts: RunFacts) -> State:
    if facts.end is not None and name in facts.end.exit_codes:
        code = facts.end.exit_codes[name]
        return end_of_node(STATES["local"][word], State.FAILED if code else State.SUCCEEDED, code)
    report = facts.reports.get(name)
    if name in facts.alive:
        if word == "stopping":
            return State.STOPPING
        return report.state if report and not report.state.is_over else State.RUNNING
    if report and report.state.is_over and word in ("running", "restarting", "stopping"):
        return report.state
    return STATES["local"][word]
