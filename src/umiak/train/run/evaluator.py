"""Evaluates checkpoints: ``class: infer``. A program.

Every checkpoint below ``init_model_path`` is loaded into this process, whatever it was trained with and by how many, and evaluated on the data of each phase.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import umiak
from umiak.core.problem import UmiakError
from umiak.ps.sessions import Session
from umiak.train import reading
from umiak.train.checkpoints import feature_locks, runs
from umiak.train.checkpoints.progress import EpochRow, finite
from umiak.train.engines.engine import Engine, EngineOptions, EngineRequest, Framework
from umiak.train.evaluating import retrieving
from umiak.train.evaluating.measuring import Measured
from umiak.train.plan.plan import Run, visible_settings
from umiak.train.reading.tables import catalogue
from umiak.train.reports.reporter import Reporter
from umiak.train.reports.text import ProgressReport
from umiak.train.run.context import Settings
from umiak.train.run.peers import Peers
from umiak.train.run.stage_data import StageData
from umiak.train.run.stopwatch import Stopwatch

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


def infer(
    run: Run,
    settings: Settings,
    framework: Framework,
    watch: Stopwatch,
    reporter: Reporter,
    connect: Callable[[], Session],
) -> list[EpochRow]:
    """One row for each checkpoint and phase."""
    assert run.runner.init_model_path is not None
    paths = runs.models_below(run.runner.init_model_path, run.runner.infer_epochs)
    rows: list[EpochRow] = []
    with contextlib.ExitStack() as closing:
        peers = Peers(connect(), watch)
        stages = []
        lock = feature_locks.of_models(run, settings.config, paths)
        items = catalogue.read(settings.retrieval, lock) if settings.retrieval and lock is not None else None
        for stage in run.stages:
            stages.append(StageData(stage, settings.config, settings.written, peers, run.name, lock=lock))
            closing.callback(stages[-1].close)
        for number, path in enumerate(paths):
            reporter.info(f"evaluates {path} ({number + 1} of {len(paths)})")
            for data in stages:
                engine = loaded(run, settings, framework, data, path, connect())
                measured = Measured(
                    settings.evaluation,
                    engine,
                    dataset=data.dataset.name,
                    where=settings.config,
                    retrieved=retrieving.of_evaluation(settings.retrieval, items, engine, data.dataset.features),
                )
                row, lines = _evaluated(run, engine, data, path, number, len(paths), watch, reporter, measured, peers)
                rows.append(row)
                reporter.epoch(rows[-1], len(paths), of_several=len(stages) > 1)
                for line in lines:
                    reporter.info(line)
    if run.runner.result_dump_path:
        with open(run.runner.result_dump_path, "w", encoding="utf-8") as file:
            json.dump(
                [_plain(path, row) for path, row in zip([path for path in paths for _ in stages], rows, strict=True)],
                file,
            )
    reporter.end(rows)
    return rows


def loaded(run: Run, settings: Settings, framework: Framework, data: StageData, path: str, job: Session) -> Engine:
    """The model of a stage, as a checkpoint has it."""
    options = EngineOptions(
        **settings.for_engines,
        seed=runs.seed_of(path) or 0,
        device=run.runner.device,
        threads=data.stage.threads,
        prefix=settings.prefix,
        checkpoint=path,
    )
    engine = framework.engine(
        EngineRequest(
            model=data.stage.model,
            slots=data.slots(),
            job=job,
            options=options,
            hyper_parameters=settings.hyper_parameters,
            where=settings.config,
            dataset=data.dataset.name,
            settings=visible_settings(settings.written, data.stage, run.name),
        )
    )
    if engine.takes_weights(path):
        engine.take_weights(path)
    else:
        runs.start_from(job, path, engine.tables())
        engine.restore()
    engine.check_missing(data.first_seen, data.dataset.name)
    return engine


def _evaluated(
    run: Run,
    engine: Engine,
    data: StageData,
    path: str,
    number: int,
    of: int,
    watch: Stopwatch,
    reporter: Reporter,
    measured: Measured,
    peers: Peers,
) -> tuple[EpochRow, list[str]]:
    metrics = engine.metric_set()
    began = time.monotonic()
    batches = samples = 0
    with reading.read(data.dataset, data.found, **data.more) as found:
        while True:
            with watch.measuring("reading"):
                batch = next(found, None)
            if batch is None:
                break
            answers = measured.answers()
            engine.evaluate(batch, metrics, answers)
            measured.update(batch, answers)
            umiak.progress()
            batches, samples = batches + 1, samples + batch.size
            if batches % run.runner.print_interval == 0:
                told = metrics.readings()
                reporter.report(
                    ProgressReport(
                        epoch=number,
                        epochs=of,
                        title=path,
                        stage=data.stage.name,
                        batch=batches,
                        samples=samples,
                        samples_per_s=samples / (time.monotonic() - began),
                        metrics=dict(told.epoch),
                        recent=dict(told.recent),
                        left_s=None,
                        shares=watch.lap(),
                    )
                )
                metrics.start_window()
    if not samples:
        what = f"dataset {data.dataset.name} has no samples: {data.dataset.data_path}"
        raise UmiakError.of("UM-TRAIN-019", what, hint="its files are empty")
    readings, lines = measured.added(metrics.readings(), peers)
    seconds = time.monotonic() - began
    row = EpochRow(
        epoch=number,
        stage=data.stage.name,
        samples=samples,
        seconds=seconds,
        evaluated=finite(dict(readings.epoch)),
        model=path,
    )
    return row, lines


def _plain(path: str, row: EpochRow) -> JsonObject:
    return {"model": path, "phase": row.stage, "samples": row.samples, **row.evaluated}
