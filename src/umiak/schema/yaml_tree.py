"""YAML to a tree in which every key and every value knows its line and column. A decider.

    parse("epochs: 4", "config.yaml", findings)   -> Section with one entry, at config.yaml:1:1

PyYAML reads the text, without ever making an object of a class that the text names. What it says about a scalar counts,
as it did for PaddleRec, but for two things: ``1e-3`` is a number, and a date stays text. Every scalar keeps its text as
it was written, so that a slot named ``1`` or a day ``20200101`` is still a name.

A key that is there twice is a warning, and the last one counts.
Self-references, tags, several documents and trees without measure are problems, never crashes.
"""

from __future__ import annotations

from umiak.core.problem import UmiakError
from umiak.core.shown import without_password
from umiak.core.value import replace, value
from umiak.schema.findings import Findings, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeAlias

    Node: TypeAlias = "Scalar | Listing | Section"

    class YamlMark(Protocol):
        """Where PyYAML has found something; both count from 0."""

        line: int
        column: int

    class YamlNode(Protocol):
        """A node of PyYAML's. ``value``: the text of a scalar, the nodes of a list, the pairs of nodes of a mapping."""

        tag: str
        value: Any
        start_mark: YamlMark
        style: str | None

    Pair: TypeAlias = tuple[YamlNode, YamlNode]

MOST_NODES = 100_000
"""Aliases can make a tree out of all proportion to its text."""
MOST_LEVELS = 100
"""More than that is no config, and would be too much for what walks the tree."""
_TAG = "tag:yaml.org,2002:"
_LINE_ENDS = ("\r\n", "\r", "\x85", "\u2028", "\u2029")


@value
class Scalar:
    """One word, number, truth or nothing."""

    place: Place
    data: str | int | float | bool | None
    text: str
    """As it was written, without quotes."""


@value
class Listing:
    """Several nodes in order."""

    place: Place
    items: tuple[Node, ...] = ()


@value
class Entry:
    """One key with its value."""

    key: str
    place: Place
    node: Node
    said_as: str = ""
    """The key as it was written, where it was translated from another layout."""
    excused: bool = False
    """Whether its value was complained about already: it counts as not said, and is not missed."""

    @property
    def spoken(self) -> str:
        return self.said_as or self.key


@value
class Section:
    """Keys with their values, each key once."""

    place: Place
    entries: tuple[Entry, ...] = ()

    def get(self, key: str) -> Entry | None:
        for entry in self.entries:
            if entry.key == key:
                return entry
        return None

    def put(self, entry: Entry) -> Section:
        """The section with this entry, in the place of an older one or at the end."""
        if self.get(entry.key) is None:
            return replace(self, entries=(*self.entries, entry))
        return replace(self, entries=tuple([entry if each.key == entry.key else each for each in self.entries]))


def parse(text: str, source: str, findings: Findings, *, at: Place | None = None) -> Node | None:
    """The tree of a text, or None where there is none to speak of.
    ``at`` is the place of everything, if the text is no file.
    """
    try:
        import yaml
    except ImportError as missing:
        raise not_installed("pyyaml", "PyYAML is not installed, so no YAML can be read", missing) from missing
    return _Reading(yaml, text, source, findings, at).tree()


def not_installed(package: str, what: str, missing: ImportError) -> UmiakError:
    """That a package is missing, with one command for all that read what people write:
    YAML, and TOML before Python 3.11.
    """
    import importlib.util
    import sys

    readers = {"pyyaml": "yaml"} if sys.version_info >= (3, 11) else {"pyyaml": "yaml", "tomli": "tomli"}
    missing_too = {name for name, module in readers.items() if importlib.util.find_spec(module) is None}
    hint = f"python -m pip install {' '.join(sorted({package, *missing_too}))}"
    return UmiakError.of("UM-CONFIG-006", what, why=str(missing), hint=hint)


def kind_of(node: Node) -> str:
    """What a node is, in words: for complaints about types."""
    if isinstance(node, Section):
        return "a mapping"
    if isinstance(node, Listing):
        return "a list"
    if node.data is None:
        return "nothing"
    if isinstance(node.data, bool):
        return f"{node.text}, which means {'true' if node.data else 'false'}"
    if isinstance(node.data, str):
        return f'the text "{shortened(node.data)}"'
    return f"the number {shortened(node.text)}"


def shortened(text: str) -> str:
    """A text on one line, of a length that fits into a message, without a password."""
    text = " ".join((without_password(text) if "://" in text else text).split())
    return text if len(text) <= 60 else text[:57] + "..."


def free(node: Node) -> Any:
    """A tree as plain data: mappings become dictionaries and lists become tuples."""
    if isinstance(node, Section):
        return {entry.key: free(entry.node) for entry in node.entries}
    if isinstance(node, Listing):
        return tuple([free(each) for each in node.items])
    return node.data


class _TooMuch(Exception):
    """There are more nodes than a config can have."""


class _Reading:
    """One walk over what PyYAML composed."""

    def __init__(self, yaml: Any, text: str, source: str, findings: Findings, at: Place | None) -> None:
        self.yaml = yaml
        self.text = text
        self.source = source
        self.findings = findings
        self.at = at
        self.loader: Any = None
        self.count = 0
        self.inside: list[int] = []
        self.merged: dict[int, dict[str, Pair]] = {}
        self._lines: list[int] | None = None

    def tree(self) -> Node | None:
        start = self.at or Place(source=self.source, line=1, column=1)
        try:
            self.loader = self.yaml.SafeLoader(self.text)
            root = self.loader.get_single_node()
            return None if root is None else self._node(root)
        except self.yaml.YAMLError as error:
            self._not_yaml(error, start)
        except RecursionError:
            self.findings.problem("UM-CONFIG-004", start, "nested too deeply")
        except _TooMuch:
            self.findings.problem("UM-CONFIG-004", start, f"more than {MOST_NODES} values, counting aliases")
        return None

    def _place(self, mark: YamlMark) -> Place:
        return self.at or self._inside(mark.line, mark.column)

    def _inside(self, line: int, column: int) -> Place:
        """A place of the file for PyYAML's counts; what it says of the end of the file is brought back into it."""
        if self._lines is None:
            text = self.text
            for end in _LINE_ENDS:
                text = text.replace(end, "\n")
            self._lines = [len(each) for each in text.removesuffix("\n").split("\n")]
        if line >= len(self._lines):
            line, column = len(self._lines) - 1, self._lines[-1]
        return Place(source=self.source, line=line + 1, column=min(column, self._lines[line]) + 1)

    def _line(self, place: Place) -> str:
        """The line that a place is in; of an override, all of it."""
        lines = self.text.splitlines()
        return lines[place.line - 1] if 0 < place.line <= len(lines) else self.text

    def _not_yaml(self, error: Any, start: Place) -> None:
        place, why = start, None
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        if mark is not None:
            place = self._place(mark)
            what = error.problem or error.context
            context = getattr(error, "context_mark", None)
            if error.problem and error.context:
                why = f"{error.context}, line {self._place(context).line}" if context else error.context
        elif hasattr(error, "position") and not self.at:  # a character that YAML does not allow
            before = self.text[: error.position]
            last = max(before.rfind(end) for end in ("\n", "\r"))
            place = self._inside(before.count("\n") + before.replace("\r\n", "").count("\r"), len(before) - last - 1)
            what = f"a character that is not allowed: U+{error.character:04X}"
        else:
            what = str(error)
        several = "expected a single document" in f"{error}"
        if several:
            what, why = "several documents in one file", None
        hint = "YAML is indented with blanks, never with tabs" if "'\\t'" in what else None
        if "{workspace}" in self._line(place):
            hint = "put quotes around a text that begins with {workspace}"
        code = "UM-CONFIG-004" if several else "UM-CONFIG-003"
        self.findings.problem(code, place, what if several else f"not YAML: {shortened(what)}", why=why, hint=hint)

    def _node(self, node: YamlNode) -> Node:
        place = self._place(node.start_mark)
        self.count += 1
        if self.count > MOST_NODES:
            raise _TooMuch
        if len(self.inside) > MOST_LEVELS:
            raise RecursionError
        if id(node) in self.inside:
            self.findings.problem("UM-CONFIG-004", place, "a value that contains itself")
            return Scalar(place=place, data=None, text="")
        if isinstance(node, self.yaml.ScalarNode):
            return self._scalar(node, place)
        self.inside.append(id(node))
        try:
            if isinstance(node, self.yaml.SequenceNode):
                self._tag(node, place, "seq")
                return Listing(place=place, items=tuple([self._node(each) for each in node.value]))
            self._tag(node, place, "map")
            pairs = self._pairs(node)
            return Section(
                place=place,
                entries=tuple(
                    [
                        Entry(key=key, place=self._place(named.start_mark), node=self._node(each))
                        for key, (named, each) in pairs.items()
                    ]
                ),
            )
        finally:
            self.inside.pop()

    def _pairs(self, node: YamlNode) -> dict[str, Pair]:
        """The keys of a mapping with those that ``<<`` brings in, which count less."""
        if id(node) in self.merged:
            return self.merged[id(node)]
        self.merged[id(node)] = {}  # A mapping that merges itself brings nothing.
        own: dict[str, Pair] = {}
        brought: dict[str, Pair] = {}
        for named, each in node.value:
            place = self._place(named.start_mark)
            if not isinstance(named, self.yaml.ScalarNode):
                self.findings.problem("UM-CONFIG-004", place, "a key that is a list or a mapping")
            elif named.tag == f"{_TAG}merge":
                self._merge(each, brought)
            elif named.value in own:
                self._repeated(named, own.pop(named.value)[0])
                own[named.value] = (named, each)
            else:
                own[named.value] = (named, each)
        self.merged[id(node)] = {**{key: pair for key, pair in brought.items() if key not in own}, **own}
        return self.merged[id(node)]

    def _merge(self, node: YamlNode, brought: dict[str, Pair]) -> None:
        sources = node.value if isinstance(node, self.yaml.SequenceNode) else [node]
        for each in sources:
            if isinstance(each, self.yaml.MappingNode):
                for key, pair in self._pairs(each).items():
                    brought.setdefault(key, pair)
            else:
                self.findings.problem(
                    "UM-CONFIG-004", self._place(each.start_mark), "`<<` with something else than a mapping"
                )

    def _repeated(self, again: YamlNode, first: YamlNode) -> None:
        one, other = self._place(first.start_mark), self._place(again.start_mark)
        self.findings.warning(
            "UM-CONFIG-005",
            other,
            f"{again.value} is there twice: in line {one.line} and in line {other.line}",
            hint=f"the last one counts; take the one in line {one.line} away",
        )

    def _tag(self, node: YamlNode, place: Place, wanted: str) -> None:
        if node.tag != f"{_TAG}{wanted}":
            self._unknown_tag(node, place)

    def _unknown_tag(self, node: YamlNode, place: Place) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self.findings.problem("UM-CONFIG-004", place, f"a tag that means nothing here: {shortened(tag)}")

    def _scalar(self, node: YamlNode, place: Place) -> Scalar:
        text = node.value
        kind = node.tag.removeprefix(_TAG)
        makers: dict[str, Callable[[YamlNode], object]] = {
            "null": lambda _: None,
            "bool": self.loader.construct_yaml_bool,
            "int": self.loader.construct_yaml_int,
            "float": self.loader.construct_yaml_float,
        }
        data = text
        if kind in makers:
            try:
                data = makers[kind](node)
            except (ValueError, KeyError, IndexError):
                self.findings.problem("UM-CONFIG-004", place, f"not a value that `!!{kind}` has: {shortened(text)}")
        elif kind not in ("str", "timestamp", "value", "merge"):
            self._unknown_tag(node, place)
        elif node.style is None and _has_exponent(text):
            data = float(text)
        return Scalar(place=place, data=data, text=text)


def _has_exponent(text: str) -> bool:
    """Whether this is a number such as 1e-3, which YAML 1.1 takes for text because it has no point."""
    mantissa, letter, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    digits = exponent.lstrip("+-")
    one_sign = len(mantissa.lstrip("+-")) >= len(mantissa) - 1 and len(digits) >= len(exponent) - 1
    return bool(letter) and one_sign and text.isascii() and (whole + fraction).isdecimal() and digits.isdecimal()
