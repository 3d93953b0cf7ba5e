"""Generated fluid programs give the numbers and gradients that Paddle's own functions give. Real Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fluid_programs import fluid, paddle, programs, variables_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers


def divided(x: Any, condition: Any) -> Any:
    """Rows of one kind halved, the others bent."""
    sides = layers.IfElse(condition)
    with sides.true_block():
        sides.output(sides.input(x) * 0.5)
    with sides.false_block():
        sides.output(layers.tanh(sides.input(x)))
    return sides()[0]


STEPS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tanh": (layers.tanh, paddle.tanh),
    "sigmoid": (layers.sigmoid, paddle.nn.functional.sigmoid),
    "softmax": (layers.softmax, paddle.nn.functional.softmax),
    "square": (layers.square, paddle.square),
    "scale": (lambda x: layers.scale(x, 0.5, 0.1), lambda x: x * 0.5 + 0.1),
    "operators": (lambda x: 1.0 - x / 2.0, lambda x: 1.0 - x / 2.0),
    "double": (lambda x: layers.concat([x, x], axis=1), lambda x: paddle.concat([x, x], 1)),
    "halve": (lambda x: layers.split(x, 2)[0], lambda x: paddle.split(x, 2, -1)[0]),
    "mirror": (lambda x: layers.reverse(x, axis=1), lambda x: paddle.flip(x, [1])),
    "against the mean": (
        lambda x: layers.elementwise_sub(x, layers.reduce_mean(x, dim=1), axis=0),
        lambda x: x - paddle.mean(x, 1, keepdim=True),
    ),
    "twice": (
        lambda x: layers.reshape(layers.expand(x, [1, 2]), [-1, x.shape[1] * 2]),
        lambda x: paddle.tile(x, [1, 2]),
    ),
    "products": (
        lambda x: layers.matmul(layers.matmul(x, x, transpose_y=True), x, alpha=0.1),
        lambda x: 0.1 * paddle.matmul(paddle.matmul(x, x, transpose_y=True), x),
    ),
    "round the corner": (lambda x: layers.roll(x, 1, 1), lambda x: paddle.roll(x, 1, 1)),
    "mish": (layers.mish, paddle.nn.functional.mish),
    "with its square": (lambda x: layers.addcmul(x, x, x, 0.1), lambda x: x + 0.1 * x * x),
    "divided": (
        lambda x: divided(
            x,
            layers.greater_than(layers.reduce_sum(x, dim=1, keep_dim=True), layers.fill_constant([1], "float64", 1.5)),
        ),
        lambda x: paddle.where(paddle.sum(x, 1, keepdim=True) > 1.5, x * 0.5, paddle.tanh(x)),
    ),
    "length one": (
        lambda x: layers.l2_normalize(x, axis=1),
        lambda x: x / paddle.sqrt(paddle.sum(x * x, 1, keepdim=True) + 1e-12),
    ),
}


def widths(names: list[str]) -> bool:
    """Whether every split has something even to halve, and nothing grows without end."""
    width = 4
    for name in names:
        if name == "halve" and width % 2:
            return False
        width = width * 2 if name in ("double", "twice") else width // 2 if name == "halve" else width
    return 1 <= width <= 64


@settings(deadline=None, max_examples=25)
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=8).filter(widths),
    rows=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_programs_compute_what_paddle_computes(names: list[str], rows: int, seed: int) -> None:
    values = np.random.default_rng(seed).uniform(0.1, 1.0, (rows, 4)).astype(np.float64)
    tensor = paddle.to_tensor(values, stop_gradient=False)
    expected = tensor
    with programs() as made:
        (variable,) = variables_of({"x": values}).values()
        result = variable
        for name in names:
            result, expected = STEPS[name][0](result), STEPS[name][1](expected)
        total = layers.reduce_sum(result * result)
        (gradient,) = fluid.gradients(total, variable)
        found = made.run({"x": values}, [result, gradient, total])
    (wanted,) = paddle.grad([paddle.sum(expected * expected)], [tensor])
    assert list(result.shape) == [-1, expected.shape[1]]
    np.testing.assert_allclose(found[0], expected.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1], wanted.numpy(), rtol=1e-8, atol=1e-10)
    assert found[2].shape == (1,)
