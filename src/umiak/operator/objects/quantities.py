"""Quantities of Kubernetes (``500m``, ``2Gi``, ``1e3``), added and compared exactly. A decider."""

from __future__ import annotations

from fractions import Fraction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
MOST_CHARACTERS = 40


def read(text: object) -> Fraction:
    """The number that a quantity stands for; 0 for what is none: the API server refuses the pod, and says why."""
    word = str(text).strip()
    if len(word) > MOST_CHARACTERS:
        return Fraction(0)
    number = word.rstrip("numkKMGTPEi")
    unit = word[len(number) :]
    if "e" in number.lower() and _int_or_none(number.lower().partition("e")[2]) not in range(-18, 19):
        return Fraction(0)
    try:
        return Fraction(number) * _UNITS[unit]
    except (ValueError, KeyError, ZeroDivisionError):
        return Fraction(0)


def _int_or_none(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def written(number: Fraction) -> str:
    """A quantity: in thousandths where it must be, in binary units where it can be."""
    if number.denominator != 1:
        return f"{-(-number * 1000 // 1)}m"
    whole = int(number)
    for power, letter in reversed(list(enumerate("KMGTPE", 1))):
        if whole and whole % 1024**power == 0:
            return f"{whole // 1024**power}{letter}i"
    return str(whole)


def added(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Both together, by name."""
    return {name: first.get(name, Fraction(0)) + second.get(name, Fraction(0)) for name in {**first, **second}}


def larger(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """The larger of both, by name."""
    return {name: max(first.get(name, Fraction(0)), second.get(name, Fraction(0))) for name in {**first, **second}}
