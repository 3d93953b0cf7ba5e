"""Sizes, versions and short lists as people read them. A decider."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
MOST_NAMED = 4


def size(number: int) -> str:
    """``64 MiB``."""
    unit = 0
    shown = float(number)
    while shown >= 1024 and unit < len(UNITS) - 1:
        shown /= 1024
        unit += 1
    return f"{shown:.0f} {UNITS[unit]}" if shown >= 10 or unit == 0 else f"{shown:.1f} {UNITS[unit]}"


def some(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


def release(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version: ``3.20.2rc1`` is 3, 20, 2."""
    numbers = []
    for part in version.split("+", maxsplit=1)[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version meets a requirement such as ``>=3.20.2,<7``. What can't be read is taken as met."""
    return all(_meets(release(version), clause.strip()) for clause in wanted.split(",") if clause.strip())


def _meets(version: tuple[int, ...], clause: str) -> bool:
    sign = clause[: len(clause) - len(clause.lstrip("<>=!~"))]
    text = clause[len(sign) :].strip()
    other = release(text)
    if not other:
        return True
    if text.endswith(".*") or sign == "~=":
        same = version[: len(other) - (sign == "~=")] == other[: len(other) - (sign == "~=")]
        if sign == "~=":
            return same and version >= other
        return not same if sign == "!=" else same
    length = max(len(version), len(other))
    mine, theirs = (each + (0,) * (length - len(each)) for each in (version, other))
    return {
        ">=": mine >= theirs,
        "<=": mine <= theirs,
        ">": mine > theirs,
        "<": mine < theirs,
        "==": mine == theirs,
        "===": mine == theirs,
        "!=": mine != theirs,
    }.get(sign, True)
