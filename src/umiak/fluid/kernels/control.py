"""Operations that run blocks of operations: conditions and loops, with those of Python. Also what prints and calls back. A program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import Frame, Tensor, kernel

if TYPE_CHECKING:
    from umiak.fluid.arguments import Function, Results


def _true(condition: Tensor) -> bool:
    return bool(condition.reshape([-1])[0].item())


@kernel(sequences=True)
def run_if(frame: Frame, condition: Tensor, block: int) -> list[Tensor]:
    """The block's operations, if the condition holds; they write variables of the block around."""
    if _true(condition):
        assert frame.run_block
        frame.run_block(block)
    return []


@kernel(sequences=True)
def cond(frame: Frame, condition: Tensor, blocks: list[int], results: list[list[str]]) -> list[Tensor]:
    """The results of one block or of the other."""
    side = 0 if _true(condition) else 1
    assert frame.run_block
    frame.run_block(blocks[side])
    return [frame.values[name] for name in results[side]]


@kernel(sequences=True)
def loop(frame: Frame, condition: Tensor, block: int, name: str) -> list[Tensor]:
    """The block again and again, as long as the variable is true; it writes variables of the block around."""
    going = _true(condition)
    while going:
        assert frame.run_block
        frame.run_block(block)
        going = _true(frame.values[name])
    return []


@kernel(sequences=True)
def static_rnn(frame: Frame, inputs: list[Tensor], initial: list[Tensor], block: int, steps: list[str], memories: list[list[str]], results: list[str]) -> list[Tensor]:  # fmt: skip
    """The block for each step of the first dimension; its results in a new first dimension."""
    held = list(initial)
    rows: list[list[Tensor]] = [[] for _ in results]
    for step in range(inputs[0].shape[0]):
        frame.values.update({name: each[step] for name, each in zip(steps, inputs, strict=True)})
        frame.values.update({names[0]: each for names, each in zip(memories, held, strict=True)})
        assert frame.run_block
        frame.run_block(block)
        held = [frame.values[names[1]] for names in memories]
        for output, name in zip(rows, results, strict=True):
            output.append(frame.values[name])
    return [paddle.stack(output, 0) for output in rows]


@kernel(sequences=True)
def array_write(frame: Frame, x: Tensor, i: Tensor, array: Any) -> Results:
    """A list with one more tensor, or another one at this place; what a run wrote before is in the frame."""
    known = frame.values.get(frame.operation.outputs[0])
    written = TensorArray(known or ())
    written.offsets = list(known.offsets) if known else []
    place = int(i.reshape([-1])[0].item())
    missing = place + 1 - len(written)
    written += [x] * missing
    written.offsets += [()] * missing
    written[place], written.offsets[place] = x, frame.all_offsets("x")
    return written


class TensorArray(list[Any]):
    """Tensors in a row with their sequences: what `array_write` writes."""

    dtype = "float32"
    shape = ()
    ndim = 0
    offsets: list[Any]


@kernel(sequences=True)
def array_read(frame: Frame, array: Any, i: Tensor) -> Tensor:
    """One of its tensors."""
    place = int(i.reshape([-1])[0].item())
    frame.set_offsets(*array.offsets[place])
    return array[place]


@kernel(sequences=True)
def array_length(frame: Frame, array: Any) -> Tensor:
    """How many there are."""
    return paddle.full([1], len(array), "int64")


_printed: dict[int, tuple[Any, int]] = {}
"""Operations that print a few times only, and how often each did."""


def _same_shape(input: Tensor, **_settings: Any) -> Results:
    return [(tuple(input.shape), input.dtype)]


@kernel(frame=True, shapes=_same_shape)
def print_(frame: Frame, input: Tensor, message: str | None, summarize: int, first_n: int, shown: list[str]) -> Tensor:  # fmt: skip
    """Says on stderr what a tensor is, and hands it on; nothing after the first so many times."""
    if first_n >= 0:
        times = _printed.get(id(frame.operation), (None, 0))[1]
        if times >= first_n:
            return input
        _printed[id(frame.operation)] = frame.operation, times + 1
    values = input.numpy().reshape(-1)
    values = values if summarize < 0 else values[:summarize]
    facts = {
        "name": frame.operation.arguments["input"].name if frame.operation else "",
        "lod": [list(level) for level in frame.all_offsets("input")] if frame.operation else [],
        "shape": list(input.shape),
        "type": str(input.dtype).removeprefix("paddle."),
    }
    parts = [f"{name}: {facts[name]}" for name in facts if name in shown and facts[name] not in ("", [])]
    sys.stderr.write("\t".join([message or "", *parts, f"data: {values.tolist()}"]) + "\n")
    return input


@kernel()
def py_func(x: Tensor, func: Function, shapes: list[Any]) -> Results:
    """A function of Python on arrays; no gradient goes through it."""
    output = func(*[each.numpy() for each in (x if isinstance(x, list | tuple) else [x])])
    output = output if isinstance(output, list | tuple) else [output]
    return [paddle.to_tensor(np.asarray(each, dtype)) for each, (_, dtype) in zip(output, shapes, strict=True)]
