"""What would save or load only a part of what servers hold is refused: `UM-PS-181` to `UM-PS-184`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.support.plain_models import session
from umiak.ps.errors import BadRequest

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


def carried(rows: int) -> tuple[Any, Any, Any]:
    """A model on tables, its own optimizer and the one that learns."""
    import paddle

    from umiak.ps import paddle_models

    paddle.seed(3)
    model = paddle.nn.Sequential(paddle.nn.Embedding(rows, 3, sparse=True), paddle.nn.Linear(3, 1))
    own = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    plan = paddle_models.plan_of(model, own, is_shared=True)
    return model, own, paddle_models.carry_over(model, plan, session=session())


def code_of(refused: pytest.ExceptionInfo[BadRequest]) -> str:
    (problem,) = refused.value.problems
    assert problem.hint
    return problem.code


@pytest.fixture
def some_rows(tmp_path: Path) -> str:
    """A checkpoint with 10 rows of the table that a model of 20 has."""
    from umiak import ps

    carried(10)
    path = str(tmp_path / "saved")
    ps.save(path)
    return path


def test_a_checkpoint_with_some_of_the_rows_is_not_loaded_as_if_it_had_all(some_rows: str) -> None:
    from umiak import ps

    _, _, optimizer = carried(20)
    with pytest.raises(BadRequest, match=r"table 0 has 10 of the 20 rows of 0\.weight") as refused:
        ps.load(some_rows)
    assert code_of(refused) == "UM-PS-181"
    with pytest.raises(BadRequest, match=r"10 of the 20 rows"):
        optimizer.refresh(everything=True)
    _, _, optimizer = carried(10)
    ps.load(some_rows)
    optimizer.refresh(everything=True)


def test_weights_are_not_read_from_some_of_the_rows(some_rows: str) -> None:
    from umiak.train.checkpoints import weights
    from umiak.train.checkpoints.weights import StateEntry

    def read(rows: int) -> dict[str, Any]:
        return weights.read(some_rows, "", {"0.weight": StateEntry(shape=(rows, 3), same_as="0.weight")})

    assert read(10)["0.weight"].shape == (10, 3)
    with pytest.raises(BadRequest, match=r"has 10 of the 20 rows of 0\.weight") as refused:
        read(20)
    assert code_of(refused) == "UM-PS-181"


@pytest.mark.parametrize("call", ["state_dict", "set_state_dict", "set_dict"])
def test_an_optimizer_whose_memory_is_in_tables_has_no_state(call: str) -> None:
    _, own, _ = carried(20)
    with pytest.raises(BadRequest, match="SGD: what it has learned") as refused:
        getattr(own, call)({})
    assert code_of(refused) == "UM-PS-182"


def test_the_state_of_rows_of_any_number_is_refused() -> None:
    import paddle

    from umiak import ps

    session()
    model = paddle.nn.Sequential(ps.paddle.Embedding(dim=3, table="ids"), paddle.nn.Linear(3, 1))
    with pytest.raises(BadRequest, match="rows of table ids are not in the model") as refused:
        model.state_dict()
    assert code_of(refused) == "UM-PS-183"
    assert [*model.state_dict(use_hook=False)] == ["1.weight", "1.bias"]


@pytest.mark.parametrize("call", ["save", "load"])
def test_a_static_program_on_servers_is_not_saved_in_part(call: str, tmp_path: Path) -> None:
    from tests.support.static_programs import fleet_program, older_programs, paddle

    with older_programs():
        program = fleet_program(lambda: paddle.optimizer.SGD(0.1))
        with pytest.raises(BadRequest, match=f"paddle.static.{call}: ") as refused:
            getattr(paddle.static, call)(program.main, str(tmp_path / "model"))
        assert code_of(refused) == "UM-PS-184"
        # One that has nothing on servers is Paddle's own business.
        other, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(other, startup):
            paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1)
        paddle.static.Executor().run(startup)
        paddle.static.save(other, str(tmp_path / "other"))
        assert (tmp_path / "other.pdparams").exists()
