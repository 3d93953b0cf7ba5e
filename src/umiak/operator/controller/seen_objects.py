"""Objects of the API, reduced at once to the little that decisions need: ten thousand pods must fit into memory.
A decider.
"""

from __future__ import annotations

import sys

from umiak.core.shown import end_of_log
from umiak.core.value import value
from umiak.kube.times import maybe
from umiak.operator.objects.names import ATTEMPT, DIGEST, INDEX, KUBEFLOW_INDEX, KUBEFLOW_TYPE, WOKEN
from umiak.operator.objects.seen_containers import seen_containers
from umiak.operator.objects.workloads import seen_workload
from umiak.operator.values import STOP_S, WORKLOAD, PodPhase, SeenObject, SeenPod
from umiak.paddlejob.names import RES_TYPE
from umiak.paddlejob.resource import PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.json_types import JsonMapping

LONGEST_MESSAGE = 300
CLOCKS_S = 30.0
"""Clocks that differ less are taken as equal."""
ROLES = {**{role.value: role for role in PodRole}, "master": PodRole.PS}
PHASES = {phase.value: phase for phase in PodPhase}


@value
class SeenNode:
    """What is kept of a node."""

    name: str
    uid: str = ""
    is_silent: bool = False
    """Its kubelet does not report any more."""
    since_s: float = 0.0
    """Since when, or since when it does."""


def version_of(body: JsonMapping) -> int:
    """The resource version as a number, to tell an older answer from a newer one; 0 where it is none."""
    text = str((body.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdigit() else 0


def owner_of(metadata: JsonMapping) -> str:
    """The UID of an object's controller; empty where it has none."""
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return sys.intern(str(each.get("uid") or ""))
    return ""


def pod_of(body: JsonMapping) -> SeenPod:
    """A pod."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    name = str(metadata["name"])
    role = ROLES.get(str(labels.get(RES_TYPE) or labels.get(KUBEFLOW_TYPE) or ""))
    conditions = {str(each.get("type")): each for each in status.get("conditions") or ()}
    pod_phase = PHASES.get(str(status.get("phase") or "Pending"), PodPhase.UNKNOWN)
    training = seen_containers(body, pod_phase)
    reason, message = _reason(status, conditions, training.reason, training.message)
    addresses = tuple([str(each.get("ip")) for each in status.get("podIPs") or () if each.get("ip")])
    if not addresses and status.get("podIP"):
        addresses = (str(status["podIP"]),)
    created_s, started_s = maybe(metadata.get("creationTimestamp")) or 0.0, maybe(status.get("startTime"))
    return SeenPod(
        name=name,
        uid=str(metadata.get("uid") or ""),
        role=role,
        index=_index(name, str(notes.get(INDEX) or labels.get(KUBEFLOW_INDEX) or "")) if role else -1,
        owner_uid=owner_of(metadata),
        attempt=_whole(notes.get(ATTEMPT)),
        phase=training.phase,
        lingers=training.phase.is_ended and not pod_phase.is_ended,
        is_told_to_end=spec.get("activeDeadlineSeconds") == STOP_S,
        is_ready=_is_true(conditions.get("Ready")),
        is_deleting=bool(metadata.get("deletionTimestamp")),
        node=sys.intern(str(spec.get("nodeName") or "")),
        addresses=addresses,
        host_address=sys.intern(str(status.get("hostIP") or "")),
        reason=sys.intern(reason),
        message=end_of_log(message, LONGEST_MESSAGE) if message else "",
        lacks_image=sys.intern(training.lacks_image),
        exit_code=training.exit_code,
        container_restarts=training.restarts,
        last_end_s=training.last_end_s,
        log_of=sys.intern(training.log_of),
        digest=sys.intern(str(notes.get(DIGEST) or "")),
        woken=str(notes.get(WOKEN) or ""),
        is_disrupted=_is_true(conditions.get("DisruptionTarget")),
        created_s=created_s,
        started_s=started_s,
        ended_s=training.ended_s,
        clock_ahead_s=_clock_ahead_s(created_s, conditions.get("PodScheduled") or {}, started_s),
    )


def _clock_ahead_s(created_s: float, placed: JsonMapping, started_s: float | None) -> float:
    """A node takes up a pod as soon as the scheduler has given it to it, and not before that."""
    if started_s is None or not created_s:
        return 0.0
    placed_s = maybe(placed.get("lastTransitionTime")) if _is_true(placed) else None
    ahead_s = started_s - max(created_s, placed_s or 0.0)
    return ahead_s if abs(ahead_s) > CLOCKS_S else 0.0


def object_of(kind: str, body: JsonMapping) -> SeenObject:
    """A Service, a ConfigMap, a PodGroup, a Workload."""
    metadata = body["metadata"]
    notes = metadata.get("annotations") or {}
    return SeenObject(
        kind=kind,
        name=str(metadata["name"]),
        uid=str(metadata.get("uid") or ""),
        owner_uid=owner_of(metadata),
        attempt=_whole(notes.get(ATTEMPT)),
        is_deleting=bool(metadata.get("deletionTimestamp")),
        digest=str(notes.get(DIGEST) or ""),
        phase="" if kind == WORKLOAD else _group_phase(body.get("status") or {}),
        workload=seen_workload(body) if kind == WORKLOAD else None,
    )


def node_of(body: JsonMapping) -> SeenNode:
    """A node: whether its kubelet speaks."""
    name, uid = str(body["metadata"]["name"]), str(body["metadata"].get("uid") or "")
    for each in (body.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready":
            since_s = maybe(each.get("lastTransitionTime")) or 0.0
            return SeenNode(name=name, uid=uid, is_silent=each.get("status") == "Unknown", since_s=since_s)
    return SeenNode(name=name, uid=uid)


def _reason(status: JsonMapping, conditions: Mapping[str, JsonMapping], reason: str, message: str) -> tuple[str, str]:
    """The word of the pod itself counts most, then that of the cluster that took it away,
    of its containers, of the scheduler.
    """
    if status.get("reason"):
        return str(status["reason"]), str(status.get("message") or "")
    taken = conditions.get("DisruptionTarget")
    if taken and _is_true(taken):
        return str(taken.get("reason") or "DisruptionTarget"), str(taken.get("message") or "")
    if reason:
        return reason, message
    placed = conditions.get("PodScheduled")
    if placed and placed.get("status") == "False":
        return str(placed.get("reason") or ""), str(placed.get("message") or "")
    return "", ""


def _group_phase(status: JsonMapping) -> str:
    """Of a PodGroup: Volcano and scheduler-plugins have a phase, the native one has conditions."""
    if status.get("phase"):
        return str(status["phase"])
    for each in status.get("conditions") or ():
        if _is_true(each):
            return str(each.get("type") or "")
    return ""


def _is_true(condition: JsonMapping | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def _whole(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _index(name: str, noted: str) -> int:
    text = noted or name.rpartition("-")[2]
    return int(text) if text.isascii() and text.isdigit() else -1
