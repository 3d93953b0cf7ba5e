"""Operations that draw: they follow `paddle.seed`, which the executor sets by the program's `random_seed`. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import _C_ops

from umiak.fluid.kernels.registry import Tensor, kernel
from umiak.fluid.kernels.tensors import numbers

if TYPE_CHECKING:
    from umiak.fluid.arguments import Shape


@kernel()
def uniform_random(shape: Shape, dtype: str, min: float, max: float, seed: int) -> Tensor:
    """Evenly between two bounds."""
    return paddle.uniform(numbers(shape), dtype, min, max, seed)


@kernel()
def gaussian_random(shape: Shape, dtype: str, mean: float, std: float, seed: int) -> Tensor:
    """Around a mean."""
    return _C_ops.gaussian(numbers(shape), float(mean), float(std), seed, _dtype(dtype), _place())


@kernel()
def truncated_gaussian_random(shape: Shape, dtype: str, mean: float, std: float, seed: int) -> Tensor:
    """Around a mean, nothing further away than two deviations."""
    low, high = mean - 2.0 * std, mean + 2.0 * std
    return _C_ops.truncated_gaussian_random(
        numbers(shape), float(mean), float(std), seed, low, high, _dtype(dtype), _place()
    )


def _dtype(name: str) -> Any:
    return getattr(paddle, name)


def _place() -> Any:
    return paddle.framework._current_expected_place()  # noqa: SLF001 - the device of this process has no other name


def _like(input: Tensor, shape: Shape, input_dim_idx: int, output_dim_idx: int) -> list[int]:
    output = numbers(shape)
    output[output_dim_idx] = input.shape[input_dim_idx]
    return output


@kernel()
def uniform_random_batch_size_like(input: Tensor, shape: Shape, dtype: str, input_dim_idx: int, output_dim_idx: int, min: float, max: float, seed: int) -> Tensor:  # fmt: skip
    """As many rows as the input has."""
    return uniform_random(_like(input, shape, input_dim_idx, output_dim_idx), dtype, min, max, seed)


@kernel()
def gaussian_random_batch_size_like(input: Tensor, shape: Shape, input_dim_idx: int, output_dim_idx: int, mean: float, std: float, seed: int, dtype: str) -> Tensor:  # fmt: skip
    """As many rows as the input has."""
    return gaussian_random(_like(input, shape, input_dim_idx, output_dim_idx), dtype, mean, std, seed)


def kept(x: Tensor, dropped: float, seed: int) -> Tensor:
    """One for each element that dropout keeps, zero for the others; with a seed the same ones each time."""
    return (paddle.uniform(x.shape, "float32", 0.0, 1.0, seed) >= dropped).astype(x.dtype)


@kernel()
def sampling_id(x: Tensor, min: float, max: float, seed: int, dtype: str) -> Tensor:
    """An index for each row, drawn by the row's probabilities."""
    draw = paddle.uniform([x.shape[0], 1], "float32", min, max, seed)
    output = paddle.sum((paddle.cumsum(x, 1) < draw).astype("int64"), 1)
    return paddle.clip(output, 0, x.shape[1] - 1)


@kernel()
def assign_value(shape: Shape, dtype: str, values: Any) -> Tensor:
    """Values that are given."""
    return paddle.to_tensor(np.asarray(values, dtype).reshape(numbers(shape)))


@kernel()
def bilinear_weights(shape: Shape, dtype: str) -> Tensor:
    """Weights that interpolate."""
    width = shape[3]
    half = np.ceil(width / 2.0)
    centre = (2 * half - 1 - half % 2) / (2.0 * half)
    line = 1 - np.abs(np.arange(width) / half - centre)
    return paddle.to_tensor(np.broadcast_to(np.outer(line, line), shape).astype(dtype))
