"""How a run on a Ray cluster is, from what the dashboard says. A decider.

Ray calls a job running as soon as its driver does;
the driver then waits for resources, which Ray's placement group tells.
"""

from __future__ import annotations

import signal

from umiak.core import node_report
from umiak.core.cluster import Role
from umiak.core.status import JobStatus, NodeStatus, State
from umiak.core.value import replace
from umiak.submit.backends.ray.plan import PLACE
from umiak.submit.states import end_of_node, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from umiak.core.json_types import JsonMapping
    from umiak.core.node_report import NodeReport

    T = TypeVar("T")

BACKEND = "ray"
GROUPS = "ray placement group"
ACTORS = "ray actor"
INFEASIBLE = "INFEASIBLE"


def has_ended(job: JsonMapping) -> bool:
    """Whether a job of the dashboard is over."""
    state = state_of(BACKEND, str(job.get("status")))
    return state is not None and state.is_over


def reports_in(text: str) -> dict[str, NodeReport]:
    """What the driver has written about its nodes, by name: one JSON object to a line, of which the last counts."""
    reports: dict[str, NodeReport] = {}
    for line in text.splitlines():
        name, _, report = line.partition(" ")
        report_of_node = node_report.from_text(report)
        if report_of_node:
            reports[name] = report_of_node
    return reports


def places_in(text: str) -> dict[str, str]:
    """From the same file: Ray's ids of the nodes on which those of the run are, by name."""
    import json

    places: dict[str, str] = {}
    for line in text.splitlines():
        name, _, text_of_node = line.partition(" ")
        try:
            data = json.loads(text_of_node)
        except ValueError:
            continue
        if isinstance(data, dict) and isinstance(data.get(PLACE), str):
            places[name] = data[PLACE]
    return in_order(places)


def living_in(actors: Sequence[JsonMapping]) -> dict[str, str]:
    """The same of the actors of a run that are alive."""
    alive = [each for each in actors if each.get("state") == "ALIVE" and each.get("node_id")]
    return in_order({str(each.get("name")).rpartition("/")[2]: str(each["node_id"]) for each in alive})


def in_order(found: Mapping[str, T]) -> dict[str, T]:
    """By role and rank."""
    return {name: found[name] for name in sorted(found, key=lambda each: (each.rpartition(".")[0], _number(each)))}


def status_of(
    job: JsonMapping,
    groups: Sequence[JsonMapping] = (),
    actors: Sequence[JsonMapping] = (),
    reports: Mapping[str, NodeReport] | None = None,
) -> JobStatus | None:
    """The status of a run; None if the word for it is not known.
    Groups and actors are those of the run, ``reports`` what its driver has written about its nodes.
    """
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
    known = reports or {}
    if state is State.RESTARTING and any(each.state is State.RUNNING for each in known.values()):
        state = State.RUNNING  # Ray looks for room for a lost node of an elastic run, and the others go on
    if state is State.RUNNING:
        state, reason = _at_work(known)
    return JobStatus(
        state=state,
        said=word,
        reason=_with_cause(reason, known) if state is State.FAILED else reason,
        exit_code=code if isinstance(code, int) else None,
        nodes=_nodes(state, actors, known),
        submitted_s=_seconds(job.get("start_time")),
        ended_s=_seconds(job.get("end_time")),
    )


def _at_work(reports: Mapping[str, NodeReport]) -> tuple[State, str]:
    in_order = [reports[name] for name in sorted(reports)]
    for each in in_order:
        if each.state is State.RESTARTING:
            return State.RESTARTING, each.reason
    return State.RUNNING, next((each.story for each in in_order if each.restarts and not each.state.is_over), "")


def _with_cause(reason: str, reports: Mapping[str, NodeReport]) -> str:
    failed = [each for each in reports.values() if each.state in (State.FAILED, State.LOST) and each.reason]
    # Those who were told to stop are not the cause, even if that was heard of earlier.
    first = min(failed, key=lambda each: (each.exit_code == 128 + signal.SIGTERM, each.changed_s), default=None)
    return f"{reason}: {first.reason}" if first and reason.startswith("exit code") else reason


def _nodes(state: State, actors: Sequence[JsonMapping], reports: Mapping[str, NodeReport]) -> tuple[NodeStatus, ...]:
    """Actors that are there, and what is known of those that were;
    of an actor that came again after a loss the living one counts.
    """
    by_name = (
        {} if state.is_over else {each.name: each for each in sorted(map(_node, actors), key=_is_dead, reverse=True)}
    )
    for name, report in reports.items():
        there = by_name.get(name) or _named(name, state)
        is_gone = state.is_over or there.state is State.STOPPING
        state_of_node = report.state if report.state.is_over or not is_gone else there.state
        state_of_node = end_of_node(state, state_of_node, report.exit_code)
        by_name[name] = replace(
            there,
            host=report.host,
            state=state_of_node,
            exit_code=report.exit_code,
            reason=report.reason_in(state_of_node),
        )
    return tuple(by_name[name] for name in in_order(by_name))


def _is_dead(node: NodeStatus) -> bool:
    return node.state is State.STOPPING


def _reason(job: JsonMapping) -> str:
    """Ray's message without the log that it repeats."""
    code = job.get("driver_exit_code")
    if job.get("status") == "SUCCEEDED":
        return ""
    if job.get("error_type") == "JOB_ENTRYPOINT_COMMAND_ERROR" and isinstance(code, int):
        return f"exit code {code}" if code >= 0 else f"its driver was killed by signal {-code}"
    lines = [line.strip() for line in str(job.get("message") or "").splitlines() if line.strip()]
    kind = str(job.get("error_type") or "")
    summary = " ".join([*lines[:1], *(lines[-1:] if len(lines) > 1 else [])])[:300]
    return f"{kind}: {summary}" if kind else summary


def _waits(group: JsonMapping) -> str:
    wanted: dict[str, int] = {}
    for bundle in group.get("bundles") or ():
        text = ", ".join(f"{name} {count:g}" for name, count in sorted((bundle.get("unit_resources") or {}).items()))
        wanted[text] = wanted.get(text, 0) + 1
    asked = ", ".join(f"{count} x ({text})" for text, count in wanted.items())
    why = str((group.get("stats") or {}).get("scheduling_state") or "")
    if why == INFEASIBLE:
        return f"no nodes of the cluster can hold it: {asked} ({why})"
    return f"waits for resources: {asked}" + (f" ({why})" if why else "")


def _node(actor: JsonMapping) -> NodeStatus:
    name = str(actor.get("name")).rpartition("/")[2]
    return _named(name, state_of(ACTORS, str(actor.get("state"))) or State.RUNNING)


def _named(name: str, state: State) -> NodeStatus:
    word, _, number = name.partition(".")
    role = next((each for each in Role if each.value == word), None)
    return NodeStatus(name=name, role=role, rank=int(number) if number.isdecimal() else None, state=state)


def _number(name: str) -> int:
    number = name.rpartition(".")[2]
    return int(number) if number.isdecimal() else 0


def _seconds(said: object) -> float | None:
    return said / 1000 if isinstance(said, (int, float)) and said else None
