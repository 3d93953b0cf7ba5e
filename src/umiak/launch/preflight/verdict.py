"""Whether the nodes are fit for the job: what they reported, judged. A pure decider.

    judge(Examination(...)) -> Verdict(pairs=(BadPair(...), ...), findings=(Finding(...), ...), ...)

An error or a connection that does not work makes the nodes not ready; a warning does not.
"""

from __future__ import annotations

from umiak.core.cluster import split_host_port
from umiak.launch.preflight import findings
from umiak.launch.preflight.examination import BadPair, Examination, Row, Verdict
from umiak.launch.preflight.messages import Facts, Report, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def judge(exam: Examination) -> Verdict:
    """What follows from an examination."""
    rows = _rows(exam)
    probed = [exam.probed[row.report.node] for row in rows if row.report.node in exam.probed]
    here = {report.host for report in exam.reports}
    return Verdict(
        rows=rows,
        absent=tuple(host for host in findings.missing(exam) if host not in here),
        tried=sum(each.tried for each in probed),
        failed=sum(each.failed for each in probed),
        pairs=_pairs(exam, rows),
        findings=findings.look_over(exam, rows),
    )


def _rows(exam: Examination) -> tuple[Row, ...]:
    """The nodes that told their facts, in rank order."""
    firsts: dict[str, tuple[Report, Facts]] = {}
    for report in sorted(exam.reports, key=lambda report: (report.node_rank, report.rank)):
        if report.facts:
            firsts.setdefault(report.node, (report, report.facts))
    hosts = [report.host for report, _ in firsts.values()]
    offsets = sorted(report.clock_offset_s for report, _ in firsts.values())
    middle = offsets[(len(offsets) - 1) // 2] if offsets else 0.0
    return tuple(
        Row(
            label=report.host if hosts.count(report.host) == 1 else f"{report.host} (node {report.node_rank})",
            report=report,
            facts=facts,
            skew_s=report.clock_offset_s - middle,
        )
        for report, facts in firsts.values()
    )


def _pairs(exam: Examination, rows: Sequence[Row]) -> tuple[BadPair, ...]:
    ports: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        probed = exam.probed.get(row.report.node)
        for each in probed.unreachable if probed else ():
            host, port = _parts(each)
            ports.setdefault((row.label, host, each.why), []).append(port)
    return tuple(
        BadPair(source=source, host=host, ports=tuple(sorted(numbers)), why=why)
        for (source, host, why), numbers in ports.items()
    )


def _parts(each: Unreachable) -> tuple[str, int]:
    try:
        host, port = split_host_port(each.endpoint)
    except ValueError:
        return each.endpoint, 0
    return host, port or 0
