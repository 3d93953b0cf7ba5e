"""Operations that pick, count or move elements: by indices, tags or values. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.ids.hashing import xxh64
from umiak.fluid.kernels.registry import Frame, Tensor, kernel
from umiak.fluid.kernels.tensors import numbers

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results, Sizes


@kernel()
def index_select(input: Tensor, index: Tensor, dim: int) -> Tensor:
    """Slices by their numbers."""
    return paddle.index_select(input, index.reshape([-1]), dim)


@kernel()
def index_sample(x: Tensor, index: Tensor) -> Tensor:
    """Of each row the elements at its own places."""
    return paddle.index_sample(x, index)


@kernel()
def flip(input: Tensor, dims: Sizes) -> Tensor:
    """The other way round."""
    return paddle.flip(input, numbers(dims))


@kernel()
def roll(input: Tensor, shifts: Sizes, dims: Sizes) -> Tensor:
    """Shifted; what leaves at one end comes in at the other."""
    return paddle.roll(input, numbers(shifts), None if dims is None else numbers(dims))


@kernel()
def shard_index(input: Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int) -> Tensor:
    """Indices within one of several equal parts; those of other parts become the ignored value."""
    return paddle.shard_index(input, index_num, nshards, shard_id, ignore_value)


def _unique_shapes(x: Tensor, dtype: str) -> Results:
    return [((-1,), x.dtype, 0), ((-1,), dtype, 0)]


@kernel(shapes=_unique_shapes)
def unique(x: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Values without repetition in the order in which they come first, and for each element the number of its value."""
    return unique_with_counts(x, dtype)[:2]  # type: ignore[no-any-return]


def _counted_shapes(x: Tensor, dtype: str) -> Results:
    return [*_unique_shapes(x, dtype), ((-1,), dtype, 0)]


@kernel(shapes=_counted_shapes)
def unique_with_counts(x: Tensor, dtype: str) -> tuple[Tensor, Tensor, Tensor]:
    """The same, and how often each is there."""
    values, first, index, counts = np.unique(x.numpy().reshape(-1), return_index=True, return_inverse=True, return_counts=True)  # fmt: skip
    order = np.argsort(first)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    output = values[order], places[index.reshape(-1)].astype(dtype), counts[order].astype(dtype)
    return tuple(map(paddle.to_tensor, output))


@kernel()
def mean_iou(input: Tensor, label: Tensor, num_classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The mean over classes of what two pictures share by what either has; wrong and right elements of each class."""
    predicted, wanted = input.numpy().reshape(-1), label.numpy().reshape(-1)
    right = np.bincount(wanted[predicted == wanted], minlength=num_classes)
    wrong = np.bincount(wanted[predicted != wanted], minlength=num_classes)
    wrong += np.bincount(predicted[predicted != wanted], minlength=num_classes)
    either = right + wrong
    share = np.divide(right, either, out=np.zeros(num_classes), where=either > 0)
    mean = share.sum() / max((either > 0).sum(), 1)
    return (
        paddle.to_tensor(np.asarray([mean], np.float32)),
        paddle.to_tensor(wrong.astype(np.int32)),
        paddle.to_tensor(right.astype(np.int32)),
    )


@kernel(name="hash")
def hash_(input: Tensor, hash_size: int, num_hash: int) -> Tensor:
    """For each row of ids so many hashes: XXH64 of its bytes, with the seeds 0, 1, ..."""
    rows = np.ascontiguousarray(input.numpy().reshape(-1, input.shape[-1]))
    output = [[[xxh64(row.tobytes(), seed) % hash_size] for seed in range(num_hash)] for row in rows]
    return paddle.to_tensor(np.asarray(output, np.int64).reshape(len(rows), num_hash, 1))


def _tagged_shapes(ins: Tensor, **_settings: Any) -> Results:
    return [((-1, *ins.shape[1:]), ins.dtype, 1), ((-1, 1), "float32", 1)]


@kernel(sequences=True, shapes=_tagged_shapes)
def filter_by_instag(frame: Frame, ins: Tensor, ins_tag: Tensor, filter_tag: Tensor, is_lod: bool, out_val_if_empty: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The instances that have one of the tags, and a weight of one for each; if none has, one row of a value and a weight of zero."""
    wanted = set(filter_tag.reshape([-1]).tolist())
    tags = ins_tag.reshape([-1]).tolist()
    bounds = frame.offsets_of("ins_tag") if frame.all_offsets("ins_tag") else range(len(tags) + 1)
    offsets = frame.offsets_of("ins") if is_lod and frame.all_offsets("ins") else tuple(range(ins.shape[0] + 1))
    chosen = [number for number in range(len(offsets) - 1) if wanted.intersection(tags[bounds[number] : bounds[number + 1]])]  # fmt: skip
    levels = np.cumsum([0, *[offsets[number + 1] - offsets[number] for number in chosen]]).tolist()
    if not chosen:
        frame.set_offsets([0, 1])
        frame.set_offsets([0, 1], output=1)
        return paddle.full([1, *ins.shape[1:]], out_val_if_empty, ins.dtype), paddle.zeros([1, 1], "float32")
    frame.set_offsets(levels)
    frame.set_offsets(range(len(chosen) + 1), output=1)
    rows = [row for number in chosen for row in range(offsets[number], offsets[number + 1])]
    weights = paddle.ones([len(chosen), 1], "float32")
    return paddle.gather(ins, paddle.to_tensor(np.asarray(rows, np.int64))), weights


@kernel()
def same(x: Tensor) -> Tensor:
    """Unchanged: gradients with rows of their own are whole tensors here."""
    return paddle.assign(x)


@kernel(sequences=True)
def tensor_array_to_tensor(frame: Frame, input: Any, axis: int, use_stack: bool) -> tuple[Tensor, Tensor]:
    """The tensors of an array joined, and the size of each along the axis."""
    tensors = list(input)
    output = paddle.stack(tensors, axis) if use_stack else paddle.concat(tensors, axis)
    sizes = [1 if use_stack else each.shape[axis] for each in tensors]
    return output, paddle.to_tensor(np.asarray(sizes, np.int32))


@kernel()
def shuffle_batch(x: Tensor) -> Tensor:
    """The rows in a drawn order; all dimensions but the last count as rows."""
    rows = int(np.prod(x.shape[:-1]))
    flat = x.reshape([rows, x.shape[-1]])
    return paddle.gather(flat, paddle.randperm(rows)).reshape(x.shape)


@kernel()
def random_crop(x: Tensor, shape: list[int]) -> Tensor:
    """Of each instance a part of this shape, at a place that is drawn for each."""
    kept = x.ndim - len(shape)
    flat = x.reshape([-1, *x.shape[kept:]])
    parts = []
    for row in flat:
        room = [have - want for have, want in zip(row.shape, shape, strict=True)]
        starts = [int(paddle.randint(0, each + 1, [1]).item()) for each in room]
        ends = [start + size for start, size in zip(starts, shape, strict=True)]
        parts.append(paddle.slice(row, list(range(len(shape))), starts, ends))
    return paddle.stack(parts).reshape([*x.shape[:kept], *shape])
