"""Places where jobs run: each is asked by a process of its own, which is ended when it takes too long, and never twice at a time. A program.

    places = PlaceWatch(PlaceCommands(known=..., questions=...), on_news)
    places.data(now_s)           at once: what is known, and since when a place has said nothing
    places.ask_stale()           begin to ask those of which it is old

The processes are commands of umiak, so that a place is seen as `umiak doctor --on` and `umiak list --on` see it, and that neither a place that hangs nor
an SDK that takes its time is ever in the way of a page.
"""

from __future__ import annotations

import asyncio
import json
import time

from umiak.dashboard.outside import commands, place_view
from umiak.dashboard.outside.remote_runs import PlaceTurns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.outside.given import PlaceCommands

LIMIT_S = 30.0
STALE_S = 60.0
AT_ONCE = 4
_READERS = {"doctor": place_view.verdict_of, "queue": place_view.queue_of}


class _Answer:
    """What a place has said to one question."""

    def __init__(self) -> None:
        self.data: JsonObject | None = None
        self.problem = ""
        self.at_s: float | None = None
        self.took_s = 0.0

    def plain(self, now_s: float) -> JsonObject:
        age_s = None if self.at_s is None else now_s - self.at_s
        return {"answer": self.data, "problem": self.problem, "age_s": age_s, "took_s": round(self.took_s, 3)}


class _PlaceState:
    def __init__(self) -> None:
        self.answers = {name: _Answer() for name in _READERS}
        self.since_s: float | None = None
        """When the question was put that has no answer yet."""
        self.done_s: float | None = None


class PlaceWatch:
    """Of one event loop."""

    def __init__(
        self,
        given: PlaceCommands | None,
        on_news: Callable[[], None] = lambda: None,
        *,
        turns: PlaceTurns | None = None,
        limit_s: float = LIMIT_S,
        stale_s: float = STALE_S,
    ) -> None:
        self._turns = turns or PlaceTurns()
        self._commands, self._on_news = given, on_news
        self._limit_s, self._stale_s = limit_s, stale_s
        self._asked: dict[str, _PlaceState] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def data(self, now_s: float) -> JsonObject:
        """For JSON, without waiting for any place."""
        if self._commands is None:
            return {"places": [], "problems": [], "now_s": now_s}
        known, problems = self._commands.known()
        rows = []
        for each in known:
            asked = self._asked.setdefault(each.name, _PlaceState())
            row = {"name": each.name, "backend": each.backend, "source": each.source, "is_default": each.is_default}
            row |= {name: answer.plain(now_s) for name, answer in asked.answers.items()}
            row["asking_s"] = None if asked.since_s is None else now_s - asked.since_s
            row["limit_s"] = self._limit_s
            rows.append(row)
        for gone in set(self._asked) - {each.name for each in known}:
            del self._asked[gone]
        return {"places": rows, "problems": list(problems), "now_s": now_s}

    def ask_stale(self) -> None:
        """Begin to ask the places of which nothing is known, or what is known is old."""
        now_s = time.time()
        for name, asked in self._asked.items():
            is_old = asked.done_s is None or now_s - asked.done_s > self._stale_s
            if is_old and name not in self._tasks:
                task = self._tasks[name] = asyncio.create_task(self._ask(name, asked))
                task.add_done_callback(lambda _, name=name: self._tasks.pop(name, None))  # type: ignore[misc]

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, name: str, asked: _PlaceState) -> None:
        assert self._commands is not None
        async with self._room:
            asked.since_s = time.time()
            self._on_news()
            for question, read in _READERS.items():
                answer, began = asked.answers[question], time.monotonic()
                try:
                    async with self._turns.of(name):
                        said = await commands.output_of(self._commands.questions[question](name), self._limit_s)
                    answer.data, answer.problem = read(json.loads(said)), ""
                except TimeoutError:
                    answer.problem = f"it has not answered within {self._limit_s:g} s"
                except (place_view.NoAnswer, commands.TooMuch) as error:
                    answer.problem = str(error)
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    answer.problem = "what it said can't be understood"
                except OSError as error:
                    answer.problem = f"it can't be asked: {error.strerror}"
                answer.at_s, answer.took_s = time.time(), time.monotonic() - began
                self._on_news()
            asked.since_s, asked.done_s = None, time.time()
        self._on_news()
