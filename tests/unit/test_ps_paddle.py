"""Paddle's embedding layer and optimizer, alone in this process, against what Paddle or numpy computes."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest

from umiak import ps
from umiak.ps import settings
from umiak.ps.environment import Seat
from umiak.ps.errors import BadRequest
from umiak.ps.job import Job, Options

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]
SGD = ps.Sgd(learning_rate=0.5)
ONES = ps.Constant(value=1.0)


@pytest.fixture
def job() -> Job:
    return ps.use(Job(Seat(), "async", settings.Settings(), Options(shards=4)))


@pytest.fixture
def paddle():
    import paddle

    paddle.set_device("cpu")
    paddle.seed(1)
    return paddle


def rows_of(layer, count: int) -> np.ndarray:
    return layer.rows.rows(np.arange(count, dtype=np.uint64))


def test_rows_learn_and_repeated_ids_add_up(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ONES)
    optimizer = ps.paddle.optimizer(layer, SGD)
    for ids in ([[0, 1], [1, 1]], np.array([[0, 1], [1, 1]], np.uint64), paddle.to_tensor([[0, 1], [1, 1]], "int32")):
        out = layer(ids)
        assert out.shape == [2, 2, 2]
        (out * 2).sum().backward()
    optimizer.step()
    # Three looks, each with one 0 and three 1s, gradient 2.
    assert rows_of(layer, 3)[:, 0].tolist() == [1 - 0.5 * 6, 1 - 0.5 * 18, 1]


def test_a_gradient_that_was_not_pushed_can_be_forgotten(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ONES)
    optimizer = ps.paddle.optimizer(layer, SGD)
    layer(np.arange(3)).sum().backward()
    optimizer.clear_grad()
    optimizer.step()
    assert np.all(rows_of(layer, 3) == 1)


def test_without_gradients_rows_are_only_read(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2)
    with paddle.no_grad():
        read = layer(np.arange(5)).numpy()
    layer.eval()
    assert np.array_equal(read, layer(np.arange(5)).numpy())
    assert '"rows": 0' in job.client.status()
    layer.train()
    assert np.array_equal(read, layer(np.arange(5)).numpy()), "a new row is a function of its key"
    assert '"rows": 5' in job.client.status()


def test_where_they_are_only_read_absent_rows_can_be_zeros(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ONES, absent="zeros")
    layer(np.arange(3))
    layer.eval()
    assert layer(np.arange(5)).numpy()[:, 0].tolist() == [1, 1, 1, 0, 0]
    layer.train()
    with paddle.no_grad():
        assert layer(np.arange(5)).numpy()[:, 0].tolist() == [1, 1, 1, 0, 0]
    assert layer(np.arange(5)).numpy()[:, 0].tolist() == [1] * 5, "in training they begin as ever"
    with pytest.raises(ps.BadRequest, match="UM-PS-010"):
        ps.paddle.Embedding(dim=2, init=ONES, absent="nothing")


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_bags_are_pooled(job, paddle, pooling: str) -> None:
    layer = ps.paddle.Embedding(dim=3, init=ps.Normal(deviation=1.0), pooling=pooling)
    optimizer = ps.paddle.optimizer(layer, SGD)
    values, offsets = np.array([4, 7, 4, 1]), np.array([0, 3, 3, 4])
    before = rows_of(layer, 8)
    pooled = layer(paddle.to_tensor(values), paddle.to_tensor(offsets))
    parts = [before[values[a:b]] for a, b in itertools.pairwise(offsets)]
    expected = [part.sum(0) / (max(len(part), 1) if pooling == "mean" else 1) for part in parts]
    np.testing.assert_allclose(pooled.numpy(), expected, rtol=1e-6)
    weights = np.array([[3.0], [5.0], [7.0]], np.float32)
    (pooled * paddle.to_tensor(weights)).sum().backward()
    optimizer.step()
    change = (rows_of(layer, 8) - before)[:, 0]
    share = 3.0 if pooling == "sum" else 1.0
    np.testing.assert_allclose(change, -0.5 * np.array([0, 7, 0, 0, 2 * share, 0, 0, share]), atol=1e-5)


def test_several_slots_with_one_pull(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ps.Normal(deviation=1.0))
    one, two = (np.array([1, 2, 3]), np.array([0, 2, 3])), (np.array([9]), np.array([0, 0, 1]))
    together = layer.slots([one, two])
    assert together.shape == [2, 2, 2]
    for slot, (values, offsets) in enumerate((one, two)):
        assert np.array_equal(together.numpy()[:, slot], layer(values, offsets).numpy())


def test_slots_with_different_numbers_of_bags_are_refused(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2)
    two, three = (np.array([1, 2, 3]), np.array([0, 2, 3])), (np.array([9]), np.array([0, 0, 1, 1]))
    with pytest.raises(BadRequest, match=r"numbers of bags: slot 0: 2, slot 1: 3, slot 2: 2 \[UM-PS-130\]"):
        layer.slots([two, three, two])


def test_padding_reads_as_zeros_and_never_learns(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ONES, padding_id=0)
    optimizer = ps.paddle.optimizer(layer, SGD)
    out = layer(np.array([[0, 5]]))
    bags = layer(np.array([0, 5]), np.array([0, 2]))
    assert out.numpy().tolist() == [[[0, 0], [1, 1]]]
    assert bags.numpy().tolist() == [[1, 1]]
    (out.sum() + bags.sum()).backward()
    optimizer.step()
    assert rows_of(layer, 6)[[0, 5], 0].tolist() == [1, 0]


def test_layers_can_share_a_table(job, paddle) -> None:
    first, second = (ps.paddle.Embedding(dim=2, init=ONES, table="both") for _ in range(2))
    optimizer = ps.paddle.optimizer(paddle.nn.LayerList([first, second]), SGD)
    (first(np.array([3])).sum() + second(np.array([3])).sum()).backward()
    optimizer.step()
    assert rows_of(second, 4)[3, 0] == 0
    with pytest.raises(BadRequest, match="share the table both"):
        ps.paddle.Embedding(dim=3, table="both")


def test_a_rule_of_its_own_and_a_rule_that_comes_too_late(job, paddle) -> None:
    own = ps.paddle.Embedding(dim=2, table="own", rule="adagrad")
    follower = ps.paddle.Embedding(dim=2, table="follower")
    follower(np.array([1]))
    assert own.rows.spec.optimizer == ps.Adagrad()
    with pytest.raises(BadRequest, match="before the model is used first"):
        ps.paddle.optimizer(follower, SGD)
    with pytest.raises(BadRequest, match="no such rule"):
        ps.paddle.Embedding(dim=2, table="x", rule="fast")
    with pytest.raises(BadRequest, match="no such pooling"):
        ps.paddle.Embedding(dim=2, table="x", pooling="max")
    with pytest.raises(BadRequest, match="whole numbers"):
        own(np.array([0.5]))


def test_dense_parameters_learn_as_with_paddles_adam(job, paddle) -> None:
    def network():
        paddle.seed(3)
        return paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.Tanh(), paddle.nn.Linear(3, 1))

    ours, theirs = network(), network()
    optimizer = ps.paddle.optimizer(ours, ps.Adam(learning_rate=0.1))
    reference = paddle.optimizer.Adam(0.1, parameters=theirs.parameters())
    for step in range(5):
        x = paddle.to_tensor(np.random.default_rng(step).normal(size=(8, 4)).astype("float32"))
        for model, each in ((ours, optimizer), (theirs, reference)):
            (model(x) ** 2).mean().backward()
            each.step()
            each.clear_grad()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-4, atol=1e-6)
    ours.eval()
    assert ours(x).shape == [8, 1]


def test_parameters_that_cannot_be_views_are_copied(job, paddle, monkeypatch) -> None:
    import umiak.ps.paddle as module

    monkeypatch.setattr(module, "_share_memory", lambda *_: False)
    layer = paddle.nn.Linear(2, 1)
    layer.bias.stop_gradient = True
    before = layer.weight.numpy()
    optimizer = ps.paddle.optimizer(layer, SGD)
    optimizer.minimize(layer(paddle.ones([1, 2])).sum())
    assert np.array_equal(layer.weight.numpy(), before - 0.5)
    assert layer.bias.numpy() == 0


def test_learning_rates_follow_a_scheduler(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=1, init=ONES, rule=ps.Sgd(learning_rate=0.25))
    dense = paddle.nn.Linear(1, 1, bias_attr=False)
    scheduler = paddle.optimizer.lr.StepDecay(learning_rate=1.0, step_size=1, gamma=0.5)
    optimizer = ps.paddle.optimizer(paddle.nn.LayerList([layer, dense]), "sgd", learning_rate=scheduler)
    seen = []
    for _ in range(3):
        before = dense.weight.numpy().item()
        (layer(np.array([1])).sum() + dense(paddle.ones([1, 1])).sum()).backward()
        optimizer.step()
        optimizer.clear_grad()
        seen.append((optimizer.get_lr(), float(rows_of(layer, 2)[1, 0]), before - dense.weight.numpy().item()))
        scheduler.step()
    assert [rate for rate, _, _ in seen] == [1.0, 0.5, 0.25]
    assert [row for _, row, _ in seen] == [0.75, 0.625, 0.5625]
    np.testing.assert_allclose([change for _, _, change in seen], [1.0, 0.5, 0.25], rtol=1e-5)
    state = optimizer.state_dict()
    optimizer.set_lr(2.0)
    assert optimizer.get_lr() == 2.0
    optimizer.set_state_dict(state)
    assert optimizer.get_lr() == 0.25


def test_a_click_through_table_counts_shows_and_clicks(job, paddle) -> None:
    accessor = ps.Accessor(embed_optimizer=SGD, embedx_threshold=2.0, show_scale=False)
    layer = ps.paddle.Embedding(dim=2, init=ONES, rule=SGD, accessor=accessor)
    optimizer = ps.paddle.optimizer(layer, SGD)
    for _ in range(2):
        out = layer(np.array([[7, 7], [8, 9]]), clicks=np.array([[1], [0]]))
        assert out.shape == [2, 2, 3]
        out.sum().backward()
        optimizer.step()
    pooled = layer.slots([(np.array([7, 8]), np.array([0, 1, 2]))] * 2, clicks=np.array([0.0, 1.0]))
    assert pooled.shape == [2, 2, 3]
    pooled.sum().backward()
    optimizer.step()
    shows_and_clicks = rows_of(layer, 10)[7:, :2]
    assert shows_and_clicks.tolist() == [[4 + 2, 4], [2 + 2, 2], [2, 0]]


def learned(paddle, make, rule: str, **settings) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The parameters of two equal models after some steps, one with an optimizer of Paddle's and one with ours."""
    ours, theirs = make(), make()
    theirs.set_state_dict(ours.state_dict())
    kinds = {"adam": paddle.optimizer.Adam, "adamw": paddle.optimizer.AdamW, "sgd": paddle.optimizer.SGD}
    decay = settings.pop("decay", None)
    own = ps.paddle.optimizer(ours, "adam" if rule == "adamw" else rule, learning_rate=0.05, decay=decay)
    reference = kinds[rule](0.05, parameters=theirs.parameters(), **settings)
    inputs = paddle.to_tensor(np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32))
    for _ in range(20):
        for model, each in ((ours, own), (theirs, reference)):
            (model(inputs) ** 2).mean().backward()
            each.step()
            each.clear_grad()
    return [each.numpy() for each in ours.parameters()], [each.numpy() for each in theirs.parameters()]


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_what_a_parameter_says_of_itself_acts_as_with_paddle(job, paddle, rule: str) -> None:
    def make():
        first = paddle.nn.Linear(
            3,
            4,
            weight_attr=paddle.ParamAttr(regularizer=paddle.regularizer.L2Decay(0.3)),
            bias_attr=paddle.ParamAttr(learning_rate=0.1),
        )
        last = paddle.nn.Linear(
            4, 2, weight_attr=paddle.ParamAttr(learning_rate=3.0, regularizer=paddle.regularizer.L1Decay(0.2))
        )
        return paddle.nn.Sequential(first, last)

    ours, theirs = learned(paddle, make, rule)
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("rule", ["sgd", "adam", "adamw"])
def test_weight_decay_is_paddles(job, paddle, rule: str) -> None:
    from umiak.ps import specs

    decay = specs.Decay(decoupled=0.2) if rule == "adamw" else specs.Decay(l2=0.2)
    ours, theirs = learned(paddle, lambda: paddle.nn.Linear(3, 2), rule, decay=decay, weight_decay=0.2)
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-4, atol=2e-5)


def test_lists_of_ids_that_are_none_are_refused_by_name(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ONES)
    with pytest.raises(BadRequest, match="ids: the lists in it have different lengths"):
        layer([[0, 1], [2]])
    with pytest.raises(BadRequest, match="ids must be whole numbers"):
        layer([0.5])


# ---- weights that the script sets after the optimizer was made


def set_by_state(model, paddle) -> None:
    model.set_state_dict({"weight": paddle.full([3, 2], 8.0), "bias": paddle.full([2], 8.0)})


def set_by_value(model, paddle) -> None:
    for each in model.parameters():
        each.set_value(np.full(each.shape, 8.0, np.float32))


def set_in_place(model, paddle) -> None:
    with paddle.no_grad():
        for each in model.parameters():
            each.fill_(8.0)


def set_other_memory(model, paddle) -> None:
    for each in model.parameters():
        paddle.full(each.shape, 8.0)._share_buffer_to(each)


@pytest.mark.parametrize(
    ("set_weights", "dtype"),
    [
        (set_by_state, "float32"),
        (set_by_value, "float32"),
        (set_in_place, "float32"),
        (set_other_memory, "float32"),
        (set_in_place, "float64"),
    ],
)
@pytest.mark.parametrize("strategy", ["sync", "async"])
def test_weights_that_are_set_later_are_learned_from(paddle, set_weights, dtype: str, strategy: str) -> None:
    """In memory that is shared with the client (float32), and in copies."""
    ps.use(Job(Seat(), strategy, settings.Settings(), Options(shards=4)))
    model = paddle.nn.Linear(3, 2)
    model.to(dtype=dtype)
    optimizer = ps.paddle.optimizer(model, SGD)
    for weights in (7.5, 7.0):
        if weights == 7.5:
            set_weights(model, paddle)
        model(paddle.ones([1, 3], dtype)).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        assert {*np.concatenate([each.numpy().ravel() for each in model.parameters()])} == {weights}


def test_weights_that_were_set_are_saved(job, paddle, tmp_path) -> None:
    model = paddle.nn.Linear(3, 2)
    optimizer = ps.paddle.optimizer(model, SGD)
    set_by_state(model, paddle)
    job.save(str(tmp_path / "saved"))
    set_by_value(model, paddle)
    model.weight.set_value(np.zeros((3, 2), np.float32))
    optimizer.upload()
    assert model.weight.numpy().sum() == 0, "they are everybody's now"
    job.load(str(tmp_path / "saved"))
    optimizer.refresh()
    assert {*model.weight.numpy().ravel()} == {8.0}
