"""Plain data with values to be put in, and what it is for given values. Values, and a decider.

    tree = {"kind": "Deployment", "spec": {"replicas": Put(name="replicas"), "x": When(test=Test(name="kubeflow"), then=1)}}
    filled([tree], {"replicas": 2, "kubeflow": False}, "paddle-system")      [{"kind": "Deployment", "spec": {"replicas": 2}}]

`umiak deploy` prints what comes out; `chart` writes the same tree as a template of the chart.
"""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

NAMESPACE, EACH = "<namespace>", "<each>"
"""Names of what is no value of the chart: the operator's namespace,
and one item of the list that a `ForEach` goes through.
"""


@value
class Put:
    """A value by its name: a text or a number, or all of a tree.
    A list behind a ``prefix`` is joined with commas. A ``suffix`` needs a prefix.
    """

    name: str
    prefix: str = ""
    suffix: str = ""
    is_tree: bool = False


@value
class Test:
    """Whether a value is there and not empty; equals a word; or is large enough."""

    name: str
    equals: str = ""
    least: int = 0
    since: str = ""
    """The release of Kubernetes that is needed besides, such as 1.30.
    Helm asks the cluster; `umiak deploy` takes the value's word.
    """
    is_not: bool = False


@value
class When:
    """An entry, an item or documents (a list) that are there only sometimes."""

    test: Test
    then: Any


@value
class ForEach:
    """Documents that are there once for each item of a list; `EACH` is the item."""

    name: str
    then: list[Any]


@value
class Joined:
    """A mapping, and what a value adds to it."""

    plain: JsonMapping
    name: str


def filled(documents: Iterable[Any], values: JsonMapping, namespace: str) -> list[JsonObject]:
    """All documents that there are with these values."""
    return list(_documents(documents, {**values, NAMESPACE: namespace}))


def holds(test: Test, values: JsonMapping) -> bool:
    """Whether it is so with these values."""
    value = values[test.name]
    answer = value == test.equals if test.equals else value >= test.least if test.least else bool(value)
    return bool(answer) is not test.is_not


def _documents(documents: Iterable[Any], values: JsonMapping) -> Iterator[JsonObject]:
    for each in documents:
        if isinstance(each, When):
            yield from _documents(each.then if holds(each.test, values) else (), values)
        elif isinstance(each, ForEach):
            for item in values[each.name]:
                yield from _documents(each.then, {**values, EACH: item})
        else:
            yield _filled(each, values)


def _filled(node: Any, values: JsonMapping) -> Any:
    if isinstance(node, Put):
        value = values[node.name]
        if node.prefix:
            text = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
            return f"{node.prefix}{text}{node.suffix}"
        return value
    if isinstance(node, Joined):
        return {**_filled(node.plain, values), **values[node.name]}
    if isinstance(node, dict):
        shown = {key: _shown(item, values) for key, item in node.items()}
        return {key: _filled(item[0], values) for key, item in shown.items() if item}
    if isinstance(node, list):
        return [_filled(item, values) for each in node for item in _shown(each, values)]
    return node


def _shown(node: Any, values: JsonMapping) -> list[Any]:
    """The node, or nothing."""
    if isinstance(node, When):
        return [node.then] if holds(node.test, values) else []
    return [node]
