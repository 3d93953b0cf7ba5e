"""Slots as a config writes them: ``"click 1 2 3"`` and ``"price:1 image:[8,8]"``. A decider.

Both functions raise ValueError with what is wrong. A name has no blank, no colon and no bracket: in a line of data it stands
in front of a colon.
"""

from __future__ import annotations

import math
from collections import Counter

from umiak.core.value import value

MOST_VALUES = 1 << 24
"""Values of one sample in one slot: more than that is a slip."""
MOST_NAMED = 8
"""Names in one message."""


@value
class DenseSlot:
    """A slot with a fixed number of float32 values."""

    name: str
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many values a sample has."""
        return math.prod(self.shape)

    @property
    def spoken(self) -> str:
        """As it is written in a config."""
        sizes = str(self.shape[0]) if len(self.shape) == 1 else f"[{','.join(map(str, self.shape))}]"
        return f"{self.name}:{sizes}"


@value
class SlotFeature:
    """What the section ``features:`` says about the embedding of a slot."""

    name: str
    dim: int | None = None
    """None: the model says it."""
    pooling: str = "sum"
    table: str = ""
    """The table of `features:`, of one whose rows come late or go again."""
    admit: int = 0
    """An id gets a row with so many steps that have it; 0: with the first."""
    expire: int = 0
    """Rows that were not used for more than so many days go; 0: none do."""


def sparse(text: str) -> tuple[str, ...]:
    """Names of slots with any number of ids."""
    names = tuple(text.split())
    for name in names:
        if ":" in name:
            before, _, _ = name.partition(":")
            raise ValueError(f"a sparse slot has no width: {name}; write {before}, or make it a dense slot")
        _check(name)
    _once(names)
    return names


def dense(text: str) -> tuple[DenseSlot, ...]:
    """Names of slots with the number of values that each has."""
    slots = tuple([_dense(word) for word in _words(text)])
    _once(tuple(slot.name for slot in slots))
    return slots


def _dense(word: str) -> DenseSlot:
    name, colon, sizes = word.partition(":")
    if not colon:
        raise ValueError(f"a dense slot needs its number of values: {word}; write {word}:1")
    _check(name)
    inner = sizes[1:-1] if sizes.startswith("[") and sizes.endswith("]") else sizes
    shape = []
    for size in map(str.strip, inner.split(",")):
        if not (size.isascii() and size.isdecimal() and len(size) < 9 and int(size)):
            raise ValueError(
                f"expected a number of values, got {word}; write {name or 'name'}:13 or {name or 'name'}:[8,8]"
            )
        shape.append(int(size))
    if inner == sizes and len(shape) > 1:
        raise ValueError(f"several sizes without brackets: {word}; write {name}:[{sizes}]")
    slot = DenseSlot(name=name, shape=tuple(shape))
    if slot.width > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values in one sample: {word}")
    return slot


def _words(text: str) -> list[str]:
    """The words of a text; blanks inside of brackets do not part words."""
    words, depth, word = [], 0, ""
    for letter in text:
        if letter.isspace() and depth == 0:
            words.append(word)
            word = ""
            continue
        depth += (letter == "[") - (letter == "]" and depth > 0)
        word += letter
    return [each for each in [*words, word] if each]


def _check(name: str) -> None:
    if "," in name:
        raise ValueError(f"slots have blanks between them, not commas: {name}")
    if not name or "[" in name or "]" in name or not name.isprintable():
        raise ValueError(f"expected a name of a slot, got {name or 'nothing'}")


def _once(names: tuple[str, ...]) -> None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        others = len(twice) - MOST_NAMED
        more = f" and {others} more" if others > 0 else ""
        raise ValueError(f"declared twice: {', '.join(twice[:MOST_NAMED])}{more}")
