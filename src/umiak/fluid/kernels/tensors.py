"""Operations on the form of tensors: joined, divided, turned, picked from, and made. A program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.nn import functional

from umiak.fluid.kernels.registry import Frame, Tensor, kernel

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results, Shape, Sizes


def numbers(sizes: Sizes) -> list[int]:
    """Sizes of a shape: numbers, tensors of one element among them, or one tensor."""
    if isinstance(sizes, paddle.Tensor):
        return [int(each) for each in sizes.reshape([-1]).tolist()]
    if isinstance(sizes, list | tuple):
        return [int(each) for each in sizes]
    return [int(sizes)]


@kernel()
def concat(input: Tensor, axis: Tensor) -> Tensor:
    """Joined along an axis."""
    return paddle.concat(list(input), int(axis)) if isinstance(input, list | tuple) else input


@kernel()
def split(input: Tensor, parts: Sizes, dim: int) -> tuple[Tensor, ...]:
    """Parts along an axis: a number of equal ones, or their sizes."""
    sizes = [int(each) for each in parts] if isinstance(parts, list | tuple) else int(parts)
    return tuple(paddle.split(input, sizes, dim))


def reshaped_rows(x: Tensor, shape: Shape, actual_shape: Tensor, inplace: bool) -> Results:
    """Where as many rows as a batch has do not divide by the shape: -1 is what only a run knows. ValueError if no number of rows does."""
    if actual_shape is not None or any(not isinstance(size, int) for size in shape):
        raise ValueError("the shape is known only when it runs")
    sizes = [x.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    known = math.prod(size for size in x.shape if size >= 0)
    wanted = math.prod(size for size in sizes if size >= 0)
    if -1 not in sizes and wanted % max(known, 1):
        raise ValueError(f"{list(x.shape)} has no {wanted} elements, whatever -1 is")
    return [(tuple(sizes), x.dtype, 0)]


@kernel(otherwise=reshaped_rows)
def reshape(x: Tensor, shape: Shape, actual_shape: Tensor, inplace: bool) -> Tensor:
    """Another shape: 0 keeps a size, -1 is found."""
    return paddle.reshape(x, numbers(shape if actual_shape is None else actual_shape))


@kernel()
def transpose(x: Tensor, perm: list[int]) -> Tensor:
    """Dimensions in another order."""
    return paddle.transpose(x, list(perm))


@kernel()
def squeeze(input: Tensor, axes: list[int]) -> Tensor:
    """Without dimensions of one; all of them if none is named."""
    output = paddle.squeeze(input, list(axes) or None)
    return output.reshape([1]) if output.ndim == 0 else output


@kernel()
def unsqueeze(input: Tensor, axes: Sizes) -> Tensor:
    """With dimensions of one."""
    return paddle.unsqueeze(input, axes if isinstance(axes, int) else numbers(axes))


@kernel()
def flatten(x: Tensor, axis: int) -> Tensor:
    """Two dimensions: those before the axis, and the others."""
    columns = x.shape[axis:]
    if all(size > 0 for size in columns):  # so that the rows may be any number, in a program of Paddle's as well
        return paddle.reshape(x, [-1, math.prod(columns)])
    return paddle.reshape(x, [math.prod(x.shape[:axis]), -1])


@kernel()
def stack(x: Tensor, axis: int) -> Tensor:
    """Joined along a new axis."""
    return paddle.stack(list(x) if isinstance(x, list | tuple) else [x], axis)


@kernel()
def unstack(x: Tensor, axis: int, num: int) -> tuple[Tensor, ...]:
    """Taken apart along an axis. Paddle's own `unstack` crashes when a gradient goes to some of its outputs only."""
    return tuple(paddle.squeeze(each, [axis]) for each in paddle.split(x, num, axis))


@kernel()
def expand(x: Tensor, expand_times: Shape) -> Tensor:
    """Repeated: what is `tile` today."""
    return paddle.tile(x, numbers(expand_times))


@kernel()
def expand_as(x: Tensor, target_tensor: Tensor) -> Tensor:
    """Repeated until it is as large as the target."""
    times = [target // own for target, own in zip(target_tensor.shape, x.shape, strict=True)]
    return paddle.tile(x, times)


@kernel()
def gather(input: Tensor, index: Tensor, overwrite: bool) -> Tensor:
    """Rows by their numbers."""
    return paddle.gather(input, index.reshape([-1]) if index.ndim == 2 else index)


@kernel()
def gather_nd(input: Tensor, index: Tensor) -> Tensor:
    """Elements by their places."""
    return paddle.gather_nd(input, index)


@kernel()
def scatter(input: Tensor, index: Tensor, updates: Tensor, overwrite: bool) -> Tensor:
    """Rows replaced or added to."""
    return paddle.scatter(input, index.reshape([-1]), updates, overwrite)


@kernel()
def scatter_nd_add(ref: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """Elements added to."""
    return paddle.scatter_nd_add(ref, index, updates)


@kernel()
def scatter_nd(index: Tensor, updates: Tensor, shape: list[int]) -> Tensor:
    """Zeros, added to at some places."""
    return paddle.scatter_nd(index, updates, numbers(shape))


@kernel()
def slice_(input: Tensor, axes: list[int], starts: Sizes, ends: Sizes) -> Tensor:
    """A part; of one dimension and one element [1]."""
    return paddle.slice(input, list(axes), numbers(starts), numbers(ends))


@kernel()
def strided_slice(input: Tensor, axes: list[int], starts: Sizes, ends: Sizes, strides: Sizes) -> Tensor:
    """A part, with steps."""
    return paddle.strided_slice(input, list(axes), numbers(starts), numbers(ends), numbers(strides))


@kernel()
def getitem(x: Tensor, index: Tensor) -> Tensor:
    """``x[index]`` of Python; an element is [1]."""
    output = x[_index(index)]
    return output.reshape([1]) if output.ndim == 0 else output


def _index(index: Tensor) -> Results:
    if isinstance(index, dict):
        return slice(*[each if each is None else int(each) for each in index["slice"]])
    return tuple(map(_index, index)) if isinstance(index, tuple) else index


@kernel()
def shape(input: Tensor) -> Tensor:
    """The shape as a tensor of int32."""
    if isinstance(input, paddle.pir.Value):
        return paddle.cast(paddle.shape(input), "int32")
    return paddle.to_tensor(np.asarray(input.shape, np.int32))


@kernel()
def rank(input: Tensor) -> Tensor:
    """The number of dimensions."""
    return paddle.full([1], input.ndim, "int32")


@kernel()
def size(input: Tensor) -> Tensor:
    """The number of elements."""
    return paddle.full([1], int(np.prod(input.shape)), "int64")


@kernel()
def reverse(x: Tensor, axis: Tensor) -> Tensor:
    """The other way round."""
    return paddle.flip(x, numbers(axis))


def _where_shapes(condition: Tensor) -> list[Any]:
    return [((-1, len(condition.shape)), "int64", 0)]


@kernel(shapes=_where_shapes)
def where(condition: Tensor) -> Tensor:
    """The places of what is true, a row for each: 1.8's `where` is today's `nonzero`."""
    return paddle.nonzero(condition).astype("int64")


@kernel()
def multiplex(inputs: list[Tensor], index: Tensor) -> Tensor:
    """Each row from the tensor that its index names."""
    return paddle.multiplex(list(inputs), index.astype("int32"))


@kernel()
def one_hot(input: Tensor, depth: Tensor, allow_out_of_range: bool) -> Tensor:
    """1.8's `layers.one_hot`: the last dimension of one is replaced."""
    ids = input.reshape(input.shape[:-1]) if input.ndim > 1 and input.shape[-1] == 1 else input
    return one_hot_v2(ids, depth, allow_out_of_range)


@kernel()
def one_hot_v2(input: Tensor, depth: Tensor, allow_out_of_range: bool) -> Tensor:
    """`fluid.one_hot`: a dimension more; zeros for an id that is out of range, if that is allowed."""
    if allow_out_of_range:
        return (input.astype("int64").unsqueeze(-1) == paddle.arange(int(depth))).astype("float32")
    return functional.one_hot(input.astype("int64"), int(depth))


@kernel()
def fill_constant(shape: Shape, dtype: str, value: Any, force_cpu: bool = False) -> Tensor:
    """One value everywhere."""
    value = value.item() if isinstance(value, paddle.Tensor) else value
    return paddle.full(numbers(shape), float(value) if dtype.startswith("float") else value, dtype)


def _like(input: Tensor, shape: Shape, input_dim_idx: int, output_dim_idx: int) -> list[int]:
    output = numbers(shape)
    size = input.shape[input_dim_idx]
    output[output_dim_idx] = size if size >= 0 else paddle.shape(input)[input_dim_idx]
    return output


@kernel(frame=True)
def fill_constant_batch_size_like(frame: Frame, input: Tensor, shape: Shape, dtype: str, value: Any, input_dim_idx: int, output_dim_idx: int, force_cpu: bool) -> Tensor:  # fmt: skip
    """As many rows as the input has, or sequences."""
    output = _like(input, shape, input_dim_idx, output_dim_idx)
    offsets = frame.all_offsets("input")
    if offsets and input_dim_idx == 0:
        output[output_dim_idx] = len(offsets[-1]) - 1
    return paddle.full(output, value, dtype)


@kernel()
def zeros(shape: Shape, dtype: str, force_cpu: bool) -> Tensor:
    """Zeros."""
    return paddle.zeros(numbers(shape), dtype)


@kernel()
def ones(shape: Shape, dtype: str, force_cpu: bool) -> Tensor:
    """Ones."""
    return paddle.ones(numbers(shape), dtype)


@kernel()
def zeros_like(x: Tensor) -> Tensor:
    """Zeros of this shape."""
    return paddle.zeros_like(x)


@kernel()
def ones_like(x: Tensor) -> Tensor:
    """Ones of this shape."""
    return paddle.ones_like(x)


@kernel()
def linspace(start: Sizes, stop: Sizes, num: Sizes, dtype: str) -> Tensor:
    """So many numbers, evenly."""
    return paddle.linspace(start, stop, int(num), dtype)


@kernel()
def range_(start: Sizes, end: Sizes, step: Sizes, dtype: str) -> Tensor:
    """Numbers with a step."""
    first, last, by = (each.item() if isinstance(each, paddle.Tensor) else each for each in (start, end, step))
    return paddle.arange(first, last, by, dtype)


@kernel()
def eye(num_rows: int, num_columns: int | None, batch_shape: list[int] | None, dtype: str) -> Tensor:
    """Ones on the diagonal."""
    output = paddle.eye(num_rows, num_columns, dtype)
    if batch_shape:
        output = paddle.tile(output.reshape([1] * len(batch_shape) + output.shape), [*batch_shape, 1, 1])
    return output


@kernel()
def diag(diagonal: Any) -> Tensor:
    """A matrix with this diagonal."""
    return paddle.diag(paddle.to_tensor(diagonal))


@kernel()
def assign(input: Tensor) -> Tensor:
    """A copy, or the values of an array."""
    return paddle.assign(input if isinstance(input, paddle.Tensor) else np.asarray(input))


@kernel()
def increment(x: Tensor, value: float) -> Tensor:
    """x + value."""
    return x + paddle.full([], value, x.dtype)


@kernel()
def pad(x: Tensor, paddings: list[int], pad_value: float) -> Tensor:
    """Before and behind each dimension, from the first one on."""
    return functional.pad(x, list(paddings), value=pad_value, pad_from_left_axis=True)


@kernel()
def pad2d(input: Tensor, paddings: Sizes, mode: str, pad_value: float, data_format: str) -> Tensor:
    """An image with a border: above, below, left, right."""
    top, bottom, left, right = numbers(paddings)
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}
    return functional.pad(input, [left, right, top, bottom], modes[mode], pad_value, data_format)


@kernel()
def pad_constant_like(x: Tensor, y: Tensor, pad_value: float) -> Tensor:
    """`y`, padded behind until it is as large as `x`."""
    paddings = [each for large, small in zip(x.shape, y.shape, strict=True) for each in (0, large - small)]
    return pad(y, paddings, pad_value)


@kernel()
def crop_tensor(x: Tensor, shape: Shape, offsets: Any) -> Tensor:
    """A part of this shape; -1 is all that is left."""
    sizes = numbers(x.shape if shape is None else shape)
    begin = [0] * x.ndim if offsets is None else numbers(offsets)
    ends = [
        first + (each if each >= 0 else whole - first) for first, each, whole in zip(begin, sizes, x.shape, strict=True)
    ]
    return paddle.slice(x, list(range(x.ndim)), begin, ends)


@kernel()
def crop(x: Tensor, shape: Shape, offsets: Any) -> Tensor:
    """The same; a tensor in place of the shape lends its own."""
    if isinstance(shape, paddle.Tensor) and shape.ndim != 1:
        shape = shape.shape
    return crop_tensor(x, shape, offsets)


@kernel()
def sequence_mask(x: Tensor, maxlen: Sizes, dtype: str) -> Tensor:
    """A row of ones and zeros for each length; a last dimension of one stays in front."""
    return functional.sequence_mask(x, None if maxlen is None else int(maxlen), dtype)
