"""One run in full: its journals and curves, read on from where they were, as data for JSON. An adapter.

    details = RunDetails()
    watched = details.of(run_id, source)
    watched.update()                         reads what is new; the points that came, for those who watch
    watched.data(row, now_s), watched.curves_data()

What was read of a run is kept for the runs that were looked at last, and only for them.
"""

from __future__ import annotations

import os
import threading

from umiak.dashboard import files, sentences
from umiak.dashboard.files import Locks
from umiak.dashboard.journal_story import JournalStory
from umiak.dashboard.rows import RunSource, as_data
from umiak.dashboard.search import JOURNAL, METRICS
from umiak.dashboard.trained import configs
from umiak.dashboard.trained.curves import Curves
from umiak.dashboard.workers import checkpoints, processes, ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.rows import RunRow
    from umiak.dashboard.run_files import ListedFile
    from umiak.dashboard.trained.curves import CurvePoint
    from umiak.dashboard.workers.ranks import RankLook

MOST_WATCHED = 32
SAVED = ("saved", "served", "published")
"""Events of a checkpoint, of an inference model, of a model that was published."""
MOST_SAVED = 50
WITH_SERVERS = ("ps", "ps-heter")
MOST_PIECES = 64
"""Of one file at a time; a longer one is read on with the next look."""
MOST_NEW_POINTS = 500
"""With more than that, a page asks for the whole curves, which are thinned."""


class _Journal:
    def __init__(self, path: str) -> None:
        self.path, self.offset, self.inode = path, 0, 0
        self.story = JournalStory()

    def update(self) -> bool:
        changed = False
        for _ in range(MOST_PIECES):
            try:
                grown = files.growth(self.path, self.offset, self.inode)
            except OSError:
                return changed
            if grown.is_new_file:
                self.story = JournalStory()
            self.offset, self.inode = grown.offset, grown.inode
            for line in grown.lines:
                self.story.feed(line)
            changed = changed or bool(grown.lines)
            if not grown.has_more:
                break
        return changed


class WatchedRun:
    """One run that somebody looks at."""

    def __init__(self, source: RunSource) -> None:
        self.source = source
        self.lock = threading.Lock()
        self.version = 0
        """Another number whenever the journals have grown."""
        self.curves = Curves()
        self.position = ""
        """How far the curves are: a word that is another one with every change."""
        self._metrics = os.path.join(source.metrics_directory, METRICS) if source.metrics_directory else ""
        self._offset = self._inode = self._restarts = 0
        self._journals = {each: _Journal(os.path.join(each, JOURNAL)) for each in source.launch_directories}

    def config(self) -> JsonObject | None:
        """What it was trained with, if it keeps that. Reads a file."""
        found = configs.config_of(self.source.metrics_directory) if self.source.metrics_directory else None
        return None if found is None else found.data

    def settings(self) -> JsonObject:
        """Of its launchers, and of its config."""
        config = self.config()
        told = {name: each for story in self.stories for name, each in story.settings.items()}
        return {**told, **(config["settings"] if config else {})}

    @property
    def stories(self) -> Sequence[JournalStory]:
        return [each.story for each in self._journals.values()]

    def adopt(self, source: RunSource) -> None:
        """The run has other directories now: a launcher came, or its metrics have begun."""
        self.source = source
        if source.metrics_directory and not self._metrics:
            self._metrics = os.path.join(source.metrics_directory, METRICS)
        self._journals = {
            each: self._journals.get(each) or _Journal(os.path.join(each, JOURNAL))
            for each in source.launch_directories
        }

    def update(self) -> JsonObject | None:
        """What is new of the curves, if something is."""
        with self.lock:
            grown = [journal.update() for journal in self._journals.values()]
            self.version += any(grown)
            return self._update_curves() if self._metrics else None

    def _update_curves(self) -> JsonObject | None:
        before, restarts = self.position, self._restarts
        points: list[CurvePoint] = []
        events = len(self.curves.events)
        for _ in range(MOST_PIECES):
            try:
                grown = files.growth(self._metrics, self._offset, self._inode)
            except OSError:
                return None
            if grown.is_new_file:
                self.curves = Curves()
                self._restarts += 1
                points, events = [], 0
            self._offset, self._inode = grown.offset, grown.inode
            points += self.curves.feed(grown.lines)
            if not grown.has_more:
                break
        self.position = f"{self._inode}.{self._restarts}.{self._offset}"
        if self.position == before:
            return None
        data: JsonObject = {"from": before, "to": self.position}
        if restarts == self._restarts and len(points) <= MOST_NEW_POINTS:
            data["points"] = [point.row for point in points]
            data["events"] = self.curves.events[events:]
        return data

    def curves_data(self) -> JsonObject:
        """Everything that a page needs to draw, and the position that it is then at."""
        with self.lock:
            return {
                "position": self.position,
                "curves": self.curves.as_data(),
                "events": self.curves.events,
                "latest": self.curves.latest,
                "bad_lines": self.curves.bad_lines,
                "left_out": self.curves.left_out,
            }

    def looks(
        self, files: Iterable[ListedFile], waits: Mapping[int, str], now_s: float, *, is_over: bool = False
    ) -> list[tuple[str, list[RankLook]]]:
        """What the workers of each launcher do now. Reads /proc."""
        locks, files = Locks(), list(files)
        found = []
        with self.lock:
            for name, (directory, journal) in zip(self._names(), self._journals.items(), strict=True):
                seen = processes.workers_of(directory, locks)
                workers = journal.story.workers.values()
                found.append((name, ranks.rank_looks(workers, name, files, seen, waits, now_s, is_over=is_over)))
        return found

    @property
    def has_servers(self) -> bool:
        """Whether its launchers were asked for parameter servers."""
        return any(story.mode in WITH_SERVERS for story in self.stories)

    def pids(self) -> list[int]:
        """Its workers on this machine, servers first. Reads /proc."""
        locks = Locks()
        found = [each for directory in self._journals for each in processes.workers_of(directory, locks).items()]
        return [seen.pid for key, seen in sorted(found, key=lambda each: not each[0].startswith("server"))]

    def saved(self) -> JsonObject:
        """What of it would be left if everything was killed now."""
        with self.lock:
            events = [each for each in self.curves.events if each.get("event") == "saved"]
            directories = list(self._journals)
        snapshots = [found for each in directories for found in checkpoints.snapshots(each)]
        return {"checkpoint": events[-1] if events else None, "snapshots": snapshots}

    def data(self, row: RunRow, now_s: float, looks: Sequence[tuple[str, list[RankLook]]] = ()) -> JsonObject:
        """The page of a run, without curves and files."""
        with self.lock:
            stories = self.stories
            said = sentences.sentence_of(row, stories, now_s, [look for _, each in looks for look in each])
            first = sentences.first_failure(stories)
            return {
                "row": as_data(row),
                "sentence": said.text,
                "hint": said.hint,
                "handle": self.source.submitted.handle if self.source.submitted else "",
                "generations": _generations(stories),
                "workers": [{"launcher": name, "workers": [look.data for look in each]} for name, each in looks],
                "failures": [{**_plain(each), "who": each.who} for each in sentences.incidents(stories)],
                "first_failure": None if first is None else {**_plain(first), "who": first.who},
                "config": self.config(),
                "settings": {name: each for story in stories for name, each in story.settings.items()},
                "shares": self.curves.latest.get("shares") or {},
                "latest": self.curves.latest,
                "saved": [each for each in self.curves.events if each.get("event") in SAVED][-MOST_SAVED:],
                "has_servers": any(story.mode in WITH_SERVERS for story in stories),
                "bad_lines": sum(story.bad_lines for story in stories) + self.curves.bad_lines,
            }

    def _names(self) -> list[str]:
        many = len(self._journals) > 1
        return [os.path.basename(each) if many else "" for each in self._journals]


class RunDetails:
    """The runs that were looked at last."""

    def __init__(self) -> None:
        self._watched: dict[str, WatchedRun] = {}
        self._lock = threading.Lock()

    def of(self, run_id: str, source: RunSource) -> WatchedRun:
        with self._lock:
            watched = self._watched.pop(run_id, None) or WatchedRun(source)
            if watched.source != source:
                watched.adopt(source)
            self._watched[run_id] = watched
            while len(self._watched) > MOST_WATCHED:
                del self._watched[next(iter(self._watched))]
            return watched


def _generations(stories: Sequence[JournalStory]) -> list[JsonObject]:
    """Of the launcher that saw most of them: all saw the same."""
    longest = max((story.generations for story in stories), key=len, default=[])
    return [_plain(each) for each in longest]


def _plain(item: object) -> JsonObject:
    from umiak.core.value import fields

    return {name: getattr(item, name) for name in fields(item)}
