"""What a check says. Values.

DoctorFinding(verdict=DoctorVerdict.WARNING, reason="64 MiB at /dev/shm", hint="docker run --shm-size 8g", code="UM-DOCTOR-121")
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping


class DoctorVerdict(str, Enum):
    """How something is, the worst first."""

    PROBLEM = "problem"
    """A job will fail, or not do what was asked for."""
    WARNING = "warning"
    """A job may fail, or be slow."""
    OK = "ok"
    SKIPPED = "skipped"
    """There was nothing to look at, or no way to."""


@value
class DoctorFinding:
    """One thing that a check found."""

    verdict: DoctorVerdict
    reason: str
    """What was measured."""
    hint: str | None = None
    """What to do about it, with a command."""
    code: str = ""
    """Of warnings and problems; with a heading in docs/reference/errors.md."""


@value
class CheckReport:
    """A check that is over."""

    name: str
    group: str
    findings: tuple[DoctorFinding, ...]
    took_s: float = 0.0
    facts: JsonMapping | None = None
    """What was measured, as plain data."""

    @property
    def verdict(self) -> DoctorVerdict:
        """The worst of its findings."""
        verdicts = {finding.verdict for finding in self.findings}
        return next((each for each in DoctorVerdict if each in verdicts), DoctorVerdict.SKIPPED)


def ok(reason: str) -> DoctorFinding:
    """All is well."""
    return DoctorFinding(verdict=DoctorVerdict.OK, reason=reason)


def skipped(reason: str, hint: str | None = None) -> DoctorFinding:
    """There was nothing to look at."""
    return DoctorFinding(verdict=DoctorVerdict.SKIPPED, reason=reason, hint=hint)


def warning(code: str, reason: str, hint: str) -> DoctorFinding:
    """It may go wrong."""
    return DoctorFinding(verdict=DoctorVerdict.WARNING, reason=reason, hint=hint, code=code)


def problem(code: str, reason: str, hint: str) -> DoctorFinding:
    """It will go wrong."""
    return DoctorFinding(verdict=DoctorVerdict.PROBLEM, reason=reason, hint=hint, code=code)
