"""Every key of the section ``features:``: names, kinds, defaults and meanings. Values."""

from __future__ import annotations

import itertools
import math

from umiak.schema import kinds
from umiak.schema.features.section import (
    HASH,
    STEPS,
    STEPS_WITH_TWO,
    VERSION,
    FeatureKind,
    Fill,
    Keep,
    Numbering,
    NumberingKind,
    NumberStep,
)
from umiak.schema.findings import choices
from umiak.schema.keys import BadValue, Empty, Key, Kind, WrongType, words
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import Listing, Scalar, Section, free, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.schema.yaml_tree import Node

PAGE = "docs/reference/features.md"
UNKNOWN = UnknownKeys(
    page=PAGE,
    short={
        "columns": "columns",
        "column": "from",
        "type": "kind",
        "dtype": "kind",
        "source": "from",
        "input": "from",
        "embedding_dim": "dim",
        "embedding_name": "table",
        "share_embedding": "table",
        "hash_bucket_size": "hash",
        "num_buckets": "hash",
        "vocabulary": "vocab",
        "normalizer": "transform",
        "preprocess": "transform",
        "default": "missing",
        "default_value": "missing",
        "fill_na": "missing",
        "splitter": "separator",
        "sequence_length": "max_len",
        "labels": "label",
    },
)


def _number(node: Node) -> float:
    if not isinstance(node, Scalar) or type(node.data) not in (int, float):
        raise WrongType
    number = float(node.data)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise BadValue(f"expected a finite number, got {shortened(node.text)}")
    return number


def _separator(_: Key, node: Node) -> str:
    if not isinstance(node, Scalar) or not isinstance(node.data, (str, int)) or isinstance(node.data, bool):
        raise WrongType
    text = node.data if isinstance(node.data, str) else node.text
    if len(text) != 1 or not text.isascii() or text in "\n\r":
        raise BadValue(f"one ASCII character is expected, not {text!r}", hint='such as "|"; a tab is "\\t"')
    return text


def _boundaries(_: Key, node: Node) -> Numbering:
    kind = NumberingKind.BOUNDARIES
    if isinstance(node, Listing):
        found = tuple(_number(each) for each in node.items)
        if not found or any(low >= high for low, high in itertools.pairwise(found)):
            raise BadValue("each boundary must be above the one before", hint="such as [1, 10, 100]")
        return Numbering(kind=kind, boundaries=found)
    told = _mapping(node, ("quantiles",))
    many = told.get("quantiles")
    if type(many) is not int or not 2 <= many <= 10_000:
        raise BadValue("quantiles: an integer from 2 to 10000 is expected", hint="{quantiles: 20}")
    return Numbering(kind=kind, quantiles=many)


def _vocab(_: Key, node: Node) -> Numbering:
    kind = NumberingKind.VOCABULARY
    if isinstance(node, Scalar) and node.text == "fit":
        return Numbering(kind=kind)
    if isinstance(node, Listing):
        return Numbering(kind=kind, words=_words(node))
    told = _mapping(node, ("min_count", "max_words", "oov", "words", "file"))
    if "words" in told and "file" in told:
        raise BadValue("words and file are both there", hint="take one of them away")
    if {"words", "file"} & set(told) and {"min_count", "max_words"} & set(told):
        raise BadValue("words are given, so there is nothing to count", hint="take min_count and max_words away")
    counts = {name: _count(name, told.get(name, default)) for name, default in _COUNTS.items()}
    entry = node.get("words") if isinstance(node, Section) else None
    listed = entry.node if entry is not None else None
    if listed is not None and not isinstance(listed, Listing):
        raise BadValue("words: a list is expected")
    file = told.get("file", "")
    if not isinstance(file, str):
        raise BadValue("file: a path is expected")
    given = _words(listed) if listed is not None else ()
    return Numbering(
        kind=kind,
        words=given,
        file=file,
        min_count=counts["min_count"],
        max_words=counts["max_words"],
        oov=counts["oov"],
    )


_COUNTS = {"min_count": 1, "max_words": 0, "oov": 1}


def _words(node: Listing) -> tuple[str, ...]:
    found = tuple(kinds.word_of(each) for each in node.items)
    if not found or "" in found or len(set(found)) < len(found):
        raise BadValue("words: each must be there once, and none be empty")
    return found


def _count(name: str, found: object) -> int:
    if type(found) is not int or not (1 <= found <= 1 << 31 or found == _COUNTS[name]):
        raise BadValue(f"{name}: an integer, 1 or more, is expected")
    return found


def _mapping(node: Node, known: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(node, Section):
        raise WrongType
    for entry in node.entries:
        if entry.key not in known:
            raise BadValue(f"unknown key: {shortened(entry.key)}", hint=choices(entry.key, known))
    return dict(free(node))


def _steps(_: Key, node: Node) -> tuple[NumberStep, ...]:
    items = node.items if isinstance(node, Listing) else (node,)
    made = tuple(_step(each) for each in items)
    if sum(step.is_fitted for step in made) > 1:
        raise BadValue("two steps are to be fitted", why="the second one would need another pass over the data")
    return tuple(step for step in made if step.name != "identity")


def _step(node: Node) -> NumberStep:
    numbers: tuple[float, ...] = ()
    name = ""
    if isinstance(node, Scalar):
        name = node.text
    elif isinstance(node, Section) and len(node.entries) == 1:
        name, given = node.entries[0].key, node.entries[0].node
        if name in STEPS_WITH_TWO:
            if not isinstance(given, Listing) or len(given.items) != 2:
                raise BadValue(f"{name}: two numbers are expected", hint=f"such as {{{name}: [0, 10]}}")
            numbers = tuple(_number(each) for each in given.items)
        elif name in STEPS:
            raise BadValue(f"{name} takes no numbers", hint=f"write `{name}`")
    if name not in STEPS:
        raise BadValue(f"unknown transform: {shortened(name) or 'nothing'}", hint=choices(name, STEPS))
    if name == "clip" and not (numbers and numbers[0] <= numbers[1]):
        raise BadValue("clip needs a lower and an upper limit", hint="such as {clip: [0, 100]}")
    if name == "zscore" and numbers and numbers[1] < 0:
        raise BadValue("zscore: a standard deviation below 0")
    if name == "minmax" and numbers and numbers[0] > numbers[1]:
        raise BadValue("minmax: the lower number comes first")
    return NumberStep(name=name, numbers=numbers)


def _filling(_: Key, node: Node) -> float | Fill:
    if isinstance(node, Scalar) and isinstance(node.data, str) and node.text in words(Fill):
        return Fill(node.text)
    return _number(node)


def _one_count(name: str, most: int) -> Callable[[Key, Node], int]:
    def read(_: Key, node: Node) -> int:
        found = _mapping(node, (name,)).get(name)
        if type(found) is not int or not 1 <= found <= most:
            raise BadValue(f"{name}: an integer from 1 to {most} is expected", hint=f"such as {{{name}: 3}}")
        return found

    return read


def _label(_: Key, node: Node) -> dict[str, str]:
    if isinstance(node, Section):
        return {entry.key: kinds.word_of(entry.node) for entry in node.entries}
    items = node.items if isinstance(node, Listing) else (node,)
    names = [kinds.word_of(each) for each in items]
    return dict(zip(names, names, strict=True))


SEPARATION = Kind(phrase="one character", read=_separator)
BOUNDARIES = Kind(phrase="numbers in ascending order, or {quantiles: N}", read=_boundaries)
VOCAB = Kind(phrase="`fit`, a list of words, or a mapping", read=_vocab)
STEPS_OF = Kind(phrase="the name of a transform, {name: numbers}, or a list of these", read=_steps)
FILLING = Kind(phrase="a number, `mean` or `refuse`", read=_filling)
ADMISSION = Kind(phrase="{count: N}", read=_one_count("count", (1 << 30) - 1))
EXPIRY = Kind(phrase="{days: N}", read=_one_count("days", 100_000))
LABELS = Kind(phrase="a column, a list of columns, or a mapping of names to columns", read=_label)
_POOLINGS = ("sum", "mean", "max")

SECTION = (
    Key(
        name="version",
        meaning="What the section means. Another version is refused.",
        kind=kinds.WHOLE,
        default=VERSION,
    ),
    Key(
        name="hash",
        meaning="The hash that ids are. There is one; the name is in the lock.",
        kind=kinds.CHOICE,
        default=HASH,
        choices=(HASH,),
    ),
    Key(name="defaults", meaning="What counts for columns that do not say it.", kind=kinds.MAPPING),
    Key(name="columns", meaning="The features.", kind=kinds.SECTIONS, required=True),
    Key(name="label", meaning="The labels, which are numbers.", kind=LABELS),
    Key(name="weight", meaning="The column with the weight of a sample.", kind=kinds.NAME),
    Key(
        name="group",
        meaning="The feature, or else the column, whose values are the groups of GAUC and NDCG.",
        kind=kinds.NAME,
    ),
    Key(name="time", meaning="The column with the time of a sample; times are seconds.", kind=kinds.NAME),
)

_DIM = Key(
    name="dim",
    meaning="The length of the embedding; where nobody says it, the model's own `sparse_feature_dim` counts.",
    kind=kinds.WHOLE,
    least=1,
    default=16,
)
_POOLING = Key(
    name="pooling",
    meaning="What becomes of the embeddings of several ids in a row, where a model takes them as one.",
    kind=kinds.CHOICE,
    default="sum",
    choices=_POOLINGS,
)
_SEPARATOR = Key(
    name="separator",
    meaning="Between the elements of a list in CSV. An `id` column with one is a list.",
    kind=SEPARATION,
    default_said="`\\x1d`",
    empty=Empty.TAKEN,
)
DEFAULTS = (_DIM, _POOLING, _SEPARATOR)

_COMMON = (
    Key(
        name="name",
        meaning="Its name. A list makes as many features, alike in all else.",
        kind=kinds.NAMES,
        required=True,
    ),
    Key(name="kind", meaning="What it is made of.", kind=kinds.CHOICE, required=True, choices=words(FeatureKind)),
)
_FROM = Key(name="from", meaning="The column.", kind=kinds.NAME, default_said="its name")
_ONLY = Key(
    name="only_crossed",
    meaning="It is there for crosses alone: the model does not get it.",
    kind=kinds.TRUTH,
    default=False,
)
_HASH = Key(name="hash", meaning="Ids are hashed into so many buckets.", kind=kinds.WHOLE, least=1)
_VOCAB = Key(
    name="vocab",
    meaning="Ids are numbers of words: `fit`, the words, or a mapping with `min_count`, `max_words`, `oov`, `words`, `file`.",
    kind=VOCAB,
)
_TABLE = Key(
    name="table",
    meaning="Features with the same table share ids and embeddings.",
    kind=kinds.NAME,
    default_said="its name",
)
_MISSING_WORD = Key(
    name="missing",
    meaning="A missing value counts as this text.",
    kind=kinds.TEXT,
    default_said="the id 1",
)
_NUMERIC = Key(
    name="numeric",
    meaning='Texts are read as numbers first: "1.0", "01" and 1 are one id.',
    kind=kinds.TRUTH,
    default=False,
)
_ADMIT = Key(
    name="admit",
    meaning="Open ids: an id gets a row with the N-th step that has it, `{count: 3}`; until then it reads as zeros.",
    kind=ADMISSION,
    default_said="at once",
)
_EXPIRE = Key(
    name="expire",
    meaning="Open ids: rows that no step has used for more than N days go, `{days: 30}`: [admission and expiry](#admission-and-expiry).",
    kind=EXPIRY,
    default_said="never",
)
_IDS = (_HASH, _VOCAB, _TABLE, _DIM, _ADMIT, _EXPIRE)
_TRANSFORM = Key(name="transform", meaning="What is done to numbers, in order.", kind=STEPS_OF, default_said="nothing")
_MAX_LEN = Key(name="max_len", meaning="So many elements are kept.", kind=kinds.WHOLE, least=1, default_said="all")
_KEEP = Key(
    name="keep",
    meaning="Which ones, if there are more.",
    kind=kinds.CHOICE,
    default=Keep.LAST.value,
    choices=words(Keep),
)

ID = (
    *_COMMON,
    _FROM,
    *_IDS,
    Key(name="list", meaning="Each row has any number of ids.", kind=kinds.TRUTH, default=False),
    _SEPARATOR,
    _POOLING,
    _MAX_LEN,
    _KEEP,
    _NUMERIC,
    _MISSING_WORD,
    _ONLY,
)
NUMBER = (
    *_COMMON,
    _FROM,
    Key(
        name="missing",
        meaning="What a missing number counts as, before `transform`; `refuse` makes it an error.",
        kind=FILLING,
        default_said="0; with ids: the id 1",
        empty=Empty.TAKEN,
    ),
    _TRANSFORM,
    Key(
        name="boundaries",
        meaning="Numbers become the ids of the ranges between boundaries: `[1, 10]`, or `{quantiles: 20}` to fit them.",
        kind=BOUNDARIES,
    ),
    Key(
        name="as",
        meaning="`id`: the text of the number is an id, with `hash`, `vocab` or neither.",
        kind=kinds.CHOICE,
        default="number",
        choices=("number", "id"),
    ),
    *_IDS,
    _ONLY,
)
CROSS = (
    *_COMMON,
    Key(name="of", meaning="The features that are crossed, in order.", kind=kinds.NAMES, required=True),
    _HASH,
    _TABLE,
    _DIM,
    _ADMIT,
    _EXPIRE,
)
SEQUENCE = (
    *_COMMON,
    _FROM,
    Key(
        name="of",
        meaning="The feature whose elements these are: it shares its table, numbering and `dim`.",
        kind=kinds.NAME,
    ),
    *_IDS,
    _SEPARATOR,
    _POOLING,
    _MAX_LEN,
    _KEEP,
    _NUMERIC,
    _MISSING_WORD,
)
VECTOR = (
    *_COMMON,
    _FROM,
    Key(name="dim", meaning="Its length. Another one is an error.", kind=kinds.WHOLE, least=1, required=True),
    _SEPARATOR,
    Key(
        name="missing",
        meaning="What missing elements count as, all of them where there is no vector.",
        kind=FILLING,
        default=0.0,
        empty=Empty.TAKEN,
    ),
    _TRANSFORM,
)

COLUMN = {
    FeatureKind.ID: ID,
    FeatureKind.NUMBER: NUMBER,
    FeatureKind.CROSS: CROSS,
    FeatureKind.SEQUENCE: SEQUENCE,
    FeatureKind.VECTOR: VECTOR,
}
"""The keys of a feature, by its kind."""
