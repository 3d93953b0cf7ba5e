"""Reading a log that can only be asked for by time and number of lines, without duplicates and holes. A decider.

    at = from_text(position) or start_of(created_s)       where to begin
    at = tail(fetch, start_s, now_s=, count=)             or where only the last lines are wanted
    read(at, fetch, now_s=, most=)                        a page; ``fetch(start_s, end_s)`` gives the lines of a span

A line may appear in answers some time after it was written. So the last minute is asked for again at every look, and
the number of its lines that were told is kept; what is older is never asked for again. A span with more lines than one
answer may have is halved.
"""

from __future__ import annotations

from umiak.core.value import replace, value
from umiak.submit.backends.cloud.api import LogPage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SPAN_S, MOST_SPAN_S = 3600, 86400
"""Spans grow while there is little to read."""
LATE_S = 60
"""How much later than it was written a line may appear in an answer."""


@value
class Window:
    """Where a reader is."""

    start_s: int
    """Everything before this second, since 1970, was told."""
    span_s: int = SPAN_S
    """So much time is asked for first."""
    seen: int = 0
    """So many lines from the start on were told."""

    def __str__(self) -> str:
        return f"{self.start_s}+{self.span_s}/{self.seen}"


def start_of(created_s: float | None) -> Window:
    """The first window of a job."""
    return Window(start_s=int(created_s or 0))


def from_text(text: str) -> Window | None:
    """A window as a position has it; None if it is none."""
    start, plus, rest = text.partition("+")
    span, slash, seen = rest.partition("/")
    if not (plus and slash and all(each.isascii() and each.isdigit() for each in (start, span, seen))):
        return None
    return Window(start_s=int(start), span_s=max(1, int(span)), seen=int(seen))


def tail(fetch: Callable[[int, int], list[str]], first_s: int, *, now_s: float, count: int) -> Window:
    """A window that begins so late that few more than the last lines are in it:
    spans before the end are doubled until they have enough.
    """
    end_s, span_s = int(now_s) + 1, LATE_S
    while end_s - span_s > first_s:
        if len(fetch(end_s - span_s, end_s)) >= count:
            return Window(start_s=end_s - span_s)
        span_s *= 2
    return Window(start_s=first_s)


def read(at: Window, fetch: Callable[[int, int], list[str]], *, now_s: float, most: int) -> LogPage:
    """The lines behind a window's beginning that were not told:
    to the end of the log, or of the first span that is past.
    """
    told: list[tuple[str, str]] = []
    begin, span, count = at.start_s, at.span_s, 0
    while begin <= now_s:
        lines = fetch(begin, begin + span)
        if len(lines) >= most and span > 1:
            span //= 2
            continue
        for line in lines:
            count += 1
            if count > at.seen:
                told.append((line, str(Window(start_s=at.start_s, span_s=span, seen=count))))
        if len(lines) >= most:
            where = told[-1][1] if told else str(at)
            told.append(("[umiak: a second of this log has more lines than the cloud shows]", where))
        begin += span
        if now_s >= begin + LATE_S:
            # Of a span that was halved after its lines were told, those of the second half count there.
            ahead = max(0, at.seen - count)
            after = Window(start_s=begin, span_s=min(MOST_SPAN_S, span * 2), seen=ahead)
            return LogPage(lines=tuple(told), position=str(after), has_more=True)
        span = min(MOST_SPAN_S, span * 2)
    return LogPage(lines=tuple(told), position=str(replace(at, seen=max(at.seen, count))))
