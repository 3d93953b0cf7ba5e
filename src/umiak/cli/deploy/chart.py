"""The files of deploy/: manifests, a directory for kustomize, and a Helm chart from the same objects. A decider.

    files("0.1.0")     {"deploy/crd.yaml": "...", "deploy/chart/values.yaml": "...", ...}

The chart's templates are the trees that `umiak deploy` fills, with Helm's expressions where a value is put in;
nothing is written twice.
"""

from __future__ import annotations

from umiak.cli.deploy import objects, values
from umiak.cli.deploy.template import EACH, NAMESPACE, ForEach, Joined, Put, Test, When
from umiak.core.value import replace
from umiak.paddlejob import crd
from umiak.paddlejob.templates import admission
from umiak.submit.backends.kubernetes.yaml_text import as_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from umiak.core.json_types import JsonObject


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
        "deploy/kustomization.yaml": HEAD + kustomization(),
        "deploy/warnings.yaml": manifest(admission.objects()),
        f"{CHART}/Chart.yaml": HEAD + as_yaml(_chart(version)),
        f"{CHART}/values.yaml": HEAD + "\n" + values.values_yaml(),
        f"{CHART}/values.schema.json": values.schema(),
        f"{CHART}/.helmignore": IGNORED,
        f"{CHART}/crds/paddlejob.yaml": manifest([crd.resource()]),
        f"{CHART}/templates/NOTES.txt": NOTES,
        **{f"{CHART}/templates/{name}.yaml": HEAD + template_text(tree) for name, tree in objects.TREES.items()},
    }


def manifest(made: Iterable[JsonObject]) -> str:
    """Objects as one file."""
    return HEAD + documents(made)


def _chart(version: str) -> JsonObject:
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


STEP = 2


def template_text(documents: Iterable[Any]) -> str:
    """All documents, each behind its ``---``."""
    return "".join(f"{line}\n" for line in _documents(documents))


def _documents(documents: Iterable[Any]) -> Iterator[str]:
    for each in documents:
        if isinstance(each, When):
            yield from _block(f"if {_test(each.test)}", list(_documents(each.then)))
        elif isinstance(each, ForEach):
            yield from _block(f"range $each := {_path(each.name)}", list(_documents(each.then)))
        else:
            yield "---"
            yield from _lines(each, 0)


def _block(head: str, lines: list[str]) -> list[str]:
    return [f"{{{{- {head} }}}}", *lines, "{{- end }}"]


def _lines(node: Any, indent: int) -> list[str]:
    pad = " " * indent
    if isinstance(node, Joined):
        added = f"{{{{- toYaml . | nindent {indent} }}}}"
        return [*_lines(node.plain, indent), *_block(f"with {_path(node.name)}", [added])]
    if isinstance(node, Put) and node.is_tree:
        return [f"{pad}{{{{- toYaml {_path(node.name)} | nindent {indent} }}}}"]
    if isinstance(node, dict) and node:
        return [
            line
            for key, item in node.items()
            for line in _optional(item, lambda each, key=key: _entry(key, each, indent))
        ]
    if isinstance(node, list) and node:
        return [line for item in node for line in _optional(item, lambda each: _item(each, indent))]
    return [pad + (_put(node) if isinstance(node, Put) else as_yaml(node).rstrip("\n"))]


def _optional(node: Any, write: Any) -> list[str]:
    return _block(f"if {_test(node.test)}", write(node.then)) if isinstance(node, When) else write(node)


def _entry(key: str, item: Any, indent: int) -> list[str]:
    pad = " " * indent
    head = pad + as_yaml({key: 0}).partition(": 0")[0] + ":"
    if isinstance(item, Put) and not item.is_tree:
        return [f"{head} {_put(item)}"]
    if isinstance(item, (Put, Joined)) or (isinstance(item, (dict, list)) and item):
        return [head, *_lines(item, indent if isinstance(item, list) else indent + STEP)]
    return [pad + line for line in as_yaml({key: item}).splitlines()]


def _item(item: Any, indent: int) -> list[str]:
    first, *rest = _lines(item, indent + STEP)
    return [" " * indent + "- " + first[indent + STEP :], *rest]


def _put(node: Put) -> str:
    path = _path(node.name)
    if node.prefix:
        return f'{{{{ printf "{node.prefix}%s{node.suffix}" ({_joined(path)}) | quote }}}}'
    return f"{{{{ {path} }}}}" if node.name == "replicas" else f"{{{{ {path} | quote }}}}"


def _joined(path: str) -> str:
    """Of a list its items, of a text the text itself: Helm's ``join`` takes both."""
    return f'join "," {path}'


def _path(name: str) -> str:
    return {NAMESPACE: "$.Release.Namespace", EACH: "$each"}.get(name, f"$.Values.{name}")


def _test(test: Test) -> str:
    path = _path(test.name)
    condition = f'eq {path} "{test.equals}"' if test.equals else f"ge (int {path}) {test.least}" if test.least else path
    if test.since:  # `-0`: providers append words of their own to it
        condition = f'and ({condition}) (semverCompare ">={test.since}-0" $.Capabilities.KubeVersion.Version)'
    return f"not ({condition})" if test.is_not else condition


KUSTOMIZATION, CRD, OPERATOR = "kustomization.yaml", "crd.yaml", "operator.yaml"


def kustomize_files(options: objects.DeployOptions) -> dict[str, str]:
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


def documents(made: Iterable[JsonObject]) -> str:
    """Objects as one text."""
    return "---\n".join(as_yaml(each) for each in made)
