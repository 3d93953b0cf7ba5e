"""PaddleJob of Kubeflow's training-operator (``kubeflow.org/v1``), read into the same values. A decider.

| there | here |
|---|---|
| `paddleReplicaSpecs.Master` | `ps`: a job that has it is of mode PS |
| `paddleReplicaSpecs.Worker` | `worker` |
| `restartPolicy` of a role | that of its pods; ExitCode: pods are never restarted in place, the operator goes by their exit code |
| `runPolicy.cleanPodPolicy` None, Running, All | Never, Running, Always |
"""

from __future__ import annotations

from umiak.paddlejob.field_reader import FieldNotes, object_of
from umiak.paddlejob.kubeflow_fields import EXIT_CODE, FIELDS
from umiak.paddlejob.resource import (
    CleanPods,
    GangWish,
    Intranet,
    JobSpec,
    PodRole,
    RestartScope,
    RoleWish,
    RunPolicy,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROLES = {PodRole.PS: "Master", PodRole.WORKER: "Worker"}
CLEAN = {"None": CleanPods.NEVER, "Running": CleanPods.RUNNING, "All": CleanPods.ALWAYS}
DEFAULT_RESTART = "OnFailure"
CONTAINER = "paddle"
"""Kubeflow insists on a container of this name, and gives variables to all. Here the first one will do."""


def spec_of(item: Any, notes: FieldNotes) -> JobSpec:
    """The spec of a ``kubeflow.org/v1`` PaddleJob, without defaults."""
    found = object_of(FIELDS, item, "spec", notes)
    policy: dict[str, Any] = found.get("runPolicy", {})
    roles: dict[str, Any] = found.get("paddleReplicaSpecs", {})
    gang = policy.get("schedulingPolicy")
    return JobSpec(
        roles=tuple([_role(role, roles[name]) for role, name in ROLES.items() if name in roles]),
        intranet=Intranet.SERVICE,  # the meeting point is the name of a Service
        clean_pods=CLEAN[policy.get("cleanPodPolicy") or "None"],
        gang=_gang(gang) if gang is not None else None,
        run_policy=RunPolicy(
            suspend=policy.get("suspend", False),
            backoff_limit=policy.get("backoffLimit"),
            restart_scope=RestartScope.POD,
            ttl_s=policy.get("ttlSecondsAfterFinished"),
            active_deadline_s=policy.get("activeDeadlineSeconds"),
            managed_by=policy.get("managedBy", ""),
        ),
    )


def _role(role: PodRole, found: dict[str, Any]) -> RoleWish:
    restart = found.get("restartPolicy") or DEFAULT_RESTART
    template: dict[str, Any] = found.get("template", {})
    spec = template.get("spec")
    if isinstance(spec, dict):
        template = {**template, "spec": {**spec, "restartPolicy": "Never" if restart == EXIT_CODE else restart}}
    return RoleWish(
        role=role,
        replicas=found.get("replicas", 1),
        template=template,
        restarts_by_exit_code=restart == EXIT_CODE,
    )


def _gang(found: dict[str, Any]) -> GangWish:
    return GangWish(
        min_available=found.get("minAvailable"),
        queue=found.get("queue", ""),
        priority_class=found.get("priorityClass", ""),
        min_resources=found.get("minResources", ()),
    )
