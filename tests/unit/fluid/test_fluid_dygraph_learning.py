"""Programs that run at once learn as plain Paddle does: optimizers, rates, states in files, whole models. Real Paddle."""

from __future__ import annotations

import math
import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, paddle, programs
from umiak.core.problem import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

dygraph, layers, optimizers = fluid.dygraph, fluid.layers, fluid.optimizer
functional = paddle.nn.functional


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    with dygraph.guard():
        yield


def given(values: Any) -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.asarray(values, np.float32)))


class Model(dygraph.Layer):  # type: ignore[misc]
    """Ids and numbers to two classes."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        chance = np.random.default_rng(1)
        self.rows = dygraph.Embedding([9, 4], is_sparse=sparse, param_attr=given(chance.normal(size=(9, 4))))
        self.hidden = dygraph.Linear(7, 6, act="tanh", param_attr=given(chance.normal(size=(7, 6))))
        self.out = dygraph.Linear(6, 2, param_attr=given(chance.normal(size=(6, 2))))

    def forward(self, ids: Any, numbers: Any) -> Any:
        return self.out(self.hidden(layers.concat([self.rows(ids), numbers], axis=1)))


def batches(count: int) -> Iterator[tuple[Any, Any, Any]]:
    chance = np.random.default_rng(2)
    for _ in range(count):
        ids, numbers = chance.integers(0, 9, 16), chance.normal(size=(16, 3)).astype("float32")
        yield ids, numbers, (numbers[:, :1] + ids[:, None] % 2 > 0.5).astype("int64")


def learned(make: Callable[[Any], Any], steps: int = 6, *, sparse: bool = False) -> list[float]:
    """The losses of fluid's model with fluid's optimizer."""
    model = Model(sparse)
    optimizer = make(model.parameters())
    found = []
    for ids, numbers, labels in batches(steps):
        logits = model(dygraph.to_variable(ids), dygraph.to_variable(numbers))
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, dygraph.to_variable(labels)))
        loss.backward()
        optimizer.minimize(loss)
        model.clear_gradients()
        assert loss.shape == [1]
        found.append(float(loss.numpy()[0]))
    return found


def plainly(make: Callable[[Any], Any], steps: int = 6, *, sparse: bool = False) -> list[float]:
    """Those of the same model, written for today's Paddle, with its optimizer."""
    start = Model().state_dict()
    names = ["rows.weight", "hidden.weight", "hidden.bias", "out.weight", "out.bias"]
    rows, *rest = [paddle.to_tensor(start[name].numpy(), stop_gradient=False) for name in names]
    parameters = [
        paddle.create_parameter(each.shape, "float32", default_initializer=paddle.nn.initializer.Assign(each))
        for each in (rows, *rest)
    ]
    rows, weight, bias, last, shift = parameters
    optimizer = make(parameters)
    found = []
    for ids, numbers, labels in batches(steps):
        both = paddle.concat(
            [functional.embedding(paddle.to_tensor(ids), rows, sparse=sparse), paddle.to_tensor(numbers)], 1
        )
        logits = functional.linear(paddle.tanh(functional.linear(both, weight, bias)), last, shift)
        loss = functional.cross_entropy(logits, paddle.to_tensor(labels))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append(float(loss))
    return found


NORM, L2 = fluid.clip.GradientClipByGlobalNorm, fluid.regularizer.L2Decay
now = paddle.optimizer
TWINS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sgd": (
        lambda these: optimizers.SGD(0.3, parameter_list=these),
        lambda these: now.SGD(0.3, these),
    ),
    "momentum": (
        lambda these: optimizers.Momentum(0.1, 0.9, parameter_list=these, use_nesterov=True),
        lambda these: now.Momentum(0.1, 0.9, these, use_nesterov=True),
    ),
    "adam, clipped, decayed": (
        lambda these: optimizers.Adam(0.05, parameter_list=these, grad_clip=NORM(0.3), regularization=L2(0.02)),
        lambda these: now.Adam(
            0.05,
            parameters=these,
            grad_clip=paddle.nn.ClipGradByGlobalNorm(0.3),
            weight_decay=paddle.regularizer.L2Decay(0.02),
        ),
    ),
    "adagrad, each clipped": (
        lambda these: optimizers.Adagrad(0.1, parameter_list=these, grad_clip=fluid.clip.GradientClipByNorm(0.1)),
        lambda these: now.Adagrad(0.1, parameters=these, grad_clip=paddle.nn.ClipGradByNorm(0.1)),
    ),
    "rmsprop, L1": (
        lambda these: optimizers.RMSProp(0.01, parameter_list=these, regularization=fluid.regularizer.L1Decay(0.01)),
        lambda these: now.RMSProp(0.01, parameters=these, weight_decay=paddle.regularizer.L1Decay(0.01)),
    ),
    "adamax": (
        lambda these: optimizers.Adamax(0.02, parameter_list=these),
        lambda these: now.Adamax(0.02, parameters=these),
    ),
    "lamb": (
        lambda these: optimizers.Lamb(
            0.02, parameter_list=these, exclude_from_weight_decay_fn=lambda each: ".b_" in each.name
        ),
        lambda these: now.Lamb(0.02, parameters=these, exclude_from_weight_decay_fn=lambda each: len(each.shape) == 1),
    ),
    "noam": (
        lambda these: optimizers.Adam(layers.noam_decay(8, 4), parameter_list=these),
        lambda these: _stepping(now.Adam, now.lr.NoamDecay(8, 4), these),
    ),
}


def _stepping(kind: Any, schedule: Any, parameters: Any) -> Any:
    """An optimizer of today whose rate counts its steps."""
    schedule.step()  # 1.8 counts from one
    optimizer = kind(schedule, parameters=parameters)
    step = optimizer.step

    def stepped() -> None:
        step()
        schedule.step()

    optimizer.step = stepped
    return optimizer


@pytest.mark.parametrize("name", TWINS)
def test_learns_as_plain_paddle(name: str) -> None:
    own, plain = TWINS[name]
    np.testing.assert_allclose(learned(own), plainly(plain), rtol=1e-5, atol=1e-6)


def test_sparse_gradients_learn_as_dense_ones_and_as_in_paddle() -> None:
    def sgd(everything: Any) -> Any:
        return optimizers.SGD(0.3, parameter_list=everything)

    def clipped(everything: Any) -> Any:
        return optimizers.Adam(0.05, parameter_list=everything, grad_clip=NORM(0.2), regularization=L2(0.01))

    def adam(everything: Any) -> Any:
        return optimizers.Adam(0.05, parameter_list=everything, lazy_mode=True)

    for make in (sgd, clipped):
        np.testing.assert_allclose(learned(make, sparse=True), learned(make), rtol=1e-5, atol=1e-6)
    # Paddle's Adam is one step ahead where gradients are sparse; so it was.
    plain = plainly(lambda everything: now.Adam(0.05, parameters=everything, lazy_mode=True), sparse=True)
    np.testing.assert_allclose(learned(adam, sparse=True), plain, rtol=1e-5, atol=1e-6)


def test_a_parameter_has_a_rate_and_a_penalty_of_its_own() -> None:
    weight = np.ones([2, 1], "float32")
    attribute = given(weight)
    attribute.learning_rate, attribute.regularizer = 0.5, L2(0.1)
    attribute.gradient_clip = fluid.clip.GradientClipByValue(0.25)
    layer = dygraph.Linear(2, 1, param_attr=attribute, bias_attr=False)
    optimizer = optimizers.SGD(0.2, parameter_list=layer.parameters())
    loss = layers.reduce_sum(layer(dygraph.to_variable(np.array([[3.0, 0.1]], "float32"))))
    loss.backward()
    optimizer.minimize(loss)
    np.testing.assert_allclose(layer.weight.numpy().ravel(), 1 - 0.2 * 0.5 * (np.array([0.25, 0.1]) + 0.1), rtol=1e-6)


def test_an_optimizer_says_what_is_missing() -> None:
    layer = dygraph.Linear(2, 1)
    with pytest.raises(BadRequest, match="has no parameters to learn"):
        optimizers.SGD(0.1)
    optimizer = optimizers.SGD(0.1, parameter_list=layer.parameters())
    loss = layers.mean(layer(dygraph.to_variable(np.ones([1, 2], "float32"))))
    with pytest.warns(UserWarning, match=r"call loss.backward\(\) before"):
        optimizer.minimize(loss)
    loss.backward()
    before = layer.weight.numpy()
    optimizer.minimize(loss, no_grad_set={layer.weight})
    np.testing.assert_array_equal(layer.weight.numpy(), before)
    assert (layer.bias.numpy() != 0).all()
    optimizer.clear_gradients()
    np.testing.assert_array_equal(layer.weight.gradient(), 0)
    optimizer.set_lr(0.5)
    assert optimizer.current_step_lr() == 0.5
    with pytest.raises(BadRequest, match="the rate is that of StepDecay"):
        optimizers.SGD(dygraph.StepDecay(0.1, 2), parameter_list=layer.parameters()).set_lr(0.1)


# ---- rates

STEPS = range(12)
RATES: dict[str, tuple[Callable[[], Any], Callable[[int], float]]] = {
    "piecewise": (
        lambda: dygraph.PiecewiseDecay([3, 6], [0.3, 0.2, 0.1], 0),
        lambda n: 0.3 if n < 3 else 0.2 if n < 6 else 0.1,
    ),
    "exponential": (lambda: dygraph.ExponentialDecay(0.1, 4, 0.5), lambda n: 0.1 * 0.5 ** (n / 4)),
    "natural": (
        lambda: dygraph.NaturalExpDecay(0.1, 4, 0.5, staircase=True),
        lambda n: 0.1 * math.exp(-0.5 * (n // 4)),
    ),
    "inverse": (lambda: dygraph.InverseTimeDecay(0.1, 4, 0.5), lambda n: 0.1 / (1 + 0.5 * n / 4)),
    "polynomial": (
        lambda: dygraph.PolynomialDecay(0.1, 8, 0.01, power=2.0),
        lambda n: 0.09 * (1 - min(n, 8) / 8) ** 2 + 0.01,
    ),
    "polynomial in circles": (
        lambda: dygraph.PolynomialDecay(0.1, 4, 0.0, cycle=True),
        lambda n: 0.1 * (1 - n / (4 * max(math.ceil(n / 4), 1))),
    ),
    "cosine": (lambda: dygraph.CosineDecay(0.1, 2, 6), lambda n: 0.05 * (math.cos((n // 2) * math.pi / 6) + 1)),
    "noam": (lambda: dygraph.NoamDecay(64, 5), lambda n: 64**-0.5 * min((n + 1) ** -0.5, 5**-1.5 * (n + 1))),
    "warm": (
        lambda: dygraph.LinearLrWarmup(dygraph.ExponentialDecay(0.1, 4, 0.5), 4, 0.0, 0.1),
        lambda n: 0.025 * (n + 1) if n + 1 < 4 else 0.1 * 0.5 ** (n / 4),
    ),
}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_counts_the_steps_of_its_optimizer(name: str) -> None:
    make, expected = RATES[name]
    layer = dygraph.Linear(2, 1)
    optimizer = optimizers.SGD(make(), parameter_list=layer.parameters())
    assert optimizer.current_step_lr() == pytest.approx(expected(0), rel=1e-6)
    found = []
    for _ in STEPS:
        loss = layers.mean(layer(dygraph.to_variable(np.ones([1, 2], "float32"))))
        loss.backward()
        optimizer.minimize(loss)
        found.append(optimizer.current_step_lr())
    assert found == pytest.approx([expected(step) for step in STEPS], rel=1e-5)


@pytest.mark.parametrize(
    ("recorded", "kind"),
    [
        (lambda: layers.exponential_decay(0.1, 4, 0.5), dygraph.ExponentialDecay),
        (lambda: layers.natural_exp_decay(0.1, 4, 0.5), dygraph.NaturalExpDecay),
        (lambda: layers.inverse_time_decay(0.1, 4, 0.5), dygraph.InverseTimeDecay),
        (lambda: layers.polynomial_decay(0.1, 4), dygraph.PolynomialDecay),
        (lambda: layers.piecewise_decay([2], [0.2, 0.1]), dygraph.PiecewiseDecay),
        (lambda: layers.cosine_decay(0.1, 2, 6), dygraph.CosineDecay),
        (lambda: layers.linear_lr_warmup(0.1, 4, 0.0, 0.1), dygraph.LinearLrWarmup),
    ],
)
def test_rates_of_recorded_programs_are_those_of_dygraph_inside_a_guard(recorded: Any, kind: Any) -> None:
    found = recorded()
    assert type(found) is kind
    own = [float(found().numpy()[0]) for _ in range(4)]
    with programs() as made, fluid.program_guard(made.main, made.startup):
        rate = recorded()
        made.start()
        static = [float(made.run({}, [rate])[0][0]) for _ in range(5)]
    # A warm-up counts from one here and from zero there, as in 1.8.
    assert own == pytest.approx(static[1:] if kind is dygraph.LinearLrWarmup else static[:4], rel=1e-5)


def test_rates_of_epochs() -> None:
    steps = dygraph.StepDecay(0.5, step_size=3)
    several = dygraph.MultiStepDecay(0.5, milestones=[3, 5])
    free = dygraph.LambdaDecay(0.5, lambda epoch: 0.9**epoch)
    found: list[list[float]] = [[], [], []]
    for _ in range(6):
        for rate, values in zip((steps, several, free), found, strict=True):
            values.append(float(rate().numpy()[0]))
            rate()
            rate.epoch()
    assert found[0] == pytest.approx([0.5] * 3 + [0.05] * 3)
    assert found[1] == pytest.approx([0.5] * 3 + [0.05] * 2 + [0.005])
    assert found[2] == pytest.approx([0.5 * 0.9**epoch for epoch in range(6)])


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_plateau_lowers_the_rate(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    losses = [1.0, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97]
    own = dygraph.ReduceLROnPlateau(1.0, mode=mode, decay_rate=0.5, patience=2, cooldown=1, verbose=True)
    plain = paddle.optimizer.lr.ReduceOnPlateau(1.0, mode=mode, factor=0.5, patience=2, cooldown=1)
    for loss in losses:
        value = dygraph.to_variable(np.array([loss if mode == "min" else -loss], "float32"))
        own.step(value)
        plain.step(paddle.to_tensor([loss if mode == "min" else -loss]))
        if mode == "min":
            assert float(own().numpy()[0]) == pytest.approx(plain.last_lr)
    assert own.learning_rate < 1.0
    assert "reducing learning rate from 1.0 to 0.5" in capsys.readouterr().out
    again = dygraph.ReduceLROnPlateau(1.0, mode=mode)
    again.set_dict(own.state_dict())
    assert again.learning_rate == own.learning_rate


def test_rates_say_what_is_wrong_with_them() -> None:
    for make, words in (
        (lambda: dygraph.ReduceLROnPlateau(1.0, mode="least"), "mode is min or max"),
        (lambda: dygraph.LinearLrWarmup(0.1, 3, 0.2, 0.1), "not above start_lr"),
        (lambda: dygraph.NoamDecay(4, 4).set_dict({}), "has no step_num"),
    ):
        with pytest.raises(BadRequest, match=words):
            make()
    with pytest.warns(UserWarning, match="does not know epoch_num"):
        dygraph.NoamDecay(4, 4).set_dict({"step_num": 3, "epoch_num": 1})

    class Own(dygraph.LearningRateDecay):  # type: ignore[misc]
        def step(self) -> float:
            return 0.1 * (self.step_num + 1)

    rate = Own(begin=2, step=2)
    assert [float(rate().numpy()[0]) for _ in range(2)] == pytest.approx([0.3, 0.5])


# ---- files


def train(model: Any, optimizer: Any, steps: list[Any]) -> list[float]:
    found = []
    for ids, numbers, labels in steps:
        logits = model(dygraph.to_variable(ids), dygraph.to_variable(numbers))
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, dygraph.to_variable(labels)))
        loss.backward()
        optimizer.minimize(loss)
        model.clear_gradients()
        found.append(float(loss.numpy()[0]))
    return found


def both() -> tuple[Any, Any]:
    model = Model()
    rate = dygraph.PiecewiseDecay([2, 5], [0.1, 0.05, 0.01], 0)
    return model, optimizers.Adam(rate, parameter_list=model.parameters())


def test_a_training_goes_on_from_its_files(tmp_path: Path) -> None:
    steps = list(batches(8))
    model, optimizer = both()
    train(model, optimizer, steps[:4])
    path = str(tmp_path / "folder" / "state")
    fluid.save_dygraph(model.state_dict(), path)
    fluid.save_dygraph(optimizer.state_dict(), path)
    rest = train(model, optimizer, steps[4:])
    assert sorted(each.name for each in (tmp_path / "folder").iterdir()) == ["state.pdopt", "state.pdparams"]
    assert (tmp_path / "folder" / "state.pdopt").stat().st_mode & 0o777 == 0o666 & ~umask()
    for ending in ("", ".pdparams"):
        with dygraph.guard():
            model, optimizer = both()
            weights, states = fluid.load_dygraph(path + ending)
            model.set_dict(weights)
            optimizer.set_dict(states)
            assert train(model, optimizer, steps[4:]) == pytest.approx(rest, rel=1e-6)
    assert "linear_0.w_0_moment1_0" in states
    assert list(weights) == ["rows.weight", "hidden.weight", "hidden.bias", "out.weight", "out.bias"]
    names = fluid.dygraph.load_dygraph(path, keep_name_table=True)[0]["StructuredToParameterName@@"]
    assert names["hidden.bias"] == "linear_0.b_0"
    np.testing.assert_array_equal(paddle.load(path + ".pdparams")["out.weight"].numpy(), weights["out.weight"])


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_states_of_before_and_of_other_optimizers(tmp_path: Path) -> None:
    model, optimizer = both()
    train(model, optimizer, list(batches(3)))
    state = {key: each for key, each in optimizer.state_dict().items() if key != "LR_Scheduler"}
    optimizer.set_dict({**state, "global_step": np.array([6], "int32")})  # as 1.7 writes it
    assert optimizer._learning_rate.step_num == 6
    with pytest.raises(BadRequest, match="the state has none of the learning rate PiecewiseDecay"):
        optimizer.set_dict(state)
    with pytest.raises(BadRequest, match=r"the state has no \S+_moment1_0"):
        optimizer.set_dict({"other": np.zeros(1), "global_step": np.array([1])})
    with pytest.raises(BadRequest, match="the state is empty"):
        fluid.save_dygraph(optimizers.SGD(0.1, parameter_list=model.parameters()).state_dict(), str(tmp_path / "x"))
    with pytest.raises(BadRequest, match="expected folder/name"):
        fluid.save_dygraph(model.state_dict(), f"{tmp_path}/")
    with pytest.raises(BadRequest, match=r"expected .*none.pdparams, found nothing"):
        fluid.load_dygraph(str(tmp_path / "none"))


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.path),))


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    (tmp_path / "bad.pdparams").write_bytes(pickle.dumps({"w": Hostile(tmp_path / "run")}, protocol=2))
    with pytest.raises(BadRequest, match="only arrays are read"):
        fluid.load_dygraph(str(tmp_path / "bad"))
    with pytest.raises(BadRequest, match="only arrays are read"):
        fluid.load_program_state(str(tmp_path / "bad"))
    (tmp_path / "list.pdparams").write_bytes(pickle.dumps([1], protocol=2))
    with pytest.raises(BadRequest, match="it holds a list"):
        fluid.load_dygraph(str(tmp_path / "list"))
    assert not (tmp_path / "run").exists()


def test_files_of_python_2_and_of_today_are_read(tmp_path: Path) -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3) + np.float32(0.7)
    # What Python 2 writes: arrays whose bytes are a text.
    header = b"\x80\x02}q\x00U\x01wcnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    state = b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    (tmp_path / "two.pdparams").write_bytes(header + state + b"U\x18" + array.tobytes() + b"tbs.")
    np.testing.assert_array_equal(fluid.load_dygraph(str(tmp_path / "two"))[0]["w"], array)
    layer = dygraph.Linear(2, 3)
    paddle.save(layer.state_dict(), str(tmp_path / "today.pdparams"))
    weights, states = fluid.load_dygraph(str(tmp_path / "today"))
    assert states is None
    np.testing.assert_array_equal(weights["weight"], layer.weight.numpy())


# ---- one process of several


def test_alone_a_parallel_model_is_the_model() -> None:
    assert (dygraph.ParallelEnv().nranks, dygraph.Env().local_rank, dygraph.Env().dev_id) == (1, 0, 0)
    strategy = dygraph.prepare_context(dygraph.parallel.ParallelStrategy())
    assert strategy is None
    model = Model()
    parallel = dygraph.DataParallel(model, strategy)
    assert list(parallel.state_dict()) == list(model.state_dict())
    parallel.set_dict({key: each.numpy() * 0 for key, each in model.state_dict().items()})
    loss = layers.mean(parallel(dygraph.to_variable(np.array([1])), dygraph.to_variable(np.ones([1, 3], "float32"))))
    assert parallel.scale_loss(loss) is loss
    parallel.scale_loss(loss).backward()
    parallel.apply_collective_grads()
    assert [each.name for each in parallel.parameters()] == [each.name for each in model.parameters()]


# ---- whole models


class Digits(dygraph.Layer):  # type: ignore[misc]
    """Two convolutions with pools, a normalization between, and a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = dygraph.Conv2D(1, 4, 3, padding=1, act="relu")
        self.norm = dygraph.BatchNorm(4)
        self.second = dygraph.Conv2D(4, 8, 3, padding=1, bias_attr=False)
        self.pool = dygraph.Pool2D(pool_size=2, pool_stride=2, pool_type="max")
        self.out = dygraph.Linear(8 * 2 * 2, 10, act="softmax")

    def forward(self, images: Any, label: Any = None) -> Any:
        x = self.pool(self.norm(self.first(images)))
        x = layers.reshape(self.pool(self.second(x)), shape=[-1, 8 * 2 * 2])
        found = self.out(x)
        return found if label is None else (found, layers.accuracy(input=found, label=label))


class PlainDigits(paddle.nn.Layer):  # type: ignore[misc]
    """The same for today's Paddle."""

    def __init__(self) -> None:
        super().__init__()
        self.first = paddle.nn.Conv2D(1, 4, 3, padding=1)
        self.norm = paddle.nn.BatchNorm2D(4)
        self.second = paddle.nn.Conv2D(4, 8, 3, padding=1, bias_attr=False)
        self.out = paddle.nn.Linear(32, 10)

    def forward(self, images: Any) -> Any:
        x = functional.max_pool2d(self.norm(functional.relu(self.first(images))), 2, 2)
        return self.out(functional.max_pool2d(self.second(x), 2, 2).flatten(1))


def test_digits_are_learned_as_plain_paddle_learns_them() -> None:
    own, plain = Digits(), PlainDigits()
    plain.set_state_dict({key: each.numpy() for key, each in own.state_dict().items()})
    momentum = optimizers.MomentumOptimizer(0.05, 0.9, parameter_list=own.parameters())
    other = now.Momentum(0.05, 0.9, parameters=plain.parameters())
    chance = np.random.default_rng(5)
    losses: list[list[float]] = [[], []]
    for _ in range(5):
        images, labels = chance.normal(size=(12, 1, 8, 8)).astype("float32"), chance.integers(0, 10, (12, 1))
        label = dygraph.to_variable(labels)
        label.stop_gradient = True
        found, accuracy = own(dygraph.to_variable(images), label)
        loss = layers.mean(layers.cross_entropy(found, label))
        loss.backward()
        momentum.minimize(loss)
        own.clear_gradients()
        logits = plain(paddle.to_tensor(images))
        wanted = functional.cross_entropy(logits, paddle.to_tensor(labels))
        wanted.backward()
        other.step()
        other.clear_grad()
        losses[0].append(float(loss.numpy()[0]))
        losses[1].append(float(wanted))
        assert accuracy.numpy()[0] == pytest.approx(np.mean(found.numpy().argmax(1) == labels[:, 0]))
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-5)
    own.eval()
    plain.eval()
    probability = functional.softmax(plain(paddle.to_tensor(images)))
    np.testing.assert_allclose(own(dygraph.to_variable(images)).numpy(), probability.numpy(), rtol=1e-3, atol=1e-5)


class Words(dygraph.Layer):  # type: ignore[misc]
    """A language model: an LSTM of layers, step by step."""

    def __init__(self, words: int = 11, width: int = 5) -> None:
        super().__init__()
        chance = np.random.default_rng(4)
        self.width = width
        self.rows = dygraph.Embedding([words, width], param_attr=given(chance.normal(size=(words, width))))
        self.gates = dygraph.Linear(2 * width, 4 * width, param_attr=given(chance.normal(size=(2 * width, 4 * width))))
        self.out = dygraph.Linear(width, words, param_attr=given(chance.normal(size=(width, words))))

    def forward(self, ids: Any, label: Any) -> Any:
        rows = self.rows(ids)
        hidden = cell = layers.fill_constant([ids.shape[0], self.width], "float32", 0.0)
        states = []
        for step in range(ids.shape[1]):
            row = layers.squeeze(layers.slice(rows, axes=[1], starts=[step], ends=[step + 1]), axes=[1])
            i, j, f, o = layers.split(self.gates(layers.concat([row, hidden], 1)), num_or_sections=4, dim=-1)
            cell = cell * layers.sigmoid(f) + layers.sigmoid(i) * layers.tanh(j)
            hidden = layers.tanh(cell) * layers.sigmoid(o)
            states.append(hidden)
        states = layers.transpose(layers.stack(states), perm=[1, 0, 2])
        logits = layers.reshape(self.out(states), [-1, self.out.weight.shape[1]])
        loss = layers.softmax_with_cross_entropy(logits, layers.reshape(label, [-1, 1]), soft_label=False)
        loss = layers.reshape(loss, [-1, label.shape[1]])
        return layers.reduce_sum(layers.reduce_mean(loss, dim=[0]))


def test_a_language_model_learns_as_paddles_own_lstm() -> None:
    own = Words()
    width = own.width
    cell = paddle.nn.LSTM(width, width)
    order = [0, 2, 1, 3]  # Paddle's gates are input, forget, cell, output; those above input, cell, forget, output
    weight = np.split(own.gates.weight.numpy(), 4, 1)
    both_ = np.concatenate([weight[place] for place in order], 1).T
    for each, values in zip(cell.parameters(), (both_[:, :width], both_[:, width:], 0, 0), strict=True):
        each.set_value(values + np.zeros(each.shape, "float32"))
    rows, out = paddle.nn.Embedding(11, width), paddle.nn.Linear(width, 11)
    rows.weight.set_value(own.rows.weight)
    out.weight.set_value(own.out.weight)
    out.bias.set_value(own.out.bias)
    learning = [each for name, each in cell.named_parameters() if name != "bias_hh_l0"]  # one bias, as above
    optimizer = optimizers.SGD(0.1, parameter_list=own.parameters(), grad_clip=NORM(2.0))
    parameters = [*rows.parameters(), *learning, *out.parameters()]
    other = now.SGD(0.1, parameters, grad_clip=paddle.nn.ClipGradByGlobalNorm(2.0))
    chance = np.random.default_rng(6)
    losses: list[list[float]] = [[], []]
    for _ in range(4):
        ids = chance.integers(0, 11, (3, 5))
        loss = own(dygraph.to_variable(ids[:, :-1]), dygraph.to_variable(ids[:, 1:]))
        loss.backward()
        optimizer.minimize(loss)
        own.clear_gradients()
        logits = out(cell(rows(paddle.to_tensor(ids[:, :-1])))[0])
        wanted = 4 * functional.cross_entropy(logits, paddle.to_tensor(ids[:, 1:]))
        wanted.backward()
        other.step()
        other.clear_grad()
        losses[0].append(float(loss.numpy()[0]))
        losses[1].append(float(wanted))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
