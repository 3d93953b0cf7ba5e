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
from typing import Any

from umiak.core.problem import Problem
from umiak.train.reading.batches import StackedBatch
from umiak.train.reading.datasets import stacking
from umiak.train.reading.pool import ReaderClass, UserCodeError, WorkerProcess, died

AHEAD = 4
"""So many batches of each process may wait."""
PROGRAM = "umiak.train.reading.datasets.worker"


class DatasetProcesses:
    """Some processes with one reader class. They can be used again when everything was read to its end."""

    def __init__(self, kind: ReaderClass, count: int = 1) -> None:
        self.kind = kind
        self.warnings: list[Problem] = []
        """What is odd about the class, as far as it is known by now."""
        self._workers: list[WorkerProcess] = []
        self._opened = False
        try:
            for number in range(max(1, count)):
                worker = WorkerProcess(number, self.warnings, PROGRAM, is_alone=True)
                self._workers.append(worker)
                with suppress(OSError):  # it has died already; that is told when its answer is waited for
                    worker.tell({"do": "open", "file": kind.file, "class": kind.name, "config": kind.settings})
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple([worker.process.pid for worker in self._workers])

    @property
    def is_open(self) -> bool:
        return bool(self._workers)

    @property
    def count(self) -> int:
        return len(self._workers)

    def read(self, questions: Sequence[dict[str, Any]]) -> list[BatchStream]:
        """One stream of batches for each process, as it is told."""
        self._open()
        streams = []
        for worker, question in zip(self._workers, questions, strict=False):
            try:
                worker.tell({"do": "read", **question})
            except OSError as error:
                raise died(worker, self.kind, "before it had read anything") from error
            streams.append(BatchStream(worker, self.kind))
        return streams

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _open(self) -> None:
        if self._opened:
            return
        for worker in self._workers:
            try:
                head, _ = worker.hear()
            except (EOFError, OSError) as error:
                raise died(worker, self.kind, "while its class was being imported") from error
            if "failed" in head:
                told = head["failed"]
                problem = Problem(code="UM-DATA-010", what=told["what"], why=told["trace"] or None, hint=told["hint"])
                raise UserCodeError(problem, trace=told["trace"])
        self._opened = True


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
                self._put(self._failed(head["failed"]))
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

    def _failed(self, told: dict[str, Any]) -> UserCodeError:
        place = told["place"] or {}
        file, line = place.get("file"), place.get("line")
        problem = Problem(
            code="UM-DATA-011",
            what=f"{told['what']} (class {self._kind.name} of {self._kind.file})",
            why=told["trace"] or None,
            hint=told["hint"],
            where=(f"{file}:{line}" if line else file) if file else self._kind.file,
        )
        return UserCodeError(problem, file=file, line=line, trace=told["trace"])
