"""Pieces of logs: the end, what is before or behind a place, lines that match, the first error. An adapter.

    page(path, before=None)                       the last lines of a file, of any size
    matching(path, wanted, before=None)           the last lines that match, looking backwards for a while
    first_error(path, after=0)                    where the first error stands, looking forwards for a while
    merged(paths)                                 the ends of several, in the order of time

Only pieces are read. What looks through a large file does so up to `MOST_SEARCHED` bytes, and says where to go on. Patterns are plain words,
never regular expressions from a request, so that none can take for ever.
"""

from __future__ import annotations

import re

from umiak.core.runtime import log_times
from umiak.core.shown import without_sequences
from umiak.core.value import value
from umiak.dashboard import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from umiak.core.json_types import JsonObject

PAGE_BYTES = 1 << 16
LONGEST_LINE = 4000
MOST_SEARCHED = 64 << 20
MOST_LINES = 500
MOST_MERGED = 64
_STEP = 4 << 20
ERROR = (
    rb"Traceback \(most recent call last\)|^[\w.]*(?:Error|Exception)\b|\b(?:ERROR|CRITICAL|FATAL)\b"
    rb"|Segmentation fault|panicked at|[Oo]ut of memory|core dumped"
)
_ERROR_WORDS = (
    b"Traceback (",
    b"Error",
    b"Exception",
    b"ERROR",
    b"CRITICAL",
    b"FATAL",
    b"Segmentation fault",
    b"panicked at",
    b"ut of memory",
    b"core dumped",
)
LEVELS = {
    "error": (_ERROR_WORDS, re.compile(ERROR)),
    "warning": ((*_ERROR_WORDS, b"WARN", b"arning:"), re.compile(ERROR + rb"|\bWARN(?:ING)?\b|[Ww]arning:")),
}
"""Of each level: words without which no line is of it, which are found a hundred times faster, and what such a line looks like."""


@value
class LogLineAt:
    """One line and where it is."""

    offset: int
    text: str
    time_s: float | None = None
    source: str = ""

    @property
    def data(self) -> JsonObject:
        level = level_of(self.text)
        return {"at": self.offset, "text": self.text, "time_s": self.time_s, "source": self.source, "level": level}


@value
class LogPiece:
    """Lines of one file, in their order."""

    lines: tuple[LogLineAt, ...] = ()
    begin: int = 0
    end: int = 0
    size: int = 0
    is_searched_on: bool = False
    """There may be more that matches: ``begin`` (``end``, if it looked forwards) says where to go on."""

    @property
    def data(self) -> JsonObject:
        return {
            "lines": [line.data for line in self.lines],
            "begin": self.begin,
            "end": self.end,
            "size": self.size,
            "more": self.is_searched_on,
        }


@value
class LineFilter:
    """Which lines are wanted: those that have one of the words, whatever their case, and those of a level."""

    words: tuple[str, ...] = ()
    level: str = ""

    @property
    def is_all(self) -> bool:
        return not self.words and self.level not in LEVELS

    def lines_in(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Begin and end of each line that is wanted."""
        needles, shape = LEVELS.get(self.level, ((), None))
        searched = data
        if self.words:
            needles, searched = tuple([word.lower().encode() for word in self.words]), data.lower()
        places = {needle: searched.find(needle) for needle in needles}
        while any(place >= 0 for place in places.values()):
            place = min(place for place in places.values() if place >= 0)
            begin = data.rfind(b"\n", 0, place) + 1
            end = data.find(b"\n", place)
            end = len(data) if end < 0 else end
            if shape is None or shape.search(data[begin:end]):
                yield begin, end
            places = {
                needle: searched.find(needle, end) if 0 <= place < end else place for needle, place in places.items()
            }


def level_of(line: str) -> str:
    """``error`` or ``warning``, where a line looks like one."""
    data = line.encode(errors="replace")
    for name, (words, shape) in LEVELS.items():
        if any(word in data for word in words) and shape.search(data):
            return name
    return ""


def page(path: str, *, before: int | None = None, after: int | None = None) -> LogPiece:
    """The lines that end at ``before`` or begin at ``after``; without either the last ones. OSError if it can't be read."""
    with files.RunFile.open(path) as file:
        if after is not None:
            begin = min(max(0, after), file.size)
            data = file.read(begin, PAGE_BYTES)
            is_end = begin + len(data) >= file.size
            cut = len(data) if is_end else data.rfind(b"\n") + 1 or len(data)
            data = data[:cut]
        else:
            end = file.size if before is None else min(max(0, before), file.size)
            begin = max(0, end - PAGE_BYTES)
            data = file.read(begin, end - begin)
            if begin:
                cut = data.find(b"\n") + 1
                cut = cut if 0 < cut < len(data) else 0
                begin, data = begin + cut, data[cut:]
        return LogPiece(lines=_timed(path, _split(data, begin)), begin=begin, end=begin + len(data), size=file.size)


def matching(path: str, wanted: LineFilter, *, before: int | None = None) -> LogPiece:
    """The last lines that are wanted, looking backwards from a place. OSError if it can't be read."""
    if wanted.is_all:
        return page(path, before=before)
    with files.RunFile.open(path) as file:
        end = stop = file.size if before is None else min(max(0, before), file.size)
        found: list[LogLineAt] = []
        searched = 0
        while end > 0 and len(found) < MOST_LINES and searched < MOST_SEARCHED:
            begin = max(0, end - _STEP)
            data = file.read(begin, end - begin)
            if begin:
                cut = data.find(b"\n") + 1
                cut = cut if 0 < cut < len(data) else 0
                begin, data = begin + cut, data[cut:]
            searched += max(1, end - begin)
            found[:0] = [
                LogLineAt(offset=begin + first, text=shown(data[first:last])) for first, last in wanted.lines_in(data)
            ]
            end = begin
        if len(found) > MOST_LINES:
            found = found[-MOST_LINES:]
            end = found[0].offset
        return LogPiece(lines=_timed(path, found), begin=end, end=stop, size=file.size, is_searched_on=end > 0)


def first_error(path: str, *, after: int = 0) -> LogPiece:
    """The place of the first error behind an offset: one line, or none. OSError if it can't be read."""
    errors = LineFilter(level="error")
    with files.RunFile.open(path) as file:
        begin = max(0, after)
        stop = min(file.size, begin + MOST_SEARCHED)
        while begin < stop:
            data = file.read(begin, _STEP)
            cut = data.rfind(b"\n") + 1
            if not cut or begin + len(data) >= file.size:
                cut = len(data)
            first = next(errors.lines_in(data[:cut]), None)
            if first is not None:
                place = LogLineAt(offset=begin + first[0], text=shown(data[slice(*first)]))
                return LogPiece(lines=(place,), begin=place.offset, end=place.offset, size=file.size)
            begin += max(1, cut)
        return LogPiece(begin=begin, end=begin, size=file.size, is_searched_on=begin < file.size)


def merged(sources: Sequence[tuple[str, str]], wanted: LineFilter, most: int = MOST_LINES) -> list[LogLineAt]:
    """The last lines of several files, (name, path) each, in the order in which they were written. Files that can't be read are left out."""
    lines: list[tuple[float, int, int, LogLineAt]] = []
    for number, (name, path) in enumerate(sources[:MOST_MERGED]):
        try:
            found = matching(path, wanted)
        except OSError:
            continue
        latest = 0.0
        for line in found.lines[-most:]:
            latest = line.time_s if line.time_s is not None else latest
            named = LogLineAt(offset=line.offset, text=line.text, time_s=line.time_s, source=name)
            lines.append((latest, number, line.offset, named))
    lines.sort(key=lambda each: each[:3])
    return [line for *_, line in lines[-most:]]


def shown(line: bytes) -> str:
    """A line as a person may see it: nothing in it steers a terminal, and what is no UTF-8 is marked."""
    text = without_sequences(line[: 4 * LONGEST_LINE].decode(errors="replace"))
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} ..."


def _split(data: bytes, begin: int) -> list[LogLineAt]:
    lines = []
    at = begin
    for line in data.split(b"\n"):
        lines.append(LogLineAt(offset=at, text=shown(line)))
        at += len(line) + 1
    if lines and not lines[-1].text:
        lines.pop()
    return lines


def _timed(path: str, lines: Iterable[LogLineAt]) -> tuple[LogLineAt, ...]:
    """With times, where the launcher has written them down."""
    lines = list(lines)
    times = _times(path, lines[0].offset) if lines else None
    if times is None:
        return tuple(lines)
    return tuple([LogLineAt(offset=line.offset, text=line.text, time_s=times.at(line.offset)) for line in lines])


def _times(path: str, offset: int) -> log_times.LineTimes | None:
    """The records that matter for lines behind an offset: found by halving, since the file grows with its log."""
    try:
        with files.RunFile.open(log_times.path_of(path)) as file:
            count = (file.size - log_times.HEAD_BYTES) // log_times.RECORD_BYTES
            low, high = 0, max(0, count)
            while low < high:
                middle = (low + high) // 2
                record = file.read(log_times.HEAD_BYTES + middle * log_times.RECORD_BYTES, log_times.RECORD_BYTES)
                if log_times.pair_of(record)[0] <= offset:
                    low = middle + 1
                else:
                    high = middle
            first = max(0, low - 1)
            times = log_times.LineTimes()
            times.feed(file.read(log_times.HEAD_BYTES + first * log_times.RECORD_BYTES, 1 << 20))
            return times
    except OSError:
        return None
