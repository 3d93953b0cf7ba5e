"""Which run directories there are below some directories, kept up to date by what changed. An adapter.

    search = RunSearch(["/home/ada/ctr"])
    found = search.look()            {key: FoundRun}, again and again

A directory is listed only if its time of change is another one than before, so that looking again costs one question to the kernel for each
directory. Links are not followed. What the directories are is known by the files in them: `metrics.jsonl` of `umiak train`, `events.jsonl` of
`umiak launch`.
"""

from __future__ import annotations

import os
import stat
import time

from umiak.core.value import value
from umiak.dashboard.rows import RunSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

METRICS, JOURNAL, LOGS = "metrics.jsonl", "events.jsonl", "log"
DEEPEST = 8
MOST_DIRECTORIES = 100_000
LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages", "proc", "sys"})
_FRESH_NS = 2_000_000_000
"""A directory that was changed a moment ago may change again without another time."""


@value
class FoundRun:
    """A run directory, and when it was changed: a number that is another one if it was."""

    source: RunSource
    stamp: int


@value
class _Directory:
    mtime_ns: int
    below: tuple[str, ...]
    has_metrics: bool
    has_journal: bool
    is_fresh: bool


class RunSearch:
    """Remembers what every directory had in it."""

    def __init__(self, roots: Iterable[str]) -> None:
        self.roots = tuple([os.path.abspath(each) for each in roots])
        self.is_cut = False
        """There were more directories than it looks through."""
        self.problems: dict[str, str] = {}
        """Roots that can't be read, with the reason."""
        self._known: dict[str, _Directory] = {}
        self._seen: dict[str, _Directory] = {}

    def look(self) -> dict[str, FoundRun]:
        """All run directories that are there now, by their path."""
        self._seen = {}
        self.is_cut = False
        self.problems = {}
        found: dict[str, FoundRun] = {}
        now_ns = time.time_ns()
        waiting = [(root, 0) for root in reversed(self.roots)]
        while waiting:
            path, depth = waiting.pop()
            if path in self._seen:
                continue
            directory = self._directory(path, now_ns)
            if directory is None:
                if depth == 0:
                    self.problems[path] = "it is not a directory that can be read"
                continue
            if directory.has_metrics or directory.has_journal:
                found[path] = self._run(path, directory, now_ns)
            elif depth < DEEPEST:
                waiting += [(each, depth + 1) for each in reversed(directory.below)]
        self._known, self._seen = self._seen, {}
        return found

    def launchers(self, path: str) -> tuple[tuple[str, ...], int]:
        """The log directories of launchers at a path and just below it, with a stamp. For runs whose logs lie at a known
        path; such a search is used for nothing else."""
        self._seen = {}
        found = self._launchers(path, time.time_ns())
        self._known.update(self._seen)
        return found

    def _run(self, path: str, directory: _Directory, now_ns: int) -> FoundRun:
        logs = os.path.join(path, LOGS) if directory.has_metrics else path
        launchers, stamp = self._launchers(logs, now_ns)
        if directory.has_metrics and directory.has_journal:
            launchers = (path, *launchers)
        source = RunSource(launch_directories=launchers, metrics_directory=path if directory.has_metrics else "")
        return FoundRun(source=source, stamp=hash((directory.mtime_ns, stamp, directory.is_fresh and now_ns)))

    def _launchers(self, path: str, now_ns: int) -> tuple[tuple[str, ...], int]:
        directory = self._directory(path, now_ns)
        if directory is None:
            return (), 0
        found = [path] if directory.has_journal else []
        stamps: list[int] = [directory.mtime_ns, now_ns if directory.is_fresh else 0]
        for each in directory.below:
            inner = self._directory(each, now_ns)
            if inner is not None and inner.has_journal:
                found.append(each)
                stamps += [inner.mtime_ns, now_ns if inner.is_fresh else 0]
        return tuple(found), hash(tuple(stamps))

    def _directory(self, path: str, now_ns: int) -> _Directory | None:
        if path in self._seen:
            return self._seen[path]
        if len(self._seen) >= MOST_DIRECTORIES:
            self.is_cut = True
            return None
        try:
            seen = os.lstat(path)
            if not stat.S_ISDIR(seen.st_mode):
                return None
            known = self._known.get(path)
            is_fresh = abs(now_ns - seen.st_mtime_ns) < _FRESH_NS
            if known is None or known.mtime_ns != seen.st_mtime_ns or known.is_fresh:
                known = _listed(path, seen.st_mtime_ns, is_fresh=is_fresh)
        except OSError:
            return None
        self._seen[path] = known
        return known


def _listed(path: str, mtime_ns: int, *, is_fresh: bool) -> _Directory:
    below = []
    names = set()
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name in (METRICS, JOURNAL):
                names.add(entry.name)
            elif entry.name[0] != "." and entry.name not in LEFT_OUT and entry.is_dir(follow_symlinks=False):
                below.append(entry.path)
    return _Directory(
        mtime_ns=mtime_ns,
        below=tuple(sorted(below)),
        has_metrics=METRICS in names,
        has_journal=JOURNAL in names,
        is_fresh=is_fresh,
    )
