"""What stands beside layers: averages, wrapped optimizers, scaled losses, evaluators, contrib, and inner parts that programs use. Real Paddle."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid, given, of_sequences, programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers, contrib = fluid.layers, fluid.contrib
CHANCE = np.random.default_rng(14)
ROWS = CHANCE.normal(size=(4, 3)).astype(np.float32)


def value(name: str) -> Any:
    return np.asarray(fluid.global_scope().find_var(name).get_tensor()).copy()


@contextmanager
def line(minimize: Callable[[Any], Any]) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """A parameter w, whose gradient is the mean of what is fed; what one run more does."""
    with programs() as made:
        x = fluid.data("x", [None, 3])
        w = layers.create_parameter([3], "float32", "w", default_initializer=fluid.initializer.Constant(1.0))
        minimize(layers.mean(layers.reduce_sum(layers.elementwise_mul(x, w, axis=1), dim=1)))
        made.start()

        def step(rows: Any = ROWS) -> Any:
            made.run({"x": rows})
            return value("w")

        yield made, step


def test_the_mean_of_a_parameter_over_a_window() -> None:
    kept: dict[str, Any] = {}

    def minimize(loss: Any) -> None:
        fluid.optimizer.SGD(0.1).minimize(loss)
        kept["average"] = fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=3)

    with line(minimize) as (made, step):
        values = [step() for _ in range(4)]
        # two values fill the first window: 2 >= 2 and 2 >= 4 * 0.5; the third and the fourth the second one
        with kept["average"].apply(made.executor):
            np.testing.assert_allclose(value("w"), np.mean(values[2:], 0), rtol=1e-5)
        np.testing.assert_array_equal(value("w"), values[-1])
        with kept["average"].apply(made.executor, need_restore=False):
            pass
        np.testing.assert_allclose(value("w"), np.mean(values[2:], 0), rtol=1e-5)
        kept["average"].restore(made.executor)
        np.testing.assert_array_equal(value("w"), values[-1])


def window(values: list[Any], rate: float, shortest: int, longest: int) -> Any:
    """The mean that 1.8's three sums keep."""
    now: list[Any] = []
    old: list[Any] = []
    for count, each in enumerate(values, 1):
        now.append(each)
        if len(now) >= shortest and len(now) >= min(longest, count * rate):
            old, now = now, []
    return np.mean(old + now, 0)


@pytest.mark.parametrize(("rate", "shortest", "longest"), [(0.15, 1, 100), (0.5, 2, 4), (1.0, 3, 3)])
def test_windows_of_means_grow_with_the_runs(rate: float, shortest: int, longest: int) -> None:
    kept: dict[str, Any] = {}

    def minimize(loss: Any) -> None:
        fluid.optimizer.SGD(0.1).minimize(loss)
        kept["average"] = fluid.optimizer.ModelAverage(rate, shortest, longest)

    with line(minimize) as (made, step):
        values = []
        for count in range(7):
            values.append(step(ROWS * (count + 1)))
            with kept["average"].apply(made.executor):
                np.testing.assert_allclose(value("w"), window(values, rate, shortest, longest), rtol=1e-5)


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_mean_that_forgets(scheduled: bool) -> None:
    kept: dict[str, Any] = {}

    def minimize(loss: Any) -> None:
        fluid.optimizer.SGD(0.1).minimize(loss)
        steps = layers.autoincreased_step_counter("steps") if scheduled else None
        kept["mean"] = fluid.optimizer.ExponentialMovingAverage(0.9, steps)
        kept["mean"].update()

    with line(minimize) as (made, step):
        mean, decay = np.zeros(3), 0.9
        for count in range(1, 4):
            decay = min(0.9, (count + 1) / (count + 10)) if scheduled else 0.9
            mean = mean * decay + step() * (1 - decay)
        for _ in range(2):
            with kept["mean"].apply(made.executor):
                np.testing.assert_allclose(value("w"), mean / (1 - decay**3), rtol=1e-5)


def test_steps_back_to_slow_parameters() -> None:
    with line(fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), alpha=0.3, k=2).minimize) as (_, step):
        slow = fast = np.ones(3)
        for count in range(1, 6):
            fast = fast - 0.1 * ROWS.mean(0)
            if count % 2 == 0:
                slow = fast = 0.3 * fast + 0.7 * slow
            np.testing.assert_allclose(step(), fast, rtol=1e-5)
    with pytest.raises(fluid.core.EnforceNotMet, match="alpha between"):
        fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), alpha=2.0)


def test_what_has_no_effect_is_said() -> None:
    def recomputed(loss: Any) -> Any:
        optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        with pytest.raises(fluid.core.EnforceNotMet, match="_set_checkpoints"):
            optimizer.minimize(loss)
        optimizer._set_checkpoints([loss])
        with pytest.warns(UserWarning, match="RecomputeOptimizer: nothing is recomputed"):
            return optimizer.minimize(loss)

    with line(recomputed) as (_, step):
        np.testing.assert_allclose(step(), 1 - 0.1 * ROWS.mean(0), rtol=1e-5)
    with pytest.warns(UserWarning, match="rampup_begin_step"):
        optimizer = fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, rampup_begin_step=0)
    with line(optimizer.minimize) as (_, step):
        step()
        np.testing.assert_allclose(step(), 1 - 0.1 * (1 + 1.9) * ROWS.mean(0), rtol=1e-5)
    with pytest.raises(fluid.core.EnforceNotMet, match="runs on one device"):
        fluid.optimizer.PipelineOptimizer(fluid.optimizer.SGD(0.1))


def test_short_gradients_with_noise() -> None:
    with line(fluid.optimizer.Dpsgd(0.1, clip=0.2, batch_size=2.0, sigma=0.0).minimize) as (_, step):
        gradient = ROWS.mean(0)
        np.testing.assert_allclose(step(), 1 - 0.1 * gradient / max(np.linalg.norm(gradient) / 0.2, 1), rtol=1e-5)
    with line(fluid.optimizer.DpsgdOptimizer(0.1, 1e9, 2.0, 3.0).minimize) as (_, step):
        noise = step() - (1 - 0.1 * gradient)
    assert np.ptp(noise) < 1e-6  # one number for the whole parameter
    assert abs(noise[0]) > 1e-6


def test_the_gradient_of_one_variable_is_bounded() -> None:
    with programs() as made:
        x = fluid.data("x", [None, 3])
        x.stop_gradient = False
        middle = layers.scale(x, 2.0)
        middle._set_error_clip(fluid.clip.ErrorClipByValue(max=0.5, min=-0.1))
        (gradient,) = fluid.gradients(layers.reduce_sum(layers.square(middle)), x)
        (found,) = made.run({"x": ROWS}, [gradient])
    np.testing.assert_allclose(found, 2 * np.clip(4 * ROWS, -0.1, 0.5), rtol=1e-5)


def test_losses_are_scaled_and_the_scale_follows_the_gradients() -> None:
    mixed = fluid.contrib.mixed_precision

    def minimize(loss: Any) -> Any:
        optimizer = mixed.decorate(
            fluid.optimizer.Momentum(0.1, 0.5), init_loss_scaling=8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=1, decr_ratio=0.25
        )  # fmt: skip
        with pytest.warns(UserWarning, match="computed in float32"):
            found = optimizer.minimize(loss)
        kept["scale"], kept["loss"] = optimizer.get_loss_scaling().name, optimizer.get_scaled_loss()
        return found

    kept: dict[str, Any] = {}
    infinite = np.full((4, 3), np.inf, np.float32)
    with line(minimize) as (made, step):
        (scaled,) = made.run({"x": ROWS}, [kept["loss"]])
        assert scaled[0] == pytest.approx(8 * ROWS.mean(0).sum(), rel=1e-5)
        after = value("w")
        np.testing.assert_allclose(after, 1 - 0.1 * ROWS.mean(0), rtol=1e-5)
        np.testing.assert_allclose(step(infinite), after - 0.05 * ROWS.mean(0), rtol=1e-5)  # momentum goes on
        scales = [value(kept["scale"])[0]]
        for rows in (infinite, ROWS, ROWS, ROWS, ROWS):
            step(rows)
            scales.append(value(kept["scale"])[0])
    assert scales == [8, 2, 2, 2, 4, 4]


def test_lists_of_operations() -> None:
    lists = fluid.contrib.mixed_precision.AutoMixedPrecisionLists({"exp"}, {"matmul"})
    assert "exp" in lists.white_list
    assert "matmul" in lists.black_list - lists.white_list
    with pytest.raises(ValueError, match="exp"):
        fluid.contrib.mixed_precision.AutoMixedPrecisionLists({"exp"}, {"exp"})
    assert fluid.contrib.mixed_precision.decorator.decorate is fluid.contrib.mixed_precision.decorate


def test_evaluators_count_over_runs() -> None:
    tags, wrong = np.array([0, 1, 2])[:, None], np.array([0, 1, 0])[:, None]
    with programs() as made:
        x, y = (fluid.data(name, [None, 1], "int64", lod_level=1) for name in "xy")
        chunks = fluid.evaluator.ChunkEvaluator(x, y, "IOB", 2)
        distance = fluid.evaluator.EditDistance(x, y)
        made.start()

        def run(found: Any, wanted: Any) -> None:
            lengths = [[3]]
            made.run({name: fluid.create_lod_tensor(each, lengths, fluid.CPUPlace()) for name, each in (("x", found), ("y", wanted))}, chunks.metrics)  # fmt: skip

        run(tags, tags)
        run(wrong, tags)
        found = [each[0] for each in chunks.eval(made.executor)]
        assert found == pytest.approx([3 / 4, 3 / 4, 3 / 4])
        mean, errors = (each[0] for each in distance.eval(made.executor))
        assert (mean, errors) == pytest.approx((1 / 6, 1 / 2))
        chunks.reset(made.executor)
        run(tags, tags)
        assert chunks.eval(made.executor)[0][0] == 1


SIMPLE: dict[str, tuple[Callable[..., Any], list[Any], Callable[..., Any]]] = {
    "partial_concat": (
        lambda x, y: contrib.layers.partial_concat([x, y], -2, 1),
        [ROWS, -ROWS],
        lambda x, y: np.stack([x[:, 1], y[:, 1]], 1),
    ),
    "partial_sum": (lambda x, y: contrib.layers.partial_sum([x, y], 1), [ROWS, 2 * ROWS], lambda x, y: (x + y)[:, 1:]),
    "fused_elemwise_activation": (
        lambda x, y: contrib.layers.fused_elemwise_activation(x, y, ["elementwise_add", "tanh"]),
        [ROWS, 2 * ROWS],
        lambda x, y: x + np.tanh(y),
    ),
    "outer function of one": (
        lambda x, y: contrib.layers.fused_elemwise_activation(x, y, "scale,elementwise_mul", scale=3.0),
        [ROWS, 2 * ROWS],
        lambda x, y: 3 * x * y,
    ),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_parts_and_pairs(name: str) -> None:
    call, inputs, expected = SIMPLE[name]
    arrays = {f"x{place}": each for place, each in enumerate(inputs)}
    np.testing.assert_allclose(computed(call, arrays), expected(*inputs), rtol=1e-5)
    ours, measured = derivative(call, arrays)
    assert ours == pytest.approx(measured, rel=1e-5)


def test_rows_of_contrib() -> None:
    places = np.array([[2, 0], [1, 1], [0, 0], [2, 2]])
    found = computed(contrib.layers.index_sample, {"x": ROWS, "y": places})
    np.testing.assert_array_equal(found, np.take_along_axis(ROWS, places, 1))
    shuffled = computed(contrib.layers.shuffle_batch, {"x": np.arange(60).reshape(20, 3)})
    assert sorted(shuffled[:, 0].tolist()) == list(range(0, 60, 3))
    assert shuffled[:, 0].tolist() != list(range(0, 60, 3))
    table, ids = CHANCE.normal(size=(5, 2)).astype(np.float32), np.array([[1], [0], [4], [1]])
    np.testing.assert_array_equal(computed(lambda x: contrib.layers.sparse_embedding(x, [5, 2], param_attr=given(table)), {"x": ids}), table[ids])  # fmt: skip
    with programs(), pytest.warns(UserWarning, match="entry has no effect"):
        contrib.layers.sparse_embedding(fluid.data("ids", [None, 1], "int64"), [5, 2], entry=object())
    (found,) = of_sequences(
        lambda x: contrib.layers.fused_embedding_seq_pool(x, [5, 2], padding_idx=0, param_attr=given(table)),
        {"x": (ids, [[3, 1]])},
    )
    np.testing.assert_allclose(np.asarray(found), [table[1] + table[4], table[1]], rtol=1e-6)
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="functor_list"):
        contrib.layers.fused_elemwise_activation(fluid.data("x", [1]), fluid.data("y", [1]), ["tanh", "relu"])


TREE = np.array([[0, 0, 0, 1, 2], [0, 1, 0, 3, 4], [0, 1, 0, 0, 0], [7, 2, 1, 0, 0], [8, 2, 1, 0, 0]], np.int32)
"""Rows: item, layer, ancestor, children. Nodes 3 and 4 are items; node 0 stands for none."""


def test_children_in_a_tree() -> None:
    children, items = computed(
        lambda x: contrib.layers.tdm_child(x, 5, 2, given(TREE)), {"x": np.array([[1], [2], [0]])}
    )
    assert children.tolist() == [[[3, 4]], [[0, 0]], [[0, 0]]]
    assert items.tolist() == [[[1, 1]], [[0, 0]], [[0, 0]]]


def test_nodes_are_drawn_layer_by_layer() -> None:
    ways, nodes = np.array([[1, 3], [1, 4], [2, 5], [2, 0]], np.int32), np.array([[1], [2], [3], [4], [5]], np.int32)

    def call(x: Any) -> Any:
        drawn = contrib.layers.tdm_sampler(x, [1, 2], [2, 3], 4, given(ways), given(nodes))
        return [each for side in drawn for each in side]

    items = np.array([[0], [1], [2], [3]])
    upper, lower, labels, more, mask, rest = computed(call, {"x": items})
    assert upper[:, :, 0].tolist() == [[1, 2], [1, 2], [2, 1], [2, 1]]
    for row, own in enumerate(ways[:3, 1]):
        assert lower[row, 0, 0] == own
        assert sorted(lower[row, :, 0].tolist()) == [3, 4, 5]
    assert lower[3].tolist() == [[0]] * 3
    assert labels[:, :, 0].tolist() == [[1, 0]] * 4
    assert more[:, :, 0].tolist() == [[1, 0, 0]] * 3 + [[0, 0, 0]]
    assert mask.all()
    assert rest[:, :, 0].tolist() == [[1, 1, 1]] * 3 + [[0, 0, 0]]
    whole = computed(lambda x: contrib.layers.tdm_sampler(x, [1, 2], [2, 3], 4, given(ways), given(nodes), output_positive=False, output_list=False, seed=3), {"x": items})  # fmt: skip
    assert whole[0].shape == (4, 3)
    assert not whole[1].any()
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="no more nodes"):
        contrib.layers.tdm_sampler(fluid.data("x", [None, 1], "int64"), [2, 2], [2, 3], 4)


def test_sums_of_clicks_over_runs() -> None:
    guess, click = np.array([[0.2], [0.9]], np.float32), np.array([[0.0], [1.0]], np.float32)
    with programs() as made:
        sums = contrib.layers.ctr_metric_bundle(fluid.data("x", [None, 1]), fluid.data("y", [None, 1]))
        made.start()
        for _ in range(2):
            found = made.run({"x": guess, "y": click}, sums)
    away = guess - click
    expected = [(away * away).sum(), np.abs(away).sum(), guess.sum(), (1 / (1 + np.exp(-guess))).sum(), 1, 2]
    np.testing.assert_allclose([each[0] for each in found], 2 * np.array(expected), rtol=1e-5)


def test_inner_parts_that_programs_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert fluid.core.op_proto_and_checker_maker.OpRole.Optimize == 2
    assert fluid.core.op_proto_and_checker_maker.kOpRoleAttrName() == "op_role"
    assert fluid.core.op_proto_and_checker_maker.kOpRoleVarAttrName() == "op_role_var"
    with programs() as made:
        variable = layers.relu(fluid.data("x", [None, 3]))
        assert fluid.framework._get_var(variable.name) is variable
        fluid.transpiler.details.program_to_code(made.main)
    assert "relu(" in capsys.readouterr().out

    @fluid.wrapped_decorator.signature_safe_contextmanager
    def block() -> Any:
        yield 3

    with block() as found:
        assert found == 3
