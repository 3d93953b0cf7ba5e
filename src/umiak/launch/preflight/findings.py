"""What is wrong with the nodes, connections aside: a pure decider, a function for each kind of trouble.

Nodes are called by their address; many in one finding are counted. Where nodes differ, all groups are named, the
largest first: the small ones are the suspects.
"""

from __future__ import annotations

from collections import Counter

from umiak.core.cluster import ROLES, Role, split_host_port
from umiak.core.names import is_loopback
from umiak.launch.preflight.examination import Examination, Finding, Level, Row
from umiak.launch.preflight.messages import Facts

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


def look_over(exam: Examination, rows: Sequence[Row]) -> tuple[Finding, ...]:
    """Everything that is found, errors first."""
    findings = [finding for look in LOOKS for finding in look(exam, rows)]
    return tuple(sorted(findings, key=lambda finding: finding.level is not Level.ERROR))


# ---- who is there


def missing(exam: Examination) -> dict[str, list[str]]:
    """Workers that did not report, as ``trainer 1``, by their host."""
    there = {(report.role, report.rank) for report in exam.reports}
    absent: dict[str, list[str]] = {}
    for role in ROLES:
        for rank, endpoint in enumerate(exam.endpoints.get(role, ())):
            if (role, rank) not in there:
                absent.setdefault(split_host_port(endpoint)[0], []).append(f"{role.value} {rank}")
    return absent


def _absences(exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    findings = [
        _error(
            "UM-CHECK-101",
            f"no report from {host} within {exam.waited_s:g} s: {_some(workers)}",
            f"the launcher there says why; it may be kept from reaching {exam.collector}",
        )
        for host, workers in missing(exam).items()
    ]
    silent = [row.label for row in rows if row.report.node not in exam.probed]
    if silent:
        what = f"no answer about the connections to the other nodes from: {_some(silent)}"
        findings.append(_error("UM-CHECK-102", what, "run the check once more"))
    return findings


def _shared_endpoints(exam: Examination, _rows: Sequence[Row]) -> list[Finding]:
    listed = Counter(endpoint for role in ROLES for endpoint in exam.endpoints.get(role, ()))
    twice = [endpoint for endpoint, times in listed.items() if times > 1]
    if not twice:
        return []
    return [
        _error(
            "UM-CHECK-103",
            f"several workers have the same address: {_some(twice)}",
            "give every node the address by which the others reach it, with --host",
        )
    ]


# ---- what must be the same everywhere


def _versions(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    findings = [
        *_differing("UM-CHECK-104", "umiak", {row.label: row.facts.umiak for row in rows}, _minor),
        *_differing("UM-CHECK-105", "Python", {row.label: row.facts.python for row in rows}, _minor),
    ]
    for name in sorted({name for row in rows for name in row.facts.frameworks}):
        versions = {row.label: row.facts.frameworks.get(name, "none") for row in rows}
        findings += _differing("UM-CHECK-106", name, versions, _public)
    return findings


def _differing(code: str, name: str, versions: dict[str, str], essence: Callable[[str], str]) -> list[Finding]:
    """An error if versions differ in their essence, a warning if only in the rest."""
    if len(set(versions.values())) < 2:
        return []
    return [
        (_error if len({essence(version) for version in versions.values()}) > 1 else _warning)(
            code,
            f"different versions of {name}: {_grouped(versions)}",
            f"install the same {name} on every node, or use the same image",
        )
    ]


def _minor(version: str) -> str:
    """``3.11.7`` and ``3.11.9`` work together."""
    return ".".join(version.split(".")[:2])


def _public(version: str) -> str:
    """Without the build: ``2.3.0+cpu`` and ``2.3.0+cu121`` work together, if slowly."""
    return version.partition("+")[0]


def _programs(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    findings = []
    absent = [row for row in rows if row.facts.program and not row.facts.program_hash]
    if absent:
        what = f"there is no {absent[0].facts.program} on: {_some([row.label for row in absent])}"
        hint = "copy it there, or start the launcher in the directory that has it"
        findings.append(_error("UM-CHECK-107", what, hint))
    contents = {row.label: row.facts.program_hash[:8] for row in rows if row.facts.program_hash}
    if len(set(contents.values())) > 1:
        name = next(row.facts.program for row in rows if row.facts.program_hash)
        what = f"the contents of {name} differ: {_grouped(contents)}"
        hint = "copy the same file to every node"
        findings.append(_error("UM-CHECK-108", what, hint))
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
            (_error if certain_s > CLOCK_ERROR_S else _warning)(
                "UM-CHECK-109",
                f"the clock of {row.label} is {abs(row.skew_s):.1f} s {direction} {others}",
                "let NTP set the clocks: `timedatectl set-ntp true`",
            )
        )
    return findings


# ---- what should be better


def _devices(exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    # Nodes that have only servers need none.
    working = {report.node for report in exam.reports if report.role is not Role.SERVER}
    devices = {row.label: devices_in_words(row.facts) for row in rows if row.report.node in working}
    if len(set(devices.values())) < 2:
        return []
    what = f"the nodes have different devices: {_grouped(devices)}"
    return [_warning("UM-CHECK-201", what, "choose as many everywhere with --devices")]


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
        findings.append(_error("UM-CHECK-110", what, "choose another with --log_dir"))
    if full:
        what = f"little room for logs: {_some(_sized(full, lambda facts: facts.log_free_bytes))}"
        hint = "choose another --log_dir, or a lower --log_max_bytes"
        findings.append(_warning("UM-CHECK-202", what, hint))
    if little_shm:
        what = f"little room in /dev/shm, which data loaders use: {_some(_sized(little_shm, lambda facts: facts.shm_bytes))}"
        hint = "start containers with --shm-size 8g, or pods with a memory volume at /dev/shm"
        findings.append(_warning("UM-CHECK-203", what, hint))
    if few_files:
        what = f"few open files are allowed: {_some([f'{row.label} ({row.facts.open_files})' for row in few_files])}"
        hint = f"raise the limit to {files} before the launch: `ulimit -n {files}`"
        findings.append(_warning("UM-CHECK-204", what, hint))
    return findings


def _sized(rows: Iterable[Row], size: Callable[[Facts], int]) -> list[str]:
    return [f"{row.label} ({size(row.facts) // (1024 * 1024)} MiB)" for row in rows]


def _names(_exam: Examination, rows: Sequence[Row]) -> list[Finding]:
    if len({row.report.host for row in rows}) < 2:
        return []
    findings = []
    names = {row.label: f"{row.label} ({row.facts.hostname})" for row in rows if row.label != row.facts.hostname}
    unknown = [names.get(row.label, row.label) for row in rows if not row.facts.own_address]
    inward = [names.get(row.label, row.label) for row in rows if is_loopback(row.facts.own_address)]
    if unknown:
        what = f"a node does not know its own host name: {_some(unknown)}"
        hint = "add the name with the node's address to /etc/hosts there"
        findings.append(_warning("UM-CHECK-205", what, hint))
    if inward:
        what = f"a node's own host name means loopback there, where others can't reach it: {_some(inward)}"
        hint = "if Gloo can't connect, set GLOO_SOCKET_IFNAME to the network interface, or fix /etc/hosts"
        findings.append(_warning("UM-CHECK-205", what, hint))
    if not any(row.facts.token for row in rows):
        what = "no token is set: anyone who can reach a launcher's port can join the job, lead it and end it"
        hint = 'make one with `export UMIAK_TOKEN="$(umiak token)"`, and set the same one on every node'
        findings.append(_warning("UM-CHECK-206", what, hint))
    return findings


LOOKS = (_absences, _shared_endpoints, _versions, _programs, _clocks, _devices, _room, _names)
"""Everything that is looked at, in the order in which it is told."""


# ---- words


def _error(code: str, what: str, hint: str) -> Finding:
    return Finding(level=Level.ERROR, code=code, what=what, hint=hint)


def _warning(code: str, what: str, hint: str) -> Finding:
    return Finding(level=Level.WARNING, code=code, what=what, hint=hint)


def _grouped(by_node: dict[str, str]) -> str:
    """Who has what: ``3.3.1 on 10.0.0.1, 10.0.0.2; none on 10.0.0.3``."""
    groups: dict[str, list[str]] = {}
    for label, what in by_node.items():
        groups.setdefault(what, []).append(label)
    largest_first = sorted(groups.items(), key=lambda item: -len(item[1]))
    return "; ".join(f"{what} on {_some(labels)}" for what, labels in largest_first)


def _some(names: Sequence[str]) -> str:
    if len(names) <= NAMED_NODES:
        return ", ".join(names)
    return f"{', '.join(names[: NAMED_NODES - 1])} and {len(names) - NAMED_NODES + 1} more"
