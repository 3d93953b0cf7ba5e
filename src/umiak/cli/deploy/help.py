"""The help of `umiak deploy`, and its reference page, from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.deploy.flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped

USAGE = "umiak deploy [flags]"
ABOUT = (
    "Print the manifests of the PaddleJob operator: custom resource definitions, rights, deployment. Nothing is sent to a cluster; "
    "kubectl does that. Objects have the names that paddle-operator gave them, so that they replace it."
)
EXAMPLES = (
    ("umiak deploy | kubectl apply -f -", "definitions and operator, in paddle-system"),
    ("umiak deploy --image registry.example/umiak:1 --replicas 2", "two, one of which acts"),
    ("umiak deploy --crd | kubectl apply -f -", "the definitions alone: needs an administrator"),
    ("umiak deploy --operator --namespace ml --watch ml", "for one namespace, with rights in it alone"),
    ("umiak deploy --scheduling volcano --kubeflow", "gangs of Volcano, and Kubeflow's PaddleJobs"),
    ("umiak deploy --delete | kubectl delete -f -", "the operator goes, definitions and jobs stay"),
)
ENDING = "Exit status: 0, or 2 for a wrong command line."


def text() -> str:
    """The help."""
    lines = [f"usage: {USAGE}", "", *wrapped(ABOUT, WIDTH), "", "Examples:"]
    lines += [f"  {example:<60}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/deploy.md."""
    examples = "\n".join(f"{example:<60}# {meaning}" for example, meaning in EXAMPLES)
    rows = "\n".join(f"| {_code(spelling(flag))} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in FLAGS)
    return (
        "<!-- Made by `python docs/generate.py` from umiak.cli.deploy. Change these, not this file. -->\n\n"
        f"# `umiak deploy`\n\n```\n{USAGE}\n```\n\n{ABOUT}\n\n```sh\n{examples}\n```\n\n"
        f"| flag | default | meaning |\n|---|---|---|\n{rows}\n\n{ENDING}\n\n"
        "The same files without umiak: [deploy](../../deploy/README.md), with a Helm chart and an image. "
        "What jobs look like: [PaddleJob](paddlejob.md).\n"
    )


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""
