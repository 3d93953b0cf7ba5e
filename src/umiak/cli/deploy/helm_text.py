"""A tree of `template` as a template of Helm. A decider.

    print(template_text([{"kind": "Service", "metadata": {"namespace": Put(name=NAMESPACE)}}]))

Values are reached from the root (``$.Values``), since a loop changes what ``.Values`` means.
"""

from __future__ import annotations

from umiak.cli.deploy.template import EACH, NAMESPACE, ForEach, Joined, Put, Test, When
from umiak.submit.backends.kubernetes.yaml_text import as_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

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
        return f'{{{{ printf "{node.prefix}%s" ({_joined(path)}) | quote }}}}'
    return f"{{{{ {path} }}}}" if node.name == "replicas" else f"{{{{ {path} | quote }}}}"


def _joined(path: str) -> str:
    """Of a list its items, of a text the text itself: Helm's ``join`` takes both."""
    return f'join "," {path}'


def _path(name: str) -> str:
    return {NAMESPACE: "$.Release.Namespace", EACH: "$each"}.get(name, f"$.Values.{name}")


def _test(test: Test) -> str:
    path = _path(test.name)
    said = f'eq {path} "{test.equals}"' if test.equals else f"ge (int {path}) {test.least}" if test.least else path
    return f"not ({said})" if test.is_not else said
