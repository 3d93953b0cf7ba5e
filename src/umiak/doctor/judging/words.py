"""Sizes, versions and short lists as people read them. A decider."""

from __future__ import annotations

import re

from umiak.core.value import value

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
    match = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version meets a requirement such as ``>=3.20.2,<7``, as PEP 440 has it: ``3.20.2rc1`` does not.
    What can't be read is taken as met.
    """
    parsed = _Version.of(version)
    return parsed is None or all(_meets(parsed, clause.strip()) for clause in wanted.split(",") if clause.strip())


_PATTERN = re.compile(
    r"v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)"
    r"(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?([0-9]*))?"
    r"(?:-([0-9]+)|[-_.]?(post|rev|r)[-_.]?([0-9]*))?"
    r"(?:[-_.]?(dev)[-_.]?([0-9]*))?"
    r"(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE | re.ASCII,
)
_LETTERS = {"alpha": "a", "beta": "b", "preview": "rc", "pre": "rc", "c": "rc"}


@value
class _Version:
    epoch: int
    numbers: tuple[int, ...]
    pre: tuple[str, int] | None
    post: int | None
    dev: int | None
    local: tuple[tuple[int, str], ...]
    """Words come before numbers."""

    @classmethod
    def of(cls, text: str) -> _Version | None:
        match = _PATTERN.fullmatch(text.strip())
        if not match:
            return None
        epoch, numbers, letters, pre, implicit, post_word, post, dev_word, dev, local = match.groups(default="")
        letters = letters.lower()
        return cls(
            epoch=int(epoch or 0),
            numbers=tuple(int(part) for part in numbers.split(".")),
            pre=(_LETTERS.get(letters, letters), int(pre or 0)) if letters else None,
            post=int(implicit or post or 0) if implicit or post_word else None,
            dev=int(dev or 0) if dev_word else None,
            local=tuple(
                (int(part), "") if part.isdecimal() else (-1, part) for part in re.split("[-_.]", local.lower()) if part
            ),
        )

    def base(self, length: int = 0) -> tuple[int, ...]:
        """Epoch and numbers, without zeros at the end, or as many numbers as are asked for."""
        numbers = list(self.numbers) + [0] * (length - len(self.numbers))
        if length:
            return (self.epoch, *numbers[:length])
        while numbers and numbers[-1] == 0:
            numbers.pop()
        return (self.epoch, *numbers)

    def order(self) -> tuple[object, ...]:
        """What versions are compared by, but for the local part."""
        none_of_pre = ("", 0) if self.post is None and self.dev is not None else ("z", 0)
        dev = float("inf") if self.dev is None else self.dev
        return (self.base(), self.pre or none_of_pre, -1 if self.post is None else self.post, dev)


def _meets(version: _Version, clause: str) -> bool:
    sign = clause[: len(clause) - len(clause.lstrip("<>=!~"))]
    text = clause[len(sign) :].strip()
    is_prefix = text.endswith(".*")
    other = _Version.of(text.removesuffix(".*"))
    if other is None:
        return True
    mine, theirs = version.order(), other.order()
    if is_prefix or sign == "~=":
        length = len(other.numbers) - (sign == "~=")
        is_same = version.base(length) == other.base(length)
        return is_same != (sign == "!=") if is_prefix else is_same and mine >= theirs
    is_equal = mine == theirs and (not other.local or version.local == other.local)
    is_same_base = version.base() == other.base()
    if other.post is None:
        is_early = version.pre is not None or version.dev is not None
    else:
        is_early = (version.pre, version.post) == (None, other.post) and version.dev is not None
    is_early_of_other = is_same_base and is_early and other.pre is None and other.dev is None
    is_late = version.pre == other.pre and version.post is not None
    is_late_of_other = is_same_base and is_late and other.post is None and other.dev is None
    return {
        ">=": mine >= theirs,
        "<=": mine <= theirs,
        ">": mine > theirs and not is_late_of_other,
        "<": mine < theirs and not is_early_of_other,
        "==": is_equal,
        "===": is_equal,
        "!=": not is_equal,
    }.get(sign, True)
