"""What becomes of single parameters on tables, against plain Paddle: frozen, unfrozen, not reached, pre-trained, large, saved and loaded."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import threading
from typing import Any

import numpy as np
import pytest

from tests.support import PATIENCE_S
from tests.support.plain_models import session
from tests.support.ps_cluster import Cluster, ThreadGroup
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

STEPS = 8
LARGE = 300_000
"""Rows of an embedding with more than a million numbers."""


@pytest.fixture
def paddle():
    import paddle

    paddle.set_device("cpu")
    return paddle


@pytest.fixture
def models():
    from umiak.ps import paddle_models

    return paddle_models


def made(paddle: Any) -> Any:
    """With a part that is frozen at first, one that is frozen later, one that is reached now and then, and one that never is."""
    paddle.seed(5)
    model = paddle.nn.Layer()
    for name in ("late", "early", "branch", "unused"):
        setattr(model, name, paddle.nn.Linear(4, 4))
    model.out = paddle.nn.Linear(4, 1)
    for parameter in model.late.parameters():
        parameter.stop_gradient = True
    return model


def learn(paddle: Any, model: Any, optimizer: Any, *, rank: int = 0, world: int = 1, set_to_zero: bool = True) -> Any:
    """What the parameters are after every step. With two trainers, only the first one's batches reach the branch."""
    numbers = np.random.default_rng(2)
    found = []
    for step in range(STEPS):
        for name, since in (("late", 3), ("early", 5)):
            for parameter in getattr(model, name).parameters():
                if step == since:
                    parameter.stop_gradient = name == "early"
        x, y = numbers.normal(size=(8, 4)).astype(np.float32), numbers.normal(size=(8, 1)).astype(np.float32)
        losses = []
        for part in range(2) if world == 1 else [rank]:
            here = slice(4 * part, 4 * part + 4)
            hidden = model.early(model.late(paddle.to_tensor(x[here])))
            if step % 3 != 1 and part == 0:
                hidden = hidden + model.branch(hidden)
            losses.append(((model.out(hidden) - paddle.to_tensor(y[here])) ** 2).mean())
        (sum(losses) / len(losses)).backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero)
        found.append({name: each.numpy().copy() for name, each in model.state_dict().items()})
    return found


def compare(ours: Any, plain: Any) -> None:
    for step, (own, expected) in enumerate(zip(ours, plain, strict=True)):
        for name, values in expected.items():
            np.testing.assert_allclose(own[name], values, rtol=1e-5, atol=1e-6, err_msg=f"{name} in step {step}")


@pytest.mark.parametrize("set_to_zero", [True, False])
@pytest.mark.parametrize("strategy", ["alone", "sync", "async", "half_async", "geo"])
def test_parameters_without_a_gradient_stay_in_every_strategy(paddle, strategy, set_to_zero) -> None:
    from umiak import ps

    model = made(paddle)
    adam = paddle.optimizer.Adam(0.02, parameters=model.parameters(), weight_decay=0.1)
    plain = learn(paddle, model, adam, set_to_zero=set_to_zero)
    assert not np.array_equal(plain[1]["late.weight"], plain[3]["late.weight"])

    def trained(job: Session) -> Any:
        model = made(paddle)
        optimizer = ps.paddle.optimizer(model, "adam", learning_rate=0.02, weight_decay=0.1, session=job)
        return learn(paddle, model, optimizer, set_to_zero=set_to_zero)

    if strategy == "alone":
        compare(trained(session()), plain)
        return
    flags = {"communicator_max_merge_var_num": 1} if strategy == "half_async" else {}
    with Cluster(servers=2, trainers=1) as cluster:
        compare(cluster.train(strategy, trained, **flags)[0], plain)


class Together:
    """Several optimizers of Paddle as one."""

    def __init__(self, optimizers: list[Any]) -> None:
        self._optimizers = optimizers

    def step(self) -> None:
        for each in self._optimizers:
            each.step()

    def clear_grad(self, set_to_zero: bool = True) -> None:
        for each in self._optimizers:
            each.clear_grad(set_to_zero)


def with_rows(paddle: Any, *, sparse: bool) -> tuple[Any, list[Any]]:
    """Momentum goes on moving what has a gradient of zeros; rows of a table learn by SGD, as they do in Paddle."""
    paddle.seed(5)
    model = paddle.nn.Layer()
    model.out, model.branch = paddle.nn.Linear(3, 1), paddle.nn.Linear(3, 3)
    dense = model.parameters()
    model.rows = paddle.nn.Embedding(9, 3, sparse=sparse)
    rows = model.rows.parameters()
    sgd = [paddle.optimizer.SGD(0.1, parameters=rows)] if sparse else []
    dense += [] if sparse else rows
    return model, [paddle.optimizer.Momentum(0.05, 0.8, parameters=dense, weight_decay=0.1), *sgd]


def clear(way: str, model: Any, optimizer: Any, step: int) -> None:
    if way == "by the model":
        model.clear_gradients()
    elif way == "by hand":
        for parameter in model.parameters():
            parameter.clear_grad()
    else:
        optimizer.clear_grad(way != "both ways" or step % 3 > 0)


def learn_now_and_then(paddle: Any, model: Any, optimizer: Any, way: str) -> Any:
    numbers, found = np.random.default_rng(4), []
    for step in range(STEPS):
        hidden = model.rows(paddle.to_tensor(numbers.integers(0, 9, 4)))
        if step in (0, 4):
            hidden = hidden + model.branch(hidden)
        ((model.out(hidden) - 1.0) ** 2).mean().backward()
        if way == "both ways" or step not in (0, 5):
            optimizer.step()
        clear(way, model, optimizer, step)
        found.append({name: each.numpy().copy() for name, each in model.state_dict().items()})
    return found


@pytest.mark.parametrize("is_carried", [True, False])
@pytest.mark.parametrize("way", ["both ways", "by the optimizer", "by the model", "by hand"])
def test_gradients_are_cleared_as_in_paddle(paddle, models, way, is_carried) -> None:
    """Zeros stand where a gradient was cleared, no matter who clears it and whether or not a step has had it, and nowhere else."""
    from umiak import ps

    model, own = with_rows(paddle, sparse=is_carried)
    expected = learn_now_and_then(paddle, model, Together(own), way)
    model, own = with_rows(paddle, sparse=is_carried)
    if is_carried:
        plan = models.plan_of(model, own, is_shared=False)
        assert len(plan.tables) == 1
        optimizer: Any = models.carry_over(model, plan, session=session())
    else:
        optimizer = ps.paddle.optimizer(model, ps.Momentum(0.05, 0.8), weight_decay=0.1, session=session())
    compare(learn_now_and_then(paddle, model, optimizer, way), expected)


@pytest.mark.parametrize("way", ["servers", "collective"])
def test_what_one_of_two_trainers_does_not_reach_learns_from_the_other(paddle, way) -> None:
    from umiak import ps

    model = made(paddle)
    plain = learn(paddle, model, paddle.optimizer.Adam(0.02, parameters=model.parameters(), weight_decay=0.1))
    ours = [made(paddle) for _ in range(2)]

    def trained(job: Session) -> Any:
        own = ours[job.rank]
        optimizer = ps.paddle.optimizer(own, "adam", learning_rate=0.02, weight_decay=0.1, session=job)
        return learn(paddle, own, optimizer, rank=job.rank, world=2)

    if way == "servers":
        with Cluster(servers=2, trainers=2) as cluster:
            states = cluster.train("sync", trained)
    else:
        brought: list[object] = [None, None]
        meet = threading.Barrier(2, timeout=PATIENCE_S)

        def trainer(rank: int) -> Any:
            client = CollectiveClient(ThreadGroup(rank, brought, meet), shards=4)
            seat = PsSeat(rank=rank, world=2)
            return trained(Session(seat, Collective(), SessionOptions(shards=4), connect=lambda: client))

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            states = [*pool.map(trainer, range(2))]
    for state in states:
        compare(state, plain)


def test_an_embedding_that_is_unfrozen_learns_from_then_on(paddle, models) -> None:
    """Also where the code that unfreezes it has the parameter from before, or from `parameters()`."""
    model = paddle.nn.Embedding(10, 2, sparse=True)
    weight = model.weight
    weight.stop_gradient = True
    optimizer = models.carry_over(
        model,
        models.plan_of(model, paddle.optimizer.SGD(0.5, parameters=model.parameters()), is_shared=False),
        session=session(),
    )
    moved = []
    for is_frozen, held in ((True, weight), (False, model.parameters()[0]), (True, model.weight), (False, weight)):
        before = model.weight.numpy()
        held.stop_gradient = is_frozen
        rows = model(paddle.to_tensor([1, 2]))
        assert rows.stop_gradient == is_frozen
        if not is_frozen:
            rows.sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        moved.append(not np.array_equal(before, model.weight.numpy()))
    assert moved == [False, True, False, True]
    # As in Paddle, the last word before the step counts.
    before = model.weight.numpy()
    model(paddle.to_tensor([1])).sum().backward()
    weight.stop_gradient = True
    optimizer.step()
    np.testing.assert_array_equal(model.weight.numpy(), before)


# ---- what tables begin with


@pytest.mark.parametrize("servers", [0, 1, 8])
def test_tables_begin_with_the_models_own_numbers_whatever_their_size(paddle, models, servers) -> None:
    """Those of Paddle's seed, and pre-trained ones that look as if an initializer had made them."""
    paddle.seed(11)
    model = paddle.nn.Layer()
    model.random = paddle.nn.Embedding(LARGE, 4, sparse=True)
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Uniform(-0.5, 0.5))
    model.loaded = paddle.nn.Embedding(LARGE, 4, sparse=True, weight_attr=attr)
    pretrained = np.random.default_rng(1).uniform(-0.5, 0.5, [LARGE, 4]).astype(np.float32)
    model.loaded.weight.set_value(pretrained)
    expected = {"random.weight": model.random.weight.numpy().copy(), "loaded.weight": pretrained}
    sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    plan = models.plan_of(model, sgd, is_shared=servers > 0)
    assert len(plan.tables) == 2
    if not servers:
        models.carry_over(model, plan, session=session())
        state = {name: each.numpy() for name, each in model.state_dict().items()}
    else:
        with Cluster(servers=servers, trainers=1) as cluster, cluster.job("sync") as job:
            models.carry_over(model, plan, session=job)
            state = {name: each.numpy() for name, each in model.state_dict().items()}
    for name, values in expected.items():
        np.testing.assert_array_equal(state[name], values)


# ---- saving and loading


def test_the_state_of_a_model_has_its_tables_and_takes_them(paddle, models) -> None:
    def carried() -> Any:
        paddle.seed(3)
        model = paddle.nn.Sequential(paddle.nn.Embedding(20, 3, sparse=True), paddle.nn.Linear(3, 1))
        sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        plan = models.plan_of(model, sgd, is_shared=True)
        models.carry_over(model, plan, session=session())
        with pytest.raises(BadRequest, match="is in tables"):
            sgd.state_dict()
        return model

    model = carried()
    model[0].weight.set_value(np.arange(60, dtype=np.float32).reshape(20, 3))
    state = {name: each.numpy() for name, each in model.state_dict().items()}
    assert [*state] == ["0.weight", "1.weight", "1.bias"]
    other = carried()
    missing, unexpected = other.set_state_dict({"0.weight": state["0.weight"], "2.weight": state["1.bias"]})
    assert (missing, unexpected) == (["1.weight", "1.bias"], ["2.weight"])
    np.testing.assert_array_equal(
        other(paddle.to_tensor([7])).numpy(), other[1](paddle.to_tensor(state["0.weight"][7:8]))
    )
    np.testing.assert_array_equal(other.state_dict()["0.weight"].numpy(), state["0.weight"])
    with pytest.raises(BadRequest, match="shape"):
        other[0].weight.set_value(np.zeros([19, 3], np.float32))


WRITES = {
    "set_value": lambda paddle, weight, values: weight.set_value(values),
    "copy_": lambda paddle, weight, values: weight.copy_(values, True),
    "assign": lambda paddle, weight, values: paddle.assign(values, weight),
    "an initializer": lambda paddle, weight, values: paddle.nn.initializer.Assign(values.numpy())(weight),
    "its memory": lambda paddle, weight, values: weight.get_tensor().set(values.numpy(), paddle.CPUPlace()),
}


@pytest.mark.parametrize("look", ["forward", "state", "step", "array"])
@pytest.mark.parametrize("way", WRITES)
def test_whatever_writes_a_weight_writes_its_table(paddle, models, way, look) -> None:
    model, (momentum, sgd) = with_rows(paddle, sparse=True)
    weight = model.rows.weight
    optimizer = models.carry_over(model, models.plan_of(model, [momentum, sgd], is_shared=False), session=session())
    values = np.arange(27, dtype=np.float32).reshape(9, 3)
    WRITES[way](paddle, weight, paddle.to_tensor(values))
    if look == "step":
        optimizer.step()
    found = {
        "forward": lambda: model.rows(paddle.arange(9)).numpy(),
        "state": lambda: np.asarray(model.state_dict()["rows.weight"]),
        "step": lambda: next(iter(optimizer.weights().values())),
        "array": lambda: np.asarray(model.rows.weight),
    }
    np.testing.assert_array_equal(found[look](), values)


def test_what_would_pass_by_a_table_is_refused(paddle, models) -> None:
    """Steps of the model's own optimizer, and another weight of the layer: neither reaches the rows."""
    model, own = with_rows(paddle, sparse=True)
    models.carry_over(model, models.plan_of(model, own, is_shared=False), session=session())
    loss = model.out(model.rows(paddle.to_tensor([1, 2]))).sum()
    loss.backward()
    for optimizer in own:
        for steps in (optimizer.step, lambda each=optimizer: each.minimize(loss)):
            with pytest.raises(BadRequest, match="takes no steps of its own"):
                steps()
    model.rows.weight = paddle.nn.Embedding(9, 3).weight
    with pytest.raises(BadRequest, match="another weight since"):
        model.rows(paddle.to_tensor([1]))


def normalized(paddle: Any) -> Any:
    from umiak import ps

    paddle.seed(3)
    model = paddle.nn.Sequential(
        ps.paddle.Embedding(dim=3, table="ids"), paddle.nn.BatchNorm1D(3), paddle.nn.Linear(3, 1)
    )
    return model, ps.paddle.optimizer(model, "adam", learning_rate=0.1)


def test_buffers_are_saved_and_loaded_with_tables(paddle, tmp_path, capsys) -> None:
    from umiak import ps

    session()
    model, optimizer = normalized(paddle)
    for step in range(3):
        model(paddle.to_tensor([step, 7, 9, 11])).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    with pytest.raises(BadRequest, match=r"ps\.save"):
        model.state_dict()
    expected = {name: each.numpy().copy() for name, each in model.state_dict(use_hook=False).items()}
    assert np.abs(expected["1._mean"]).max() > 0
    ps.save(str(tmp_path / "saved"))
    session()
    model, optimizer = normalized(paddle)
    ps.load(str(tmp_path / "saved"))
    for name, each in model.state_dict(use_hook=False).items():
        np.testing.assert_array_equal(each.numpy(), expected[name], err_msg=name)
    assert capsys.readouterr().err == ""


def test_loading_says_what_was_missing_and_what_is_left_over(paddle, tmp_path, capsys) -> None:
    from umiak import ps

    session()
    normalized(paddle)
    ps.save(str(tmp_path / "saved"))
    session()
    more = paddle.nn.Sequential(ps.paddle.Embedding(dim=3, table="other"), paddle.nn.Linear(3, 1))
    ps.paddle.optimizer(more, "adam", table="mine")
    ps.load(str(tmp_path / "saved"))
    said = capsys.readouterr().err
    assert "has no table mine, other: what they hold is not loaded" in said
    assert "also has dense, dense.buffers, ids, which nothing here uses so far" in said
