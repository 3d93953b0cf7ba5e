"""Steps of plain Paddle models on tables that a loop makes otherwise than most do: without clearing gradients, with an optimizer beside the first, with weights of two uses.

The law of generated models (`tests/laws/test_ps_parameters_law.py`) draws all of these; here each is told by itself.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from tests.support.plain_models import batches, lazy, loss_of, made, session
from umiak.ps.errors import BadRequest

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def paddle() -> Any:
    import paddle

    paddle.set_device("cpu")
    return paddle


def carried(paddle: Any, model: Any, optimizer: Any, **choice: Any) -> Any:
    from umiak.ps import paddle_models as models

    plan = models.plan_of(model, optimizer, is_shared=True, choice=models.TableChoice(**choice))
    return models.carry_over(model, plan, session=session())


def state_of(model: Any) -> dict[str, np.ndarray]:
    return {name: each.numpy().copy() for name, each in model.state_dict().items()}


@pytest.mark.parametrize("clip", ["", "norm", "global"])
@pytest.mark.parametrize("sparse", [True, False])
def test_gradients_that_nobody_clears_are_added_up(paddle: Any, clip: str, sparse: bool) -> None:
    """As in Paddle: also in a step without a backward pass, and what the norm of all has scaled down stays so where gradients are not sparse."""
    limits = {"": None, "norm": paddle.nn.ClipGradByNorm(0.1), "global": paddle.nn.ClipGradByGlobalNorm(0.1)}
    states = []
    for is_carried in (False, True):
        model = made(paddle, sparse=sparse)
        own = paddle.optimizer.SGD(0.1, parameters=model.parameters(), grad_clip=limits[clip])
        optimizer = carried(paddle, model, own, tables=("embedding",)) if is_carried else own
        for number, (slots, labels) in enumerate(batches(paddle)):
            if number != 2:
                loss_of(paddle, model, slots, labels).backward()
            optimizer.step()
            if number == 3:
                optimizer.clear_grad()
        states.append(state_of(model))
    for name, values in states[0].items():
        np.testing.assert_allclose(states[1][name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Lamb"])
def test_an_optimizer_beside_the_first_does_not_pass_by_rows_in_silence(paddle: Any, kind: str) -> None:
    model = made(paddle)
    optimizer = carried(paddle, model, lazy(paddle)(model))
    beside = getattr(paddle.optimizer, kind)(0.1, parameters=model.parameters())
    slots, labels = next(batches(paddle))
    beside.step()  # there is no gradient yet
    loss_of(paddle, model, slots, labels).backward()
    before = state_of(model)
    with pytest.raises(BadRequest, match=r"embedding\.weight: an optimizer of the script's own") as refused:
        beside.step()
    (problem,) = refused.value.problems
    assert problem.code == "UM-PS-186"
    assert problem.hint
    assert all((each == before[name]).all() for name, each in state_of(model).items())
    # Of other parameters it may have steps, and of frozen ones it has none.
    paddle.optimizer.SGD(0.1, parameters=model.out.parameters()).step()
    model.embedding.weight.stop_gradient = True
    beside.step()
    model.embedding.weight.stop_gradient = False
    optimizer.step()
    optimizer.clear_grad()
    beside.step()


def test_a_step_with_only_some_rows_of_a_weight_of_two_uses_is_refused_where_adam_learns(paddle: Any) -> None:
    """Paddle has another computation for it, which no table has."""
    model = made(paddle)
    optimizer = carried(paddle, model, lazy(paddle)(model), elsewhere=("embedding",))
    for number, (slots, labels) in enumerate(batches(paddle)):
        loss = loss_of(paddle, model, slots, labels)
        (loss if number == 2 else loss + model.embedding.weight[:5].sum()).backward()
        if number == 2:
            break
        optimizer.step()
        optimizer.clear_grad()
    with pytest.raises(BadRequest, match=r"embedding\.weight: this step has only used it") as refused:
        optimizer.step()
    assert refused.value.problems[0].code == "UM-PS-185"
    assert refused.value.problems[0].hint
