"""Programs that run at once: layers of `fluid.dygraph` give the numbers and gradients of plain Paddle. Real Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, paddle
from umiak.core.problem import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

dygraph, layers = fluid.dygraph, fluid.layers
functional = paddle.nn.functional
CHANCE = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    with dygraph.guard(fluid.CPUPlace()):
        yield


def drawn(*shape: int) -> Any:
    return CHANCE.normal(size=shape).astype("float32")


def given(values: Any) -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.asarray(values, np.float32)))


def leaf(values: Any) -> Any:
    """A tensor that gradients go to."""
    tensor = dygraph.to_variable(values)
    tensor.stop_gradient = tensor.dtype not in (paddle.float32, paddle.float64)
    return tensor


# ---- layers

IMAGE, FILM = drawn(2, 4, 6, 6), drawn(2, 2, 4, 5, 5)
LAYERS: dict[str, tuple[Callable[[], Any], Callable[..., Any], list[Any]]] = {
    "linear": (
        lambda: dygraph.Linear(5, 3, bias_attr=given(drawn(3)), act="tanh"),
        lambda x, w, b: paddle.tanh(functional.linear(x, w, b)),
        [drawn(2, 4, 5)],
    ),
    "linear without a bias": (lambda: dygraph.Linear(5, 3, bias_attr=False), paddle.matmul, [drawn(4, 5)]),
    "embedding": (
        lambda: dygraph.Embedding([7, 3], padding_idx=-2),
        lambda ids, w: functional.embedding(ids, w, padding_idx=5),
        [np.array([[1, 5, 6], [0, 1, 5]])],
    ),
    "conv2d": (
        lambda: dygraph.Conv2D(4, 6, 3, stride=2, padding=1, groups=2, bias_attr=given(drawn(6)), act="relu"),
        lambda x, w, b: functional.relu(functional.conv2d(x, w, b, 2, 1, 1, 2)),
        [IMAGE],
    ),
    "conv2d, dilated, no square": (
        lambda: dygraph.Conv2D(4, 2, [1, 3], dilation=[1, 2], padding=[0, 2], bias_attr=False),
        lambda x, w: functional.conv2d(x, w, None, 1, [0, 2], [1, 2]),
        [IMAGE],
    ),
    "conv3d": (
        lambda: dygraph.Conv3D(2, 3, 2, stride=[1, 2, 2], bias_attr=given(drawn(3))),
        lambda x, w, b: functional.conv3d(x, w, b, [1, 2, 2]),
        [FILM],
    ),
    "conv2d_transpose": (
        lambda: dygraph.Conv2DTranspose(4, 6, 3, stride=2, padding=1, groups=2, bias_attr=given(drawn(6))),
        lambda x, w, b: functional.conv2d_transpose(x, w, b, stride=2, padding=1, groups=2),
        [IMAGE],
    ),
    "conv2d_transpose of a size": (
        lambda: dygraph.Conv2DTranspose(4, 2, 3, output_size=[14, 14], stride=2, bias_attr=False),
        lambda x, w: functional.conv2d_transpose(x, w, None, stride=2, output_size=[14, 14]),
        [IMAGE],
    ),
    "conv3d_transpose": (
        lambda: dygraph.Conv3DTranspose(2, 3, 2, padding=1, stride=2, bias_attr=given(drawn(3)), act="sigmoid"),
        lambda x, w, b: functional.sigmoid(functional.conv3d_transpose(x, w, b, stride=2, padding=1)),
        [FILM],
    ),
    "pool2d": (lambda: dygraph.Pool2D(2, "max", 2), lambda x: functional.max_pool2d(x, 2, 2), [IMAGE]),
    "pool2d, mean, stride 1": (
        lambda: dygraph.Pool2D(3, "avg", pool_padding=1, exclusive=False),
        lambda x: functional.avg_pool2d(x, 3, 1, 1, exclusive=False),
        [IMAGE],
    ),
    "pool2d of everything": (
        lambda: dygraph.Pool2D(pool_type="avg", global_pooling=True),
        lambda x: paddle.mean(x, [2, 3], keepdim=True),
        [IMAGE],
    ),
    "layer_norm": (
        lambda: dygraph.LayerNorm([6, 6], param_attr=given(drawn(36)), bias_attr=given(drawn(36)), act="relu"),
        lambda x, w, b: functional.relu(functional.layer_norm(x, [6, 6], w, b)),
        [IMAGE],
    ),
    "layer_norm of rows, no scale": (
        lambda: dygraph.LayerNorm(6, scale=False, shift=False, epsilon=1e-3),
        lambda x: functional.layer_norm(x, [6], epsilon=1e-3),
        [IMAGE],
    ),
    "instance_norm": (
        lambda: dygraph.InstanceNorm(4, param_attr=given(drawn(4)), bias_attr=given(drawn(4))),
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
        [IMAGE],
    ),
    "group_norm": (
        lambda: dygraph.GroupNorm(4, 2, param_attr=given(drawn(4)), bias_attr=given(drawn(4)), act="tanh"),
        lambda x, w, b: paddle.tanh(functional.group_norm(x, 2, 1e-5, w, b)),
        [IMAGE],
    ),
    "prelu": (lambda: dygraph.PRelu("all", param_attr=given([0.3])), functional.prelu, [IMAGE]),
    "prelu of channels": (
        lambda: dygraph.PRelu("channel", channel=4, param_attr=given(drawn(1, 4, 1, 1))),
        lambda x, w: functional.prelu(x, w.reshape([4])),
        [IMAGE],
    ),
    "prelu of elements": (
        lambda: dygraph.PRelu("element", input_shape=[1, 4, 6, 6]),
        lambda x, w: paddle.maximum(x, 0 * x) + w * paddle.minimum(x, 0 * x),
        [IMAGE],
    ),
}


LAYERS["bilinear"] = (
    lambda: dygraph.BilinearTensorProduct(4, 3, 2, act="tanh", bias_attr=given(drawn(1, 2))),
    lambda x, y, w, b: paddle.tanh(functional.bilinear(x, y, w, b)),
    [drawn(5, 4), drawn(5, 3)],
)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_what_paddle_computes(name: str) -> None:
    make, plain, arrays = LAYERS[name]
    layer = make()
    weights = drawn(*plain(*map(leaf, arrays), *layer.parameters()).shape)
    found = []
    for function in (layer, lambda *inputs: plain(*inputs, *layer.parameters())):
        inputs = list(map(leaf, arrays))
        layer.clear_gradients()
        result = function(*inputs)
        paddle.sum(result * paddle.to_tensor(weights)).backward()
        tensors = [*(each for each in inputs if not each.stop_gradient), *layer.parameters()]
        found.append([result.numpy(), *(each.gradient() for each in tensors)])
    for own, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5, 5)])
def test_batch_norm_keeps_the_running_statistics_of_paddle(shape: tuple[int, ...]) -> None:
    own = dygraph.BatchNorm(3, act="relu", momentum=0.8, param_attr=given([1, 2, 0.5]), bias_attr=given([0, 1, -1]))
    kind = paddle.nn.BatchNorm1D if len(shape) == 2 else paddle.nn.BatchNorm2D
    plain = kind(3, momentum=0.8)
    plain.weight.set_value(own.weight)
    plain.bias.set_value(own.bias)
    for _ in range(3):
        x = dygraph.to_variable(drawn(*shape))
        np.testing.assert_allclose(own(x).numpy(), functional.relu(plain(x)).numpy(), rtol=1e-5, atol=1e-6)
    own.eval()
    plain.eval()
    np.testing.assert_allclose(own(x).numpy(), functional.relu(plain(x)).numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(own._mean.numpy(), plain._mean.numpy(), rtol=1e-5)
    np.testing.assert_allclose(own._variance.numpy(), plain._variance.numpy(), rtol=1e-5)
    before = own._mean.numpy()
    own.train()
    with dygraph.no_grad():  # as when it is tested
        own(x)
    np.testing.assert_array_equal(own._mean.numpy(), before)
    assert [each.name for each in own.parameters()] == [f"batch_norm_0.{end}" for end in ("w_0", "b_0", "w_1", "w_2")]
    assert list(own.state_dict()) == ["weight", "bias", "_mean", "_variance"]


def test_a_gru_unit_computes_its_equations() -> None:
    width = 3
    weight, bias = drawn(width, 3 * width), drawn(1, 3 * width)
    unit = dygraph.GRUUnit(3 * width, param_attr=given(weight), bias_attr=given(bias))
    x, h = drawn(2, 3 * width), drawn(2, width)
    hidden, reset, gates = unit(dygraph.to_variable(x), dygraph.to_variable(h))
    total = x + bias
    # 1.8 reads the last third of the weight as a matrix of its own
    own = weight.reshape(-1)[2 * width * width :].reshape(width, width)
    front = weight.reshape(-1)[: 2 * width * width].reshape(width, 2 * width)
    both = 1 / (1 + np.exp(-(total[:, : 2 * width] + h @ front)))
    update, forget = both[:, :width], both[:, width:]
    new = np.tanh(total[:, 2 * width :] + (forget * h) @ own)
    np.testing.assert_allclose(reset.numpy(), forget * h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(hidden.numpy(), (1 - update) * h + update * new, rtol=1e-4, atol=1e-5)
    assert list(gates.shape) == [2, 3 * width]


def test_spectral_norm_divides_by_the_largest_singular_value() -> None:
    weight = drawn(3, 2, 4)
    found = dygraph.SpectralNorm([3, 2, 4], dim=1, power_iters=60)(dygraph.to_variable(weight))
    largest = np.linalg.svd(weight.transpose(1, 0, 2).reshape(2, 12), compute_uv=False)[0]
    np.testing.assert_allclose(found.numpy(), weight / largest, rtol=1e-4)


def test_nce_learns_to_tell_classes_from_drawn_ones() -> None:
    layer = dygraph.NCE(6, 3, num_neg_samples=4, sampler="log_uniform", seed=3)
    optimizer = fluid.optimizer.SGD(0.5, parameter_list=layer.parameters())
    x, label = dygraph.to_variable(drawn(8, 3)), dygraph.to_variable(CHANCE.integers(0, 6, (8, 1)))
    costs = []
    for _ in range(8):
        cost = layer(x, label)
        assert cost.shape == [8, 1]
        loss = layers.mean(cost)
        loss.backward()
        optimizer.minimize(loss)
        layer.clear_gradients()
        costs.append(float(loss.numpy()[0]))
    assert costs[-1] < costs[0]
    with pytest.raises(BadRequest, match="expected uniform, log_uniform or custom_dist"):
        dygraph.NCE(6, 3, sampler="evenly")


def test_dropout_follows_train_and_eval_of_the_whole_program() -> None:
    ones = dygraph.to_variable(np.ones([50, 40], "float32"))
    layer = dygraph.Dropout(0.25)
    kept = layer(ones).numpy()
    assert set(np.unique(kept)) == {0.0, 1.0}
    assert 0.6 < kept.mean() < 0.9
    scaled = dygraph.Dropout(0.25, dropout_implementation="upscale_in_train")(ones).numpy()
    np.testing.assert_allclose(np.unique(scaled), [0.0, 1 / 0.75], rtol=1e-6)
    assert fluid.framework._dygraph_tracer()._train_mode
    layer.eval()
    assert not fluid.framework._dygraph_tracer()._train_mode
    np.testing.assert_allclose(layer(ones).numpy(), 0.75)
    np.testing.assert_allclose(layers.dropout(ones, 0.25).numpy(), 0.75)  # 1.8 has one switch for everything
    layer.train()
    assert set(np.unique(layers.dropout(ones, 0.25).numpy())) == {0.0, 1.0}
    with dygraph.no_grad():
        np.testing.assert_allclose(layers.dropout(ones, 0.25).numpy(), 0.75)


# ---- Layer, and those that hold others


class Pair(dygraph.Layer):  # type: ignore[misc]
    """Two projections, and a factor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = dygraph.Linear(3, 4, act="relu")
        self.rest = dygraph.LayerList([dygraph.Linear(4, 4), dygraph.Linear(4, 2)])
        self.factor = self.create_parameter([2], fluid.ParamAttr("factor", learning_rate=0.5))
        self.shift = self.add_parameter("shift", self.create_parameter([2], is_bias=True))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return x * self.factor + self.shift


def test_a_layer_of_ones_own_has_the_names_of_18() -> None:
    model = Pair()
    assert model.full_name() == "pair_0"
    assert {key: each.name for key, each in model.state_dict().items()} == {
        "factor": "factor",
        "shift": "pair_0.b_0",
        "first.weight": "linear_0.w_0",
        "first.bias": "linear_0.b_0",
        "rest.0.weight": "linear_1.w_0",
        "rest.0.bias": "linear_1.b_0",
        "rest.1.weight": "linear_2.w_0",
        "rest.1.bias": "linear_2.b_0",
    }
    assert [type(each).__name__ for each in model.sublayers()] == ["Linear", "LayerList", "Linear", "Linear"]
    assert [type(each).__name__ for each in model.sublayers(include_sublayers=False)] == ["Linear", "LayerList"]
    assert [len(model.parameters()), len(model.parameters(include_sublayers=False))] == [8, 2]
    assert model.factor.optimize_attr["learning_rate"] == 0.5
    assert list(model.shift.numpy()) == [0, 0]
    assert isinstance(model, fluid.Layer)
    with dygraph.guard():
        assert Pair().full_name() == "pair_0"  # each guard counts from zero


def test_states_are_set_whole_or_not_at_all() -> None:
    one, other = Pair(), Pair()
    x = dygraph.to_variable(drawn(5, 3))
    state = {key: each.numpy() for key, each in one.state_dict().items()}
    other.set_dict(state)
    np.testing.assert_array_equal(one(x).numpy(), other(x).numpy())
    by_name = {each.name: each.numpy() * 2 for each in other.parameters()}
    other.load_dict(by_name, use_structured_name=False)
    np.testing.assert_allclose(other.first.weight.numpy(), 2 * one.first.weight.numpy())
    bad = {**state, "first.weight": np.zeros([3, 5])}
    del bad["shift"]
    with pytest.raises(
        BadRequest, match=r"shift is missing; first.weight is \[3, 4\] here and \[3, 5\] there"
    ) as caught:
        one.set_dict(bad)
    assert caught.value.problems[0].where.startswith(__file__)
    with pytest.warns(UserWarning, match="no parameter is called spare"):
        one.set_dict({**state, "spare": np.zeros(1)})


def test_containers_hold_layers_and_parameters() -> None:
    x = dygraph.to_variable(drawn(2, 3))
    chain = dygraph.Sequential(("in", dygraph.Linear(3, 4)), ("out", dygraph.Linear(4, 2)))
    np.testing.assert_array_equal(chain(x).numpy(), chain["out"](chain["in"](x)).numpy())
    chain["out"] = dygraph.Linear(4, 5)
    assert list(chain(x).shape) == [2, 5]
    del chain["out"]
    assert len(chain) == 1
    plain = dygraph.Sequential(dygraph.Linear(3, 3), dygraph.Linear(3, 1))
    assert [len(plain), list(plain[-1].weight.shape), list(plain.state_dict())[-1]] == [2, [3, 1], "1.bias"]

    some = dygraph.LayerList([dygraph.Linear(3, 3) for _ in range(3)])
    first = some[0]
    some.insert(0, dygraph.Linear(3, 2))
    some.append(dygraph.Linear(3, 7))
    some[1] = dygraph.Linear(3, 9)
    assert [each.weight.shape[1] for each in some] == [2, 9, 3, 3, 7]
    del some[0]
    assert [each.weight.shape[1] for each in some[1:]] == [3, 3, 7]
    assert first not in list(some)
    assert len(some.extend([first])) == 5

    held = dygraph.ParameterList([first.weight])
    held.append(layers.create_parameter([2], "float32"))
    assert [len(held), held[0] is first.weight, len(held.parameters())] == [2, True, 2]
    held[1] = first.bias
    assert [each.name for each in held] == [first.weight.name, first.bias.name]


def test_layers_say_what_is_wrong_with_them() -> None:
    for make, words in (
        (lambda: dygraph.Pool2D(2, "sum"), "expected max or avg"),
        (dygraph.Pool2D, "needs pool_size"),
        (lambda: dygraph.Conv2D(3, 4, 3, groups=2), "can't be divided into 2 groups"),
        (lambda: dygraph.PRelu("channel"), "needs channel"),
        (lambda: dygraph.PRelu("row"), "expected all, channel or element"),
        (lambda: dygraph.LayerNorm(3)(dygraph.to_variable(drawn(2, 4))), r"\[3\] does not fit \[2, 4\]"),
        (lambda: dygraph.GroupNorm(4, 2, data_layout="NHWC"), "does not work"),
        (lambda: dygraph.Dropout(0.5, dropout_implementation="up"), "upscale_in_train"),
        (lambda: layers.fc(dygraph.to_variable(drawn(2, 3)), 4), "dygraph.Linear"),
    ):
        with pytest.raises(BadRequest, match=words) as caught:
            make()
        assert caught.value.problems[0].where.startswith(__file__)
    with fluid.program_guard(fluid.Program()), pytest.raises(BadRequest, match=r"outside of dygraph.guard"):
        dygraph.Linear(2, 3)
    with fluid.program_guard(fluid.Program()), pytest.raises(BadRequest, match=r"outside of dygraph.guard"):
        dygraph.to_variable(drawn(2))


# ---- tensors


def test_an_element_is_of_shape_1_and_goes_back_when_the_guard_is_left() -> None:
    x = dygraph.to_variable(drawn(2, 3), name="given")
    assert x.name == "given"
    assert [x[0].shape, x[0][1].shape, x[0, 1].shape, x[0:1, 1].shape] == [[3], [1], [1], [1]]
    assert [layers.reduce_sum(x).shape, layers.mean(x).shape] == [[1], [1]]
    assert isinstance(x, fluid.core.VarBase)
    inside = paddle.Tensor.backward
    with dygraph.guard():
        assert paddle.Tensor.backward is inside
    assert paddle.Tensor.backward is inside


def test_nothing_is_left_of_a_guard() -> None:
    program = (
        "import umiak.fluid; umiak.fluid.install(); import paddle; from paddle import fluid\n"
        "before = paddle.Tensor.backward, paddle.Tensor.__getitem__\n"
        "with fluid.dygraph.guard(): assert paddle.Tensor.backward is not before[0]\n"
        "assert (paddle.Tensor.backward, paddle.Tensor.__getitem__) == before and not fluid.in_dygraph_mode()\n"
    )
    # In this process a guard is open in every test; what a guard takes away is looked at without one.
    from umiak.fluid.dygraph import tensors

    held = list(tensors._open)
    methods = {name: getattr(paddle.Tensor, name) for name in held[0]}
    for name, method in held[0].items():
        setattr(paddle.Tensor, name, method)
    tensors._open.clear()
    try:
        with fluid.program_guard(fluid.Program()):
            exec(program, {})
    finally:
        tensors._open.extend(held)
        for name, method in methods.items():
            setattr(paddle.Tensor, name, method)


def test_backward_takes_a_strategy_and_leaves_the_gradient_of_the_loss() -> None:
    strategy = dygraph.BackwardStrategy()
    strategy.sort_sum_gradient = True
    x = leaf(drawn(3))
    for call in (lambda loss: loss.backward(strategy), lambda loss: loss.backward(backward_strategy=strategy)):
        x.clear_gradient()
        loss = layers.reduce_sum(x * x)
        call(loss)
        np.testing.assert_allclose(x.gradient(), 2 * x.numpy(), rtol=1e-6)
        np.testing.assert_array_equal(loss.gradient(), [1.0])
    with pytest.raises(BadRequest, match="no parameter led to"):
        dygraph.to_variable(drawn(3)).backward()


@pytest.mark.parametrize(("create_graph", "expected"), [(False, 2.0), (True, 4.0)])
def test_grad_can_be_derived_again(create_graph: bool, expected: float) -> None:
    x = layers.ones([1], "float32")
    x.stop_gradient = False
    y = x * x
    (found,) = dygraph.grad(outputs=[y], inputs=[x], create_graph=create_graph)
    np.testing.assert_array_equal(found.numpy(), [2.0])
    (y + found if create_graph else x * x + found).backward()
    np.testing.assert_allclose(x.gradient(), [expected])


def test_no_grad_is_a_block_and_a_decorator() -> None:
    layer = dygraph.Linear(3, 2)
    x = dygraph.to_variable(drawn(2, 3))

    @dygraph.no_grad
    def plain(value: Any) -> Any:
        """Said once."""
        return layer(value)

    @dygraph.no_grad()
    def called(value: Any) -> Any:
        return plain(value)

    assert [plain(x).stop_gradient, called(x).stop_gradient, layer(x).stop_gradient] == [True, True, False]
    with dygraph.no_grad():
        assert layer(x).stop_gradient
    assert not layer(x).stop_gradient


def test_conditions_and_loops_are_those_of_python() -> None:
    x = dygraph.to_variable(np.array([3.0], "float32"))
    assert layers.cond(layers.less_than(x, x + 1), lambda: x * 2, lambda: x).numpy() == [6]
    assert layers.case([(layers.less_than(x, x), lambda: x)], default=lambda: x * 3).numpy() == [9]
    found = layers.while_loop(lambda n: layers.less_than(n, x), lambda n: [n + 1], [x * 0])
    assert found[0].numpy() == [3]
    assert layers.increment(x).numpy() == [4]
    assert x.numpy() == [4]


def test_what_a_seed_draws_is_the_same_again() -> None:
    def first() -> Any:
        with dygraph.guard():
            fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 5
            layer = dygraph.Linear(4, 4)
            return layers.dropout(layer(dygraph.to_variable(np.ones([3, 4], "float32"))), 0.5).numpy()

    np.testing.assert_array_equal(first(), first())


def test_helpers_of_own_layers() -> None:
    x, bias = dygraph.to_variable(drawn(2, 3)), dygraph.to_variable(drawn(3))
    found = fluid.dygraph.dygraph_utils._append_bias_in_dygraph(x, bias, axis=1)
    np.testing.assert_allclose(found.numpy(), x.numpy() + bias.numpy())
    assert fluid.dygraph_utils._append_bias_in_dygraph(x) is x
    found = fluid.dygraph.dygraph_utils._append_activation_in_dygraph(x, "relu")
    np.testing.assert_allclose(found.numpy(), np.maximum(x.numpy(), 0))
    helper = fluid.dygraph.layer_object_helper.LayerObjectHelper("mine")
    assert helper.create_parameter(None, [2], is_bias=True).name == "mine.b_0"
    np.testing.assert_allclose(helper.append_activation(x, "tanh").numpy(), np.tanh(x.numpy()), rtol=1e-6)
    with pytest.raises(BadRequest, match="append_op"):
        helper.append_op("relu")
    assert fluid.dygraph.declarative(test_helpers_of_own_layers) is test_helpers_of_own_layers
    assert fluid.dygraph.declarative()(len) is len


def test_batches_of_a_loader_are_tensors() -> None:
    rows = [(drawn(4), number) for number in range(6)]
    loader = fluid.io.DataLoader.from_generator(capacity=4, return_list=True)
    loader.set_sample_list_generator(fluid.io.batch(lambda: iter(rows), 3), places=fluid.CPUPlace())
    found = list(loader())
    assert [[each.shape for each in batch] for batch in found] == [[[3, 4], [3]]] * 2
    np.testing.assert_array_equal(found[1][1].numpy(), [3, 4, 5])
    assert isinstance(found[0][0], paddle.Tensor)
