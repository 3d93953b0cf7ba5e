"""Predicts a model's answers for files of data: reads, computes and writes part by part. A program.

    predict(plan, options) -> Predicted(rows=..., seconds=...)

A part is some batches, the same as in an evaluation of the same config, so that answers are the same to the bit. Alone, one process reads and computes. With several,
this one only reads, to know where parts begin, and hands each place to a worker that is idle, which reads the part again: nothing is sent but a line of JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.adapters import own_modules
from umiak.adapters.stores import storage
from umiak.core.problem import Exit, UmiakError
from umiak.core.value import replace, value
from umiak.fluid.installing import install as install_fluid
from umiak.ps import environment, strategies
from umiak.ps.clients.local import LocalClient
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.train import reading
from umiak.train.checkpoints import feature_locks, runs
from umiak.train.checkpoints.mirror import mirrored
from umiak.train.engines import choice
from umiak.train.plan.plan import visible_settings
from umiak.train.predicting import output_lock, rows
from umiak.train.predicting.parts import Made, PartDone, Parts
from umiak.train.reading import base
from umiak.train.reports.text import duration
from umiak.train.run.context import Settings
from umiak.train.run.evaluator import loaded
from umiak.train.run.peers import Peers
from umiak.train.run.stage_data import StageData
from umiak.train.run.stopwatch import Stopwatch

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.train.engines.engine import Engine
    from umiak.train.plan.plan import Plan
    from umiak.train.reading.samples import Samples

PART_ROWS = 50_000
"""About so many rows are in a part: what a process that is killed has to do again."""
TELL_EVERY_S = 2.0


@value
class PredictOptions:
    """How it is done, besides what the plan says."""

    out: str
    keep: tuple[str, ...] = ()
    workers: int = 1
    resume: bool = False
    part_rows: int = PART_ROWS
    worker_words: tuple[str, ...] = ()
    """What a worker's command line has behind the program: the same model and data."""


@value
class Predicted:
    """What came of it."""

    out: str
    rows: int
    seconds: float
    parts: int
    resumed: int
    """Parts that were there already."""
    checkpoint: str


class Predictor:
    """A model and its data, and the parts of one output."""

    def __init__(self, plan: Plan, options: PredictOptions, closing: ExitStack) -> None:
        self.plan, self.options = plan, options
        (run,) = plan.runs
        run, mirrors = mirrored(run)
        mirrors.fetch()
        self.run = run
        install_fluid()
        (stage,) = run.stages
        choice.refuse_old([stage.model])
        self.settings = Settings(
            config=plan.config,
            hyper_parameters=plan.hyper_parameters,
            written=plan.written,
            table_parameters=plan.table_parameters,
            embedding_tables=plan.embedding_tables,
            learning=plan.learning,
            objective=plan.objective,
        )
        assert run.runner.init_model_path is not None
        self.checkpoint, self.newest = runs.model_to_use(run.runner.init_model_path)
        self._watch = Stopwatch()
        base.provide_old_modules(visible_settings(plan.written, stage, run.name))
        peers = Peers(_alone(), self._watch)
        lock = feature_locks.of_models(run, plan.config, [self.checkpoint])
        self.data = StageData(
            stage,
            plan.config,
            plan.written,
            peers,
            run.name,
            is_checked=False,
            lock=lock,
            predicted=options.keep if stage.dataset.features else None,
        )
        closing.callback(self.data.close)
        self.parts = Parts(options.out)
        self._engine: Engine | None = None
        self.names: tuple[str, ...] = ()

    @property
    def engine(self) -> Engine:
        """Made when somebody computes."""
        if self._engine is None:
            self._engine = loaded(self.run, self.settings, choice.framework(), self.data, self.checkpoint, _alone())
            self._check(self._engine)
        return self._engine

    def _check(self, engine: Engine) -> None:
        """The slots that are declared are in the data, but for the label: who predicts may not have it."""
        dataset, first = self.data.dataset, engine.first_metric
        try:
            if self.data.rows is not None:
                self.data.rows.check(self.data.found)
                return
            reading.check(dataset, self.data.found, extra_allowed=dataset.extra_slots_allowed)
        except UmiakError:
            if first is None or first.label not in dataset.sparse_slots:
                raise
            others = tuple([each for each in dataset.sparse_slots if each != first.label])
            try:
                reading.check(
                    replace(dataset, sparse_slots=others), self.data.found, extra_allowed=dataset.extra_slots_allowed
                )
            except UmiakError:
                pass
            else:
                return
            raise

    @property
    def batches(self) -> int:
        """In a part."""
        return max(1, -(-self.options.part_rows // self.data.dataset.batch_size))

    def made(self) -> Made:
        """What parts belong to."""
        written = json.dumps(self.plan.written, sort_keys=True, default=str).encode()
        return Made(
            config=hashlib.sha256(written).hexdigest(),
            model=self.checkpoint,
            model_hash=_hash_of_model(self.checkpoint),
            data=self.data.dataset.data_path,
            data_hash=self._hash_of_data(),
            keep=self.options.keep,
            batch_size=self.data.dataset.batch_size,
            batches=self.batches,
            out=self.parts.kind,
        )

    def _hash_of_data(self) -> str:
        digest = hashlib.sha256(self.data.found.digest.encode())
        for file in self.data.found.files:
            changed = "" if storage.is_url(file.path) else os.stat(file.path).st_mtime_ns
            digest.update(f"{file.path} {file.size} {changed}\n".encode())
        return digest.hexdigest()

    def read(self, position: str | None) -> Samples:
        return reading.read(self.data.dataset, self.data.found, position=position, **self.data.more)

    def part(self, number: int, samples: Samples, on_rows: Callable[[int], None] = lambda _: None) -> PartDone | None:
        """Predict one part from where the reader stands; None: nothing is left."""
        written, count, ended = None, 0, False
        for _ in range(self.batches):
            batch = next(samples, None)
            if batch is None:
                ended = True
                break
            columns = rows.columns_of(batch, self.engine.predict(batch), self.options.keep)
            self.names = tuple(columns)
            written = written or self.parts.open(number)
            written.put(columns)
            count += batch.size
            on_rows(batch.size)
        if written is None:
            return None
        return self.parts.finish(number, written, rows_in_it=count, next_position=samples.position(), is_last=ended)

    def first_names(self) -> tuple[str, ...]:
        """The columns, from the first batch: of a run in which others have computed."""
        if not self.names:
            with self.read(None) as samples:
                batch = next(samples, None)
                if batch is not None:
                    self.names = tuple(rows.columns_of(batch, self.engine.predict(batch), self.options.keep))
        return self.names

    def rows_in_all(self) -> int | None:
        """About how many rows there are, where files can be measured."""
        return self.data.guess()


def predict(plan: Plan, options: PredictOptions, say: Callable[[str], None]) -> Predicted:
    """All of it. UmiakError if it can't be."""
    with ExitStack() as closing:
        closing.enter_context(output_lock.held(options.out))
        predictor = Predictor(plan, options, closing)
        which = f" (the best that early stopping found; the newest is {predictor.newest})" if predictor.newest else ""
        say(f"predicts with {predictor.checkpoint}{which}, {predictor.data.dataset.data_path} -> {options.out}")
        predictor.parts.begin(predictor.made(), resume=options.resume)
        closing.callback(predictor.parts.forget_if_empty)
        began = time.monotonic()
        there = _there(predictor.parts)
        done = [each for each in (predictor.parts.done(number) for number in range(there)) if each is not None]
        if there:
            say(f"resumes behind part {there - 1}: {sum(each.rows for each in done):,} rows are there")
        progress = _Progress(say, predictor.rows_in_all(), sum(each.rows for each in done))
        several = options.workers > 1
        count, resumed = (_parallel if several else _alone_parts)(predictor, there, progress)
        if not count:
            what = f"dataset {predictor.data.dataset.name} has no samples: {predictor.data.dataset.data_path}"
            raise UmiakError.of("UM-TRAIN-019", what, hint="its files are empty")
        total = predictor.parts.join(count, predictor.first_names())
        seconds = time.monotonic() - began
        return Predicted(
            out=options.out,
            rows=total,
            seconds=seconds,
            parts=count,
            resumed=resumed,
            checkpoint=predictor.checkpoint,
        )


def serve_parts(plan: Plan, options: PredictOptions, jobs: Iterator[str], answer: Callable[[str], object]) -> None:
    """A worker: for each line a part, until there are no more lines."""
    with ExitStack() as closing:
        predictor = Predictor(plan, options, closing)
        for line in jobs:
            job = json.loads(line)
            with predictor.read(job["position"]) as samples:
                done = predictor.part(int(job["part"]), samples)
            answer(json.dumps({"part": job["part"], "rows": done.rows if done else 0}))


# ---- parts


def _there(parts: Parts) -> int:
    """How many parts from the first one on are there."""
    number = 0
    while (done := parts.done(number)) is not None:
        number += 1
        if done.is_last:
            break
    return number


def _alone_parts(predictor: Predictor, there: int, progress: _Progress) -> tuple[int, int]:
    """Read and compute; returns how many parts there are, and how many of them were there before."""
    last = predictor.parts.done(there - 1) if there else None
    if last is not None and last.is_last:
        return there, there
    number = there
    with predictor.read(last.next if last else None) as samples:
        while (done := predictor.part(number, samples, progress.add)) is not None:
            number += 1
            if done.is_last:
                break
    return number, there


def _parallel(predictor: Predictor, there: int, progress: _Progress) -> tuple[int, int]:
    """Read to see where parts begin, and let workers compute those that are not there: one may have been ahead of the others. Returns as `_alone_parts`."""
    last = predictor.parts.done(there - 1) if there else None
    if last is not None and last.is_last:
        return there, there
    with _Workers(predictor, progress) as workers:
        number, resumed, position = there, there, last.next if last else None
        with predictor.read(position) as samples:
            while True:
                before, size, ended = position, 0, False
                for _ in range(predictor.batches):
                    batch = next(samples, None)
                    if batch is None:
                        ended = True
                        break
                    size += batch.size
                if size:
                    known = predictor.parts.done(number)
                    if known is None:
                        workers.give({"part": number, "position": before})
                    else:
                        progress.add(known.rows)
                        resumed += 1
                    number += 1
                if ended:
                    break
                position = samples.position()
        workers.finish()
    return number, resumed


class _Workers:
    """Processes that compute parts, and a thread for each that talks to it."""

    def __init__(self, predictor: Predictor, progress: _Progress) -> None:
        self._predictor, self._progress = predictor, progress
        self._jobs: queue.Queue[JsonObject | None] = queue.Queue(maxsize=1)
        self._failed = threading.Event()
        self._ended: list[tuple[int, int]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> _Workers:
        # What is newest, or best, may be another one when a worker looks.
        chosen = ["--checkpoint", self._predictor.checkpoint]
        command = [*own_modules.command("umiak.cli.main"), *self._predictor.options.worker_words, *chosen]
        for number in range(self._predictor.options.workers):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._processes.append(process)
            thread = threading.Thread(target=self._talk, args=(number, process), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._failed.set()
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def give(self, job: JsonObject) -> None:
        """Wait for a worker that is idle. UmiakError if one has ended."""
        while True:
            self._look()
            try:
                return self._jobs.put(job, timeout=0.2)
            except queue.Full:
                continue

    def finish(self) -> None:
        """Wait for everything that was given."""
        for _ in self._threads:
            while True:
                self._look()
                try:
                    self._jobs.put(None, timeout=0.2)
                    break
                except queue.Full:
                    continue
        for thread in self._threads:
            thread.join()
        self._look()

    def _look(self) -> None:
        if not self._failed.is_set():
            return
        number, status = self._ended[0]
        raise UmiakError.of(
            "UM-PREDICT-008",
            f"worker {number} has ended before its work was done, with status {status}",
            why="what it said is above" if status > 0 else f"signal {-status} ended it",
            hint="--resume goes on with the parts that are there",
            exit_status=Exit.JOB_FAILED,
        )

    def _talk(self, number: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        # Who uses the pipes closes them. One of a process that was killed may have something left to write.
        with contextlib.suppress(BrokenPipeError), process.stdin, process.stdout:
            while (job := self._jobs.get()) is not None:
                try:
                    process.stdin.write(json.dumps(job).encode() + b"\n")
                    process.stdin.flush()
                    line = process.stdout.readline()
                except OSError:
                    line = b""
                if not line:
                    self._ended.append((number, process.wait()))
                    self._failed.set()
                    return
                self._progress.add(int(json.loads(line)["rows"]))


class _Progress:
    """A line now and then."""

    def __init__(self, say: Callable[[str], None], in_all: int | None, before: int) -> None:
        self._say, self._in_all, self._rows, self._new = say, in_all, before, 0
        self._began = self._told = time.monotonic()
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """So many rows more are written."""
        with self._lock:
            self._rows += count
            self._new += count
            now = time.monotonic()
            if now - self._told < TELL_EVERY_S:
                return
            self._told = now
            rate = self._new / (now - self._began)
            left = ""
            if self._in_all is not None and rate:
                left = f"  about {duration(max(0.0, self._in_all - self._rows) / rate)} left"
            self._say(f"{self._rows:,} rows  {rate:,.0f} rows/s{left}")


def _alone() -> Session:
    return Session(environment.PsSeat(), strategies.Sync(), SessionOptions(), connect=LocalClient)


def _hash_of_model(checkpoint: str) -> str:
    """SHA-256 of a checkpoint's manifest, which has the hashes of its files; of PaddleRec's, of names, sizes and times."""
    path = Path(checkpoint)
    manifests = [each for each in sorted(path.glob("*.json")) if each.is_file()]
    digest = hashlib.sha256()
    for each in manifests:
        digest.update(each.name.encode() + each.read_bytes())
    for each in sorted(path.iterdir()) if not manifests else ():
        digest.update(f"{each.name} {each.stat().st_size} {each.stat().st_mtime_ns}".encode())
    return digest.hexdigest()
