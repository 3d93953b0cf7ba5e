"""Finds shapes and types of an operation's outputs: it is run twice, on samples of two and of three rows; what differs is -1. A program.

A variable keeps what it was in these trial runs, as long as that is small, so that what later operations see fits together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle

from umiak.fluid.kernels.registry import KERNELS, Frame, hand_on_offsets, level_of
from umiak.fluid.record.problems import FluidError, bad, cause
from umiak.fluid.record.program import Ref

if TYPE_CHECKING:
    from umiak.fluid.arguments import Argument, Arguments, Function, Output
    from umiak.fluid.record.program import RecordedOperation, Variable

ATTEMPTS = (((2, 2), (3, 3)), ((2, 1), (3, 1)), ((60, 1), (120, 1)), ((1, 1), (1, 1)))
"""Rows of a batch, and items of a sequence, in the two trial runs; the first pair that works is taken."""
KEPT = 1 << 16
"""Samples of more elements than this are not kept."""


class TrialSample:
    """A tensor of a trial run with its sequences."""

    __slots__ = ("offsets", "tensor")

    def __init__(self, tensor: Any, offsets: tuple[tuple[int, ...], ...] | None) -> None:
        self.tensor, self.offsets = tensor, offsets


class FoundOutput:
    """What is known of an output before the program has run."""

    def __init__(self, shape: tuple[int, ...], dtype: str, lod_level: int, samples: Any) -> None:
        self.shape, self.dtype, self.lod_level, self.samples = shape, dtype, lod_level, samples


_full: dict[tuple[tuple[int, ...], str], Any] = {}


def outcomes(operation: RecordedOperation, inputs: dict[str, Variable]) -> list[FoundOutput]:
    """Shape, type and sequences of each output."""
    kernel = KERNELS[operation.type]
    if kernel.shapes is not None:
        return _by_rule(kernel.shapes, operation, inputs)
    first: Exception | None = None
    for number, pair in enumerate(ATTEMPTS):
        try:
            two = [_trial(operation, inputs, number, side, sizes) for side, sizes in enumerate(pair)]
        except FluidError:
            raise
        except Exception as error:  # noqa: BLE001 - Paddle raises what it likes; said with the user's line below
            first = first or error
            if not any(-1 in each.shape for each in inputs.values()):
                break
            continue
        has_empty = any(0 in each.shape for each in inputs.values())
        return [_outcome(left, right, number, has_empty=has_empty) for left, right in zip(*two, strict=True)]
    if kernel.otherwise is not None and any(-1 in each.shape for each in inputs.values()):
        return _by_rule(kernel.otherwise, operation, inputs)
    raise _refused(operation, inputs, first) from None


def _by_rule(rule: Function, operation: RecordedOperation, inputs: dict[str, Variable]) -> list[FoundOutput]:
    """By shapes alone."""
    try:
        outcome = rule(**filled(operation.arguments, inputs))
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise _refused(operation, inputs, error) from None
    level = max((each.lod_level for each in inputs.values() if not each.persistable), default=0)
    return [FoundOutput(tuple(each[0]), each[1], each[2] if len(each) > 2 else level, None) for each in outcome]


def filled(argument: Argument, values: Arguments) -> Output:
    """Arguments with something in place of the references to variables."""
    if isinstance(argument, Ref):
        return values[argument.name]
    if isinstance(argument, list):
        return [filled(each, values) for each in argument]
    if isinstance(argument, tuple):
        return tuple(filled(each, values) for each in argument)
    if isinstance(argument, dict):
        return {key: filled(each, values) for key, each in argument.items()}
    return argument


def _trial(
    operation: RecordedOperation, inputs: dict[str, Variable], attempt: int, side: int, sizes: tuple[int, int]
) -> list[TrialSample]:
    frame = Frame({})
    frame.operation = operation
    for name, variable in inputs.items():
        sample = _sample(variable, attempt, side, sizes)
        frame.values[name] = sample.tensor
        if sample.offsets:
            frame.offsets[name] = tuple(level_of(each) for each in sample.offsets)
    kernel = KERNELS[operation.type]
    arguments = filled(operation.arguments, frame.values)
    with paddle.no_grad():
        results = kernel.function(frame, **arguments) if kernel.frame else kernel.function(**arguments)
    results = results if type(results) in (tuple, list) else (results,)
    if not kernel.sequences:
        hand_on_offsets(frame, inputs, zip(operation.outputs, results, strict=True))
    return [TrialSample(each, frame.offsets.get(name)) for name, each in zip(operation.outputs, results, strict=True)]


def _sample(variable: Variable, attempt: int, side: int, sizes: tuple[int, int]) -> TrialSample:
    kept = variable.samples
    if kept is not None and kept[0] == attempt:
        sample: TrialSample = kept[1][side]
        return sample
    rows, items = sizes
    offsets: tuple[tuple[int, ...], ...] = ()
    count = rows
    if variable.lod_level:
        inner = tuple(range(0, rows * items + 1, items))
        offsets = (*((tuple(range(rows + 1)),) * (variable.lod_level - 1)), inner)
        count = rows * items
    shape = tuple((count if place == 0 else rows) if size < 0 else size for place, size in enumerate(variable.shape))
    key = (shape, variable.dtype)
    if key not in _full:
        if len(_full) > 500:
            _full.clear()
        _full[key] = _half(shape, variable.dtype)
    return TrialSample(_full[key], offsets)


def _half(shape: tuple[int, ...], dtype: str) -> Output:
    return paddle.full(shape, 0.5 if dtype.startswith("float") else 0, dtype)


def _outcome(left: TrialSample, right: TrialSample, attempt: int, *, has_empty: bool) -> FoundOutput:
    shapes = (left.tensor.shape, right.tensor.shape)
    if 0 in shapes[1] and not has_empty and len(shapes[0]) == len(shapes[1]):
        # A part behind the few rows of the trial, such as the second half of a batch of 128: of a real batch it has rows.
        found = tuple(a if a == b != 0 else -1 for a, b in zip(*shapes, strict=True))
        return FoundOutput(found, dtype_of(left.tensor), len(left.offsets or ()), None)
    if len(shapes[0]) == len(shapes[1]):
        shape = tuple(a if a == b else -1 for a, b in zip(*shapes, strict=True))
    else:
        shape = (-1,) * max(map(len, shapes))
    size = 1
    for each in shapes[1]:
        size *= each
    samples = (attempt, (left, right)) if size <= KEPT else None
    return FoundOutput(shape, dtype_of(left.tensor), len(left.offsets or ()), samples)


def dtype_of(tensor: Any) -> str:
    """The type of a tensor as fluid writes it."""
    return str(tensor.dtype).removeprefix("paddle.").lower()


def _refused(operation: RecordedOperation, inputs: dict[str, Variable], error: Exception | None) -> FluidError:
    shown = "; ".join(str(each) for each in inputs.values())
    what = f"fluid.layers.{operation.type} does not fit its inputs: {shown or 'none'}"
    return bad(
        "UM-FLUID-002",
        what,
        "compare shapes and types with what this operation expects",
        why=cause(error or ValueError("?")),
        where=operation.site,
    )
