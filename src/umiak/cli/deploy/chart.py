"""The files of deploy/: manifests, and a Helm chart from the same objects. A decider.

    files("0.1.0")     {"deploy/crd.yaml": "...", "deploy/chart/values.yaml": "...", ...}

The chart's templates are the trees that `umiak deploy` fills, with Helm's expressions where a value is put in; nothing is written twice.
"""

from __future__ import annotations

from umiak.cli.deploy import helm_text, kustomize, objects, values
from umiak.paddlejob import crd
from umiak.paddlejob.templates import admission
from umiak.submit.backends.kubernetes.yaml_text import as_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

HEAD = "# Made by `make docs` from umiak.cli.deploy and umiak.paddlejob. Change these, not this file.\n"
CHART = "deploy/chart"

NOTES = """\
The PaddleJob operator runs in the namespace {{ .Release.Namespace }}.

  kubectl -n {{ .Release.Namespace }} get deployment paddle-controller-manager
  kubectl get pdj --all-namespaces -o wide

Helm never changes or deletes the definition of PaddleJob. After an upgrade of this chart:

  kubectl apply --server-side -f crds/paddlejob.yaml
"""

IGNORED = ".git/\n*.orig\n*.tgz\n"


def files(version: str) -> dict[str, str]:
    """Every made file of deploy/ by its path in the repository."""
    return {
        "deploy/crd.yaml": manifest([crd.resource()]),
        "deploy/crd-v1beta1.yaml": manifest([crd.old_resource()]),
        "deploy/crd-kubeflow.yaml": manifest([crd.kubeflow_resource()]),
        "deploy/operator.yaml": manifest(objects.objects(objects.DeployOptions(has_crd=False))),
        "deploy/kustomization.yaml": HEAD + kustomize.kustomization(),
        "deploy/warnings.yaml": manifest(admission.objects()),
        f"{CHART}/Chart.yaml": HEAD + as_yaml(_chart(version)),
        f"{CHART}/values.yaml": HEAD + "\n" + values.values_yaml(),
        f"{CHART}/values.schema.json": values.schema(),
        f"{CHART}/.helmignore": IGNORED,
        f"{CHART}/crds/paddlejob.yaml": manifest([crd.resource()]),
        f"{CHART}/templates/NOTES.txt": NOTES,
        **{
            f"{CHART}/templates/{name}.yaml": HEAD + helm_text.template_text(tree)
            for name, tree in objects.TREES.items()
        },
    }


def manifest(made: Iterable[dict[str, Any]]) -> str:
    """Objects as one file."""
    return HEAD + kustomize.documents(made)


def _chart(version: str) -> dict[str, Any]:
    plain = version.partition("+")[0]
    return {
        "apiVersion": "v2",
        "name": "umiak-operator",
        "description": "Operator for PaddleJob, the distributed training job of PaddlePaddle",
        "type": "application",
        "version": plain,
        "appVersion": plain,
        "kubeVersion": ">=1.16.0-0",
    }
