"""Reader processes of one trainer: they run a user's reader class, and results come in the order of the lines. An adapter.

Each process has a thread here that hands it text and waits for what it makes of it. A process that dies, is killed, or whose code
raises gives an error in the place of its result, so that nobody waits for it; what comes before it in the data is still given out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import umiak
from umiak.adapters import own_modules
from umiak.contracts import inherited
from umiak.core.decode import decode, encode
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import value
from umiak.data.parts import Part
from umiak.train.reading import exchange, hash_calls, lines
from umiak.train.reading.columns import Column
from umiak.train.reading.lines import Chunk

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray

AHEAD = 3
"""For each process, so many results may wait for being used."""


@value
class ReaderClass:
    """A class of the user's."""

    file: str
    name: str
    config: str | None = None
    """The path of the config: the constructor of old reader classes gets it."""
    settings: JsonObject = {}
    """What ``envs.get_global_env`` knows: plain data."""


@value
class Result:
    """The samples of some lines."""

    part: int
    places: NDArray[np.int64]
    """For each sample where its line begins, and the how manieth of the line it is, from 1."""
    arrays: tuple[tuple[AnyArray, NDArray[np.int64] | None], ...]
    """For each column its values, and how many each sample has, if that is not always the same."""


class UserCodeError(UmiakError):
    """A reader class did not work. Where a line is to blame, ``file`` and ``line`` say which."""

    def __init__(self, problem: Problem, *, file: str | None = None, line: int | None = None, trace: str = "") -> None:
        super().__init__(problem, exit_status=Exit.JOB_FAILED if file else Exit.BAD_REQUEST)
        self.file = file
        self.line = line
        self.trace = trace


class ReaderProcesses:
    """Some processes with one reader class. They can be used again for another epoch or part when the last one was read to its end."""

    program = "umiak.train.reading.worker"
    is_alone = False

    def __init__(self, kind: ReaderClass, count: int) -> None:
        self.kind = kind
        self.warnings: list[Problem] = []
        """What is odd about the class, as far as it is known by now."""
        self._workers: list[WorkerProcess] = []
        try:
            for number in range(count):
                self._workers.append(WorkerProcess(number, self.warnings, self.program, is_alone=self.is_alone))
            for worker in self._workers:
                with suppress(OSError):  # it has died already; that is told when its answer is waited for
                    worker.tell({"do": "open", "file": kind.file, "class": kind.name, **self._opening()})
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple([worker.process.pid for worker in self._workers])

    @property
    def is_open(self) -> bool:
        return bool(self._workers)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _opening(self) -> JsonObject:
        """What a process is told beside the class."""
        return {"config": self.kind.config, "settings": self.kind.settings}

    def _wait_until_open(self, meanwhile: str) -> None:
        """UmiakError if the class can't be used. ``meanwhile``: what is done until then, for one that dies."""
        for worker in self._workers:
            try:
                head, _ = worker.hear()
            except (EOFError, OSError) as error:
                raise died(worker, self.kind, f"while its class was being {meanwhile}") from error
            if "failed" in head:
                told = head["failed"]
                problem = Problem(code="UM-DATA-010", what=told["what"], why=told["trace"] or None, hint=told["hint"])
                raise UserCodeError(problem, trace=told["trace"])


class Pool(ReaderProcesses):
    """Those that are handed lines."""

    def __init__(self, kind: ReaderClass, processes: int = 0) -> None:
        self.known: dict[str, tuple[Column, ...]] = {}
        """What the first sample of some data said, by the digest of its files."""
        super().__init__(kind, processes or len(os.sched_getaffinity(0)))
        try:
            self._wait_until_open("made")
        except BaseException:
            self.close()
            raise

    def columns(self, given: tuple[Part, ...]) -> tuple[Column, ...]:
        """What the first sample of these parts says about all; nothing if they have none."""
        for chunk in lines.chunks(given, chunk_bytes=4096):
            head, _ = self._ask(self._workers[0], {"do": "columns", "offset": chunk.offset}, chunk, given)
            if head["columns"]:
                return tuple(decode(Column, each) for each in head["columns"])
        return ()

    def read(
        self, chunks: Iterator[Chunk], given: tuple[Part, ...], columns: tuple[Column, ...]
    ) -> Generator[Result, None, None]:
        """Results in order. Closing this iterator, or the pool, ends it."""
        for worker in self._workers:
            self._ask(worker, {"do": "begin", "columns": [encode(each) for each in columns]}, None, given)
        queue = _Queue(chunks, most=AHEAD * len(self._workers))
        threads = [
            threading.Thread(target=self._serve, args=(worker, queue, given, columns), daemon=True)
            for worker in self._workers
        ]
        for thread in threads:
            thread.start()
        try:
            yield from queue.results()
        finally:
            queue.stop()

    def _serve(
        self, worker: WorkerProcess, queue: _Queue, given: tuple[Part, ...], columns: tuple[Column, ...]
    ) -> None:
        """The thread of one process."""
        while True:
            number, chunk = queue.take()
            if chunk is None:
                return
            try:
                question = {"do": "read", "offset": chunk.offset, "skip": chunk.skip}
                head, blocks = self._ask(worker, question, chunk, given)
                queue.put(number, _result(chunk, head["samples"], blocks, columns))
            except UmiakError as error:
                queue.put(number, error)
                return
            except Exception as error:  # noqa: BLE001 - the consumer must hear of it, whatever it is
                queue.put(number, error)
                return

    def _ask(
        self, worker: WorkerProcess, question: JsonObject, chunk: Chunk | None, given: tuple[Part, ...]
    ) -> tuple[JsonObject, list[memoryview]]:
        try:
            worker.tell(question, [chunk.text] if chunk else [])
            head, blocks = worker.hear()
        except (EOFError, OSError, ValueError) as error:
            where = given[chunk.part].path if chunk else None
            line = lines.line_number(where, chunk.offset) if chunk and where else 1
            when = f"while it read {where}, somewhere after line {line}" if where else "before it had read anything"
            raise died(worker, self.kind, when) from error
        if "failed" in head:
            assert chunk
            raise self._failed(head["failed"], given[chunk.part].path)
        return head, blocks

    def _failed(self, told: JsonObject, path: str) -> UserCodeError:
        return raised(told, self.kind, path, lines.line_number(path, told["offset"]))


class WorkerProcess:
    """One process and its pipes."""

    def __init__(
        self,
        number: int,
        warnings: list[Problem],
        program: str = "umiak.train.reading.worker",
        *,
        is_alone: bool = False,
    ) -> None:
        """``warnings``: of all processes with this class, which one is enough for. ``is_alone``: its code does not learn which of several trainers this is, and so does not divide what is divided already."""
        self.number = number
        self._warnings = warnings
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        root = str(Path(umiak.__file__).parents[1])
        beside = os.environ.get("PYTHONPATH")
        environ = {
            # Parsing lines needs no threads of numpy's, and there is one process for each core.
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            # Sets are gone through in the same order by the readers of all trainers.
            "PYTHONHASHSEED": "0",
            **(inherited.alone(os.environ) if is_alone else os.environ),
            "PYTHONPATH": f"{root}{os.pathsep}{beside}" if beside else root,
        }
        argv = [sys.executable, *own_modules.start_words(program), str(os.getpid()), str(theirs_in), str(theirs_out)]
        try:
            self.process = subprocess.Popen(
                argv, env=environ, stdin=subprocess.DEVNULL, pass_fds=(theirs_in, theirs_out)
            )
        except BaseException:
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._out = exchange.SharedPipe(ours_out, "wb")
        self._in = exchange.SharedPipe(ours_in, "rb")

    def tell(self, head: JsonObject, blocks: Iterable[bytes] = ()) -> None:
        with self._out.in_use() as pipe:
            exchange.send(pipe, head, list(blocks))

    def hear(self) -> tuple[JsonObject, list[memoryview]]:
        with self._in.in_use() as pipe:
            head, blocks = exchange.receive(pipe)
        if hash_calls.KEY in head and not self._warnings:
            self._warnings.append(hash_calls.problem(head[hash_calls.KEY]))
        return head, blocks

    def end(self) -> None:
        """Also while another thread waits for its answer, which learns that there is none."""
        self.process.kill()
        self.process.wait()
        self._out.close()
        self._in.close()


class _Queue:
    """Chunks to the processes that are free, results in order."""

    def __init__(self, chunks: Iterator[Chunk], most: int) -> None:
        self._chunks = chunks
        self._most = most
        self._changed = threading.Condition()
        self._taken = 0
        self._used = 0
        self._ready: dict[int, Result | Exception] = {}
        self._end: int | None = None
        """How many results there will be, once that is known."""

    def take(self) -> tuple[int, Chunk | None]:
        """The next chunk; waits while too much is ahead of the consumer."""
        with self._changed:
            self._changed.wait_for(lambda: self._end is not None or self._taken - self._used < self._most)
            if self._end is not None:
                return 0, None
            number = self._taken
            try:
                chunk = next(self._chunks, None)
            except Exception as error:  # noqa: BLE001 - an unreadable file is told where its lines would have come
                self._ready[number] = error
                chunk, number = None, number + 1
            if chunk is None:
                self._end = number
                self._changed.notify_all()
            else:
                self._taken += 1
            return number, chunk

    def put(self, number: int, result: Result | Exception) -> None:
        with self._changed:
            self._ready[number] = result
            if isinstance(result, Exception) and (self._end is None or self._end > number + 1):
                self._end = number + 1
            self._changed.notify_all()

    def results(self) -> Iterator[Result]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._used in self._ready or self._used == self._end)
                if self._used not in self._ready:
                    return
                result = self._ready.pop(self._used)
                self._used += 1
                self._changed.notify_all()
            if isinstance(result, Exception):
                raise result
            yield result

    def stop(self) -> None:
        with self._changed:
            self._end = self._used
            self._changed.notify_all()


def _result(chunk: Chunk, samples: int, blocks: list[memoryview], columns: tuple[Column, ...]) -> Result:
    left = iter(blocks)
    places = np.frombuffer(next(left), np.int64).reshape(samples, 2)
    arrays: list[tuple[AnyArray, NDArray[np.int64] | None]] = []
    for column in columns:
        if column.width is None:
            arrays.append((np.frombuffer(next(left), np.int64), np.frombuffer(next(left), np.int64)))
        else:
            arrays.append((np.frombuffer(next(left), np.float32).reshape(samples, column.width), None))
    return Result(part=chunk.part, places=places, arrays=tuple(arrays))


def died(worker: WorkerProcess, kind: ReaderClass, when: str) -> UmiakError:
    """What is told of a reader process that has ended by itself."""
    try:
        status = worker.process.wait(10)
    except subprocess.TimeoutExpired:
        how = "closed its pipe"
    else:
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    hint = (
        "was there enough memory? SIGKILL is what the kernel sends when there is not"
        if how.endswith("SIGKILL")
        else None
    )
    return UmiakError.of(
        "UM-DATA-012",
        f"a reader process (class {kind.name} of {kind.file}) {how} {when}",
        hint=hint,
        exit_status=Exit.JOB_FAILED,
    )


def raised(told: JsonObject, kind: ReaderClass, file: str | None, line: int | None) -> UserCodeError:
    """What is told of a class that has raised; with the place in the data, as far as it is known."""
    problem = Problem(
        code="UM-DATA-011",
        what=f"{told['what']} (class {kind.name} of {kind.file})",
        why=told["trace"] or None,
        hint=told["hint"],
        where=(f"{file}:{line}" if line else file) if file else kind.file,
    )
    return UserCodeError(problem, file=file, line=line, trace=told["trace"])
