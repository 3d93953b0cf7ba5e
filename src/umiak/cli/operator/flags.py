"""The flags of `umiak operator`: a table; and its page. Values.

Those of paddle-operator keep their names, so that its Deployment works with another image.
"""

from __future__ import annotations

from umiak.cli.shared_flags import JSON, KUBE_CONTEXT, KUBE_NAMESPACE, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHICH = "What is served"
HOW = "How"
OUTPUT = "Health, metrics and logs"
GANGS = ("none", "volcano", "scheduler-plugins", "native")


FLAGS = (
    replace(
        KUBE_NAMESPACE,
        help="Serve jobs of this namespace, or of several: a,b. Default: of all namespaces.",
        group=WHICH,
        metavar="NAMES",
    ),
    switch("kubeflow", "Serve PaddleJobs of kubeflow.org/v1 as well.", WHICH),
    switch("kueue", "Let jobs with the label kueue.x-k8s.io/queue-name wait in that queue of Kueue.", WHICH),
    flag(
        "kubeconfig",
        "Kubeconfig of the cluster. Default: KUBECONFIG, else the pod's own account.",
        WHICH,
        metavar="PATH",
    ),
    replace(KUBE_CONTEXT, group=WHICH),
    switch("leader_elect", "Act only while holding the lease b2a304f2.paddlepaddle.org; for several replicas.", HOW),
    flag(
        "leader_elect_namespace",
        "Namespace of the lease. Default: the pod's own, else paddle-system.",
        HOW,
        metavar="NAME",
    ),
    flag(
        "scheduling",
        "Gang scheduling: all pods of a job or none.",
        HOW,
        choices=GANGS,
        default="none",
    ),
    flag(
        "etcd_server",
        "etcd for elastic jobs. Default: none, their launchers have a built-in master.",
        HOW,
        metavar="URL",
    ),
    flag(
        "node_timeout",
        "A node whose kubelet is silent for this long is lost, and so are its pods.",
        HOW,
        kind=FlagKind.SECONDS,
        default=60.0,
        least=1,
    ),
    flag(
        "in_flight",
        "Requests to the API server at a time.",
        HOW,
        kind=FlagKind.NUMBER,
        default=32,
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
    flag("metrics_bind_address", "Where metrics are served; 0: nowhere.", OUTPUT, metavar="ADDRESS", default=":8080"),
    flag(
        "health_probe_bind_address",
        "Where /healthz and /readyz are served; 0: nowhere.",
        OUTPUT,
        metavar="ADDRESS",
        default=":8081",
    ),
    shared(JSON, "Log lines as JSON.", OUTPUT),
    switch("verbose", "Log more.", OUTPUT),
)

PAGE = CommandPage(
    usage=("umiak operator [flags]",),
    about="Serve PaddleJobs in a Kubernetes cluster: makes the pods of each job, watches them, restarts what failed within the "
    "job's budget, and says in its status how it is. `umiak deploy` prints the manifests that run it in the cluster.",
    examples=(
        ("umiak operator", "current kubeconfig, all namespaces"),
        ("umiak operator --namespace training --json", "one namespace, log lines as JSON"),
        ("umiak operator --leader-elect --scheduling volcano", "one of several replicas, gangs"),
        ("umiak operator --kubeflow", "PaddleJobs of Kubeflow as well"),
    ),
    flags=FLAGS,
    ending="Needs `umiak[operator]`. SIGTERM ends it cleanly; jobs run on, and the next operator goes on with them. Exit status: "
    "0 after a signal, 2 for a wrong command line, 3 if the cluster does not answer or an address is taken.",
)
