"""The Workload of a job: its body, what is read from one, and a changed status. A decider.

The digest of a Workload is that of what its quota and its flavors depend on: numbers of pods,
what containers ask for, and where pods may run. Another image or command changes nothing about its place in the queue.
"""

from __future__ import annotations

from hashlib import sha256

from umiak.core.shown import one_line
from umiak.kube.times import maybe, text_of
from umiak.operator.objects.names import DIGEST, JOB_NAME, digest, owners
from umiak.operator.objects.pods import prepared
from umiak.operator.values import (
    JOB_UID,
    KUEUE_GROUP,
    MOST_TIME,
    POD_PRIORITY,
    PRIORITY_CLASS,
    QUEUE_NAME,
    WORKLOAD_PRIORITY,
    ClassLookup,
    FoundClass,
    PodPlacement,
    PodSetAssignment,
    SeenWorkload,
    WorkloadCondition,
)
from umiak.paddlejob.resource import KIND, JobApi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.operator.policies.gangs import GangDriver
    from umiak.operator.policies.view import JobView
    from umiak.paddlejob.resource import PaddleJob, PaddleJobRole

LONGEST_NAME = 63
LONGEST_MESSAGE = 1000
_PLACING = ("nodeSelector", "affinity", "tolerations", "runtimeClassName", "overhead")


def queue_of(job: PaddleJob) -> str:
    """The LocalQueue that a job is to wait in; empty: none.
    Kueue itself sees to jobs of kubeflow.org, by ``runPolicy.suspend``.
    """
    return _label(job, QUEUE_NAME) if job.api is JobApi.BATCH else ""


def priority_of(job: PaddleJob) -> ClassLookup | None:
    """The class that says how important a job is: that of its label, else the first that a template of it names."""
    if name := _label(job, PRIORITY_CLASS):
        return ClassLookup(kind=WORKLOAD_PRIORITY, name=name)
    for wish in job.spec.roles:
        named = (wish.template.get("spec") or {}).get("priorityClassName")
        if wish.replicas > 0 and isinstance(named, str) and named:
            return ClassLookup(kind=POD_PRIORITY, name=named)
    return None


def workload_name(job: PaddleJob) -> str:
    """Of one job, and no other: a job that is created again under its name gets another Workload."""
    own = sha256(f"{job.api.value} {job.name} {job.uid}".encode()).hexdigest()[:8]
    return f"{f'{KIND.lower()}-{job.name}'[: LONGEST_NAME - 9].rstrip('-.')}-{own}"


def workload_digest(job: PaddleJob) -> str:
    """Of what Kueue admits."""
    rows = []
    for wish in job.spec.roles:
        if wish.replicas > 0:
            spec = wish.template.get("spec") or {}
            placing = {name: spec[name] for name in _PLACING if spec.get(name)}
            asked = [
                [(each.get("resources") or {}, each.get("restartPolicy")) for each in spec.get(part) or ()]
                for part in ("initContainers", "containers")
            ]
            rows.append([wish.role.value, wish.replicas, asked, placing])
    return digest([rows, _label(job, MOST_TIME)])


def workload(
    view: JobView, version: str, driver: GangDriver | None, priority: FoundClass | None, *, is_active: bool = True
) -> JsonObject:
    """The body, in one version of the API."""
    job = view.job
    spec: JsonObject = {
        "queueName": queue_of(job),
        "active": is_active,
        "podSets": [_pod_set(view, wish, driver) for wish in job.spec.roles if wish.replicas > 0],
        **_priority(version, priority),
    }
    if (limit := _label(job, MOST_TIME)).isdigit() and limit.isascii() and 0 < int(limit) < 2**31:
        spec["maximumExecutionTimeSeconds"] = int(limit)
    return {
        "apiVersion": f"{KUEUE_GROUP}/{version}",
        "kind": "Workload",
        "metadata": {
            "name": workload_name(job),
            "namespace": job.namespace,
            "labels": {JOB_NAME: job.name[:LONGEST_NAME], JOB_UID: job.uid},
            "annotations": {DIGEST: workload_digest(job)},
            "ownerReferences": owners(job),
        },
        "spec": spec,
    }


def _pod_set(view: JobView, wish: PaddleJobRole, driver: GangDriver | None) -> JsonObject:
    """The pods of a role, as they are made: but for variables, which differ from pod to pod."""
    pods = prepared(view, wish, driver)
    metadata = {"labels": pods.labels, "annotations": pods.annotations}
    spec = {**pods.spec, "containers": list(pods.containers)}
    return {"name": wish.role.value, "count": wish.replicas, "template": {"metadata": metadata, "spec": spec}}


def _priority(version: str, priority: FoundClass | None) -> JsonObject:
    if priority is None:
        return {"priority": 0}
    name, is_own = priority.lookup.name, priority.lookup.kind == WORKLOAD_PRIORITY
    group = KUEUE_GROUP if is_own else "scheduling.k8s.io"
    if version == "v1beta1":
        source = f"{group}/{priority.lookup.kind.lower()}"
        return {"priority": priority.priority, "priorityClassName": name, "priorityClassSource": source}
    reference = {"group": group, "kind": priority.lookup.kind, "name": name}
    return {"priority": priority.priority, "priorityClassRef": reference}


def _label(job: PaddleJob, name: str) -> str:
    return dict(job.labels).get(name, "")


# ---- what is read


def seen_workload(body: JsonMapping) -> SeenWorkload:
    """What a Workload says, in either version of the API."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    admission = status.get("admission") or {}
    reference = spec.get("priorityClassRef") or {}
    return SeenWorkload(
        version=str((body.get("metadata") or {}).get("resourceVersion") or ""),
        queue=str(spec.get("queueName") or ""),
        priority_class=str(reference.get("name") or spec.get("priorityClassName") or ""),
        priority=int(spec.get("priority") or 0),
        is_active=spec.get("active") is not False,
        conditions=tuple([_condition(each) for each in status.get("conditions") or ()]),
        cluster_queue=str(admission.get("clusterQueue") or ""),
        assignments=tuple([_assignment(each, status) for each in admission.get("podSetAssignments") or ()]),
    )


def _condition(row: JsonMapping) -> WorkloadCondition:
    return WorkloadCondition(
        type=str(row.get("type") or ""),
        is_true=row.get("status") == "True",
        reason=str(row.get("reason") or ""),
        message=one_line(str(row.get("message") or ""), LONGEST_MESSAGE),
    )


def _assignment(row: JsonMapping, status: JsonMapping) -> PodSetAssignment:
    name = str(row.get("name") or "")
    updates = [
        _update(update)
        for check in status.get("admissionChecks") or ()
        for update in check.get("podSetUpdates") or ()
        if update.get("name") == name
    ]
    flavors = sorted({str(flavor) for flavor in (row.get("flavors") or {}).values()})
    return PodSetAssignment(name=name, flavors=tuple(flavors), updates=tuple(updates))


def _update(row: JsonMapping) -> PodPlacement:
    return PodPlacement(
        labels=pairs(row.get("labels")),
        annotations=pairs(row.get("annotations")),
        node_selector=pairs(row.get("nodeSelector")),
        tolerations=tuple(row.get("tolerations") or ()),
    )


def found_in(lookup: ClassLookup, body: JsonMapping) -> FoundClass:
    """What a flavor or a class of priority says."""
    spec = body.get("spec") or {}
    return FoundClass(
        lookup=lookup,
        node_labels=pairs(spec.get("nodeLabels")),
        tolerations=tuple(spec.get("tolerations") or ()),
        priority=int(body.get("value") or 0),
    )


def pairs(items: JsonMapping | None) -> tuple[tuple[str, str], ...]:
    """A map of texts, as a value."""
    return tuple(sorted([(str(name), str(text)) for name, text in (items or {}).items()]))


# ---- what is written


def with_conditions(
    body: JsonMapping, wanted: Iterable[WorkloadCondition], now_s: float, *, drops_admission: bool = False
) -> JsonObject:
    """The status of a Workload with some conditions changed. A condition's time is that of its last turn."""
    status = dict(body.get("status") or {})
    rows = [dict(each) for each in status.get("conditions") or ()]
    for each in wanted:
        word = "True" if each.is_true else "False"
        old = next((row for row in rows if row.get("type") == each.type), None)
        since = old.get("lastTransitionTime") if old is not None and old.get("status") == word else None
        condition = {
            "type": each.type,
            "status": word,
            "reason": each.reason or each.type,
            "message": one_line(each.message, LONGEST_MESSAGE),
            "lastTransitionTime": since or text_of(int(now_s)),
            "observedGeneration": (body.get("metadata") or {}).get("generation") or 1,
        }
        if old is None:
            rows.append(condition)
        else:
            rows[rows.index(old)] = condition
    if drops_admission:
        status |= _ran_before(body, now_s)
        status.pop("admission", None)
    status["conditions"] = rows
    return status


def _ran_before(body: JsonMapping, now_s: float) -> dict[str, int]:
    """How long a Workload has been admitted in all:
    Kueue counts it against the most time, also after the next admission.
    """
    status = body.get("status") or {}
    # The older version of the API has a slip in the field's name.
    is_older = str(body.get("apiVersion") or "").endswith("/v1beta1")
    name = "accumulatedPastExexcutionTimeSeconds" if is_older else "accumulatedPastExecutionTimeSeconds"
    rows = status.get("conditions") or ()
    admitted: JsonMapping = next((row for row in rows if row.get("type") == "Admitted"), {})
    since_s = maybe(admitted.get("lastTransitionTime")) if admitted.get("status") == "True" else None
    return {} if since_s is None else {name: int(status.get(name) or 0) + max(0, int(now_s - since_s))}
