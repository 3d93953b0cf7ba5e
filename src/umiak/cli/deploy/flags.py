"""The flags of `umiak deploy`: a table. Values."""

from __future__ import annotations

from umiak.cli.deploy.objects import IMAGE, NAMESPACE, SCHEDULINGS
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHAT = "What is printed"
HOW = "How the operator runs"


def _flag(name: str, help: str, group: str, metavar: str = "NAME", default: str | None = None) -> Flag:  # noqa: A002 - the field's name
    return Flag(name=name, help=help, group=group, origin=FlagOrigin.UMIAK, metavar=metavar, default=default)


def _switch(name: str, help: str, group: str = WHAT) -> Flag:  # noqa: A002
    return Flag(name=name, help=help, group=group, origin=FlagOrigin.UMIAK, kind=FlagKind.SWITCH, default=False)


FLAGS = (
    _switch("crd", "Only the CustomResourceDefinitions."),
    _switch("operator", "Only the operator: namespace, rights, deployment."),
    _switch("v1beta1", "Definitions for Kubernetes 1.15 and older."),
    _switch(
        "delete",
        "What to delete, for `kubectl delete -f -`: the operator. The namespace stays; definitions, and with them all jobs, only with --crd.",
    ),
    _switch("json", "Print JSON, a List of all objects."),
    _flag("namespace", "Namespace of the operator.", HOW, default=NAMESPACE),
    _flag(
        "watch",
        "Serve jobs of this namespace only, with rights in it alone. Default: all namespaces.",
        HOW,
        "NAMESPACE",
    ),
    _flag("image", "Image that has umiak; deploy/Dockerfile makes one.", HOW, "IMAGE", IMAGE),
    _flag("pull_secret", "Secret with the credentials of the image's registry.", HOW),
    Flag(
        name="replicas",
        help="Operators; one of them acts, the others wait to take over.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        default=1,
        least=0,
        most=100,
        metavar="N",
    ),
    Flag(
        name="scheduling",
        help="Gang scheduler of the cluster.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=SCHEDULINGS,
        default="none",
        metavar="|".join(SCHEDULINGS),
    ),
    _flag("etcd_server", "etcd of elastic jobs. Default: jobs bring their own meeting point.", HOW, "HOST:PORT"),
    _switch("kubeflow", "Serve kubeflow.org/v1 PaddleJobs as well.", HOW),
)
