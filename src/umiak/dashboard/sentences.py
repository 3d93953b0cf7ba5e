"""One sentence that says how a run is: who waits for whom, what failed first, where, why, and what to do. A decider.

sentence_of(row, stories, now_s, looks)      Sentence(text="failed 3 min ago: trainer 1 on node ...", hint="...")
"""

from __future__ import annotations

from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.dashboard.rows import UNREADABLE
from umiak.dashboard.workers import ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.dashboard.journal_story import FailureSight, JournalStory
    from umiak.dashboard.rows import RunRow
    from umiak.dashboard.workers.ranks import RankLook

QUIET_S = 120.0
"""A running job that has written nothing for so long is worth a look."""
MOST_NAMED = 3
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@value
class Sentence:
    """How a run is, and what to do about it."""

    text: str
    hint: str = ""


def sentence_of(row: RunRow, stories: Sequence[JournalStory], now_s: float, looks: Sequence[RankLook] = ()) -> Sentence:
    """For a person who has just opened the page."""
    failure = first_failure(stories)
    match row.state:
        case "failed":
            return _failed(row, stories, failure, now_s)
        case "running" | "restarting" | "stopping":
            return _running(row, stories, failure, now_s, looks)
        case "starting" | "queued":
            waiting = next((story.waiting for story in stories if story.waiting), "")
            since = f" for {span(now_s - row.started_s)}" if row.started_s else ""
            reason = waiting or row.reason
            return Sentence(text=f"{row.state}{since}{': ' + one_line(reason, 500) if reason else ''}")
        case "succeeded":
            times = _times(row.restarts)
            return Sentence(text=f"succeeded{_ago(row, now_s)}{_after(row)}{f', {times}' if times else ''}")
        case "lost":
            hint = "`--resume` goes on from its newest checkpoint; the ends of its logs may say what happened"
            return Sentence(text=f"lost{_ago(row, now_s)}: {row.reason}", hint=hint)
        case _ if row.state == UNREADABLE:
            return Sentence(text=f"can't be read: {row.reason}", hint="other runs are not affected")
    return Sentence(text=f"{row.state}{_ago(row, now_s)}{': ' + row.reason if row.reason else ''}")


def first_failure(stories: Sequence[JournalStory]) -> FailureSight | None:
    """The earliest failure of the newest generation that failed: what else ended is mostly a consequence of it."""
    failures = [failure for story in stories for failure in story.failures]
    newest = max((failure.generation for failure in failures), default=0)
    last = [each for each in failures if each.generation == newest]
    return min([each for each in last if each.again_s is None] or last, key=lambda each: each.at_s, default=None)


def incidents(stories: Sequence[JournalStory]) -> list[FailureSight]:
    """Every failure of the run, once, in the order of time: several launchers may have seen it."""
    found: dict[tuple[object, ...], FailureSight] = {}
    for each in [failure for story in stories for failure in story.failures]:
        key = each.generation, each.node or each.host, each.worker, round(each.at_s, 3)
        if key not in found or found[key].again_s is None:
            found[key] = each
    return sorted(found.values(), key=lambda each: each.at_s)


def named(looks: Sequence[RankLook]) -> str:
    """Such as ``trainer 1, trainer 3 and 5 more``."""
    names = [each.name for each in looks[:MOST_NAMED]]
    more = len(looks) - len(names)
    if more:
        return f"{', '.join(names)} and {more} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def span(seconds: float) -> str:
    """``5 s``, ``3 min``, ``2 h 10 min``."""
    whole = max(0, int(seconds))
    for index, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            text = f"{whole // size} {unit}"
            if size > 60:
                small, small_unit = _UNITS[index + 1]
                rest = whole % size // small
                text += f" {rest} {small_unit}" if rest else ""
            return text
    return "0 s"


def _failed(row: RunRow, stories: Sequence[JournalStory], failure: FailureSight | None, now_s: float) -> Sentence:
    words = next((story for story in stories if story.words), None)
    hint = words.hint if words else ""
    if failure is None:
        return Sentence(text=f"failed{_ago(row, now_s)}: {row.reason or (words.words if words else '')}", hint=hint)
    error = f": {one_line(failure.error, 300)}" if failure.error else ""
    restarts = f", after {row.restarts} {'restart' if row.restarts == 1 else 'restarts'}" if row.restarts else ""
    text = f"failed{_ago(row, now_s)}: {failure.who} {failure.text}{error}{restarts}"
    return Sentence(text=text, hint=hint or "its log ends with the reason")


def _running(
    row: RunRow,
    stories: Sequence[JournalStory],
    failure: FailureSight | None,
    now_s: float,
    looks: Sequence[RankLook],
) -> Sentence:
    parts = [f"{row.state}{_for(row, now_s)}"]
    workers = [worker for story in stories for worker in story.workers.values()]
    up = sum(worker.state == "running" for worker in workers)
    if workers:
        parts.append(f"{up} of {len(workers)} workers up")
    if row.samples_per_s is not None:
        parts.append(f"{row.samples_per_s:,.0f} samples/s")
    if row.restarts:
        cause = next((each.cause for story in stories for each in reversed(story.generations) if each.cause), "")
        again = [each for each in incidents(stories) if each.again_s is not None]
        if again and not cause:
            cause = f"{again[-1].who} {again[-1].text}"
        parts.append(_times(row.restarts) + (f" ({one_line(cause, 300)})" if cause else ""))
    hint = ""
    waiting = next((story.waiting for story in stories if story.waiting), "")
    quiet_s = now_s - (row.changed_s or now_s)
    waits, silent = ranks.waiting(looks), ranks.silent(looks)
    if waiting:
        parts.append(one_line(waiting, 300))
    elif waits:
        parts.append(f"{named(waits)} {'waits' if len(waits) == 1 else 'wait'}: {one_line(waits[0].waits, 300)}")
        hint = "look at the log and the stack of the one that is waited for"
    elif silent:
        first = silent[0]
        have, since = "has" if len(silent) == 1 else "have", span(now_s - (first.wrote_s or now_s))
        parts.append(f"{named(silent)} {have} written nothing for {since}")
        hint = f"look at the stack of {first.name}; `--hang_timeout` ends a job that hangs"
    elif quiet_s > QUIET_S and row.metric:
        hint = f"its metrics have not changed for {span(quiet_s)}: look which rank is silent"
    if row.state == "restarting" and failure is not None:
        parts.append(f"{failure.who} {failure.text}")
    return Sentence(text=", ".join(parts), hint=hint)


def _times(restarts: int) -> str:
    return "" if not restarts else "restarted once" if restarts == 1 else f"restarted {restarts} times"


def _ago(row: RunRow, now_s: float) -> str:
    return f" {span(now_s - row.ended_s)} ago" if row.ended_s else ""


def _for(row: RunRow, now_s: float) -> str:
    return f" for {span(now_s - row.started_s)}" if row.started_s else ""


def _after(row: RunRow) -> str:
    return f" after {span(row.ended_s - row.started_s)}" if row.ended_s and row.started_s else ""
