"""The kinds of values that only configs of models have: slots, devices, days. A decider."""

from __future__ import annotations

from umiak.schema.keys import BadValue, Key, Kind, WrongType
from umiak.schema.kinds import word_of
from umiak.schema.yaml_tree import Listing, Scalar, shortened
from umiak.train.config import days, slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Node
    from umiak.train.config.values import DenseSlot


def _sparse(_: Key, node: Node) -> tuple[str, ...]:
    try:
        return slots.sparse(_slot_text(node))
    except ValueError as error:
        raise BadValue(str(error)) from None


def _dense(_: Key, node: Node) -> tuple[DenseSlot, ...]:
    try:
        return slots.dense(_slot_text(node))
    except ValueError as error:
        raise BadValue(str(error)) from None


def _slot_text(node: Node) -> str:
    """Slots as one text, or as a list of texts."""
    return " ".join(word_of(each) for each in node.items) if isinstance(node, Listing) else word_of(node)


def _devices(key: Key, node: Node) -> tuple[int, ...] | None:
    words = [word_of(each) for each in node.items] if isinstance(node, Listing) else word_of(node).split(",")
    if [word.strip() for word in words] == [""]:
        return None
    numbers = []
    for word in map(str.strip, words):
        if not (word.isascii() and word.isdecimal() and len(word) < 6):
            raise BadValue(f"not a device index: {shortened(word) or 'nothing'}", hint=f"write {key.kind.phrase}")
        numbers.append(int(word))
    if len({*numbers}) < len(numbers):
        raise BadValue("duplicate device")
    return tuple(numbers)


def _day(_: Key, node: Node) -> str:
    word = word_of(node).strip().replace("-", "")
    if not days.is_day(word):
        raise BadValue(f"not a date: {shortened(word_of(node))}", hint="write it as 20260131")
    return word


def _switch(_: Key, node: Node) -> bool:
    if not isinstance(node, Scalar) or node.data not in (0, 1):
        raise WrongType
    return bool(node.data)


_BAD_SLOT = "UM-CONFIG-021"

SPARSE = Kind(phrase="slot names, separated by spaces", read=_sparse, code=_BAD_SLOT)
DENSE = Kind(phrase="name:width, separated by spaces", read=_dense, code=_BAD_SLOT)
DEVICES = Kind(phrase='comma-separated indices, as in "0,1"', read=_devices)
SWITCH = Kind(phrase="a boolean, or 0 or 1", read=_switch)
DAY = Kind(phrase="a date, as in 20260131", read=_day)
