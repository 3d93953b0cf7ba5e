"""Operations on sequences: values one after another, and offsets that say where each begins and ends. A program."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import Frame, Tensor, kernel

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results, Shape


POOLS = ("sum", "average", "sqrt", "max", "last", "first")


def lengths_of(offsets: tuple[int, ...]) -> list[int]:
    """How many items each sequence has."""
    return [end - begin for begin, end in pairwise(offsets)]


def owners(offsets: tuple[int, ...]) -> Tensor:
    """For each row the number of its sequence."""
    return paddle.to_tensor(np.repeat(np.arange(len(offsets) - 1), lengths_of(offsets)).astype(np.int64))


def offsets_from(lengths: Any) -> list[int]:
    """Where sequences of these lengths begin and end."""
    return [0, *np.cumsum(lengths).astype(int).tolist()]


@kernel(sequences=True)
def sequence_pool(frame: Frame, input: Tensor, pool_type: str, is_test: bool, pad_value: float) -> Tensor:
    """One row for each sequence: sum, average, sqrt, max, last, first; the pad value for an empty one."""
    offsets = frame.offsets_of("input")
    kind = pool_type.lower()
    lengths = offsets.lengths
    if kind not in POOLS:
        raise ValueError(f"expected {', '.join(POOLS)} as pool_type, got {pool_type!r}")
    if offsets.is_single:  # slots with one id in each sample
        output = input
    elif kind in ("first", "last"):
        rows = np.asarray(offsets[:-1] if kind == "first" else offsets[1:]) - (kind == "last")
        output = paddle.gather(input, paddle.to_tensor(np.clip(rows, 0, max(input.shape[0] - 1, 0))))
    elif kind == "max":
        output = _sequence_max(input, offsets)
    else:
        output = _sequence_sum(input, offsets)
        if kind in ("average", "sqrt"):
            by = np.maximum(lengths, 1).astype(np.float32)
            divisor = paddle.to_tensor(np.sqrt(by) if kind == "sqrt" else by).astype(output.dtype)
            output = output / divisor.reshape([-1] + [1] * (output.ndim - 1))
    empty = lengths == 0
    if empty.any():
        mask = paddle.to_tensor(empty).reshape([-1] + [1] * (output.ndim - 1))
        output = paddle.where(mask, paddle.full_like(output, pad_value), output)
    _outer(frame, "input")
    return output


def _outer(frame: Frame, parameter: str) -> None:
    """The output has the sequences of the levels above the last."""
    frame.set_offsets(*frame.all_offsets(parameter)[:-1])


def _sequence_sum(input: Tensor, offsets: tuple[int, ...]) -> Tensor:
    count = len(offsets) - 1
    zeros = paddle.zeros([count, *input.shape[1:]], input.dtype)
    return paddle.index_add(zeros, owners(offsets), 0, input) if input.shape[0] else zeros


def _sequence_max(input: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Its gradient goes to the first of equal items, as in 1.8."""
    with paddle.no_grad():
        longest = max([*lengths_of(offsets), 1])
        places = paddle.argmax(padded(input, offsets, longest, -3.0e38), 1)
        begins = paddle.to_tensor(np.asarray(offsets[:-1], np.int64)).reshape([-1] + [1] * (input.ndim - 1))
        places = paddle.clip(places + begins, 0, max(input.shape[0] - 1, 0))
    return paddle.take_along_axis(input, places, 0)


def padded(input: Tensor, offsets: tuple[int, ...], longest: int, value: Any) -> Tensor:
    """[sequences, longest, ...]."""
    lengths = lengths_of(offsets)
    rows = input.shape[0]
    places = np.full((len(lengths), longest), rows, np.int64)
    for number, (begin, length) in enumerate(zip(offsets, lengths, strict=False)):
        places[number, :length] = np.arange(begin, begin + length)
    if isinstance(value, paddle.Tensor):
        spare = paddle.expand(
            value.reshape([1, *value.shape])
            if value.ndim < input.ndim and value.size > 1
            else value.reshape([1] * input.ndim),
            [1, *input.shape[1:]],
        )
    else:
        spare = paddle.full([1, *input.shape[1:]], value, input.dtype)
    output = paddle.gather(paddle.concat([input, spare.astype(input.dtype)], 0), paddle.to_tensor(places.reshape(-1)))
    return paddle.reshape(output, [len(lengths), longest, *input.shape[1:]])


@kernel(sequences=True)
def sequence_first_step(frame: Frame, input: Tensor) -> Tensor:
    """The first item of each."""
    return sequence_pool(frame, input, "first", False, 0.0)


@kernel(sequences=True)
def sequence_last_step(frame: Frame, input: Tensor) -> Tensor:
    """The last item of each."""
    return sequence_pool(frame, input, "last", False, 0.0)


@kernel(sequences=True)
def sequence_softmax(frame: Frame, input: Tensor, use_cudnn: bool) -> Tensor:
    """Probabilities within each sequence."""
    offsets = frame.offsets_of("input")
    frame.set_offsets(*frame.all_offsets("input"))
    flat = input.reshape([-1])
    owner = owners(offsets)
    longest = paddle.gather(_sequence_max(flat, offsets), owner)
    grown = paddle.exp(flat - longest)
    return (grown / paddle.gather(_sequence_sum(grown, offsets), owner)).reshape(input.shape)


@kernel(sequences=True)
def sequence_expand(frame: Frame, x: Tensor, y: Tensor, ref_level: int) -> Tensor:
    """Each sequence of `x` as often as the one of `y` is long."""
    times = lengths_of(frame.offsets_of("y", level=ref_level))
    own = frame.all_offsets("x")
    offsets = own[0] if own else tuple(range(x.shape[0] + 1))
    if len(times) != len(offsets) - 1:
        raise ValueError(f"{len(offsets) - 1} sequences or rows of x do not fit {len(times)} of y")
    rows: list[int] = []
    lengths: list[int] = []
    for (begin, end), count in zip(pairwise(offsets), times, strict=True):
        rows += list(range(begin, end)) * count
        lengths += [end - begin] * count
    frame.set_offsets(*([offsets_from(lengths)] if own else [offsets_from(times)]))
    return paddle.gather(x, paddle.to_tensor(np.asarray(rows, np.int64)))


@kernel(sequences=True)
def sequence_expand_as(frame: Frame, x: Tensor, y: Tensor) -> Tensor:
    """Each row of `x` as often as the sequence of `y` is long."""
    offsets = frame.offsets_of("y")
    if x.shape[0] != len(offsets) - 1:
        raise ValueError(f"{x.shape[0]} rows of x do not fit {len(offsets) - 1} sequences of y")
    frame.set_offsets(offsets)
    return paddle.gather(x, owners(offsets))


def _pad_shapes(x: Tensor, pad_value: Any, maxlen: int | None) -> Results:
    return [((-1, -1 if maxlen is None else maxlen, *x.shape[1:]), x.dtype, 0), ((-1,), "int64", 0)]


@kernel(sequences=True, shapes=_pad_shapes)
def sequence_pad(frame: Frame, x: Tensor, pad_value: Any, maxlen: int | None) -> tuple[Tensor, Tensor]:
    """[sequences, longest, ...] and the lengths."""
    offsets = frame.offsets_of("x")
    lengths = lengths_of(offsets)
    longest = max([*lengths, 1]) if maxlen is None else maxlen
    if max([*lengths, 0]) > longest:
        raise ValueError(f"a sequence of {max(lengths)} items does not fit maxlen={maxlen}")
    frame.set_offsets()
    return padded(x, offsets, longest, pad_value), paddle.to_tensor(np.asarray(lengths, np.int64))


def _unpad_shapes(x: Tensor, length: Any) -> Results:
    return [((-1, *x.shape[2:]), x.dtype, 1)]


@kernel(sequences=True, shapes=_unpad_shapes)
def sequence_unpad(frame: Frame, x: Tensor, length: Tensor) -> Tensor:
    """One after another again."""
    lengths = [int(each) for each in length.reshape([-1]).tolist()]
    rows = [number * x.shape[1] + place for number, each in enumerate(lengths) for place in range(each)]
    frame.set_offsets(offsets_from(lengths))
    flat = paddle.reshape(x, [-1, *x.shape[2:]])
    return paddle.gather(flat, paddle.to_tensor(np.asarray(rows, np.int64)))


@kernel(sequences=True)
def sequence_reshape(frame: Frame, input: Tensor, new_dim: int) -> Tensor:
    """Items of another width."""
    width = input.shape[1]
    frame.set_offsets([each * width // new_dim for each in frame.offsets_of("input")])
    return paddle.reshape(input, [-1, new_dim])


@kernel(sequences=True)
def sequence_concat(frame: Frame, input: list[Tensor]) -> Tensor:
    """The first sequences of all inputs behind one another, then the second ones."""
    names = [each.name for each in frame.operation.arguments["input"]]
    all_offsets = [frame.offsets[name][-1] for name in names]
    starts = np.cumsum([0, *[each.shape[0] for each in input]])
    rows: list[int] = []
    lengths = []
    for number in range(len(all_offsets[0]) - 1):
        before = len(rows)
        for start, offsets in zip(starts, all_offsets, strict=False):
            rows += range(int(start) + offsets[number], int(start) + offsets[number + 1])
        lengths.append(len(rows) - before)
    frame.set_offsets(offsets_from(lengths))
    return paddle.gather(paddle.concat(list(input), 0), paddle.to_tensor(np.asarray(rows, np.int64)))


@kernel(sequences=True)
def sequence_reverse(frame: Frame, x: Tensor) -> Tensor:
    """Each the other way round."""
    offsets = frame.offsets_of("x")
    frame.set_offsets(*frame.all_offsets("x"))
    rows = [row for begin, end in pairwise(offsets) for row in range(end - 1, begin - 1, -1)]
    return paddle.gather(x, paddle.to_tensor(np.asarray(rows, np.int64)))


@kernel(sequences=True)
def sequence_enumerate(frame: Frame, input: Tensor, win_size: int, pad_value: int) -> Tensor:
    """For each item a window of ids, from it on."""
    return windows(frame, input.reshape([-1, 1]), 0, win_size, pad_value).squeeze(-1)


def windows(frame: Frame, input: Tensor, start: int, width: int, value: Any) -> Tensor:
    """[rows, width, ...]: the items around each item, within its sequence."""
    offsets = frame.offsets_of("input")
    frame.set_offsets(*frame.all_offsets("input"))
    rows = input.shape[0]
    places = np.arange(rows)[:, None] + np.arange(start, start + width)[None, :]
    begins = np.repeat(offsets[:-1], lengths_of(offsets))[:, None]
    ends = np.repeat(offsets[1:], lengths_of(offsets))[:, None]
    places = np.where((places >= begins) & (places < ends), places, rows)
    spare = paddle.full([1, *input.shape[1:]], value, input.dtype)
    output = paddle.gather(paddle.concat([input, spare], 0), paddle.to_tensor(places.reshape(-1)))
    return paddle.reshape(output, [rows, width, *input.shape[1:]])


@kernel(sequences=True)
def sequence_conv(frame: Frame, input: Tensor, weight: Tensor, start: int, width: int) -> Tensor:
    """A convolution over the items of each sequence."""
    items = windows(frame, input, start, width, 0.0)
    return paddle.matmul(paddle.reshape(items, [items.shape[0], -1]), weight)


@kernel(sequences=True)
def lod_reset(frame: Frame, x: Tensor, y: Tensor, target_lod: Shape) -> Tensor:
    """Other sequences: those of `y`, its values as offsets, or the offsets that are given."""
    if y is None:
        frame.set_offsets(target_lod)
    elif frame.all_offsets("y"):
        frame.set_offsets(*frame.all_offsets("y"))
    else:
        frame.set_offsets(y.reshape([-1]).tolist())
    return x


@kernel(sequences=True)
def sequence_slice(frame: Frame, input: Tensor, offset: Tensor, length: Tensor) -> Tensor:
    """Of each sequence so many items from one of them on."""
    begins, sizes = ([int(each) for each in one.reshape([-1]).tolist()] for one in (offset, length))
    rows: list[int] = []
    for number, (begin, end) in enumerate(pairwise(frame.offsets_of("input"))):
        first, size = begins[number], sizes[number]
        if first < 0 or size < 0 or begin + first + size > end:
            raise ValueError(f"sequence {number} has {end - begin} items, not {size} from item {first} on")
        rows += range(begin + first, begin + first + size)
    frame.set_offsets(offsets_from(sizes))
    return paddle.gather(input, paddle.to_tensor(np.asarray(rows, np.int64)))


@kernel(sequences=True)
def sequence_scatter(frame: Frame, input: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """Each row, and what its sequence of updates adds at its sequence of places."""
    owner = owners(frame.offsets_of("index"))
    places = paddle.stack([owner, index.reshape([-1]).astype("int64")], 1)
    return paddle.scatter_nd_add(input, places, updates.reshape([-1]))


@kernel(sequences=True)
def lod_append(frame: Frame, x: Tensor, level: Any) -> Tensor:
    """The sequences of `x` and one level below them: offsets, or those that a tensor has."""
    if isinstance(level, paddle.Tensor):
        own = frame.all_offsets("level")
        level = own[-1] if own else level.reshape([-1]).tolist()
    frame.set_offsets(*frame.all_offsets("x"), level)
    return paddle.assign(x)


@kernel(sequences=True)
def row_conv(frame: Frame, input: Tensor, weight: Tensor) -> Tensor:
    """Each item with weighted ones that follow it, in sequences or in rows that are all as long."""
    width = weight.shape[0]
    if frame.all_offsets("input"):
        return paddle.sum(windows(frame, input, 0, width, 0.0) * weight, 1)
    length = input.shape[1]
    behind = paddle.zeros([input.shape[0], width - 1, input.shape[2]], input.dtype)
    longer = paddle.concat([input, behind], 1)
    return paddle.add_n([longer[:, place : place + length] * weight[place] for place in range(width)])
