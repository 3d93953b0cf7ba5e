"""Models for inference of static programs whose embeddings are tables: plain Paddle loads them, without a flag.
An adapter, for Paddle.

    PREFIX.json         the program in the form of Paddle 3: static.load_inference_model, jit.load, paddle.inference
    PREFIX.pdmodel      the same in the older form, for Paddle 2 and for scripts whose programs are in that form
    PREFIX.pdiparams    the numbers of both: rows of tables come from the servers

Files are written beside their place and then moved there, so that all trainers may write them.
"""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import paddle

from umiak.fleet.job import inner, names_of, say
from umiak.fleet.programs import sites
from umiak.fleet.programs.parameters import is_filled
from umiak.fleet.programs.rewriting import make_dense
from umiak.fleet.programs.tables import columns
from umiak.ps import paddle_internals
from umiak.ps.errors import BadRequest, bad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.fleet.job import FleetJob
    from umiak.ps.gradients import Floats
    from umiak.ps.paddle_types import Block, Executor, Program, Variables

MOST_BYTES = 4 << 30
"""A larger embedding is not written into a model for inference."""
OLDER, NEWER = ".pdmodel", ".json"
NUMBERS = ".pdiparams"
_CHUNK = 1 << 16

paddle_save_inference_model = paddle.static.save_inference_model
"""Paddle's own, which `umiak.fleet.patching` replaces later."""


class TooLarge(BadRequest):
    """Rows that do not fit one file."""


def save_inference_model(
    job: FleetJob | None,
    prefix: str,
    feed_vars: Variables,
    fetch_vars: Variables,
    executor: Executor,
    **configs: object,
) -> None:
    """``paddle.static.save_inference_model`` where programs are in the older form."""
    source = source_of(job, configs.get("program")) if job else None
    if source is None or job is None:
        paddle_save_inference_model(prefix, feed_vars, fetch_vars, executor, **configs)
        if not configs.get("separate_parameters"):
            write_newer(prefix)
        return
    feeds, fetches = names_of(feed_vars), names_of(fetch_vars)
    configs.pop("program", None)
    write(job, prefix, source, feeds, fetches, **configs)


def source_of(job: FleetJob, program: Program) -> Program:
    """The program with its lookups that this one is, or is a copy of; None if it has nothing to do with tables."""
    program = inner(program)
    runner = job.runner_of(program)
    if runner is not None:
        return runner.original
    reader = job.reader_of(program)
    if reader is None:
        return None
    kept = {op.output("Out")[0] for op in program.global_block().ops if op.type in sites.LOOKUPS}
    changed = [site.output for site in reader.plan.lookups if site.output not in kept]
    if not changed:
        return program
    for each in job.runners:
        if {site.output for site in each.plan.lookups}.issuperset(changed):
            return each.original
    return None


def write(
    job: FleetJob, prefix: str, source: Program, feeds: Sequence[str], fetches: Sequence[str], **configs: object
) -> None:
    """A model of a program with its lookups, with the rows that the servers have now. `TooLarge`."""
    whole = _for_inference(source, feeds, fetches)
    block = whole.global_block()
    needed = sites.producers(block, fetches, feeds)
    involved = {name for op in needed for name in op.input_arg_names}
    tables = [name for name in job.tables if name in involved]
    too_large = [name for name in tables if 4 * math.prod(map(int, block.vars[name].shape)) > MOST_BYTES]
    if too_large:
        what = (
            f"too large for one file, which has at most {MOST_BYTES >> 30} GiB of an embedding: {', '.join(too_large)}"
        )
        hint = "fleet.save_persistables(executor, dirname) saves the tables, and `python -m umiak.ps.export` writes them for others"
        raise TooLarge(*bad("UM-FLEET-062", what, hint).problems)
    job.session.flush()
    job.session.catch_up()
    scope, own = paddle.static.Scope(), paddle.static.global_scope()
    for variable in block.vars.values():
        if not variable.persistable or variable.name not in involved:
            continue
        if variable.name in tables:
            numbers = rows_of(job, variable.name, int(variable.shape[0]))
        elif is_filled(own, variable.name):
            numbers = np.array(own.find_var(variable.name).get_tensor())
        else:
            continue
        scope.var(variable.name).get_tensor().set(numbers, paddle.CPUPlace())
    spare = [name for name in feeds if name not in involved]
    if spare:
        say(f"{prefix}: left out of the model's inputs, because its outputs do not depend on them: {', '.join(spare)}")
        feeds = [name for name in feeds if name in involved]
    directory = Path(prefix).parent
    directory.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".umiak.", dir=directory) as beside,
        paddle.static.scope_guard(scope),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of the AUC's counts, which are not part of the model
        prefix_beside = str(Path(beside) / Path(prefix).name)
        paddle_save_inference_model(
            prefix_beside,
            [block.vars[name] for name in feeds],
            [block.vars[name] for name in fetches],
            paddle.static.Executor(paddle.CPUPlace()),
            **{**configs, "program": whole},
        )
        if not configs.get("separate_parameters"):
            write_newer(prefix_beside)
        for file in sorted(Path(beside).iterdir(), key=lambda each: each.suffix != NUMBERS):
            os.replace(file, directory / file.name)


def write_newer(prefix: str) -> None:
    """Beside a model in the older form, the same in the newer one; a line if Paddle can't translate it."""
    program = paddle.static.deserialize_program(Path(prefix + OLDER).read_bytes())
    _count_apart(program)
    inputs = program.desc.get_feed_target_names()
    with paddle.pir_utils.IrGuard():
        try:
            translated = paddle.pir.translate_to_pir(program.desc)
        except Exception as error:  # noqa: BLE001 - Paddle raises all kinds of them here
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            say(
                f"{Path(prefix).name}{NEWER} is not written, because Paddle can't translate the program: {lines[-1][:300]}"
            )
            return
        _feed_as_data(translated, inputs)
        paddle.base.core.serialize_pir_program(translated, prefix + NEWER, True, False, True)


def _count_apart(program: Program) -> None:
    """Counts of an AUC that are not written over those it began with: the newer form has no such operation."""
    block = program.global_block()
    for op in (op for op in block.ops if op.type == "auc"):
        for name in {*op.output("StatPosOut"), *op.output("StatNegOut")} & {*op.input_arg_names}:
            was = block.vars[name]
            block.create_var(name=f"{name}.counted", dtype=was.dtype, shape=was.shape, stop_gradient=True)
            paddle_internals.rename_output(op, name, f"{name}.counted")


def rows_of(job: FleetJob, name: str, count: int) -> Floats:
    """The rows 0, 1, 2, ... of a table; those that were never used are as they would begin."""
    table = job.tables[name]
    parts = [
        table.rows(np.arange(start, min(start + _CHUNK, count), dtype=np.uint64), create=False)
        for start in range(0, count, _CHUNK)
    ]
    rows = np.concatenate(parts)
    counting = job.tables.planned(name).counting
    return rows if counting is None else columns(rows, counting)


def _feed_as_data(program: Program, inputs: Sequence[str]) -> None:
    """Inputs as programs of the newer form have them, in the order of the model's: `jit.load` knows no others."""
    block = program.global_block()
    fed = {op.attrs()["name"]: op for op in block.ops if op.name() == "pd_op.feed"}
    first = block.ops[0]
    for name in inputs:
        old = fed[name].result(0)
        with paddle.static.program_guard(program):
            value = paddle.static.data(name, old.shape, old.dtype)
        value.get_defining_op().move_before(first)
        old.replace_all_uses_with(value)
        block.remove_op(fed[name])


def _for_inference(source: Program, feeds: Sequence[str], fetches: Sequence[str]) -> Program:
    """A copy of a program for inference, with embeddings as plain parameters."""
    whole = source.clone(for_test=True)
    block = whole.global_block()
    unknown = [name for name in (*feeds, *fetches) if name not in block.vars]
    if unknown:
        what = f"no such variables in the program: {', '.join(unknown)}"
        raise bad("UM-FLEET-033", what, "what the program computes must be there before minimize is called")
    for index in reversed(range(len(block.ops))):
        op = block.ops[index]
        if op.type not in sites.LOOKUPS:
            continue
        make_dense(block.vars[op.input("W")[0]])
        for attribute in ("is_distributed", "remote_prefetch"):
            if op.has_attr(attribute):
                paddle_internals.set_attribute(op, attribute, False)
        if op.type == sites.OLD and not block.vars[op.input("Ids")[0]].lod_level:
            _modernize(block, index)
    return whole


def _modernize(block: Block, index: int) -> None:
    """A lookup whose ids end in a dimension of 1, as one of ids without:
    the newer form infers other shapes for the older operation.
    """
    op = block.ops[index]
    ids, weight, out = op.input("Ids")[0], op.input("W")[0], op.output("Out")[0]
    padding = op.attr("padding_idx") if op.has_attr("padding_idx") else sites.NO_PADDING
    given = block.vars[ids]
    short = block.create_var(name=f"{out}.ids", dtype=given.dtype, shape=given.shape[:-1], stop_gradient=True)
    was = block.create_var(name=f"{out}.ids.shape", dtype=given.dtype, stop_gradient=True)
    paddle_internals.remove_op(block, index)
    paddle_internals.insert_op(
        block,
        index,
        type="lookup_table_v2",
        inputs={"Ids": [short], "W": [weight]},
        outputs={"Out": [out]},
        attrs={"padding_idx": padding, "is_sparse": False},
    )
    paddle_internals.insert_op(
        block,
        index,
        type="squeeze2",
        inputs={"X": [ids]},
        outputs={"Out": [short], "XShape": [was]},
        attrs={"axes": [-1]},
    )
