"""The flags of `umiak deploy`: a table; and its page, whose words about the chart's values are those of the chart.
Values.
"""

from __future__ import annotations

from umiak.cli.deploy.values import BY_NAME, IMAGE, PULL_POLICIES, SCHEDULINGS
from umiak.cli.shared_flags import JSON, KUBE_NAMESPACE, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace
from umiak.schema.flags import FlagKind

WHAT = "What is printed"
HOW = "How the operator runs"
NAMESPACE = "paddle-system"


def _meaning(name: str) -> str:
    return BY_NAME[name].meaning


FLAGS = (
    switch("crd", "Only the CustomResourceDefinitions.", WHAT),
    switch("operator", "Only the operator: namespace, rights, Service, deployment.", WHAT),
    switch("v1beta1", "Definitions for Kubernetes 1.15 and older.", WHAT),
    switch(
        "delete",
        "What to delete, for `kubectl delete -f -`: the operator. The namespace stays; definitions, and with them all jobs, only with --crd.",
        WHAT,
    ),
    shared(JSON, "Print JSON, a List of all objects.", WHAT),
    flag(
        "kustomize",
        "Print nothing, and write a kustomization and its manifests into this directory, which is made if it is not there.",
        WHAT,
        metavar="DIR",
    ),
    replace(KUBE_NAMESPACE, help="Namespace of the operator.", group=HOW, default=NAMESPACE),
    flag("watch", _meaning("watchNamespaces"), HOW, metavar="NAMESPACE", many=True),
    flag("image", _meaning("image"), HOW, metavar="IMAGE", default=IMAGE),
    flag("pull_policy", _meaning("imagePullPolicy"), HOW, choices=PULL_POLICIES, default="IfNotPresent"),
    flag("pull_secret", _meaning("imagePullSecrets"), HOW, metavar="NAME", many=True),
    flag("replicas", _meaning("replicas"), HOW, kind=FlagKind.NUMBER, default=1, least=0, most=100),
    flag("scheduling", _meaning("scheduling"), HOW, choices=SCHEDULINGS, default="none"),
    flag("etcd_server", _meaning("etcdServer"), HOW, metavar="HOST:PORT"),
    switch("kubeflow", _meaning("kubeflow"), HOW),
    switch("kueue", _meaning("kueue"), HOW),
    switch("dashboard", _meaning("dashboard"), HOW),
    flag("dashboard_tls", _meaning("dashboardTls"), HOW, metavar="SECRET"),
    flag("dashboard_host", _meaning("dashboardHosts"), HOW, metavar="NAME", many=True),
    switch("service_monitor", _meaning("serviceMonitor"), HOW),
    switch("warnings", _meaning("warnings"), HOW),
    flag("requests", "What the operator's container asks for.", HOW, metavar="cpu=200m", many=True),
    flag("limits", "What it gets at most.", HOW, metavar="memory=1Gi", many=True),
    flag("node_selector", _meaning("nodeSelector"), HOW, metavar="KEY=VALUE", many=True),
    flag(
        "toleration",
        f"{_meaning('tolerations')} As `kubectl taint` writes them.",
        HOW,
        metavar="KEY[=VALUE][:EFFECT]",
        many=True,
    ),
    flag("label", _meaning("extraLabels"), HOW, metavar="KEY=VALUE", many=True),
)

PAGE = CommandPage(
    usage=("umiak deploy [flags]",),
    about="Print the manifests of the PaddleJob operator: custom resource definitions, rights, Service, deployment. Nothing is "
    "sent to a cluster; kubectl does that. Objects have the names that paddle-operator gave them, so that they replace it.",
    examples=(
        ("umiak deploy | kubectl apply -f -", "definitions and operator"),
        ("umiak deploy --image registry.example/umiak:1 --replicas 2", "two, one of which acts"),
        ("umiak deploy --crd | kubectl apply -f -", "definitions, by an administrator"),
        ("umiak deploy --operator --namespace ml --watch ml,lab", "for two namespaces, rights in them"),
        ("umiak deploy --kustomize base", "a directory for kustomize"),
        ("umiak deploy --scheduling volcano --kubeflow", "Volcano, and Kubeflow's jobs"),
        ("umiak deploy --dashboard --dashboard-tls paddle-dashboard", "and a page for all with a token"),
        ("umiak deploy --delete | kubectl delete -f -", "definitions and jobs stay"),
    ),
    flags=FLAGS,
    ending="Exit status: 0, or 2 for a wrong command line.",
)
