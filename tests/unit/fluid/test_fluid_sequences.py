"""Sequences: values and offsets, against plain Python over each sequence. Real Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, programs

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
LENGTHS = [2, 1, 3]
ROWS = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
PARTS = np.split(ROWS, np.cumsum(LENGTHS)[:-1])


def of_sequences(call: Callable[[Any], Any], *, rows: Any = ROWS) -> tuple[list[Any], list[Any]]:
    """What a layer makes of the sequences: arrays, and their lengths."""
    with programs() as made:
        x = layers.data("x", [rows.shape[1]], dtype=str(rows.dtype), lod_level=1)
        results = call(x)
        results = list(results) if isinstance(results, list | tuple) else [results]
        made.start()
        feed = {"x": fluid.create_lod_tensor(rows, [LENGTHS], fluid.CPUPlace())}
        found = made.run(feed, results, return_numpy=False)
        for variable, tensor in zip(results, found, strict=True):
            assert variable.lod_level == len(tensor.lod()), variable
            assert all(size in (-1, own) for size, own in zip(variable.shape, tensor.shape(), strict=True)), variable
    return [np.asarray(each) for each in found], [each.recursive_sequence_lengths() for each in found]


POOLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda part: part.sum(0),
    "average": lambda part: part.mean(0),
    "sqrt": lambda part: part.sum(0) / np.sqrt(len(part)),
    "max": lambda part: part.max(0),
    "first": lambda part: part[0],
    "last": lambda part: part[-1],
}


@pytest.mark.parametrize("kind", POOLS)
def test_pools(kind: str) -> None:
    (found,), (lengths,) = of_sequences(lambda x: layers.sequence_pool(x, kind))
    np.testing.assert_allclose(found, [POOLS[kind](part) for part in PARTS], rtol=1e-5)
    assert lengths == []


@pytest.mark.parametrize("kind", POOLS)
def test_pools_of_single_items(kind: str) -> None:
    with programs() as made:
        x = layers.data("x", [ROWS.shape[1]], dtype="float32", lod_level=1, stop_gradient=False)
        pooled = layers.sequence_pool(x, kind)
        (gradient,) = fluid.gradients(layers.reduce_sum(pooled * pooled), x)
        made.start()
        rows = ROWS.astype("float32")
        feed = {"x": fluid.create_lod_tensor(rows, [[1] * len(rows)], fluid.CPUPlace())}
        found, slope = made.run(feed, [pooled, gradient])
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_allclose(slope, 2 * rows, rtol=1e-6)


def softmax(part: Any) -> Any:
    grown = np.exp(part - part.max())
    return grown / grown.sum()


SAME_ROWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "softmax": (
        lambda x: layers.sequence_softmax(layers.slice(x, [1], [0], [1])),
        lambda part: softmax(part[:, :1]),
    ),
    "reverse": (layers.sequence_reverse, lambda part: part[::-1]),
    "relu hands sequences on": (layers.relu, lambda part: np.maximum(part, 0)),
    "expand_as": (
        lambda x: layers.sequence_expand_as(layers.sequence_first_step(x), x),
        lambda part: np.repeat(part[:1], len(part), 0),
    ),
    "expand": (
        lambda x: layers.sequence_expand(layers.sequence_last_step(x), x),
        lambda part: np.repeat(part[-1:], len(part), 0),
    ),
    "pad and unpad": (
        lambda x: layers.sequence_unpad(*layers.sequence_pad(x, layers.assign(np.zeros(1, "float32")))),
        lambda part: part,
    ),
}


@pytest.mark.parametrize("name", SAME_ROWS)
def test_as_many_rows_as_before(name: str) -> None:
    call, expected = SAME_ROWS[name]
    (found,), (lengths,) = of_sequences(call)
    np.testing.assert_allclose(found, np.concatenate([expected(part) for part in PARTS]), rtol=1e-5)
    assert lengths == [LENGTHS]


def test_padded() -> None:
    value = layers.assign
    (found, lengths), _ = of_sequences(lambda x: layers.sequence_pad(x, value(np.full(1, 9, "float32")), maxlen=4))
    assert found.shape == (3, 4, 4)
    assert lengths.tolist() == LENGTHS
    np.testing.assert_array_equal(found[1], np.concatenate([PARTS[1], np.full((3, 4), 9, np.float32)]))


def test_reshaped_joined_and_enumerated() -> None:
    (found,), (lengths,) = of_sequences(lambda x: layers.sequence_reshape(x, 2))
    assert lengths == [[4, 2, 6]]
    np.testing.assert_array_equal(found, ROWS.reshape(-1, 2))
    (found,), (lengths,) = of_sequences(lambda x: layers.sequence_concat([x, x]))
    assert lengths == [[4, 2, 6]]
    np.testing.assert_array_equal(found, np.concatenate([each for part in PARTS for each in (part, part)]))
    ids = np.arange(1, 7, dtype=np.int64)[:, None]
    (found,), _ = of_sequences(lambda x: layers.sequence_enumerate(x, 2, pad_value=0), rows=ids)
    assert found.tolist() == [[1, 2], [2, 0], [3, 0], [4, 5], [5, 6], [6, 0]]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("is_reverse", [False, True])
def test_gru(is_reverse: bool) -> None:
    weights = np.random.default_rng(2).normal(size=(2, 6)).astype(np.float32)
    wide = np.random.default_rng(3).normal(size=(6, 6)).astype(np.float32)
    attribute = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(weights))
    (found,), (lengths,) = of_sequences(
        lambda x: layers.dynamic_gru(x, 2, param_attr=attribute, is_reverse=is_reverse), rows=wide
    )
    gates, candidate = weights.reshape(-1)[:8].reshape(2, 4), weights.reshape(-1)[8:].reshape(2, 2)
    expected = np.zeros((6, 2))
    for begin, length in zip(np.cumsum([0, *LENGTHS]), LENGTHS, strict=False):
        hidden = np.zeros(2)
        steps = range(begin, begin + length)
        for row in reversed(steps) if is_reverse else steps:
            both = sigmoid(wide[row, :4] + hidden @ gates)
            new = np.tanh(wide[row, 4:] + (both[2:] * hidden) @ candidate)
            hidden = (1 - both[:2]) * hidden + both[:2] * new
            expected[row] = hidden
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert lengths == [LENGTHS]


def test_lstm_with_peepholes() -> None:
    chance = np.random.default_rng(4)
    weights, bias = chance.normal(size=(2, 8)).astype(np.float32), chance.normal(size=(1, 14)).astype(np.float32)
    wide = chance.normal(size=(6, 8)).astype(np.float32)

    def given(values: Any) -> Any:
        return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(values))

    (found, cells), _ = of_sequences(
        lambda x: layers.dynamic_lstm(x, 8, param_attr=given(weights), bias_attr=given(bias)), rows=wide
    )
    peep = bias[0, 8:].reshape(3, 2)
    hidden = cell = np.zeros(2)
    for row in range(3, 6):
        new, into, forget, out = np.split(wide[row] + bias[0, :8] + hidden @ weights, 4)
        cell = np.tanh(new) * sigmoid(into + cell * peep[0]) + cell * sigmoid(forget + cell * peep[1])
        hidden = sigmoid(out + cell * peep[2]) * np.tanh(cell)
    np.testing.assert_allclose(found[5], hidden, rtol=1e-4)
    np.testing.assert_allclose(cells[5], cell, rtol=1e-4)


def test_a_network_over_sequences_learns() -> None:
    with programs() as made:
        words = layers.data("words", [1], dtype="int64", lod_level=1)
        label = layers.data("label", [1], dtype="int64")
        rows = layers.embedding(words, [20, 8])
        hidden = fluid.nets.sequence_conv_pool(rows, num_filters=8, filter_size=3, act="tanh")
        loss = layers.mean(layers.cross_entropy(layers.fc(hidden, 2, act="softmax"), label))
        fluid.optimizer.Adam(0.05).minimize(loss)
        made.start()
        feeder = fluid.DataFeeder([words, label])
        samples = [([1, 2, 3], [0]), ([4], [1]), ([2, 2], [0]), ([5, 4, 6, 4], [1])]
        losses = [float(made.run(feeder.feed(samples), [loss])[0][0]) for _ in range(30)]
    assert losses[-1] < 0.1 * losses[0]


def test_values_without_sequences_are_refused() -> None:
    with programs() as made:
        x = layers.data("x", [4], lod_level=1)
        total = layers.sequence_pool(x, "sum")
        with pytest.raises(Exception, match=r"x has no sequences: feed it as a LoDTensor"):
            made.run({"x": ROWS}, [total])
