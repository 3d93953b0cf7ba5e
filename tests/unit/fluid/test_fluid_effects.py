"""Arguments that had no effect once: what each does now. Real Paddle."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid, paddle, programs, variables_of
from umiak.core.problem import BadRequest
from umiak.fluid.data import hdfs

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
ROWS = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)


def learning(chance: np.random.Generator) -> tuple[Any, list[Any]]:
    """Some layers with an optimizer: what `minimize` returned, and all variables on the way to the loss."""
    x = fluid.data("x", [None, 4])
    label = fluid.data("label", [None, 1])
    seen = [x]
    for _ in range(int(chance.integers(1, 6))):
        kind = chance.integers(4)
        last = seen[int(chance.integers(len(seen)))]
        if kind == 0:
            seen.append(layers.fc(last, int(chance.integers(1, 5)), act="tanh"))
        elif kind == 1:
            seen.append(layers.batch_norm(layers.fc(last, 3)))
        elif kind == 2:
            seen.append(
                layers.cond(layers.reduce_sum(last) > 0.0, lambda last=last: last * 2.0, lambda last=last: last - 1.0)
            )
        else:
            seen.append(layers.concat([last, seen[-1]], axis=1))
    loss = layers.mean(layers.square_error_cost(layers.fc(seen[-1], 1), label))
    return fluid.optimizer.Adam(0.1).minimize(loss), [*seen[1:], loss]


@pytest.mark.parametrize("number", range(12))
def test_a_pruned_program_gives_the_same_and_learns_nothing(number: int) -> None:
    chance = np.random.default_rng(number)
    with programs() as made:
        minimized, variables = learning(chance)
        made.start()
        scope = fluid.global_scope()
        before = {name: np.array(tensor.numpy()) for name, tensor in scope.tensors.items()}
        feed = {"x": ROWS, "label": ROWS[:, :1]}
        wanted = [variables[int(each)] for each in chance.integers(0, len(variables), 2)]
        needs_label = any(each is variables[-1] for each in wanted)
        given = feed if needs_label else {"x": ROWS}
        pruned = made.run(given, wanted, use_prune=True)
        changed = [name for name, value in before.items() if not np.array_equal(value, scope.tensors[name].numpy())]
        assert all("batch_norm" in name for name in changed)
        for name, value in before.items():
            scope.tensors[name].set_value(value)
        for one, other in zip(pruned, made.run(feed, wanted), strict=True):
            np.testing.assert_array_equal(one, other)
        for name, value in before.items():
            scope.tensors[name].set_value(value)
        whole = made.run(feed, [variables[-1]])
        after = {name: np.array(tensor.numpy()) for name, tensor in scope.tensors.items()}
        for name, value in before.items():
            scope.tensors[name].set_value(value)
        again = made.executor.run(made.main, feed=feed, fetch_list=[minimized, variables[-1]], use_prune=True)
        np.testing.assert_array_equal(again[0], whole[0])
        for name, value in after.items():
            if "batch_norm" in name:  # one that does not lead to the loss is left out
                continue
            np.testing.assert_array_equal(scope.tensors[name].numpy(), value, err_msg=name)


def test_values_of_each_device() -> None:
    with programs() as made:
        x = fluid.data("x", [None, 4])
        total = layers.reduce_sum(x)
        parallel = fluid.CompiledProgram(made.main).with_data_parallel()
        (alone,) = made.executor.run(made.main, {"x": ROWS}, [total], return_merged=False)
        (devices,) = made.executor.run(parallel, {"x": ROWS}, [total], return_merged=False)
        (merged,) = made.executor.run(parallel, {"x": ROWS}, [total])
    assert isinstance(devices, list)
    assert len(devices) == 1
    np.testing.assert_array_equal(devices[0], merged)
    np.testing.assert_array_equal(alone, merged)


def test_print_says_what_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    with programs() as made:
        x = fluid.data("x", [None, 4])
        layers.Print(x, first_n=2, message="twice", summarize=2)
        layers.Print(
            x, message="short", summarize=1, print_tensor_name=False, print_tensor_shape=False, print_tensor_type=False
        )
        for _ in range(3):
            made.run({"x": ROWS})
    lines = capfd.readouterr().err.splitlines()
    twice = [line for line in lines if line.startswith("twice")]
    assert len(twice) == 2
    assert all(word in twice[0] for word in ("name: x", "shape: [6, 4]", "type: float32"))
    short = [line for line in lines if line.startswith("short")]
    assert short == [f"short\tdata: {[float(ROWS[0, 0])]}"] * 3
    with programs(), pytest.raises(BadRequest, match="gradients are not printed"):
        layers.Print(fluid.data("x", [None, 4]), print_phase="backward")


@pytest.mark.parametrize("kind", ["downgrade_in_infer", "upscale_in_train"])
@pytest.mark.parametrize("chance", [0.2, 0.7, 1.0])
def test_dropout_with_a_seed_keeps_the_same_elements(kind: str, chance: float) -> None:
    ones = np.ones((40, 50), np.float32)
    with programs(seed=0) as made:
        (x,) = variables_of({"x": ones}).values()
        same = layers.dropout(x, chance, seed=11, dropout_implementation=kind)
        again = layers.dropout(x, chance, seed=11, dropout_implementation=kind)
        other = layers.dropout(x, chance, seed=12, dropout_implementation=kind)
        runs = [made.run({"x": ones}, [same, again, other]) for _ in range(2)]
        tested = made.executor.run(made.main.clone(for_test=True), {"x": ones}, [same])[0]
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][0], runs[0][1])
    left = runs[0][0][runs[0][0] != 0.0]
    assert abs(left.size / ones.size - (1.0 - chance)) < 0.05
    scale = 1.0 / (1.0 - chance) if kind == "upscale_in_train" and chance < 1.0 else 1.0
    np.testing.assert_allclose(left, scale, rtol=1e-6)
    np.testing.assert_allclose(tested, 1.0 if kind == "upscale_in_train" else 1.0 - chance, rtol=1e-6, atol=1e-6)
    if chance < 1.0:
        assert (runs[0][0] != runs[0][2]).any()


def test_seeds_of_drawn_numbers() -> None:
    for call in (lambda: layers.randint(3, 1000, [20], seed=4), lambda: layers.randperm(30, seed=4)):
        with programs(seed=0) as made:
            found = call()
            first, second = made.run({}, [found])[0], made.run({}, [found])[0]
        np.testing.assert_array_equal(first, second)
        assert len(set(first.tolist())) > 10


def test_ids_out_of_range() -> None:
    ids = np.array([[0], [5], [2], [-1]])
    wanted = np.zeros((4, 4), np.float32)
    wanted[0, 0] = wanted[2, 2] = 1.0
    np.testing.assert_array_equal(computed(lambda x: layers.one_hot(x, 4, allow_out_of_range=True), {"x": ids}), wanted)
    found = computed(lambda x: fluid.one_hot(x, 4, allow_out_of_range=True), {"x": ids[:, 0]})
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(BadRequest):
        computed(lambda x: layers.one_hot(x, 4), {"x": ids})


@pytest.mark.parametrize("number", range(6))
def test_a_teachers_loss_has_no_gradient_beyond_its_bounds(number: int) -> None:
    chance = np.random.default_rng(number)
    low, high = -float(chance.uniform(0.5, 3)), float(chance.uniform(0.5, 3))
    x = chance.normal(scale=3.0, size=(30, 1))
    label = chance.choice([-2.0, -1.0, 0.3, 1.4], (30, 1))
    with programs() as made:
        variables = variables_of({"x": x, "label": label})
        loss = layers.teacher_student_sigmoid_loss(
            *variables.values(), soft_max_up_bound=high, soft_max_lower_bound=low
        )
        (gradient,) = fluid.gradients([layers.reduce_sum(loss)], [variables["x"]])
        values, found = made.run({"x": x, "label": label}, [loss, gradient])
    chances = 1 / (1 + np.exp(-x))
    inside = (x > low) & (x < high)
    wanted = np.where(label < -1.0, chances, np.where(label < 0.0, chances - 1.0, 2.0 * chances - label))
    np.testing.assert_allclose(found, np.where(inside, wanted, 0.0), rtol=1e-6, atol=1e-9)
    soft = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    clicked = np.where((label >= -1.0) & (label < 0.0) | (label >= 1.0), x, 0.0)
    taught = np.where(label >= 0.0, soft - x * np.where(label >= 1.0, label - 1.0, label), 0.0)
    np.testing.assert_allclose(values, soft - clicked + taught, rtol=1e-6)


def test_a_filled_tensor_with_a_gradient() -> None:
    with programs() as made:
        three = layers.full([2], 3.0, stop_gradient=False)
        still = layers.full([2], 3.0)
        assert still.stop_gradient
        (gradient,) = fluid.gradients([layers.reduce_sum(three * three + still)], [three])
        np.testing.assert_allclose(made.run({}, [gradient])[0], [6.0, 6.0])


def test_lstm_with_a_seed_and_a_length() -> None:
    sizes = {"hidden_size": 3, "num_layers": 2, "dropout_prob": 0.5}
    x, state = np.random.default_rng(1).normal(size=(4, 2, 5)).astype(np.float32), np.zeros((2, 2, 3), np.float32)
    with programs(seed=0) as made:
        given = [fluid.data("x", [-1, 2, 5]), fluid.data("h", [2, 2, 3]), fluid.data("c", [2, 2, 3])]
        same, _, _ = layers.lstm(*given, max_len=4, seed=9, **sizes)
        free, _, _ = layers.lstm(*given, max_len=4, **sizes)
        made.start()
        feed = {"x": x, "h": state, "c": state}
        runs = [made.run(feed, [same, free]) for _ in range(3)]
        np.testing.assert_array_equal(runs[0][0], runs[1][0])
        assert any((runs[0][1] != run[1]).any() for run in runs[1:])
        with pytest.raises(BadRequest, match="more than max_len=4"):
            made.run({**feed, "x": np.zeros((5, 2, 5), np.float32)}, [same])
    with programs(), pytest.raises(BadRequest, match="max_len=2"):
        layers.lstm(
            fluid.data("x", [3, 2, 5]), fluid.data("h", [2, 2, 3]), fluid.data("c", [2, 2, 3]), max_len=2, **sizes
        )


def test_batches_for_several_devices() -> None:
    rows = [[(np.full(4, number, np.float32),)] * 2 for number in range(5)]
    with programs() as made:
        x = fluid.data("x", [None, 4])
        feeder = fluid.DataFeeder([x], fluid.CPUPlace())
        plain = list(feeder.decorate_reader(lambda: iter(rows))())
        assert [each["x"][0, 0] for each in plain] == [0, 1, 2, 3, 4]
        parts = list(feeder.decorate_reader(lambda: iter(rows), multi_devices=True, num_places=2)())
        assert [[each["x"][0, 0] for each in part] for part in parts] == [[0, 1], [2, 3]]
        assert made.run(parts[0], [layers.reduce_sum(x)])[0][0] == 8.0
        strict = feeder.decorate_reader(lambda: iter(rows), multi_devices=True, num_places=2, drop_last=False)
        with pytest.raises(BadRequest, match="1 batches are left for 2 devices"):
            list(strict())
        with pytest.raises(BadRequest, match="5 parts for num_places=3"):
            list(feeder.feed_parallel(rows, 3))


def test_what_is_refused() -> None:
    with programs():
        x = fluid.data("x", [None, 4])
        loss = layers.mean(layers.fc(x, 1))
        with pytest.raises(BadRequest, match="callbacks"):
            fluid.append_backward(loss, callbacks=[print])
        with pytest.raises(BadRequest, match="callbacks"):
            fluid.optimizer.SGD(0.1).backward(loss, callbacks=[print])
        with pytest.raises(BadRequest, match="num_trainers=2"):
            fluid.ParallelExecutor(False, num_trainers=2, trainer_id=1)
        with pytest.raises(BadRequest, match="type='selected_rows'"):
            layers.data("y", [1], type=fluid.core.VarDesc.VarType.SELECTED_ROWS)
        assert layers.data("y", [1], type=fluid.core.VarDesc.VarType.LOD_TENSOR).shape == (-1, 1)


def test_hadoop_has_a_limit_and_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "hadoop"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    client = fluid.contrib.utils.HDFSClient(str(tmp_path), {}, time_out=200, sleep_inter=7000)
    with pytest.warns(UserWarning, match=r"more than time_out, 0\.2 s"):
        assert client.ls("/data") == []
    program.write_text("#!/bin/sh\nexit 3\n")
    pauses: list[float] = []
    monkeypatch.setattr(hdfs, "sleep", pauses.append)
    (tmp_path / "part").write_text("x")
    assert client.upload("/data", str(tmp_path / "part"), retry_times=2) is False
    assert pauses == [7.0, 7.0]


@pytest.mark.parametrize("number", range(10))
def test_gradients_of_extremes(number: int) -> None:
    """Of a reduction all elements that are the extreme have it, of a pool the first one; many rows take no time."""
    chance = np.random.default_rng(number)
    shape = (*chance.integers(1, 5, int(chance.integers(1, 4))), int(chance.integers(1, 6)))
    x = chance.integers(0, 4, shape).astype(np.float64)  # with equal ones
    chosen = sorted(chance.choice(len(shape), int(chance.integers(1, len(shape) + 1)), replace=False).tolist())
    dim, keep, name = (None if number == 3 else chosen), bool(number % 2), ("max", "min")[number // 2 % 2]
    with programs() as made:
        (variable,) = variables_of({"x": x}).values()
        found = getattr(layers, f"reduce_{name}")(variable, dim=dim, keep_dim=keep)
        weight = chance.normal(size=np.asarray(getattr(x, name)(axis=dim and tuple(dim), keepdims=keep)).shape or (1,))
        (gradient,) = fluid.gradients([layers.reduce_sum(found * layers.assign(weight))], [variable])
        value, of_x = made.run({"x": x}, [found, gradient])
    best = np.asarray(getattr(x, name)(axis=dim and tuple(dim), keepdims=True))
    np.testing.assert_array_equal(value.reshape(-1), best.reshape(-1))
    np.testing.assert_allclose(of_x, (x == best) * weight.reshape(best.shape))


@pytest.mark.parametrize("number", range(6))
def test_the_first_of_equal_items_has_the_gradient_of_a_pool(number: int) -> None:
    chance = np.random.default_rng(number)
    lengths = chance.integers(0 if number else 1, 5, 6).tolist()
    rows = chance.integers(0, 3, (max(sum(lengths), 1), 4)).astype(np.float32)
    if not sum(lengths):
        lengths[0] = 1
    weight = chance.normal(size=(6, 4)).astype(np.float32)
    with programs() as made:
        x = fluid.data("x", [None, 4], lod_level=1)
        x.stop_gradient = False
        pooled = layers.sequence_pool(x, "max")
        (gradient,) = fluid.gradients([layers.reduce_sum(pooled * layers.assign(weight))], [x])
        feed = {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())}
        value, of_rows = made.run(feed, [pooled, gradient])
    wanted, begin = np.zeros_like(rows), 0
    for place, length in enumerate(lengths):
        part = rows[begin : begin + length]
        np.testing.assert_array_equal(value[place], part.max(0) if length else 0.0)
        for column in range(4 if length else 0):
            wanted[begin + part[:, column].argmax(), column] += weight[place, column]
        begin += length
    np.testing.assert_allclose(of_rows, wanted)


@pytest.mark.parametrize("form", ["NCHW", "NHWC"])
def test_the_first_of_equal_pixels_has_the_gradient_of_a_global_pool(form: str) -> None:
    images = np.random.default_rng(2).integers(0, 3, (2, 3, 4, 4)).astype(np.float32)
    given = images if form == "NCHW" else images.transpose(0, 2, 3, 1)
    with programs() as made:
        x = fluid.data("x", [None, *given.shape[1:]])
        x.stop_gradient = False
        found = layers.pool2d(x, pool_type="max", global_pooling=True, data_format=form)
        (gradient,) = fluid.gradients([layers.reduce_sum(found)], [x])
        value, of_x = made.run({"x": given}, [found, gradient])
    np.testing.assert_array_equal(value.reshape(2, 3), images.max((2, 3)))
    of_x = of_x if form == "NCHW" else of_x.transpose(0, 3, 1, 2)
    wanted = np.zeros((6, 16), np.float32)
    wanted[np.arange(6), images.reshape(6, 16).argmax(1)] = 1.0
    np.testing.assert_array_equal(of_x.reshape(6, 16), wanted)


def test_a_maximum_over_many_rows_is_quick() -> None:
    """Paddle's own gradient of it takes most of a minute."""
    x = np.random.default_rng(1).normal(size=(20_000, 50)).astype(np.float32)
    with programs() as made:
        (variable,) = variables_of({"x": x}).values()
        (gradient,) = fluid.gradients([layers.reduce_sum(layers.reduce_max(variable, dim=0))], [variable])
        found = made.run({"x": x}, [gradient])[0]
    np.testing.assert_array_equal(found, (x == x.max(0)).astype(np.float32))


@pytest.mark.parametrize(
    ("p", "axis", "keepdim"), [(2, 1, True), (1, 0, False), (3, -1, False), ("fro", None, False), ("fro", [0, 1], True)]
)
def test_a_function_of_paddle_itself_takes_variables(p: Any, axis: Any, keepdim: bool) -> None:
    order = None if p == "fro" else p
    whole = np.linalg.norm(ROWS, order, tuple(axis) if isinstance(axis, list) else axis, keepdim)
    found = computed(lambda x: paddle.norm(x, p=p, axis=axis, keepdim=keepdim), {"x": ROWS})
    np.testing.assert_allclose(found, np.reshape(whole, found.shape), rtol=1e-5)
    own = paddle.norm(paddle.to_tensor(ROWS), p=p, axis=axis, keepdim=keepdim)
    np.testing.assert_allclose(own.numpy(), whole, rtol=1e-5)
    ours, theirs = derivative(lambda x: paddle.norm(x, p=p, axis=axis, keepdim=keepdim), {"x": ROWS})
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-7)


def test_a_variable_is_given_and_a_condition_is_not_known() -> None:
    with programs():
        x = fluid.data("x", [None, 4])
        assert x
        with pytest.raises(BadRequest, match="known only when the program runs"):
            bool(layers.reduce_sum(x) > 1.0)
