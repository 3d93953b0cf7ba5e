"""The flags of `umiak kubeconfig`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import JSON, KUBE_CONTEXT, KUBE_NAMESPACE, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage

WHICH = "Cluster"
DONE = "What is done"

FLAGS = (
    flag(
        "from",
        "Where the file comes from: Huawei's or Baidu's CCE, Alibaba's ACK, or any cluster.",
        WHICH,
        choices=("cce", "ack", "file"),
        default="file",
    ),
    flag(
        "use", "Context of the file to take. Default: its current context, or its only one.", WHICH, metavar="CONTEXT"
    ),
    shared(
        KUBE_CONTEXT,
        "Name of the context in your own kubeconfig. Default: that of the file, without its ending.",
        WHICH,
    ),
    shared(KUBE_NAMESPACE, "Namespace of the jobs. Default: the context's, else default.", WHICH),
    flag(
        "into", "Kubeconfig to add it to. Default: the first of KUBECONFIG, else ~/.kube/config.", DONE, metavar="PATH"
    ),
    switch("check", "Check and write nothing; without FILE, a context that you have.", DONE),
    switch("offline", "Add it without asking the cluster.", DONE),
    switch("overwrite", "Replace a context of the same name.", DONE),
    shared(JSON, "Print JSON.", DONE),
)

PAGE = CommandPage(
    usage=("umiak kubeconfig FILE [flags]",),
    about="Add a Kubernetes cluster: checks a downloaded kubeconfig (address, certificates, rights), adds it to your own under a "
    "name, readable for you alone, and prints the lines for umiak.toml. No cloud is asked.",
    examples=(
        (
            "umiak kubeconfig kubeconfig.json --from cce --use external",
            "Huawei CCE, by its public address",
        ),
        ("umiak kubeconfig ack.yaml --from ack --context prod", "Alibaba ACK, as the context prod"),
        ("umiak kubeconfig - --context lab < config", "from standard input"),
        ("umiak kubeconfig --check --context prod", "is this context good for jobs?"),
    ),
    flags=FLAGS,
    ending="FILE is a kubeconfig as YAML or JSON, or the answer of a cloud's API that has it in a field. Exit status: 0 if all is "
    "well, 2 for a wrong command line or file, 3 if the cluster does not answer, or with --check if rights are missing.",
)
