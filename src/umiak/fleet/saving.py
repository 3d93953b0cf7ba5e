"""Saves and loads what a program with tables has learned. An adapter, for Paddle.

    PATH/tables/             all tables, dense parameters too, with the state of the rules: our checkpoint, for going on
    PATH/dense.pdparams      the dense parameters in Paddle's format
    PATH/model.json          a program for inference that plain Paddle runs, embeddings and all,
    PATH/model.pdmodel       the same in Paddle's older form,
    PATH/model.pdiparams     and the numbers of both

The first trainer saves and the others go on. Every file is written beside its place and then moved there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.core.value import replace
from umiak.fleet import beginning, exporting
from umiak.fleet.job import say
from umiak.fleet.programs import parameters
from umiak.ps import checkpoint, manifest
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from umiak.fleet.job import FleetJob
    from umiak.ps.paddle_types import Program, Scope, Variable
    from umiak.ps.sessions import Session

TABLES = "tables"
DENSE = "dense.pdparams"
MODEL = "model"


def save_tables(job: FleetJob, path: str, *, mode: str = "all") -> None:
    """All tables and the dense parameters, beneath a path."""
    _bind(job)
    if not job.session.is_first:
        job.session.flush()
        return
    directory = _directory(path)
    replace_checkpoint(job.session, directory / TABLES, mode=mode)
    job.session.catch_up()
    names = (
        name
        for runner in job.runners
        for name in (*(each.name for each in runner.plan.parameters), *runner.buffers, *runner.plan.fused)
    )
    dense = parameters.read(paddle.static.global_scope(), names)
    if job.runners:
        _written(directory / DENSE, lambda file: paddle.save(dense, file))


def replace_checkpoint(session: Session, place: Path, *, mode: str = "all") -> None:
    """A checkpoint of all tables, in the place of an earlier one, which is gone when the new one is whole."""
    old = place.with_name(f"{place.name}.old")
    if place.exists():
        shutil.rmtree(old, ignore_errors=True)
        place.rename(old)
    try:
        session.save(str(place), metadata={"fleet": True}, mode=mode)
    except BaseException:
        if old.exists() and not place.exists():
            old.rename(place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def load_tables(job: FleetJob, path: str) -> None:
    """What `save_tables` or `save_model` made. The first trainer loads;
    the others see it at the latest behind the next barrier.
    """
    tables = tables_beneath(path)
    _bind(job)
    session = job.session
    if session.is_first or session.communicator.keeps_tables:
        checkpoint.load(session.client, tables, counts_steps=False)
    job.loads += 1
    saved = checkpoint.read(tables)
    if session.is_first:
        own = {name: table for name, table in saved.tables.items() if name not in (beginning.READY, beginning.EARLIER)}
        checkpoint.compare(replace(saved, tables=own), session.communicator.names, tables)
    job.loaded = tuple(saved.tables)
    refresh(job)


def refresh(job: FleetJob) -> None:
    """Take over what is on the servers now."""
    job.session.take_loaded(job.loaded)


def tables_beneath(path: str) -> str:
    """The checkpoint of a path that something was saved to, or that is one."""
    for place in (Path(path) / TABLES, Path(path)):
        if (place / manifest.FILE_NAME).exists():
            return str(place)
    hint = "give the path that fleet.save_persistables or fleet.save_inference_model was given"
    raise bad("UM-FLEET-030", f"no tables of umiak beneath {path}", hint)


def save_model(
    job: FleetJob,
    path: str,
    feeds: Sequence[str],
    targets: Sequence[Variable],
    program: Program = None,
    *,
    mode: str = "all",
) -> None:
    """A model for inference that plain Paddle loads, and the tables beside it."""
    save_tables(job, path, mode=mode)
    if not job.session.is_first:
        return
    if not job.runners:
        raise bad("UM-FLEET-031", "no program is trained, so there is nothing to save", "minimize a loss first")
    source = exporting.source_of(job, program) or job.runners[0].original
    try:
        exporting.write(job, str(_directory(path) / MODEL), source, feeds, targets)
    except exporting.TooLarge as error:
        say(
            f"{path}: no model for inference: {error}; the tables are saved, and `python -m umiak.ps.export` writes them for others"
        )


def save_one_table(job: FleetJob, table_id: int, path: str, mode: int = 0) -> None:
    """One embedding by its number, as keys and rows that numpy reads: ``PATH.npz``."""
    name = _numbered(job, table_id)
    if not job.session.is_first:
        job.session.flush()
        return
    rows = exporting.rows_of(job, name, job.tables.planned(name).site.rows)
    directory = _directory(str(Path(path).parent))
    _written(directory / f"{Path(path).name}.npz", lambda file: np.savez(file, name=name, rows=rows))


def load_one_table(job: FleetJob, table_id: int, path: str, mode: int = 0) -> None:
    """The opposite."""
    name = _numbered(job, table_id)
    if job.tables.planned(name).counting is not None:
        what = f"table {name}: its rows count shows and clicks, which are not in such a file"
        raise bad("UM-FLEET-034", what, "fleet.load_model loads what fleet.save_persistables has saved")
    _bind(job)
    if job.session.is_first:
        with np.load(f"{path}.npz") as saved:
            rows = saved["rows"]
        job.session.communicator.set(job.tables[name].number, np.arange(len(rows), dtype=np.uint64), rows)
    job.loads += 1
    job.loaded = ()
    refresh(job)


def _numbered(job: FleetJob, number: int) -> str:
    """The name of a table."""
    names: list[str] = [*job.tables]
    if not 0 <= number < len(names):
        listed = ", ".join(f"{place} {name}" for place, name in enumerate(names)) or "none"
        raise bad("UM-FLEET-032", f"no table has the number {number}", f"tables: {listed}")
    return names[number]


def _bind(job: FleetJob) -> None:
    for runner in job.runners:
        runner.bind(None)


def _directory(path: str) -> Path:
    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _written(file: Path, write: Callable[[str], object]) -> None:
    """Write beside it, then move: a reader never sees half of it."""
    partial = file.with_name(f".{os.getpid()}.{file.name}")
    write(str(partial))
    os.replace(partial, file)


def save_dense(path: str, scope: Scope, names: Iterable[str]) -> None:
    """Some parameters of a scope, in Paddle's format."""
    values = {name: np.array(scope.find_var(name).get_tensor()) for name in names if scope.find_var(name)}
    _written(_directory(path) / DENSE, lambda file: paddle.save(values, file))
