"""Replays a program with Paddle's dynamic graph: operation by operation, values by name. A program.

What can be prepared once for all runs of a program is a list of `ReplayStep`s: kernels, the arguments that are no variables, and where
the others come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.nn import functional

from umiak.fluid.kernels.registry import KERNELS, UNREAD, Frame, hand_on_offsets
from umiak.fluid.record.problems import EOFException, FluidError, bad, cause
from umiak.fluid.record.program import BACKWARD, FORWARD, Parameter, Ref, references
from umiak.fluid.record.trials import filled
from umiak.fluid.running import fusing, joining, measuring, slots

if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.fluid.arguments import Argument, Feed
    from umiak.fluid.record.program import RecordedOperation, RecordedProgram
    from umiak.fluid.running.scope import VariableScope


class ReplayStep:
    """One operation, prepared."""

    __slots__ = (
        "clips",
        "constants",
        "detached",
        "frame",
        "fresh",
        "function",
        "inputs",
        "kept",
        "lists",
        "nested",
        "operation",
        "outputs",
        "sequences",
        "simple",
    )

    def __init__(self, operation: RecordedOperation, program: RecordedProgram, block: int) -> None:
        kernel = KERNELS[operation.type]
        self.operation, self.function = operation, kernel.function
        self.frame, self.sequences = kernel.frame, kernel.sequences
        self.outputs = operation.outputs
        arguments = operation.arguments
        self.simple = [(key, each.name) for key, each in arguments.items() if isinstance(each, Ref)]
        nested = [(key, each) for key, each in arguments.items() if not isinstance(each, Ref) and references(each)]
        self.lists = [(key, [one.name for one in each]) for key, each in nested if _is_list(each)]
        self.nested = [(key, each) for key, each in nested if not _is_list(each)]
        known = {key for key, _ in (*self.simple, *nested)}
        self.constants = {key: each for key, each in arguments.items() if key not in known}
        self.inputs = operation.input_names
        self.fresh = [name for name in self.outputs if name not in self.inputs]
        variables = [program.blocks[block].find(name) for name in self.outputs]
        self.kept = [
            name for name, each in zip(self.outputs, variables, strict=True) if each is not None and each.persistable
        ]
        learns = operation.role == FORWARD
        self.clips = [
            (name, each.error_clip.min, each.error_clip.max)
            for name, each in zip(self.outputs, variables, strict=True)
            if learns and each is not None and each.error_clip is not None
        ]
        self.detached = [
            name
            for name, each in zip(self.outputs, variables, strict=True)
            if learns
            and each is not None
            and each.stop_gradient
            and not each.persistable
            and each.dtype.startswith("float")
        ]

    def compute(self, frame: Frame) -> Any:
        """What the operation gives."""
        values = frame.values
        try:
            arguments = self.constants.copy()
            for key, name in self.simple:
                arguments[key] = values[name]
            for key, names in self.lists:
                arguments[key] = [values[name] for name in names]
            for key, argument in self.nested:
                arguments[key] = filled(argument, values)
            if self.frame:
                frame.operation = self.operation
                return self.function(frame, **arguments)
            return self.function(**arguments)
        except (EOFException, FluidError):
            raise
        except Exception as error:
            wanted = error.args[0] if isinstance(error, KeyError) and error.args else None
            if wanted in self.inputs and wanted not in values:
                raise missing(self.operation, wanted) from None
            raise failed(self.operation, values, error) from error


def _is_list(argument: Argument) -> bool:
    """Whether it is a plain list of variables."""
    return isinstance(argument, list) and all(isinstance(each, Ref) for each in argument)


class FusedStep(ReplayStep):
    """Several lookups of one table."""

    __slots__ = ("group",)

    def __init__(self, group: fusing.FusibleLookups) -> None:
        steps = group.steps
        self.group, self.operation, self.function = group, steps[0].operation, steps[0].function
        self.frame, self.sequences, self.kept = False, True, []  # it hands on the sequences itself
        self.inputs = [name for step in steps for name in step.inputs]
        self.outputs = tuple(name for step in steps for name in step.outputs)
        self.fresh = list(self.outputs)
        self.clips = [clip for step in steps for clip in step.clips]
        self.detached = [name for step in steps for name in step.detached]
        self.simple, self.lists, self.nested, self.constants = [], [], [], {}

    def compute(self, frame: Frame) -> Any:
        """The rows of all."""
        try:
            return fusing.looked_up(self.group, frame)
        except Exception:  # noqa: BLE001 - by themselves each of them works, or says what is wrong with it
            return fusing.one_by_one(self.group, frame)


class JoinedStep(ReplayStep):
    """Slots of one table side by side: `joining`."""

    __slots__ = ("are_sequences", "chains", "ids", "levels", "sources")

    def __init__(self, operation: RecordedOperation, program: RecordedProgram) -> None:
        super().__init__(operation, program, 0)
        arguments = operation.arguments
        self.ids = [each.name for each in arguments["ids"]]
        self.sources = with_fused_lookups([ReplayStep(each, program, 0) for each in arguments["sources"]])
        chains = arguments["chains"]
        self.chains = [ReplayStep(each, program, 0) for chain in chains for each in chain]
        self.levels = [sum(each.type in joining.POOLS for each in chain) for chain in chains]
        self.are_sequences = all(each == 1 for each in self.levels)

    def compute(self, frame: Frame) -> Any:
        """The columns of all slots, and the rows that their gradients go to."""
        table = self.operation.arguments["table"]
        matrix = self._matrix(frame)
        if matrix is not None and table is not None:
            return self._pulled(frame, matrix)
        if matrix is not None:
            try:
                return self._looked_up(frame, matrix)
            except Exception:  # noqa: BLE001, S110 - one by one they say what is wrong
                pass
        arrays = self._arrays(frame)
        if table is not None:
            return self._pulled_apart(frame, arrays)
        for name in self.ids:
            if name in frame.arrays:
                frame.values[name] = paddle.to_tensor(frame.arrays[name])
        _run(self.sources, frame, None)
        columns = self._columns(frame)
        return columns, columns

    def _matrix(self, frame: Frame) -> Any:
        """The ids of all slots, a row for each sample; None if one of them has another number of ids."""
        if self.are_sequences and all(name in frame.slots for name in self.ids):
            matrix = slots.together([frame.slots[name] for name in self.ids])
            if matrix is not None:
                return matrix
        arrays = self._arrays(frame)
        return np.stack([each.reshape(-1) for each in arrays], 1) if self._is_one_each(frame, arrays) else None

    def _arrays(self, frame: Frame) -> list[Any]:
        """The ids of each slot."""
        for name in self.ids:
            if name in frame.slots:
                given = frame.slots.pop(name).sequences()
                frame.arrays[name], frame.offsets[name] = np.asarray(given), given.levels
            elif name not in frame.arrays and name not in frame.values:
                raise missing(next(each.operation for each in self.sources if name in each.inputs), name)
        return [frame.arrays[name] if name in frame.arrays else frame.values[name].numpy() for name in self.ids]

    def _is_one_each(self, frame: Frame, arrays: list[Any]) -> bool:
        """Whether each sample has one id in each slot."""
        size = len(arrays[0]) if arrays[0].ndim else 0
        for name, array, wanted in zip(self.ids, arrays, self.levels, strict=True):
            levels = frame.offsets.get(name, ())
            if not array.ndim or not size or array.shape[0] != size or array.size != size or len(levels) != wanted:
                return False
            if any(len(each) != size + 1 or not each.is_single for each in levels):
                return False
        return True

    def _looked_up(self, frame: Frame, matrix: Any) -> Any:
        arguments = self.operation.arguments
        ids = paddle.to_tensor(matrix.astype(np.int64, copy=False))
        looked_up = functional.embedding(ids, frame.values[arguments["weight"].name], sparse=arguments["is_sparse"])
        if arguments["padding_idx"] >= 0:
            looked_up = looked_up * (ids != arguments["padding_idx"]).astype(looked_up.dtype).unsqueeze(-1)
        columns = paddle.reshape(looked_up, [looked_up.shape[0], looked_up.shape[1] * looked_up.shape[2]])
        return columns, looked_up

    def _rows(self, frame: Frame, ids: Any) -> Any:
        """Rows of the table."""
        frame.operation = self.operation
        arguments = self.operation.arguments
        padding = None if arguments["padding_idx"] < 0 else arguments["padding_idx"]
        try:
            return frame.exchange.rows(arguments["table"], [ids], self.outputs[1:], padding)[0]
        except (EOFException, FluidError):
            raise
        except Exception as error:
            raise failed(self.sources[0].operation, frame.values, error) from error

    def _pulled(self, frame: Frame, matrix: Any) -> Any:
        rows = self._rows(frame, matrix)
        return paddle.reshape(rows, [rows.shape[0], rows.shape[1] * rows.shape[2]]), rows

    def _pulled_apart(self, frame: Frame, arrays: list[Any]) -> Any:
        arguments = self.operation.arguments
        rows = self._rows(frame, np.concatenate([each.reshape(-1) for each in arrays]))
        parts = paddle.split(rows, [each.size for each in arrays])
        drops = arguments["drops_last"]
        for name, ids, part, array, drop in zip(arguments["rows"], self.ids, parts, arrays, drops, strict=True):
            shape = array.shape[:-1] if drop and array.ndim > 1 and array.shape[-1] == 1 else array.shape
            frame.values[name] = paddle.reshape(part, [*shape, rows.shape[-1]])
            if ids in frame.offsets:
                frame.offsets[name] = frame.offsets[ids]
        return self._columns(frame), rows

    def _columns(self, frame: Frame) -> Any:
        """What comes of the rows of each slot, side by side."""
        _run(self.chains, frame, None)
        lasts = self.operation.arguments["lasts"]
        columns = paddle.concat([frame.values[name] for name in lasts], 1)
        hand_on_offsets(frame, lasts, [(self.outputs[0], columns)])
        return columns


def _step(operation: RecordedOperation, program: RecordedProgram, block: int) -> ReplayStep:
    return JoinedStep(operation, program) if operation.type == joining.JOINED else ReplayStep(operation, program, block)


def with_fused_lookups(steps: list[ReplayStep]) -> list[ReplayStep]:
    """The steps, with one in place of the lookups of each table."""
    first = {id(group.steps[0]): FusedStep(group) for group in fusing.groups(steps)}
    others = {id(step) for fused in first.values() for step in fused.group.steps[1:]}
    return [first.get(id(step), step) for step in steps if id(step) not in others]


class Prepared:
    """A program as lists of steps, one for each block, and what it keeps in the scope."""

    def __init__(self, program: RecordedProgram, *, joins: bool = False) -> None:
        """``joins``: slots that end side by side become one value."""
        self.version = program.version
        joined = joining.joined(program) if joins else None
        self.hidden: frozenset[str] = joined.hidden if joined else frozenset()
        """What the program writes, and this plan doesn't."""
        self.arrays: frozenset[str] = joined.arrays if joined else frozenset()
        """What is fed and not needed as a tensor."""
        all_ops = [joined.ops if joined else program.blocks[0].ops, *(block.ops for block in program.blocks[1:])]
        self.blocks = [[_step(each, program, idx) for each in ops] for idx, ops in enumerate(all_ops)]
        self.blocks[0] = with_fused_lookups(self.blocks[0])
        self.backwards = [number for number, step in enumerate(self.blocks[0]) if step.operation.role == BACKWARD]
        self.needs_graph = bool(self.backwards) or any(step.operation.type == "gradients" for step in self.blocks[0])
        self.last_backward = self.backwards[-1] if self.backwards else len(self.blocks[0])
        variables = [each for block in program.blocks for each in block.vars.values() if each.persistable]
        self.persistable = [(each.name, isinstance(each, Parameter) and each.trainable) for each in variables]
        steps = [step for steps in self.blocks for step in steps]
        read = {name for step in steps for name in step.inputs}
        written = {name for step in steps for name in step.outputs}
        self.ends = written - read - {name for step in steps for name in step.kept}
        """What no operation reads, and does not stay."""
        self.persistable = [each for each in self.persistable if each[0] in read or each[0] in written]


def prepared(
    program: RecordedProgram,
    cache: dict[tuple[int, bool], tuple[Any, Prepared]],
    fetched: Collection[str] | None = None,
) -> Prepared:
    """The steps of a program; made again when it has changed. ``fetched``: all that is asked for afterwards; None is anything."""
    if fetched is not None:
        plan = _prepared(program, cache, joins=True)
        if plan.hidden.isdisjoint(fetched):
            return plan
    return _prepared(program, cache, joins=False)


def _prepared(
    program: RecordedProgram, cache: dict[tuple[int, bool], tuple[Any, Prepared]], *, joins: bool
) -> Prepared:
    known = cache.get((id(program), joins))
    if known is None or known[0] is not program or known[1].version != program.version:
        cache[id(program), joins] = known = (program, Prepared(program, joins=joins))
    return known[1]


def replay(plan: Prepared, frame: Frame, scope: VariableScope) -> None:
    """Run all operations; `frame` has what was fed, and afterwards everything."""
    values = frame.values
    for name, learned in plan.persistable:
        tensor = scope.tensors.get(name)
        if tensor is not None:
            if learned and plan.needs_graph and tensor.stop_gradient:
                tensor.stop_gradient = False
            values[name] = tensor

    def run_block(number: int) -> None:
        operation = frame.operation
        _run(plan.blocks[number], frame, scope)
        frame.operation = operation

    frame.run_block = run_block
    steps = plan.blocks[0]
    if plan.needs_graph:
        end = plan.last_backward + 1
        with paddle.enable_grad():
            _run(steps[:end], frame, scope)
        steps = steps[end:]
    with paddle.no_grad():
        _run(steps, frame, scope)


def _run(steps: list[ReplayStep], frame: Frame, scope: VariableScope | None) -> None:
    values, offsets = frame.values, frame.offsets
    measured = measuring.current()
    for step in steps:
        begin = measured.now() if measured else 0.0
        if offsets:  # in a loop the outputs have those of the step before
            for name in step.fresh:
                offsets.pop(name, None)
        results = step.compute(frame)
        if measured:
            measured.add(step.operation.type, step.operation.site, begin)
        if results is UNREAD:
            continue
        _put(values, step.outputs, results)
        if offsets and not step.sequences:
            hand_on_offsets(frame, step.inputs, [(name, values[name]) for name in step.outputs])
        for name in step.detached:
            if not values[name].stop_gradient:
                values[name] = values[name].detach()
        for name, low, high in step.clips:
            if not values[name].stop_gradient:
                values[name] = _bounded(values[name], low, high)
        for name in step.kept:
            assert scope is not None
            _keep(scope, name, values[name])


def _put(values: Feed, outputs: tuple[str, ...], results: Any) -> None:
    if type(results) is tuple or type(results) is list:
        values.update(zip(outputs, results, strict=True))
    else:
        values[outputs[0]] = results


class _Bounded(paddle.autograd.PyLayer):  # type: ignore[misc]
    """A tensor whose gradient is kept between two bounds."""

    @staticmethod
    def forward(context: Any, tensor: Any, low: float, high: float) -> Any:
        context.low, context.high = low, high
        return paddle.assign(tensor)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return paddle.clip(gradient, context.low, context.high)


def _bounded(tensor: Any, low: float, high: float) -> Any:
    return _Bounded.apply(tensor, low, high)


def _keep(scope: VariableScope, name: str, tensor: Any) -> None:
    if scope.tensors.get(name) is not tensor:
        scope.tensors[name] = tensor.detach() if not tensor.stop_gradient else tensor


def missing(operation: RecordedOperation, name: str) -> FluidError:
    """A variable without a value."""
    what = f"fluid.layers.{operation.type} reads {name}, which has no value"
    return bad(
        "UM-FLUID-005", what, f"feed it, or run the startup program if {name} is a parameter", where=operation.site
    )


def failed(operation: RecordedOperation, values: Feed, error: BaseException) -> FluidError:
    """An operation that could not be computed, with what it was given."""
    shown = ", ".join(
        f"{name}: {str(values[name].dtype).removeprefix('paddle.')}{list(values[name].shape)}"
        for name in operation.input_names
        if hasattr(values.get(name), "dtype")
    )
    what = f"fluid.layers.{operation.type} failed on {shown or 'no inputs'}"
    return bad("UM-FLUID-002", what, why=cause(error), where=operation.site)
