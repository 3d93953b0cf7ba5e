"""Reports as people and programs read them. A decider.

ok       shm       8.0 GiB at /dev/shm, 8.0 GiB of it free
problem  ports     port 6070 (worker 0) is in use by python (4711): Address already in use [UM-DOCTOR-070]
                   hint: end that program ...
"""

from __future__ import annotations

from umiak.doctor.verdicts import DoctorVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonObject
    from umiak.doctor.checks import DoctorCheck
    from umiak.doctor.verdicts import CheckReport

_WORD = max(len(each.value) for each in DoctorVerdict)
_WORSE = (DoctorVerdict.PROBLEM, DoctorVerdict.WARNING)


def rows(report: CheckReport, checks: Sequence[DoctorCheck]) -> list[tuple[str, str]]:
    """Lines for a check, each with the word at its beginning and the rest: the word may be painted."""
    width = max(len(check.name) for check in checks)
    lines = []
    for number, finding in enumerate(sorted(report.findings, key=lambda each: list(DoctorVerdict).index(each.verdict))):
        name = report.name if number == 0 else ""
        code = f" [{finding.code}]" if finding.code else ""
        lines.append(
            (
                finding.verdict.value,
                f"{'':{_WORD - len(finding.verdict.value)}}  {name:{width}}  {finding.reason}{code}",
            )
        )
        if finding.hint and finding.verdict in _WORSE:
            lines.append(("", f"{'':{_WORD + width + 4}}hint: {finding.hint}"))
    return lines


def conclusion(reports: Sequence[CheckReport]) -> str:
    """One line."""
    by_verdict = {verdict: [each.name for each in reports if each.verdict is verdict] for verdict in DoctorVerdict}
    bad = by_verdict[DoctorVerdict.PROBLEM]
    doubtful = by_verdict[DoctorVerdict.WARNING]
    rest = [f"{len(names)} {verdict.value}" for verdict, names in by_verdict.items() if names and verdict not in _WORSE]
    if bad:
        more = f"; {_counted(len(doubtful), 'warning')}: {', '.join(doubtful)}" if doubtful else ""
        return f"{_counted(len(bad), 'problem')}: {', '.join(bad)}{more}; {', '.join(rest)}".rstrip("; ")
    if doubtful:
        return f"no problems, {_counted(len(doubtful), 'warning')}: {', '.join(doubtful)}; {', '.join(rest)}".rstrip(
            "; "
        )
    return f"no problems: {', '.join(rest)}"


def as_data(reports: Sequence[CheckReport], version: str) -> JsonObject:
    """For ``--json``."""
    return {
        "umiak": version,
        "healthy": is_healthy(reports),
        "conclusion": conclusion(reports),
        "checks": [
            {
                "name": report.name,
                "group": report.group,
                "verdict": report.verdict.value,
                "findings": [
                    {"verdict": each.verdict.value, "code": each.code, "reason": each.reason, "hint": each.hint}
                    for each in report.findings
                ],
                "took_s": report.took_s,
                "facts": report.facts,
            }
            for report in reports
        ],
    }


def is_healthy(reports: Sequence[CheckReport]) -> bool:
    """Whether there is no problem; warnings are none."""
    return all(each.verdict is not DoctorVerdict.PROBLEM for each in reports)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
