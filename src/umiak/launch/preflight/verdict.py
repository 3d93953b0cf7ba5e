"""Whether the nodes are fit for the job: what they reported, judged. Values and a pure decider.

    judge(Examination(...)) -> Verdict(findings=(Finding(...), ...), ...)

An error makes the nodes not ready; a warning does not. Nodes are called by their address; many in one finding are
counted. Where nodes differ, the smaller groups are the suspects, and the finding names all groups.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import ROLES, Role, join_host_port, split_host_port
from umiak.core.value import value
from umiak.launch.preflight.messages import Facts, Probed, Report, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CLOCK_WARNING_S = 2.0
CLOCK_ERROR_S = 30.0
LITTLE_SHM_BYTES = 512 * 1024 * 1024
LITTLE_DISK_BYTES = 1024 * 1024 * 1024
FEW_FILES = 1024
NAMED_NODES = 5
"""More nodes than these in one finding are counted, not named."""


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
        """How many things must be mended."""
        return len(self.pairs) + sum(finding.level is Level.ERROR for finding in self.findings)

    @property
    def ready(self) -> bool:
        return self.problems == 0


def judge(exam: Examination) -> Verdict:
    """All findings of an examination."""
    rows = _rows(exam)
    findings = [finding for check in CHECKS for finding in check(exam, rows)]
    findings.sort(key=lambda finding: finding.level is not Level.ERROR)
    asked = [exam.probed[row.report.node] for row in rows if row.report.node in exam.probed]
    here = {report.host for report in exam.reports}
    return Verdict(
        rows=rows,
        absent=tuple(host for host in _missing(exam) if host not in here),
        tried=sum(probed.tried for probed in asked),
        failed=sum(probed.failed for probed in asked),
        pairs=_pairs(exam, rows),
        findings=tuple(findings),
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


# ---- who is there, and who reaches whom


def _missing(exam: Examination) -> dict[str, list[str]]:
    """Workers that did not report, as ``trainer 1``, by their host."""
    there = {(report.role, report.rank) for report in exam.reports}
    missing: dict[str, list[str]] = {}
    for role in ROLES:
        for rank, endpoint in enumerate(exam.endpoints.get(role, ())):
            if (role, rank) not in there:
                missing.setdefault(split_host_port(endpoint)[0], []).append(f"{role.value} {rank}")
    return missing


def _absences(exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    findings = [
        Finding(
            level=Level.ERROR,
            code="UM-CHECK-101",
            what=f"{host} did not report within {exam.waited_s:g} s: {_some(workers)}",
            hint=f"the launcher there says why; it may be kept from reaching {exam.collector}",
        )
        for host, workers in _missing(exam).items()
    ]
    silent = [row.label for row in rows if row.report.node not in exam.probed]
    if silent:
        what = f"no answer about the connections to the other nodes from: {_some(silent)}"
        findings.append(Finding(level=Level.ERROR, code="UM-CHECK-102", what=what, hint="run the check once more"))
    return findings


def _shared_endpoints(exam: Examination, _rows: Sequence[Row]) -> list[Finding]:
    listed = [endpoint for role in ROLES for endpoint in exam.endpoints.get(role, ())]
    twice = sorted({endpoint for endpoint in listed if listed.count(endpoint) > 1}) if len(set(listed)) < len(listed) else []
    if not twice:
        return []
    return [
        Finding(
            level=Level.ERROR,
            code="UM-CHECK-103",
            what=f"several workers have the same address: {_some(twice)}",
            hint="give every node the address by which the others reach it, with --host",
        )
    ]


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


# ---- what must be the same everywhere


def _versions(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    findings = _differing(
        rows,
        "UM-CHECK-104",
        "umiak",
        lambda facts: facts.umiak,
        same=_minor,
        hint="install the same umiak on every node",
    )
    findings += _differing(
        rows,
        "UM-CHECK-105",
        "Python",
        lambda facts: facts.python,
        same=_minor,
        hint="start every node with the same Python, or the same image",
    )
    for name in sorted({name for row in rows for name in row.facts.frameworks}):
        findings += _differing(
            rows,
            "UM-CHECK-106",
            name,
            lambda facts, name=name: facts.frameworks.get(name, "none"),  # type: ignore[misc]
            same=_public,
            hint=f"install the same {name} on every node",
        )
    return findings


def _minor(version: str) -> str:
    """``3.11.7`` and ``3.11.9`` work together."""
    return ".".join(version.split(".")[:2])


def _public(version: str) -> str:
    """Without the build: ``2.3.0+cpu`` and ``2.3.0+cu121`` work together, if slowly."""
    return version.partition("+")[0]


def _differing(
    rows: Sequence[Row], code: str, name: str, version: Callable[[Facts], str], *, same: Callable[[str], str], hint: str
) -> list[Finding]:
    """An error if the versions can't work together, a warning if they merely differ in their builds."""
    groups = _groups(rows, lambda row: same(version(row.facts)))
    level = Level.ERROR
    if len(groups) == 1 and same is _public:
        groups, level = _groups(rows, lambda row: version(row.facts)), Level.WARNING
    if len(groups) < 2:
        return []
    return [Finding(level=level, code=code, what=f"different versions of {name}: {_grouped(groups)}", hint=hint)]


def _programs(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    findings = []
    absent = [row for row in rows if row.facts.program and not row.facts.program_hash]
    if absent:
        what = f"there is no {absent[0].facts.program} on: {_some([row.label for row in absent])}"
        hint = "copy it there, or start the launcher in the directory that has it"
        findings.append(Finding(level=Level.ERROR, code="UM-CHECK-107", what=what, hint=hint))
    groups = _groups([row for row in rows if row.facts.program_hash], lambda row: row.facts.program_hash)
    if len(groups) > 1:
        name = next(row.facts.program for row in rows if row.facts.program_hash)
        what = f"the nodes have different contents of {name}: {_grouped(groups)}"
        hint = "copy the same file to every node"
        findings.append(Finding(level=Level.ERROR, code="UM-CHECK-108", what=what, hint=hint))
    return findings


def _clocks(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    findings = []
    for row in rows:
        # Half of the round trip is what the measurement may be wrong by.
        certain_s = abs(row.skew_s) - row.report.round_trip_s / 2
        if certain_s <= CLOCK_WARNING_S:
            continue
        others = "the others'" if len(rows) > 2 else f"that of {next(each.label for each in rows if each is not row)}"
        direction = "ahead of" if row.skew_s > 0 else "behind"
        findings.append(
            Finding(
                level=Level.ERROR if certain_s > CLOCK_ERROR_S else Level.WARNING,
                code="UM-CHECK-109",
                what=f"the clock of {row.label} is {abs(row.skew_s):.1f} s {direction} {others}",
                hint="let NTP set the clocks: `timedatectl set-ntp true`",
            )
        )
    return findings


# ---- what should be better


def _devices(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    working = {report.node for report in _exam.reports if report.role is not Role.SERVER}
    groups = _groups([row for row in rows if row.report.node in working], lambda row: devices_in_words(row.facts))
    if len(groups) < 2:
        return []
    what = f"the nodes have different devices: {_grouped(groups)}"
    return [Finding(level=Level.WARNING, code="UM-CHECK-201", what=what, hint="choose as many everywhere with --devices")]


def devices_in_words(facts: Facts) -> str:
    """``8 gpu``, or ``none``."""
    return f"{facts.device_count} {facts.device_kind}" if facts.device_kind else "none"


def _room(exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    workers = sum(len(endpoints) for endpoints in exam.endpoints.values())
    files = max(FEW_FILES, 256 + 4 * workers)
    unwritable = [f"{row.label}:{row.facts.log_dir}" for row in rows if not row.facts.log_writable]
    full = [row for row in rows if row.facts.log_writable and row.facts.log_free_bytes < LITTLE_DISK_BYTES]
    little_shm = [row for row in rows if 0 <= row.facts.shm_bytes < LITTLE_SHM_BYTES]
    few_files = [row for row in rows if row.facts.open_files < files]
    findings = []
    if unwritable:
        what = f"the log directory can't be written: {_some(unwritable)}"
        findings.append(Finding(level=Level.ERROR, code="UM-CHECK-110", what=what, hint="choose another with --log_dir"))
    if full:
        what = f"little room for logs: {_some(_sized(full, lambda facts: facts.log_free_bytes))}"
        hint = "choose another --log_dir, or a lower --log_max_bytes"
        findings.append(Finding(level=Level.WARNING, code="UM-CHECK-202", what=what, hint=hint))
    if little_shm:
        what = f"little room in /dev/shm, which data loaders use: {_some(_sized(little_shm, lambda facts: facts.shm_bytes))}"
        hint = "start containers with --shm-size 8g, or pods with a memory volume at /dev/shm"
        findings.append(Finding(level=Level.WARNING, code="UM-CHECK-203", what=what, hint=hint))
    if few_files:
        what = f"few open files are allowed: {_some([f'{row.label} ({row.facts.open_files})' for row in few_files])}"
        hint = f"raise the limit to {files} before the launch: `ulimit -n {files}`"
        findings.append(Finding(level=Level.WARNING, code="UM-CHECK-204", what=what, hint=hint))
    return findings


def _sized(rows: Iterable[Row], size: Callable[[Facts], int]) -> list[str]:
    return [f"{row.label} ({size(row.facts) // (1024 * 1024)} MiB)" for row in rows]


def _names(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    if len({row.report.host for row in rows}) < 2:
        return []
    findings = []
    unknown = [f"{row.label} ({row.facts.hostname})" for row in rows if not row.facts.own_address]
    inward = [f"{row.label} ({row.facts.hostname})" for row in rows if _is_loopback(row.facts.own_address)]
    if unknown:
        what = f"a node does not know its own host name: {_some(unknown)}"
        hint = "add the name with the node's address to /etc/hosts there"
        findings.append(Finding(level=Level.WARNING, code="UM-CHECK-205", what=what, hint=hint))
    if inward:
        what = f"a node's own host name means loopback there, where others can't reach it: {_some(inward)}"
        hint = "if Gloo can't connect, set GLOO_SOCKET_IFNAME to the network interface, or mend /etc/hosts"
        findings.append(Finding(level=Level.WARNING, code="UM-CHECK-205", what=what, hint=hint))
    if not any(row.facts.token for row in rows):
        what = "no token is set: whoever reaches a launcher's port can join the job"
        hint = "set the same secret UMIAK_TOKEN on every node"
        findings.append(Finding(level=Level.WARNING, code="UM-CHECK-206", what=what, hint=hint))
    return findings


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


CHECKS = (_absences, _shared_endpoints, _versions, _programs, _clocks, _devices, _room, _names)
"""Everything that is looked at beside the connections, in the order of the findings."""


# ---- words


def _groups(rows: Sequence[Row], key: Callable[[Row], str]) -> dict[str, list[str]]:
    """Labels of the nodes by what they have, the largest group first."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row.label)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _grouped(groups: dict[str, list[str]]) -> str:
    return "; ".join(f"{what} on {_some(labels)}" for what, labels in groups.items())


def _some(names: Sequence[str]) -> str:
    if len(names) <= NAMED_NODES:
        return ", ".join(names)
    return f"{', '.join(names[: NAMED_NODES - 1])} and {len(names) - NAMED_NODES + 1} more"
