"""What follows from kubeconfigs and from what a backend says of its place. A decider."""

from __future__ import annotations

from umiak.doctor.judging.words import some
from umiak.doctor.verdicts import DoctorFinding, DoctorVerdict, ok, problem, skipped, warning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.problem import Problem
    from umiak.doctor.asked import Asked
    from umiak.doctor.facts import KubeconfigFacts, PlaceFacts


def kubernetes(facts: KubeconfigFacts, _asked: Asked) -> list[DoctorFinding]:
    """Whether the files are there and private."""
    found = []
    if facts.missing:
        found.append(
            problem(
                "UM-DOCTOR-160",
                f"{facts.said_by} names no file: {some(facts.missing)}",
                f"`unset {facts.said_by}`, or correct it",
            )
        )
    if facts.unreadable:
        found.append(
            problem(
                "UM-DOCTOR-160",
                f"kubeconfig can't be read by this user: {some(facts.unreadable)}",
                f"ls -l {facts.unreadable[0]}",
            )
        )
    if facts.open_to_others:
        reason = f"others may read or change the kubeconfig, which holds credentials: {some(facts.open_to_others)}"
        found.append(warning("UM-DOCTOR-161", reason, f"chmod 600 {facts.open_to_others[0]}"))
    if not found and not facts.files:
        return [skipped("no kubeconfig", "KUBECONFIG or ~/.kube/config, where jobs go to Kubernetes")]
    return found or [ok(f"{some(facts.files)}; rights are checked with --on PLACE")]


def place(facts: PlaceFacts, _asked: Asked) -> list[DoctorFinding]:
    """What the backend found, in its own codes."""
    if facts.error:
        return [_finding(each, is_warning=False) for each in facts.error]
    if not facts.name:
        named = (
            f"umiak doctor --on PLACE, with one of {some(facts.known)}" if facts.known else "umiak doctor --on PLACE"
        )
        return [skipped("no place was named", named)]
    bad = [_finding(each.problem, is_warning=each.is_warning) for each in facts.findings if each.problem]
    good = [each.text for each in facts.findings if not each.problem]
    if bad:
        return [*bad, *([ok(some(good))] if good else [])]
    return [ok(f"{facts.name} ({facts.backend}): " + (some(good) if good else "its backend finds nothing wrong"))]


def _finding(found: Problem, *, is_warning: bool) -> DoctorFinding:
    reason = (f"{found.where}: " if found.where else "") + found.what + (f": {found.why}" if found.why else "")
    verdict = DoctorVerdict.WARNING if is_warning else DoctorVerdict.PROBLEM
    return DoctorFinding(verdict=verdict, reason=reason, hint=found.hint, code=found.code)
