"""The help of `umiak operator`, and its reference page, from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.operator.flags import FLAGS
from umiak.cli.texts.command_page import CommandPage, help_of, reference_of
from umiak.operator.controller import metrics

USAGE = "umiak operator [flags]"
ABOUT = (
    "Serve PaddleJobs in a Kubernetes cluster: makes the pods of each job, watches them, restarts what failed within the job's budget, "
    "and says in its status how it is. `umiak deploy` prints the manifests that run it in the cluster."
)
EXAMPLES = (
    ("umiak operator", "with the current kubeconfig, for all namespaces"),
    ("umiak operator --namespace training --json", "one namespace, log lines as JSON"),
    ("umiak operator --leader-elect --scheduling volcano", "as one of several replicas, with gang scheduling"),
    ("umiak operator --kubeflow", "PaddleJobs of Kubeflow as well"),
)
ENDING = (
    "Needs `umiak[operator]`. SIGTERM ends it cleanly; jobs run on, and the next operator goes on with them. "
    "Exit status: 0 after a signal, 2 for a wrong command line, 3 if the cluster does not answer or an address is taken."
)
PAGE = CommandPage(name="operator", usage=USAGE, about=ABOUT, examples=EXAMPLES, ending=ENDING, flags=FLAGS)


def text() -> str:
    """The help."""
    return help_of(PAGE)


def reference() -> str:
    """docs/reference/operator.md."""
    counted = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in metrics.names().items())
    return reference_of(
        PAGE,
        "Flags of paddle-operator keep their names. `--initImage` is accepted and changes nothing: no init container waits for peers here.\n\n"
        "## Pages\n\n| page | meaning |\n|---|---|\n"
        "| `/healthz` | 200 as long as the process works |\n"
        "| `/readyz` | 200 once the cluster was read, or while another operator holds the lease |\n"
        "| `/metrics` | for Prometheus, see below |\n\n"
        f"## Metrics\n\n| metric | meaning |\n|---|---|\n{counted}\n\n"
        "What to do with it: [run PaddleJobs on Kubernetes](../how-to/operator.md).\n",
    )
