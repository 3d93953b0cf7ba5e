"""What was read of a run's files, and the row that follows from it. A decider.

    row_of(FactsOfRun(...), now_s)

The files of a run do not say that its launcher was killed; that no process keeps them locked does.
"""

from __future__ import annotations

import math

from umiak.core.shown import one_line
from umiak.core.status import State
from umiak.core.value import replace, value
from umiak.dashboard.rows import UNREADABLE, RunKind, RunRow
from umiak.dashboard.trained.curves import Curves, last_metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.core.node_report import NodeReport
    from umiak.dashboard.rows import SubmissionSight

LONGEST_NAME = 200
LOST_LAUNCHER = "its launcher ended without writing how: it was killed, or the machine was"
LOST_TRAINER = "it ended without writing how: it failed or was killed; its output says more"


@value
class LauncherFacts:
    """One launcher's log directory."""

    directory: str
    report: NodeReport | None = None
    is_locked: bool = False
    """A process of this machine writes its journal."""
    is_here: bool = True
    """The launcher was of this machine, as far as that can be known."""
    job_id: str = ""
    began_s: float | None = None
    nodes: int | None = None
    changed_s: float = 0.0
    problem: str = ""


@value
class TrainerFacts:
    """The run directory of `umiak train`."""

    directory: str
    is_locked: bool = False
    outcome: JsonObject | None = None
    began_s: float | None = None
    changed_s: float = 0.0
    curves: Curves | None = None
    problem: str = ""


@value
class FactsOfRun:
    """Everything that was read of one run."""

    id: str
    name: str
    directory: str
    launchers: tuple[LauncherFacts, ...] = ()
    trainer: TrainerFacts | None = None
    submitted: SubmissionSight | None = None


def row_of(facts: FactsOfRun) -> RunRow:
    """The row of a run."""
    state, reason = _state(facts)
    began = [each.began_s for each in (*facts.launchers, *([facts.trainer] if facts.trainer else ())) if each.began_s]
    changed = [each.changed_s for each in (*facts.launchers, *([facts.trainer] if facts.trainer else ()))]
    submitted = facts.submitted
    started_s = min(began, default=submitted.started_s or submitted.submitted_s if submitted else None)
    is_over = state in _OVER
    changed_s = max(changed, default=None)
    curves = facts.trainer.curves if facts.trainer else None
    metric, number, sparkline = last_metric(curves) if curves else ("", None, ())
    latest = curves.latest if curves else {}
    expected = max([each.nodes or 1 for each in facts.launchers], default=None)
    up = sum(each.is_locked or not each.is_here for each in facts.launchers if not is_over)
    row = RunRow(
        id=facts.id,
        kind=RunKind.SUBMITTED if submitted else RunKind.TRAINED if facts.trainer else RunKind.LAUNCHED,
        name=one_line(facts.name, LONGEST_NAME),
        place=submitted.place if submitted else "here",
        directory=submitted.directory if submitted else facts.directory,
        state=state,
        reason=one_line(reason, 1000),
        started_s=started_s,
        ended_s=(submitted.ended_s if submitted and submitted.ended_s else changed_s) if is_over else None,
        changed_s=changed_s if changed_s is not None else submitted.submitted_s if submitted else None,
        epoch=_whole(latest.get("epoch")),
        step=_whole(latest.get("batch")),
        samples_per_s=_number(latest.get("samples_per_s")),
        metric=metric,
        metric_value=number,
        sparkline=sparkline,
        nodes_up=up if expected is not None and not is_over else None,
        nodes_expected=expected,
        restarts=max([each.report.restarts for each in facts.launchers if each.report], default=0),
    )
    return row if submitted is None or facts.launchers else _as_told(row, submitted)


def _as_told(row: RunRow, submitted: SubmissionSight) -> RunRow:
    """Of a run elsewhere, what its place has told of it."""
    return replace(
        row,
        epoch=submitted.epoch,
        step=submitted.step,
        samples_per_s=submitted.samples_per_s,
        metric=submitted.metric,
        metric_value=submitted.metric_value,
        nodes_up=None if row.ended_s is not None else submitted.nodes_up,
        nodes_expected=submitted.nodes_expected,
    )


_OVER = frozenset({each.value for each in State if each.is_over} | {UNREADABLE})


def _state(facts: FactsOfRun) -> tuple[str, str]:
    problems = [each.problem for each in facts.launchers if each.problem]
    if facts.trainer is not None and facts.trainer.problem:
        problems.append(facts.trainer.problem)
    submitted = facts.submitted
    if submitted is not None and submitted.state:
        return submitted.state, submitted.reason
    if problems:
        return UNREADABLE, "; ".join(problems)
    if facts.launchers:
        return _state_of_launchers(facts)
    if facts.trainer is not None:
        return _state_of_trainer(facts.trainer)
    if submitted is not None:
        return State.STARTING.value, "its place has not said how it is"
    return UNREADABLE, "there is nothing in it"


def _state_of_launchers(facts: FactsOfRun) -> tuple[str, str]:
    told = [_state_of_launcher(each) for each in facts.launchers]
    for state in _BY_IMPORTANCE:
        for each, reason in told:
            if each is state:
                return state.value, reason
    return told[0][0].value, told[0][1]


_BY_IMPORTANCE = (
    State.RESTARTING,
    State.RUNNING,
    State.STOPPING,
    State.STARTING,
    State.QUEUED,
    State.FAILED,
    State.LOST,
    State.CANCELLED,
    State.SUCCEEDED,
)
"""Of a run with several launchers: what one of them still does counts before how others ended."""


def _state_of_launcher(launcher: LauncherFacts) -> tuple[State, str]:
    report = launcher.report
    if report is None:
        return (State.STARTING, "") if launcher.is_locked else (State.LOST, LOST_LAUNCHER)
    if report.state.is_over:
        return report.state, report.reason
    if launcher.is_locked:
        return report.state, report.reason_in(report.state)
    if launcher.is_here:
        return State.LOST, LOST_LAUNCHER
    return report.state, f"on {report.host}, as it last said"


def _state_of_trainer(trainer: TrainerFacts) -> tuple[str, str]:
    if trainer.is_locked:
        return State.RUNNING.value, ""
    if trainer.outcome is None:
        return State.LOST.value, LOST_TRAINER
    if trainer.outcome.get("stopped"):
        hint = "; `--resume` goes on" if trainer.outcome.get("resumable") else ""
        return State.CANCELLED.value, f"it was stopped before its end{hint}"
    return State.SUCCEEDED.value, ""


def _whole(item: object) -> int | None:
    return item if isinstance(item, int) and not isinstance(item, bool) else None


def _number(item: object) -> float | None:
    if isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item):
        return float(item)
    return None
