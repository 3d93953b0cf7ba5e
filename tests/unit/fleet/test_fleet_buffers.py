"""What a static program has besides parameters that learn (means of batch_norm, frozen weights) is saved, loaded and inferred with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import fleet, older_programs, paddle
from umiak.fleet import job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

IDS, DIM, SAMPLES = 30, 4, 16


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    with older_programs():
        yield


class NormalizedProgram:
    """An embedding, batch_norm, and a layer that is frozen."""

    def __init__(self) -> None:
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            ids = paddle.static.data("ids", [None, 1], "int64")
            named = paddle.ParamAttr(name="rows", initializer=paddle.nn.initializer.Normal(3.0, 2.0))
            rows = paddle.static.nn.sparse_embedding(ids, [IDS, DIM], param_attr=named)
            normal = paddle.static.nn.batch_norm(rows)
            frozen = paddle.static.nn.fc(normal, 3, weight_attr=paddle.ParamAttr(name="frozen", trainable=False))
            self.predict = paddle.static.nn.fc(frozen, 1)
            self.loss = paddle.mean(paddle.square(self.predict - 1.0))
            self.test = self.main.clone(for_test=True)

    def trained(self, steps: int) -> Any:
        with paddle.static.program_guard(self.main, self.startup):
            optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.05), fleet.DistributedStrategy())
            optimizer.minimize(self.loss)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(self.startup)
        fleet.init_worker()
        for step in range(steps):
            executor.run(self.main, feed=batch(step), fetch_list=[])
        return executor

    def predictions(self, executor: Any) -> Any:
        return executor.run(self.test, feed=batch(99), fetch_list=[self.predict])[0]


def batch(number: int) -> dict[str, Any]:
    return {"ids": np.random.default_rng(number).integers(0, IDS, (SAMPLES, 1))}


def test_a_save_has_what_is_not_learned(tmp_path: Path) -> None:
    fleet.init(fleet.PaddleCloudRoleMaker())
    paddle.seed(3)
    first = NormalizedProgram()
    executor = first.trained(8)
    expected = first.predictions(executor)
    fleet.save_persistables(executor, str(tmp_path / "saved"))
    assert {"frozen", "batch_norm_0.w_1", "batch_norm_0.w_2"} < {
        *paddle.load(str(tmp_path / "saved" / "dense.pdparams"))
    }
    job.end()
    with paddle.static.scope_guard(paddle.static.Scope()):
        fleet.init(fleet.PaddleCloudRoleMaker())
        paddle.seed(4)
        again = NormalizedProgram()
        executor = again.trained(2)
        assert np.abs(again.predictions(executor) - expected).max() > 1e-3
        fleet.load_model(str(tmp_path / "saved"))
        np.testing.assert_allclose(again.predictions(executor), expected, atol=1e-6)
        job.end()
    with paddle.static.scope_guard(paddle.static.Scope()):
        paddle.seed(5)
        only = NormalizedProgram()
        infer = fleet.utils.DistributedInfer(main_program=only.test, startup_program=only.startup)
        infer.init_distributed_infer_env(executor, only.loss, dirname=str(tmp_path / "saved"))
        found = executor.run(infer.get_dist_infer_program(), feed=batch(99), fetch_list=[only.predict.name])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


class RecurrentProgram:
    """An embedding, and a recurrent layer, whose weights Paddle keeps once more in one variable."""

    def __init__(self, layer: str) -> None:
        self.main, self.startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            ids = paddle.static.data("ids", [None, 5], "int64")
            named = paddle.ParamAttr(name="rows")
            rows = paddle.static.nn.embedding(ids, [IDS, DIM], is_sparse=True, param_attr=named)
            found, _ = LAYERS[layer]()(rows)
            self.predict = paddle.static.nn.fc(paddle.mean(found, axis=1), 1)
            self.loss = paddle.mean(paddle.square(self.predict - 1.0))
            self.test = self.main.clone(for_test=True)


LAYERS = {
    "one layer": lambda: paddle.nn.GRU(DIM, 3),
    "two layers, both ways": lambda: paddle.nn.LSTM(DIM, 3, num_layers=2, direction="bidirect"),
}


def sequences(number: int) -> dict[str, Any]:
    return {"ids": np.random.default_rng(number).integers(0, IDS, (SAMPLES, 5))}


def recurrent(layer: str, *, with_fleet: bool) -> tuple[RecurrentProgram, Any]:
    paddle.seed(3)
    program = RecurrentProgram(layer)
    with paddle.static.program_guard(program.main, program.startup):
        optimizer = paddle.optimizer.SGD(0.5)
        if with_fleet:
            optimizer = fleet.distributed_optimizer(optimizer, fleet.DistributedStrategy())
        optimizer.minimize(program.loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(program.startup)
    if with_fleet:
        fleet.init_worker()
    for step in range(5):
        executor.run(program.main, feed=sequences(step), fetch_list=[])
    return program, executor


@pytest.mark.parametrize("layer", [*LAYERS])
def test_weights_that_paddle_keeps_twice_are_the_same_twice(layer: str, tmp_path: Path) -> None:
    """Plain Paddle loads both into one memory: an old copy would overwrite what was learned."""
    with paddle.static.scope_guard(paddle.static.Scope()):
        plain, executor = recurrent(layer, with_fleet=False)
        expected = {each.name: _numbers(each.name) for each in plain.main.all_parameters()}
    with paddle.static.scope_guard(paddle.static.Scope()):
        fleet.init(fleet.PaddleCloudRoleMaker())
        _, executor = recurrent(layer, with_fleet=True)
        found = {name: _numbers(name) for name in expected if name != "rows"}
        fleet.save_persistables(executor, str(tmp_path / "saved"))
        job.end()
    for name, numbers in found.items():
        np.testing.assert_allclose(numbers, expected[name], atol=1e-6, err_msg=name)
    saved = paddle.load(str(tmp_path / "saved" / "dense.pdparams"))
    assert {*saved} == {*found}
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor.run(plain.startup)
        rows = {"rows": expected["rows"]}
        paddle.static.set_program_state(plain.main, {**{name: np.array(each) for name, each in saved.items()}, **rows})
        for name, numbers in expected.items():
            np.testing.assert_allclose(_numbers(name), numbers, atol=1e-6, err_msg=name)


def _numbers(name: str) -> Any:
    return np.array(paddle.static.global_scope().find_var(name).get_tensor())
