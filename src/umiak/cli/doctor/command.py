"""`umiak doctor`: reads the command line, runs the checks, prints what they say. A program."""

from __future__ import annotations

import json
import os
import signal

from umiak.cli.doctor.flags import FLAGS
from umiak.core import colours
from umiak.core.cluster import node_range, split_host_port
from umiak.core.problem import Exit, UmiakError
from umiak.core.shown import inert
from umiak.doctor.checks import CHECKS, GROUPS, chosen
from umiak.doctor.request import DoctorRequest
from umiak.launch.command_line import addresses
from umiak.schema import command_line
from umiak.schema.flags import FlagFindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from umiak.cli.output import Printer
    from umiak.doctor.checks import DoctorCheck
    from umiak.doctor.facts import PlaceFacts
    from umiak.doctor.verdicts import CheckReport
    from umiak.schema.flags import Parsed

    T = TypeVar("T")

PAINT = {"ok": "32", "warning": "33", "problem": "1;31", "skipped": "2"}
CLEAR_LINE = "\r\x1b[K"
UNHEALTHY = 1


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak doctor`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak doctor", starts_program=False)
    if parsed.wants_help:
        return printer.page("doctor")
    checks, request = read(parsed, environ)
    from umiak.doctor import report as reports
    from umiak.doctor import running

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what checks have started is ended then as well
    screen = _Screen(checks, printer, is_shown=not parsed.truth("json"))
    found = running.run(checks, request, limit_s=parsed.seconds("timeout"), on_look=screen.look)
    if parsed.truth("json"):
        from umiak.adapters.version import version

        printer.data(json.dumps(reports.as_data(found, version()), ensure_ascii=False))
    else:
        printer.data(f"\n{reports.conclusion(found)}")
    return Exit.DONE if reports.is_healthy(found) else UNHEALTHY


def read(parsed: Parsed, environ: Mapping[str, str]) -> tuple[tuple[DoctorCheck, ...], DoctorRequest]:
    """Which checks, and what they are asked about. UmiakError with everything that is wrong."""
    findings = FlagFindings(parsed)
    nodes = _read(parsed, "nnodes", node_range, findings) or (1, 1)
    master = _read(parsed, "master", addresses.master, findings) or ""
    etcd = master.removeprefix(addresses.ETCD).split(",") if master.startswith(addresses.ETCD) else []
    hosts = _read(parsed, "ips", addresses.hosts, findings) or ()
    checks = _checks(parsed, findings)
    place = parsed.text("on") or None
    request = DoctorRequest(
        environ=environ,
        directory=os.getcwd(),
        least_nodes=nodes[0],
        most_nodes=max(nodes[1], len(hosts)),
        hosts=hosts,
        master=_endpoint(master) if master and not etcd else None,
        etcd=tuple(_endpoint(each) for each in etcd),
        host=_read(parsed, "host", addresses.host, findings),
        start_port=parsed.number("start_port") if parsed.said("start_port") else None,
        workers=parsed.number("nproc_per_node") or 1,
        devices=_read(parsed, "devices", addresses.devices, findings),
        job_id=parsed.text("job_id"),
        elastic_level=int(parsed.text("elastic_level") or -1),
        elastic_timeout_s=parsed.seconds("elastic_timeout") or 0.0,
        max_restart=parsed.number("max_restart") or 0,
        log_dir=parsed.text("log_dir"),
        place=place,
        examine_place=lambda: _examine(place, environ),
    )
    UmiakError.raise_any(findings.problems)
    return checks, request


def _checks(parsed: Parsed, findings: FlagFindings) -> tuple[DoctorCheck, ...]:
    names = tuple(each.strip().replace("-", "_") for each in parsed.text("only").split(",") if each.strip())
    if parsed.said("on") and names:
        names = (*names, "place")
    try:
        return chosen(names)
    except KeyError as unknown:
        from umiak.schema.findings import choices

        known = [*GROUPS, *(check.name for check in CHECKS)]
        name = str(unknown.args[0])
        findings.problem("UM-DOCTOR-001", f"--only: unknown check: {name}", hint=choices(name, known))
        return ()


def _read(parsed: Parsed, name: str, read_text: Callable[[str], T], findings: FlagFindings) -> T | None:
    if not parsed.said(name):
        return None
    try:
        return read_text(parsed.text(name))
    except ValueError as error:
        findings.problem(
            "UM-CLI-003", f"{error}: {parsed[name].spoken}", hint="`umiak doctor --help` says what is expected"
        )
        return None


def _endpoint(text: str) -> tuple[str, int]:
    host, port = split_host_port(text)
    return host, port or 0


def _examine(name: str | None, environ: Mapping[str, str]) -> PlaceFacts:
    """What the backend of a place says; without a name, which places there are.
    One that can't be examined is asked to check the smallest job that there is.
    """
    from umiak.core.job import FrameworkName, Job, RoleSpec
    from umiak.doctor.facts import PlaceFacts, PlaceFinding
    from umiak.submit import configuration
    from umiak.submit.flow import Flow

    flow = Flow(configuration.context(environ))
    try:
        if name is None:
            return PlaceFacts(known=tuple(flow.places.places))
        place = flow.place(name)
        backend = flow.backend(place)
        look = getattr(backend, "examine", None)
        if look is not None:
            findings = [
                PlaceFinding(text=each.text, problem=each.problem, is_warning=each.is_warning) for each in look()
            ]
        else:
            smallest = Job(name="doctor", command=("true",), roles=(RoleSpec(),), framework=FrameworkName.NONE)
            findings = [PlaceFinding(problem=each) for each in backend.check(smallest)]
    except UmiakError as error:
        return PlaceFacts(name=name or "", error=error.problems)
    return PlaceFacts(name=name, backend=place.backend, findings=tuple(findings))


class _Screen:
    """Rows as they become ready, in the order of the table; on a terminal, below them what is waited for."""

    def __init__(self, checks: Sequence[DoctorCheck], printer: Printer, *, is_shown: bool) -> None:
        self._checks = checks
        self._printer = printer
        self._is_shown = is_shown
        self._is_live = printer.err.isatty()
        self._is_painted = printer.colour and printer.out.isatty()
        self._shown = 0
        self._status = ""

    def look(self, done: Sequence[CheckReport]) -> None:
        by_name = {report.name: report for report in done}
        ready = 0
        while ready < len(self._checks) and self._checks[ready].name in by_name:
            ready += 1
        if ready > self._shown:
            self._say_status("")
            for check in self._checks[self._shown : ready]:
                self._print(by_name[check.name])
            self._shown = ready
        waiting = [check.name for check in self._checks if check.name not in by_name]
        self._say_status(f"checking: {', '.join(waiting)}" if waiting else "")

    def _print(self, report: CheckReport) -> None:
        from umiak.doctor.report import rows

        if self._is_shown:
            for word, rest in rows(report, self._checks):
                painted = colours.painted(word, PAINT.get(word)) if self._is_painted else word
                self._printer.data(painted + inert(rest))

    def _say_status(self, text: str) -> None:
        if self._is_live and text != self._status:
            self._printer.err.write(f"{CLEAR_LINE}{text}")
            self._printer.err.flush()
            self._status = text
