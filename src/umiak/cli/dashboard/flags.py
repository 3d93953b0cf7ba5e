"""The flags of `umiak dashboard` and `umiak top`, and their pages. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import ALL, INTERVAL, JSON, KUBE_CONTEXT, KUBE_NAMESPACE, OUTPUT, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace
from umiak.schema.flags import FlagKind

WHERE = "Address"
SAFETY = "Beyond this machine"
SHOWN = "Which runs"
ACTS = "Actions"
CLUSTER = "PaddleJobs of a cluster"

LOCAL = switch("no_submitted", "Leave out the runs of `umiak submit`.", SHOWN)

DASHBOARD_FLAGS = (
    flag(
        "port",
        "Port; 0: any that is free.",
        WHERE,
        kind=FlagKind.NUMBER,
        default=0,
        least=0,
        most=65535,
        metavar="PORT",
    ),
    switch("no_browser", "Print the address, and open no browser.", WHERE),
    flag(
        "token_file",
        "File with the token, readable by you alone, for an address that stays the same. Default: a new token each time.",
        WHERE,
        metavar="FILE",
    ),
    LOCAL,
    flag(
        "kubeconfig",
        "Show the PaddleJobs of this kubeconfig's cluster as well, with its user's rights. Default: none, unless --context is given.",
        CLUSTER,
        metavar="FILE",
    ),
    shared(KUBE_CONTEXT, "Context of the kubeconfig, or of KUBECONFIG. Default: the current one.", CLUSTER),
    replace(
        KUBE_NAMESPACE,
        help="PaddleJobs of this namespace only, or of several: a,b. Default: of all that may be listed, else of the context's.",
        group=CLUSTER,
        metavar="NAMES",
    ),
    switch("kubeflow", "PaddleJobs of kubeflow.org/v1 as well.", CLUSTER),
    switch(
        "cluster",
        "Show nothing of this machine, and to each viewer the PaddleJobs that the viewer's own Kubernetes token may see. `umiak deploy --dashboard` runs it in a cluster.",
        CLUSTER,
    ),
    flag(
        "health_port",
        "With --cluster: answer /healthz at this port, to anybody.",
        CLUSTER,
        kind=FlagKind.NUMBER,
        least=1,
        most=65535,
        metavar="PORT",
    ),
    flag(
        "allow",
        "Let the page do this to runs, after asking once: cancel. Default: it only reads.",
        ACTS,
        choices=("cancel",),
        metavar="ACTION",
    ),
    flag(
        "host",
        "Address to listen at. Beyond loopback only with --tls-cert, or with --insecure.",
        SAFETY,
        metavar="ADDRESS",
    ),
    flag(
        "allowed_hosts",
        "Other names under which browsers may ask for it, comma-separated.",
        SAFETY,
        metavar="NAME,...",
        many=True,
    ),
    flag("tls_cert", "Certificate, and the chain behind it, as PEM.", SAFETY, metavar="FILE"),
    flag("tls_key", "Its key, as PEM. Default: in the same file.", SAFETY, metavar="FILE"),
    switch("insecure", "Serve beyond this machine without TLS: the token and all logs can be read on the way.", SAFETY),
)

DASHBOARD = CommandPage(
    usage=("umiak dashboard [flags] [DIRECTORY...]",),
    about="Show all runs of this machine in a browser: the run directories of `umiak launch` and `umiak train` below the directories "
    "that are named (default: the working directory), and the runs of `umiak submit`. It only reads, unless --allow says more: no job notices it.",
    examples=(
        ("umiak dashboard", "runs below this directory, and submitted ones"),
        ("umiak dashboard ~/ctr /data/runs", "runs below these directories"),
        ("umiak dashboard --allow cancel", "with a button that cancels a run"),
        ("umiak dashboard --context lab", "PaddleJobs of that context's cluster, too"),
        ("umiak dashboard --port 8200 --no-browser", "on a server: `ssh -L 8200:localhost:8200 server`"),
    ),
    flags=DASHBOARD_FLAGS,
    ending="Ctrl-C ends it. Exit status: 0 after a signal, 2 for a wrong command line, 3 if the address is taken.",
)

TOP_FLAGS = (
    flag("run", "Show the workers of this run: its id, the beginning of one, or its name.", SHOWN, metavar="RUN"),
    shared(ALL, "List runs that are over as well.", SHOWN),
    LOCAL,
    shared(JSON, "Print JSON: one object per line and refresh.", OUTPUT),
    switch("once", "Print once. That is also done where the output is no terminal, unless it is JSON.", OUTPUT),
    replace(INTERVAL, default=1.0),
)

TOP = CommandPage(
    usage=("umiak top [flags] [DIRECTORY...]",),
    about="Show the runs that go on, below these directories (default: the working directory) and of `umiak submit`, and the workers "
    "of the newest: what each does, when it last wrote, who waits for whom. The terminal is refreshed until Ctrl-C. It only reads.",
    examples=(
        ("umiak top", "runs that go on, and the workers of the newest"),
        ("umiak top --run ctr-3f ~/ctr", "the workers of one run"),
        ("umiak top --all --once", "all runs, printed once"),
        ("umiak top --json --once", "machine-readable"),
    ),
    flags=TOP_FLAGS,
    ending="The same in a browser, with curves and logs: `umiak dashboard`. Exit status: 0, or 2 for a wrong command line.",
)
