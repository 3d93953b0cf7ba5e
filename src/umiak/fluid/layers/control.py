"""Control flow: blocks of operations that are recorded once and run by a condition. A program."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from umiak.fluid.layers import basics, rows
from umiak.fluid.record import naming
from umiak.fluid.record.current import default_main_program, in_dygraph_mode
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import FORWARD, Variable
from umiak.fluid.record.recording import append_plain, apply
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umiak.fluid.arguments import DType, Function, Input, Inputs, Output, Outputs, Shape, Value


@contextmanager
def _block() -> Iterator[Any]:
    program = default_main_program()
    block = program.new_block()
    try:
        yield block
    finally:
        program.leave_block()


class Switch:
    """The first case whose condition holds, otherwise the default. Cases write variables that are there before."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._none_before: Any = None

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    @contextmanager
    def case(self, condition: Input) -> Iterator[None]:
        """A case."""
        before = self._none_before
        wanted = condition if before is None else rows.call("logical_and", before, condition)
        against = rows.call("logical_not", condition)
        self._none_before = against if before is None else rows.call("logical_and", before, against)
        with _block() as block:
            yield
        append_plain("run_if", {"condition": wanted, "block": block.idx}, [], role=FORWARD)

    @contextmanager
    def default(self) -> Iterator[None]:
        """Otherwise."""
        if self._none_before is None:
            raise bad("UM-FLUID-001", "Switch: default() before any case()", where=user_line())
        with _block() as block:
            yield
        append_plain("run_if", {"condition": self._none_before, "block": block.idx}, [], role=FORWARD)


class While:
    """A block again and again, as long as a variable is true; the block writes it."""

    def __init__(self, cond: Input, is_test: bool = False, name: str | None = None) -> None:
        self._condition = cond

    @contextmanager
    def block(self) -> Iterator[None]:
        """What is repeated."""
        with _block() as block:
            yield
        arguments = {"condition": self._condition, "block": block.idx, "name": self._condition.name}
        append_plain("loop", arguments, [], role=FORWARD)


def _flat(found: Any) -> Outputs:
    if found is None:
        return []
    return [one for each in found for one in _flat(each)] if isinstance(found, list | tuple) else [found]


def _like(found: Any, flat: Iterator[Any]) -> Output:
    return type(found)(_like(each, flat) for each in found) if isinstance(found, list | tuple) else next(flat)


def cond(pred: Input, true_fn: Callable[[], Any] | None = None, false_fn: Callable[[], Any] | None = None, name: str | None = None) -> Output:  # fmt: skip
    """What one function returns or the other; both are recorded."""
    if in_dygraph_mode():
        function = true_fn if bool(pred) else false_fn
        return function() if function else None
    blocks, results = [], []
    for function in (true_fn, false_fn):
        with _block() as block:
            results.append(function() if function else None)
        blocks.append(block.idx)
    flat = [_flat(each) for each in results]
    if len(flat[0]) != len(flat[1]):
        what = f"cond: one function returns {len(flat[0])} variables, the other {len(flat[1])}"
        raise bad("UM-FLUID-002", what, where=user_line())
    block = default_main_program().current_block()
    outputs = [_twin(block, each, "cond", other) for each, other in zip(*flat, strict=True)]
    arguments = {"condition": pred, "blocks": blocks, "results": [[each.name for each in side] for side in flat]}
    append_plain("cond", arguments, outputs, role=FORWARD)
    return _like(results[0], iter(outputs)) if results[0] is not None else None


def _twin(block: Any, variable: Input, kind: str, other: Input = None) -> Variable:
    """A variable of the block around with the shape of one inside."""
    shape = variable.shape
    if other is not None and tuple(other.shape) != tuple(shape):
        same = len(shape) == len(other.shape)
        shape = tuple(a if a == b else -1 for a, b in zip(shape, other.shape, strict=True)) if same else (-1,)
    new = Variable(block, naming.generate(f"{kind}.tmp"), shape, variable.dtype, lod_level=variable.lod_level)
    block.add(new)
    return new


def case(pred_fn_pairs: Any, default: Any = None, name: str | None = None) -> Output:
    """The first function whose condition holds."""
    (condition, function), *others = pred_fn_pairs
    if others:
        return cond(condition, function, lambda: case(others, default), name)
    return cond(condition, function, default, name) if default is not None else function()


def switch_case(branch_index: Input, branch_fns: Any, default: Any = None, name: str | None = None) -> Output:
    """The function with this number."""
    pairs = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    pairs = [each if isinstance(each, tuple | list) else (place, each) for place, each in enumerate(pairs)]
    conditions = [
        (rows.call("equal", branch_index, basics.fill_constant([1], branch_index.dtype, number)), function)
        for number, function in sorted(pairs, key=lambda pair: int(pair[0]))
    ]
    return case(conditions, default or conditions[-1][1], name)


def while_loop(
    cond: Input, body: Function, loop_vars: Inputs, is_test: bool = False, name: str | None = None
) -> Output:
    """The body's results in place of the variables, as long as the condition of them holds."""
    if in_dygraph_mode():
        while bool(cond(*loop_vars)):
            outputs = body(*loop_vars)
            loop_vars = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        return loop_vars
    held = [apply("assign", {"input": each}) for each in loop_vars]
    going = cond(*held)
    loop = While(going)
    with loop.block():
        outputs = body(*held)
        for each, new in zip(held, outputs if isinstance(outputs, list | tuple) else [outputs], strict=True):
            apply("assign", {"input": new}, out=each)
        apply("assign", {"input": cond(*held)}, out=going)
    return held


class StaticRNN:
    """A block for each step of the first dimension of its inputs."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._inputs: Outputs = []
        self._steps: Outputs = []
        self._memories: list[Outputs] = []
        self._results: Outputs = []
        self._outputs: Outputs = []

    @contextmanager
    def step(self) -> Iterator[None]:
        """What one step does."""
        with _block() as block:
            yield
        around = default_main_program().current_block()
        for each in self._results:
            length = self._inputs[0].shape[0]
            new = Variable(around, naming.generate("static_rnn.tmp"), (length, *each.shape), each.dtype)
            self._outputs.append(around.add(new))
        arguments = {
            "inputs": self._inputs,
            "initial": [initial for _, _, initial in self._memories],
            "block": block.idx,
            "steps": [each.name for each in self._steps],
            "memories": [[held.name, new.name] for held, new, _ in self._memories],
            "results": [each.name for each in self._results],
        }
        append_plain("static_rnn", arguments, self._outputs, role=FORWARD)

    def step_input(self, x: Input) -> Output:
        """One step of an input."""
        block = default_main_program().current_block()
        step = Variable(block, naming.generate("static_rnn.step"), x.shape[1:], x.dtype)
        self._inputs.append(x)
        self._steps.append(block.add(step))
        return step

    def memory(self, init: Input = None, shape: Shape = None, batch_ref: Input = None, init_value: float = 0.0, init_batch_dim_idx: int = 0, ref_batch_dim_idx: int = 1) -> Output:  # fmt: skip
        """What a step hands to the next one."""
        program = default_main_program()
        block = program.current_block()
        if init is None:
            program.current_block_idx = block.parent_idx
            source = next(
                (each for each, step in zip(self._inputs, self._steps, strict=True) if step is batch_ref), batch_ref
            )
            sizes = [1 if size < 0 else size for size in shape]
            arguments = (source, sizes, source.dtype, init_value, ref_batch_dim_idx, init_batch_dim_idx)
            init = rows.call("fill_constant_batch_size_like", *arguments)
            program.current_block_idx = block.idx
        held = block.add(Variable(block, naming.generate("static_rnn.mem"), init.shape, init.dtype))
        self._memories.append([held, held, init])
        return held

    def update_memory(self, mem: Input, var: Input) -> None:
        """What the next step is handed."""
        for each in self._memories:
            if each[0] is mem:
                each[1] = var

    def step_output(self, o: Input) -> None:
        """A result of each step."""
        self._results.append(o)

    def output(self, *outputs: Inputs) -> None:
        """Several of them."""
        for each in outputs:
            self.step_output(each)

    def __call__(self) -> Output:
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs


# ---- arrays


def create_array(dtype: DType) -> Output:
    """An array without tensors."""
    return default_main_program().current_block().create_var(naming.generate("array"), (), str(dtype))


def array_write(x: Input, i: Input, array: Value = None) -> Output:
    """A tensor at a place of an array."""
    block = default_main_program().current_block()
    new = array is None
    if new:
        array = create_array(x.dtype)
    written = any(array.name in op.outputs for each in block.program.blocks for op in each.ops)
    array.element = x  # for the shape of what is read
    append_plain("array_write", {"x": x, "i": i, "array": array if written else None}, [array], role=FORWARD)
    return array


def array_read(array: Value, i: Input) -> Output:
    """The tensor at a place of an array."""
    block = default_main_program().current_block()
    element = _twin(block, array.element, "array_read")
    append_plain("array_read", {"array": array, "i": i}, [element], role=FORWARD)
    return element


def array_length(array: Value) -> Output:
    """How many there are."""
    block = default_main_program().current_block()
    length = block.create_var(naming.generate("array_length.tmp"), (1,), "int64", stop_gradient=True)
    append_plain("array_length", {"array": array}, [length], role=FORWARD)
    return length
