"""What follows from umiak's own installation, and from the room where it writes. A decider."""

from __future__ import annotations

from umiak.core.problem import free_space
from umiak.doctor.judging.words import size
from umiak.doctor.verdicts import ok, problem, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.facts import DirectoryFacts, DiskFacts, InstallFacts
    from umiak.doctor.request import DoctorRequest
    from umiak.doctor.verdicts import DoctorFinding

LITTLE_BYTES = 1 << 30
NEXT_TO_NOTHING_BYTES = 16 << 20


def install(facts: InstallFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether this is one umiak, and whole."""
    findings = []
    if facts.native_error:
        reason = f"the native core can't be imported: {facts.native_error}"
        findings.append(
            problem("UM-DOCTOR-010", reason, "install it again: `make setup`, or pip install with umiak's wheels")
        )
    elif facts.native_version and facts.native_version != facts.version:
        reason = f"umiak is {facts.version}, its native core {facts.native_version}"
        findings.append(problem("UM-DOCTOR-011", reason, "install both of the same version"))
    if len(facts.packages) > 1:
        others = [each for each in facts.packages if each != facts.location]
        reason = f"several packages called umiak: {facts.location} runs, {', '.join(others)} too is on Python's path"
        findings.append(
            warning(
                "UM-DOCTOR-012", reason, "remove the others, or leave their directory; `python -m site` lists the path"
            )
        )
    if not facts.command_is_ours:
        reason = f"`umiak` in this shell is {facts.command}, which belongs to another Python than this one"
        findings.append(
            warning("UM-DOCTOR-013", reason, "activate the right environment; `type -a umiak` lists them all")
        )
    elif facts.other_commands:
        reason = f"other commands called umiak: {', '.join(facts.other_commands)}"
        findings.append(
            warning("UM-DOCTOR-013", reason, "uninstall those that are not wanted; `type -a umiak` lists them")
        )
    core = "native core" if facts.native_version else "no native core (parameter servers need it: the extra ps)"
    return findings or [ok(f"umiak {facts.version}, {core}, Python {facts.python}")]


def disk(facts: DiskFacts, _asked: DoctorRequest) -> list[DoctorFinding]:
    """Whether everything can be written."""
    findings = [finding for each in facts.directories for finding in _directory(each)]
    least = min(facts.directories, key=lambda each: each.free_bytes)
    return findings or [ok(f"{size(least.free_bytes)} free for {least.purpose} ({least.at}), no less elsewhere")]


def _directory(facts: DirectoryFacts) -> list[DoctorFinding]:
    variable = {"logs": "--log_dir", "runs": "XDG_STATE_HOME", "cache": "XDG_CACHE_HOME"}.get(facts.purpose, "TMPDIR")
    hint = free_space(f"choose another directory with {variable}", f"df -h {facts.at}")
    if facts.error:
        return [problem("UM-DOCTOR-020", f"{facts.purpose}: {facts.path}: {facts.error}", hint)]
    if not facts.writable:
        reason = f"{facts.purpose}: {facts.path} can't be written by this user"
        return [problem("UM-DOCTOR-020", reason, f"choose another directory with {variable}, or change its owner")]
    if facts.free_bytes < NEXT_TO_NOTHING_BYTES:
        return [problem("UM-DOCTOR-021", f"{facts.purpose}: {size(facts.free_bytes)} free in {facts.at}", hint)]
    if facts.free_bytes < LITTLE_BYTES:
        return [warning("UM-DOCTOR-021", f"{facts.purpose}: {size(facts.free_bytes)} free in {facts.at}", hint)]
    return []
