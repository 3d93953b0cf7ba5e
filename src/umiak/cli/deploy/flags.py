"""The flags of `umiak deploy`: a table, whose words about the chart's values are those of the chart. Values."""

from __future__ import annotations

from umiak.cli.deploy.values import BY_NAME, IMAGE, PULL_POLICIES, SCHEDULINGS
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHAT = "What is printed"
HOW = "How the operator runs"
NAMESPACE = "paddle-system"


def _flag(name: str, help: str, group: str, metavar: str = "NAME", default: str | None = None) -> Flag:  # noqa: A002 - the field's name
    return Flag(name=name, help=help, group=group, origin=FlagOrigin.UMIAK, metavar=metavar, default=default)


def _switch(name: str, help: str, group: str = WHAT) -> Flag:  # noqa: A002
    return Flag(name=name, help=help, group=group, origin=FlagOrigin.UMIAK, kind=FlagKind.SWITCH, default=False)


def _many(name: str, help: str, metavar: str) -> Flag:  # noqa: A002
    return Flag(name=name, help=help, group=HOW, origin=FlagOrigin.UMIAK, metavar=metavar, many=True)


def _choice(name: str, help: str, choices: tuple[str, ...], default: str) -> Flag:  # noqa: A002
    return Flag(
        name=name,
        help=help,
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=choices,
        default=default,
        metavar="|".join(choices),
    )


def _meaning(name: str) -> str:
    return BY_NAME[name].meaning


FLAGS = (
    _switch("crd", "Only the CustomResourceDefinitions."),
    _switch("operator", "Only the operator: namespace, rights, Service, deployment."),
    _switch("v1beta1", "Definitions for Kubernetes 1.15 and older."),
    _switch(
        "delete",
        "What to delete, for `kubectl delete -f -`: the operator. The namespace stays; definitions, and with them all jobs, only with --crd.",
    ),
    _switch("json", "Print JSON, a List of all objects."),
    _flag(
        "kustomize",
        "Print nothing, and write a kustomization and its manifests into this directory, which is made if it is not there.",
        WHAT,
        "DIR",
    ),
    _flag("namespace", "Namespace of the operator.", HOW, default=NAMESPACE),
    _many("watch", _meaning("watchNamespaces"), "NAMESPACE"),
    _flag("image", _meaning("image"), HOW, "IMAGE", IMAGE),
    _choice("pull_policy", _meaning("imagePullPolicy"), PULL_POLICIES, "IfNotPresent"),
    _many("pull_secret", _meaning("imagePullSecrets"), "NAME"),
    Flag(
        name="replicas",
        help=_meaning("replicas"),
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        default=1,
        least=0,
        most=100,
        metavar="N",
    ),
    _choice("scheduling", _meaning("scheduling"), SCHEDULINGS, "none"),
    _flag("etcd_server", _meaning("etcdServer"), HOW, "HOST:PORT"),
    _switch("kubeflow", _meaning("kubeflow"), HOW),
    _switch("kueue", _meaning("kueue"), HOW),
    _switch("service_monitor", _meaning("serviceMonitor"), HOW),
    _many("requests", "What the operator's container asks for.", "cpu=200m"),
    _many("limits", "What it gets at most.", "memory=1Gi"),
    _many("node_selector", _meaning("nodeSelector"), "KEY=VALUE"),
    _many("toleration", f"{_meaning('tolerations')} As `kubectl taint` writes them.", "KEY[=VALUE][:EFFECT]"),
    _many("label", _meaning("extraLabels"), "KEY=VALUE"),
)
