"""What a place has said, as the page shows it. A decider.

verdict_of(doctor_json)      whether it answers, and what was found
queue_of(list_json)          its runs by state, and those that are not over
"""

from __future__ import annotations

from umiak.core.shown import one_line
from umiak.core.status import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

MOST_FINDINGS = 100
MOST_QUEUED = 50
_OVER = frozenset(each.value for each in State if each.is_over)
_WORST = ("problem", "warning", "skipped", "ok")


class NoAnswer(Exception):
    """A command said something else than was asked for; in words, why."""


def verdict_of(told: object) -> JsonObject:
    """Of the output of `umiak doctor --json`. NoAnswer if it is none."""
    if not isinstance(told, dict) or not isinstance(told.get("checks"), list):
        raise NoAnswer(problem_in(told) or "no answer of umiak doctor")
    findings = [finding for check in told["checks"] for finding in check["findings"]]
    plain = [
        {
            "verdict": str(each["verdict"]),
            "code": str(each.get("code") or ""),
            "text": one_line(str(each["reason"]), 1000),
            "hint": one_line(str(each.get("hint") or ""), 1000),
        }
        for each in findings[:MOST_FINDINGS]
    ]
    verdicts = {each["verdict"] for each in plain}
    worst = next((each for each in _WORST if each in verdicts), "ok")
    return {"verdict": worst, "findings": plain, "left_out": max(0, len(findings) - len(plain))}


def queue_of(told: object) -> JsonObject:
    """Of the output of `umiak list --json`. NoAnswer if it is none."""
    if not isinstance(told, list):
        raise NoAnswer(problem_in(told) or "no answer of umiak list")
    counts: dict[str, int] = {}
    for each in told:
        state = str(each.get("state") or "unknown")
        counts[state] = counts.get(state, 0) + 1
    going_on = [each for each in told if each.get("state") not in _OVER]
    runs = [
        {
            "name": one_line(str(each.get("name") or each.get("run") or each.get("handle") or ""), 200),
            "run": one_line(str(each.get("run") or ""), 200),
            "state": one_line(str(each.get("state") or "unknown"), 40),
            "handle": one_line(str(each.get("handle") or ""), 300),
        }
        for each in going_on[:MOST_QUEUED]
    ]
    return {"counts": counts, "runs": runs, "left_out": len(going_on) - len(runs)}


def problem_in(told: object) -> str:
    """A command that failed says why, with --json as well."""
    problems = told.get("problems") if isinstance(told, dict) else None
    first = problems[0] if isinstance(problems, list) and problems else None
    if not isinstance(first, dict):
        return ""
    what, why = str(first.get("what") or ""), str(first.get("why") or "")
    return one_line(f"{what}{f': {why}' if why else ''}", 1000)
