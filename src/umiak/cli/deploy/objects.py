"""The objects that run the operator in a cluster: one tree, which `umiak deploy` fills and the chart has as templates. A decider.

    objects(DeployOptions())          definitions, namespace, rights, Service, deployment, in the order of their creation
    leaving(DeployOptions())          what `umiak deploy --delete` prints, in the order of their deletion
    TREES                             the operator's objects as trees of `template`, by the chart's file

Names are those of paddle-operator's manifests, so that this operator takes the place of the old one; both use one Lease, so that
they never act at the same time.
"""

from __future__ import annotations

from umiak.cli.deploy import values as chart_values
from umiak.cli.deploy.flags import NAMESPACE
from umiak.cli.deploy.template import EACH, ForEach, Joined, Put, Test, When, filled
from umiak.cli.deploy.template import NAMESPACE as RELEASE
from umiak.cli.deploy.values import GANG_GROUPS, SELECTED
from umiak.core.value import value
from umiak.paddlejob import crd
from umiak.paddlejob.resource import GROUP, PLURAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ACCOUNT = "paddle-manager-sa"
DEPLOYMENT = "paddle-controller-manager"
METRICS = f"{DEPLOYMENT}-metrics"
MANAGER, ELECTION = "paddle-manager-role", "paddle-leader-election-role"
GANG, KUBEFLOW = "paddle-manager-gang-role", "paddle-manager-kubeflow-role"
KUEUE, CLASSES = "paddle-manager-kueue-role", "paddle-manager-kueue-classes-role"
KUEUE_GROUP = "kueue.x-k8s.io"
EDITOR, VIEWER = "paddlejob-editor-role", "paddlejob-viewer-role"
LEASE = "b2a304f2.paddlepaddle.org"
USER = 65532
METRICS_PORT, HEALTH_PORT = 8080, 8081
LABELS = {SELECTED: "controller-manager"}
SERVICE_LABELS = {**LABELS, "app.kubernetes.io/name": METRICS}
"""Other operators' Services have the first one as well."""
RBAC = "rbac.authorization.k8s.io"

READ = ["get", "list", "watch"]
CHILD = [*READ, "create", "delete"]
WRITTEN = [*CHILD, "update", "patch"]
HERE = {"namespace": Put(name=RELEASE)}
SEVERAL = Test(name="replicas", least=2)
LIMITED = Test(name="watchNamespaces")
EVERYWHERE = Test(name="watchNamespaces", is_not=True)


@value
class DeployOptions:
    """What is asked for."""

    namespace: str = NAMESPACE
    values: Mapping[str, Any] | None = None
    """As in the chart's values.yaml; what is not said is as there."""
    is_old_cluster: bool = False
    """Its API server knows definitions of v1beta1 only."""
    has_crd: bool = True
    has_operator: bool = True

    @property
    def all_values(self) -> dict[str, Any]:
        return {**chart_values.defaults(), **(self.values or {})}


def objects(options: DeployOptions) -> list[dict[str, Any]]:
    """In the order in which they can be created."""
    made: list[dict[str, Any]] = []
    if options.has_crd:
        made += definitions(options)
    if options.has_operator:
        made += _filled([_namespace()], options)
        for tree in TREES.values():
            made += _filled(tree, options)
    return made


def leaving(options: DeployOptions, *, with_definitions: bool) -> list[dict[str, Any]]:
    """What is taken away again. The namespace stays, as people's jobs may be in it; definitions only if asked for: jobs go with them."""
    made = objects(options)
    kept = {"Namespace"} if with_definitions else {"Namespace", "CustomResourceDefinition"}
    return [each for each in reversed(made) if each["kind"] not in kept]


def definitions(options: DeployOptions) -> list[dict[str, Any]]:
    """The custom resources."""
    made = [crd.old_resource() if options.is_old_cluster else crd.resource()]
    return [*made, crd.kubeflow_resource()] if options.all_values["kubeflow"] else made


def rights(options: DeployOptions) -> list[dict[str, Any]]:
    """An account, what it may do, and what people may do who may edit or view a namespace."""
    return _filled(TREES["rights"], options)


def deployment(options: DeployOptions) -> dict[str, Any]:
    """The operator itself."""
    return _filled(TREES["deployment"], options)[0]


def arguments(options: DeployOptions) -> list[str]:
    """The flags of `umiak operator`."""
    said: list[str] = deployment(options)["spec"]["template"]["spec"]["containers"][0]["args"]
    return said


def _filled(tree: list[Any], options: DeployOptions) -> list[dict[str, Any]]:
    made = filled(tree, options.all_values, options.namespace)
    for each in made:
        if options.is_old_cluster and each["kind"] == "PodDisruptionBudget":
            each["apiVersion"] = "policy/v1beta1"
    return made


# ---- the trees


def _metadata(name: str | Put, place: Mapping[str, Any], labels: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Own labels, and those that people want beside them."""
    if labels:
        return {"name": name, **place, "labels": Joined(plain=labels, name="extraLabels")}
    return {
        "name": name,
        **place,
        "labels": When(test=Test(name="extraLabels"), then=Put(name="extraLabels", is_tree=True)),
    }


def _namespace() -> dict[str, Any]:
    """Where the operator runs. Jobs may be in it as well, so that it forbids nothing. Helm makes one itself."""
    metadata = {"name": Put(name=RELEASE), "labels": Joined(plain=LABELS, name="extraLabels")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _rights() -> list[Any]:
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(ACCOUNT, HERE)},
        _role(ELECTION, HERE, election_rules()),
        _binding(ELECTION, HERE),
        When(test=EVERYWHERE, then=[*_manager({}), *_people_roles()]),
        ForEach(name=LIMITED.name, then=_manager({"namespace": Put(name=EACH)})),
        When(test=Test(name="kueue"), then=_classes()),
    ]


def _manager(place: dict[str, Any]) -> list[Any]:
    """What the operator may do about jobs: everywhere, or in one namespace."""
    made: list[Any] = [_role(MANAGER, place, manager_rules(is_everywhere=not place)), _binding(MANAGER, place)]
    made += [
        When(test=Test(name="scheduling", equals=name), then=[_role(GANG, place, rules), _binding(GANG, place)])
        for name, rules in ((each, gang_rules(each)) for each in GANG_GROUPS)
    ]
    kubeflow = [_role(KUBEFLOW, place, job_rules(crd.KUBEFLOW_GROUP)), _binding(KUBEFLOW, place)]
    kueue = [_role(KUEUE, place, kueue_rules()), _binding(KUEUE, place)]
    return [
        *made,
        When(test=Test(name="kubeflow"), then=kubeflow),
        When(test=Test(name="kueue"), then=kueue),
    ]


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


def kueue_rules() -> list[dict[str, Any]]:
    """The Workloads of jobs that wait in queues."""
    return [
        _rule(KUEUE_GROUP, ["workloads"], WRITTEN),
        _rule(KUEUE_GROUP, ["workloads/status"], ["get", "update", "patch"]),
    ]


def class_rules() -> list[dict[str, Any]]:
    """Flavors and classes of priority are of the whole cluster: they are read by name, also by an operator for some namespaces."""
    return [
        _rule(KUEUE_GROUP, ["resourceflavors", "workloadpriorityclasses"], ["get"]),
        _rule("scheduling.k8s.io", ["priorityclasses"], ["get"]),
    ]


def _classes() -> list[Any]:
    """Named after the operator's namespace: operators for different namespaces have one each."""
    name = Put(name=RELEASE, prefix=f"{CLASSES}-")
    role = _role(name, {}, class_rules())
    binding = _binding(CLASSES, {})
    metadata = {**binding["metadata"], "name": Put(name=RELEASE, prefix=f"{CLASSES.removesuffix('role')}rolebinding-")}
    return [role, {**binding, "metadata": metadata, "roleRef": {**binding["roleRef"], "name": name}}]


def _people_roles() -> list[dict[str, Any]]:
    """Those who may edit a namespace may edit PaddleJobs in it, and likewise for viewing: the cluster adds these rules to its own roles."""
    made = []
    for name, verbs, aggregate in (
        (EDITOR, [*WRITTEN, "deletecollection"], ("admin", "edit")),
        (VIEWER, READ, ("view",)),
    ):
        rules = [_rule(GROUP, [PLURAL], verbs), _rule(GROUP, [f"{PLURAL}/status"], ["get"])]
        if name == EDITOR:
            rules.append(_rule(GROUP, [f"{PLURAL}/scale"], ["get", "update", "patch"]))
        labels = {f"{RBAC}/aggregate-to-{each}": "true" for each in aggregate}
        made.append(_role(name, {}, rules, labels))
    return made


def _pages() -> list[Any]:
    """The Service of metrics and health, and who reads it."""
    ports = [
        {"name": name, "port": port, "targetPort": name}
        for name, port in (("metrics", METRICS_PORT), ("health", HEALTH_PORT))
    ]
    monitor = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _metadata(METRICS, HERE, LABELS),
        "spec": {
            "selector": {"matchLabels": SERVICE_LABELS},
            # Metrics have the label `namespace`: that of the job, and not of the operator.
            "endpoints": [{"port": "metrics", "path": "/metrics", "honorLabels": True}],
        },
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _metadata(METRICS, HERE, SERVICE_LABELS),
            "spec": {"selector": LABELS, "ports": ports},
        },
        When(test=Test(name="serviceMonitor"), then=[monitor]),
    ]


def _budget() -> dict[str, Any]:
    """Of several operators one may be taken away at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(DEPLOYMENT, HERE, LABELS),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
    }


def _deployment() -> dict[str, Any]:
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
        "containers": [_container()],
        "imagePullSecrets": _if_said("imagePullSecrets"),
        "nodeSelector": _if_said("nodeSelector"),
        "tolerations": _if_said("tolerations"),
        "affinity": When(test=SEVERAL, then={"podAntiAffinity": _apart()}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(DEPLOYMENT, HERE, LABELS),
        "spec": {
            "replicas": Put(name="replicas"),
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": Joined(plain=LABELS, name="extraLabels")}, "spec": pod},
        },
    }


def _if_said(name: str) -> When:
    return When(test=Test(name=name), then=Put(name=name, is_tree=True))


def _apart() -> dict[str, Any]:
    """On different nodes where there are some: on a cluster of one node both must run as well."""
    term = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


def _arguments() -> list[Any]:
    return [
        "operator",
        "--leader-elect",
        f"--metrics-bind-address=:{METRICS_PORT}",
        f"--health-probe-bind-address=:{HEALTH_PORT}",
        When(test=LIMITED, then=Put(name=LIMITED.name, prefix="--namespace=")),
        When(
            test=Test(name="scheduling", equals="none", is_not=True),
            then=Put(name="scheduling", prefix="--scheduling="),
        ),
        When(test=Test(name="etcdServer"), then=Put(name="etcdServer", prefix="--etcd-server=")),
        When(test=Test(name="kubeflow"), then="--kubeflow"),
        When(test=Test(name="kueue"), then="--kueue"),
    ]


def _container() -> dict[str, Any]:
    return {
        "name": "manager",
        "image": Put(name="image"),
        "imagePullPolicy": Put(name="imagePullPolicy"),
        "command": ["umiak"],
        "args": _arguments(),
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "livenessProbe": _probe("/healthz", 15, 20),
        "readinessProbe": _probe("/readyz", 2, 5),
        "resources": Put(name="resources", is_tree=True),
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


def _role(
    name: str | Put, place: Mapping[str, Any], rules: list[dict[str, Any]], labels: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A Role where there is a namespace, else a ClusterRole."""
    kind = "Role" if place else "ClusterRole"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": _metadata(name, place, labels), "rules": rules}


def _binding(role: str, place: Mapping[str, Any]) -> dict[str, Any]:
    kind = "Role" if place else "ClusterRole"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": _metadata(role.removesuffix("role") + "rolebinding", place),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, **HERE}],
    }


TREES: dict[str, list[Any]] = {
    "rights": _rights(),
    "metrics": _pages(),
    "deployment": [_deployment(), When(test=SEVERAL, then=[_budget()])],
}
"""The operator's objects without its namespace, by the chart's template, in the order of their creation."""
