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


def without_sequences(text: str) -> str:
    """A line of a program's output as a person reads it: without colours, cursor movements, titles and other sequences
    for terminals, and without control characters; of a progress bar, which overwrites itself after carriage returns,
    the last state.

    Characters that are not seen but change how the rest is read are spelled out, as `inert` does. Tabs stay.
    """
    if text.isprintable():
        return text
    text = _without_sequences(text)
    if "\r" in text:
        states = [each for each in text.split("\r") if each.strip()]
        text = states[-1] if states else ""
    if text.isprintable():
        return text
    return inert("".join([letter for letter in text if letter in _KEPT or not _is_control(letter)]))


def colours_only(data: bytes) -> bytes:
    """A worker's bytes for a terminal: of all sequences only colours stay,
    of control characters those that a progress bar needs.

    Fast where there is nothing to take away.
    """
    if len(data.translate(None, _STEERING)) == len(data) and b"\xc2" not in data:
        return data
    text = _without_sequences(data.decode(errors="surrogateescape"), keeps_colours=True)
    kept = [letter for letter in text if letter in "\t\n\r\b\x1b" or not _is_control(letter)]
    return "".join(kept).encode(errors="surrogateescape")


_STEERING = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n\r\b")
_STRINGS = "]PX^_\x9d\x90\x98\x9e\x9f"
"""What begins a string for the terminal, behind an ESC or as one character:
a title, a link, a picture, what goes to the clipboard.
"""
_C1 = "\x9b\x9d\x90\x98\x9e\x9f"


def _is_control(letter: str) -> bool:
    return letter < " " or "\x7f" <= letter <= "\x9f"


def _without_sequences(text: str, *, keeps_colours: bool = False) -> str:
    """Without sequences that begin with ESC, or with their C1 character.
    Of one that has no end, only the beginning goes: nothing that is behind it may be hidden.
    """
    kept: list[str] = []
    at, length = 0, len(text)
    while at < length:
        letter = text[at]
        if letter != "\x1b" and letter not in _C1:
            begin, at = at, at + 1
            while at < length and text[at] != "\x1b" and text[at] not in _C1:
                at += 1
            kept.append(text[begin:at])
            continue
        begin, at = at, at + 1
        kind = letter
        if letter == "\x1b":
            kind = text[at : at + 1]
            if not " " <= kind <= "~":
                continue  # no sequence: only the ESC goes
            at += 1
        if kind in ("[", "\x9b"):
            at = _behind(text, at, "0", "?")
            at = _behind(text, at, " ", "/")
            is_whole = at < length and "@" <= text[at] <= "~"
            at += is_whole
            if keeps_colours and letter == "\x1b" and text[begin + 2 : at].strip("0123456789;:") == "m":
                kept.append(text[begin:at])
        elif kind in _STRINGS:
            at = _end_of_string(text, at) or at
        elif " " <= kind <= "/":
            at = _behind(text, at, " ", "/") + 1
    return "".join(kept)


def _behind(text: str, at: int, first: str, last: str) -> int:
    while at < len(text) and first <= text[at] <= last:
        at += 1
    return at


def _end_of_string(text: str, at: int) -> int:
    """Behind BEL or ST; 0 if it has no end."""
    ends = [found + len(end) for end in ("\x07", "\x1b\\", "\x9c") if (found := text.find(end, at)) >= 0]
    return min(ends, default=0)


def one_line(text: str, most: int = 4096) -> str:
    """As `inert`, in one line, cut where it is longer than ``most``:
    nobody else's text looks like a line of our own.
    """
    text = text if len(text) <= most else f"{text[: most - 3]}..."
    return inert(text).replace("\n", "\\n").replace("\t", " ")


def end_of_log(text: str, most: int = 4096) -> str:
    """As `one_line`, cut at the front where it has several lines: what failed stands at the end of a log."""
    text = text.strip()
    if len(text) > most and "\n" in text:
        text = f"...{text[3 - most :]}"
    return one_line(text, most)


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


def signal_name(number: int) -> str:
    """``SIGKILL (9)``."""
    import signal

    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"
