"""Runs on other places: how they are, their nodes, steps and logs, asked through the place's own backend. A program.

    remote = RemoteRuns(RemoteCommands(...), PlaceTurns(), on_news)
    remote.overlaid(sights)             submitted runs with what their places have said of them
    remote.begin()                      ask the places of those that are not over, if what is known is old
    remote.begin_run("ctr-3f")          ask about one whose page is open
    remote.told("ctr-3f", now_s)        at once: what is known of it, how old that is, since when its place says nothing

Each question is a command of umiak with a time limit: `umiak list`, `status` and `logs`. A place is never asked two things at a time, also not by
the page of places, so that one that hangs costs it one process, and the dashboard none of its speed.
"""

from __future__ import annotations

import asyncio
import json
import math
import time

from umiak.core.shown import one_line
from umiak.core.status import State
from umiak.core.value import replace, value
from umiak.dashboard.outside import commands, place_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.outside.given import RemoteCommands
    from umiak.dashboard.rows import SubmissionSight

LIMIT_S = 30.0
PLACE_EVERY_S = 60.0
RUN_EVERY_S = 5.0
MOST_PROGRESS = 10
"""Of so many running runs of a place the list shows step and rate; each costs the place a question."""
MOST_KEPT = 5000
MOST_LINES = 20_000
_STATES = frozenset(each.value for each in State)


class PlaceTurns:
    """Who may ask a place now."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}

    def of(self, place: str) -> asyncio.Lock:
        return self._locks.setdefault(place, asyncio.Lock())


@value
class RemoteState:
    """What a place has said of one run."""

    state: str
    reason: str = ""
    started_s: float | None = None
    ended_s: float | None = None
    nodes: tuple[JsonObject, ...] = ()
    progress: tuple[tuple[str, str], ...] = ()


class _Place:
    """How asking one place goes."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        """When the question was put that has no answer yet."""
        self.problem = ""
        self.done_at = -1e9


class _Run:
    """What is known of one run whose page was open."""

    def __init__(self) -> None:
        self.lines: list[JsonObject] = []
        self.at_s: float | None = None
        self.problem = ""
        self.done_at = -1e9


class RemoteRuns:
    """Of one event loop; any thread may read."""

    def __init__(
        self,
        given: RemoteCommands | None,
        turns: PlaceTurns,
        on_news: Callable[[str], None] = lambda _run: None,
        *,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._given, self._turns, self._on_news, self._limit_s = given, turns, on_news, limit_s
        self._states: dict[str, RemoteState] = {}
        self._places: dict[str, _Place] = {}
        self._runs: dict[str, _Run] = {}
        self._places_of: dict[str, str] = {}
        """Of all runs that are elsewhere."""
        self._unfinished: dict[str, list[str]] = {}
        """By place, the runs of which it is not known how they ended."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # ---- what is known

    def overlaid(self, sights: Iterable[SubmissionSight]) -> list[SubmissionSight]:
        """In the list, what a place has said takes the place of nothing."""
        found: list[SubmissionSight] = []
        places: dict[str, str] = {}
        unfinished: dict[str, list[str]] = {}
        for sight in sights:
            if is_elsewhere(sight):
                places[sight.run_id] = sight.place
                if not sight.state:
                    unfinished.setdefault(sight.place, []).append(sight.run_id)
                told = self._states.get(sight.run_id)
                found.append(_with(sight, told) if told is not None and not sight.state else sight)
            else:
                found.append(sight)
        self._places_of, self._unfinished = places, unfinished
        return found

    def knows(self, run_id: str) -> bool:
        """Whether the run is elsewhere."""
        return run_id in self._places_of and self._given is not None

    def told(self, run_id: str, now_s: float) -> JsonObject:
        """For JSON, without waiting."""
        name = self._places_of.get(run_id, "")
        place, run, state = (
            self._places.get(name) or _Place(),
            self._runs.get(run_id) or _Run(),
            self._states.get(run_id),
        )
        return {
            "place": name,
            "age_s": None if run.at_s is None else now_s - run.at_s,
            "asking_s": None if place.since_s is None else now_s - place.since_s,
            "problem": run.problem or place.problem,
            "nodes": list(state.nodes) if state else [],
            "said": state.state if state else "",
        }

    def lines(self, run_id: str) -> list[JsonObject]:
        """The ends of its logs."""
        run = self._runs.get(run_id)
        return run.lines if run else []

    # ---- asking

    def begin(self) -> None:
        """Ask the places of runs that are not over, if what is known is old."""
        now = time.monotonic()
        for name, runs in self._unfinished.items() if self._given is not None else ():
            place = self._places.setdefault(name, _Place())
            if now - place.done_at > PLACE_EVERY_S:
                self._start(f"place {name}", lambda name=name, runs=runs: self._ask_place(name, runs))  # type: ignore[misc]

    def begin_run(self, run_id: str) -> asyncio.Task[None] | None:
        """Ask about one. None: it was asked a moment ago, or is not elsewhere."""
        if not self.knows(run_id):
            return None
        run = self._runs.setdefault(run_id, _Run())
        if time.monotonic() - run.done_at < RUN_EVERY_S:
            return self._tasks.get(f"run {run_id}")
        return self._start(f"run {run_id}", lambda: self._ask_run(run_id))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, name: str, ask: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(ask())
            task.add_done_callback(lambda _: self._tasks.pop(name, None))
        return task

    async def _ask_place(self, name: str, runs: Sequence[str]) -> None:
        assert self._given is not None
        place = self._places[name]
        try:
            told = await self._question(name, self._given.queue(name))
            if isinstance(told, list):
                self._take(runs, told)
            running = [each for each in runs if (state := self._states.get(each)) and state.state == "running"]
            for run_id in running[-MOST_PROGRESS:] if not place.problem else ():
                self._take_lines(run_id, await self._question(name, self._given.logs(run_id, 20)))
                self._on_news(run_id)
        finally:
            place.done_at = time.monotonic()

    async def _ask_run(self, run_id: str) -> None:
        assert self._given is not None
        name, run = self._places_of[run_id], self._runs[run_id]
        try:
            told = await self._question(name, self._given.status(run_id))
            run.problem = self._places[name].problem
            if isinstance(told, dict) and told.get("state"):
                self._take([run_id], [{**told, "run": run_id}])
            if not run.problem:
                lines = await self._question(name, self._given.logs(run_id, 300))
                run.problem = self._places[name].problem
                if lines is not None:
                    run.lines = self._take_lines(run_id, lines)
            if not run.problem:
                run.at_s = time.time()
        finally:
            run.done_at = time.monotonic()
            while len(self._runs) > MOST_KEPT:
                del self._runs[next(iter(self._runs))]
        self._on_news(run_id)

    async def _question(self, name: str, argv: Sequence[str]) -> object:
        """What a command says as JSON: one value, or one for each line. None, and the place's problem, if it says nothing of use."""
        place = self._places.setdefault(name, _Place())
        place.since_s = place.since_s or time.time()
        problem = ""
        try:
            async with self._turns.of(name):
                return _parsed(await commands.output_of(argv, self._limit_s))
        except TimeoutError:
            problem = f"it has not answered within {self._limit_s:g} s"
        except (place_view.NoAnswer, commands.TooMuch) as error:
            problem = str(error)
        except OSError as error:
            problem = f"it can't be asked: {error.strerror}"
        finally:
            place.since_s, place.problem = None, problem
        return None

    def _take(self, runs: Sequence[str], told: Sequence[object]) -> None:
        wanted = set(runs)
        for each in told:
            if not isinstance(each, dict) or each.get("run") not in wanted or each.get("state") not in _STATES:
                continue
            known = self._states.get(each["run"])
            nodes = each.get("nodes")
            self._states[each["run"]] = RemoteState(
                state=each["state"],
                reason=one_line(str(each.get("reason") or ""), 1000),
                started_s=_number(each.get("started_s")),
                ended_s=_number(each.get("ended_s")),
                nodes=tuple(nodes) if isinstance(nodes, list) else known.nodes if known else (),
                progress=known.progress if known else (),
            )
        while len(self._states) > MOST_KEPT:
            del self._states[next(iter(self._states))]

    def _take_lines(self, run_id: str, told: object) -> list[JsonObject]:
        """Lines of `umiak logs --json`; the last one about progress is the run's."""
        rows = told if isinstance(told, list) else [told]
        lines = [each for each in rows if isinstance(each, dict) and isinstance(each.get("text"), str)][-MOST_LINES:]
        from umiak.paddlejob import progress  # for those who have such runs

        firsts = [each["text"] for each in lines if not each.get("rank")]
        found = progress.read("\n".join(firsts[-300:]))
        known = self._states.get(run_id)
        if found and known is not None:
            self._states[run_id] = replace(known, progress=found)
        return lines


def is_elsewhere(sight: SubmissionSight) -> bool:
    """Whether a run's files are on another machine."""
    return not sight.log_directory and bool(sight.handle)


def _with(sight: SubmissionSight, told: RemoteState) -> SubmissionSight:
    found = dict(told.progress)
    metric = next((name for name in ("auc", "loss") if _number_of(found.get(name)) is not None), "")
    up = [each for each in told.nodes if isinstance(each, dict) and each.get("state") == "running"]
    return replace(
        sight,
        state=told.state,
        reason=told.reason,
        started_s=told.started_s or sight.started_s,
        ended_s=told.ended_s,
        epoch=_epoch_of(found.get("epoch")),
        step=_whole_of(found.get("step") or found.get("batch")),
        samples_per_s=_number_of(found.get("samplesPerSecond")),
        metric=f"train/{metric}" if metric else "",
        metric_value=_number_of(found.get(metric)) if metric else None,
        nodes_up=len(up) if told.nodes else None,
        nodes_expected=len(told.nodes) or None,
    )


def _parsed(output: bytes) -> object:
    """NoAnswer if a command says nothing but what went wrong."""
    text = output.decode(errors="replace").strip()
    if not text:
        return []
    try:
        if text.startswith("[") or "\n" not in text:
            told = json.loads(text)
        else:
            told = [json.loads(line) for line in text.splitlines()]
    except (ValueError, RecursionError):
        raise place_view.NoAnswer("what it said can't be understood") from None
    rows = told if isinstance(told, list) else [told]
    if rows and all(isinstance(each, dict) and "problems" in each for each in rows):
        raise place_view.NoAnswer(place_view.problem_in(rows[0]) or "it could not be asked")
    return told


def _number(item: object) -> float | None:
    return float(item) if isinstance(item, (int, float)) and not isinstance(item, bool) else None


def _number_of(text: str | None) -> float | None:
    try:
        found = float(text) if text else None
    except ValueError:
        return None
    return found if found is not None and math.isfinite(found) else None


def _whole_of(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 16 else None


def _epoch_of(text: str | None) -> int | None:
    """People count from 1."""
    number = _whole_of((text or "").partition("/")[0])
    return None if number is None else max(0, number - 1)
