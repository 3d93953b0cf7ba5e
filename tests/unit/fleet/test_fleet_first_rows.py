"""Static programs on tables begin with the numbers of plain Paddle for the same seed, and learn what it learns. Generated programs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import fleet, older_programs, paddle
from umiak.core.value import replace
from umiak.fleet import job
from umiak.fleet.programs import rewriting

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

IDS, DIM, SAMPLES, STEPS = 40, 4, 16, 6
INITIALIZERS = {
    "default": lambda: None,
    "uniform": lambda: paddle.nn.initializer.Uniform(-0.3, 0.3),
    "normal": lambda: paddle.nn.initializer.Normal(0.1, 0.2),
    "truncated": lambda: paddle.nn.initializer.TruncatedNormal(0.0, 0.3),
    "xavier": paddle.nn.initializer.XavierNormal,
    "kaiming": paddle.nn.initializer.KaimingUniform,
    "constant": lambda: paddle.nn.initializer.Constant(0.25),
    "listed": lambda: paddle.nn.initializer.Assign(np.random.default_rng(4).normal(size=(IDS, DIM)).astype("float32")),
}


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    with older_programs():
        yield


class SeededProgram:
    """Two slots, embeddings between dense layers, so that the order of random numbers counts."""

    def __init__(self, seed: int, initializer: Any, kind: str) -> None:
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        paddle.seed(seed)
        with paddle.static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            dense = paddle.static.data("dense", [None, 3], "float32")
            ids = [paddle.static.data(f"i{place}", [None, 1], "int64") for place in range(2)]
            label = paddle.static.data("label", [None, 1], "float32")
            before = paddle.static.nn.fc(dense, 4, activation="relu")
            rows = [before]
            for place, slot in enumerate(ids):
                named = paddle.ParamAttr(name=f"rows{place}", initializer=initializer())
                if kind == "sparse_embedding":
                    rows.append(paddle.static.nn.sparse_embedding(slot, [IDS, DIM], param_attr=named))
                else:
                    layer = paddle.nn.Embedding(IDS, DIM, sparse=True, weight_attr=named)
                    rows.append(paddle.reshape(layer(slot), [-1, DIM]))
            hidden = paddle.static.nn.fc(paddle.concat(rows, axis=1), 6, activation="tanh")
            self.predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(hidden, 1))
            self.loss = paddle.mean(paddle.nn.functional.log_loss(self.predict, label))
            self.test = self.main.clone(for_test=True)

    @staticmethod
    def batch(number: int) -> dict[str, Any]:
        chance = np.random.default_rng(number)
        found = {f"i{place}": chance.integers(0, IDS, (SAMPLES, 1)) for place in range(2)}
        dense = chance.normal(size=(SAMPLES, 3)).astype("float32")
        return {**found, "dense": dense, "label": chance.integers(0, 2, (SAMPLES, 1)).astype("float32")}

    def losses(self, optimizer: Any) -> list[float]:
        with paddle.static.program_guard(self.main, self.startup):
            optimizer.minimize(self.loss)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(self.startup)
        if job.current() is not None:
            fleet.init_worker()
        return [
            float(executor.run(self.main, feed=self.batch(step), fetch_list=[self.loss])[0]) for step in range(STEPS)
        ]


def sgd() -> Any:
    return paddle.optimizer.SGD(0.5)


@cache
def plain(seed: int, initializer: str) -> list[float]:
    job.end()
    with paddle.static.scope_guard(paddle.static.Scope()):
        return SeededProgram(seed, INITIALIZERS[initializer], "layer").losses(sgd())


def on_tables(seed: int, initializer: str, kind: str) -> list[float]:
    fleet.init(fleet.PaddleCloudRoleMaker())
    with paddle.static.scope_guard(paddle.static.Scope()):
        found = SeededProgram(seed, INITIALIZERS[initializer], kind).losses(
            fleet.distributed_optimizer(sgd(), fleet.DistributedStrategy())
        )
    job.end()
    return found


@pytest.mark.parametrize("kind", ["sparse_embedding", "layer"])
@pytest.mark.parametrize("initializer", sorted(INITIALIZERS))
def test_the_same_seed_learns_the_same(initializer: str, kind: str) -> None:
    for seed in (3, 11):
        np.testing.assert_allclose(on_tables(seed, initializer, kind), plain(seed, initializer), atol=1e-6)


def test_rows_leave_the_scope() -> None:
    fleet.init(fleet.PaddleCloudRoleMaker())
    with paddle.static.scope_guard(paddle.static.Scope()):
        made = SeededProgram(3, INITIALIZERS["uniform"], "sparse_embedding")
        made.losses(fleet.distributed_optimizer(sgd(), fleet.DistributedStrategy()))
        tensor = paddle.static.global_scope().find_var("rows0").get_tensor()
        assert not tensor._is_initialized()


def test_a_startup_program_that_runs_again_begins_again() -> None:
    fleet.init(fleet.PaddleCloudRoleMaker())
    with paddle.static.scope_guard(paddle.static.Scope()):
        made = SeededProgram(3, INITIALIZERS["constant"], "sparse_embedding")
        made.losses(fleet.distributed_optimizer(sgd(), fleet.DistributedStrategy()))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(made.startup)
        rows = job.current().tables["rows0"].rows(np.arange(IDS, dtype=np.uint64), create=False)  # type: ignore[union-attr]
    assert (rows == 0.25).all()


def test_a_table_that_is_too_large_to_send_begins_by_rule_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rewriting, "MOST_FIRST_BYTES", 100)
    found = on_tables(3, "uniform", "sparse_embedding")
    assert "rows0: 0.0 GiB are too many to send, so its rows begin with random numbers" in capsys.readouterr().err
    assert found != plain(3, "uniform")


def test_rows_that_are_admitted_late_are_not_sent() -> None:
    fleet.init(fleet.PaddleCloudRoleMaker())
    main, startup = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.program_guard(main, startup),
        paddle.utils.unique_name.guard(),
        paddle.static.scope_guard(paddle.static.Scope()),
    ):
        ids = paddle.static.data("ids", [None, 1], "int64")
        entry = paddle.distributed.CountFilterEntry(3)
        rows = paddle.static.nn.sparse_embedding(ids, [IDS, DIM], entry=entry, param_attr=paddle.ParamAttr(name="late"))
        loss = paddle.mean(paddle.static.nn.fc(rows, 1))
        fleet.distributed_optimizer(sgd(), fleet.DistributedStrategy()).minimize(loss)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        fleet.init_worker()
        found = executor.run(main, feed={"ids": np.arange(5).reshape(-1, 1)}, fetch_list=[rows])[0]
    assert not found.any()


def test_a_first_trainer_that_is_started_again_sends_only_what_is_missing() -> None:
    fleet.init(fleet.PaddleCloudRoleMaker())
    with paddle.static.scope_guard(paddle.static.Scope()):
        made = SeededProgram(3, INITIALIZERS["constant"], "sparse_embedding")
        with paddle.static.program_guard(made.main, made.startup):
            fleet.distributed_optimizer(sgd(), fleet.DistributedStrategy()).minimize(made.loss)
        begun = job.current()
        assert begun is not None
        table = begun.tables["rows0"]
        table.open()
        learned = np.full((3, DIM), 7.0, np.float32)
        begun.session.client.set(table.number, np.arange(3, dtype=np.uint64), learned)
        begun.session.seat = replace(begun.session.seat, restarts=1)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(made.startup)
        fleet.init_worker()
        rows = table.rows(np.arange(IDS, dtype=np.uint64), create=False)
    assert (rows[:3] == 7.0).all()
    assert (rows[3:] == 0.25).all()
