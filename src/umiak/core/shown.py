"""Texts as people may see them: passwords in addresses are covered, and nothing steers a terminal. A decider."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Secrets(dict[str, str]):
    """Variables with secret values. It never shows them, so that no traceback, log or message does."""

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self))})"

    __str__ = __repr__


_KEPT = "\t\n\xa0\u3000"
"""Tab, end of line, and two spaces that Python does not count as printable."""


def inert(text: str) -> str:
    """The text with nothing in it that could steer a terminal; tabs and ends of lines stay.

    Colours are left out. Any other control character is spelled out, and so are characters that are not seen but change
    how the rest is read, such as those that turn the direction of writing.
    """
    if "\x1b" in text:
        text = _without_colours(text)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in _KEPT else _spelled(letter) for letter in text)


def one_line(text: str, most: int = 4096) -> str:
    """As `inert`, in one line, cut where it is longer than ``most``: nobody else's text looks like a line of our own."""
    text = text if len(text) <= most else f"{text[: most - 3]}..."
    return inert(text).replace("\n", "\\n").replace("\t", " ")


def size_text(count: int) -> str:
    """Bytes for people: ``13.7 KiB``."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def _without_colours(text: str) -> str:
    """Without sequences of the form ``ESC [ digits m``."""
    first, *pieces = text.split("\x1b[")
    kept = [first]
    for piece in pieces:
        rest = piece.lstrip("0123456789;:")
        kept.append(rest[1:] if rest[:1] == "m" else f"\x1b[{piece}")
    return "".join(kept)


def _spelled(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def without_password(text: str) -> str:
    """The text of an address, with a user name and password in it covered."""
    scheme, separator, rest = text.rpartition("://")
    if "@" not in rest:
        return text
    return f"{scheme}{separator}***@{rest.rpartition('@')[2]}"


def without_passwords(data: Any) -> Any:
    """Plain data, with what is in front of the ``@`` of every URL in it covered."""
    if isinstance(data, dict):
        return {key: without_passwords(each) for key, each in data.items()}
    if isinstance(data, (list, tuple)):
        return [without_passwords(each) for each in data]
    return without_password(data) if isinstance(data, str) and "://" in data else data
