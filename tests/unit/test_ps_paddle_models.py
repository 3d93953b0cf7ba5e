"""A plain Paddle model through tables, alone, against the same model in a plain Paddle loop."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import threading

import numpy as np
import pytest

from tests.ps_cluster import Cluster, ThreadGroup
from umiak import ps
from umiak.ps.clients.collective import CollectiveClient
from umiak.ps.environment import PsSeat
from umiak.ps.errors import BadRequest
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.strategies import Collective

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]
ROWS, DIM, SLOTS, STEPS = 50, 4, 3, 6


@pytest.fixture
def paddle():
    import paddle

    paddle.set_device("cpu")
    return paddle


@pytest.fixture
def models():
    from umiak.ps import paddle_models

    return paddle_models


def session() -> Session:
    return ps.use(Session(PsSeat(), ps.Sync(), SessionOptions(shards=4)))


def made(paddle, *, sparse: bool = True, padding: int | None = None, attr=None, fc_attr=None, rows: int = ROWS):
    class Net(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = paddle.nn.Embedding(rows, DIM, sparse=sparse, padding_idx=padding, weight_attr=attr)
            self.fc = paddle.nn.Linear(SLOTS * DIM, 8, weight_attr=fc_attr)
            self.out = paddle.nn.Linear(8, 1)

        def forward(self, slots):
            rows = [self.embedding(each) for each in slots]
            hidden = paddle.nn.functional.relu(self.fc(paddle.concat(rows, axis=1)))
            return self.out(hidden)

    paddle.seed(7)
    return Net()


def batches(paddle, *, least: int = 0, most: int = ROWS):
    chance = np.random.default_rng(3)
    for _ in range(STEPS):
        slots = [paddle.to_tensor(chance.integers(least, most, 16)) for _ in range(SLOTS)]
        yield slots, paddle.to_tensor(chance.normal(size=(16, 1)).astype(np.float32))


def loss_of(paddle, model, slots, labels):
    return ((model(slots) - labels) ** 2).mean() * 3.0


def plain(paddle, model, optimizers, each_step=lambda: None, **kind):
    losses = []
    for slots, labels in batches(paddle, **kind):
        loss = loss_of(paddle, model, slots, labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.clear_grad()
        each_step()
        losses.append(float(loss))
    return losses, {name: each.numpy().copy() for name, each in model.state_dict().items()}


def carried(paddle, models, model, optimizers, each_step=lambda: None, *, expects=False, choice=None, **kind):
    plan = models.plan_of(model, optimizers, is_shared=False, choice=choice or models.TableChoice())
    optimizer = models.carry_over(model, plan, session=session())
    losses = []
    for slots, labels in batches(paddle, **kind):
        if expects:
            optimizer.expect([each.numpy() for each in slots])
        loss = loss_of(paddle, model, slots, labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        each_step()
        losses.append(float(loss))
    state = {name: each.numpy().copy() for name, each in model.state_dict().items()} | optimizer.weights()
    return losses, state, plan


def compare(paddle, models, optimizer, *, tables: int, choice=None, expects=False, least=0, **kind):
    """The same losses and parameters both ways; ``optimizer`` makes the optimizers, and what is done after each step."""

    def ways(model):
        found = optimizer(model)
        found, each_step = found if isinstance(found, tuple) else (found, lambda: None)
        return (found if isinstance(found, list) else [found]), each_step

    model = made(paddle, **kind)
    losses, state = plain(paddle, model, *ways(model), least=least)
    model = made(paddle, **kind)
    ours, our_state, plan = carried(paddle, models, model, *ways(model), expects=expects, choice=choice, least=least)
    assert len(plan.tables) == tables
    np.testing.assert_allclose(ours, losses, rtol=2e-5, atol=1e-6)
    assert set(our_state) == set(state)
    for name, values in state.items():
        np.testing.assert_allclose(our_state[name], values, rtol=2e-4, atol=2e-6, err_msg=name)
    return plan


# ---- optimizers

OPTIMIZERS = {
    "sgd": (1, lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters())),
    "adagrad": (1, lambda p, m: p.optimizer.Adagrad(0.1, parameters=m.parameters(), initial_accumulator_value=0.2)),
    "lazy adam": (1, lambda p, m: p.optimizer.Adam(0.01, 0.8, 0.95, 1e-6, parameters=m.parameters(), lazy_mode=True)),
    "adam": (0, lambda p, m: p.optimizer.Adam(0.01, parameters=m.parameters())),
    "momentum": (0, lambda p, m: p.optimizer.Momentum(0.05, 0.8, parameters=m.parameters())),
    "nesterov": (0, lambda p, m: p.optimizer.Momentum(0.05, parameters=m.parameters(), use_nesterov=True)),
    "rmsprop": (0, lambda p, m: p.optimizer.RMSProp(0.01, parameters=m.parameters())),
    "rmsprop centered": (
        0,
        lambda p, m: p.optimizer.RMSProp(0.01, momentum=0.5, centered=True, parameters=m.parameters()),
    ),
    "float decay": (0, lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters(), weight_decay=0.1)),
    "l1 decay": (
        0,
        lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters(), weight_decay=p.regularizer.L1Decay(0.05)),
    ),
    "momentum with decay": (
        0,
        lambda p, m: p.optimizer.Momentum(0.05, parameters=m.parameters(), weight_decay=0.1),
    ),
    "clip by norm": (
        1,
        lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters(), grad_clip=p.nn.ClipGradByNorm(0.2)),
    ),
    "clip by global norm": (
        1,
        lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters(), grad_clip=p.nn.ClipGradByGlobalNorm(0.3)),
    ),
    "lazy adam, clip by global norm": (
        1,
        lambda p, m: p.optimizer.Adam(
            0.01, parameters=m.parameters(), lazy_mode=True, grad_clip=p.nn.ClipGradByGlobalNorm(0.3)
        ),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_learns_as_in_paddle(paddle, models, name) -> None:
    tables, optimizer = OPTIMIZERS[name]
    compare(paddle, models, lambda model: optimizer(paddle, model), tables=tables)


DENSE_ONLY = {
    "adamw": lambda p, m: p.optimizer.AdamW(0.01, parameters=m.parameters(), weight_decay=0.3),
    "adamw for some": lambda p, m: p.optimizer.AdamW(
        0.01, parameters=m.parameters(), weight_decay=0.3, apply_decay_param_fun=lambda name: name.endswith("w_0")
    ),
    "adam with decay": lambda p, m: p.optimizer.Adam(
        0.01, parameters=m.parameters(), weight_decay=p.regularizer.L2Decay(0.1)
    ),
    "clip by value": lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters(), grad_clip=p.nn.ClipGradByValue(0.05)),
    "clip by two values": lambda p, m: p.optimizer.SGD(
        0.1, parameters=m.parameters(), grad_clip=p.nn.ClipGradByValue(0.05, -0.02)
    ),
}
"""What Paddle itself can't do with gradients of ``sparse=True``."""


@pytest.mark.parametrize("name", DENSE_ONLY)
def test_an_optimizer_of_dense_gradients_learns_as_in_paddle(paddle, models, name) -> None:
    compare(paddle, models, lambda model: DENSE_ONLY[name](paddle, model), tables=0, sparse=False)


SCHEDULES = {
    "noam": lambda lr: lr.NoamDecay(d_model=8, warmup_steps=3, learning_rate=0.5),
    "warmup from zero": lambda lr: lr.LinearWarmup(0.1, warmup_steps=3, start_lr=0.0, end_lr=0.1),
    "warmup of a decay": lambda lr: lr.LinearWarmup(lr.ExponentialDecay(0.1, 0.5), 2, 0.01, 0.1),
    "piecewise": lambda lr: lr.PiecewiseDecay([2, 4], [0.1, 0.05, 0.01]),
    "polynomial": lambda lr: lr.PolynomialDecay(0.1, 4),
    "cosine": lambda lr: lr.CosineAnnealingDecay(0.1, 4),
    "step": lambda lr: lr.StepDecay(0.1, 2),
    "lambda": lambda lr: lr.LambdaDecay(0.1, lambda step: 0.9**step),
    "one cycle": lambda lr: lr.OneCycleLR(0.1, 6),
    "cyclic": lambda lr: lr.CyclicLR(0.01, 0.1, 2),
    "inverse time": lambda lr: lr.InverseTimeDecay(0.1, 0.5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_followed(paddle, models, name) -> None:
    def optimizer(model):
        schedule = SCHEDULES[name](paddle.optimizer.lr)
        return [paddle.optimizer.SGD(schedule, parameters=model.parameters())], schedule.step

    compare(paddle, models, optimizer, tables=1)


def test_a_rate_that_is_set_is_followed(paddle, models) -> None:
    def optimizer(model):
        made = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        return [made], lambda: made.set_lr(made.get_lr() * 0.5)

    compare(paddle, models, optimizer, tables=1)


def test_attributes_of_parameters_are_kept(paddle, models) -> None:
    attr = paddle.ParamAttr(learning_rate=0.5, need_clip=False)
    fc_attr = paddle.ParamAttr(learning_rate=2.0, regularizer=paddle.regularizer.L2Decay(0.1))
    clip = paddle.nn.ClipGradByGlobalNorm(0.2)
    compare(
        paddle,
        models,
        lambda model: paddle.optimizer.SGD(0.1, parameters=model.parameters(), grad_clip=clip),
        tables=1,
        attr=attr,
        fc_attr=fc_attr,
    )


def test_groups_of_parameters_are_kept(paddle, models) -> None:
    def optimizer(model):
        groups = [
            {"params": model.embedding.parameters(), "beta1": 0.5, "lazy_mode": True},
            {"params": model.fc.parameters(), "learning_rate": 0.1, "weight_decay": 0.2},
            {"params": model.out.parameters(), "grad_clip": paddle.nn.ClipGradByNorm(0.1), "beta2": 0.9},
        ]
        return paddle.optimizer.Adam(0.02, parameters=groups)

    compare(paddle, models, optimizer, tables=1)


def test_groups_of_adamw_have_their_own_decay(paddle, models) -> None:
    def optimizer(model):
        groups = [
            {"params": [*model.embedding.parameters(), *model.fc.parameters()], "weight_decay": 0.2},
            {"params": model.out.parameters(), "weight_decay": 0.0, "learning_rate": 3.0},
        ]
        return paddle.optimizer.AdamW(0.02, parameters=groups)

    compare(paddle, models, optimizer, tables=0, sparse=False)


def test_several_optimizers_take_one_step(paddle, models) -> None:
    def optimizer(model):
        schedule = paddle.optimizer.lr.StepDecay(0.1, 2)
        own = paddle.optimizer.SGD(schedule, parameters=model.embedding.parameters())
        rest = paddle.optimizer.Adam(0.01, parameters=[*model.fc.parameters(), *model.out.parameters()])
        return [own, rest], schedule.step

    plan = compare(paddle, models, optimizer, tables=1)
    assert plan.tables[0].optimizer == 0
    assert {each.optimizer for each in plan.parameters} == {1}


def test_what_cannot_be_carried_over_is_named_all_at_once(paddle, models) -> None:
    model = made(paddle)
    first = paddle.optimizer.Lamb(0.1, parameters=model.embedding.parameters())
    second = paddle.optimizer.Adam(0.1, parameters=model.fc.parameters(), amsgrad=True)
    plan = models.plan_of(model, [first, second], is_shared=True, choice=models.TableChoice(tables=("nothing",)))
    said = [each.what for each in plan.problems]
    assert len(said) == 3
    assert [word for word in ("Lamb", "amsgrad", "nothing") if not any(word in each for each in said)] == []
    with pytest.raises(BadRequest, match="Lamb"):
        models.carry_over(model, plan, session=session())
    assert model.embedding.weight.shape == [ROWS, DIM]


# ---- embeddings


def lazy(paddle):
    return lambda model: paddle.optimizer.Adam(0.01, parameters=model.parameters(), lazy_mode=True)


@pytest.mark.parametrize("padding", [0, 3, -1])
def test_a_padding_index_reads_as_zeros(paddle, models, padding) -> None:
    model = made(paddle, padding=padding)
    state = {name: each.numpy().copy() for name, each in model.state_dict().items()}
    losses, _, _ = carried(paddle, models, model, [lazy(paddle)(model)])
    model = made(paddle, padding=padding)
    assert all((each.numpy() == state[name]).all() for name, each in model.state_dict().items())
    expected, _ = plain(paddle, model, [lazy(paddle)(model)])
    np.testing.assert_allclose(losses, expected, rtol=2e-5)


def test_one_layer_in_two_places_and_two_layers_with_one_weight_share_a_table(paddle, models) -> None:
    def net():
        paddle.seed(5)
        first, second = (paddle.nn.Embedding(ROWS, DIM, sparse=True) for _ in range(2))
        second.weight = first.weight
        return paddle.nn.LayerList([first, second, first])

    def learn(model, optimizer):
        found = []
        for slots, _ in batches(paddle):
            loss = sum((layer(each) ** 2).sum() for layer, each in zip(model, slots, strict=True))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            found.append(float(loss))
        return found

    model = net()
    expected = learn(model, lazy(paddle)(model))
    model = net()
    plan = models.plan_of(model, lazy(paddle)(model), is_shared=False)
    assert [each.layers for each in plan.tables] == [("0", "1")]
    np.testing.assert_allclose(learn(model, models.carry_over(model, plan, session=session())), expected, rtol=2e-5)


def test_a_weight_of_another_layer_stays(paddle, models) -> None:
    model = made(paddle, rows=SLOTS * DIM)
    model.tied = paddle.nn.Linear(DIM, 2)
    model.tied.weight = model.embedding.weight
    plan = models.plan_of(model, lazy(paddle)(model), is_shared=True)
    assert plan.tables == ()
    assert "tied" in plan.lines()[-1]


def test_a_weight_that_is_used_past_its_layer_is_found(paddle, models) -> None:
    model = made(paddle)
    model.second = paddle.nn.Embedding(ROWS, DIM, sparse=True)
    model.drop = paddle.nn.Dropout(0.5)
    slots, labels = next(batches(paddle))

    def run(*, also: bool):
        loss = loss_of(paddle, model, slots, labels) + model.drop(model.second(slots[0])).sum()
        return loss + (model.second.weight**2).sum() if also else loss

    state = paddle.get_rng_state()[0].current_seed()
    assert models.used_elsewhere(model, lambda: run(also=False)) == ()
    assert models.used_elsewhere(model, lambda: run(also=True)) == ("second",)
    assert paddle.get_rng_state()[0].current_seed() == state
    assert [name for name, each in model.named_parameters() if each.grad is not None] == []
    assert "forward" not in model.second.__dict__
    choice = models.TableChoice(elsewhere=("second",))
    plan = models.plan_of(model, lazy(paddle)(model), is_shared=True, choice=choice)
    assert [each.name for each in plan.tables] == ["embedding"]


def test_ids_of_any_shape_and_kind(paddle, models) -> None:
    model = made(paddle)
    weight = model.embedding.weight.numpy().copy()
    plan = models.plan_of(model, lazy(paddle)(model), is_shared=False)
    kept = model.embedding
    models.carry_over(model, plan, session=session())
    assert model.embedding is kept
    assert type(kept) is paddle.nn.Embedding
    for ids in (paddle.to_tensor(3), paddle.to_tensor([[1], [2]]), paddle.to_tensor([[1, 2], [3, 3]], "int32")):
        np.testing.assert_array_equal(kept(ids).numpy(), weight[ids.numpy()])
    assert kept(paddle.zeros([0, 2], "int64")).shape == [0, 2, DIM]


@pytest.mark.parametrize("wrong", [-1, ROWS, 2**40])
def test_an_id_out_of_range_is_an_error(paddle, models, wrong) -> None:
    model = made(paddle)
    optimizer = models.carry_over(model, models.plan_of(model, lazy(paddle)(model), is_shared=False), session=session())
    for _ in range(3):
        optimizer.expect([np.array([1, wrong]), np.array([1])])
        with pytest.raises(BadRequest, match=f"id {wrong} is not one of its {ROWS} rows"):
            model.embedding(paddle.to_tensor([1, wrong]))


def test_evaluation_only_reads(paddle, models) -> None:
    model = made(paddle)
    model.embedding.weight.set_value(np.full((ROWS, DIM), 2.0, np.float32))
    plan = models.plan_of(model, lazy(paddle)(model), is_shared=False)
    optimizer = models.carry_over(model, plan, session=session())
    model.eval()
    assert model.embedding(paddle.to_tensor([1])).stop_gradient
    model.train()
    with paddle.no_grad():
        assert model.embedding(paddle.to_tensor([1])).stop_gradient
    assert not model.embedding(paddle.to_tensor([1])).stop_gradient
    before = optimizer.weights()["embedding.weight"]
    optimizer.step()
    np.testing.assert_array_equal(optimizer.weights()["embedding.weight"], before)


def test_the_weight_of_a_table_says_where_it_is(paddle, models) -> None:
    model = made(paddle)
    models.carry_over(model, models.plan_of(model, lazy(paddle)(model), is_shared=False), session=session())
    assert "embedding.weight" not in model.state_dict()
    with pytest.raises(BadRequest, match="used all the same"):
        model.embedding.weight.numpy()


def test_weights_go_back_and_forth(paddle, models) -> None:
    model = made(paddle)
    optimizer = models.carry_over(model, models.plan_of(model, lazy(paddle)(model), is_shared=False), session=session())
    values = np.arange(ROWS * DIM, dtype=np.float32).reshape(ROWS, DIM)
    optimizer.set_weights({"embedding.weight": values, "fc.weight": values})
    np.testing.assert_array_equal(optimizer.weights()["embedding.weight"], values)
    with pytest.raises(BadRequest, match="shape"):
        optimizer.set_weights({"embedding.weight": values[1:]})


def test_parameters_without_an_optimizer_do_not_learn(paddle, models) -> None:
    model = made(paddle)
    before = model.out.weight.numpy().copy()
    some = [*model.embedding.parameters(), *model.fc.parameters()]
    optimizer = paddle.optimizer.SGD(0.1, parameters=some)
    _, state, plan = carried(paddle, models, model, [optimizer])
    np.testing.assert_array_equal(state["out.weight"], before)
    assert set(plan.frozen) == {"out.weight", "out.bias"}


# ---- ids that are said beforehand


def test_expected_ids_change_nothing_but_the_number_of_pulls(paddle, models, monkeypatch) -> None:
    from umiak.ps.tables.lookup import EmbeddingTable

    pulls = []
    rows = EmbeddingTable.rows
    monkeypatch.setattr(
        EmbeddingTable, "rows", lambda self, keys, **how: pulls.append(keys.size) or rows(self, keys, **how)
    )
    compare(paddle, models, lazy(paddle), tables=1, expects=True)
    # The first step learns which of the arrays the table is asked for; then a step is one pull. The last is that of `weights`.
    assert len(pulls) == SLOTS + (STEPS - 1) + 1


def test_wrong_hints_cost_nothing(paddle, models) -> None:
    model = made(paddle)
    weight = model.embedding.weight.numpy().copy()
    optimizer = models.carry_over(model, models.plan_of(model, lazy(paddle)(model), is_shared=False), session=session())
    chance = np.random.default_rng(1)
    for _ in range(5):
        ids = [chance.integers(0, ROWS, 8) for _ in range(3)]
        optimizer.expect([ids[0], ids[1], np.ones(8, np.float32)] if chance.random() < 0.5 else [ids[2], ids[0]])
        for each in (ids[1], ids[0], ids[2], ids[0][:3]):
            np.testing.assert_array_equal(model.embedding(paddle.to_tensor(each)).numpy(), weight[each])


def test_expected_rows_are_not_those_of_before_a_step(paddle, models) -> None:
    model = made(paddle)
    optimizer = models.carry_over(model, models.plan_of(model, lazy(paddle)(model), is_shared=False), session=session())
    ids = [np.array([1, 2]), np.array([3, 4])]
    for _ in range(3):
        optimizer.expect(ids)
        before = [model.embedding(paddle.to_tensor(each)) for each in ids]
        sum(each.sum() for each in before).backward()
        optimizer.step()
        optimizer.clear_grad()
        after = [model.embedding(paddle.to_tensor(each)).numpy() for each in ids]
        assert all((old.numpy() != new).all() for old, new in zip(before, after, strict=True))


# ---- with servers


def halves(paddle, rank: int):
    for slots, labels in batches(paddle):
        part = slice(8 * rank, 8 * rank + 8)
        yield [each[part] for each in slots], labels[part]


@pytest.mark.parametrize("rows", [ROWS, 300_000])
def test_two_trainers_in_step_learn_what_one_learns_from_both_batches(paddle, models, rows) -> None:
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Uniform(-0.5, 0.5))
    model = made(paddle, attr=attr, rows=rows)
    weight = model.embedding.weight.numpy().copy()
    ours = [made(paddle, attr=attr, rows=rows) for _ in range(2)]
    # What the second trainer has to begin with does not count.
    ours[1].fc.weight.set_value(np.zeros([SLOTS * DIM, 8], np.float32))
    plans = [models.plan_of(each, lazy(paddle)(each), is_shared=True) for each in ours]
    assert {plan.tables[0].init for plan in plans} == {None if rows == ROWS else ps.Uniform(-0.5, 0.5)}

    def trainer(job):
        own, plan = ours[job.rank], plans[job.rank]
        optimizer = models.carry_over(own, plan, session=job, seed=11)
        if rows != ROWS:
            optimizer.set_weights({"embedding.weight": weight})
        for slots, labels in halves(paddle, job.rank):
            optimizer.expect([each.numpy() for each in slots])
            loss_of(paddle, own, slots, labels).backward()
            optimizer.step()
            optimizer.clear_grad()
        return {name: each.numpy().copy() for name, each in own.state_dict().items()} | optimizer.weights()

    with Cluster(servers=2, trainers=2) as cluster:
        states = cluster.train("sync", trainer)
    _, state = plain(paddle, model, [lazy(paddle)(model)])
    for name, values in state.items():
        np.testing.assert_array_equal(states[0][name], states[1][name])
        np.testing.assert_allclose(states[0][name], values, rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("keeps", [False, True])
def test_two_collective_trainers_learn_what_one_learns_from_both_batches(paddle, models, keeps) -> None:
    """With the rows in a table, and with an embedding that stays a parameter."""
    model = made(paddle)
    ours = [made(paddle) for _ in range(2)]
    ours[1].embedding.weight.set_value(np.zeros([ROWS, DIM], np.float32))
    choice = models.TableChoice(parameters=("embedding",) if keeps else ())
    plans = [models.plan_of(each, lazy(paddle)(each), is_shared=True, choice=choice) for each in ours]
    brought: list[object] = [None, None]
    meet = threading.Barrier(2, timeout=120)

    def trainer(rank: int):
        client = CollectiveClient(ThreadGroup(rank, brought, meet), shards=4)
        job = Session(PsSeat(rank=rank, world=2), Collective(), SessionOptions(shards=4), connect=lambda: client)
        own = ours[rank]
        optimizer = models.carry_over(own, plans[rank], session=job)
        for slots, labels in halves(paddle, rank):
            loss_of(paddle, own, slots, labels).backward()
            optimizer.step()
            optimizer.clear_grad()
        return {name: each.numpy().copy() for name, each in own.state_dict().items()} | optimizer.weights()

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        states = [*pool.map(trainer, range(2))]
    eager = paddle.optimizer.Adam(0.01, parameters=model.parameters(), lazy_mode=not keeps)
    _, state = plain(paddle, model, [eager])
    for name, values in state.items():
        np.testing.assert_array_equal(states[0][name], states[1][name])
        np.testing.assert_allclose(states[0][name], values, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("strategy", ["async", "geo", "half_async"])
def test_other_strategies_learn(paddle, models, strategy) -> None:
    model = made(paddle)

    def trainer(job):
        plan = models.plan_of(model, paddle.optimizer.Adam(0.02, parameters=model.parameters()), is_shared=True)
        assert any("lazily" in each for each in plan.remarks)
        optimizer = models.carry_over(model, plan, session=job)
        losses = []
        for _ in range(10):
            slots, labels = next(batches(paddle))
            optimizer.expect([each.numpy() for each in slots])
            loss = loss_of(paddle, model, slots, labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        return losses

    with Cluster(servers=2, trainers=1) as cluster:
        (losses,) = cluster.train(strategy, trainer)
    assert losses[-1] < 0.9 * losses[0]


def test_a_first_trainer_that_comes_again_keeps_what_was_learned(paddle, models) -> None:
    with Cluster(servers=2, trainers=1) as cluster:
        found = []
        for turn in range(2):
            model = made(paddle)
            plan = models.plan_of(model, lazy(paddle)(model), is_shared=True)
            with cluster.job("async") as job:
                optimizer = models.carry_over(model, plan, session=job)
                if turn == 0:
                    optimizer.set_weights({"embedding.weight": np.ones([ROWS, DIM], np.float32)})
                found.append(optimizer.weights()["embedding.weight"].mean())
                job.abandon()
    assert found == [1.0, 1.0]


# ---- plans


def test_a_plan_is_told(paddle, models) -> None:
    model = made(paddle, sparse=True)
    model.small = paddle.nn.Embedding(5, 2)
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters(), grad_clip=clip)
    alone = models.plan_of(model, optimizer, is_shared=False).lines()
    assert alone[-2:] == [
        "stays a parameter: embedding.weight: Adam without lazy_mode moves all rows in each step, and alone nothing is changed about that",
        "stays a parameter: small.weight: no sparse=True",
    ]
    shared = models.plan_of(model, optimizer, is_shared=True).lines()
    assert shared[0].startswith("table embedding: 50 rows of 4, Adam(learning_rate=0.01, ")
    assert shared[0].endswith("Clip(global_norm=1), first rows as the weight has them: sparse=True")
    assert [each for each in shared if each.startswith("remark: ")] == [
        "remark: embedding: rows learn lazily, only in steps that use them, although Adam without lazy_mode moves all rows in each step in Paddle",
        "remark: gradients are clipped by each trainer for itself, before they are put together",
    ]


def test_what_becomes_a_table_can_be_chosen(paddle, models) -> None:
    model = made(paddle, sparse=False)
    model.second = paddle.nn.Embedding(200, DIM)
    sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    chosen = {
        models.TableChoice(): [],
        models.TableChoice(tables=("second",)): ["second"],
        models.TableChoice(least_rows=100): ["second"],
        models.TableChoice(least_rows=10): ["embedding", "second"],
        models.TableChoice(least_rows=10, parameters=("second",)): ["embedding"],
    }
    for choice, names in chosen.items():
        assert [each.name for each in models.plan_of(model, sgd, is_shared=True, choice=choice).tables] == names
    model = made(paddle)
    adam = paddle.optimizer.Adam(0.1, parameters=model.parameters())
    assert models.plan_of(model, adam, is_shared=False).tables == ()
    assert len(models.plan_of(model, adam, is_shared=False, choice=models.TableChoice(lazy=True)).tables) == 1


INITIALIZERS = {
    "Uniform": (lambda i: i.Uniform(-0.2, 0.3), ps.Uniform(-0.2, 0.3)),
    "Normal": (lambda i: i.Normal(0.5, 0.1), ps.Normal(0.5, 0.1)),
    "Constant": (lambda i: i.Constant(0.25), ps.Constant(0.25)),
    "XavierUniform": (lambda i: i.XavierUniform(), "Uniform"),
    "XavierNormal": (lambda i: i.XavierNormal(), "Normal"),
    "KaimingUniform": (lambda i: i.KaimingUniform(), "Uniform"),
    "KaimingNormal": (lambda i: i.KaimingNormal(), "Normal"),
    "nothing": (lambda i: None, "Uniform"),
    "TruncatedNormal": (lambda i: i.TruncatedNormal(), None),
    "Assign": (lambda i: i.Assign(np.ones([300_000, DIM], np.float32)), None),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_an_initializer_of_a_large_weight_is_a_rule_where_there_is_one(paddle, models, name) -> None:
    make, expected = INITIALIZERS[name]
    paddle.seed(3)
    attr = paddle.ParamAttr(initializer=make(paddle.nn.initializer))
    layer = paddle.nn.Embedding(300_000, DIM, sparse=True, padding_idx=0, weight_attr=attr)
    sgd = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    (table,) = models.plan_of(layer, sgd, is_shared=True).tables
    assert (type(table.init).__name__ if isinstance(expected, str) else table.init) == expected
    # Weights that were loaded are no longer what the initializer gave.
    layer.weight.set_value(np.random.default_rng(1).normal(3.0, 0.2, [300_000, DIM]).astype(np.float32))
    assert models.plan_of(layer, sgd, is_shared=True).tables[0].init is None
