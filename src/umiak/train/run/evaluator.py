"""Evaluates checkpoints: ``class: infer``. A program.

Every checkpoint below ``init_model_path`` is loaded into this process, whatever it was trained with and by how many, and judged on the data of each phase.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import umiak
from umiak.core.problem import Problem, UmiakError
from umiak.ps.sessions import Session
from umiak.train import reading
from umiak.train.checkpoints import runs
from umiak.train.checkpoints.progress import EpochRow, finite
from umiak.train.engines.paddle import Engine, EngineOptions, load
from umiak.train.plan.plan import Act
from umiak.train.reports.reporter import Reporter
from umiak.train.reports.text import Report
from umiak.train.run.context import Settings
from umiak.train.run.peers import Peers
from umiak.train.run.stage_data import StageData
from umiak.train.run.stopwatch import Stopwatch


def infer(
    act: Act, settings: Settings, watch: Stopwatch, reporter: Reporter, connect: Callable[[], Session]
) -> list[EpochRow]:
    """One row for each checkpoint and phase."""
    assert act.init_model_path is not None
    paths = runs.models_below(act.init_model_path, act.infer_epochs)
    rows: list[EpochRow] = []
    with contextlib.ExitStack() as closing:
        peers = Peers(connect(), watch)
        courses = []
        for stage in act.stages:
            courses.append(StageData(stage, settings.config, settings.written, peers, act.name))
            closing.callback(courses[-1].close)
        for number, path in enumerate(paths):
            reporter.talk(f"evaluates {path} ({number + 1} of {len(paths)})")
            for course in courses:
                rows.append(_judged(act, settings, course, path, number, len(paths), connect(), watch, reporter))
                reporter.epoch(rows[-1], len(paths), of_several=len(courses) > 1)
    if act.result_dump_path:
        with open(act.result_dump_path, "w", encoding="utf-8") as file:
            json.dump([_plain(path, row) for path, row in zip(_each(paths, len(act.stages)), rows, strict=True)], file)
    reporter.end(rows)
    return rows


def _judged(
    act: Act,
    settings: Settings,
    course: StageData,
    path: str,
    number: int,
    of: int,
    job: Session,
    watch: Stopwatch,
    reporter: Reporter,
) -> EpochRow:
    stage = course.stage
    engine = Engine(
        load(stage.model, settings.config),
        course.slots(),
        job=job,
        ways=EngineOptions(
            learning=settings.learning,
            seed=runs.seed_of(path) or 0,
            device=act.device,
            threads=stage.threads,
            tables=settings.table_parameters,
            embedding_tables=settings.embedding_tables,
            prefix=settings.prefix,
        ),
        hyper_parameters=settings.hyper_parameters,
        where=settings.config,
    )
    runs.start_from(job, path, engine.checkpoint_tables())
    engine.restore()
    engine.check_missing(course.first_seen, course.dataset.name)
    board = engine.board()
    began = time.monotonic()
    batches = samples = 0
    with reading.read(course.dataset, course.found, **course.more) as found:
        while True:
            with watch.measuring("reading"):
                batch = next(found, None)
            if batch is None:
                break
            engine.judge(batch, board)
            umiak.progress()
            batches, samples = batches + 1, samples + batch.size
            if batches % act.print_interval == 0:
                told = board.readings()
                reporter.report(
                    Report(
                        epoch=number,
                        epochs=of,
                        title=path,
                        stage=stage.name,
                        batch=batches,
                        samples=samples,
                        samples_per_s=samples / (time.monotonic() - began),
                        metrics=dict(told.epoch),
                        recent=dict(told.recent),
                        left_s=None,
                        shares=watch.lap(),
                    )
                )
                board.mark()
    if not samples:
        what = f"dataset {course.dataset.name} has no samples: {course.dataset.data_path}"
        raise UmiakError(Problem(code="UM-TRAIN-019", what=what, hint="its files are empty"))
    readings = board.readings()
    seconds = time.monotonic() - began
    judged = finite(dict(readings.epoch))
    return EpochRow(epoch=number, stage=stage.name, samples=samples, seconds=seconds, evaluated=judged, model=path)


def _each(paths: tuple[str, ...], times: int) -> list[str]:
    return [path for path in paths for _ in range(times)]


def _plain(path: str, row: EpochRow) -> dict[str, Any]:
    return {"model": path, "phase": row.stage, "samples": row.samples, **row.evaluated}
