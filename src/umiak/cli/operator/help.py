"""The help of `umiak operator`, and its reference page, from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.operator.flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped
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


def text() -> str:
    """The help."""
    lines = [f"usage: {USAGE}", "", *wrapped(ABOUT, WIDTH), "", "Examples:"]
    lines += [f"  {example:<64}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/operator.md."""
    examples = "\n".join(f"{example:<64}# {meaning}" for example, meaning in EXAMPLES)
    rows = "\n".join(f"| {_code(spelling(flag))} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in FLAGS)
    counted = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in metrics.names().items())
    return (
        "<!-- Made by `python docs/generate.py` from umiak.cli.operator. Change these, not this file. -->\n\n"
        f"# `umiak operator`\n\n```\n{USAGE}\n```\n\n{ABOUT}\n\n```sh\n{examples}\n```\n\n"
        f"| flag | default | meaning |\n|---|---|---|\n{rows}\n\n{ENDING}\n\n"
        "Flags of paddle-operator keep their names. `--initImage` is accepted and changes nothing: no init container waits for peers here.\n\n"
        "## Pages\n\n| page | meaning |\n|---|---|\n"
        "| `/healthz` | 200 as long as the process works |\n"
        "| `/readyz` | 200 once the cluster was read, or while another operator holds the lease |\n"
        "| `/metrics` | for Prometheus, see below |\n\n"
        f"## Metrics\n\n| metric | meaning |\n|---|---|\n{counted}\n\n"
        "What to do with it: [run PaddleJobs on Kubernetes](../how-to/operator.md).\n"
    )


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""
