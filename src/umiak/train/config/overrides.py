"""``-o runner.epochs=1``: values of the command line put into a config's tree, where they are checked like the file's. A decider.

    runner.epochs=1                    in the newer layout; in the older one, every runner
    runner.ps_cluster.epochs=1         one runner of the older layout; the same for phase and dataset
    hyper_parameters.optimizer.class=SGD
    mode=[train, infer]                a value is YAML

What was put in has the override itself as its place, so that every complaint names it.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.schema import yaml_tree
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.yaml_tree import Entry, Listing, Scalar, Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.schema.yaml_tree import Node

NAMED = ("runner", "phase", "dataset")


def apply(root: Section, overrides: Iterable[str], findings: Findings) -> Section:
    """The tree with all overrides in it, the last one winning."""
    for text in overrides:
        place = Place(source=f"-o {text}")
        path, equals, word = text.partition("=")
        parts = path.strip().split(".")
        if not equals or not all(parts):
            findings.problem("UM-CONFIG-007", place, "not KEY=VALUE", hint="write it as `-o runner.epochs=1`")
            continue
        if "{workspace}" in word and word.lstrip().startswith("{workspace}"):
            word = f'"{word.strip()}"'  # To YAML this would be a mapping.
        before = len(findings.problems)
        node = yaml_tree.parse(word, place.source, findings, at=place)
        if len(findings.problems) > before:
            continue
        if node is None:
            node = Scalar(place=place, data=None, text="")
        root = _put_in_root(root, parts, node, findings)
    return root


def _put_in_root(root: Section, parts: list[str], node: Node, findings: Findings) -> Section:
    head, *rest = parts
    entry = root.get(head)
    if rest and entry is not None and isinstance(entry.node, Listing) and head in NAMED:
        made = _put_in_list(head, entry.node, rest, node, findings)
        return root.put(replace(entry, node=made))
    if rest and entry is None and head in NAMED:
        findings.problem("UM-CONFIG-007", node.place, f"the config has no {head}, so nothing in it can be changed")
        return root
    return _put(root, parts, node, findings)


def _put_in_list(head: str, entries: Listing, rest: list[str], node: Node, findings: Findings) -> Listing:
    """Into one named entry, or into all of them."""
    name, key = ".".join(rest[:-1]), rest[-1]
    names = [_name(each) for each in entries.items]
    if name and name not in names:
        hint = choices(name, [each for each in names if each])
        findings.problem("UM-CONFIG-015", node.place, f"there is no {head} named {name}", hint=hint)
        return entries
    made = [
        _put(each, [key], node, findings) if isinstance(each, Section) and (not name or name == own) else each
        for each, own in zip(entries.items, names, strict=True)
    ]
    return replace(entries, items=tuple(made))


def _put(section: Section, parts: list[str], node: Node, findings: Findings) -> Section:
    head, *rest = parts
    if rest:
        entry = section.get(head)
        inner = Section(place=node.place) if entry is None else entry.node
        if not isinstance(inner, Section):
            what = f"{head} is {yaml_tree.kind_of(inner)}, so it has no {'.'.join(rest)}"
            findings.problem("UM-CONFIG-007", node.place, what)
            return section
        node = _put(inner, rest, node, findings)
    old = section.get(head)
    return section.put(Entry(key=head, place=node.place, node=node, said_as=old.said_as if old else ""))


def _name(node: Node) -> str:
    named = node.get("name") if isinstance(node, Section) else None
    return named.node.text if named and isinstance(named.node, Scalar) else ""
