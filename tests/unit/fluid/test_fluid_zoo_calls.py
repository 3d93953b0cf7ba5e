"""What models of PaddleRec 1.8.5 write in fluid: files of layers as modules, counts of accuracy, shapes that only a run knows, names of variables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.fluid_programs import fluid

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]
layers = fluid.layers


def test_files_of_layers_are_modules() -> None:
    import paddle.fluid.layers.control_flow as control_flow
    import paddle.fluid.layers.nn as nn
    import paddle.fluid.layers.tensor as tensor
    from paddle.fluid.layers.tensor import Variable

    assert nn.fc is layers.fc
    assert tensor.cast is not None
    assert control_flow.less_than is not None
    assert Variable is fluid.framework.Variable


def test_accuracy_counts_into_variables() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, label = layers.data("x", [3]), layers.data("label", [1], dtype="int64")
        right, total = layers.create_tensor(dtype="int64"), layers.create_tensor(dtype="int64")
        part = layers.accuracy(x, label, 1, correct=right, total=total)
    feed = {"x": np.array([[1, 2, 3], [3, 2, 1], [1, 3, 2]], "float32"), "label": np.array([[2], [0], [0]])}
    found = fluid.Executor().run(main, feed, [part, right, total, "top_k_0.tmp_1"])
    assert [each.reshape(-1).tolist() for each in found[1:]] == [[2], [3], [2, 0, 1]]
    assert found[0][0] == pytest.approx(2 / 3)


def test_a_shape_that_no_trial_fits_is_known_but_for_the_batch() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        ids = layers.data("ids", [1], dtype="int64", lod_level=1)
        rows = layers.reshape(layers.embedding(ids, [10, 4]), [-1, 39, 4])
        assert rows.shape == (-1, 39, 4)
        assert layers.reduce_sum(rows, dim=1).shape == (-1, 4)
        with pytest.raises(fluid.core.EnforceNotMet):
            layers.reshape(layers.fill_constant([3, 4], "float32", 1.0), [-1, 5])


def test_an_activation_has_the_name_of_its_layer() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = layers.data("x", [3])
        assert layers.fc(x, 2, act="softmax").name == "fc_0.tmp_2"
        assert layers.fc(x, 2, act="relu", name="l3").name == "l3.tmp_2"
        assert layers.topk(x, 1)[0].name == "top_k_0.tmp_0"


def test_halves_of_a_batch_of_known_size_are_compared() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 1], "float32")
        better = layers.slice(x, axes=[0, 1], starts=[0, 0], ends=[64, 1])
        worse = layers.slice(x, axes=[0, 1], starts=[64, 0], ends=[128, 1])
        assert (better.shape, worse.shape) == ((-1, 1), (-1, 1))
        margin = layers.elementwise_sub(layers.fill_constant([64, 1], "float32", 1.0), better)
        loss = layers.mean(layers.relu(layers.elementwise_add(margin, worse)))
    values = np.random.default_rng(3).normal(size=(128, 1)).astype("float32")
    (found,) = fluid.Executor().run(main, {"x": values}, [loss])
    expected = np.maximum(1.0 - values[:64] + values[64:], 0.0).mean()
    np.testing.assert_allclose(found, [expected], rtol=1e-6)
