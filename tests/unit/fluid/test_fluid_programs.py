"""Programs of fluid as people wrote them: the documents' networks, what is saved, what is said of mistakes. Real Paddle."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, fluid, paddle, programs
from umiak.core.problem import BadRequest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers


def mlp(x: Any, y: Any, width: int = 16) -> Any:
    """The network of the pages about training on clouds."""
    first = layers.fc(input=x, size=width, act="tanh")
    second = layers.fc(input=first, size=width, act="tanh")
    prediction = layers.fc(input=[second], size=2, act="softmax")
    return layers.mean(x=layers.cross_entropy(input=prediction, label=y))


def batch(number: int = 0, rows: int = 32) -> dict[str, Any]:
    chance = np.random.default_rng(number)
    x = chance.random((rows, 8)).astype(np.float32)
    return {"x": x, "y": (x.sum(1, keepdims=True) > 4).astype(np.int64)}


def inputs() -> Any:
    return layers.data(name="x", shape=[8], dtype="float32"), layers.data(name="y", shape=[1], dtype="int64")


# ---- learning as Paddle's own classes learn


def twin_losses(made: Any, optimizer: Any, steps: int, decay: float = 0.0) -> list[float]:
    """The same network with Paddle's dynamic graph, from the same first values."""
    values = {name: tensor.numpy() for name, tensor in fluid.global_scope().tensors.items()}
    linears = []
    for number, (wide, size) in enumerate(((8, 16), (16, 16), (16, 2))):
        linear = paddle.nn.Linear(wide, size)
        linear.weight.set_value(values[f"fc_{number}.w_0"])
        linear.bias.set_value(values[f"fc_{number}.b_0"])
        linears.append(linear)
    learning = optimizer([each for linear in linears for each in linear.parameters()])
    losses = []
    for step in range(steps):
        feed = batch(step)
        hidden = paddle.to_tensor(feed["x"])
        for linear in linears[:2]:
            hidden = paddle.tanh(linear(hidden))
        loss = paddle.nn.functional.cross_entropy(linears[2](hidden), paddle.to_tensor(feed["y"]))
        loss.backward()
        learning.step()
        learning.clear_grad()
        losses.append(float(loss))
    return losses


L2 = fluid.regularizer.L2Decay(0.01)
CLIP = fluid.clip.GradientClipByGlobalNorm(0.1)
OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "sgd": (lambda: fluid.optimizer.SGD(0.1), lambda ps: paddle.optimizer.SGD(0.1, ps)),
    "momentum": (
        lambda: fluid.optimizer.Momentum(0.1, 0.9, use_nesterov=True),
        lambda ps: paddle.optimizer.Momentum(0.1, 0.9, ps, use_nesterov=True),
    ),
    "adam": (lambda: fluid.optimizer.Adam(0.01), lambda ps: paddle.optimizer.Adam(0.01, parameters=ps)),
    "adamax": (lambda: fluid.optimizer.Adamax(0.01), lambda ps: paddle.optimizer.Adamax(0.01, parameters=ps)),
    "adagrad": (lambda: fluid.optimizer.Adagrad(0.1), lambda ps: paddle.optimizer.Adagrad(0.1, parameters=ps)),
    "rmsprop": (lambda: fluid.optimizer.RMSProp(0.01), lambda ps: paddle.optimizer.RMSProp(0.01, parameters=ps)),
    "lamb": (
        lambda: fluid.optimizer.Lamb(0.01),
        lambda ps: paddle.optimizer.Lamb(0.01, lamb_weight_decay=0.01, parameters=ps),
    ),
    "l2": (
        lambda: fluid.optimizer.SGD(0.1, regularization=L2),
        lambda ps: paddle.optimizer.SGD(0.1, ps, weight_decay=paddle.regularizer.L2Decay(0.01)),
    ),
    "clip, then l2": (
        lambda: fluid.optimizer.SGD(0.1, regularization=L2, grad_clip=CLIP),
        lambda ps: paddle.optimizer.SGD(
            0.1, ps, weight_decay=paddle.regularizer.L2Decay(0.01), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1)
        ),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_learns_as_its_twin_in_the_dynamic_graph(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    with programs() as made:
        loss = mlp(*inputs())
        ours().minimize(loss)
        made.start()
        expected = twin_losses(made, theirs, 4)
        # The twin has copies of the values that the program begins with, too.
        found = [float(made.run(batch(step), [loss])[0][0]) for step in range(4)]
    assert found == pytest.approx(expected, rel=2e-6)


def test_other_optimizers_learn() -> None:
    for optimizer in (fluid.optimizer.Adadelta(1.0), fluid.optimizer.Ftrl(0.02), fluid.optimizer.DecayedAdagrad(0.05)):
        with programs() as made:
            loss = mlp(*inputs())
            optimizer.minimize(loss)
            made.start()
            losses = [float(made.run(batch(), [loss.name])[0][0]) for _ in range(15)]
        assert losses[-1] < losses[0], optimizer.type


def test_a_learning_rate_counts_runs() -> None:
    with programs() as made:
        loss = mlp(*inputs())
        rate = layers.piecewise_decay([2, 3], [0.1, 0.01, 0.001])
        fluid.optimizer.SGD(rate).minimize(loss)
        made.start()
        rates = [float(made.run(batch(), [rate])[0][0]) for _ in range(4)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.001])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: layers.exponential_decay(1.0, 2, 0.25), [1.0, 0.5, 0.25]),
        (lambda: layers.exponential_decay(1.0, 2, 0.25, staircase=True), [1.0, 1.0, 0.25]),
        (lambda: layers.natural_exp_decay(1.0, 1, 1.0), [1.0, np.exp(-1), np.exp(-2)]),
        (lambda: layers.inverse_time_decay(1.0, 1, 1.0), [1.0, 1 / 2, 1 / 3]),
        (lambda: layers.polynomial_decay(1.0, 2, 0.0), [1.0, 0.5, 0.0]),
        (lambda: layers.noam_decay(4, 2), [0.5 * 2**-1.5, 0.5 * 2 * 2**-1.5, 0.5 * 3**-0.5]),
        (lambda: layers.cosine_decay(1.0, 1, 2), [1.0, 0.5, 0.0]),
        (lambda: layers.linear_lr_warmup(0.5, 2, 0.0, 0.4), [0.0, 0.2, 0.5]),
    ],
)
def test_learning_rates(make: Any, expected: list[float]) -> None:
    with programs() as made:
        rate = make()
        made.start()
        found = [float(made.run(fetch=[rate])[0][0]) for _ in range(3)]
    assert found == pytest.approx(expected, abs=1e-7)


# ---- the convolutional network


def test_the_convolutional_network() -> None:
    with programs() as made:
        image = layers.data(name="img", shape=[1, 28, 28], dtype="float32")
        label = layers.data(name="label", shape=[1], dtype="int64")
        hidden = fluid.nets.simple_img_conv_pool(
            image, filter_size=5, num_filters=4, pool_size=2, pool_stride=2, act="relu"
        )
        hidden = layers.batch_norm(hidden)
        hidden = fluid.nets.simple_img_conv_pool(
            hidden, filter_size=5, num_filters=6, pool_size=2, pool_stride=2, act="relu"
        )
        prediction = layers.fc(input=hidden, size=10, act="softmax")
        loss = layers.mean(layers.cross_entropy(input=prediction, label=label))
        accuracy = layers.accuracy(input=prediction, label=label)
        test = fluid.default_main_program().clone(for_test=True)
        fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
        made.start()
        feeder = fluid.DataFeeder(feed_list=[image, label], place=fluid.CPUPlace())

        def samples() -> Any:
            for number in range(40):
                picture = np.random.default_rng(number % 10).random(784).astype(np.float32)
                yield picture, number % 10

        reader = paddle.batch(paddle.reader.shuffle(samples, buf_size=20), batch_size=20)
        for _ in range(8):
            for rows in reader():
                found = made.run(feeder.feed(rows), [accuracy, loss])
        assert hidden.shape == (-1, 6, 4, 4)
        assert float(found[0][0]) > 0.8
        rows = list(samples())[:10]
        before = fluid.global_scope().tensors["batch_norm_0.w_1"].numpy()
        tested = made.executor.run(test, feed=feeder.feed(rows), fetch_list=[loss, prediction])
        assert tested[1].shape == (10, 10)
        np.testing.assert_array_equal(fluid.global_scope().tensors["batch_norm_0.w_1"].numpy(), before)
        assert not any(each.type in ("adam", "backward") for each in test.global_block().ops)


# ---- programs are values


def test_a_program_can_be_printed_cloned_and_compared() -> None:
    texts = []
    for _ in range(2):
        with programs() as made:
            mlp(*inputs())
            texts.append(str(made.main))
            copied = made.main.clone()
            assert copied == made.main
            layers.data("more", [1])
            assert copied != made.main
    assert texts[0] == texts[1]
    assert "param fc_0.w_0: float32[8, 16], persistable" in texts[0]
    assert "fc_2.tmp_2 = softmax(input=fc_2.tmp_1, use_cudnn=False, axis=-1)  # test_fluid_programs.py:" in texts[0]


def test_parameters_are_shared_by_name_and_a_seed_makes_runs_alike() -> None:
    found = []
    for _ in range(2):
        with programs(seed=3) as made:
            x, _ = inputs()
            shared = fluid.ParamAttr(name="shared", initializer=fluid.initializer.Uniform(-0.1, 0.1))
            both = layers.fc(x, 4, param_attr=shared) - layers.fc(x, 4, param_attr=shared)
            noise = layers.dropout(x, 0.5)
            assert [each.name for each in made.main.all_parameters()] == ["shared", "fc_0.b_0", "fc_1.b_0"]
            made.start()
            result = made.run(batch(), [both, noise])
            assert not result[0].any()
            found.append(result[1])
            with pytest.raises(BadRequest, match="shared has the shape"):
                layers.fc(both, 5, param_attr=shared)
    np.testing.assert_array_equal(*found)


def test_initializers_have_the_spread_of_18() -> None:
    with programs() as made:
        makers = {
            "xavier": None,
            "msra": fluid.initializer.MSRA(),
            "normal": fluid.initializer.Normal(0.0, 0.5),
            "truncated": fluid.initializer.TruncatedNormal(0.0, 0.5),
            "constant": fluid.initializer.Constant(2.0),
        }
        for name, maker in makers.items():
            layers.create_parameter([60, 40], "float32", name=name, default_initializer=maker)
        made.start()
        values = {name: np.asarray(fluid.global_scope().find_var(name).get_tensor()) for name in makers}
    assert np.abs(values["xavier"]).max() == pytest.approx(np.sqrt(6 / 100), rel=0.02)
    assert np.abs(values["msra"]).max() == pytest.approx(np.sqrt(6 / 60), rel=0.02)
    assert values["normal"].std() == pytest.approx(0.5, rel=0.1)
    assert np.abs(values["truncated"]).max() <= 1.0
    assert (values["constant"] == 2).all()


# ---- control flow


def test_loops_and_conditions() -> None:
    with programs() as made:
        x = fluid.data("x", [None], "float32")
        count = layers.fill_constant([1], "int64", 0)
        most = layers.fill_constant([1], "int64", 3)
        total = layers.fill_constant([1], "float32", 1.0)
        going = layers.less_than(count, most)
        loop = layers.While(going)
        with loop.block():
            layers.assign(total * 2.0, total)
            layers.increment(count, 1)
            layers.less_than(count, most, cond=going)
        picked = layers.cond(layers.reduce_sum(x) > 1.0, lambda: x * 2.0, lambda: x - 1.0)
        rate = layers.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
        with layers.Switch() as switch:
            with switch.case(layers.reduce_sum(x) > 1.0):
                layers.assign(layers.fill_constant([1], "float32", 5.0), rate)
            with switch.default():
                layers.assign(layers.fill_constant([1], "float32", 6.0), rate)
        made.start()
        large = made.run({"x": np.array([1.0, 2.0])}, [total, picked, rate])
        small = made.run({"x": np.array([0.5])}, [total, picked, rate])
    assert [each.tolist() for each in large] == [[8.0], [2.0, 4.0], [5.0]]
    assert [each.tolist() for each in small] == [[8.0], [-0.5], [6.0]]


# ---- files


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    with programs() as made:
        loss = mlp(*inputs())
        fluid.optimizer.Adam(0.01).minimize(loss)
        made.start()
        made.run(batch())
        fluid.io.save_persistables(made.executor, str(tmp_path / "each"), made.main)
        fluid.io.save_persistables(made.executor, str(tmp_path / "one"), made.main, filename="all")
        fluid.save(made.main, str(tmp_path / "two" / "model"))
        expected = made.run(batch(), [loss])[0]
        assert (tmp_path / "each" / "fc_0.w_0_moment1_0").is_file()
        for load in (
            lambda: fluid.io.load_persistables(made.executor, str(tmp_path / "each"), made.main),
            lambda: fluid.io.load_persistables(made.executor, str(tmp_path / "one"), made.main, filename="all"),
            lambda: fluid.load(made.main, str(tmp_path / "two" / "model"), made.executor),
        ):
            load()
            np.testing.assert_array_equal(made.run(batch(), [loss])[0], expected)
        (tmp_path / "each" / "fc_0.w_0").write_bytes(b"nothing")
        with pytest.raises(BadRequest, match="UM-FLUID-007"):
            fluid.io.load_params(made.executor, str(tmp_path / "each"), made.main)


def test_a_model_for_inference(tmp_path: Path) -> None:
    with programs() as made:
        x, y = inputs()
        prediction = layers.dropout(layers.fc(x, 3, act="softmax"), 0.5)
        fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.cross_entropy(prediction, y)))
        made.start()
        fluid.io.save_inference_model(str(tmp_path), ["x"], [prediction], made.executor, made.main)
        with pytest.raises(BadRequest, match="needs x, which is not fed"):
            fluid.io.save_inference_model(str(tmp_path / "no"), ["y"], [prediction], made.executor, made.main)
        expected = made.executor.run(made.main.clone(for_test=True), feed=batch(), fetch_list=[prediction])[0]
    with programs() as made:
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path), made.executor)
        found = made.executor.run(program, feed={"x": batch()["x"]}, fetch_list=targets)[0]
    assert feeds == ["x"]
    np.testing.assert_array_equal(found, expected)


# ---- loaders


def test_loaders_feed_a_program() -> None:
    def rows() -> Any:
        yield from ((np.full(8, number, np.float32), [number % 2]) for number in range(5))

    with programs() as made:
        x, y = inputs()
        total = layers.reduce_sum(x)
        loader = fluid.io.DataLoader.from_generator([x, y], capacity=4)
        loader.set_sample_generator(rows, batch_size=2, drop_last=False)
        sums = [float(made.run(feed, [total])[0][0]) for feed in loader()]
        assert sums == [8.0, 40.0, 32.0]
        other = fluid.io.DataLoader.from_generator([x, y], capacity=4, iterable=False)
        other.set_sample_list_generator(paddle.batch(rows, 2))
        for _ in range(2):
            other.start()
            found = [float(made.run(fetch=[total])[0][0]) for _ in range(3)]
            with pytest.raises(fluid.core.EOFException):
                made.run(fetch=[total])
            other.reset()
            assert found == sums


# ---- mistakes


def test_errors_name_the_operation_the_line_and_shapes() -> None:
    with programs() as made:
        x, y = inputs()
        with pytest.raises(BadRequest) as caught:
            layers.concat([x, y], axis=1)
        assert caught.value.problems[0].where is not None
        assert caught.value.problems[0].where.startswith(__file__)
        assert "fluid.layers.concat" in str(caught.value)
        assert "x: float32[-1, 8]; y: int64[-1, 1]" in str(caught.value)
        loss = mlp(x, y)
        with pytest.raises(BadRequest, match=r"fc_0.w_0, which has no value"):
            made.run(batch(), [loss])
        made.start()
        with pytest.raises(BadRequest, match=r"cross_entropy reads y, which has no value"):
            made.run({"x": batch()["x"]}, [loss])
        with pytest.raises(BadRequest, match=r"mul failed on x: float32\[2, 7\], fc_0.w_0: float32\[8, 16\]"):
            made.run({**batch(), "x": np.zeros((2, 7), np.float32)}, [loss])
        with pytest.raises(BadRequest, match="computed by no operation"):
            made.run(batch(), ["nothing"])
        with pytest.raises(BadRequest, match="expected a loss of one element"):
            fluid.optimizer.SGD(0.1).minimize(x)
        with pytest.raises(BadRequest, match="known only when the program runs"):
            bool(x > 1.0)
        with pytest.raises(BadRequest, match="act='rely'"):
            layers.fc(x, 3, act="rely")
        with pytest.raises(TypeError, match="unexpected argument 'axes'"):
            layers.concat([x, x], axes=1)
        strict = fluid.data("strict", [None, 3], "float32")
        with pytest.raises(BadRequest, match=r"strict is float32\[-1, 3\], got \[2, 4\]"):
            made.run({"strict": np.zeros((2, 4))}, [strict])


def test_the_dynamic_mode_computes_at_once() -> None:
    with fluid.dygraph.guard():
        found = layers.elementwise_add(
            fluid.dygraph.to_variable(np.ones([2, 2], np.float32)), paddle.ones([2, 2]), act="relu"
        )
        assert found.numpy().tolist() == [[2, 2], [2, 2]]
        with pytest.raises(BadRequest, match=r"use a layer of fluid\.dygraph"):
            layers.fc(found, 3)


def test_auc_counts_over_batches() -> None:
    with programs() as made:
        p, y = fluid.data("p", [None, 2], "float32"), fluid.data("y", [None, 1], "int64")
        area, batch_area, _ = layers.auc(p, y)
        made.start()
        first = np.array([[0.2, 0.8], [0.7, 0.3]])
        made.run({"p": first, "y": [[1], [0]]}, [area])
        found = made.run({"p": np.array([[0.9, 0.1], [0.4, 0.6]]), "y": [[1], [0]]}, [area, batch_area])
    metric = fluid.metrics.Auc()
    metric.update(np.array([[0.2, 0.8], [0.7, 0.3], [0.9, 0.1], [0.4, 0.6]]), np.array([[1], [0], [1], [0]]))
    assert float(found[0][0]) == pytest.approx(metric.eval())
    assert float(found[0][0]) == pytest.approx(0.5)
    assert float(found[1][0]) == 0.0


@pytest.mark.parametrize("curve", ["ROC", "PR"])
@pytest.mark.parametrize("slide_steps", [0, 1, 3])
def test_auc_of_the_last_batches(slide_steps: int, curve: str) -> None:
    """As many as slide_steps says, all of them with 0."""
    chance = np.random.default_rng(4)
    thresholds = 63
    batches = [(chance.uniform(size=(12, 2)).astype("float32"), chance.integers(0, 2, (12, 1))) for _ in range(6)]
    with programs() as made:
        p, y = fluid.data("p", [None, 2], "float32"), fluid.data("y", [None, 1], "int64")
        area, last, states = layers.auc(p, y, curve, thresholds, slide_steps=slide_steps)
        made.start()
        for number in range(len(batches)):
            feed = dict(zip("py", batches[number], strict=True))
            found = made.run(feed, [area, last])
            for got, first in zip(found, (0, number + 1 - slide_steps if slide_steps else 0), strict=True):
                chosen = batches[max(first, 0) : number + 1]
                scores = np.concatenate([(each[0][:, 1] * np.float32(thresholds)).astype(int) for each in chosen])
                wanted = _area(scores, np.concatenate([each[1].reshape(-1) for each in chosen]), curve)
                assert float(got[0]) == pytest.approx(wanted)
        assert len(states) == 4
        assert states[0].shape == ((slide_steps + 1) * (thresholds + 1) + 1,)


@pytest.mark.parametrize("slide_steps", [0, 2])
def test_auc_counts_where_nobody_asks_for_it(slide_steps: int) -> None:
    """What is fetched once comes of all batches, also where another operation reads it or it stays."""
    chance = np.random.default_rng(6)
    batches = [
        {"p": chance.uniform(size=(9, 2)).astype("float32"), "y": chance.integers(0, 2, (9, 1))} for _ in range(4)
    ]
    found = []
    for asks in (True, False):
        with programs() as made:
            p, y = fluid.data("p", [None, 2], "float32"), fluid.data("y", [None, 1], "int64")
            area, last, states = layers.auc(p, y, num_thresholds=31, slide_steps=slide_steps)
            kept, kept_last, _ = layers.auc(p, y, num_thresholds=31)
            kept.persistable = True
            twice = layers.scale(kept_last, 2.0)
            made.start()
            for feed in batches[:-1]:
                made.run(feed, [area, last] if asks else [twice])
            stays = np.array(fluid.global_scope().find_var(kept.name).get_tensor())
            found.append([stays, *made.run(batches[-1], [area, last, twice, *states])])
    for own, wanted in zip(*found, strict=True):
        np.testing.assert_array_equal(own, wanted)


def _area(scores: Any, labels: Any, curve: str) -> float:
    """Trapezoids between all thresholds."""
    points = [(0.0, 1.0 if curve == "PR" else 0.0)]
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = scores >= threshold
        hits, misses = (labels[chosen] == 1).sum(), (labels[chosen] == 0).sum()
        recall = hits / (labels == 1).sum()
        points.append((recall, hits / (hits + misses)) if curve == "PR" else (misses / (labels == 0).sum(), recall))
    return float(sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points)))


def test_auc_refuses_what_it_does_not_know() -> None:
    with programs():
        p, y = fluid.data("p", [None, 2], "float32"), fluid.data("y", [None, 1], "int64")
        with pytest.raises(BadRequest, match="ROC or PR"):
            layers.auc(p, y, curve="roc")
        with pytest.raises(BadRequest, match="slide_steps"):
            layers.auc(p, y, slide_steps=-1)


def test_embedding_drops_a_dimension_of_one_and_padding_learns_nothing() -> None:
    ids = np.array([[1], [2]], np.int64)
    weight = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
    assert computed(lambda x: layers.embedding(x, [4, 3], param_attr=weight), {"x": ids}).shape == (2, 3)
    assert computed(lambda x: fluid.embedding(x, [4, 3], param_attr=weight), {"x": ids}).shape == (2, 1, 3)
    padded = computed(lambda x: layers.embedding(x, [4, 3], padding_idx=-2, param_attr=weight), {"x": ids})
    assert padded.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_two_losses_of_one_program_learn() -> None:
    with programs() as made:
        x, _ = inputs()
        first = layers.fc(x, 4, param_attr="first", bias_attr=False)
        second = layers.fc(first, 1, param_attr="second", bias_attr=False)
        large, small = layers.mean(second), layers.mean(layers.square(first))
        fluid.optimizer.SGD(0.1).minimize(large, parameter_list=["second"])
        fluid.optimizer.Adam(0.1).minimize(small)
        made.start()
        scope = fluid.global_scope()
        before = {name: scope.tensors[name].numpy() for name in ("first", "second")}
        hidden = batch()["x"] @ before["first"]
        made.run(batch())
        np.testing.assert_allclose(
            scope.tensors["second"].numpy(), before["second"] - 0.1 * hidden.mean(0)[:, None], rtol=1e-5
        )
        assert np.abs(scope.tensors["first"].numpy() - before["first"]).max() == pytest.approx(0.1, rel=0.01)
        assert [each.type for each in made.main.global_block().ops].count("backward") == 2


def test_cross_entropy_leaves_labels_out_only_where_they_are() -> None:
    p = np.array([[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]], np.float32)
    for labels in ([[1], [0], [1]], [[1], [-100], [0]], [[-100], [-100], [-100]]):
        got = computed(layers.cross_entropy, {"x": p, "y": np.array(labels)})
        wanted = [[0.0 if label < 0 else -np.log(row[label])] for row, (label,) in zip(p, labels, strict=True)]
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_gradients_refuse_what_they_would_not_heed() -> None:
    with programs():
        x = fluid.data("x", [None, 2], "float32")
        x.stop_gradient = False
        middle = layers.square(x)
        loss = layers.mean(middle)
        fluid.gradients(loss, x, no_grad_set=set())
        with pytest.raises(BadRequest, match=f"no_grad_set is not heeded: {middle.name}"):
            fluid.gradients(loss, x, no_grad_set={middle.name})


def test_what_fails_at_the_end_of_a_with_block_names_the_users_line() -> None:
    with programs():
        ids = layers.data("ids", [1], dtype="int64", lod_level=1)
        rnn = layers.DynamicRNN()
        with pytest.raises(BadRequest) as raised, rnn.block():  # noqa: PT012 - the block itself fails when it ends
            word = rnn.step_input(layers.embedding(ids, [20, 8]))
            rnn.output(word)
    assert f"{__file__}:" in str(raised.value)
    assert "contextlib" not in str(raised.value)
