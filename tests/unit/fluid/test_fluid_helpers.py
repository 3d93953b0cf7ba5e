"""What stands around the layers: names, readers, devices, metrics, control flow, files. Real Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, fluid, paddle, programs
from umiak.core.problem import BadRequest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
A = np.array([[0.3, -1.2, 2.5], [1.7, 0.6, -0.4]], np.float32)
B = np.array([[0.3, 0.7, -2.0], [0.4, 1.5, 0.9]], np.float32)


# ---- programs and names


def test_programs_are_switched_and_names_generated() -> None:
    main, startup = fluid.Program(), fluid.Program()
    before = fluid.switch_main_program(main), fluid.switch_startup_program(startup)
    try:
        assert fluid.default_main_program() is main
        assert fluid.default_startup_program() is startup
        with fluid.name_scope("net"), fluid.device_guard("cpu"):
            assert layers.data("x", [3]).name == "x"
    finally:
        fluid.switch_main_program(before[0])
        fluid.switch_startup_program(before[1])
    with fluid.unique_name.guard("own_"):
        assert fluid.unique_name.generate("fc") == "own_fc_0"
        held = fluid.unique_name.switch(fluid.unique_name.UniqueNameGenerator("other_"))
        assert fluid.unique_name.generate("fc") == "other_fc_0"
        fluid.unique_name.switch(held)
        assert fluid.unique_name.generate("fc") == "own_fc_1"


def test_variables_and_parameters_are_classes() -> None:
    with programs() as made:
        x = layers.data("x", [3])
        layers.fc(x, 2, param_attr=fluid.ParamAttr("w"))
        weight = made.main.global_block().var("w")
        assert isinstance(x, fluid.Variable)
        assert layers.Variable is fluid.Variable
        assert not isinstance(x, fluid.Parameter)
        assert isinstance(weight, fluid.Parameter)
        assert (fluid.io.is_parameter(weight), fluid.io.is_persistable(weight)) == (True, True)
        assert (fluid.io.is_parameter(x), fluid.io.is_persistable(x)) == (False, False)
        assert not fluid.io.is_belong_to_optimizer(weight)
        names = [each.name for each in fluid.io.get_program_parameter(made.main)]
        assert names == ["w", "fc_0.b_0"]
        assert [each.name for each in fluid.io.get_program_persistable_vars(made.main)] == names


def test_a_layer_of_ones_own() -> None:
    with programs() as made:
        x = layers.data("x", [3])
        helper = fluid.layer_helper.LayerHelper("scaled", act="relu")
        factor = helper.create_parameter(None, [3], default_initializer=fluid.initializer.Constant(2.0))
        result = helper.append_activation(layers.elementwise_mul(x, factor))
        made.start()
        np.testing.assert_allclose(made.run({"x": A}, [result])[0], np.maximum(2 * A, 0))


def test_the_dynamic_mode_can_be_switched() -> None:
    assert not fluid.in_dygraph_mode()
    fluid.enable_dygraph()
    try:
        assert fluid.dygraph.enabled()
        with fluid.dygraph.no_grad():
            assert layers.relu(fluid.dygraph.to_variable(A)).stop_gradient
    finally:
        fluid.disable_dygraph()
    assert not fluid.in_dygraph_mode()


def test_versions_and_types() -> None:
    fluid.require_version("1.6.0", "2.0.0")
    with pytest.raises(Exception, match="VersionError"):
        fluid.require_version("2.0.0")
    assert fluid.convert_dtype(np.float32) == "float32"
    assert layers.data("typed", [1], dtype=fluid.core.VarDesc.VarType.INT64).dtype == "int64"


def test_places() -> None:
    assert len(fluid.cpu_places(2)) == 2
    assert len(fluid.cuda_pinned_places(1)) == 1
    assert isinstance(fluid.cuda_pinned_places(1)[0], fluid.CUDAPinnedPlace)
    assert [place.get_device_id() for place in fluid.cuda_places([0, 1])] == [0, 1]
    assert fluid.is_compiled_with_cuda() == paddle.is_compiled_with_cuda()
    assert fluid.is_compiled_with_xpu() == paddle.is_compiled_with_xpu()
    assert fluid.core.get_cuda_device_count() >= 0


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="a Paddle with CUDA runs it there")
def test_a_gpu_that_is_not_there_is_the_cpu_with_a_warning() -> None:
    with programs():
        total = layers.fill_constant([1], "float32", 2.0)
        executor = fluid.Executor(fluid.CUDAPlace(0))
        with pytest.warns(UserWarning, match="built without CUDA"):
            (found,) = executor.run(fetch_list=[total])
        assert found.tolist() == [2.0]


@pytest.mark.parametrize("kind", ["compiled", "parallel"])
def test_compiled_and_parallel_programs_run_on_one_device(kind: str) -> None:
    with programs() as made:
        x = layers.data("x", [3])
        total = layers.reduce_sum(x)
        build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
        build.fuse_all_reduce_ops, execution.num_threads = True, 2
        with pytest.raises(BadRequest, match="has no setting"):
            build.nonsense = 1
        if kind == "compiled":
            compiled = fluid.CompiledProgram(made.main).with_data_parallel(
                total.name, build_strategy=build, exec_strategy=execution
            )
            (found,) = made.executor.run(compiled, feed={"x": A}, fetch_list=[total])
        else:
            parallel = fluid.ParallelExecutor(False, total.name, made.main, build_strategy=build)
            (found,) = parallel.run([total.name], feed={"x": A})
    assert found == pytest.approx(A.sum(), rel=1e-6)


# ---- gradients


def test_gradients_are_recorded_by_themselves() -> None:
    with programs() as made:
        x = layers.data("x", [3])
        loss = layers.reduce_sum(layers.fc(x, 1, param_attr=fluid.ParamAttr("w"), bias_attr=False))
        ((parameter, gradient),) = fluid.append_backward(loss)
        made.start()
        assert parameter.name == "w"
        np.testing.assert_allclose(made.run({"x": A}, [gradient])[0], A.sum(0)[:, None], rtol=1e-6)


def stepped(optimizer: Any, **attribute: Any) -> tuple[Any, Any]:
    """The weight before and after a step whose gradient is A's sum of rows, 2, -0.6 and 2.1."""
    with programs() as made:
        x = layers.data("x", [3])
        attr = fluid.ParamAttr("w", initializer=fluid.initializer.Xavier(), **attribute)
        loss = layers.reduce_sum(layers.fc(x, 1, param_attr=attr, bias_attr=False))
        optimizer().minimize(loss)
        made.start()
        before = fluid.global_scope().tensors["w"].numpy()[:, 0]
        made.run({"x": A})
        return before, fluid.global_scope().tensors["w"].numpy()[:, 0]


GRADIENT = A.sum(0)


def test_penalties_and_clips_of_one_step() -> None:
    def clipped_everywhere() -> Any:
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.0))
        return fluid.optimizer.SGD(0.1)

    by_value = fluid.clip.GradientClipByValue(0.5)
    before, after = stepped(lambda: fluid.optimizer.SGD(0.1, grad_clip=by_value))
    np.testing.assert_allclose(before - after, 0.1 * np.clip(GRADIENT, -0.5, 0.5), rtol=1e-4)
    before, after = stepped(clipped_everywhere)
    np.testing.assert_allclose(before - after, 0.1 * GRADIENT / np.linalg.norm(GRADIENT), rtol=1e-4)
    before, after = stepped(lambda: fluid.optimizer.SGD(0.1), regularizer=fluid.regularizer.L1Decay(0.3))
    np.testing.assert_allclose(before - after, 0.1 * (GRADIENT + 0.3 * np.sign(before)), rtol=1e-4)
    before, after = stepped(lambda: fluid.optimizer.LarsMomentum(0.1, 0.9, lars_coeff=0.01, lars_weight_decay=0.02))
    size, steep = np.linalg.norm(before), np.linalg.norm(GRADIENT)
    rate = 0.1 * 0.01 * size / (steep + 0.02 * size)
    np.testing.assert_allclose(before - after, rate * (GRADIENT + 0.02 * before), rtol=1e-3)
    assert isinstance(fluid.optimizer.SGD(0.1), fluid.optimizer.Optimizer)


def test_steps_are_counted() -> None:
    with programs() as made:
        mine = layers.autoincreased_step_counter(begin=5, step=2)
        decay = layers.learning_rate_scheduler._decay_step_counter()
        assert layers._decay_step_counter is layers.learning_rate_scheduler._decay_step_counter
        made.start()
        found = [[float(each[0]) for each in made.run(fetch=[mine, decay])] for _ in range(3)]
    assert found == [[5.0, 0.0], [7.0, 1.0], [9.0, 2.0]]


# ---- control flow and arrays


def test_functions_by_a_number_or_by_conditions() -> None:
    with programs() as made:
        number = fluid.data("number", [1], "int64")
        one, two, ten = (lambda value=value: layers.fill_constant([1], "float32", value) for value in (1.0, 2.0, 10.0))
        zero, three = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
        by_number = layers.switch_case(number, {1: one, 2: two}, ten)
        by_condition = layers.case(
            [(layers.less_than(number, zero), one), (layers.greater_than(number, three), two)], ten
        )
        found = [
            [float(each[0]) for each in made.run({"number": np.array([value])}, [by_number, by_condition])]
            for value in (1, 2, 7, -1)
        ]
    assert found == [[1, 10], [2, 10], [10, 2], [10, 1]]


def test_a_loop_of_functions_and_arrays() -> None:
    with programs() as made:
        start, most = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 4)
        total = layers.fill_constant([1], "int64", 1)
        _, product = layers.while_loop(
            lambda i, _: layers.less_than(i, most), lambda i, x: [i + 1, x * 3], [start, total]
        )
        array = layers.create_array("float32")
        x = layers.data("x", [3])
        layers.array_write(x, start, array)
        layers.array_write(x * 2.0, layers.increment(layers.assign(start), 1), array)
        second = layers.array_read(array, layers.fill_constant([1], "int64", 1))
        found = made.run({"x": A}, [product, second, layers.array_length(array)])
    assert found[0].tolist() == [81]
    np.testing.assert_allclose(found[1], 2 * A)
    assert found[2].tolist() == [2]


def test_a_network_of_steps() -> None:
    steps = np.random.default_rng(2).normal(size=(4, 2, 3)).astype(np.float32)
    with programs() as made:
        x = fluid.data("x", [4, 2, 3])
        rnn = layers.StaticRNN()
        with rnn.step():
            word = rnn.step_input(x)
            held = rnn.memory(shape=[-1, 3], batch_ref=word)
            new = layers.tanh(layers.elementwise_add(held, word))
            rnn.update_memory(held, new)
            rnn.step_output(new)
        (found,) = made.run({"x": steps}, [rnn()])
    expected, state = [], np.zeros((2, 3))
    for step in steps:
        state = np.tanh(state + step)
        expected.append(state)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_step_of_a_gru() -> None:
    weights = np.random.default_rng(2).normal(size=(2, 6)).astype(np.float32)
    wide, hidden = np.random.default_rng(3).normal(size=(2, 6)).astype(np.float32), A[:, :2].copy()
    attribute = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(weights))
    new, reset, gates = computed(lambda x, h: layers.gru_unit(x, h, 6, param_attr=attribute), {"x": wide, "h": hidden})
    two, candidate = weights.reshape(-1)[:8].reshape(2, 4), weights.reshape(-1)[8:].reshape(2, 2)
    both = 1 / (1 + np.exp(-(wide[:, :4] + hidden @ two)))
    fresh = np.tanh(wide[:, 4:] + (both[:, 2:] * hidden) @ candidate)
    np.testing.assert_allclose(new, (1 - both[:, :2]) * hidden + both[:, :2] * fresh, rtol=1e-4)
    np.testing.assert_allclose(reset, both[:, 2:] * hidden, rtol=1e-4)
    np.testing.assert_allclose(gates, np.concatenate([both, fresh], 1), rtol=1e-4)


def test_functions_of_python_and_printing(capfd: pytest.CaptureFixture[str]) -> None:
    with programs() as made:
        x = layers.data("x", [3])
        out = layers.create_tensor("float32")
        out.shape = (-1, 3)
        layers.py_func(lambda values: np.asarray(values) * 3, x, out)
        layers.Print(x, message="the input")
        np.testing.assert_allclose(made.run({"x": A}, [out])[0], 3 * A, rtol=1e-6)
    assert "the input" in capfd.readouterr().err


def test_offsets_of_sequences_can_be_replaced() -> None:
    with programs() as made:
        x = layers.data("x", [3], lod_level=1)
        sums = layers.sequence_pool(layers.lod_reset(x, target_lod=[0, 2, 3]), "sum")
        rows = np.concatenate([A, B[:1]])
        feed = {"x": fluid.create_lod_tensor(rows, [[1, 2]], fluid.CPUPlace())}
        np.testing.assert_allclose(made.run(feed, [sums])[0], [rows[:2].sum(0), rows[2]], rtol=1e-5)


def test_windows_over_sequences() -> None:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    with programs() as made:
        x = layers.data("x", [2], lod_level=1)
        one = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
        result = layers.sequence_conv(x, 1, 3, param_attr=one, bias_attr=False)
        made.start()
        (found,) = made.run({"x": fluid.create_lod_tensor(rows, [[3, 1]], fluid.CPUPlace())}, [result])
    assert found[:, 0].tolist() == [6.0, 15.0, 14.0, 13.0]


MORE: dict[str, tuple[Any, Any, Any]] = {
    "equal": (layers.equal, (A, B), A == B),
    "not_equal": (layers.not_equal, (A, B), A != B),
    "less_equal": (layers.less_equal, (A, B), A <= B),
    "greater_than": (layers.greater_than, (A, B), A > B),
    "greater_equal": (layers.greater_equal, (A, B), A >= B),
    "logical_or": (lambda x, y: layers.logical_or(x > 1.0, y > 1.0), (A, B), (A > 1) | (B > 1)),
    "logical_xor": (lambda x, y: layers.logical_xor(x > 1.0, y > 1.0), (A, B), (A > 1) ^ (B > 1)),
    "reduce_all": (lambda x: layers.reduce_all(x > -1.0, dim=1), (A,), (A > -1).all(1)),
    "reduce_any": (lambda x: layers.reduce_any(x > 2.0, dim=1), (A,), (A > 2).any(1)),
    "has_inf": (lambda x: layers.has_inf(x / 0.0), (A,), [True]),
    "rank": (layers.rank, (A,), [2]),
    "size": (layers.size, (A,), [6]),
    "ones_like": (layers.ones_like, (A,), np.ones((2, 3))),
    "atan": (layers.atan, (A,), np.arctan(A)),
    "asin": (layers.asin, (A / 3,), np.arcsin(A / 3)),
    "acos": (layers.acos, (A / 3,), np.arccos(A / 3)),
    "erf": (layers.erf, (np.array([[0.5]], np.float32),), [[0.5204999]]),
    "gelu": (layers.gelu, (np.array([[0.5, -1.0]], np.float32),), [[0.3457312, -0.1586553]]),
    "selu": (layers.selu, (A,), 1.0507009873554805 * np.where(A > 0, A, 1.6732632423543772 * (np.exp(A) - 1))),
    "tanh_shrink": (layers.tanh_shrink, (A,), A - np.tanh(A)),
    "kldiv_loss": (
        lambda x, y: layers.kldiv_loss(x, layers.softmax(y), "sum"),
        (A, B),
        [float(((q := np.exp(B) / np.exp(B).sum(1, keepdims=True)) * (np.log(q) - A)).sum())],
    ),
    "dice_loss": (
        lambda x, label: layers.dice_loss(layers.softmax(x), label),
        (A, np.array([[2], [0]], np.int64)),
        [1 - np.mean([2 * p / (1 + 1 + 1e-5) for p in (np.exp(A) / np.exp(A).sum(1, keepdims=True))[[0, 1], [2, 0]]])],
    ),
    "scatter": (
        lambda x, y: layers.scatter(x, layers.assign(np.array([1], "int64")), layers.slice(y, [0], [0], [1])),
        (A, B),
        np.stack([A[0], B[0]]),
    ),
    "scatter_nd_add": (
        layers.scatter_nd_add,
        (A, np.array([[0, 1], [0, 1]], np.int64), np.ones(2, np.float32)),
        A + np.array([[0, 2, 0], [0, 0, 0]]),
    ),
    "scatter_nd": (
        lambda ids, x: layers.scatter_nd(ids, x, [4]),
        (np.array([[3], [1]], np.int64), np.full(2, 1.5, np.float32)),
        [0, 1.5, 0, 1.5],
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_more_layers(name: str) -> None:
    call, arrays, expected = MORE[name]
    found = computed(call, {f"x{place}": array for place, array in enumerate(arrays)})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


# ---- readers


def numbers() -> Any:
    yield from range(6)


def test_readers() -> None:
    io = fluid.io
    assert list(io.batch(numbers, 4)()) == [[0, 1, 2, 3], [4, 5]]
    assert sorted(io.shuffle(numbers, 3)()) == list(range(6))
    assert list(io.firstn(io.buffered(numbers, 2), 2)()) == [0, 1]
    assert list(io.cache(numbers)()) == list(range(6))
    assert list(io.chain(numbers, numbers)()) == [*range(6), *range(6)]
    assert list(io.compose(numbers, numbers)())[1] == (1, 1)
    assert list(io.map_readers(lambda x: x * 2, numbers)()) == [0, 2, 4, 6, 8, 10]
    for parallel in (io.xmap_readers, paddle.reader.xmap_readers):
        assert list(parallel(lambda x: x + 1, numbers, 1, 4, order=True)()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", ["py_reader", "by data", "PyReader"])
def test_py_readers_feed_their_program(kind: str) -> None:
    def batches() -> Any:
        yield [A, np.array([[1], [0]])]
        yield [A * 2, np.array([[1], [0]])]

    with programs() as made:
        if kind == "py_reader":
            reader = layers.py_reader(4, [[-1, 3], [-1, 1]], ["float32", "int64"])
            reader = layers.double_buffer(reader)
            x, _ = layers.read_file(reader)
        else:
            x, y = layers.data("x", [3]), layers.data("y", [1], dtype="int64")
            by_data = kind == "by data"
            reader = layers.create_py_reader_by_data(4, [x, y]) if by_data else fluid.io.PyReader([x, y], 4, iterable=False)  # fmt: skip
        total = layers.reduce_sum(x)
        reader.decorate_batch_generator(batches)
        reader.start()
        found = [float(made.run(fetch=[total])[0][0]) for _ in range(2)]
        with pytest.raises(fluid.core.EOFException):
            made.run(fetch=[total])
        reader.reset()
    assert found == pytest.approx([A.sum(), 2 * A.sum()], rel=1e-5)


# ---- metrics


def test_metrics_over_batches() -> None:
    accuracy = fluid.metrics.Accuracy()
    accuracy.update(0.5, 10)
    accuracy.update(np.array([1.0]), 30)
    assert accuracy.eval() == pytest.approx(0.875)
    accuracy.reset()
    with pytest.raises(ValueError, match="no data"):
        accuracy.eval()
    both = fluid.metrics.CompositeMetric()
    both.add_metric(fluid.metrics.Precision())
    both.add_metric(fluid.metrics.Recall())
    both.update(np.array([[0.9], [0.8], [0.1], [0.2]]), np.array([[1], [0], [1], [1]]))
    assert both.eval() == pytest.approx([1 / 2, 1 / 3])
    assert isinstance(both, fluid.metrics.MetricBase)
    chunks = fluid.metrics.ChunkEvaluator()
    chunks.update(4, 5, 2)
    assert chunks.eval() == pytest.approx((0.5, 0.4, 4 / 9))
    distance = fluid.metrics.EditDistance()
    distance.update(np.array([[0.0], [2.0], [1.0]]), np.array([3]))
    assert distance.eval() == pytest.approx((1.0, 2 / 3))
    average = fluid.average.WeightedAverage()
    average.add(2.0, 1)
    average.add(5.0, 3)
    assert average.eval() == pytest.approx(4.25)


# ---- files


def test_single_variables_and_states_of_programs(tmp_path: Path) -> None:
    with programs() as made:
        x = layers.data("x", [3])
        result = layers.fc(x, 2, param_attr=fluid.ParamAttr("w"))
        made.start()
        fluid.io.save_vars(made.executor, str(tmp_path / "one"), made.main, vars=["w"])
        fluid.io.save_params(made.executor, str(tmp_path / "all"), made.main)
        fluid.save(made.main, str(tmp_path / "state"))
        expected = made.run({"x": A}, [result])[0]
        scope = fluid.global_scope()
        assert [path.name for path in (tmp_path / "one").iterdir()] == ["w"]
        state = fluid.load_program_state(str(tmp_path / "state"))
        assert sorted(state) == ["fc_0.b_0", "w"]
        for restore in (
            lambda: fluid.io.load_vars(made.executor, str(tmp_path / "one"), made.main, vars=["w"]),
            lambda: fluid.set_program_state(made.main, state),
        ):
            scope.find_var("w").get_tensor().set(np.zeros((3, 2), np.float32), fluid.CPUPlace())
            assert not made.run({"x": A}, [result])[0].any()
            restore()
            np.testing.assert_array_equal(made.run({"x": A}, [result])[0], expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_files_of_variables_are_those_of_paddles_own_code(tmp_path: Path, dtype: str) -> None:
    """Paddle 3.3 reads and writes single tensors with the code that 1.8 had for it."""
    from umiak.fluid.saving import tensor_file

    array = (np.arange(300).reshape(2, 150) % 3).astype(dtype)
    path = tmp_path / "theirs"
    core = paddle.base.core
    tensor = paddle.to_tensor(array)  # it must outlive what `get_tensor` returns
    core.save_dense_tensor(tensor.get_tensor(), str(path))
    assert path.read_bytes() == tensor_file.packed(array)
    (tmp_path / "ours").write_bytes(tensor_file.packed(array))
    loaded = core.load_dense_tensor(str(tmp_path / "ours"))
    np.testing.assert_array_equal(np.asarray(loaded), array)
    found, _ = tensor_file.unpacked(path.read_bytes())
    np.testing.assert_array_equal(found, array)


def test_drawn_sequences_of_integers() -> None:
    tensor = fluid.create_random_int_lodtensor([[2, 3]], [1], fluid.CPUPlace(), 4, 6)
    values = np.asarray(tensor)
    assert isinstance(tensor, fluid.LoDTensor)
    assert tensor.recursive_sequence_lengths() == [[2, 3]]
    assert values.shape == (5, 1)
    assert set(values.reshape(-1)) <= {4, 5, 6}


def test_an_error_of_a_run_is_enforce_not_met() -> None:
    with programs() as made:
        total = layers.reduce_sum(layers.data("x", [3]))
        with pytest.raises(fluid.core.EnforceNotMet):
            made.run(fetch=[total])
