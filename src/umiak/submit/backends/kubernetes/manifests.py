"""The objects that a run is made of in a cluster: a Secret, ConfigMaps, a Service and the workload itself. A decider.

    for each in objects(job, "ctr-3f2a9c10", settings, cluster):
        each.collection, each.name, each.body

Secrets have no value here, and archives no bytes: what sends an object puts them in.
The same job gives the same objects.
"""

from __future__ import annotations

import hashlib
import json

from umiak.core.cluster import Role
from umiak.core.value import replace, value
from umiak.platforms import kubernetes as contract
from umiak.submit.backends.kubernetes import pods
from umiak.submit.backends.kubernetes.names import (
    CONTAINER,
    DIGEST,
    GROUPS,
    JOB,
    KIND,
    MANAGED_BY,
    OURS,
    RUN,
    RUN_ID,
    RunNames,
)
from umiak.submit.backends.kubernetes.settings import KUEUE, VOLCANO, WorkloadKind
from umiak.submit.payload import node_plan
from umiak.submit.payload.node_plan import PlaceTraits, SentFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job, RoleSpec
    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.kubernetes.settings import KubeSettings
    from umiak.submit.payload.node_plan import NodePlan

API = {
    "Secret": ("v1", "secrets"),
    "ConfigMap": ("v1", "configmaps"),
    "Service": ("v1", "services"),
    "Job": ("batch/v1", "jobs"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "PaddleJob": ("batch.paddlepaddle.org/v1", "paddlejobs"),
    "PodGroup": ("scheduling.volcano.sh/v1beta1", "podgroups"),
    "Pod": ("v1", "pods"),
}
"""The version and the plural of each kind that is used here."""
KINDS = {WorkloadKind.PADDLEJOB: "PaddleJob", WorkloadKind.JOBSET: "JobSet", WorkloadKind.JOB: "Job"}
WORKLOADS = frozenset(KINDS.values())
MOST_BYTES = 1024 * 1024
"""Of a ConfigMap or a Secret: names and contents together."""
ROOM_BYTES = 4096
"""For everything else that is in such an object."""
ARCHIVE = "files.tar.gz"


@value
class ClusterParts:
    """What rendering needs to know besides the job and its place."""

    namespace: str
    kind: WorkloadKind
    launcher_sha256: str
    launcher_bytes: int
    files_digest: str = ""
    """Empty: the job sends no files."""
    files_bytes: int = 0
    """Of the archive."""

    @property
    def has_large_files(self) -> bool:
        return self.files_bytes > MOST_BYTES - ROOM_BYTES


@value
class KubeObject:
    """One object, as it is sent but for secrets and archives."""

    kind: str
    namespace: str
    name: str
    body: JsonObject
    filled: str = ""
    """What is put in when it is sent: ``secrets``, ``launcher`` or ``files``."""
    content: tuple[tuple[str, str], ...] = ()
    """The keys of that, each with what a dry run says about it."""

    @property
    def collection(self) -> str:
        return collection(self.kind, self.namespace)


def collection(kind: str, namespace: str) -> str:
    """The path of all objects of a kind."""
    version, plural = API[kind]
    return f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{namespace}/{plural}"


def objects(job: Job, run_id: str, settings: KubeSettings, parts: ClusterParts) -> tuple[KubeObject, ...]:
    """All of them in the order of their creation, workloads last."""
    from umiak.contracts.start import TOKEN

    names = RunNames.of(run_id)
    all_objects = [
        replace(
            _object("Secret", names.secret, {"type": "Opaque", "immutable": True}, parts),
            filled="secrets",
            content=tuple((name, "not shown") for name in sorted([TOKEN, *job.secrets])),
        ),
        replace(
            _object("ConfigMap", names.launcher, {"immutable": True}, parts),
            filled="launcher",
            content=((pods.LAUNCHER_NAME, f"{parts.launcher_bytes} bytes, sha256 {parts.launcher_sha256}"),),
        ),
    ]
    if parts.files_digest and not parts.has_large_files:
        size = f"{parts.files_bytes} bytes, content hash {parts.files_digest}"
        all_objects.append(
            replace(
                _object("ConfigMap", names.files, {"immutable": True}, parts),
                filled="files",
                content=((ARCHIVE, size),),
            )
        )
    plans = {
        f"{role.role.value}.json": node_plan.as_text(plan_of(job, role, run_id, settings, parts)) for role in job.roles
    }
    all_objects.append(_object("ConfigMap", names.plan, {"immutable": True, "data": plans}, parts))
    if parts.kind is WorkloadKind.JOB:
        all_objects.append(_object("Service", names.name, _service(names), parts))
    if settings.scheduler == VOLCANO and parts.kind is not WorkloadKind.PADDLEJOB:
        all_objects.append(_object("PodGroup", names.name, {"spec": _gang(job, settings)}, parts))
    all_objects += _workloads(job, names, settings, parts)
    return _marked(job, run_id, names, settings, parts, all_objects)


def plan_of(job: Job, role: RoleSpec, run_id: str, settings: KubeSettings, parts: ClusterParts) -> NodePlan:
    """What a pod of this role does. Its paths count from the directory where the plan is mounted."""
    files = None
    if parts.files_digest:
        url = f"{settings.files_url.rstrip('/')}/{parts.files_digest}.tar.gz" if parts.has_large_files else ""
        archive = f"../work/{ARCHIVE}" if url else f"../files/{ARCHIVE}"
        files = SentFiles(digest=parts.files_digest, store="../work/store", archive=archive, url=url)
    # All workers speak through the pod's log; their files are gone with the pod.
    traits = PlaceTraits(directory="../work/job", tee="all", log_directory="../logs", files=files)
    return node_plan.of(job, role, run_id, traits)


def shown(each: KubeObject) -> JsonObject:
    """The object as a dry run prints it."""
    if not each.filled:
        return each.body
    key = "stringData" if each.filled == "secrets" else "binaryData"
    return {**each.body, key: {name: f"<{said}>" for name, said in each.content}}


# ---- the parts


def _object(kind: str, name: str, body: JsonObject, parts: ClusterParts) -> KubeObject:
    head = {"apiVersion": API[kind][0], "kind": kind, "metadata": {"name": name, "namespace": parts.namespace}}
    return KubeObject(kind=kind, namespace=parts.namespace, name=name, body={**head, **body})


def _marked(
    job: Job, run_id: str, names: RunNames, settings: KubeSettings, parts: ClusterParts, made: list[KubeObject]
) -> tuple[KubeObject, ...]:
    """With the labels and annotations of the run; the digest is that of everything else."""
    text = json.dumps([[each.body, list(each.content)] for each in made], sort_keys=True)
    labels = {**dict(settings.labels), MANAGED_BY: OURS, RUN: names.name}
    annotations = {
        **dict(settings.annotations),
        RUN_ID: run_id,
        JOB: job.name,
        KIND: parts.kind.value,
        DIGEST: hashlib.sha256(text.encode()).hexdigest()[:32],
    }
    marked = []
    for each in made:
        own = {**labels, **_queue_label(each.kind, settings)}
        metadata = {**each.body["metadata"], "labels": own, "annotations": annotations}
        marked.append(replace(each, body={**each.body, "metadata": metadata}))
    return tuple(marked)


def _queue_label(kind: str, settings: KubeSettings) -> dict[str, str]:
    is_kueue = settings.scheduler == KUEUE and settings.queue and kind in WORKLOADS
    return {"kueue.x-k8s.io/queue-name": settings.queue} if is_kueue else {}


def _service(names: RunNames) -> JsonObject:
    """Gives every pod a name, also before it is ready: launchers meet before anything else."""
    return {
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {RUN: names.name}},
    }


def _gang(job: Job, settings: KubeSettings) -> JsonObject:
    spec: JsonObject = {"minMember": job.nodes.least}
    if settings.queue:
        spec["queue"] = settings.queue
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    return spec


def _workloads(job: Job, names: RunNames, settings: KubeSettings, parts: ClusterParts) -> list[KubeObject]:
    if parts.kind is WorkloadKind.PADDLEJOB:
        return [_object("PaddleJob", names.name, {"spec": _paddlejob(job, names, settings, parts)}, parts)]
    ttl = {} if settings.ttl_s is None else {"ttlSecondsAfterFinished": settings.ttl_s}
    specs = {role.role: _job(job, role, names, settings, parts) for role in job.roles}
    if parts.kind is WorkloadKind.JOB:
        return [_object("Job", names.job(role), {"spec": {**spec, **ttl}}, parts) for role, spec in specs.items()]
    deciding = [GROUPS[role] for role in specs if role is not Role.SERVER]
    spec = {
        **ttl,
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": deciding},
        "replicatedJobs": [
            {
                "name": GROUPS[role],
                "replicas": 1,
                "template": {"metadata": {"labels": {MANAGED_BY: OURS, RUN: names.name}}, "spec": spec},
            }
            for role, spec in specs.items()
        ],
    }
    return [_object("JobSet", names.name, {"spec": spec}, parts)]


def _job(job: Job, role: RoleSpec, names: RunNames, settings: KubeSettings, parts: ClusterParts) -> JsonObject:
    """The spec of an Indexed Job with a pod for each node of a role.

    A launcher restarts its workers itself, so a pod that ends with an error ends the job. A pod that its cluster
    took away is made again: of an elastic job as often as it happens, else as often as the job may restart.
    """
    layout = {GROUPS[each.role]: (1, each.nodes.most) for each in job.roles}
    env = {} if job.nodes.most == 1 else contract.environment_of_pod(names.name, GROUPS[role.role], layout)
    spec: JsonObject = {
        "completionMode": "Indexed",
        "completions": role.nodes.most,
        "parallelism": role.nodes.most,
        "backoffLimit": job.max_restarts,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "Ignore" if job.nodes.is_elastic else "Count",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "NotIn", "values": [0]},
                },
            ]
        },
    }
    if role.nodes.is_elastic:
        # Nodes that never came, or came late, don't keep a job from being done.
        rule = {"succeededIndexes": "0", "succeededCount": 1} if job.outputs else {"succeededCount": role.nodes.least}
        spec["successPolicy"] = {"rules": [rule]}
    if job.time_limit_s:
        spec["activeDeadlineSeconds"] = job.time_limit_s
    subdomain = names.name if parts.kind is WorkloadKind.JOB else ""
    spec["template"] = pods.template(
        job,
        role,
        names,
        settings,
        pods.PodExtras(
            env=tuple(env.items()),
            subdomain=subdomain,
            has_files=bool(parts.files_digest) and not parts.has_large_files,
        ),
    )
    return spec


def _paddlejob(job: Job, names: RunNames, settings: KubeSettings, parts: ClusterParts) -> JsonObject:
    """For the operator of batch.paddlepaddle.org, which tells pods of one another by itself.
    Pods are kept for their logs.

    As in Indexed Jobs, a pod that ends with an error ends the job:
    its launcher has restarted its workers as often as it may.
    """
    from umiak.platforms.paddlecloud import ELASTIC_SERVER

    spec: JsonObject = {"cleanPodPolicy": "Never", "intranet": "PodIP", "runPolicy": {"backoffLimit": 0}}
    env = {}
    if job.nodes.is_elastic:
        spec["elastic"] = 1
        env = {ELASTIC_SERVER: settings.etcd} if settings.etcd else {}  # else the operator names its own master
    for role in job.roles:
        extras = pods.PodExtras(
            env=tuple(env.items()),
            time_limit_s=job.time_limit_s,
            has_files=bool(parts.files_digest) and not parts.has_large_files,
        )
        counts = {"replicas": role.nodes.most}
        if role.nodes.is_elastic:
            counts |= {"requests": role.nodes.least, "limits": role.nodes.most}
        spec[GROUPS[role.role]] = {**counts, "template": pods.template(job, role, names, settings, extras)}
    if settings.scheduler == VOLCANO:
        policy: JsonObject = {"minAvailable": job.nodes.least}
        if settings.queue:
            policy["queue"] = settings.queue
        if settings.priority_class:
            policy["priorityClass"] = settings.priority_class
        spec["schedulingPolicy"] = policy
    return spec
