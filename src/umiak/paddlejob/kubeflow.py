"""PaddleJob of Kubeflow's training-operator (``kubeflow.org/v1``), read into the same values. A decider.

| there | here |
|---|---|
| `paddleReplicaSpecs.Master` | `ps`: a job that has it is of mode PS |
| `paddleReplicaSpecs.Worker` | `worker` |
| `restartPolicy` of a role | that of its pods; ExitCode: pods are never restarted in place, the operator goes by their exit code |
| `runPolicy.cleanPodPolicy` None, Running, All | Never, Running, Always |
"""

from __future__ import annotations

from umiak.core.default_ports import KUBEFLOW as KUBEFLOW_PORT
from umiak.paddlejob import failure_rules
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
from umiak.paddlejob.templates.main_container import main_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROLES = {PodRole.PS: "Master", PodRole.WORKER: "Worker"}
CLEAN = {"None": CleanPods.NEVER, "Running": CleanPods.RUNNING, "All": CleanPods.ALWAYS}
MEETING_PORT = "master"
"""The name of the container port where pods meet."""
DEFAULT_RESTART = "OnFailure"


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
            image_pull_s=policy.get("imagePullTimeoutSeconds"),
            pending_s=policy.get("pendingTimeoutSeconds"),
            rules=failure_rules.rules_of(policy, {word: role for role, word in ROLES.items()}, notes),
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


def leader_of(spec: JobSpec) -> PodRole:
    """Whose first pod is the meeting point."""
    return PodRole.PS if spec.role(PodRole.PS) else PodRole.WORKER


def ports_of(wish: RoleWish) -> list[dict[str, Any]]:
    """The ports of a role's main container, with the one where pods meet, which Kubeflow adds."""
    containers = (wish.template.get("spec") or {}).get("containers") or ()
    number = main_index(containers)
    ports = [each for each in (containers[number].get("ports") or ()) if isinstance(each, dict)] if containers else []
    if any(each.get("name") == MEETING_PORT for each in ports):
        return ports
    return [*ports, {"name": MEETING_PORT, "containerPort": KUBEFLOW_PORT, "protocol": "TCP"}]


def meeting_port(spec: JobSpec) -> int:
    """Where the pods of a job meet at its first pod."""
    wish = spec.role(leader_of(spec))
    ports = ports_of(wish) if wish else []
    number = next((each.get("containerPort") for each in ports if each.get("name") == MEETING_PORT), None)
    return number if isinstance(number, int) else KUBEFLOW_PORT


def _gang(found: dict[str, Any]) -> GangWish:
    return GangWish(
        min_available=found.get("minAvailable"),
        queue=found.get("queue", ""),
        priority_class=found.get("priorityClass", ""),
        min_resources=found.get("minResources", ()),
    )
