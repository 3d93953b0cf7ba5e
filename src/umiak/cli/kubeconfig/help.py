"""The help of `umiak kubeconfig`, and its reference page, from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.kubeconfig.flags import FLAGS
from umiak.cli.texts.command_page import CommandPage, help_of, reference_of

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
PAGE = CommandPage(name="kubeconfig", usage=USAGE, about=ABOUT, examples=EXAMPLES, ending=ENDING, flags=FLAGS)


def text() -> str:
    """The help."""
    return help_of(PAGE)


def reference() -> str:
    """docs/reference/kubeconfig.md."""
    return reference_of(PAGE, "What to do with it: [submit to Kubernetes](../how-to/submit-kubernetes.md).\n")
