"""Models of fluid for `paddle.inference`: the recorded operations as one of Paddle's own static programs. A program.

    MODEL.json          the program, in the form of Paddle 3
    MODEL.pdiparams     its parameters, unless they stand in one file already

The functions that replay a program make static operations as well. That Paddle's program computes the same is tried on batches of two sizes before it is
written: a function that looks at values or sizes may have taken them for constants. What can't be written so is refused with its operation.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.base.dygraph import base

from umiak.fluid.kernels.registry import KERNELS, Frame
from umiak.fluid.record.problems import FluidError, bad, cause
from umiak.fluid.record.trials import dtype_of, filled
from umiak.fluid.running.replay import Prepared, replay
from umiak.fluid.running.scope import global_scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import Feed, Outputs
    from umiak.fluid.record.program import RecordedOperation, RecordedProgram, Variable

PROGRAM, NUMBERS = ".json", ".pdiparams"
ROWS = (2, 3)
"""Sizes of the batches on which both programs are compared."""
CLOSE = 1e-4


def write(program: RecordedProgram, feeds: list[str], fetches: list[str], model: Path, one_file: Path | None) -> None:
    """The files of a model that was pruned; `FluidError` if an operation can't be written. ``one_file``: all parameters, written before."""
    remove(model)
    feeds = _needed(program, feeds, fetches)
    _check(program, feeds)
    scope = paddle.static.Scope()
    with _static(), paddle.static.scope_guard(scope):
        built, values = _built(program, feeds, scope)
        executor = paddle.static.Executor(paddle.CPUPlace())
        _compare(program, feeds, fetches, built, [values[name] for name in fetches], executor)
        with tempfile.TemporaryDirectory(prefix=".umiak.", dir=model.parent) as beside:
            prefix_beside = Path(beside) / "model"
            ends = [[values[name] for name in names] for names in (feeds, fetches)]
            try:
                paddle.static.save_inference_model(str(prefix_beside), *ends, executor, program=built)
            except Exception as error:
                raise _refused(None, cause(error)) from error
            numbers = Path(f"{prefix_beside}{NUMBERS}")
            if numbers.exists() and not (one_file and _same(numbers, one_file)):
                os.replace(numbers, f"{model}{NUMBERS}")
            os.replace(f"{prefix_beside}{PROGRAM}", f"{model}{PROGRAM}")


def remove(model: Path) -> None:
    """What an earlier model left there."""
    for ending in (PROGRAM, NUMBERS):
        Path(f"{model}{ending}").unlink(missing_ok=True)


def _needed(program: RecordedProgram, feeds: list[str], fetches: list[str]) -> list[str]:
    """Those that the targets depend on: Paddle's program has no others."""
    used = {*fetches, *(name for each in program.global_block().ops for name in each.input_names)}
    spare = [name for name in feeds if name not in used]
    if spare:
        text = f"left out of the inputs for paddle.inference, since no target depends on them: {', '.join(spare)}"
        warnings.warn(f"save_inference_model: {text}", stacklevel=5)
    return [name for name in feeds if name in used]


@contextmanager
def _static() -> Iterator[None]:
    """Static programs in the form of Paddle 3, also where a job has chosen the older one: there `paddle.enable_static` chooses it again."""
    was_dynamic = paddle.in_dynamic_mode()
    base.disable_dygraph()
    try:
        with paddle.pir_utils.DygraphPirGuard():
            yield
    finally:
        if was_dynamic:
            base.enable_dygraph()


def _check(program: RecordedProgram, feeds: list[str]) -> None:
    """What is known to have no place in such a program."""
    block = program.global_block()
    for name in feeds:
        if block.has_var(name) and block.vars[name].lod_level:
            raise _refused(None, f"{name} has sequences (lod_level {block.vars[name].lod_level})")
    for each in block.ops:
        if KERNELS[each.type].sequences:
            raise _refused(each, "it works on sequences")
        if any(key in each.arguments for key in ("block", "blocks")):
            raise _refused(each, "it runs blocks of operations")


def _built(program: RecordedProgram, feeds: list[str], scope: Any) -> tuple[Any, Feed]:
    """Paddle's program, and its value for each variable; parameters are in the scope."""
    built, block = paddle.static.Program(), program.global_block()
    values: Feed = {}
    used = {name for each in block.ops for name in each.input_names}
    with paddle.static.program_guard(built, paddle.static.Program()):
        for name in feeds:
            variable = block.vars[name]
            values[name] = paddle.static.data(name, list(variable.shape), variable.dtype)
        for name in sorted(used - set(feeds)):
            variable = block.vars[name]
            if variable.persistable:
                values[name] = _parameter(variable, scope)
        for each in block.ops:
            values.update(zip(each.outputs, _added(each, values), strict=True))
    return built, values


def _parameter(variable: Variable, scope: Any) -> Any:
    tensor = global_scope().tensors.get(variable.name)
    if tensor is None:
        raise bad("UM-FLUID-005", f"{variable.name} has no value", "run the startup program, or load it")
    try:
        value = paddle.static.create_parameter(
            list(tensor.shape), dtype_of(tensor), variable.name, default_initializer=paddle.nn.initializer.Constant(0.0)
        )
    except Exception as error:
        raise _refused(None, f"{variable} can't be a parameter there: {cause(error)}") from error
    value.stop_gradient = True
    scope.var(variable.name).get_tensor().set(tensor.numpy(), paddle.CPUPlace())
    return value


def _added(operation: RecordedOperation, values: Feed) -> Outputs:
    kernel = KERNELS[operation.type]
    frame = Frame(values)
    frame.operation = operation
    try:
        arguments = filled(operation.arguments, values)
        results = kernel.function(frame, **arguments) if kernel.frame else kernel.function(**arguments)
    except Exception as error:
        raise _refused(operation, cause(error)) from error
    tensors = list(results) if type(results) in (tuple, list) else [results]
    if any(not isinstance(each, paddle.pir.Value) for each in tensors):
        raise _refused(operation, "it computes its result when it is recorded")
    return tensors


def _compare(
    program: RecordedProgram, feeds: list[str], fetches: list[str], built: Any, targets: Outputs, executor: Any
) -> None:
    """Both programs on the same batches."""
    plan = Prepared(program)
    compared = 0
    for rows in ROWS:
        for highest in (2, 1):
            feed = {name: _sample(program.global_block().vars[name], rows, highest) for name in feeds}
            expected = _replayed(plan, feed, fetches)
            if expected is None:
                continue  # of numbers up to 1 not all may be ids of a table
            try:
                answers = executor.run(built, feed=feed, fetch_list=targets)
            except Exception as error:
                raise _refused(None, f"Paddle's program fails on a batch of {rows}: {cause(error)}") from error
            _check_equal(program, fetches, expected, answers, rows)
            compared += 1
            break
    if not compared:
        raise _refused(None, f"it can't be compared: the program fails on batches of {' and '.join(map(str, ROWS))}")


def _check_equal(program: RecordedProgram, fetches: list[str], expected: Outputs, found: Outputs, rows: int) -> None:
    for name, ours, theirs in zip(fetches, expected, found, strict=True):
        alike = ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=CLOSE, atol=CLOSE, equal_nan=True)
        if not alike:
            maker = next((each for each in program.global_block().ops if name in each.outputs), None)
            what = f"{name} is another one in Paddle's program for a batch of {rows}"
            raise _refused(maker, f"{what}: {list(ours.shape)} here, {list(theirs.shape)} there")


def _replayed(plan: Prepared, feed: Feed, fetches: list[str]) -> Outputs | None:
    with _dynamic():
        frame = Frame({name: paddle.to_tensor(values) for name, values in feed.items()})
        try:
            replay(plan, frame, global_scope())
        except FluidError:
            return None
        return [frame.values[name].numpy() for name in fetches]


@contextmanager
def _dynamic() -> Iterator[None]:
    base.enable_dygraph()
    try:
        yield
    finally:
        base.disable_dygraph()


def _sample(variable: Variable, rows: int, highest: int) -> Any:
    chance = np.random.default_rng(rows)
    shape = [rows if size < 0 else size for size in variable.shape]
    if variable.dtype.startswith("float"):
        return chance.uniform(-1.0, 1.0, shape).astype(variable.dtype)
    return chance.integers(0, highest, shape).astype(variable.dtype)


def _same(first: Path, second: Path) -> bool:
    return first.stat().st_size == second.stat().st_size and first.read_bytes() == second.read_bytes()


def _refused(operation: RecordedOperation | None, why: str) -> FluidError:
    name = f"fluid.layers.{operation.type}" if operation else "this program"
    return bad(
        "UM-FLUID-023",
        f"{name} can't be written for paddle.inference",
        "load_inference_model reads the model, with all operations",
        why=why,
        where=operation.site if operation else None,
    )
