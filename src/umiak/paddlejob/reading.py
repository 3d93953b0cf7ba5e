"""A PaddleJob from the plain JSON of the API, or of a manifest. A decider.

    reading = read(body)
    reading.job, reading.problems, reading.warnings

There is always a job, whatever the JSON is: one with problems is reported in its status, and not started. `batch.paddlepaddle.org/v1`
and `kubeflow.org/v1` become the same values.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.kube import times
from umiak.paddlejob import checks, failure_rules, kubeflow
from umiak.paddlejob.defaults import with_defaults
from umiak.paddlejob.field_reader import FieldNotes, object_of, shown
from umiak.paddlejob.job_fields import FIELDS, MISSPELLED
from umiak.paddlejob.report import report_of
from umiak.paddlejob.resource import (
    KIND,
    CleanPods,
    GangWish,
    Intranet,
    JobApi,
    JobSpec,
    PaddleJob,
    PodRole,
    RestartScope,
    RoleWish,
    RunPolicy,
    SuccessPolicy,
)
from umiak.paddlejob.templates.launchers import check_launchers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.problem import Problem


@value
class PaddleJobReading:
    """A job, and what was found while it was read."""

    job: PaddleJob
    problems: tuple[Problem, ...] = ()
    """Each keeps the job from being started. ``where`` is the path of the field."""
    warnings: tuple[Problem, ...] = ()


def read(body: Any) -> PaddleJobReading:
    """The job of a JSON object."""
    notes = FieldNotes()
    found = body if isinstance(body, dict) else {}
    if not isinstance(body, dict):
        notes.problem("UM-PDJ-001", "", f"a PaddleJob must be an object: {shown(body)}")
    api = _api(found, notes)
    metadata = _object(found.get("metadata"), "metadata", notes)
    spec = found.get("spec")
    if spec is None:
        notes.problem("UM-PDJ-002", "spec", "is required")
        wanted = JobSpec(roles=())
    else:
        wanted = kubeflow.spec_of(spec, notes) if api is JobApi.KUBEFLOW else spec_of(spec, notes)
    name = _text(metadata.get("name"))
    if not name:
        notes.problem("UM-PDJ-002", "metadata.name", "is required")
    job = PaddleJob(
        name=name,
        namespace=_text(metadata.get("namespace")) or "default",
        uid=_text(metadata.get("uid")),
        generation=_number(metadata.get("generation"), 1),
        resource_version=_text(metadata.get("resourceVersion")),
        created_s=_time(metadata.get("creationTimestamp")),
        is_deleting=metadata.get("deletionTimestamp") is not None,
        labels=_pairs(metadata.get("labels")),
        annotations=_pairs(metadata.get("annotations")),
        finalizers=_texts(metadata.get("finalizers")),
        api=api,
        spec=with_defaults(wanted),
        report=report_of(found.get("status"), api),
    )
    if name and isinstance(spec, dict):
        checks.check(job, notes)
        check_launchers(job, notes)
    return PaddleJobReading(job=job, problems=tuple(notes.problems), warnings=tuple(notes.warnings))


def spec_of(item: Any, notes: FieldNotes) -> JobSpec:
    """The spec of a ``batch.paddlepaddle.org/v1`` PaddleJob, without defaults."""
    found = object_of(FIELDS, item, "spec", notes, misspelled=MISSPELLED)
    clean, intranet = found.get("cleanPodPolicy"), found.get("intranet")
    return JobSpec(
        roles=tuple([_role(role, found[role.value]) for role in PodRole if role.value in found]),
        intranet=Intranet(intranet) if intranet else Intranet.POD_IP,
        with_gloo=found.get("withGloo", 0),
        clean_pods=CleanPods(clean) if clean else None,
        is_elastic="elastic" in found,
        gang=_gang(found["schedulingPolicy"]) if "schedulingPolicy" in found else None,
        run_policy=_run_policy(found.get("runPolicy", {}), notes),
    )


def _role(role: PodRole, found: dict[str, Any]) -> RoleWish:
    return RoleWish(
        role=role,
        replicas=found.get("replicas", 0),
        least=found.get("requests"),
        most=found.get("limits"),
        template=found.get("template", {}),
    )


def _gang(found: dict[str, Any]) -> GangWish:
    return GangWish(
        min_available=found.get("minAvailable"),
        queue=found.get("queue", ""),
        priority_class=found.get("priorityClass", ""),
        min_resources=found.get("minResources", ()),
    )


def _run_policy(found: dict[str, Any], notes: FieldNotes) -> RunPolicy:
    scope, success = found.get("restartScope"), found.get("successPolicy")
    return RunPolicy(
        suspend=found.get("suspend", False),
        backoff_limit=found.get("backoffLimit"),
        backoff_reset_s=found.get("backoffResetSeconds"),
        restart_scope=RestartScope(scope) if scope else None,
        ttl_s=found.get("ttlSecondsAfterFinished"),
        active_deadline_s=found.get("activeDeadlineSeconds"),
        success=SuccessPolicy(success) if success else SuccessPolicy.WORKERS,
        managed_by=found.get("managedBy", ""),
        image_pull_s=found.get("imagePullTimeoutSeconds"),
        pending_s=found.get("pendingTimeoutSeconds"),
        rules=failure_rules.rules_of(found, {role.value: role for role in PodRole}, notes),
    )


# ---- metadata


def _api(found: dict[str, Any], notes: FieldNotes) -> JobApi:
    version, kind = found.get("apiVersion"), found.get("kind")
    if kind not in (None, KIND):  # items of a list have neither
        notes.problem("UM-PDJ-001", "kind", f"must be {KIND}: {shown(kind)}")
    if version in (None, JobApi.BATCH.value):
        return JobApi.BATCH
    if version == JobApi.KUBEFLOW.value:
        return JobApi.KUBEFLOW
    versions = " or ".join(each.value for each in JobApi)
    notes.problem("UM-PDJ-001", "apiVersion", f"must be {versions}: {shown(version)}")
    return JobApi.BATCH


def _object(item: Any, path: str, notes: FieldNotes) -> dict[str, Any]:
    if item is None or isinstance(item, dict):
        return item or {}
    notes.problem("UM-PDJ-001", path, f"must be an object: {shown(item)}")
    return {}


def _text(item: Any) -> str:
    return item if isinstance(item, str) else ""


def _number(item: Any, otherwise: int) -> int:
    return item if isinstance(item, int) and not isinstance(item, bool) else otherwise


def _time(item: Any) -> float:
    try:
        return times.maybe(item) or 0.0 if isinstance(item, str) else 0.0
    except (OverflowError, TypeError):
        return 0.0


def _pairs(item: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, _text(each)) for name, each in item.items())) if isinstance(item, dict) else ()


def _texts(item: Any) -> tuple[str, ...]:
    return tuple([each for each in item if isinstance(each, str)]) if isinstance(item, list) else ()
