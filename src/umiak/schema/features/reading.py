"""Reads the section ``features:`` of a config: everything that is wrong at once, each with its place. An adapter: `load` opens the file.

section = read(node, findings)        None if something is wrong
section = load("config.yaml")         UmiakError if something is wrong
"""

from __future__ import annotations

import math
import os

from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.schema import sections, yaml_tree
from umiak.schema.features import keys
from umiak.schema.features.section import (
    VERSION,
    Feature,
    FeatureKind,
    FeatureSection,
    Fill,
    Keep,
    Numbering,
    NumberingKind,
    NumberStep,
)
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.keys import words
from umiak.schema.yaml_tree import Scalar, Section, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.schema.sections import Said
    from umiak.schema.yaml_tree import Node

RULE = "UM-DATA-120"
MOST_FEATURES = 100_000


def load(path: str | os.PathLike[str]) -> FeatureSection:
    """The section of a config, or of the config of a directory."""
    path = os.fspath(path)
    file = os.path.join(path, "config.yaml") if os.path.isdir(path) else path
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UmiakError.refused("UM-DATA-121", f"{file}: it can't be read: {why}") from error
    findings = Findings()
    root = yaml_tree.parse(text, file, findings)
    entry = root.get("features") if isinstance(root, Section) else None
    if entry is None and not findings.problems:
        what = f"{file}: it has no section `features:`"
        raise UmiakError.of("UM-DATA-121", what, hint=f"write one: {keys.PAGE}")
    section = read(entry.node, findings, os.path.dirname(file)) if entry is not None else None
    UmiakError.raise_any(findings.problems)
    assert section is not None
    return section


def read(node: Node, findings: Findings, directory: str = "") -> FeatureSection | None:
    """The section, or None if something is wrong with it, which is in ``findings`` then. Relative paths begin at ``directory``."""
    before = len(findings.problems)
    if not isinstance(node, Section):
        what = f"features must be a mapping, not {yaml_tree.kind_of(node)}"
        findings.problem("UM-CONFIG-013", node.place, what, hint=f"with `columns:`; {keys.PAGE}")
        return None
    reading = _Reading(node, findings)
    made = reading.section(directory)
    return made if len(findings.problems) == before else None


class _Reading:
    def __init__(self, node: Section, findings: Findings) -> None:
        self.findings = findings
        self.said = sections.read(keys.SECTION, node, "features", findings, keys.UNKNOWN)
        entry = self.said.node("defaults")
        place = entry or node
        given = entry if isinstance(entry, Section) else Section(place=place.place)
        self.defaults = sections.read(keys.DEFAULTS, given, "features: defaults", findings, keys.UNKNOWN)
        self.features: dict[str, Feature] = {}
        self.places: dict[str, Place] = {}
        self.with_dim: set[str] = set()
        """Features that say their `dim` themselves."""
        self.broken: set[str] = set()
        """Features that are there, and were complained about: others may name them."""

    def section(self, directory: str) -> FeatureSection:
        version = self.said.number("version")
        if version != VERSION:
            what = f"features: version {version} is not known"
            self._wrong(self.said.place("version"), what, f"this umiak knows version {VERSION}")
        for number, node in enumerate(self.said.get("columns") or ()):
            self._column(number, node)
        for name in [each.name for each in self.features.values() if each.of]:
            self._resolve(name)
        self._check_tables()
        self._check_columns()
        group = self.said.text("group")
        if group in self.features:
            group = self._group(str(group))
        return FeatureSection(
            features=tuple(self.features.values()),
            labels=dict(self.said.get("label") or {}),
            weight=self.said.text("weight"),
            group=group,
            time=self.said.text("time"),
            directory=directory,
            own_dims=self._own_dims(),
        )

    def _group(self, name: str) -> str | None:
        feature = self.features[name]
        if feature.kind is not FeatureKind.ID or feature.is_list or feature.numeric:
            what = f"features: group names {name}, which is not one id in each row"
            self._wrong(self.said.place("group"), what, "name a feature of kind id, or a column")
        return feature.column

    def _column(self, number: int, node: Node) -> None:
        label = f"features: column {number + 1}"
        if not isinstance(node, Section):
            self.findings.problem(
                "UM-CONFIG-013", node.place, f"{label} must be a mapping, not {yaml_tree.kind_of(node)}"
            )
            return
        kind = _kind(node)
        if kind is None:
            # The table of `id` says what is wrong with `kind`; what is unknown depends on it, and is not told.
            known = tuple(entry for entry in node.entries if entry.key in ("name", "kind"))
            only = Section(place=node.place, entries=known)
            said = sections.read(keys.COLUMN[FeatureKind.ID][:2], only, label, self.findings, keys.UNKNOWN)
            self.broken |= set(said.names("name"))
            return
        names = node.get("name")
        if names is not None and isinstance(names.node, Scalar):
            label = f"features: {shortened(names.node.text)}"
        before = len(self.findings.problems)
        said = sections.read(keys.COLUMN[kind], node, label, self.findings, keys.UNKNOWN)
        found = said.names("name")
        if said.said("from") and len(found) > 1:
            self._wrong(said.place("from"), f"{label}: `from` is one column, and there are {len(found)} names")
        made = self._feature(kind, said)
        for name in found:
            if name in self.features or name in self.broken:
                first = self.places[name]
                self._wrong(said.place("name"), f"features: {name} is there twice: also in line {first.line}")
                continue
            self.places[name] = said.place("name")
            if len(self.findings.problems) > before:
                self.broken.add(name)
                continue
            column = "" if kind is FeatureKind.CROSS else said.text("from") or name
            table = (said.text("table") or name) if made.numbering is not None else ""
            self.with_dim |= {name} if said.said("dim") else set()
            self.features[name] = replace(made, name=name, column=column, table=table)

    def _feature(self, kind: FeatureKind, said: Said) -> Feature:
        made = Feature(name="", kind=kind)
        if kind is FeatureKind.NUMBER:
            return self._number(made, said)
        if kind is FeatureKind.VECTOR:
            return replace(
                made,
                dim=said.number("dim") if said.said("dim") else 1,
                is_list=True,
                separator=self._shared(said, "separator"),
                missing=said.get("missing"),
                steps=self._given_steps(said),
            )
        made = replace(made, numbering=self._numbering(said), dim=self._shared(said, "dim"))
        made = replace(made, **self._life(made.numbering, said))
        if kind is FeatureKind.CROSS:
            return replace(made, of=said.names("of"))
        made = replace(
            made,
            separator=self._shared(said, "separator"),
            numeric=said.truth("numeric"),
            missing=said.get("missing"),
            max_len=int(said.get("max_len") or 0),
            keep=Keep(said.get("keep")),
        )
        if made.numeric and isinstance(made.missing, str) and not _is_number(made.missing):
            what = f"{said.label}: missing is {shortened(made.missing)}, which is no number"
            self._wrong(said.place("missing"), what, "with `numeric: true` texts are read as numbers")
        if kind is FeatureKind.SEQUENCE:
            return self._sequence(made, said)
        is_list = said.truth("list") or said.said("separator")
        if not is_list:
            for name in ("pooling", "max_len", "keep"):
                if said.said(name):
                    what = f"{said.label}: {name} has no effect: there is one id in each row"
                    self._wrong(said.key_place(name), what, "write `list: true` if each row has several")
        pooling = str(self._shared(said, "pooling"))
        return replace(made, is_list=is_list, pooling=pooling, only_crossed=said.truth("only_crossed"))

    def _number(self, made: Feature, said: Said) -> Feature:
        numbering: Numbering | None = None
        if said.said("boundaries"):
            numbering = said.get("boundaries")
            for name in ("hash", "vocab"):
                if said.said(name):
                    self._two(said, "boundaries", name)
            if said.get("as") == "id":
                self._wrong(said.place("as"), f"{said.label}: boundaries make ids: `as: id` is something else")
        elif said.get("as") == "id":
            numbering = self._numbering(said)
        else:
            for name in ("hash", "vocab", "table", "dim", "admit", "expire"):
                if said.said(name):
                    what = f"{said.label}: {name} has no effect on a number"
                    self._wrong(said.key_place(name), what, "ids are made of numbers with `boundaries`, or `as: id`")
        life = {} if numbering is None else self._life(numbering, said)
        missing = said.get("missing")
        if missing is None and numbering is None:
            missing = 0.0
        steps: tuple[NumberStep, ...] = said.get("transform") or ()
        if (
            numbering is not None
            and numbering.is_fitted
            and (missing is Fill.MEAN or any(step.is_fitted for step in steps))
        ):
            what = f"{said.label}: its numbers are fitted, and the ids that are made of them as well"
            hint = "that would be a second pass over the data: give the numbers of one of them"
            self._wrong(said.place("name"), what, hint)
        return replace(
            made,
            numbering=numbering,
            missing=missing,
            steps=steps,
            dim=self._shared(said, "dim") if numbering is not None else 1,
            only_crossed=said.truth("only_crossed"),
            **life,
        )

    def _sequence(self, made: Feature, said: Said) -> Feature:
        is_pooled = said.said("pooling") or self.defaults.said("pooling")
        made = replace(made, is_list=True, pooling=str(self._shared(said, "pooling")) if is_pooled else "")
        if not said.said("of"):
            return made
        for name in ("hash", "vocab", "table", "dim", "numeric", "missing", "admit", "expire"):
            if said.said(name):
                self._two(said, "of", name, "a sequence of a feature's elements has what that feature has")
        return replace(made, of=(said.text("of") or "",))

    def _given_steps(self, said: Said) -> tuple[NumberStep, ...]:
        steps: tuple[NumberStep, ...] = said.get("transform") or ()
        if any(step.is_fitted for step in steps):
            what = f"{said.label}: a vector's transforms are not fitted"
            self._wrong(said.place("transform"), what, "give the numbers, such as {zscore: [0, 1]}")
        if said.get("missing") is Fill.MEAN:
            self._wrong(said.place("missing"), f"{said.label}: a vector has no mean", "write a number, or `refuse`")
        return steps

    def _numbering(self, said: Said) -> Numbering:
        if made_of_words := _said(said, "vocab"):
            if said.said("hash"):
                self._two(said, "hash", "vocab")
            return made_of_words
        if said.said("hash"):
            return Numbering(kind=NumberingKind.HASH, buckets=said.number("hash"))
        return Numbering()

    def _life(self, numbering: Numbering | None, said: Said) -> dict[str, int]:
        """When rows come and go, which is for tables that have no number of rows."""
        if numbering is not None and numbering.kind is not NumberingKind.OPEN:
            for name in ("admit", "expire"):
                if said.said(name):
                    what = f"{said.label}: {name} is for open ids, and this feature has a fixed number of them"
                    self._wrong(said.key_place(name), what, "take `hash`, `vocab` or `boundaries` away, or this")
        return {name: int(said.get(name)) for name in ("admit", "expire") if said.said(name) and said.get(name)}

    def _shared(self, said: Said, name: str) -> Any:
        return said.get(name) if said.said(name) else self.defaults.get(name) or "\x1d"

    def _resolve(self, name: str) -> None:
        """The features that one is made of."""
        feature = self.features[name]
        place = self.places[name]
        parts = []
        for named in feature.of:
            if named in self.features:
                parts.append(self.features[named])
            elif named not in self.broken:
                self._wrong(place, f"features: {name}: there is no feature {named}", choices(named, self.features))
        if len(parts) < len(feature.of):
            return
        if feature.kind is FeatureKind.SEQUENCE:
            element = parts[0]
            if element.kind is not FeatureKind.ID:
                what = f"features: {name}: {element.name} is of kind {element.kind.value}"
                self._wrong(place, what, "name one of kind id")
                return
            names = ("numbering", "dim", "numeric", "missing", "table", "admit", "expire")
            taken = {each: getattr(element, each) for each in names}
            self.features[name] = replace(feature, **taken, of=())
            return
        if len(parts) < 2 or len({part.name for part in parts}) < len(parts):
            self._wrong(place, f"features: {name}: a cross is of two or more different features")
        for part in parts:
            if part.kind in (FeatureKind.CROSS, FeatureKind.SEQUENCE, FeatureKind.VECTOR) or part.is_list:
                what = f"features: {name}: {part.name} has not one value in each row"
                if part.kind is FeatureKind.CROSS:
                    what = f"features: {name}: {part.name} is a cross itself"
                self._wrong(place, what, "name features of kind id or number")

    def _own_dims(self) -> tuple[str, ...]:
        """Features of ids whose `dim` is said: what shares a table has rows of one length."""
        of_ids = [each for each in self.features.values() if each.has_ids]
        if self.defaults.said("dim"):
            return tuple(each.name for each in of_ids)
        tables = {each.table for each in of_ids if each.name in self.with_dim}
        return tuple(each.name for each in of_ids if each.table in tables)

    def _check_tables(self) -> None:
        """What shares a table is numbered in the same way."""
        first: dict[str, Feature] = {}
        for feature in self.features.values():
            if feature.numbering is None:
                continue
            other = first.setdefault(feature.table, feature)
            shared = {"numbering": "hash, vocab or boundaries", **{name: name for name in ("dim", "admit", "expire")}}
            different = [said for name, said in shared.items() if getattr(feature, name) != getattr(other, name)]
            if different:
                what = f"features: {feature.name} shares the table {feature.table} with {other.name}, and differs in {different[0]}"
                self._wrong(self.places[feature.name], what, "write the same for both, or give it a table of its own")

    def _check_columns(self) -> None:
        """A column is read in one way."""
        first: dict[str, Feature] = {}
        taken = [("label", column) for column in (self.said.get("label") or {}).values()]
        taken += [(key, str(self.said.text(key))) for key in ("weight", "time") if self.said.said(key)]
        for feature in self.features.values():
            if not feature.column:
                continue
            other = first.setdefault(feature.column, feature)
            place = self.places[feature.name]
            if how(feature) != how(other):
                what = f"features: {feature.name} and {other.name} read the column {feature.column} in different ways"
                hint = "a number makes ids with `as: id`; of lists, separator and numeric must be the same"
                self._wrong(place, what, hint)
            for key, column in taken:
                if column == feature.column and how(feature) != "numbers":
                    what = f"features: {feature.name} has its ids from the column {column}, which is the {key}"
                    self._wrong(place, what, "a number makes ids with `as: id`")

    def _two(self, said: Said, one: str, other: str, why: str = "") -> None:
        what = f"{said.label}: {one} and {other} are both there"
        self._wrong(said.key_place(other), what, why or "take one of them away")

    def _wrong(self, place: Place, what: str, hint: str | None = None) -> None:
        self.findings.problem(RULE, place, what, hint=hint)


def _is_number(text: str) -> bool:
    try:
        return text.isascii() and "_" not in text and not math.isnan(float(text))
    except ValueError:
        return False


def _said(said: Said, name: str) -> Numbering | None:
    """What a key says that not all kinds have."""
    return said.get(name) if said.said(name) else None


def _kind(node: Section) -> FeatureKind | None:
    entry = node.get("kind")
    if entry is None or not isinstance(entry.node, Scalar):
        return None
    word = entry.node.text.strip().lower()
    return FeatureKind(word) if word in words(FeatureKind) else None


def how(feature: Feature) -> str:
    """How its column is read, as `TableReader` takes it."""
    word = "numbers" if feature.reads_numbers else "numeric_ids" if feature.numeric else "ids"
    return f"{word}[{feature.separator}]" if feature.is_list else word
