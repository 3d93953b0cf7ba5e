"""Every run that this machine knows, as rows, brought up to date by what changed. A program.

    index = RunIndex(["/home/ada/ctr"], submitted=lambda: [...])
    index.refresh()                      in a thread; True if a row is another one
    index.rows, index.version, index.row("ctr-3f"), index.source("ctr-3f")

A run that is over is read again only if its directory changed; one that goes on, whenever its files did. Rows are read while others are made:
they are replaced as a whole, and by one look at a time.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time

from umiak.dashboard import facts, reading
from umiak.dashboard.files import Locks
from umiak.dashboard.rows import UNREADABLE, RunKind, RunRow, RunSource
from umiak.dashboard.search import JOURNAL, METRICS, FoundRun, RunSearch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from umiak.dashboard.rows import SubmissionSight

PUBLISH_EVERY_S = 0.2
"""While many runs are read for the first time, those that were are shown."""
ID_DIGITS = 12
IDLE_SHARE = 200
"""It looks again after this many times the processor time that looking took."""
WAITING_SHARE = 10
"""And after this many times as long as it took: on a busy machine that is mostly waiting, on a slow file system it is the server's work."""


class RunIndex:
    """The rows of all runs. Any thread may read them, and one at a time brings them up to date."""

    def __init__(
        self,
        roots: Iterable[str],
        submitted: Callable[[], Sequence[SubmissionSight]] = tuple,
        *,
        on_change: Callable[[frozenset[str]], None] = lambda _: None,
    ) -> None:
        self.search = RunSearch(roots)
        self._logs = RunSearch(())
        self.version = 0
        self.is_complete = False
        """Whether all runs were read at least once."""
        self.expected = 0
        self.took_s = 0.0
        self.cpu_s = 0.0
        self.problem = ""
        """Why the list of submitted runs can't be had."""
        self._lock = threading.Lock()
        self._submitted = submitted
        self._on_change = on_change
        self._rows: dict[str, RunRow] = {}
        self._found: dict[str, FoundRun] = {}
        self._parts: tuple[object, dict[str, str]] = None, {}
        self._stamps: dict[str, int] = {}
        self._hosts = reading.host_names()

    @property
    def rows(self) -> list[RunRow]:
        return list(self._rows.values())

    def row(self, run_id: str) -> RunRow | None:
        """Of the run, or of the one to which this launcher's directory belongs by now: it got metrics, or was submitted."""
        row = self._rows.get(run_id)
        return row if row is not None else self._rows.get(self._belongs_to(run_id))

    def source(self, run_id: str) -> RunSource | None:
        found = self._found.get(run_id) or self._found.get(self._belongs_to(run_id))
        return found.source if found else None

    def _belongs_to(self, run_id: str) -> str:
        """By the ids that directories had when they were runs of their own. Made only where somebody asks for one."""
        found, parts = self._parts
        if found is not self._found:
            found = self._found
            parts = {id_of(each): whole for whole, run in found.items() for each in run.source.launch_directories}
            self._parts = found, parts
        return parts.get(run_id, "")

    @property
    def pause_s(self) -> float:
        """How long to wait before the next look, so that looking costs next to nothing."""
        return min(30.0, max(1.0, self.cpu_s * IDLE_SHARE, self.took_s * WAITING_SHARE))

    def refresh(self) -> bool:
        """Look what changed. Whether anything did."""
        with self._lock:
            return self._refresh()

    def _refresh(self) -> bool:
        began, used = time.monotonic(), time.thread_time()
        found = self._all()
        locks = Locks()
        self.expected = len(found)
        dirty = [run_id for run_id, run in found.items() if self._is_dirty(run_id, run)]
        gone = [run_id for run_id in self._rows if run_id not in found]
        self._found = found
        changed = self._read(dirty, gone, locks)
        self.is_complete = True
        self.took_s, self.cpu_s = time.monotonic() - began, time.thread_time() - used
        return changed

    def refresh_live(self) -> bool:
        """Look at the runs that are not over, and at no other."""
        with self._lock:
            return self._refresh_live()

    def _refresh_live(self) -> bool:
        live = [run_id for run_id, row in self._rows.items() if row.ended_s is None and row.state != UNREADABLE]
        dirty = [run_id for run_id in live if run_id in self._found and self._is_dirty(run_id, self._found[run_id])]
        return self._read(dirty, [], Locks()) if dirty else False

    def _read(self, dirty: Sequence[str], gone: Sequence[str], locks: Locks) -> bool:
        rows = {run_id: row for run_id, row in self._rows.items() if run_id not in set(gone)} if gone else self._rows
        changed = set(gone)
        new: dict[str, RunRow] = {}
        published = time.monotonic()
        for run_id in sorted(dirty, key=self._newest_first) if len(dirty) > 1 else dirty:
            row = self._row_of(run_id, self._found[run_id].source, locks)
            if row.ended_s is not None:
                self._stamps[run_id] = self._found[run_id].stamp  # from now on its directory tells
            if rows.get(run_id) != row:
                new[run_id] = row
                changed.add(run_id)
            if new and time.monotonic() - published > PUBLISH_EVERY_S and not self.is_complete:
                rows = {**rows, **new}
                self._publish(rows, changed)
                new, changed, published = {}, set(), time.monotonic()
        if changed:
            self._publish({**rows, **new}, changed)
        return bool(changed)

    def _publish(self, rows: dict[str, RunRow], changed: set[str]) -> None:
        self._rows = rows
        self.version += 1
        self._on_change(frozenset(changed))

    def _newest_first(self, run_id: str) -> float:
        source = self._found[run_id].source
        if source.submitted is not None:
            return -source.submitted.submitted_s
        return -_changed_s((source.metrics_directory, *source.launch_directories))

    def _row_of(self, run_id: str, source: RunSource, locks: Locks) -> RunRow:
        try:
            return facts.row_of(reading.facts_of(run_id, source, locks, self._hosts))
        except Exception as error:  # noqa: BLE001 - one strange directory must not hide all other runs
            directory = source.metrics_directory or (source.launch_directories or ("",))[0]
            reason = f"it can't be understood: {type(error).__name__}: {error}"
            return RunRow(
                id=run_id,
                kind=RunKind.LAUNCHED,
                name=os.path.basename(directory) or run_id,
                directory=directory,
                state=UNREADABLE,
                reason=reason,
            )

    # ---- which there are

    def _all(self) -> dict[str, FoundRun]:
        found: dict[str, FoundRun] = {}
        for path, run in self.search.look().items():
            found[id_of(path)] = run
        try:
            submitted = self._submitted()
            self.problem = ""
        except Exception as error:  # noqa: BLE001 - the other runs are shown whatever is wrong with these
            submitted, self.problem = (), str(error)
        for each in submitted:
            directories, stamp = self._logs.launchers(each.log_directory) if each.log_directory else ((), 0)
            for directory in directories:
                found.pop(id_of(directory), None)
            source = RunSource(submitted=each, launch_directories=directories)
            found[each.run_id] = FoundRun(source=source, stamp=hash((stamp, each)))
        return found

    def _is_dirty(self, run_id: str, run: FoundRun) -> bool:
        """Whether its row may be another one than it was. Remembers what it looked at."""
        row = self._rows.get(run_id)
        stamp = run.stamp
        if row is None or row.ended_s is None:
            stamp = hash((stamp, *_sizes(run.source)))
            if row is not None and row.state not in (UNREADABLE, "queued", "starting"):
                stamp = hash((stamp, int(time.monotonic())))  # a lock may be gone although no file has changed
        if row is not None and self._stamps.get(run_id) == stamp:
            return False
        self._stamps[run_id] = stamp
        return True


def id_of(path: str) -> str:
    """The id of a run that has a directory and no other name."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:ID_DIGITS]


def _sizes(source: RunSource) -> list[tuple[int, int]]:
    paths = [os.path.join(each, JOURNAL) for each in source.launch_directories]
    if source.metrics_directory:
        paths.append(os.path.join(source.metrics_directory, METRICS))
    sizes = []
    for path in paths:
        try:
            seen = os.lstat(path)
            sizes.append((seen.st_size, seen.st_mtime_ns))
        except OSError:
            sizes.append((-1, 0))
    return sizes


def _changed_s(directories: Iterable[str]) -> float:
    latest = 0.0
    for each in directories:
        try:
            latest = max(latest, os.lstat(each).st_mtime) if each else latest
        except OSError:
            continue
    return latest
