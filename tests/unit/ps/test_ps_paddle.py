"""Paddle's embedding layer and optimizer, in this process, mostly alone, against what Paddle or numpy computes."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import itertools

import numpy as np
import pytest

from tests.support.ps_cluster import Cluster, count_pulls, with_prefetch
from umiak import ps
from umiak.ps import manifest
from umiak.ps.environment import PsSeat
from umiak.ps.errors import BadRequest
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import by_name

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]
SGD = ps.Sgd(learning_rate=0.5)
ONES = ps.Constant(value=1.0)


@pytest.fixture
def job() -> Session:
    return ps.use(Session(PsSeat(), ps.Async(), SessionOptions(shards=4)))


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
    assert own.rows.spec.rule == ps.Adagrad()
    with pytest.raises(BadRequest, match="before the model is used first"):
        ps.paddle.optimizer(follower, SGD)
    with pytest.raises(BadRequest, match="no such rule"):
        ps.paddle.Embedding(dim=2, table="x", rule="fast")
    with pytest.raises(BadRequest, match="no such pooling"):
        ps.paddle.Embedding(dim=2, table="x", pooling="max")
    with pytest.raises(BadRequest, match="ids must be integers"):
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
    kinds["rmsprop"] = paddle.optimizer.RMSProp
    own_rule, own_settings = settings.pop("own", (rule, {}))
    own = ps.paddle.optimizer(ours, own_rule, learning_rate=0.05, **own_settings)
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
    own = ("adam" if rule == "adamw" else rule, {"decay": decay})
    ours, theirs = learned(paddle, lambda: paddle.nn.Linear(3, 2), rule, own=own, weight_decay=0.2)
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("rule", ["sgd", "Adam", "AdamW"])
def test_weight_decay_in_paddles_words(job, paddle, rule: str) -> None:
    own = (rule, {"weight_decay": 0.2})
    ours, theirs = learned(paddle, lambda: paddle.nn.Linear(3, 2), rule.lower(), own=own, weight_decay=0.2)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9}, {"centered": True}, {"momentum": 0.5, "centered": True}])
def test_rmsprop_is_paddles(job, paddle, settings: dict) -> None:
    own = (ps.RmsProp(rho=0.9, **settings), {})
    ours, theirs = learned(paddle, lambda: paddle.nn.Linear(3, 2), "rmsprop", own=own, rho=0.9, **settings)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("rule", ["sgd", "adam"])
@pytest.mark.parametrize("most", [0.05, 100.0])
def test_clipping_by_the_global_norm_is_paddles(job, paddle, rule: str, most: float) -> None:
    clip = paddle.nn.ClipGradByGlobalNorm(most)

    def make():
        return paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Linear(4, 2))

    ours, theirs = learned(paddle, make, rule, own=(rule, {"grad_clip": clip}), grad_clip=clip)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


def test_the_global_norm_is_that_of_dense_parameters_and_rows_together(job, paddle) -> None:
    """Against Paddle's own embedding with sparse gradients, with ids that occur several times."""
    start = ps.Constant(0.5)
    linear, other_linear = paddle.nn.Linear(2, 2), paddle.nn.Linear(2, 2)
    other_linear.set_state_dict(linear.state_dict())
    table = paddle.nn.Embedding(
        10, 2, sparse=True, weight_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.5))
    )
    ours = paddle.nn.Sequential(ps.paddle.Embedding(dim=2, init=start), linear)
    theirs = paddle.nn.Sequential(table, other_linear)
    clip = paddle.nn.ClipGradByGlobalNorm(0.3)
    own = ps.paddle.optimizer(ours, "sgd", learning_rate=0.1, grad_clip=clip)
    reference = paddle.optimizer.SGD(0.1, parameters=theirs.parameters(), grad_clip=clip)
    for ids in ([1, 2, 2, 7], [7, 7, 3], [1]):
        for model, optimizer in ((ours, own), (theirs, reference)):
            (model(paddle.to_tensor(ids)) ** 2).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
    np.testing.assert_allclose(linear.weight.numpy(), other_linear.weight.numpy(), rtol=1e-5)
    np.testing.assert_allclose(rows_of(ours[0], 10), table.weight.numpy(), rtol=1e-5)


def test_clipping_by_the_global_norm_is_the_oracles_bit_for_bit(job, paddle) -> None:
    from tests.support.oracle import rules

    random = np.random.default_rng(3)
    model = paddle.nn.Sequential(paddle.nn.Linear(3, 5), ps.paddle.Embedding(dim=4, init=ONES))
    optimizer = ps.paddle.optimizer(model, ps.Sgd(1.0), clip=ps.Clip(global_norm=0.7))
    linear, embedding = model[0], model[1]
    before = [each.numpy().copy() for each in linear.parameters()]
    gradients = [random.standard_normal(each.shape).astype(np.float32) for each in before]
    for parameter, gradient in zip(linear.parameters(), gradients, strict=True):
        (parameter * paddle.to_tensor(gradient)).sum().backward()
    found = random.standard_normal((3, 4)).astype(np.float32)
    (embedding([5, 6, 5]) * paddle.to_tensor(found)).sum().backward()
    optimizer.step()
    merged = np.stack([found[0] + found[2], found[1]])
    *dense, rows = rules.clip_together(0.7, [*gradients, merged])
    for parameter, old, gradient in zip(linear.parameters(), before, dense, strict=True):
        assert (parameter.numpy() == old - gradient).all()
    assert (embedding.rows.rows(np.array([5, 6], np.uint64)) == np.float32(1.0) - rows).all()


def test_lists_of_ids_that_are_none_are_refused_by_name(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ONES)
    with pytest.raises(BadRequest, match="ids: the lists in it have different lengths"):
        layer([[0, 1], [2]])
    with pytest.raises(BadRequest, match="ids must be integers"):
        layer([0.5])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"lr": 0.1}, r"optimizer has no argument lr.*UM-PS-170[\s\S]*learning_rate="),
        ({"parameters": []}, r"no argument parameters[\s\S]*give the model"),
        ({"learning_rate": "fast"}, "learning_rate: not a number: 'fast'"),
        ({"learning_rate": float("nan")}, "Adam: learning_rate is not a number that can be used"),
        ({"clip": 1.0}, r"clip: not a limit of gradients: 1\.0"),
        ({"decay": 0.1}, r"decay: not what is expected here: 0\.1"),
    ],
)
def test_what_an_optimizer_does_not_take_is_named(job, paddle, arguments: dict, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        ps.paddle.optimizer(paddle.nn.Linear(2, 2), "Adam", **arguments)


def test_parameters_instead_of_a_model(job, paddle) -> None:
    with pytest.raises(BadRequest, match=r"model: not a paddle\.nn\.Layer: list"):
        ps.paddle.optimizer(paddle.nn.Linear(2, 2).parameters())


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        ((1000, 16), {}, r"one value without a name.*\(1000, 16\)[\s\S]*Embedding\(dim=16\)"),
        ((), {}, r"Embedding needs dim"),
        (
            (),
            {"num_embeddings": 9, "embedding_dim": 16},
            r"no argument num_embeddings[\s\S]*no argument embedding_dim.*\s.*dim=",
        ),
        ((), {"dim": 16, "padding_idx": 0}, r"Embedding has no argument padding_idx[\s\S]*padding_id="),
        ((16,), {"weight_decay": 0.1}, r"no argument weight_decay[\s\S]*ps\.Decay"),
        ((16.0,), {}, r"dim: not an integer of 1 or more: 16\.0"),
        ((16,), {"init": 0.1}, r"init: not what is expected here: 0\.1"),
        ((16,), {"rule": 0.1}, r"rule: not a rule: 0\.1"),
        ((16,), {"rule": ps.Adam(float("nan"))}, "Adam: learning_rate"),
    ],
)
def test_what_an_embedding_does_not_take_is_named(job, paddle, given: tuple, named: dict, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        ps.paddle.Embedding(*given, **named)


def test_ids_as_a_range_and_as_one_number(job, paddle) -> None:
    layer = ps.paddle.Embedding(dim=2, init=ONES)
    assert layer(range(3)).shape == [3, 2]
    assert layer(3).shape == [2]
    with pytest.raises(BadRequest, match="ids must be integers"):
        layer("3")


def test_a_rate_that_is_none_is_refused(job, paddle) -> None:
    optimizer = ps.paddle.optimizer(paddle.nn.Linear(2, 2))
    for rate in (float("nan"), float("inf"), -1.0):
        with pytest.raises(BadRequest, match="learning_rate: not a rate that can be used"):
            optimizer.set_lr(rate)


def test_embeddings_take_the_optimizers_decay_and_limits_unless_they_have_their_own(job, paddle) -> None:
    model = paddle.nn.Sequential(
        ps.paddle.Embedding(dim=1, table="a", init=ONES),
        ps.paddle.Embedding(dim=1, table="b", init=ONES, decay=ps.Decay(), clip=ps.Clip()),
        ps.paddle.Embedding(dim=1, table="c", init=ONES, rule=SGD),
    )
    optimizer = ps.paddle.optimizer(model, SGD, weight_decay=0.5, grad_clip=paddle.nn.ClipGradByValue(0.25))
    for layer in model:
        (layer([7]) * 2).sum().backward()
    optimizer.step()
    rate = SGD.learning_rate
    first, *others = (layer.rows.rows(np.array([7], np.uint64)).item() for layer in model)
    assert first == 1 - rate * (0.25 + 0.5)
    assert others == [1 - rate * 2] * 2
    again = ps.paddle.Embedding(dim=1, table="a", init=ONES)
    assert again.rows is model[0].rows


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
    ps.use(Session(PsSeat(), by_name(strategy), SessionOptions(shards=4)))
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


@pytest.mark.parametrize("strategy", ["async", "half_async", "geo"])
def test_behind_a_barrier_models_have_what_all_have_learned(paddle, strategy: str) -> None:
    with Cluster() as cluster, concurrent.futures.ThreadPoolExecutor(2) as pool:
        sessions = [cluster.job(strategy, rank) for rank in range(2)]
        models = [paddle.nn.Linear(3, 2) for _ in sessions]
        optimizers = [
            ps.paddle.optimizer(model, SGD, session=session) for model, session in zip(models, sessions, strict=True)
        ]

        def met() -> list[np.ndarray]:
            list(pool.map(Session.barrier, sessions))
            return [np.concatenate([each.numpy().ravel() for each in model.parameters()]) for model in models]

        begin, _ = met()
        for rank in (0, 1, 1, 1):
            models[rank](paddle.ones([1, 3])).sum().backward()
            optimizers[rank].step()
            optimizers[rank].clear_grad()
        first, second = met()
        if strategy == "geo":  # each has its own share in whole, and a half of the other's
            assert np.allclose((begin - first, begin - second), np.array([[0.5 + 0.75], [0.25 + 1.5]]), atol=1e-5)
        else:
            assert np.array_equal(first, second)
            assert (begin - first > 0.6).all(), "and not one step of its own alone"
        set_by_value(models[0], paddle)
        first, second = met()
        assert {*first} == {8.0}, "what the first trainer's script sets is not overwritten"
        assert strategy == "geo" or {*second} == {8.0}
        for session in sessions:
            session.finish()


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
    assert {*model.weight.numpy().ravel()} == {8.0}, "without a further call"


def test_a_checkpoint_from_before_the_first_batch_has_all_tables(job, paddle, tmp_path) -> None:
    model = paddle.nn.Sequential(ps.paddle.Embedding(dim=2, init=ONES), paddle.nn.Linear(2, 1))
    ps.paddle.optimizer(model, SGD)
    job.save(str(tmp_path / "saved"))
    saved = manifest.from_bytes((tmp_path / "saved" / manifest.FILE_NAME).read_bytes(), "saved")
    assert {*saved.tables} == {"dense", "embedding"}


def test_a_tensors_numbers_are_its_own_memory_and_keep_it(paddle) -> None:
    from umiak.ps.paddle import floats, tensor_of

    tensor = paddle.arange(12, dtype="float32").reshape([3, 4])
    array = floats(tensor)
    array[1, 2] = 50
    assert float(tensor[1, 2]) == 50
    del tensor
    again = [paddle.full([3, 4], -1.0) for _ in range(50)]  # what would take memory that was given back
    assert array.sum() == sum(range(12)) - 6 + 50
    del again
    parameter = paddle.nn.Linear(2, 3).weight
    assert floats(parameter).ctypes.data == parameter.data_ptr(), "those that learn too"
    turned = parameter.detach().transpose([1, 0])
    assert np.array_equal(floats(turned), parameter.numpy().T)
    assert floats(paddle.to_tensor([1, 2])).tolist() == [1.0, 2.0]
    assert floats(paddle.zeros([0, 3])).shape == (0, 3)
    rows = np.ones((2, 3), np.float32)
    tensor_of(rows)[0, 0] = 7.0
    assert rows[0, 0] == 7


def test_layers_learn_the_same_bits_with_rows_that_come_ahead(paddle) -> None:
    """Looks of every kind: any shape, repeated ids, padding, bags, slots, an accessor, one table for two layers."""
    dice = np.random.default_rng(5)

    def bags(count: int) -> tuple[np.ndarray, np.ndarray]:
        offsets = np.append(0, np.cumsum(dice.integers(0, 4, count)))
        return dice.integers(0, 9, int(offsets[-1])), offsets

    batches = [(dice.integers(0, 9, (4, 3)), bags(4), [bags(4), bags(4)]) for _ in range(12)]

    def learned(prefetch: int) -> tuple[list[np.ndarray], int]:
        with Cluster(trainers=1) as cluster, cluster.job("sync") as job:
            ps.use(with_prefetch(job, prefetch))
            paddle.seed(1)
            plain, pooled = ps.paddle.Embedding(dim=2, table="a", padding_id=0), ps.paddle.Embedding(dim=2, table="a")
            counted = ps.paddle.Embedding(dim=2, table="b", accessor=ps.Accessor())
            top = paddle.nn.Linear(2, 1)
            model = paddle.nn.LayerList([plain, pooled, counted, top])
            optimizer = ps.paddle.optimizer(model, "adam", learning_rate=0.05)
            pulled = count_pulls(job)
            looks = lambda batch: [(plain, batch[0]), (pooled, batch[1]), (counted, batch[2])]  # noqa: E731
            for ids, bag, slots in job.prefetch(batches, looks):
                rows = [plain(ids).sum(axis=1), pooled(*bag), counted.slots(slots).sum(axis=1)[:, :2]]
                paddle.tanh(top(rows[0] + rows[1] + rows[2])).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
            pulls = len(pulled)
            of_tables = [each.rows.rows(np.arange(9, dtype=np.uint64), create=False) for each in (plain, counted)]
            return [*of_tables, *(each.numpy().copy() for each in top.parameters())], pulls

    (with_it, pulls), (without, all_pulls) = learned(1), learned(0)
    assert (pulls, all_pulls) == (3, 3 * len(batches))
    for one, other in zip(with_it, without, strict=True):
        assert np.array_equal(one.view(np.uint32), other.view(np.uint32))
