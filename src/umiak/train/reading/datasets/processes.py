"""The processes of one trainer that run a reader class which opens files itself. An adapter.

    pool = DatasetProcesses(kind, count=2)
    first, second = pool.read([{...}, {...}])       what each is told to read
    batch = first.next()

Each process has a thread here that takes its batches out of the pipe, a few ahead. Processes are started at once and waited for when the first batch is: importing what
a reader needs takes seconds.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from umiak.train.reading.batches import StackedBatch
from umiak.train.reading.datasets import stacking
from umiak.train.reading.pool import ReaderClass, ReaderProcesses, WorkerProcess, died, raised

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

AHEAD = 4
"""So many batches of each process may wait."""


class DatasetProcesses(ReaderProcesses):
    """Those that open files themselves."""

    program = "umiak.train.reading.datasets.worker"
    is_alone = True

    def __init__(self, kind: ReaderClass, count: int = 1) -> None:
        self._opened = False
        super().__init__(kind, max(1, count))

    @property
    def count(self) -> int:
        return len(self._workers)

    def read(self, questions: Sequence[JsonObject]) -> list[BatchStream]:
        """One stream of batches for each process, as it is told."""
        if not self._opened:
            self._wait_until_open("imported")
            self._opened = True
        streams = []
        for worker, question in zip(self._workers, questions, strict=False):
            try:
                worker.tell({"do": "read", **question})
            except OSError as error:
                raise died(worker, self.kind, "before it had read anything") from error
            streams.append(BatchStream(worker, self.kind))
        return streams

    def _opening(self) -> JsonObject:
        return {"config": self.kind.settings}


class PlaceProcesses(DatasetProcesses):
    """Those that run readers of PaddleRec 1.8.5, whose fields have places and no names."""

    program = "umiak.train.reading.datasets.place_worker"


class BatchStream:
    """The batches of one process, in order."""

    def __init__(self, worker: WorkerProcess, kind: ReaderClass) -> None:
        self._kind = kind
        self._queue: queue.Queue[StackedBatch | Exception | None] = queue.Queue(AHEAD)
        self._is_over = False
        self._given = 0
        threading.Thread(target=self._take, args=(worker,), daemon=True).start()

    def next(self) -> StackedBatch | None:
        """The next batch, None if there are no more."""
        if self._is_over:
            return None
        item = self._queue.get()
        if isinstance(item, StackedBatch):
            return item
        self._is_over = True
        if item is not None:
            raise item
        return None

    @property
    def is_done(self) -> bool:
        """Whether everything was given out."""
        return self._is_over

    def abandon(self) -> None:
        """Let the thread end; the process must have been ended."""
        self._is_over = True
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()

    def _take(self, worker: WorkerProcess) -> None:
        while not self._is_over:
            try:
                head, blocks = worker.hear()
            except (EOFError, OSError, ValueError) as error:
                if not self._is_over:
                    problem = died(worker, self._kind, f"after {self._given} batches")
                    problem.__cause__ = error
                    self._put(problem)
                return
            if "end" in head:
                self._put(None)
                return
            if "failed" in head:
                told = head["failed"]
                place = told["place"] or {}
                self._put(raised(told, self._kind, place.get("file"), place.get("line")))
                return
            batch = stacking.unpacked(head["tree"], blocks)
            # As with the DataLoader: what is no list of fields is one field.
            arrays = tuple(batch) if isinstance(batch, list) else (batch,)
            self._given += 1
            self._put(StackedBatch(size=head["size"], arrays=arrays))

    def _put(self, item: StackedBatch | Exception | None) -> None:
        while not self._is_over:
            with suppress(queue.Full):
                self._queue.put(item, timeout=1.0)
                return
