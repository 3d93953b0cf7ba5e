"""Saves what a program has learned on servers, in files of 1.8 and as a checkpoint. A program.

    PATH/tables/        everything on the servers with the state of the rules: for going on
    PATH/fc_0.w_0       each parameter, embeddings with all their rows, and each statistic, as `fluid.io.save_persistables` writes them
    PATH/__model__      of `save_inference_model`: the program

The first trainer writes; the others send what they have and go on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import paddle

from umiak.fleet import saving as fleet_saving
from umiak.fluid.distributed.telling import say
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.compiled import CompiledProgram
from umiak.fluid.running.scope import VariableScope, global_scope, scope_guard
from umiak.fluid.saving import files

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram, Folder, Inputs, Names
    from umiak.fluid.distributed.jobs import FluidJob
    from umiak.fluid.distributed.trained import TrainedProgram
    from umiak.fluid.record.program import RecordedProgram

MOST_BYTES = 4 << 30
"""A larger embedding is in the checkpoint alone."""


def save_persistables(job: FluidJob, dirname: Folder, program: AnyProgram) -> None:
    """Tables, parameters and statistics."""
    trained = _trained(job, program)
    if not job.session.is_first:
        job.session.flush()
        return
    _save_tables(job, dirname)
    names = [each.name for each in trained.program.list_vars() if each.persistable]
    scope = _numbers(trained, names)
    chosen = [each for each in trained.program.list_vars() if each.name in scope.tensors]
    with scope_guard(scope):
        files.save_vars(None, dirname, _plain(trained.program), vars=[each.name for each in chosen])


def save_inference_model(
    job: FluidJob, executor: Any, dirname: Folder, feeds: Names, targets: Inputs, program: AnyProgram
) -> None:
    """A model, with the rows that the servers have now."""
    trained = _trained(job, program)
    if not job.session.is_first:
        job.session.flush()
        return
    _save_tables(job, dirname)
    source = trained.program if program is None else _program(program)
    plain = _plain(source)
    names = [each.name for each in plain.list_vars() if each.persistable]
    large = [each for each in names if each in trained.tables and _size(trained, each) > MOST_BYTES]
    if large:
        say(f"{dirname}: no model for inference: {', '.join(large)} is too large for one file; the tables are saved, and `python -m umiak.ps.export` writes them for others")  # fmt: skip
        return
    with scope_guard(_numbers(trained, names)):
        files.save_inference_model(dirname, feeds, targets, executor, plain)


def _save_tables(job: FluidJob, dirname: Folder) -> None:
    job.begin(global_scope())
    directory = Path(dirname)
    directory.mkdir(parents=True, exist_ok=True)
    fleet_saving.replace_checkpoint(job.session, directory / fleet_saving.TABLES)


def _numbers(trained: TrainedProgram, names: list[str]) -> VariableScope:
    """A scope that has what the servers and this trainer have."""
    scope = VariableScope()
    small = [each for each in names if each not in trained.tables or _size(trained, each) <= MOST_BYTES]
    for each in sorted(set(names).difference(small)):
        say(f"{each} is too large for one file, and is in the checkpoint alone")
    wanted = [each for each in small if each not in trained.kept_by_servers]
    for name, array in trained.values(wanted).items():
        scope.tensors[name] = paddle.to_tensor(array, place=paddle.CPUPlace())
    return scope


def _size(trained: TrainedProgram, name: str) -> int:
    table = trained.tables[name]
    return 4 * table.rows * table.spec.dim


def _plain(program: RecordedProgram) -> RecordedProgram:
    """A copy that no job runs."""
    return program.clone()


def _trained(job: FluidJob, program: AnyProgram) -> TrainedProgram:
    if not job.trained:
        raise bad("UM-FLUID-007", "no program is trained, so there is nothing to save", "minimize a loss first", where=user_line())  # fmt: skip
    if program is not None:
        given = _program(program)
        for each in job.trained:
            if each.program is given:
                return each
    return job.trained[0]


def _program(given: AnyProgram) -> RecordedProgram:
    program: RecordedProgram = given.program if isinstance(given, CompiledProgram) else given
    return program
