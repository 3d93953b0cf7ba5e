"""A directory for kustomize: the manifests of `umiak deploy` as files, and a kustomization that names them. A decider.

files(DeployOptions())     {"kustomization.yaml": "...", "crd.yaml": "...", "operator.yaml": "..."}
"""

from __future__ import annotations

from umiak.cli.deploy import objects
from umiak.core.value import replace
from umiak.submit.backends.kubernetes.yaml_text import as_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

KUSTOMIZATION, CRD, OPERATOR = "kustomization.yaml", "crd.yaml", "operator.yaml"


def files(options: objects.DeployOptions) -> dict[str, str]:
    """By their names in the directory. What was not asked for is not there."""
    made = {
        CRD: objects.objects(replace(options, has_operator=False)) if options.has_crd else [],
        OPERATOR: objects.objects(replace(options, has_crd=False)) if options.has_operator else [],
    }
    there = {name: documents(each) for name, each in made.items() if each}
    return {KUSTOMIZATION: kustomization(there), **there}


def kustomization(resources: Iterable[str] = (CRD, OPERATOR)) -> str:
    """Overlays name its directory, and change images, labels, replicas and the rest with patches of their own."""
    return as_yaml(
        {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(resources)}
    )


def documents(made: Iterable[dict[str, Any]]) -> str:
    """Objects as one text."""
    return "---\n".join(as_yaml(each) for each in made)
