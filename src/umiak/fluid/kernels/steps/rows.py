"""Blocks over sequences, and rows divided by a condition: what DynamicRNN and IfElse run. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import Frame, Tensor, kernel, level_of
from umiak.fluid.kernels.sequences import lengths_of
from umiak.fluid.kernels.steps.recurrent import behind_one_another

if TYPE_CHECKING:
    from umiak.fluid.arguments import Outputs, Results


def order_of(offsets: tuple[int, ...]) -> Any:
    """The numbers of sequences, the longest first."""
    return np.argsort(-np.asarray(lengths_of(offsets)), kind="stable")


def chosen(tensor: Tensor, levels: tuple[tuple[int, ...], ...], numbers: Any) -> tuple[Tensor, list[list[int]]]:
    """Some sequences of the first level in an order, or some rows, and their offsets."""
    begins, ends = numbers, np.asarray(numbers) + 1
    output = []
    for level in levels:
        output.append(
            np.cumsum([0, *[level[end] - level[begin] for begin, end in zip(begins, ends, strict=True)]]).tolist()
        )
        rows = [np.arange(level[begin], level[end]) for begin, end in zip(begins, ends, strict=True)]
        begins = np.concatenate(rows).astype(np.int64) if rows else np.zeros(0, np.int64)
        ends = begins + 1
    return paddle.gather(tensor, paddle.to_tensor(np.asarray(begins, np.int64))), output


def _put(frame: Frame, name: str, tensor: Tensor, levels: Any) -> None:
    frame.values[name] = tensor
    frame.offsets.pop(name, None)
    if levels:
        frame.offsets[name] = tuple(level_of(each) for each in levels)


@kernel(sequences=True)
def dynamic_rnn(frame: Frame, inputs: list[Tensor], statics: list[Tensor], initial: list[Any], block: int, levels: list[int], steps: list[str], shown: list[str], memories: list[list[str]], fills: list[Any], results: list[str]) -> Outputs:  # fmt: skip
    """The block for each item of the sequences: all that are long enough make a step together, the longest first."""
    of_inputs, of_statics = (
        [frame.offsets.get(each.name, ()) for each in frame.operation.arguments[key]] for key in ("inputs", "statics")
    )
    level = levels[0]
    if len(of_inputs[0]) <= level:
        raise ValueError(f"{frame.operation.arguments['inputs'][0].name} has no sequences of level {level}")
    lengths = np.asarray(lengths_of(of_inputs[0][level]))
    if any(len(own) <= level or lengths_of(own[level]) != lengths.tolist() for own in of_inputs):
        raise ValueError("the inputs' sequences differ in length")
    order = order_of(of_inputs[0][level])
    held = [_first(each, fill, order, inputs[0]) for each, fill in zip(initial, fills, strict=True)]
    outputs: list[Outputs] = [[] for _ in results]
    rows_made: list[Any] = []
    for step in range(int(lengths.max(initial=0))):
        there = order[lengths[order] > step]
        for name, tensor, own in zip(steps, inputs, of_inputs, strict=True):
            items = np.asarray(own[level])[there] + step
            _put(frame, name, *chosen(tensor, own[level + 1 :], items))
        for name, tensor, own in zip(shown, statics, of_statics, strict=True):
            _put(frame, name, *chosen(tensor, own, there))
        for (name, _), tensor in zip(memories, held, strict=True):
            _put(frame, name, tensor[: len(there)], ())
        assert frame.run_block
        frame.run_block(block)
        held = [frame.values[new] for _, new in memories]
        rows_made.append((len(there), np.asarray(of_inputs[0][level])[there] + step))
        for output, name in zip(outputs, results, strict=True):
            output.append(frame.values[name])
            if len(output[-1]) != len(there):
                raise ValueError(f"an output of {len(output[-1])} rows for {len(there)} sequences")
    if not rows_made:
        raise ValueError("all sequences are empty")
    for number in range(len(results)):
        frame.set_offsets(*of_inputs[0][: level + 1], output=number)
    return [behind_one_another(output, rows_made, int(lengths.sum())) for output in outputs]


def _first(given: Tensor, fill: Any, order: Any, like: Tensor) -> Tensor:
    """The first value of a memory: a tensor, in its own order or in that of the steps, or one value for each sequence."""
    if given is None:
        shape, value, dtype = fill
        return paddle.full([len(order), *shape], value, dtype or like.dtype)
    return paddle.gather(given, paddle.to_tensor(order)) if fill else given


@kernel(sequences=True, shapes=lambda **_given: [((-1,), "int64", 0)])
def lod_rank_table(frame: Frame, x: Tensor, level: int) -> Tensor:
    """The numbers of the sequences of `x`, the longest first."""
    return paddle.to_tensor(order_of(frame.offsets_of("x", level=level)).astype(np.int64))


def _same_shapes(x: Tensor, **_settings: Any) -> Results:
    return [((-1, *x.shape[1:]), x.dtype, x.lod_level)]


@kernel(sequences=True, shapes=_same_shapes)
def reorder_lod_tensor_by_rank(frame: Frame, x: Tensor, rank_table: Tensor) -> Tensor:
    """The sequences of `x`, or its rows, in the order of a table."""
    output, levels = chosen(x, frame.all_offsets("x"), rank_table.numpy())
    frame.set_offsets(*levels)
    return output


def _both_shapes(x: Tensor, **_settings: Any) -> Results:
    return _same_shapes(x) * 2


@kernel(sequences=True, shapes=_both_shapes)
def split_rows(frame: Frame, x: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of `x`, or its sequences, for which a condition holds, and the others."""
    holds = condition.numpy().reshape(-1).astype(bool)
    sides = []
    for output, numbers in enumerate((np.flatnonzero(holds), np.flatnonzero(~holds))):
        found, levels = chosen(x, frame.all_offsets("x"), numbers)
        frame.set_offsets(*levels, output=output)
        sides.append(found)
    return sides[0], sides[1]


def _merged_shapes(true: Tensor, false: Tensor, condition: Tensor) -> Results:
    return [((-1, *true.shape[1:]), true.dtype, true.lod_level)]


@kernel(sequences=True, shapes=_merged_shapes)
def merge_rows(frame: Frame, true: Tensor, false: Tensor, condition: Tensor) -> Tensor:
    """Both together again, in the order of the condition."""
    holds = condition.numpy().reshape(-1).astype(bool)
    places = np.where(holds, np.cumsum(holds) - 1, holds.sum() + np.cumsum(~holds) - 1)
    sides = [frame.all_offsets(name) for name in ("true", "false")]
    joined = []
    for left, right in zip(*sides, strict=True):
        joined.append((*left, *[left[-1] + each for each in right[1:]]))
    output, levels = chosen(paddle.concat([true, false], 0), tuple(joined), places)
    frame.set_offsets(*levels)
    return output
