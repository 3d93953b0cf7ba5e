"""The kinds of values that only configs of models have: slots, devices, days of the calendar; and where keys come from. A decider."""

from __future__ import annotations

from enum import Enum

from umiak.schema.keys import BadValue, Key, Kind, WrongType
from umiak.schema.kinds import word_of
from umiak.schema.yaml_tree import Listing, Scalar, shortened
from umiak.train.config import slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from typing_extensions import Unpack

    from umiak.schema.yaml_tree import Node
    from umiak.train.config.slots import DenseSlot

    class KeyDetails(TypedDict, total=False):
        """What a key may have besides a name, a kind and a meaning: see `Key`."""

        default: str | float | bool | None
        default_said: str
        required: bool
        choices: tuple[str, ...]
        synonyms: tuple[tuple[str, str], ...]
        refused_words: tuple[tuple[str, str], ...]
        least: int | None
        also: tuple[int, ...]
        refused: str
        ignored: str
        settled: str


class Origin(Enum):
    """Where a key comes from that PaddleRec 1.8.5 did not have."""

    NEWER = "newer PaddleRec"
    UMIAK = "umiak"


def row(
    name: str, kind: Kind[Any], meaning: str = "", *, origin: Origin | None = None, **details: Unpack[KeyDetails]
) -> Key:
    """A row of a table of keys."""
    return Key(name=name, kind=kind, meaning=meaning, origin=origin, **details)


def ours(name: str, kind: Kind[Any], meaning: str, **details: Unpack[KeyDetails]) -> Key:
    """One that is umiak's own."""
    return row(name, kind, meaning, origin=Origin.UMIAK, **details)


def newer(name: str, kind: Kind[Any], meaning: str, **details: Unpack[KeyDetails]) -> Key:
    """One that came with PaddleRec's newer layout."""
    return row(name, kind, meaning, origin=Origin.NEWER, **details)


_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_day(text: str) -> bool:
    """Whether this is a day of the calendar, written as YYYYMMDD."""
    if not (len(text) == 8 and text.isascii() and text.isdecimal()):
        return False
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:])
    return year > 0 and 1 <= month <= 12 and 1 <= day <= _length(year, month)


def following(text: str) -> str:
    """The day after; after the calendar's last one, something that is larger than any day."""
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:]) + 1
    if day > _length(year, month):
        month, day = month + 1, 1
    if month > 12:
        year, month = year + 1, 1
    return f"{year:04}{month:02}{day:02}" if year < 10000 else "~"


def _length(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _MONTHS[month - 1]


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
            raise BadValue(
                f"expected the index of a device, got {shortened(word) or 'nothing'}", hint=f"write {key.kind.phrase}"
            )
        numbers.append(int(word))
    if len({*numbers}) < len(numbers):
        raise BadValue("duplicate device")
    return tuple(numbers)


def _day(_: Key, node: Node) -> str:
    word = word_of(node).strip().replace("-", "")
    if not is_day(word):
        raise BadValue(f"expected a date, got {shortened(word_of(node))}", hint="write it as 20260131")
    return word


def _switch(_: Key, node: Node) -> bool:
    if not isinstance(node, Scalar) or node.data not in (0, 1):
        raise WrongType
    return bool(node.data)


def _time(_: Key, node: Node) -> float:
    if isinstance(node, Scalar) and type(node.data) in (int, float):
        number = float(node.data)  # type: ignore[arg-type]
        if number - number != 0.0:
            raise BadValue(f"expected a finite number, got {shortened(node.text)}")
        return number
    from datetime import datetime, timezone  # not before it is needed

    word = word_of(node).strip()
    try:
        found = datetime.fromisoformat(word.replace("Z", "+00:00"))
    except ValueError:
        hint = "write it as 2026-01-31, 2026-01-31T12:00:00, or as the number that is in the column"
        raise BadValue(f"expected a time, got {shortened(word)}", hint=hint) from None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


_BAD_SLOT = "UM-CONFIG-021"

SPARSE = Kind(phrase="slot names, separated by spaces", read=_sparse, code=_BAD_SLOT)
DENSE = Kind(phrase="name:width, separated by spaces", read=_dense, code=_BAD_SLOT)
DEVICES = Kind(phrase='comma-separated indices, as in "0,1"', read=_devices)
SWITCH = Kind(phrase="a boolean, or 0 or 1", read=_switch)
DAY = Kind(phrase="a date, as in 20260131", read=_day)
TIME = Kind(phrase="a time, as in 2026-01-31T12:00:00, or a number", read=_time)
