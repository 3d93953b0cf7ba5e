"""Files of models in the form of PaddleRec 1.8.5: weights that PaddleRec has saved, and inference models. An adapter, for programs of `paddle.fluid`.

PaddleRec saves a file for each variable into the directory of an epoch; `fluid.io` reads and writes the same.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.fluid.running.executor import ReplayExecutor
from umiak.fluid.running.scope import VariableScope, scope_guard
from umiak.fluid.saving import files, tensor_file
from umiak.ps import paddle_internals, values
from umiak.ps.manifest import FILE_NAME
from umiak.train.engines import dygraph_learning
from umiak.train.engines.modelbase import states
from umiak.train.engines.modelbase.feeding import feed_of
from umiak.train.engines.modelbase.learning import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.ps.manifest import Manifest
    from umiak.ps.sessions import Session
    from umiak.ps.values import Opened
    from umiak.train.checkpoints.weights import StateEntry
    from umiak.train.engines.modelbase.programs import ModelProgram
    from umiak.train.reading.batches import Batch

CLOSE = 1e-5
"""So much answers of a model that was written may differ from those before."""


def is_there(path: str, names: Iterable[str]) -> bool:
    """Whether a directory has PaddleRec's files of variables, and is no checkpoint of ours."""
    if os.path.exists(os.path.join(path, FILE_NAME)):
        return False
    return any(os.path.isfile(os.path.join(path, name)) for name in names)


def read(path: str, state: Mapping[str, StateEntry]) -> dict[str, AnyArray]:
    """The arrays of such a directory."""
    found = {}
    for name in dict.fromkeys(each.same_as for each in state.values()):
        file = os.path.join(path, name)
        if not os.path.isfile(file):
            continue
        try:
            found[name] = tensor_file.unpacked(Path(file).read_bytes())[0]
        except ValueError as error:
            what = f"weights of PaddleRec can't be read: {file}"
            raise UmiakError.refused("UM-TRAIN-069", what, why=str(error)) from error
    return found


def misfits(found: Mapping[str, AnyArray], needed: Mapping[str, StateEntry], path: str) -> list[Problem]:
    """Weights that are not there, or of another shape."""
    problems = []
    for name, entry in needed.items():
        if name not in found:
            problems.append(f"{name} is not in it")
        elif tuple(found[name].shape) != entry.shape:
            problems.append(f"{name} has the shape {tuple(found[name].shape)} there and {entry.shape} here")
    hint = "start from weights of the same model with the same hyper_parameters"
    return [Problem(code="UM-TRAIN-069", what=each, hint=hint, where=path) for each in problems]


def fits(
    manifest: Manifest,
    tables: Mapping[str, Opened],
    table_names: Sequence[str],
    prefix: str,
    *,
    is_own: bool,
    job: Session,
) -> bool:
    """Whether a checkpoint of ours was saved where the model learned in the same way."""
    if is_own or dygraph_learning.is_own(manifest, prefix):
        return is_own and values.fits(manifest, tables, shards=job.options.shards)
    return {*dygraph_learning.tables_in(manifest, prefix)} == {*table_names}


def check_names(program: ModelProgram, names: Sequence[str], file: str) -> None:
    """UmiakError if a config names variables that the program does not have."""
    block = program.main.global_block()
    unknown = [name for name in names if not block.has_var(name)]
    if unknown:
        inputs = ", ".join(each.name for each in program.inputs)
        told = ", ".join(each.name for each in program.told.values())
        what = f"no inference model can be written: the program has no variable {', '.join(unknown)}"
        raise UmiakError.of("UM-TRAIN-066", what, hint=f"inputs are {inputs}; metrics are {told}", where=file)


def export(
    program: ModelProgram,
    training: VariableScope,
    found: Mapping[str, AnyArray],
    path: str,
    feeds: Sequence[str],
    fetches: Sequence[str],
    sample: Callable[[], Batch | None],
    file: str,
) -> None:
    """An inference model, as `fluid.io.load_inference_model` reads it, with these values of variables; compared with the program about ``sample``."""
    block = program.main.global_block()
    scope = VariableScope()
    scope.tensors = {
        name: tensor.detach().clone()
        for name, tensor in training.tensors.items()
        if tensor.size and paddle_internals.is_initialized(tensor)
    }
    executor = ReplayExecutor()
    states.put_back(scope, {name: array for name, array in found.items() if name in scope.tensors})
    scope.tensors |= {name: paddle.to_tensor(array) for name, array in found.items() if name not in scope.tensors}
    partial = f"{path}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    with scope_guard(scope):
        files.save_inference_model(partial, [*feeds], [block.var(name) for name in fetches], executor, program.main)
    batch = sample()
    if batch is not None:
        _check(program, scope, executor, partial, fetches, batch, file)
    shutil.rmtree(path, ignore_errors=True)
    os.replace(partial, path)


def _check(
    program: ModelProgram,
    scope: VariableScope,
    executor: Any,
    path: str,
    fetches: Sequence[str],
    batch: Batch,
    file: str,
) -> None:
    """UmiakError if what was written answers something else."""
    feed = feed_of(batch, program.inputs, file)
    wanted = run(executor, program.main.clone(for_test=True), scope, feed, fetches)
    loaded = VariableScope()
    with scope_guard(loaded):
        made, names, targets = files.load_inference_model(path, executor)
        answers = executor.run(made, {name: feed[name] for name in names if name in feed}, targets, scope=loaded)
    for name, answer in zip(fetches, answers, strict=True):
        if not np.allclose(np.asarray(answer), np.asarray(wanted[name]), atol=CLOSE, rtol=CLOSE):
            what = f"the inference model answers something else than the model: {name}"
            raise UmiakError.of("UM-TRAIN-066", what, where=path, exit_status=Exit.JOB_FAILED)
