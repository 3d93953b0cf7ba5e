"""What the section ``features:`` of a config says. Values: of plain Python, so that a plan can be made of them without numpy.

    FeatureSection   all of it: features, labels, weight, group, time
    Feature          one feature: where it comes from, what is done to it, and how its ids are numbered
    Numbering        how ids are numbered: open, hashed into buckets, by a vocabulary, or by boundaries

A section is known by the hash of what it means: `FeatureSection.sha256`. Comments and the order of keys are no part of that.
"""

from __future__ import annotations

import enum
import hashlib
import json

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VERSION = 1
"""Of what sections mean."""
HASH = "xxh64"
PADDING, MISSING, FIRST = 0, 1, 2
"""The numbers that every table of ids has: nothing is there because a list is shorter; a value is missing; the first of all others."""
SEPARATOR = "\u001d"


class FeatureKind(enum.Enum):
    """What a feature is made of."""

    ID = "id"
    NUMBER = "number"
    CROSS = "cross"
    SEQUENCE = "sequence"
    VECTOR = "vector"


class NumberingKind(enum.Enum):
    """How ids are numbered."""

    OPEN = "open"
    HASH = "hash"
    VOCABULARY = "vocab"
    BOUNDARIES = "boundaries"


class Keep(enum.Enum):
    """Which end of a long sequence is kept."""

    FIRST = "first"
    LAST = "last"


@value
class Numbering:
    """How ids are numbered. 0 is padding and 1 a missing value in all of them."""

    kind: NumberingKind = NumberingKind.OPEN
    buckets: int = 0
    """``hash``: so many buckets."""
    words: tuple[str, ...] = ()
    """``vocab``: the words, where the section has them."""
    file: str = ""
    """``vocab``: a file that has them, one in a line."""
    min_count: int = 1
    """``vocab``: words that are rarer are left out."""
    max_words: int = 0
    """``vocab``: only so many, the most frequent; 0 takes all."""
    oov: int = 1
    """``vocab``: so many numbers for words that are not in it."""
    boundaries: tuple[float, ...] = ()
    quantiles: int = 0
    """``boundaries``: so many parts with as many values in each."""

    @property
    def is_fitted(self) -> bool:
        """Whether data is needed for it."""
        if self.kind is NumberingKind.VOCABULARY:
            return not (self.words or self.file)
        return self.quantiles > 0


@value
class NumberStep:
    """One transformation of numbers, such as ``log1p`` or ``clip``."""

    name: str
    numbers: tuple[float, ...] = ()

    @property
    def is_fitted(self) -> bool:
        """Whether data is needed for it."""
        return self.name in FITTED_STEPS and not self.numbers


STEPS = {
    "identity": "The number as it is.",
    "log1p": "ln(1 + x); of x below 0, -ln(1 - x).",
    "log10": "log10(x); of x below 1e-3, -3.",
    "sqrt": "The square root; of x below 0, minus that of -x.",
    "criteo_log2": "x above 2 becomes floor(ln(x)²), any other x its whole part: what the winners of Criteo's contest did.",
    "clip": "`clip: [low, high]`: not below low, not above high.",
    "zscore": "(x - mean) / std, fitted or given: `zscore: [mean, std]`. A std of 0 counts as 1.",
    "minmax": "(x - min) / (max - min), fitted or given: `minmax: [min, max]`. If both are the same, 0.",
}
"""All transformations."""
FITTED_STEPS = ("zscore", "minmax")
STEPS_WITH_TWO = ("clip", *FITTED_STEPS)


class Fill(enum.Enum):
    """What a missing number becomes, if not a number."""

    MEAN = "mean"
    REFUSE = "refuse"


@value
class Feature:
    """One feature."""

    name: str
    kind: FeatureKind
    column: str = ""
    """Of the table; a cross has none."""
    of: tuple[str, ...] = ()
    """The features that a cross is made of."""
    is_list: bool = False
    """Whether there are several values in a row."""
    separator: str = SEPARATOR
    """Between the elements of a list in CSV."""
    numeric: bool = False
    """Whether ids of texts are those of the numbers that the texts are: "1.0" and 1 are one id."""
    numbering: Numbering | None = None
    """None: it is numbers."""
    table: str = ""
    """Features with the same one have their ids, and the rows of an embedding, together."""
    dim: int = 0
    """Of an embedding; of a vector, its length; of a number 1."""
    pooling: str = ""
    """What an embedding layer makes of several ids in a row: sum, mean or max. A sequence has none, unless it is said: a sum."""
    missing: str | float | Fill | None = None
    """What a missing value counts as; None: it is the id 1."""
    steps: tuple[NumberStep, ...] = ()
    max_len: int = 0
    """So many elements of a list at most; 0 keeps all."""
    keep: Keep = Keep.LAST
    only_crossed: bool = False
    """Whether it is there for crosses alone, and not for the model."""
    admit: int = 0
    """Of open ids: an id gets a row with so many steps that have it; 0: with the first."""
    expire: int = 0
    """Of open ids: rows that were not used for more than so many days go; 0: none do."""

    @property
    def has_ids(self) -> bool:
        """Whether it is ids, not numbers."""
        return self.numbering is not None

    @property
    def reads_numbers(self) -> bool:
        """Whether its column is read as numbers."""
        return self.kind in (FeatureKind.NUMBER, FeatureKind.VECTOR)

    @property
    def is_fitted(self) -> bool:
        """Whether data is needed for it."""
        numbering = self.numbering is not None and self.numbering.is_fitted
        return numbering or self.missing is Fill.MEAN or any(step.is_fitted for step in self.steps)


@value
class FeatureSection:
    """The whole section. ``labels`` are columns by the name of the label."""

    features: tuple[Feature, ...]
    labels: Mapping[str, str] = {}
    weight: str | None = None
    group: str | None = None
    time: str | None = None
    version: int = VERSION
    hash: str = HASH
    directory: str = ""
    """Where relative paths begin; no part of what it means."""
    own_dims: tuple[str, ...] = ()
    """Features whose `dim` is said, by themselves, by what shares their table, or for all."""

    def feature(self, name: str) -> Feature:
        """The one of this name."""
        return next(each for each in self.features if each.name == name)

    @property
    def fed(self) -> tuple[Feature, ...]:
        """Those that the model gets."""
        return tuple(each for each in self.features if not each.only_crossed)

    @property
    def is_fitted(self) -> bool:
        """Whether data is needed for it."""
        return any(each.is_fitted for each in self.features)

    def plain(self) -> dict[str, Any]:
        """What it means, as JSON has it."""
        return {
            "version": self.version,
            "hash": self.hash,
            "features": [_plain(each) for each in self.features],
            "labels": dict(self.labels),
            "weight": self.weight,
            "group": self.group,
            "time": self.time,
            **({"own_dims": list(self.own_dims)} if self.own_dims else {}),
        }

    @property
    def sha256(self) -> str:
        """Of what it means."""
        return sha256_of(self.plain())


_LIFE = ("admit", "expire")
"""Fields of a feature that are about its embedding's rows, and not about which id a value has: a lock does not depend on them."""


def sha256_of(plain: object) -> str:
    """Of JSON, whatever the order of its keys."""
    text = json.dumps(plain, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(item: object) -> Any:
    if isinstance(item, enum.Enum):
        return {"fill": item.value} if isinstance(item, Fill) else item.value
    if isinstance(item, tuple):
        return [_plain(each) for each in item]
    if hasattr(item, "__fields__"):
        return {name: _plain(getattr(item, name)) for name in item.__fields__ if name not in _LIFE}
    return item


def section_of(plain: Mapping[str, Any], directory: str = "") -> FeatureSection:
    """The section that `FeatureSection.plain` told of; a KeyError, TypeError or ValueError if it is none."""
    return FeatureSection(
        features=tuple(_feature_of(each) for each in plain["features"]),
        labels={str(name): str(column) for name, column in plain["labels"].items()},
        weight=plain["weight"],
        group=plain["group"],
        time=plain["time"],
        version=int(plain["version"]),
        hash=str(plain["hash"]),
        directory=directory,
        own_dims=tuple(plain.get("own_dims", ())),
    )


def _feature_of(plain: Mapping[str, Any]) -> Feature:
    numbering, missing = plain["numbering"], plain["missing"]
    found = dict(plain)
    found["kind"] = FeatureKind(plain["kind"])
    found["of"] = tuple(plain["of"])
    found["keep"] = Keep(plain["keep"])
    found["missing"] = Fill(missing["fill"]) if isinstance(missing, dict) else missing
    found["steps"] = tuple(NumberStep(name=each["name"], numbers=tuple(each["numbers"])) for each in plain["steps"])
    if numbering is not None:
        kept: dict[str, Any] = {"kind": NumberingKind(numbering["kind"])}
        kept |= {name: tuple(numbering[name]) for name in ("words", "boundaries")}
        found["numbering"] = Numbering(**{**numbering, **kept})
    return Feature(**found)
