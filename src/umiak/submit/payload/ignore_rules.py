"""The rules of .gitignore files, as git reads them. A decider.

    rules = parse("*.log\\n!keep.log\\n/build/\\n", "")
    is_ignored(rules, "run/a.log", is_directory=False)      True

Rules of deeper files count after those of the directories above, and the last that fits decides.
What lies below a directory that is left out can't be brought back: a walk through a tree does not go in there.
"""

from __future__ import annotations

import re

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@value
class IgnoreRule:
    """One line."""

    base: str
    """The directory of its file, from the root: empty, or ending with a slash."""
    pattern: re.Pattern[str]
    """For a path from there on, or for the last part of it."""
    whole_path: bool
    negated: bool
    directories_only: bool
    prefix: str
    """Put in front of a path that is matched: of rules of a directory above the root."""

    def fits(self, path: str, *, is_directory: bool) -> bool:
        path = self.prefix + path
        if (self.directories_only and not is_directory) or not path.startswith(self.base):
            return False
        rest = path[len(self.base) :]
        return self.pattern.fullmatch(rest if self.whole_path else rest.rpartition("/")[2]) is not None


def parse(text: str, base: str, prefix: str = "") -> list[IgnoreRule]:
    """The rules of one file. ``base``: its directory, empty or ending with a slash.

    A file of a directory above the root has the way from there to the root as its ``prefix``, which ends with a slash.
    """
    base, prefix = _as_bytes(base), _as_bytes(prefix)
    rules = (_rule(_as_bytes(line), base, prefix) for line in text.removeprefix("\ufeff").split("\n"))
    return [rule for rule in rules if rule]


def is_ignored(rules: Sequence[IgnoreRule], path: str, *, is_directory: bool) -> bool:
    """Whether the last rule that fits says so. No rule fits: no."""
    path = _as_bytes(path)
    for rule in reversed(rules):
        if rule.fits(path, is_directory=is_directory):
            return not rule.negated
    return False


def globs(patterns: Iterable[str]) -> list[IgnoreRule]:
    """Patterns of a person, by the same rules: ``*.py`` anywhere, ``/data`` at the root, ``src/**``, ``models/``."""
    return [rule for pattern in patterns for rule in parse(pattern, "")]


def _as_bytes(text: str) -> str:
    """One letter for each byte: to git ``?`` is a byte, and names need not be UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _rule(line: str, base: str, prefix: str) -> IgnoreRule | None:
    line = _without_end(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!")
    directories_only = line.endswith("/")
    line = line.removesuffix("/")
    whole_path = "/" in line
    line = line.removeprefix("/")
    pattern = _expression(line, whole_path=whole_path) if line else None
    if pattern is None:
        return None
    return IgnoreRule(
        base=base,
        prefix=prefix,
        pattern=pattern,
        whole_path=whole_path,
        negated=negated,
        directories_only=directories_only,
    )


def _without_end(line: str) -> str:
    """Without spaces at the end, unless a backslash keeps the first of them."""
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return f"{bare} " if slashes % 2 and len(bare) < len(line) else bare


def _expression(glob: str, *, whole_path: bool) -> re.Pattern[str] | None:
    """None: it fits nothing."""
    parts, position = [], 0
    while position < len(glob):
        letter = glob[position]
        if letter == "*":
            stars = len(glob[position:]) - len(glob[position:].lstrip("*"))
            part, position = _stars(glob, position, stars, whole_path=whole_path)
            parts.append(part)
        elif letter == "?":
            parts.append("[^/]")
            position += 1
        elif letter == "[":
            found = _bracket(glob, position)
            if found is None:
                return None
            parts.append(found[0])
            position = found[1]
        else:
            if letter == "\\":
                position += 1
                if position == len(glob):
                    return None
            parts.append(re.escape(glob[position]))
            position += 1
    return re.compile("".join(parts), re.DOTALL)


def _stars(glob: str, position: int, stars: int, *, whole_path: bool) -> tuple[str, int]:
    """One or more stars: two of them between slashes stand for any number of directories."""
    after = position + stars
    starts = position == 0 or glob[position - 1] == "/"
    if whole_path and stars >= 2 and starts:
        if after == len(glob):
            return ".*", after
        if glob[after] == "/":
            return "(?:.*/)?", after + 1
    return "[^/]*", after


_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


def _bracket(glob: str, position: int) -> tuple[str, int] | None:
    """``[a-z]``, ``[!a]``, ``[[:digit:]]``: an expression, and the place behind it. None: it has no end."""
    position += 1
    negated = glob[position : position + 1] in ("!", "^")
    position += negated
    parts: list[str] = []
    first = True
    while position < len(glob):
        letter = glob[position]
        if letter == "]" and not first:
            inner = "".join(parts) or "^\\s\\S"
            return (f"(?!/)[^{inner}]" if negated else f"(?!/)[{inner}]"), position + 1
        first = False
        named = re.match(r"\[:([^]]*):\]", glob[position:])
        if named:
            if named[1] not in _CLASSES:
                return None
            parts.append(_CLASSES[named[1]])
            position += named.end()
            continue
        low, position = _letter(glob, position)
        if glob[position : position + 1] == "-" and glob[position + 1 : position + 2] not in ("", "]"):
            high, position = _letter(glob, position + 1)
            parts.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low))
        elif low:
            parts.append(re.escape(low))
    return None


def _letter(glob: str, position: int) -> tuple[str, int]:
    if glob[position] == "\\":
        position += 1
    return glob[position : position + 1], position + 1
