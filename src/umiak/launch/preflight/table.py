"""A verdict as people and as programs read it. A decider.

    node  host      name  Python  umiak  frameworks    devices  clock    program
    0     10.0.0.1  a     3.11.7  0.1.0  paddle 3.3.1  8 gpu    +0.0 ms  3f2a91bc

What came over the network is shown without control characters: a table must not be able to steer a terminal.
"""

from __future__ import annotations

from umiak.launch.preflight.examination import Level
from umiak.launch.preflight.findings import devices_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonObject
    from umiak.launch.preflight.examination import Finding, Row, Verdict

HEADINGS = ("node", "host", "name", "Python", "umiak", "frameworks", "devices", "clock", "program")
MOST_LINES = 40
"""More bad pairs than these are counted; the JSON has all of them."""
LONGEST_SUMMARY = 400


def as_text(verdict: Verdict) -> str:
    """The whole verdict, to be printed as it is."""
    lines = _aligned([HEADINGS, *map(_cells, verdict.rows), *(_absent_cells(host) for host in verdict.absent)])
    lines += ["", _connections(verdict)]
    lines += [f"  {pair}" for pair in verdict.pairs[:MOST_LINES]]
    if len(verdict.pairs) > MOST_LINES:
        lines.append(f"  and {len(verdict.pairs) - MOST_LINES} more pairs, all of them with --json")
    if verdict.pairs:
        lines.append(f"  hint: {_pairs_hint(verdict)} [UM-CHECK-100]")
    lines.append("")
    for finding in verdict.findings:
        lines += _finding_lines(finding)
    lines.append(f"verdict: {in_words(verdict)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def in_words(verdict: Verdict) -> str:
    """``ready``, ``not ready, 2 problems``, and how many warnings there are."""
    words = "ready" if verdict.ready else f"not ready, {_count(verdict.problems, 'problem')}"
    warnings = sum(finding.level is Level.WARNING for finding in verdict.findings)
    return f"{words}, {_count(warnings, 'warning')}" if warnings else words


def summary(verdict: Verdict) -> str:
    """One line for the nodes that do not show the table: the first problem, and how many more there are."""
    if verdict.ready:
        return printable(f"{in_words(verdict)}: {_count(len(verdict.rows), 'node')}, {_connections(verdict)}")
    problems = [str(pair) for pair in verdict.pairs]
    problems += [finding.what for finding in verdict.findings if finding.level is Level.ERROR]
    more = f", and {_count(len(problems) - 1, 'more problem')}" if len(problems) > 1 else ""
    return printable(problems[0][:LONGEST_SUMMARY] + more)


def as_plain(verdict: Verdict) -> JsonObject:
    """The same for `--json`."""
    return {
        "ready": verdict.ready,
        "verdict": in_words(verdict),
        "nodes": [_plain_row(row) for row in verdict.rows],
        "absent": list(verdict.absent),
        "connections": {
            "tried": verdict.tried,
            "failed": verdict.failed,
            "pairs": [
                {"from": pair.source, "to": pair.host, "ports": list(pair.ports), "why": pair.why}
                for pair in verdict.pairs
            ],
        },
        "findings": [
            {"level": finding.level.value, "code": finding.code, "what": finding.what, "hint": finding.hint}
            for finding in verdict.findings
        ],
    }


def printable(text: str) -> str:
    """The same text with a question mark for everything that a terminal might obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _cells(row: Row) -> tuple[str, ...]:
    facts = row.facts
    frameworks = ", ".join(f"{name} {version}" for name, version in sorted(facts.frameworks.items()))
    program = facts.program_hash[:8] if facts.program_hash else "missing" if facts.program else "-"
    return (
        str(row.report.node_rank),
        row.report.host,
        facts.hostname,
        facts.python,
        facts.umiak,
        frameworks or "none",
        devices_in_words(facts),
        _clock(row.skew_s),
        program,
    )


def _absent_cells(host: str) -> tuple[str, ...]:
    return ("?", host, "did not report")


def _clock(skew_s: float) -> str:
    return f"{skew_s:+.1f} s" if abs(skew_s) >= 1 else f"{skew_s * 1000:+.1f} ms"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    full = [row for row in rows if len(row) == len(HEADINGS)]
    widths = [max(len(printable(row[column])) for row in full) for column in range(len(HEADINGS))]
    widths[1] = max(widths[1], *(len(row[1]) for row in rows))
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths[: len(row)], strict=True)).rstrip()
        for row in rows
    ]


def _connections(verdict: Verdict) -> str:
    if not verdict.tried:
        return "one node, no connections to try" if len(verdict.rows) == 1 else "no connections were tried"
    if not verdict.failed:
        return f"all {_count(verdict.tried, 'connection')} work" if verdict.tried > 1 else "the one connection works"
    return f"{verdict.tried - verdict.failed} of {_count(verdict.tried, 'connection')} work; these do not:"


def _pairs_hint(verdict: Verdict) -> str:
    whys = {pair.why for pair in verdict.pairs}
    hosts = {pair.host for pair in verdict.pairs}
    if len(hosts) == 1 and len(verdict.rows) > 2 and len({pair.source for pair in verdict.pairs}) > 1:
        return f"several nodes can't reach {next(iter(hosts))}: look at its firewall, and at its address (--host)"
    if whys <= {"timed out"}:
        return "packets get lost on the way: let these ports through the firewalls; --start_port says which are used"
    return "let these ports through the firewalls, and check that every --host is the address that others reach"


def _finding_lines(finding: Finding) -> list[str]:
    lines = [f"{finding.level.value}: {finding.what} [{finding.code}]"]
    if finding.hint:
        lines.append(f"  hint: {finding.hint}")
    return lines


def _plain_row(row: Row) -> JsonObject:
    facts = row.facts
    return {
        "node": row.report.node_rank,
        "host": row.report.host,
        "name": facts.hostname,
        "python": facts.python,
        "umiak": facts.umiak,
        "frameworks": dict(sorted(facts.frameworks.items())),
        "devices": {"kind": facts.device_kind or None, "count": facts.device_count},
        "clock_skew_s": round(row.skew_s, 6),
        "round_trip_s": round(row.report.round_trip_s, 6),
        "program": facts.program or None,
        "program_sha256": facts.program_hash or None,
        "log_dir": facts.log_dir,
        "log_free_bytes": facts.log_free_bytes,
        "shm_free_bytes": facts.shm_bytes,
        "open_files": facts.open_files,
        "token": facts.token,
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
