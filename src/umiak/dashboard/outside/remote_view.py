"""Nodes and lines of a run elsewhere, as the page shows workers and logs. A decider."""

from __future__ import annotations

from umiak.core.shown import one_line
from umiak.dashboard.log_pages import LONGEST_LINE, MOST_LINES, LogLineAt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.dashboard.log_pages import LineFilter

_PHASES = {
    "queued": "starting",
    "starting": "starting",
    "running": "running",
    "restarting": "starting",
    "succeeded": "done",
    "failed": "failed",
}


def node_look(node: JsonMapping, number: int, row: JsonMapping) -> JsonObject:
    """One node of `umiak status --json` as a worker."""
    state = str(node.get("state") or "")
    rank = node.get("rank")
    rank = rank if isinstance(rank, int) else number
    role = one_line(str(node.get("role") or "node"), 20)
    return {
        "key": f"{role}.{rank}",
        "launcher": "",
        "role": role,
        "rank": rank,
        "host": one_line(str(node.get("host") or node.get("name") or ""), 253),
        "state": _PHASES.get(state, "stopped"),
        "phase": _PHASES.get(state, "stopped"),
        "starts": 1,
        "since_s": row.get("started_s") or 0.0,
        "reason": one_line(str(node.get("reason") or ""), 1000),
        "waits": "",
        "wrote_s": None,
        "log": "",
        "stacks": "",
        "process": None,
    }


def remote_log(lines: Sequence[JsonMapping], wanted: LineFilter, query: JsonMapping) -> JsonObject:
    """Lines of `umiak logs --json`: the last ones that are wanted, in the order of time."""
    role, number = query.get("role", ""), query.get("number", "")
    found = []
    for at, line in enumerate(lines):
        text = one_line(str(line["text"]), LONGEST_LINE)
        is_meant = (not role or line.get("role") == role) and (not number or str(line.get("rank")) == number)
        if is_meant and (wanted.is_all or next(wanted.lines_in(text.encode()), None) is not None):
            source = one_line(str(line.get("source") or ""), 100)
            found.append(LogLineAt(offset=at, text=text, time_s=line.get("time_s"), source=source).data)
    if all(each["time_s"] is not None for each in found):
        found.sort(key=lambda each: (each["time_s"], each["at"]))
    files = len({line.get("source") for line in lines})
    return {"lines": found[-MOST_LINES:], "files": files, "left_out": 0}
