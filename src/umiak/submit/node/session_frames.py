"""What `umiak exec` and `umiak fetch` say to the program on a node, and it to them: frames on a stream of bytes.
A decider.

    frame(STDOUT, b"hello")      one letter, 4 bytes of length (big-endian), then so many bytes
    parser.feed(data)            [(STDOUT, b"hello"), ...]; what is cut off waits for the rest

The program on the node begins with `HELLO`: what stands before it was printed by a shell or a scheduler, and is no
frame. Lengths are checked before anything is kept. The same frames go over a pipe, ssh, srun or a WebSocket. Both sides
also agree on which files a path means (`is_wanted`).
"""

from __future__ import annotations

from umiak.core import light_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO = b"\numiak-session-1\n"
MOST_BYTES = 4 << 20
"""In one frame."""
BLOCK_BYTES = 1 << 16
"""Of output and files, in one frame."""
WINDOW_BYTES = 1 << 18
"""So much input is on its way to a command that has not read it:
then the client waits, and its signals are still heard.
"""
PING_S = 10.0
SILENT_S = 300.0
"""After so long without a word the node takes its client for dead, and the client its node."""

REQUEST, STDIN, STDIN_END, RESIZE, SIGNAL, PING = b"Q", b"I", b"E", b"W", b"K", b"P"
"""From the client."""
ANSWER, PROBLEM, STARTED, STDOUT, STDERR, TAKEN, EXIT, ENTRIES, OPENED, DATA, END, PONG = (
    b"A",
    b"X",
    b"S",
    b"o",
    b"e",
    b"t",
    b"c",
    b"l",
    b"f",
    b"d",
    b".",
    b"p",
)
"""From the node."""
_HEAD = 5


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """One frame."""
    return kind + len(payload).to_bytes(4, "big") + payload


def json_frame(kind: bytes, data: Any) -> bytes:
    """One frame with JSON in it."""
    return frame(kind, light_json.dumps(data).encode())


class FrameParser:
    """Takes bytes as they come, gives frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The frames that are complete now. ValueError if the other side does not speak in frames."""
        self._waiting += data
        frames = []
        begin = 0
        while len(self._waiting) - begin >= _HEAD:
            size = int.from_bytes(self._waiting[begin + 1 : begin + _HEAD], "big")
            if size > MOST_BYTES:
                raise ValueError(f"expected a frame of at most {MOST_BYTES} bytes, got {size}")
            end = begin + _HEAD + size
            if len(self._waiting) < end:
                break
            frames.append((bytes(self._waiting[begin : begin + 1]), bytes(self._waiting[begin + _HEAD : end])))
            begin = end
        del self._waiting[:begin]
        return frames


def is_wanted(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a file is one of those that were named: itself, in a directory, or by a pattern.
    Names count from the run's directories (``work/output``, ``log``) and from the working directory (``output``).
    """
    if not patterns:
        return True
    from fnmatch import fnmatchcase

    rest = path.partition("/")[2]
    parts = path.split("/")
    parents = ["/".join(parts[:count]) for count in range(1, len(parts))]
    names = [each for each in (path, rest, *parents, *(each.partition("/")[2] for each in parents)) if each]
    return any(fnmatchcase(name, pattern) or name == pattern for pattern in patterns for name in names)


def may_hold(directory: str, patterns: tuple[str, ...]) -> bool:
    """Whether something below a directory can be wanted: others are not looked through."""
    if not patterns or is_wanted(directory, patterns):
        return True
    rest = directory.partition("/")[2]
    # A star stands for slashes too, so that a pattern may lead anywhere.
    return any(
        any(letter in pattern for letter in "*?[")
        or not rest
        or f"{pattern}/".startswith((f"{directory}/", f"{rest}/"))
        for pattern in patterns
    )
