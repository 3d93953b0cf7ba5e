"""Whose fault it is that a pod has ended: the program's, the cluster's, or one that no restart can help. A decider.

Fault.CLUSTER   evicted, preempted, node lost or shut down, deleted by somebody: started again, and it costs nothing
Fault.PROGRAM   it ended with an error: started again within ``backoffLimit``
Fault.FINAL     its command can't be run, or it was called wrongly: started again it would end the same way

Rules of the job (``runPolicy.failurePolicy``) come first: they say which of the three a failure is treated as.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.node_report import is_consequence
from umiak.core.value import replace, value
from umiak.operator.values import PodPhase
from umiak.paddlejob.resource import JobApi, RuleAction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.policies.view import JobView
    from umiak.operator.values import SeenPod
    from umiak.paddlejob.resource import FailureRule, PaddleJobRole

CLUSTER_REASONS = frozenset(
    [
        "DeletionByPodGC",
        "DeletionByTaintManager",
        "Evicted",
        "EvictionByEvictionAPI",
        "NodeAffinity",
        "NodeLost",
        "NodeShutdown",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfnvidia.com/gpu",
        "Preempted",
        "Preempting",
        "PreemptionByScheduler",
        "Shutdown",
        "Terminated",
        "TerminationByKubelet",
        "UnexpectedAdmissionError",
    ]
)
FINAL_EXIT_CODES = {126: "its command is not executable", 127: "its command was not found"}
FINAL_REASONS = frozenset(["ContainerCannotRun", "StartError"])
_OWN_LIMIT = ("exceeds the limit", "exceeds the total limit", "exceeded its limit", "exceeds its limit")


class Fault(Enum):
    """Whose fault a failure is."""

    CLUSTER = "cluster"
    PROGRAM = "program"
    FINAL = "final"


_ACTIONS = {
    RuleAction.FAIL: Fault.FINAL,
    RuleAction.RESTART: Fault.PROGRAM,
    RuleAction.RESTART_FREE: Fault.CLUSTER,
}


@value
class Trouble:
    """A pod that has to be started again, or that ends the job."""

    pod: SeenPod
    fault: Fault
    reason: str
    """One word, for conditions and events."""
    message: str
    is_consequence: bool = False
    """It says itself that another pod is the cause."""
    is_ruled: bool = False
    """A rule of the job says what follows."""


def trouble_of(pod: SeenPod, view: JobView) -> Trouble | None:
    """What is wrong with a pod of the current attempt; None: nothing, or nothing yet."""
    trouble = _trouble(pod, view)
    if trouble is None:
        return None
    trouble = _ruled(trouble, view.spec.run_policy.rules)
    wish = view.spec.role(pod.role) if pod.role else None
    if trouble.fault is Fault.PROGRAM and not trouble.is_ruled and wish is not None and _is_never(view, wish):
        return replace(trouble, fault=Fault.FINAL, message=f"{trouble.message}: its restartPolicy is Never")
    return trouble


def _trouble(pod: SeenPod, view: JobView) -> Trouble | None:
    """Without rules."""
    if pod.phase is PodPhase.SUCCEEDED:
        if pod.name in view.done:
            return None
        return Trouble(
            pod=pod,
            fault=Fault.CLUSTER,
            reason="PodDeleted",
            message=f"{pod.name} was deleted before it was seen to end",
        )
    if view.is_lost(pod) or pod.phase is PodPhase.UNKNOWN:
        return Trouble(
            pod=pod, fault=Fault.CLUSTER, reason="NodeLost", message=f"{pod.name} was on node {pod.node}, which is lost"
        )
    if pod.phase is PodPhase.FAILED:
        wish = view.spec.role(pod.role) if pod.role else None
        return _failed(pod, by_exit_code=wish is not None and wish.restarts_by_exit_code)
    if pod.is_deleting or pod.is_disrupted:
        reason = pod.reason if pod.reason in CLUSTER_REASONS else "PodDeleted"
        return Trouble(pod=pod, fault=Fault.CLUSTER, reason=reason, message=f"{pod.name} is being deleted")
    return None


def _ruled(found: Trouble, rules: tuple[FailureRule, ...]) -> Trouble:
    """As the first rule says that is about it.
    A pod that ended because of another one is not looked at: the other one is.
    """
    if found.is_consequence:
        return found
    for number, rule in enumerate(rules):
        if _is_about(rule, found):
            message = f"{found.message}: failurePolicy.rules[{number}] says {rule.action.value}"
            fault = _ACTIONS[rule.action]
            reason = "FailurePolicy" if fault is Fault.FINAL else found.reason
            return replace(found, fault=fault, reason=reason, message=message, is_ruled=True)
    return found


def _is_about(rule: FailureRule, found: Trouble) -> bool:
    pod = found.pod
    if rule.roles and pod.role not in rule.roles:
        return False
    if rule.exit_codes and (pod.exit_code in (None, 0) or (pod.exit_code in rule.exit_codes) is rule.is_not_in):
        return False
    if rule.reasons:
        return found.reason in rule.reasons or pod.reason in rule.reasons
    # That somebody deletes a pod is no failure of it.
    return found.reason != "PodDeleted"


def _is_never(view: JobView, wish: PaddleJobRole) -> bool:
    """Whether no pod of the role is to be started again:
    a word of Kubeflow's; elsewhere it is about containers in their pods.
    """
    never = (wish.template.get("spec") or {}).get("restartPolicy") == "Never"
    return view.job.api is JobApi.KUBEFLOW and never and not wish.restarts_by_exit_code


def _failed(pod: SeenPod, *, by_exit_code: bool) -> Trouble:
    said = f": {pod.message}" if pod.message else ""
    is_own_limit = pod.reason == "Evicted" and any(words in pod.message for words in _OWN_LIMIT)
    if (pod.is_disrupted or pod.is_deleting or pod.reason in CLUSTER_REASONS) and not is_own_limit:
        reason = pod.reason if pod.reason in CLUSTER_REASONS else "PodDeleted" if pod.is_deleting else "Disrupted"
        return Trouble(pod=pod, fault=Fault.CLUSTER, reason=reason, message=f"{pod.name} was taken away{said}")
    code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
    why = f" ({pod.reason})" if pod.reason and pod.reason != "Error" else ""
    message = f"{pod.name} failed{code}{why}{said}"
    if pod.exit_code in FINAL_EXIT_CODES:
        message = f"{message}: {FINAL_EXIT_CODES[pod.exit_code]}"
    is_final = pod.exit_code in FINAL_EXIT_CODES or pod.reason in FINAL_REASONS
    if by_exit_code and pod.exit_code is not None and 0 < pod.exit_code < 128:
        is_final = True
    return Trouble(
        pod=pod,
        fault=Fault.FINAL if is_final else Fault.PROGRAM,
        reason=pod.reason if pod.reason not in ("", "Error") else "PodFailed",
        message=message,
        is_consequence=not is_final and is_consequence(pod.message),
    )
