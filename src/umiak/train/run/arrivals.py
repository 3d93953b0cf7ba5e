"""The data of a pass of online learning: waits until it is there, and fetches the next ahead. An adapter.

    arrivals = Arrivals(online, ("data/train",), peers, ...)
    arrived = arrivals.wait(next_pass)       # arrived.there["data/train"] == ("20260131/0000", "20260131/0030")

With a ``data_donefile`` a pass is waited for until that file is in every one of its directories. Without one nobody waits: what is there is the pass.
The first trainer looks, and tells the others, so that all of them train on the same directories. Everybody may be asked to stop meanwhile.
"""

from __future__ import annotations

import glob
import os
import threading
import time
from collections.abc import Callable, Iterable

import umiak
from umiak.adapters.stores import storage
from umiak.core.decode import decode, encode
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.train.config.days import Pass
from umiak.train.config.values import Online
from umiak.train.reading import finding
from umiak.train.reports.text import waiting
from umiak.train.run.peers import Peers
from umiak.train.run.stage_loop import StopRequested
from umiak.train.run.stop_signal import StopSignal

NAP_S = 0.5
"""Trainers tell one another so often whether they are to stop."""
TALK_EVERY_S = 60.0


@value
class Arrived:
    """What there is of a pass."""

    there: dict[str, tuple[str, ...]]
    """For each path of data, the directories below it that have files."""
    missing: tuple[str, ...] = ()
    """Paths of the others."""
    awaited: tuple[str, ...] = ()
    """Files that say that a directory is complete, and that are not there yet."""

    @property
    def is_empty(self) -> bool:
        return not any(self.there.values())


class Arrivals:
    """Waits for the passes of a run, one after the other."""

    def __init__(
        self,
        online: Online,
        paths: Iterable[str],
        peers: Peers,
        stopping: StopSignal,
        info: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._online = online
        self._paths = tuple(dict.fromkeys(paths))
        self._together = peers
        self._stopping = stopping
        self._info = info
        self._clock = clock
        self._sleep = sleep

    def wait(self, wanted: Pass) -> Arrived:
        """What of a pass is there, when it is. Every trainer calls it; `StopRequested` if one of them was asked to stop."""
        looked = informed = -float("inf")
        seen: Arrived | None = None
        while True:
            now = self._clock()
            if self._together.is_first and now - looked >= self._online.data_sleep_s:
                looked, seen = now, look(self._online, self._paths, wanted)
            told = self._together.tell(
                {"seen": encode(seen) if seen else None, "stop": self._stopping.is_asked}, "data"
            )
            if any(each["stop"] for each in told):
                raise StopRequested
            first = decode(Arrived, told[0]["seen"])
            if not first.awaited:
                return first
            if now - informed >= TALK_EVERY_S:
                informed = now
                self._info(waiting(wanted, first.awaited))
            umiak.progress()
            self._sleep(min(NAP_S, self._online.data_sleep_s))

    def fetch_ahead(self, wanted: Pass) -> threading.Thread:
        """Meanwhile, let the files of a pass come nearer, if it is complete. What goes wrong is told when it is read."""
        thread = threading.Thread(target=self._fetch, args=(wanted,), name="umiak-prefetch", daemon=True)
        thread.start()
        return thread

    def _fetch(self, wanted: Pass) -> None:
        try:
            arrived = look(self._online, self._paths, wanted)
            if arrived.awaited:
                return
            for path, splits in arrived.there.items():
                for split in splits:
                    for name in finding.names_in(finding.below_path(path, split)):
                        _bring(name)
        except (UmiakError, OSError):
            return


def look(online: Online, paths: Iterable[str], wanted: Pass) -> Arrived:
    """What of a pass is there now."""
    there: dict[str, tuple[str, ...]] = {}
    missing: list[str] = []
    awaited: list[str] = []
    for path in paths:
        present = []
        for split in wanted.splits:
            directory = finding.below_path(path, split)
            if online.data_donefile:
                awaited += _awaited(directory, online.data_donefile)
            if awaited:
                continue
            if any(os.path.basename(name) != online.data_donefile for name in finding.names_in(directory)):
                present.append(split)
            else:
                missing.append(directory)
        there[path] = tuple(present)
    return Arrived(there=there, missing=tuple(missing), awaited=tuple(awaited))


def _awaited(directory: str, donefile: str) -> list[str]:
    """The files that are not there yet; of a pattern, in every directory that fits, and one must."""
    if storage.is_url(directory):
        done = finding.below_path(directory, donefile)
        return [] if storage.exists(done) else [done]
    fitting = glob.glob(directory) if glob.has_magic(directory) else [directory]
    names = [os.path.join(each, donefile) for each in fitting or [directory]]
    return [name for name in names if not os.path.exists(name)]


def _bring(name: str) -> None:
    """Files behind URLs are copied to where readers look for them, others are read ahead by the system."""
    if storage.is_url(name):
        storage.fetch(name)
        return
    with open(name, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
