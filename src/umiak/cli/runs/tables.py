"""Runs as people and programs read them: tables, and plain data for JSON. A decider.

list_text([(record, status)], now_s, width=40)
"""

from __future__ import annotations

from umiak.cli.texts.table_layout import pairs, rows
from umiak.core import colours
from umiak.core.shown import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.core.job import Handle
    from umiak.core.json_types import JsonObject
    from umiak.core.status import JobStatus
    from umiak.submit.backend import LogLine
    from umiak.submit.run_record import RunRecord

ROLES = ("server", "trainer", "heter")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def status_text(
    handle: Handle, record: RunRecord | None, status: JobStatus, now_s: float, width: int | None = None
) -> str:
    """`umiak status`, in so many columns if ``width`` is given."""
    reason = f": {one_line(status.reason)}" if status.reason else ""
    lines = [[handle.id, f"{status.state.value}{reason}"], ["handle", str(handle)]]
    if record is not None:
        lines += [["job", record.name], ["place", record.place], ["directory", one_line(record.directory)]]
    if status.submitted_s is not None:
        lines.append(["submitted", ago(now_s - status.submitted_s)])
    if took := _took(status, now_s):
        lines.append(["ran" if status.state.is_over else "running for", took])
    if status.exit_code is not None:
        lines.append(["exit code", str(status.exit_code)])
    if len(status.nodes) == 1 and status.nodes[0].host:
        lines.append(["host", status.nodes[0].host])
    head = pairs(lines, width)
    if len(status.nodes) < 2:
        return head
    nodes = [["NODE", "HOST", "ROLE", "RANK", "STATE", "EXIT", "REASON"]]
    for each in status.nodes:
        role = each.role.value if each.role else ""
        what = [each.state.value, _text(each.exit_code), one_line(each.reason)]
        nodes.append([each.name, each.host, role, _text(each.rank), *what])
    return f"{head}\n{rows(nodes, width, leave_out=('HOST', 'EXIT', 'RANK', 'ROLE'), below='REASON')}"


def list_text(runs: Iterable[tuple[RunRecord, JobStatus | None]], now_s: float, width: int | None = None) -> str:
    """`umiak list`, in so many columns if ``width`` is given. No status: its place can't be asked."""
    table = [["RUN", "STATE", "PLACE", "SUBMITTED", "RAN", "EXIT", "HANDLE"]]
    for record, status in runs:
        table.append(
            [
                record.run_id,
                status.state.value if status else "unknown",
                record.place,
                ago(now_s - record.submitted_s),
                _took(status, now_s) if status else "",
                _text(status.exit_code) if status else "",
                record.handle or "-",
            ]
        )
    return rows(table, width, leave_out=("HANDLE", "RAN", "SUBMITTED", "EXIT", "PLACE"))


def coloured(text: str) -> str:
    """A table whose states have their colours: those in the second cell of a line, or behind a node's role and rank."""
    import re  # of terminals only

    before = rf"^(\S+ {{2,}}(?:(?:{'|'.join(ROLES)}) +)?(?:\d+ +)?)"
    state = re.compile(rf"{before}({'|'.join(colours.STATES)})(?=[:\s]|$)", re.MULTILINE)
    return state.sub(lambda found: f"{found[1]}{colours.painted(found[2], colours.STATES[found[2]])}", text)


def status_data(handle: Handle, record: RunRecord | None, status: JobStatus) -> JsonObject:
    """``--json``."""
    data = run_data(handle, record, status)
    data["nodes"] = [
        {
            "name": each.name,
            "host": each.host or None,
            "role": each.role.value if each.role else None,
            "rank": each.rank,
            "state": each.state.value,
            "exit_code": each.exit_code,
            "reason": each.reason,
        }
        for each in status.nodes
    ]
    return data


def run_data(handle: Handle | None, record: RunRecord | None, status: JobStatus) -> JsonObject:
    """A run of a list."""
    return {
        "handle": str(handle) if handle else None,
        "run": record.run_id if record else None,
        "name": record.name if record else None,
        "place": record.place if record else handle.place if handle else None,
        "directory": record.directory if record else None,
        "state": status.state.value,
        "said": status.said,
        "reason": status.reason,
        "exit_code": status.exit_code,
        "submitted_s": status.submitted_s or (record.submitted_s if record else None),
        "started_s": status.started_s,
        "ended_s": status.ended_s,
    }


def line_data(line: LogLine) -> JsonObject:
    """A line of a log."""
    role = line.role.value if line.role else None
    data = {"source": line.source, "role": role, "rank": line.rank, "text": line.text, "position": line.position}
    return {**data, "time_s": line.time_s}


def ago(seconds: float) -> str:
    """``3 min ago``."""
    return f"{span(seconds)} ago" if seconds >= 1 else "now"


def span(seconds: float) -> str:
    """``5 s``, ``3 min``, ``2 h 10 min``, ``4 d 3 h``."""
    whole = max(0, int(seconds))
    for index, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            parts = [f"{whole // size} {unit}"]
            if size > 60:
                small, small_unit = _UNITS[index + 1]
                parts += [f"{whole % size // small} {small_unit}"] if whole % size >= small else []
            return " ".join(parts)
    return "0 s"


def _took(status: JobStatus, now_s: float) -> str:
    if status.started_s is None:
        return ""
    if status.ended_s is None and status.state.is_over:
        return ""
    return span((status.ended_s or now_s) - status.started_s)


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
