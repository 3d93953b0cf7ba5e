"""A plain Paddle model through tables, alone, against the same model in a plain Paddle loop."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from tests.support.plain_models import DIM, ROWS, SLOTS, STEPS, batches, lazy, loss_of, made, plain, session
from umiak.ps.errors import BadRequest

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def paddle():
    import paddle

    paddle.set_device("cpu")
    return paddle


@pytest.fixture
def models():
    from umiak.ps import paddle_models

    return paddle_models


def carried(paddle, models, model, optimizers, each_step=lambda: None, *, expects=False, choice=None, **kind):
    plan = models.plan_of(model, optimizers, is_shared=False, choice=choice or models.TableChoice())
    optimizer = models.carry_over(model, plan, session=session())
    losses = []
    for slots, labels in batches(paddle, **kind):
        if expects:
            optimizer.expect([each.numpy() for each in slots], is_one_pass=expects == "one pass")
        loss = loss_of(paddle, model, slots, labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        each_step()
        losses.append(float(loss))
    state = {name: each.numpy().copy() for name, each in model.state_dict().items()}
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
    "adam": (1, lambda p, m: p.optimizer.Adam(0.01, parameters=m.parameters())),
    "momentum": (1, lambda p, m: p.optimizer.Momentum(0.05, 0.8, parameters=m.parameters())),
    "nesterov": (1, lambda p, m: p.optimizer.Momentum(0.05, parameters=m.parameters(), use_nesterov=True)),
    "rmsprop": (1, lambda p, m: p.optimizer.RMSProp(0.01, parameters=m.parameters())),
    "rmsprop centered": (
        1,
        lambda p, m: p.optimizer.RMSProp(0.01, momentum=0.5, centered=True, parameters=m.parameters()),
    ),
    "float decay": (1, lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters(), weight_decay=0.1)),
    "l1 decay": (
        1,
        lambda p, m: p.optimizer.SGD(0.1, parameters=m.parameters(), weight_decay=p.regularizer.L1Decay(0.05)),
    ),
    "momentum with decay": (
        1,
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


def test_momentum_adds_the_decay_of_a_group_to_that_of_the_optimizer(paddle, models) -> None:
    """As in Paddle: a number is L2 within the update, and an L1 of the optimizer is added to the gradient before."""

    def groups(model):
        listed = [{"params": model.fc.parameters(), "weight_decay": 0.1}, {"params": model.out.parameters()}]
        decay = paddle.regularizer.L1Decay(0.05)
        return paddle.optimizer.Momentum(0.05, parameters=listed, weight_decay=decay)

    compare(paddle, models, groups, tables=0)


def test_several_optimizers_take_one_step(paddle, models) -> None:
    def optimizer(model):
        schedule = paddle.optimizer.lr.StepDecay(0.1, 2)
        own = paddle.optimizer.SGD(schedule, parameters=model.embedding.parameters())
        rest = paddle.optimizer.Adam(0.01, parameters=[*model.fc.parameters(), *model.out.parameters()])
        return [own, rest], schedule.step

    plan = compare(paddle, models, optimizer, tables=1)
    assert plan.tables[0].learned.optimizer == 0
    assert {each.learned.optimizer for each in plan.parameters} == {1}


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


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("clip", ["ClipGradByGlobalNorm", "ClipGradByNorm"])
def test_gradients_of_a_padding_index_count_in_the_norm_as_in_paddle(paddle, models, clip, sparse) -> None:
    """Those of ``sparse=True`` do, others do not."""

    def optimizer(model):
        limit = getattr(paddle.nn, clip)(0.02)
        return paddle.optimizer.SGD(0.1, parameters=model.parameters(), grad_clip=limit)

    model = made(paddle, padding=3, sparse=sparse)
    expected, _ = plain(paddle, model, [optimizer(model)], most=8)
    model = made(paddle, padding=3, sparse=sparse)
    own = optimizer(model)
    plan = models.plan_of(model, own, is_shared=True, choice=models.TableChoice(tables=("embedding",)))
    assert [each.name for each in plan.tables] == ["embedding"]
    carried = models.carry_over(model, plan, session=session())
    found, _ = plain(paddle, model, [carried], most=8)
    assert found == pytest.approx(expected, abs=1e-6)


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


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("kind", ["sgd", "lazy adam"])
def test_a_weight_of_two_layers_of_which_one_is_sparse(paddle, models, kind, padding) -> None:
    """The sum of their gradients is one of all rows, which Adam moves; with SGD, a table does the same."""

    def net():
        paddle.seed(5)
        first = paddle.nn.Embedding(ROWS, DIM, padding_idx=padding)
        second = paddle.nn.Embedding(ROWS, DIM, sparse=True, padding_idx=padding)
        second.weight = first.weight
        return paddle.nn.LayerList([first, second])

    def optimizer_of(model):
        if kind == "sgd":
            return paddle.optimizer.SGD(0.1, parameters=model.parameters())
        return lazy(paddle)(model)

    def learn(model, optimizer):
        found = []
        for slots, _ in batches(paddle, most=8):
            sum((layer(each) ** 2).sum() for layer, each in zip(model, slots, strict=False)).backward()
            optimizer.step()
            optimizer.clear_grad()
            found.append(model[0].weight.numpy().copy())
        return found

    model = net()
    expected = learn(model, optimizer_of(model))
    model = net()
    plan = models.plan_of(model, optimizer_of(model), is_shared=False)
    assert len(plan.tables) == (kind == "sgd" and padding is None)
    ours = learn(model, models.carry_over(model, plan, session=session()))
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=2e-6)
    model = net()
    shared = models.plan_of(model, optimizer_of(model), is_shared=True)
    assert len(shared.tables) == (padding is None)
    assert any("a layer without sparse=True" in each for each in shared.remarks) == (kind != "sgd" and padding is None)


@pytest.mark.parametrize("kind", ["Momentum", "RMSProp"])
def test_rows_that_paddle_leaves_out_learn(paddle, models, kind) -> None:
    """On CPUs, Paddle searches for rows of ``sparse=True`` as if they were sorted: then `docs/reference/ps.md` is true."""

    def moved(*, sparse: bool, is_carried: bool):
        paddle.seed(5)
        model = paddle.nn.Embedding(9, 2, sparse=sparse)
        optimizer = getattr(paddle.optimizer, kind)(0.1, parameters=model.parameters())
        before = model.weight.numpy().copy()
        if is_carried:
            plan = models.plan_of(model, optimizer, is_shared=False)
            optimizer = models.carry_over(model, plan, session=session())
        model(paddle.to_tensor([4, 1, 3])).sum().backward()
        optimizer.step()
        return model.weight.numpy() - before

    expected = moved(sparse=False, is_carried=False)
    assert np.flatnonzero(expected[:, 0]).tolist() == [1, 3, 4]
    assert np.flatnonzero(moved(sparse=True, is_carried=False)[:, 0]).tolist() == [1, 3]
    np.testing.assert_allclose(moved(sparse=True, is_carried=True), expected, rtol=1e-5)


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
    model.recurrent = paddle.nn.GRU(DIM, DIM)
    slots, labels = next(batches(paddle))

    def run(*, also: bool):
        loss = loss_of(paddle, model, slots, labels) + model.drop(model.second(slots[0])).sum()
        loss = loss + model.recurrent(model.second(slots[0]).reshape([-1, 1, DIM]))[0].sum()
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
    with paddle.no_grad():
        assert model.embedding(paddle.to_tensor([1])).stop_gradient
    # As in Paddle, `eval()` alone stops no gradient.
    model.eval()
    assert not model.embedding(paddle.to_tensor([1])).stop_gradient
    before = optimizer.weights()["embedding.weight"]
    optimizer.step()
    np.testing.assert_array_equal(optimizer.weights()["embedding.weight"], before)


def test_the_weight_of_a_table_says_where_it_is(paddle, models) -> None:
    model = made(paddle)
    models.carry_over(model, models.plan_of(model, lazy(paddle)(model), is_shared=False), session=session())
    assert model.embedding.weight.numpy().shape == (ROWS, DIM)
    with pytest.raises(BadRequest, match="used all the same"):
        model.embedding.weight.sum()
    with pytest.raises(RuntimeError):
        model.parameters()[0].sum()


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


@pytest.mark.parametrize("expects", [True, "one pass"])
def test_expected_ids_change_nothing_but_the_number_of_pulls(paddle, models, monkeypatch, expects) -> None:
    from umiak.ps.tables.lookup import EmbeddingTable

    pulls = []
    rows = EmbeddingTable.rows
    monkeypatch.setattr(
        EmbeddingTable, "rows", lambda self, keys, **how: pulls.append(keys.size) or rows(self, keys, **how)
    )
    compare(paddle, models, lazy(paddle), tables=1, expects=expects)
    # The first step learns which of the arrays the table is asked for; then a step is one pull. The last is that of `state_dict`.
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


def test_looks_of_one_pass_learn_what_they_learn_one_by_one(paddle, models) -> None:
    """Of other shapes, with padding, twice the same ids, changed in place, without a gradient, and missing in some steps."""

    class Model(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            given = paddle.nn.initializer.Assign(np.random.default_rng(3).normal(size=(ROWS, DIM)).astype(np.float32))
            self.embedding = paddle.nn.Embedding(ROWS, DIM, sparse=True, padding_idx=0, weight_attr=given)

        def forward(self, fields, step):
            first, second, bag = (self.embedding(each) for each in fields[:3])
            again = self.embedding(fields[0]).scale_(2.0)
            unused = self.embedding(fields[3]) if step % 2 else first
            looked_at = self.embedding(fields[4]).detach()
            total = (first * second.sum(axis=1)).sum() + (bag.tanh().sum() + again.sum()) ** 2
            return total + (looked_at.sum() * unused[:1, :1].detach().sum())

    def learned(made_optimizer, *, through_tables=True, is_one_pass=False):
        model, chance = Model(), np.random.default_rng(7)
        optimizer = made_optimizer(model.parameters())
        if through_tables:
            plan = models.plan_of(model, [optimizer], is_shared=False)
            optimizer = models.carry_over(model, plan, session=session())
        losses = []
        for step in range(6):
            sizes = [(8,), (8, 3), (4, 2, 2), (8,), (2, 4)] if step != 4 else [(5,), (5, 3), (3, 2, 2), (5,), (2, 4)]
            arrays = [chance.integers(0, ROWS, size) for size in sizes]
            if through_tables:
                optimizer.expect(arrays, is_one_pass=is_one_pass)
            loss = model([paddle.to_tensor(each) for each in arrays], step)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
        weight = optimizer.weights()["embedding.weight"] if through_tables else model.embedding.weight.numpy()
        return losses, weight

    def sgd(parameters):
        return paddle.optimizer.SGD(0.001, parameters=parameters)

    def adam(parameters):
        return paddle.optimizer.Adam(0.1, parameters=parameters, lazy_mode=True)

    losses, weight = learned(sgd, through_tables=False)
    for is_one_pass in (False, True):
        ours, our_weight = learned(sgd, is_one_pass=is_one_pass)
        np.testing.assert_allclose(ours, losses, rtol=1e-5)
        np.testing.assert_allclose(our_weight[1:], weight[1:], rtol=1e-5, atol=1e-6)
    # Adam turns a gradient that is zero but for rounding into a whole step, in Paddle too: bit for bit, or not at all.
    one_by_one, joined = learned(adam), learned(adam, is_one_pass=True)
    np.testing.assert_array_equal(joined[0], one_by_one[0])
    np.testing.assert_array_equal(joined[1], one_by_one[1])


def test_a_model_with_a_backward_pass_of_its_own_can_say_so(paddle, models) -> None:
    model = made(paddle)
    optimizer = models.carry_over(model, models.plan_of(model, lazy(paddle)(model), is_shared=False), session=session())
    ids = [np.array([1, 2]), np.array([3, 4])]
    for _ in range(3):
        optimizer.expect(ids, is_one_pass=False)
        before = [model.embedding(paddle.to_tensor(each)) for each in ids]
        for each in before:
            each.sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        after = optimizer.weights()["embedding.weight"]
        assert all((old.numpy() != after[each]).all() for old, each in zip(before, ids, strict=True))
