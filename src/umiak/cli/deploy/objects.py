"""The objects that run the operator in a cluster, as plain data. A decider.

    objects(DeployOptions())          namespace, definitions, rights, deployment, in the order of their creation
    leaving(DeployOptions())          what `umiak deploy --delete` prints, in the order of their deletion

Names are those of paddle-operator's manifests, so that this operator takes the place of the old one; both use one Lease, so that
they never act at the same time.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.paddlejob import crd
from umiak.paddlejob.resource import GROUP, PLURAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMESPACE = "paddle-system"
ACCOUNT = "paddle-manager-sa"
DEPLOYMENT = "paddle-controller-manager"
MANAGER, ELECTION = "paddle-manager-role", "paddle-leader-election-role"
GANG, KUBEFLOW = "paddle-manager-gang-role", "paddle-manager-kubeflow-role"
EDITOR, VIEWER = "paddlejob-editor-role", "paddlejob-viewer-role"
LEASE = "b2a304f2.paddlepaddle.org"
IMAGE = "umiak-operator:latest"
"""What deploy/Dockerfile makes."""
USER = 65532
METRICS_PORT, HEALTH_PORT = 8080, 8081
LABELS = {"control-plane": "controller-manager"}
RBAC = "rbac.authorization.k8s.io"
GANG_GROUPS = {
    "volcano": "scheduling.volcano.sh",
    "scheduler-plugins": "scheduling.x-k8s.io",
    "native": "scheduling.k8s.io",
}
"""Gang schedulers, and where their PodGroup is."""
SCHEDULINGS = ("none", *GANG_GROUPS)
RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "300Mi"}}
"""No limit of CPU: it would slow the operator down when many jobs come at once."""

READ = ["get", "list", "watch"]
CHILD = [*READ, "create", "delete"]
WRITTEN = [*CHILD, "update", "patch"]


@value
class DeployOptions:
    """What is asked for."""

    namespace: str = NAMESPACE
    watched: str = ""
    """Only jobs of this namespace are served; empty: of all."""
    image: str = IMAGE
    pull_secrets: tuple[str, ...] = ()
    replicas: int = 1
    scheduling: str = "none"
    etcd: str = ""
    has_kubeflow: bool = False
    is_old_cluster: bool = False
    """Its API server knows definitions of v1beta1 only."""
    has_crd: bool = True
    has_operator: bool = True


def objects(options: DeployOptions) -> list[dict[str, Any]]:
    """In the order in which they can be created."""
    made: list[dict[str, Any]] = []
    if options.has_crd:
        made += definitions(options)
    if options.has_operator:
        made += [namespace(options.namespace), *rights(options), deployment(options)]
    return made


def leaving(options: DeployOptions, *, with_definitions: bool) -> list[dict[str, Any]]:
    """What is taken away again. The namespace stays, as people's jobs may be in it; definitions only if asked for: jobs go with them."""
    made = objects(options)
    kept = {"Namespace"} if with_definitions else {"Namespace", "CustomResourceDefinition"}
    return [each for each in reversed(made) if each["kind"] not in kept]


def definitions(options: DeployOptions) -> list[dict[str, Any]]:
    """The custom resources."""
    made = [crd.old_resource() if options.is_old_cluster else crd.resource()]
    return [*made, crd.kubeflow_resource()] if options.has_kubeflow else made


def namespace(name: str) -> dict[str, Any]:
    """Where the operator runs. Jobs may be in it as well, so that it forbids nothing."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(LABELS)}}


def rights(options: DeployOptions) -> list[dict[str, Any]]:
    """An account, what it may do, and what people may do who may edit or view a namespace."""
    place = {"namespace": options.namespace}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, **place}}
    made = [
        account,
        _role(ELECTION, options.namespace, election_rules()),
        _binding(ELECTION, options, options.namespace),
    ]
    roles = [(MANAGER, manager_rules(is_everywhere=not options.watched))]
    if options.scheduling in GANG_GROUPS:
        roles.append((GANG, gang_rules(options.scheduling)))
    if options.has_kubeflow:
        roles.append((KUBEFLOW, job_rules(crd.KUBEFLOW_GROUP)))
    for name, rules in roles:
        made += [_role(name, options.watched, rules), _binding(name, options, options.watched)]
    return made if options.watched else [*made, *people_roles()]


def election_rules() -> list[dict[str, Any]]:
    """The Lease. One can't name what is created, so that creating is a rule of its own."""
    group = "coordination.k8s.io"
    return [
        _rule(group, ["leases"], ["create"]),
        {**_rule(group, ["leases"], ["get", "update", "patch"]), "resourceNames": [LEASE]},
        _rule("", ["events"], ["create", "patch"]),
    ]


def manager_rules(*, is_everywhere: bool = True) -> list[dict[str, Any]]:
    """Jobs and their children. Nodes belong to no namespace: an operator for one namespace does not look at them."""
    made = [
        *job_rules(GROUP),
        _rule("", ["pods"], [*CHILD, "patch"]),
        _rule("", ["pods/log"], ["get"]),
        _rule("", ["services", "configmaps"], WRITTEN),
        _rule("", ["events"], ["create", "patch"]),
    ]
    return [*made, _rule("", ["nodes"], READ)] if is_everywhere else made


def job_rules(group: str) -> list[dict[str, Any]]:
    """Jobs are read, their status is written; they are deleted after their time to live."""
    return [
        _rule(group, [PLURAL], [*READ, "update", "patch", "delete"]),
        _rule(group, [f"{PLURAL}/status"], ["get", "update", "patch"]),
        _rule(group, [f"{PLURAL}/finalizers"], ["update"]),
    ]


def gang_rules(scheduling: str) -> list[dict[str, Any]]:
    """PodGroups of one gang scheduler."""
    return [_rule(GANG_GROUPS[scheduling], ["podgroups"], WRITTEN)]


def people_roles() -> list[dict[str, Any]]:
    """Those who may edit a namespace may edit PaddleJobs in it, and likewise for viewing: the cluster adds these rules to its own roles."""
    made = []
    for name, verbs, aggregate in (
        (EDITOR, [*WRITTEN, "deletecollection"], ("admin", "edit")),
        (VIEWER, READ, ("view",)),
    ):
        role = _role(name, "", [_rule(GROUP, [PLURAL], verbs), _rule(GROUP, [f"{PLURAL}/status"], ["get"])])
        if name == EDITOR:
            role["rules"].append(_rule(GROUP, [f"{PLURAL}/scale"], ["get", "update", "patch"]))
        labels = {f"{RBAC}/aggregate-to-{each}": "true" for each in aggregate}
        made.append({**role, "metadata": {**role["metadata"], "labels": labels}})
    return made


def deployment(options: DeployOptions) -> dict[str, Any]:
    """The operator itself: not root, nothing to write to, no rights on its node."""
    pod: dict[str, Any] = {
        "serviceAccountName": ACCOUNT,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 10,
        "containers": [_container(options)],
    }
    if options.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DEPLOYMENT, "namespace": options.namespace, "labels": dict(LABELS)},
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": dict(LABELS)},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": pod},
        },
    }


def arguments(options: DeployOptions) -> list[str]:
    """The flags of `umiak operator`."""
    said = [
        "operator",
        "--leader-elect",
        f"--metrics-bind-address=:{METRICS_PORT}",
        f"--health-probe-bind-address=:{HEALTH_PORT}",
    ]
    if options.watched:
        said.append(f"--namespace={options.watched}")
    if options.scheduling != "none":
        said.append(f"--scheduling={options.scheduling}")
    if options.etcd:
        said.append(f"--etcd-server={options.etcd}")
    if options.has_kubeflow:
        said.append("--kubeflow")
    return said


def _container(options: DeployOptions) -> dict[str, Any]:
    return {
        "name": "manager",
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["umiak"],
        "args": arguments(options),
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "livenessProbe": _probe("/healthz", 15, 20),
        "readinessProbe": _probe("/readyz", 2, 5),
        "resources": RESOURCES,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _probe(path: str, delay_s: int, every_s: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "health"},
        "initialDelaySeconds": delay_s,
        "periodSeconds": every_s,
        "timeoutSeconds": 5,
    }


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _role(name: str, place: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """A Role where there is a namespace, else a ClusterRole."""
    kind, metadata = ("Role", {"name": name, "namespace": place}) if place else ("ClusterRole", {"name": name})
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(role: str, options: DeployOptions, place: str) -> dict[str, Any]:
    name = role.removesuffix("role") + "rolebinding"
    kind = "Role" if place else "ClusterRole"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name, "namespace": place} if place else {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": options.namespace}],
    }
