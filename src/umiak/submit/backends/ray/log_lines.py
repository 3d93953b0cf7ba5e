"""The log of a driver, taken apart into lines of workers, launchers and the driver. A decider.

A position is the number of bytes of the log up to the end of a line: the log only grows, and every reading begins at
its beginning. Lines have the time of the last ``[time] 1763434809.773`` before them, which the driver writes at most
once in a second.
"""

from __future__ import annotations

import re

from umiak.core.cluster import Role
from umiak.core.value import replace
from umiak.submit.backend import LogLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.submit.backend import LogsWanted

_TAG = re.compile(r"\[((server|trainer|heter)\.(\d+)|launcher\.[a-z]+\.\d+|driver)\] ?(.*)\Z", re.DOTALL)
TIME = b"[time] "
RAY = "ray"
"""Lines without a tag are Ray's own."""


class LogParser:
    """Takes a log in pieces, from its beginning, and gives the lines that are wanted and new."""

    def __init__(self, wanted: LogsWanted) -> None:
        self._wanted = wanted
        self._after = {name: int(text) for name, text in wanted.after.items() if text.isdecimal()}
        self.restart()

    def restart(self) -> None:
        """The log is read from its beginning again: what was given is not given again."""
        self._rest = b""
        self._position = 0
        self._time_s: float | None = None

    def feed(self, data: bytes) -> Iterator[LogLine]:
        """The whole lines of what came."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for piece in whole:
            self._position += len(piece) + 1
            yield from self._line(piece)

    def end(self) -> Iterator[LogLine]:
        """What is left of a log that grows no more."""
        if self._rest:
            piece, self._rest = self._rest, b""
            self._position += len(piece)
            yield from self._line(piece)

    def _line(self, piece: bytes) -> Iterator[LogLine]:
        if piece.startswith(TIME):
            self._time_s = _seconds(piece)
            return
        line = line_of(piece.removesuffix(b"\r").decode(errors="replace"), self._position)
        line = replace(line, time_s=self._time_s)
        if self._position > self._after.get(line.source, 0) and self._wanted.asks_for(line.role, line.rank):
            self._after[line.source] = self._position
            yield line


def _seconds(mark: bytes) -> float | None:
    try:
        return float(mark[len(TIME) :])
    except ValueError:
        return None


def line_of(text: str, position: int) -> LogLine:
    """Who has written a line."""
    match = _TAG.match(text)
    if match is None:
        return LogLine(source=RAY, text=text, position=str(position))
    role = Role(match[2]) if match[2] else None
    rank = int(match[3]) if match[3] else None
    return LogLine(source=match[1], text=match[4], position=str(position), role=role, rank=rank)
