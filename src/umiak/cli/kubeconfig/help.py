"""The help of `umiak kubeconfig`, and its reference page, from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.kubeconfig.flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped

USAGE = "umiak kubeconfig FILE [flags]"
ABOUT = (
    "Add a Kubernetes cluster: checks a downloaded kubeconfig (address, certificates, rights), adds it to your own under a name, "
    "readable for you alone, and prints the lines for umiak.toml. No cloud is asked."
)
EXAMPLES = (
    (
        "umiak kubeconfig kubeconfig.json --from cce --use external",
        "Huawei CCE: its file has contexts internal and external",
    ),
    ("umiak kubeconfig ack.yaml --from ack --context prod", "Alibaba ACK, as the context prod"),
    ("umiak kubeconfig - --context lab < config", "from standard input"),
    ("umiak kubeconfig --check --context prod", "is a context that you have good for jobs?"),
)
ENDING = (
    "FILE is a kubeconfig as YAML or JSON, or the answer of a cloud's API that has it in a field. "
    "Exit status: 0 if all is well, 2 for a wrong command line or file, 3 if the cluster does not answer, or with --check if rights are missing."
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
    """docs/reference/kubeconfig.md."""
    examples = "\n".join(f"{example:<64}# {meaning}" for example, meaning in EXAMPLES)
    rows = "\n".join(f"| {_code(spelling(flag))} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in FLAGS)
    return (
        "<!-- Made by `python docs/generate.py` from umiak.cli.kubeconfig. Change these, not this file. -->\n\n"
        f"# `umiak kubeconfig`\n\n```\n{USAGE}\n```\n\n{ABOUT}\n\n```sh\n{examples}\n```\n\n"
        f"| flag | default | meaning |\n|---|---|---|\n{rows}\n\n{ENDING}\n\n"
        "What to do with it: [submit to Kubernetes](../how-to/submit-kubernetes.md).\n"
    )


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""
