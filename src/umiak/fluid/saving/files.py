"""`fluid.io` and `fluid.save`: variables of a program in files of 1.8's format, and models for inference. A program."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import FluidError, bad
from umiak.fluid.record.program import Block, Parameter, RecordedProgram, Variable
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line
from umiak.fluid.running import jobs
from umiak.fluid.running.compiled import CompiledProgram
from umiak.fluid.running.scope import global_scope
from umiak.fluid.saving import exporting, record_text, state_files, tensor_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.fluid.arguments import (
        AnyProgram,
        Arguments,
        Folder,
        Input,
        Inputs,
        Names,
        Outputs,
        Reader,
        Value,
    )


def is_parameter(var: Input) -> bool:
    """Whether it is learned."""
    return isinstance(var, Parameter)


def is_persistable(var: Input) -> bool:
    """Whether it stays from one run to the next."""
    return bool(var.persistable)


def is_belong_to_optimizer(var: Input) -> bool:
    """Whether an optimizer keeps it."""
    return is_persistable(var) and not is_parameter(var)


def get_program_parameter(program: RecordedProgram) -> Outputs:
    """All parameters."""
    return program.all_parameters()


def get_program_persistable_vars(program: RecordedProgram) -> Outputs:
    """All that stays."""
    return [each for each in program.list_vars() if is_persistable(each)]


def _program(given: Value) -> RecordedProgram:
    program = (
        default_main_program() if given is None else given.program if isinstance(given, CompiledProgram) else given
    )
    if not isinstance(program, RecordedProgram):
        raise bad("UM-FLUID-001", f"expected a Program, got {program!r}", where=user_line())
    return program


# ---- variables in files


def save_vars(executor: object, dirname: Folder, main_program: AnyProgram = None, vars: Inputs = None, predicate: Callable[[Any], bool] | None = None, filename: str | None = None) -> Any:  # fmt: skip
    """A file for each variable, or all in one."""
    chosen = _chosen(_program(main_program), vars, predicate)
    contents = {name: tensor_file.packed(array) for name, array in _values(_program(main_program), chosen).items()}
    if dirname is None:
        return b"".join(contents[name] for name in sorted(contents))
    folder = Path(dirname)
    folder.mkdir(parents=True, exist_ok=True)
    if filename is not None:
        (folder / filename).write_bytes(b"".join(contents[name] for name in sorted(contents)))
        return None
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return None


def load_vars(executor: object, dirname: Folder, main_program: AnyProgram = None, vars: Inputs = None, predicate: Callable[[Any], bool] | None = None, filename: str | None = None) -> None:  # fmt: skip
    """The same read: files of 1.8 as well."""
    program = _program(main_program)
    elsewhere = _elsewhere(program)
    chosen = [each for each in _chosen(program, vars, predicate) if each.name not in elsewhere]
    folder = Path(dirname)
    if filename is not None:
        content, place = _content(folder / filename), 0
        for each in sorted(chosen, key=lambda one: one.name):
            array, place = _array(content, place, folder / filename)
            _set(each, array, folder / filename)
        return
    for each in chosen:
        array, _ = _array(_content(folder / each.name), 0, folder / each.name)
        _set(each, array, folder / each.name)


def _chosen(program: RecordedProgram, given: Value, predicate: Callable[[Any], bool] | None) -> Outputs:
    if given is not None:
        return [program.global_block().var(each) if isinstance(each, str) else each for each in given]
    variables = {each.name: each for each in program.list_vars() if predicate is None or predicate(each)}
    return list(variables.values())


def _elsewhere(program: RecordedProgram) -> frozenset[str]:
    """Variables that servers keep, in a job that has some."""
    runner = jobs.runner_of(program, global_scope())
    return getattr(runner, "elsewhere", frozenset())


def _values(program: RecordedProgram, chosen: Outputs) -> Arguments:
    """Numbers by name: of the scope, or of servers, in a job that has some."""
    runner: Any = jobs.runner_of(program, global_scope())
    elsewhere = _elsewhere(program)
    names = [each.name for each in chosen if each.name not in elsewhere]
    values: Arguments = runner.values(names) if hasattr(runner, "values") else {}
    return {name: values[name] if name in values else _value(name) for name in names}


def _value(name: str) -> Any:
    tensor = global_scope().tensors.get(name)
    if tensor is None:
        raise bad(
            "UM-FLUID-005", f"{name} has no value in this scope", "run the startup program first", where=user_line()
        )
    return tensor.numpy()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise bad("UM-FLUID-007", f"can't read {path}", why=error.strerror, where=user_line()) from None


def _array(content: bytes, place: int, path: Path) -> tuple[Any, int]:
    try:
        return tensor_file.unpacked(content, place)
    except ValueError as error:
        raise bad("UM-FLUID-007", f"can't read {path}", why=str(error), where=user_line()) from None


def _set(variable: Input, array: Value, path: Folder) -> None:
    wrong = len(array.shape) != len(variable.shape) or any(
        size not in (-1, own) for own, size in zip(array.shape, variable.shape, strict=False)
    )
    if wrong:
        what = f"{path}: {variable.name} has the shape {list(array.shape)}, the program's is {list(variable.shape)}"
        raise bad("UM-FLUID-007", what, where=user_line())
    known = global_scope().tensors.get(variable.name)
    if known is not None and known.shape == list(array.shape) and str(known.dtype).endswith(str(array.dtype)):
        with paddle.no_grad():
            known.set_value(array)
        return
    global_scope().tensors[variable.name] = paddle.to_tensor(array)


def save_params(executor: object, dirname: Folder, main_program: AnyProgram = None, filename: str | None = None) -> Any:
    """All parameters."""
    return save_vars(executor, dirname, main_program, None, is_parameter, filename)


def load_params(
    executor: object, dirname: Folder, main_program: AnyProgram = None, filename: str | None = None
) -> None:
    """All parameters."""
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def save_persistables(
    executor: object, dirname: Folder, main_program: AnyProgram = None, filename: str | None = None
) -> Any:
    """Parameters, and what optimizers and normalizations keep."""
    return save_vars(executor, dirname, main_program, None, is_persistable, filename)


def load_persistables(
    executor: object, dirname: Folder, main_program: AnyProgram = None, filename: str | None = None
) -> None:
    """Parameters, and what optimizers and normalizations keep."""
    load_vars(executor, dirname, main_program, None, is_persistable, filename)


# ---- all in two files


def save(program: AnyProgram, model_path: str) -> None:
    """`PATH.pdparams` with the parameters, `PATH.pdopt` with the rest."""
    program = _program(program)
    Path(model_path).parent.mkdir(parents=True, exist_ok=True)
    for ending, predicate in ((".pdparams", is_parameter), (".pdopt", is_belong_to_optimizer)):
        paddle.save(_values(program, _chosen(program, None, predicate)), f"{model_path}{ending}")


def load_program_state(model_path: str, var_list: Inputs = None) -> Arguments:
    """Arrays by name: of `save`, or of a folder with a file for each variable."""
    if os.path.isdir(model_path):
        names = [each.name for each in var_list] if var_list else sorted(os.listdir(model_path))
        state = {}
        for name in names:
            content = _content(Path(model_path) / name)
            try:
                state[name] = tensor_file.unpacked(content)[0]
            except ValueError:
                if var_list:
                    raise
        return state
    base = str(model_path).removesuffix(".pdparams").removesuffix(".pdopt")
    state = {}
    for ending in (".pdparams", ".pdopt"):
        loaded = state_files.read(base + ending)
        if loaded is not None:
            state |= {name: np.asarray(each) for name, each in state_files.without_names(loaded).items()}
    if not state:
        raise bad("UM-FLUID-007", f"expected {base}.pdparams, found nothing", where=user_line())
    return state


def set_program_state(program: AnyProgram, state_dict: Arguments) -> None:
    """Give variables of a program these values; names it does not have are left."""
    elsewhere = _elsewhere(_program(program))
    for each in _chosen(_program(program), None, is_persistable):
        if each.name in state_dict and each.name not in elsewhere:
            _set(each, np.asarray(state_dict[each.name]), "state_dict")


def load(program: AnyProgram, model_path: str, executor: object = None, var_list: Inputs = None) -> None:
    """What `save` has saved, or `save_params` and `save_persistables`."""
    program = _program(program)
    state = load_program_state(model_path, var_list)
    wanted = var_list or _chosen(program, None, is_parameter)
    missing = [each.name for each in wanted if each.name not in state]
    if missing:
        raise bad("UM-FLUID-007", f"{model_path} has no {', '.join(missing)}", where=user_line())
    set_program_state(program, state)


# ---- models for inference


def save_inference_model(dirname: Folder, feeded_var_names: Names, target_vars: Inputs, executor: object, main_program: AnyProgram = None, model_filename: str | None = None, params_filename: str | None = None, export_for_deployment: bool = True, program_only: bool = False) -> list[str]:  # fmt: skip
    """What leads from the fed variables to the targets, as `load_inference_model` reads it."""
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
    targets = list(target_vars) if isinstance(target_vars, list | tuple) else [target_vars]
    names = [each if isinstance(each, str) else each.name for each in targets]
    pruned = _pruned(_program(main_program).clone(for_test=True), feeds, names)
    folder = Path(dirname)
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / (model_filename or "__model__")
    if not program_only:
        save_persistables(executor, dirname, pruned, params_filename)
    reason = (
        _exported(pruned, feeds, names, model, params_filename) if export_for_deployment and not program_only else ""
    )
    model.write_text(record_text.written(pruned, feeds, names, reason), encoding="utf-8")
    return names


def _exported(program: RecordedProgram, feeds: list[str], names: list[str], model: Path, one_file: str | None) -> str:
    """Write the model for `paddle.inference` as well; if that can't be, a warning, and the reason."""
    try:
        exporting.write(program, feeds, names, model, model.parent / one_file if one_file else None)
    except FluidError as error:
        (problem,) = error.problems
        where = f"{problem.where}: " if problem.where else ""
        reason = f"{where}{problem.what}: {problem.why}"
        warnings.warn(f"save_inference_model: {reason}; {problem.hint}", stacklevel=3)
        return reason
    return ""


def _pruned(program: RecordedProgram, feeds: list[str], names: list[str]) -> RecordedProgram:
    block = program.global_block()
    wanted, kept = set(names), []
    for operation in reversed(block.ops):
        inside = any(key in operation.arguments for key in ("block", "blocks"))
        if inside or (wanted & set(operation.outputs) and not set(operation.outputs) <= set(feeds)):
            kept.append(operation)
            wanted.update(operation.input_names)
    block.ops = kept[::-1]
    unfed = [name for name in wanted if block.has_var(name) and block.vars[name].is_data and name not in feeds]
    if unfed:
        hint = "name them in feeded_var_names, or choose targets that don't need them"
        raise bad(
            "UM-FLUID-007",
            f"{', '.join(names)} needs {', '.join(sorted(unfed))}, which is not fed",
            hint,
            where=user_line(),
        )
    if len(program.blocks) == 1:
        used = wanted | {name for each in block.ops for name in each.outputs}
        block.vars = {name: each for name, each in block.vars.items() if name in used}
    _without_samples(program.blocks)
    return program


def _without_samples(blocks: list[Block]) -> None:
    for block in blocks:
        for each in block.vars.values():
            each.samples = None


def load_inference_model(dirname: Folder, executor: object, model_filename: str | None = None, params_filename: str | None = None, pserver_endpoints: object = None) -> Outputs:  # fmt: skip
    """The program, the names that it is fed with, and its targets."""
    left_out("io.load_inference_model", pserver_endpoints=pserver_endpoints)
    content = _content(Path(dirname) / (model_filename or "__model__"))
    program, feeds, names = record_text.read(content.decode("utf-8", "replace"))
    load_persistables(executor, dirname, program, params_filename)
    targets: list[Variable | None] = [program.global_block().find(name) for name in names]
    return [program, feeds, targets]


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Any:
    """`paddle.batch`: a reader of lists of rows."""
    return paddle.batch(reader, batch_size, drop_last)
