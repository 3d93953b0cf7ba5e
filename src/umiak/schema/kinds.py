"""The kinds of values that keys of any file take, each with the function that reads it. A decider."""

from __future__ import annotations

import math

from umiak.schema.findings import choices
from umiak.schema.keys import BadValue, Key, Kind, WrongType
from umiak.schema.yaml_tree import Listing, Scalar, Section, free, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.schema.yaml_tree import Node

MOST = 1 << 53
"""No count of a config is larger."""


def word_of(node: Node) -> str:
    """The text of a scalar as it was written; a number is a name as well."""
    if not isinstance(node, Scalar) or node.data is None or isinstance(node.data, bool):
        raise WrongType
    return node.data if isinstance(node.data, str) else node.text


def shell_words(node: Node, phrase: str) -> tuple[str, ...]:
    """A list of words, or a line that is cut into words as a shell does it."""
    if isinstance(node, Listing):
        return tuple([word_of(each) for each in node.items])
    import shlex

    text = word_of(node)
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        hint = "quote it as for a shell, or write a list"
        raise BadValue(f"expected {phrase}, got {shortened(text)}", why=str(error), hint=hint) from None


def _text(_: Key, node: Node) -> str:
    return word_of(node).strip()


def _whole(key: Key, node: Node) -> int:
    if not isinstance(node, Scalar) or type(node.data) is not int:
        raise WrongType
    number = node.data
    if key.least is not None and number < key.least and number not in key.also:
        also = "".join(f", or {each}" for each in key.also)
        raise BadValue(
            f"less than {key.least}: {shortened(node.text)}", hint=f"expected an integer, {key.least} or more{also}"
        )
    if number > MOST:
        raise BadValue(f"too large: {shortened(node.text)}")
    return number


def _number(key: Key, node: Node) -> float:
    if not isinstance(node, Scalar) or type(node.data) not in (int, float):
        raise WrongType
    number = float(node.data)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise BadValue(f"expected a finite number, got {shortened(node.text)}")
    if key.least is not None and number < key.least:
        raise BadValue(f"less than {key.least}: {shortened(node.text)}")
    return number


def _truth(_: Key, node: Node) -> bool:
    if not isinstance(node, Scalar) or type(node.data) is not bool:
        raise WrongType
    return node.data


def _choice(key: Key, node: Node) -> Any:
    word = word_of(node).strip()
    lower = word.lower()
    choice = {each.lower(): each for each in key.choices}.get(lower) or {
        other.lower(): each for other, each in key.synonyms
    }.get(lower)
    if choice is None:
        why = dict(key.refused_words).get(lower)
        what = f"not supported: {word}" if why else f"unknown value: {shortened(word) or 'nothing'}"
        raise BadValue(what, why=why, hint=choices(word, key.choices))
    return int(choice) if isinstance(key.default, int) else choice


def _names(_: Key, node: Node) -> tuple[str, ...]:
    words = node.items if isinstance(node, Listing) else (node,)
    names = tuple([word_of(each).strip() for each in words])
    if "" in names:
        raise BadValue("empty name")
    return names


def _bounds(_: Key, node: Node) -> tuple[float, float]:
    if not isinstance(node, Listing) or len(node.items) != 2:
        raise WrongType
    low, high = (_number(_, each) for each in node.items)
    return low, high


def _mapping(_: Key, node: Node) -> Any:
    if not isinstance(node, Section):
        raise WrongType
    return free(node)


def _sections(_: Key, node: Node) -> tuple[Node, ...]:
    if not isinstance(node, Listing):
        raise WrongType
    return node.items


NAME = Kind(phrase="a name", read=_text)
TEXT = Kind(phrase="text", read=_text)
PATH = Kind(phrase="a path", read=_text)
WHOLE = Kind(phrase="an integer", read=_whole)
NUMBER = Kind(phrase="a number", read=_number)
TRUTH = Kind(phrase="a boolean", read=_truth)
CHOICE: Kind[str] = Kind(phrase="one of a few words", read=_choice)
NAMES = Kind(phrase="a name or a list of names", read=_names)
BOUNDS = Kind(phrase="two numbers, as in [-10, 10]", read=_bounds)
MAPPING = Kind(phrase="a mapping", read=_mapping)
SECTIONS = Kind(phrase="a list of mappings, each with a name", read=_sections)
