"""A PaddleJob from the plain JSON of the API, or of a manifest. A decider.

    reading = read(body)
    reading.job, reading.problems, reading.warnings

There is always a job, whatever the JSON is: one with problems is reported in its status, and not started.
`batch.paddlepaddle.org/v1` and `kubeflow.org/v1` become the same values:

| there | here |
|---|---|
| `paddleReplicaSpecs.Master` | `ps`: a job that has it is of mode PS |
| `paddleReplicaSpecs.Worker` | `worker` |
| `restartPolicy` of a role | that of its pods; ExitCode: pods are never restarted in place, the operator goes by their exit code |
| `runPolicy.cleanPodPolicy` None, Running, All | Never, Running, Always |
"""

from __future__ import annotations

from umiak.core.value import replace, value
from umiak.paddlejob import checks, failure_rules, kubeflow_fields
from umiak.paddlejob.field_reader import FieldNotes, object_of, shown, text_in, time_in
from umiak.paddlejob.job_fields import FIELDS, MISSPELLED
from umiak.paddlejob.report import report_of
from umiak.paddlejob.resource import (
    KIND,
    CleanPods,
    GangSpec,
    Intranet,
    JobApi,
    JobMode,
    JobSpec,
    PaddleJob,
    PaddleJobRole,
    PodRole,
    RestartScope,
    RunPolicy,
    SuccessPolicy,
)
from umiak.paddlejob.templates.launchers import check_launchers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.core.problem import Problem
    from umiak.paddlejob.resource import JobSpec, PaddleJobRole
KUBEFLOW_ROLES = {PodRole.PS: "Master", PodRole.WORKER: "Worker"}
KUBEFLOW_CLEAN = {"None": CleanPods.NEVER, "Running": CleanPods.RUNNING, "All": CleanPods.ALWAYS}
DEFAULT_RESTART = "OnFailure"


@value
class PaddleJobReading:
    """A job, and what was found while it was read."""

    job: PaddleJob
    problems: tuple[Problem, ...] = ()
    """Each keeps the job from being started. ``where`` is the path of the field."""
    warnings: tuple[Problem, ...] = ()


def read(body: object) -> PaddleJobReading:
    """The job of a JSON object."""
    notes = FieldNotes()
    plain = body if isinstance(body, dict) else {}
    if not isinstance(body, dict):
        notes.problem("UM-PDJ-001", "", f"a PaddleJob must be an object: {shown(body)}")
    api = _api(plain, notes)
    metadata = _object(plain.get("metadata"), "metadata", notes)
    spec = plain.get("spec")
    if spec is None:
        notes.problem("UM-PDJ-002", "spec", "is required")
        wanted = JobSpec(roles=())
    else:
        wanted = kubeflow_spec_of(spec, notes) if api is JobApi.KUBEFLOW else spec_of(spec, notes)
    name = text_in(metadata.get("name"))
    if not name:
        notes.problem("UM-PDJ-002", "metadata.name", "is required")
    job = PaddleJob(
        name=name,
        namespace=text_in(metadata.get("namespace")) or "default",
        uid=text_in(metadata.get("uid")),
        generation=_number(metadata.get("generation"), 1),
        resource_version=text_in(metadata.get("resourceVersion")),
        created_s=time_in(metadata.get("creationTimestamp")) or 0.0,
        is_deleting=metadata.get("deletionTimestamp") is not None,
        labels=_pairs(metadata.get("labels")),
        annotations=_pairs(metadata.get("annotations")),
        finalizers=_texts(metadata.get("finalizers")),
        api=api,
        spec=with_defaults(wanted),
        report=report_of(plain.get("status"), api),
    )
    if name and isinstance(spec, dict):
        checks.check(job, notes)
        check_launchers(job, notes)
    return PaddleJobReading(job=job, problems=tuple(notes.problems), warnings=tuple(notes.warnings))


def spec_of(item: object, notes: FieldNotes) -> JobSpec:
    """The spec of a ``batch.paddlepaddle.org/v1`` PaddleJob, without defaults."""
    spec = object_of(FIELDS, item, "spec", notes, misspelled=MISSPELLED)
    clean, intranet = spec.get("cleanPodPolicy"), spec.get("intranet")
    return JobSpec(
        roles=tuple([_role(role, spec[role.value]) for role in PodRole if role.value in spec]),
        intranet=Intranet(intranet) if intranet else Intranet.POD_IP,
        with_gloo=spec.get("withGloo", 0),
        clean_pods=CleanPods(clean) if clean else None,
        is_elastic="elastic" in spec,
        gang=_gang(spec["schedulingPolicy"]) if "schedulingPolicy" in spec else None,
        run_policy=_run_policy(spec.get("runPolicy", {}), {role.value: role for role in PodRole}, notes),
    )


def kubeflow_spec_of(item: object, notes: FieldNotes) -> JobSpec:
    """The spec of a ``kubeflow.org/v1`` PaddleJob, without defaults."""
    spec = object_of(kubeflow_fields.FIELDS, item, "spec", notes)
    policy: JsonObject = spec.get("runPolicy", {})
    roles: JsonObject = spec.get("paddleReplicaSpecs", {})
    gang = policy.get("schedulingPolicy")
    run_policy = _run_policy(policy, {word: role for role, word in KUBEFLOW_ROLES.items()}, notes)
    return JobSpec(
        roles=tuple([_kubeflow_role(role, roles[name]) for role, name in KUBEFLOW_ROLES.items() if name in roles]),
        intranet=Intranet.SERVICE,  # the meeting point is the name of a Service
        clean_pods=KUBEFLOW_CLEAN[policy.get("cleanPodPolicy") or "None"],
        gang=_gang(gang) if gang is not None else None,
        run_policy=replace(run_policy, restart_scope=RestartScope.POD),
    )


def _kubeflow_role(role: PodRole, found: JsonObject) -> PaddleJobRole:
    restart = found.get("restartPolicy") or DEFAULT_RESTART
    by_exit_code = restart == kubeflow_fields.EXIT_CODE
    template: JsonObject = found.get("template", {})
    spec = template.get("spec")
    if isinstance(spec, dict):
        template = {**template, "spec": {**spec, "restartPolicy": "Never" if by_exit_code else restart}}
    return PaddleJobRole(
        role=role, replicas=found.get("replicas", 1), template=template, restarts_by_exit_code=by_exit_code
    )


def _role(role: PodRole, found: JsonObject) -> PaddleJobRole:
    return PaddleJobRole(
        role=role,
        replicas=found.get("replicas", 0),
        least=found.get("requests"),
        most=found.get("limits"),
        template=found.get("template", {}),
    )


def _gang(found: JsonObject) -> GangSpec:
    return GangSpec(
        min_available=found.get("minAvailable"),
        queue=found.get("queue", ""),
        priority_class=found.get("priorityClass", ""),
        min_resources=found.get("minResources", ()),
    )


def _run_policy(found: JsonObject, roles: dict[str, PodRole], notes: FieldNotes) -> RunPolicy:
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
        rules=failure_rules.rules_of(found, roles, notes),
    )


# ---- metadata


def _api(found: JsonObject, notes: FieldNotes) -> JobApi:
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


def _object(item: object, path: str, notes: FieldNotes) -> JsonObject:
    if item is None or isinstance(item, dict):
        return item or {}
    notes.problem("UM-PDJ-001", path, f"must be an object: {shown(item)}")
    return {}


def _number(item: object, otherwise: int) -> int:
    return item if isinstance(item, int) and not isinstance(item, bool) else otherwise


def _pairs(item: object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text_in(each)) for name, each in item.items())) if isinstance(item, dict) else ()


def _texts(item: object) -> tuple[str, ...]:
    return tuple([each for each in item if isinstance(each, str)]) if isinstance(item, list) else ()


# ---- what counts where a manifest is silent

BACKOFF_LIMIT = 3
LEAST_ELASTIC = 1


def with_defaults(spec: JobSpec) -> JobSpec:
    """The spec with a budget of restarts, their scope, and the bounds of elastic roles.
    Applied twice, nothing changes.
    """
    policy = spec.run_policy
    if policy.backoff_limit is None:
        policy = replace(policy, backoff_limit=BACKOFF_LIMIT)
    if policy.restart_scope is None:
        policy = replace(policy, restart_scope=restart_scope(spec))
    roles = tuple([_bounded(role) if spec.is_elastic else role for role in spec.roles])
    return replace(spec, run_policy=policy, roles=roles)


def restart_scope(spec: JobSpec) -> RestartScope:
    """What a failed pod takes with it.

    Workers with parameter servers, and those of elastic jobs, can join again one by one. Collective workers
    can't: the others wait in an all-reduce for one that is gone.
    """
    return RestartScope.POD if spec.is_elastic or spec.mode is JobMode.PS else RestartScope.JOB


def _bounded(role: PaddleJobRole) -> PaddleJobRole:
    if role.role is not PodRole.WORKER or role.least is not None:
        return role
    return replace(role, least=min(LEAST_ELASTIC, role.replicas))
