"""Gradients of layers on sequences: by the replay, and by two evaluations, over drawn lengths. Real Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, given, programs

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
WIDTH = 6


def drawn(*shape: int) -> Any:
    """An attribute of a parameter with drawn values."""
    return given(np.random.default_rng(sum(shape)).normal(scale=0.5, size=shape).astype(np.float32))


def zero() -> Any:
    return layers.assign(np.zeros(1, np.float32))


def one_step(x: Any) -> Any:
    """A GRU's step from the sums of the sequences."""
    sums = layers.sequence_pool(x, "sum")
    hidden = layers.fc(sums, 2, param_attr=drawn(WIDTH, 2))
    return layers.gru_unit(sums, hidden, WIDTH, param_attr=drawn(2, WIDTH), bias_attr=drawn(1, WIDTH))[0]


LAYERS: dict[str, Callable[[Any], Any]] = {
    "dynamic_gru": lambda x: layers.dynamic_gru(x, 2, param_attr=drawn(2, 6), bias_attr=drawn(1, 6)),
    "dynamic_gru backwards": lambda x: layers.dynamic_gru(x, 2, param_attr=drawn(2, 6), is_reverse=True),
    "dynamic_gru, origin": lambda x: layers.dynamic_gru(x, 2, param_attr=drawn(2, 6), origin_mode=True),
    "gru_unit": one_step,
    "dynamic_lstm": lambda x: layers.dynamic_lstm(
        layers.fc(x, 8, param_attr=drawn(WIDTH, 8)), 8, param_attr=drawn(2, 8), bias_attr=drawn(1, 14)
    )[0],
    "dynamic_lstm's cells, backwards": lambda x: layers.dynamic_lstm(
        layers.fc(x, 8, param_attr=drawn(WIDTH, 8)), 8, param_attr=drawn(2, 8), use_peepholes=False, is_reverse=True
    )[1],
    "sequence_pad": lambda x: layers.sequence_pad(x, zero())[0],
    "sequence_unpad": lambda x: layers.sequence_unpad(*layers.sequence_pad(x * x, zero())),
    "sequence_expand": lambda x: layers.sequence_expand(layers.sequence_pool(x, "max"), x),
    "sequence_expand_as": lambda x: layers.sequence_expand_as(layers.sequence_pool(x, "average"), x),
    "sequence_softmax": lambda x: layers.sequence_softmax(layers.fc(x, 1, param_attr=drawn(WIDTH, 1))),
    "sequence_concat": lambda x: layers.sequence_concat([x, layers.sequence_reverse(x * x)]),
    "sequence_reshape": lambda x: layers.sequence_reshape(x * x, 3),
    "sequence_conv": lambda x: layers.sequence_conv(x, 3, param_attr=drawn(3 * WIDTH, 3)),
    "sequence_conv_pool": lambda x: fluid.nets.sequence_conv_pool(x, 3, 3, param_attr=drawn(3 * WIDTH, 3)),
    "row_conv": lambda x: layers.row_conv(x, 2, param_attr=drawn(3, WIDTH)),
    "lod_reset": lambda x: layers.sequence_pool(layers.lod_reset(x, y=x) * x, "sqrt"),
    "topk": lambda x: layers.topk(x, 2)[0],
    "first and last": lambda x: layers.sequence_first_step(x) * layers.sequence_last_step(x),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("number", range(2))
def test_gradients_of_sequences(name: str, number: int) -> None:
    chance = np.random.default_rng(number)
    lengths = chance.integers(1, 5, 4).tolist()
    # Far enough apart that a step changes no maximum.
    ranks = chance.permutation(sum(lengths) * WIDTH).reshape(-1, WIDTH)
    rows = ((ranks + 0.5) / ranks.size * 4.0 - 2.0).astype(np.float32)
    direction = chance.choice([-1.0, 1.0], rows.shape).astype(np.float32) / ranks.size
    with programs() as made:
        x = fluid.data("x", [None, WIDTH], lod_level=1)
        x.stop_gradient = False
        found = LAYERS[name](x)
        made.start()

        def fed(values: Any) -> dict[str, Any]:
            return {"x": fluid.create_lod_tensor(values, [lengths], fluid.CPUPlace())}

        shape = made.run(fed(rows), [found])[0].shape
        weights = layers.assign(chance.normal(size=shape).astype(np.float32))
        total = layers.reduce_sum(found * weights)
        (gradient,) = fluid.gradients([total], [x])
        (slopes,) = made.run(fed(rows), [gradient])
        sides = [float(made.run(fed(rows + sign * direction), [total])[0][0]) for sign in (1, -1)]
    ours, theirs = float((slopes * direction).sum()), (sides[0] - sides[1]) / 2
    assert ours == pytest.approx(theirs, abs=2e-2 * float(np.abs(slopes * direction).sum()) + 1e-5)
