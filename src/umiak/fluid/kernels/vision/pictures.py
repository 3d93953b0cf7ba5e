"""Operations on images beside convolutions and pools: sampled, rearranged, normalized between channels. A program."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle.nn import functional

from umiak.fluid.kernels.registry import Frame, Tensor, kernel
from umiak.fluid.kernels.tensors import numbers

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results, Shape, Sizes


@kernel()
def lrn(input: Tensor, n: int, k: float, alpha: float, beta: float, data_format: str) -> Tensor:
    """Each element by the squares of its neighbours in n channels."""
    axis = 1 if data_format.startswith("NC") else input.ndim - 1
    before = (n - 1) // 2
    channels = input.shape[axis]
    paddings = [0, 0] * input.ndim
    paddings[2 * axis], paddings[2 * axis + 1] = before, n - 1 - before
    squares = functional.pad(input * input, paddings, value=0.0, pad_from_left_axis=True)
    total = paddle.add_n([paddle.slice(squares, [axis], [place], [place + channels]) for place in range(n)])
    return input * (k + alpha * total) ** -beta


@kernel()
def adaptive_pool(input: Tensor, pool_size: Sizes, pool_type: str, require_index: bool) -> Results:
    """So many windows in each dimension, as large as they must be."""
    dimensions = input.ndim - 2
    sizes = [pool_size] * dimensions if isinstance(pool_size, int) else numbers(pool_size)
    pool = getattr(functional, f"adaptive_{pool_type}_pool{dimensions}d")
    return pool(input, sizes, return_mask=require_index) if pool_type == "max" else pool(input, sizes)


@kernel()
def space_to_depth(x: Tensor, blocksize: int) -> Tensor:
    """Blocks as channels, in the order of 1.8: as if groups of channels were first spread over larger images."""
    rows, channels, height, width = x.shape
    if channels % blocksize**2 or height % blocksize or width % blocksize:
        raise ValueError(
            f"channels {channels} by {blocksize**2}, and {height} x {width} by {blocksize}, have to be whole"
        )
    parts = x.reshape([rows, blocksize, blocksize, channels // blocksize**2, height, width])
    spread = paddle.transpose(parts, [0, 3, 4, 1, 5, 2])
    return spread.reshape([rows, channels * blocksize**2, height // blocksize, width // blocksize])


@kernel()
def affine_grid(theta: Tensor, out_shape: Shape) -> Tensor:
    """Where each place of an image comes from: corners on corners."""
    return functional.affine_grid(theta, numbers(out_shape), align_corners=True)


@kernel()
def grid_sampler(x: Tensor, grid: Tensor) -> Tensor:
    """The image at places of a grid: between four neighbours, zero outside."""
    return functional.grid_sample(x, grid, "bilinear", "zeros", align_corners=True)


@kernel()
def unfold(x: Tensor, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes, dilations: Sizes) -> Tensor:
    """The parts of an image under a filter, as columns."""
    return functional.unfold(x, kernel_sizes, strides, paddings, dilations)


def _sequence_shapes(input: Tensor, filter_size: list[int], stride: list[int], padding: list[int], sizes: Tensor, out_stride: list[int]) -> Results:  # fmt: skip
    return [((-1, input.shape[1] * filter_size[0] * filter_size[1]), input.dtype, 1)]


@kernel(sequences=True, shapes=_sequence_shapes)
def im2sequence(frame: Frame, input: Tensor, filter_size: list[int], stride: list[int], padding: list[int], sizes: Tensor, out_stride: list[int]) -> Tensor:  # fmt: skip
    """The parts of each image under a filter as a sequence, line by line; of images that are smaller inside, those in their real size."""
    up, left, down, right = padding
    rows, _, height, width = input.shape
    padded = functional.pad(input, [left, right, up, down])
    columns = functional.unfold(padded, filter_size, stride)
    high = (height + up + down - filter_size[0]) // stride[0] + 1
    wide = (width + left + right - filter_size[1]) // stride[1] + 1
    parts = paddle.transpose(columns, [0, 2, 1]).reshape([rows, high, wide, columns.shape[1]])
    counts = [[high, wide]] * rows
    if sizes is not None:
        counts = [
            [
                -(-_steps(int(own), around, size, step) // 1)
                for own, around, size, step in zip(
                    (-(-real[0] // out_stride[0]), -(-real[1] // out_stride[1])),
                    (up + down, left + right),
                    filter_size,
                    stride,
                    strict=True,
                )
            ]
            for real in sizes.numpy().reshape(rows, 2).tolist()
        ]
    frame.set_offsets(np.cumsum([0, *[lines * columns for lines, columns in counts]]).tolist())
    return paddle.concat(
        [
            each[:lines, :columns].reshape([lines * columns, -1])
            for each, (lines, columns) in zip(parts, counts, strict=True)
        ]
    )


def _steps(size: int, around: int, width: int, step: int) -> int:
    return (size + around - width) // step + 1


@kernel(frame=True)
def add_position_encoding(frame: Frame, input: Tensor, alpha: float, beta: float) -> Tensor:
    """alpha x + beta waves, whose length grows from channel to channel; sines in the first half, cosines in the second."""
    half = input.shape[-1] // 2
    offsets = frame.all_offsets("input")
    if offsets:
        places = np.concatenate([np.arange(end - begin) for begin, end in pairwise(offsets[-1])])
    else:
        places = np.arange(input.shape[1])
    by = 10000.0 ** (np.arange(half) / (half - 1)) if half > 1 else np.asarray([10000.0])
    angles = places[:, None] / by[None, :]
    waves = paddle.to_tensor(np.concatenate([np.sin(angles), np.cos(angles)], 1)).astype(input.dtype)
    return input * alpha + (waves if offsets else waves.reshape([1, *waves.shape])) * beta


@kernel()
def similarity_focus(input: Tensor, axis: int, indexes: list[int]) -> Tensor:
    """Ones at the largest elements of some slices, each alone in its line and in its column; zeros elsewhere."""
    values = np.moveaxis(input.numpy(), axis, 1)
    focus = np.zeros(values.shape[:1] + values.shape[2:], bool)
    for row, own in enumerate(values):
        for index in indexes:
            lines, columns = np.unravel_index(np.argsort(-own[index], axis=None, kind="stable"), own[index].shape)
            free_lines, free_columns = np.ones(own.shape[1], bool), np.ones(own.shape[2], bool)
            for line, column in zip(lines, columns, strict=True):
                if free_lines[line] and free_columns[column]:
                    free_lines[line] = free_columns[column] = False
                    focus[row, line, column] = True
    output = np.moveaxis(np.broadcast_to(focus[:, None], values.shape), 1, axis)
    return paddle.to_tensor(output.astype(values.dtype))
