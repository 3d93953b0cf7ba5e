"""Objects of the API, reduced at once to the little that decisions need: ten thousand pods must fit into memory. A decider."""

from __future__ import annotations

import sys

from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.kube.times import maybe
from umiak.operator.objects.names import ATTEMPT, DIGEST, INDEX, KUBEFLOW_INDEX, KUBEFLOW_TYPE, WOKEN
from umiak.operator.objects.seen_containers import seen_containers
from umiak.operator.objects.workloads import seen_workload
from umiak.operator.queue_values import WORKLOAD
from umiak.operator.values import STOP_S, PodPhase, SeenObject, SeenPod
from umiak.paddlejob.names import RES_TYPE
from umiak.paddlejob.resource import PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST_MESSAGE = 300
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


def version_of(body: Mapping[str, Any]) -> int:
    """The resource version as a number, to tell an older answer from a newer one; 0 where it is none."""
    text = str((body.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdigit() else 0


def owner_of(metadata: Mapping[str, Any]) -> str:
    """The UID of an object's controller; empty where it has none."""
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return sys.intern(str(each.get("uid") or ""))
    return ""


def pod_of(body: Mapping[str, Any]) -> SeenPod:
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
        message=one_line(message, LONGEST_MESSAGE) if message else "",
        lacks_image=sys.intern(training.lacks_image),
        exit_code=training.exit_code,
        container_restarts=training.restarts,
        last_end_s=training.last_end_s,
        log_of=sys.intern(training.log_of),
        digest=sys.intern(str(notes.get(DIGEST) or "")),
        woken=str(notes.get(WOKEN) or ""),
        is_disrupted=_is_true(conditions.get("DisruptionTarget")),
        created_s=maybe(metadata.get("creationTimestamp")) or 0.0,
        started_s=maybe(status.get("startTime")),
        ended_s=training.ended_s,
    )


def object_of(kind: str, body: Mapping[str, Any]) -> SeenObject:
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


def node_of(body: Mapping[str, Any]) -> SeenNode:
    """A node: whether its kubelet speaks."""
    name, uid = str(body["metadata"]["name"]), str(body["metadata"].get("uid") or "")
    for each in (body.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready":
            since_s = maybe(each.get("lastTransitionTime")) or 0.0
            return SeenNode(name=name, uid=uid, is_silent=each.get("status") == "Unknown", since_s=since_s)
    return SeenNode(name=name, uid=uid)


def _reason(
    status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]], reason: str, message: str
) -> tuple[str, str]:
    """The word of the pod itself counts most, then that of the cluster that took it away, of its containers, of the scheduler."""
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


def _group_phase(status: Mapping[str, Any]) -> str:
    """Of a PodGroup: Volcano and scheduler-plugins have a phase, the native one has conditions."""
    if status.get("phase"):
        return str(status["phase"])
    for each in status.get("conditions") or ():
        if _is_true(each):
            return str(each.get("type") or "")
    return ""


def _is_true(condition: Mapping[str, Any] | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def _whole(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _index(name: str, noted: str) -> int:
    text = noted or name.rpartition("-")[2]
    return int(text) if text.isascii() and text.isdigit() else -1
