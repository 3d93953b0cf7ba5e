"""The flags of `umiak operator`: a table. Values.

Those of paddle-operator keep their names, so that its Deployment works with another image.
"""

from __future__ import annotations

from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHICH = "What is served"
HOW = "How"
OUTPUT = "Health, metrics and logs"
GANGS = ("none", "volcano", "scheduler-plugins", "native")


def _flag(name: str, help: str, group: str, metavar: str = "TEXT", default: str | None = None) -> Flag:  # noqa: A002
    return Flag(name=name, help=help, group=group, origin=FlagOrigin.UMIAK, metavar=metavar, default=default)


def _switch(name: str, help: str, group: str) -> Flag:  # noqa: A002 - the field's name
    return Flag(name=name, help=help, group=group, origin=FlagOrigin.UMIAK, kind=FlagKind.SWITCH, default=False)


FLAGS = (
    _flag("namespace", "Serve jobs of this namespace, or of several: a,b. Default: of all namespaces.", WHICH, "NAMES"),
    _switch("kubeflow", "Serve PaddleJobs of kubeflow.org/v1 as well.", WHICH),
    _switch("kueue", "Let jobs with the label kueue.x-k8s.io/queue-name wait in that queue of Kueue.", WHICH),
    _flag("kubeconfig", "Kubeconfig of the cluster. Default: KUBECONFIG, else the pod's own account.", WHICH, "PATH"),
    _flag("context", "Context of the kubeconfig. Default: the current one.", WHICH, "NAME"),
    _switch("leader_elect", "Act only while holding the lease b2a304f2.paddlepaddle.org; for several replicas.", HOW),
    _flag(
        "leader_elect_namespace",
        "Namespace of the lease. Default: the pod's own, else paddle-system.",
        HOW,
        "NAME",
    ),
    Flag(
        name="scheduling",
        help="Gang scheduling: all pods of a job or none.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=GANGS,
        default="none",
        metavar="|".join(GANGS),
    ),
    _flag("etcd_server", "etcd for elastic jobs. Default: none, their launchers have a built-in master.", HOW, "URL"),
    Flag(
        name="node_timeout",
        help="A node whose kubelet is silent for this long is lost, and so are its pods.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        default=60.0,
        metavar="SECONDS",
        least=1,
    ),
    Flag(
        name="in_flight",
        help="Requests to the API server at a time.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        default=32,
        metavar="N",
        least=1,
        most=1000,
    ),
    Flag(
        name="initImage",
        help="Image of the old operator's start barrier.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        metavar="IMAGE",
        ignored="no init container waits for peers here",
    ),
    _flag("metrics_bind_address", "Where metrics are served; 0: nowhere.", OUTPUT, "ADDRESS", ":8080"),
    _flag(
        "health_probe_bind_address", "Where /healthz and /readyz are served; 0: nowhere.", OUTPUT, "ADDRESS", ":8081"
    ),
    _switch("json", "Log lines as JSON.", OUTPUT),
    _switch("verbose", "Log more.", OUTPUT),
)
