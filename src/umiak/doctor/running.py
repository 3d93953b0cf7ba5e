"""Runs all checks at once, each for a limited time. An adapter.

Each check has a thread. One that does not come back in time is reported as such and left behind; what it started in
processes of their own was ended before (`gathering.trial_process`).
"""

from __future__ import annotations

import queue
import threading
import time
import traceback

from umiak.core.decode import encode
from umiak.core.value import replace
from umiak.doctor.gathering import trial_process
from umiak.doctor.verdicts import CheckReport, problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from umiak.doctor.checks import DoctorCheck
    from umiak.doctor.request import DoctorRequest

LATE_S = 2.0
"""How much longer than its limit a check is waited for: it may be about to say what it waits for itself."""
LOOK_S = 0.1


def run(
    checks: Sequence[DoctorCheck],
    request: DoctorRequest,
    *,
    limit_s: float | None = None,
    on_look: Callable[[Sequence[CheckReport]], None] = lambda _done: None,
) -> list[CheckReport]:
    """Their reports, in the order of the checks. ``on_look`` is told again and again what is done.

    ``limit_s`` is for each of them, instead of its own limit.
    """
    limits = {check.name: limit_s or check.limit_s for check in checks}
    came: queue.SimpleQueue[CheckReport] = queue.SimpleQueue()
    done: dict[str, CheckReport] = {}
    begun: dict[str, float] = {}
    try:
        while len(done) < len(checks):
            for check in checks:
                is_ready = not check.after or check.after in done or all(each.name != check.after for each in checks)
                if check.name not in begun and is_ready:
                    begun[check.name] = time.monotonic()
                    _start(check, request, limits[check.name], done.get(check.after), came)
            try:
                report = came.get(timeout=LOOK_S)
                done.setdefault(report.name, report)
            except queue.Empty:
                pass
            for check in checks:
                late = check.name in begun and time.monotonic() > begun[check.name] + limits[check.name] + LATE_S
                if late and check.name not in done:
                    done[check.name] = _too_late(check, limits[check.name])
            on_look([done[check.name] for check in checks if check.name in done])
    finally:
        trial_process.stop_all()
    return [done[check.name] for check in checks]


def _start(
    check: DoctorCheck,
    request: DoctorRequest,
    limit_s: float,
    before: CheckReport | None,
    came: queue.SimpleQueue[CheckReport],
) -> None:
    def work() -> None:
        begun = time.monotonic()
        try:
            report = _measured(check, request, limit_s, before)
        except Exception as error:  # noqa: BLE001 - one check that fails must not hide the others
            at = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"the check itself failed: {type(error).__name__}: {error} ({at.name}, line {at.lineno})"
            hint = "this is a bug in umiak: please report it with this line and `umiak --version`"
            report = CheckReport(name=check.name, group=check.group, findings=(problem("UM-DOCTOR-003", reason, hint),))
        came.put(_timed(report, time.monotonic() - begun))

    threading.Thread(target=work, name=f"check {check.name}", daemon=True).start()


def _measured(check: DoctorCheck, request: DoctorRequest, limit_s: float, before: CheckReport | None) -> CheckReport:
    gather, judge = _find(check.facts), _find(check.judge)
    facts = gather(request, limit_s, before) if check.after else gather(request, limit_s)
    findings = tuple(judge(facts, request))
    return CheckReport(name=check.name, group=check.group, findings=findings, facts=encode(facts))


def _timed(report: CheckReport, took_s: float) -> CheckReport:
    return replace(report, took_s=round(took_s, 3))


def _too_late(check: DoctorCheck, limit_s: float) -> CheckReport:
    hint = f"something that it asks does not answer; give it longer: `umiak doctor --only {check.name} --timeout {limit_s * 4:g}`"
    finding = problem("UM-DOCTOR-002", f"not done after {limit_s:g} s", hint)
    return CheckReport(name=check.name, group=check.group, findings=(finding,), took_s=limit_s)


def _find(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
    return function
