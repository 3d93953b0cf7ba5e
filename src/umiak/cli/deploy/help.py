"""The help of `umiak deploy`, and its reference page, from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.deploy.flags import FLAGS
from umiak.cli.texts.command_page import CommandPage, help_of, reference_of

USAGE = "umiak deploy [flags]"
ABOUT = (
    "Print the manifests of the PaddleJob operator: custom resource definitions, rights, Service, deployment. Nothing is sent to a cluster; "
    "kubectl does that. Objects have the names that paddle-operator gave them, so that they replace it."
)
EXAMPLES = (
    ("umiak deploy | kubectl apply -f -", "definitions and operator, in paddle-system"),
    ("umiak deploy --image registry.example/umiak:1 --replicas 2", "two, one of which acts"),
    ("umiak deploy --crd | kubectl apply -f -", "the definitions alone: needs an administrator"),
    ("umiak deploy --operator --namespace ml --watch ml,lab", "for two namespaces, with rights in them alone"),
    ("umiak deploy --kustomize base", "a directory for kustomize"),
    ("umiak deploy --scheduling volcano --kubeflow", "gangs of Volcano, and Kubeflow's PaddleJobs"),
    ("umiak deploy --delete | kubectl delete -f -", "the operator goes, definitions and jobs stay"),
)
ENDING = "Exit status: 0, or 2 for a wrong command line."
PAGE = CommandPage(name="deploy", usage=USAGE, about=ABOUT, examples=EXAMPLES, ending=ENDING, flags=FLAGS)


def text() -> str:
    """The help."""
    return help_of(PAGE)


def reference() -> str:
    """docs/reference/deploy.md."""
    return reference_of(
        PAGE,
        "The same files without umiak: [deploy](../../deploy/README.md), with a Helm chart and an image. "
        "What jobs look like: [PaddleJob](paddlejob.md).\n",
    )
