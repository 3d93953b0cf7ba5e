"""The objects that run the operator in a cluster: one tree, which `umiak deploy` fills and the chart has as templates.
A decider.

    objects(DeployOptions())          definitions, namespace, rights, Service, deployment, in the order of their creation
    leaving(DeployOptions())          what `umiak deploy --delete` prints, in the order of their deletion
    TREES                             the operator's objects as trees of `template`, by the chart's file

Names are those of paddle-operator's manifests, so that this operator takes the place of the old one;
both use one Lease, so that they never act at the same time.
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
from umiak.paddlejob.templates import admission

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

ACCOUNT = "paddle-manager-sa"
DEPLOYMENT = "paddle-controller-manager"
METRICS = f"{DEPLOYMENT}-metrics"
MANAGER, ELECTION = "paddle-manager-role", "paddle-leader-election-role"
GANG, KUBEFLOW = "paddle-manager-gang-role", "paddle-manager-kubeflow-role"
KUEUE, CLASSES = "paddle-manager-kueue-role", "paddle-manager-kueue-classes-role"
KUEUE_GROUP = "kueue.x-k8s.io"
DASHBOARD, DASHBOARD_ACCOUNT = "paddle-dashboard", "paddle-dashboard-sa"
EDITOR, VIEWER = "paddlejob-editor-role", "paddlejob-viewer-role"
LEASE = "b2a304f2.paddlepaddle.org"
USER = 65532
METRICS_PORT, HEALTH_PORT, PAGE_PORT = 8080, 8081, 8200
LABELS = {SELECTED: "controller-manager"}
SERVICE_LABELS = {**LABELS, "app.kubernetes.io/name": METRICS}
"""Other operators' Services have the first one as well."""
DASHBOARD_LABELS = {SELECTED: "dashboard"}
ACCOUNT_PATH, TLS_PATH = "/var/run/secrets/kubernetes.io/serviceaccount", "/var/run/secrets/umiak/tls"
RBAC = "rbac.authorization.k8s.io"

READ = ["get", "list", "watch"]
CHILD = [*READ, "create", "delete"]
WRITTEN = [*CHILD, "update", "patch"]
HERE = {"namespace": Put(name=RELEASE)}
SEVERAL = Test(name="replicas", least=2)
LIMITED = Test(name="watchNamespaces")
SERVED = Test(name="dashboardTls")
EVERYWHERE = Test(name="watchNamespaces", is_not=True)


@value
class DeployOptions:
    """What is asked for."""

    namespace: str = NAMESPACE
    values: JsonMapping | None = None
    """As in the chart's values.yaml; what is not said is as there."""
    is_old_cluster: bool = False
    """Its API server knows definitions of v1beta1 only."""
    has_crd: bool = True
    has_operator: bool = True

    @property
    def all_values(self) -> JsonObject:
        return {**chart_values.defaults(), **(self.values or {})}


def objects(options: DeployOptions) -> list[JsonObject]:
    """In the order in which they can be created."""
    objects: list[JsonObject] = []
    if options.has_crd:
        objects += definitions(options)
    if options.has_operator:
        objects += _filled([_namespace()], options)
        for tree in TREES.values():
            objects += _filled(tree, options)
    return objects


def leaving(options: DeployOptions, *, with_definitions: bool) -> list[JsonObject]:
    """What is taken away again. The namespace stays, as people's jobs may be in it;
    definitions only if asked for: jobs go with them.
    """
    made = objects(options)
    kept = {"Namespace"} if with_definitions else {"Namespace", "CustomResourceDefinition"}
    return [each for each in reversed(made) if each["kind"] not in kept]


def definitions(options: DeployOptions) -> list[JsonObject]:
    """The custom resources."""
    definitions = [crd.old_resource() if options.is_old_cluster else crd.resource()]
    return [*definitions, crd.kubeflow_resource()] if options.all_values["kubeflow"] else definitions


def rights(options: DeployOptions) -> list[JsonObject]:
    """An account, what it may do, and what people may do who may edit or view a namespace."""
    return _filled(TREES["rights"], options)


def deployment(options: DeployOptions) -> JsonObject:
    """The operator itself."""
    return _filled(TREES["deployment"], options)[0]


def arguments(options: DeployOptions) -> list[str]:
    """The flags of `umiak operator`."""
    arguments: list[str] = deployment(options)["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def _filled(tree: list[Any], options: DeployOptions) -> list[JsonObject]:
    manifests = filled(tree, options.all_values, options.namespace)
    for each in manifests:
        if options.is_old_cluster and each["kind"] == "PodDisruptionBudget":
            each["apiVersion"] = "policy/v1beta1"
    return manifests


# ---- the trees


def _metadata(name: str | Put, place: JsonMapping, labels: JsonMapping | None = None) -> JsonObject:
    """Own labels, and those that people want beside them."""
    if labels:
        return {"name": name, **place, "labels": Joined(plain=labels, name="extraLabels")}
    return {
        "name": name,
        **place,
        "labels": When(test=Test(name="extraLabels"), then=Put(name="extraLabels", is_tree=True)),
    }


def _namespace() -> JsonObject:
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


def _manager(place: JsonObject) -> list[Any]:
    """What the operator may do about jobs: everywhere, or in one namespace."""
    rights: list[Any] = [_role(MANAGER, place, manager_rules(is_everywhere=not place)), _binding(MANAGER, place)]
    rights += [
        When(test=Test(name="scheduling", equals=name), then=[_role(GANG, place, rules), _binding(GANG, place)])
        for name, rules in ((each, gang_rules(each)) for each in GANG_GROUPS)
    ]
    kubeflow = [_role(KUBEFLOW, place, job_rules(crd.KUBEFLOW_GROUP)), _binding(KUBEFLOW, place)]
    kueue = [_role(KUEUE, place, kueue_rules()), _binding(KUEUE, place)]
    return [
        *rights,
        When(test=Test(name="kubeflow"), then=kubeflow),
        When(test=Test(name="kueue"), then=kueue),
    ]


def election_rules() -> list[JsonObject]:
    """The Lease. One can't name what is created, so that creating is a rule of its own."""
    group = "coordination.k8s.io"
    return [
        _rule(group, ["leases"], ["create"]),
        {**_rule(group, ["leases"], ["get", "update", "patch"]), "resourceNames": [LEASE]},
        _rule("", ["events"], ["create", "patch"]),
    ]


def manager_rules(*, is_everywhere: bool = True) -> list[JsonObject]:
    """Jobs and their children. Nodes belong to no namespace: an operator for one namespace does not look at them."""
    rules = [
        *job_rules(GROUP),
        _rule("", ["pods"], [*CHILD, "patch"]),
        _rule("", ["pods/log"], ["get"]),
        _rule("", ["services", "configmaps"], WRITTEN),
        _rule("", ["events"], ["create", "patch"]),
    ]
    return [*rules, _rule("", ["nodes"], READ)] if is_everywhere else rules


def job_rules(group: str) -> list[JsonObject]:
    """Jobs are read, their status is written; they are deleted after their time to live."""
    return [
        _rule(group, [PLURAL], [*READ, "update", "patch", "delete"]),
        _rule(group, [f"{PLURAL}/status"], ["get", "update", "patch"]),
        _rule(group, [f"{PLURAL}/finalizers"], ["update"]),
    ]


def gang_rules(scheduling: str) -> list[JsonObject]:
    """PodGroups of one gang scheduler."""
    return [_rule(GANG_GROUPS[scheduling], ["podgroups"], WRITTEN)]


def kueue_rules() -> list[JsonObject]:
    """The Workloads of jobs that wait in queues."""
    return [
        _rule(KUEUE_GROUP, ["workloads"], WRITTEN),
        _rule(KUEUE_GROUP, ["workloads/status"], ["get", "update", "patch"]),
    ]


def class_rules() -> list[JsonObject]:
    """Flavors and classes of priority are of the whole cluster:
    they are read by name, also by an operator for some namespaces.
    """
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


def _people_roles() -> list[JsonObject]:
    """Those who may edit a namespace may edit PaddleJobs in it, and likewise for viewing:
    the cluster adds these rules to its own roles.
    """
    roles = []
    for name, verbs, aggregate in (
        (EDITOR, [*WRITTEN, "deletecollection"], ("admin", "edit")),
        (VIEWER, READ, ("view",)),
    ):
        rules = [_rule(GROUP, [PLURAL], verbs), _rule(GROUP, [f"{PLURAL}/status"], ["get"])]
        if name == EDITOR:
            rules.append(_rule(GROUP, [f"{PLURAL}/scale"], ["get", "update", "patch"]))
        labels = {f"{RBAC}/aggregate-to-{each}": "true" for each in aggregate}
        roles.append(_role(name, {}, rules, labels))
    return roles


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


def _budget() -> JsonObject:
    """Of several operators one may be taken away at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(DEPLOYMENT, HERE, LABELS),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
    }


def _deployment() -> JsonObject:
    """The operator itself: not root, nothing to write to, no rights on its node."""
    pod: JsonObject = {
        "serviceAccountName": ACCOUNT,
        "securityContext": _nobody(),
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


def _apart() -> JsonObject:
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


def _container() -> JsonObject:
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
        "securityContext": _unprivileged(),
    }


def _nobody() -> JsonObject:
    """Who the processes of a pod are."""
    profile = {"type": "RuntimeDefault"}
    return {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "seccompProfile": profile}


def _unprivileged() -> JsonObject:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _probe(path: str, delay_s: int, every_s: int) -> JsonObject:
    return {
        "httpGet": {"path": path, "port": "health"},
        "initialDelaySeconds": delay_s,
        "periodSeconds": every_s,
        "timeoutSeconds": 5,
    }


def _dashboard() -> list[Any]:
    """The page of the cluster's jobs. Its account has no rights, and its pod no token of it:
    it asks with the tokens of its viewers.
    """
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(DASHBOARD_ACCOUNT, HERE),
        "automountServiceAccountToken": False,
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(DASHBOARD, HERE, DASHBOARD_LABELS),
        "spec": {"selector": DASHBOARD_LABELS, "ports": [{"name": "https", "port": 443, "targetPort": "page"}]},
    }
    return [
        When(test=Test(name="dashboard"), then=[account, _dashboard_deployment(), When(test=SERVED, then=[service])])
    ]


def _dashboard_deployment() -> JsonObject:
    pod: JsonObject = {
        "serviceAccountName": DASHBOARD_ACCOUNT,
        "automountServiceAccountToken": False,
        "securityContext": _nobody(),
        "terminationGracePeriodSeconds": 10,
        "containers": [_dashboard_container()],
        "volumes": [
            {"name": "authority", "configMap": {"name": "kube-root-ca.crt"}},
            When(test=SERVED, then={"name": "tls", "secret": {"secretName": Put(name="dashboardTls")}}),
        ],
        "imagePullSecrets": _if_said("imagePullSecrets"),
        "nodeSelector": _if_said("nodeSelector"),
        "tolerations": _if_said("tolerations"),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(DASHBOARD, HERE, DASHBOARD_LABELS),
        "spec": {
            "replicas": 1,  # who is logged in is known to one process
            "selector": {"matchLabels": DASHBOARD_LABELS},
            "template": {"metadata": {"labels": Joined(plain=DASHBOARD_LABELS, name="extraLabels")}, "spec": pod},
        },
    }


def _dashboard_container() -> JsonObject:
    served = [
        "--host=0.0.0.0",
        f"--tls-cert={TLS_PATH}/tls.crt",
        f"--tls-key={TLS_PATH}/tls.key",
        f"--allowed-hosts={DASHBOARD}",
        Put(name=RELEASE, prefix=f"--allowed-hosts={DASHBOARD}."),
        Put(name=RELEASE, prefix=f"--allowed-hosts={DASHBOARD}.", suffix=".svc"),
    ]
    return {
        "name": "dashboard",
        "image": Put(name="image"),
        "imagePullPolicy": Put(name="imagePullPolicy"),
        "command": ["umiak"],
        "args": [
            "dashboard",
            "--cluster",
            f"--port={PAGE_PORT}",
            f"--health-port={HEALTH_PORT}",
            When(test=LIMITED, then=Put(name=LIMITED.name, prefix="--namespace=")),
            When(test=Test(name="kubeflow"), then="--kubeflow"),
            *(When(test=SERVED, then=each) for each in served),
            When(test=Test(name="dashboardHosts"), then=Put(name="dashboardHosts", prefix="--allowed-hosts=")),
        ],
        "ports": [
            {"name": "page", "containerPort": PAGE_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "livenessProbe": _probe("/healthz", 15, 20),
        "readinessProbe": _probe("/healthz", 1, 5),
        "resources": Put(name="resources", is_tree=True),
        "volumeMounts": [
            {"name": "authority", "mountPath": ACCOUNT_PATH, "readOnly": True},
            When(test=SERVED, then={"name": "tls", "mountPath": TLS_PATH, "readOnly": True}),
        ],
        "securityContext": _unprivileged(),
    }


def _warnings() -> list[Any]:
    """About jobs of all namespaces, or of those that are served.
    Named after the operator's namespace: several operators have one each.
    """
    policy, binding = admission.objects()
    name = Put(name=RELEASE, prefix=f"{admission.NAME}-")
    place = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": Put(name=LIMITED.name, is_tree=True)}
    limited = When(test=LIMITED, then={"namespaceSelector": {"matchExpressions": [place]}})
    metadata = _metadata(name, {})
    documents = [
        {**policy, "metadata": metadata},
        {**binding, "metadata": metadata, "spec": {**binding["spec"], "policyName": name, "matchResources": limited}},
    ]
    return [When(test=Test(name="warnings", since=admission.SINCE), then=documents)]


def _rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _role(
    name: str | Put, place: JsonMapping, rules: list[JsonObject], labels: JsonMapping | None = None
) -> JsonObject:
    """A Role where there is a namespace, else a ClusterRole."""
    kind = "Role" if place else "ClusterRole"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": _metadata(name, place, labels), "rules": rules}


def _binding(role: str, place: JsonMapping) -> JsonObject:
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
    "dashboard": _dashboard(),
    "deployment": [_deployment(), When(test=SEVERAL, then=[_budget()])],
    "warnings": _warnings(),
}
"""The operator's objects without its namespace, by the chart's template, in the order of their creation."""
