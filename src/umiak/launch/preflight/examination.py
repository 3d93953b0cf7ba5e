"""An examination of nodes and what comes of it: values.

Examination   everything that the collector has gathered
Verdict       what follows from it: rows of the table, bad pairs, findings
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import Role, join_host_port
from umiak.core.value import value
from umiak.launch.preflight.messages import Facts, Probed, Report


class Level(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@value
class Finding:
    """One thing that was found; every kind has a code with a heading in docs/reference/errors.md."""

    level: Level
    code: str
    what: str
    hint: str | None = None


@value
class BadPair:
    """Connections from one node to another that do not work, all for the same reason."""

    source: str
    host: str
    ports: tuple[int, ...]
    why: str

    def __str__(self) -> str:
        ports = ",".join(str(port) for port in self.ports)
        where = join_host_port(self.host, 0).removesuffix("0")
        return f"{self.source} -> {where}{ports}: {self.why}"


@value
class Examination:
    """Everything that the collector has gathered."""

    endpoints: dict[Role, tuple[str, ...]]
    """Of all workers that should be there, by role and in rank order."""
    collector: str
    """The collector's endpoint."""
    reports: tuple[Report, ...]
    probed: dict[str, Probed]
    """By node name; a node that was asked and did not answer is missing here."""
    waited_s: float


@value
class Row:
    """One node in the table."""

    label: str
    report: Report
    facts: Facts
    skew_s: float
    """How far its clock is ahead of the middle one."""


@value
class Verdict:
    """The examination's result."""

    rows: tuple[Row, ...]
    absent: tuple[str, ...]
    """Hosts of whose workers none reported."""
    tried: int
    failed: int
    pairs: tuple[BadPair, ...]
    findings: tuple[Finding, ...]
    """What else was found, errors first."""

    @property
    def problems(self) -> int:
        """How many things must be fixed."""
        return len(self.pairs) + sum(finding.level is Level.ERROR for finding in self.findings)

    @property
    def ready(self) -> bool:
        return self.problems == 0
