"""Carries a Paddle model over to tables, and the optimizer that then learns. An adapter, for Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.paddle import Optimizer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import paddle
    from numpy.typing import NDArray

    from umiak.ps.paddle_models.plans import ModelPlan
    from umiak.ps.sessions import Session


class CarriedOptimizer(Optimizer):
    """As `umiak.ps.paddle.Optimizer`: `step`, `clear_grad`, `minimize`, `get_lr`, `set_lr`, `refresh`, `tables`, `upload`.

    The learning rate is that of the model's own optimizer: its schedule, its `set_lr`.
    """

    def expect(self, ids: Iterable[NDArray[Any]]) -> None:
        """A hint: the arrays of whole numbers in the batch that comes. Rows of those that a table was asked for before in the same
        place are fetched together, with the first look into the table. A wrong hint costs time and nothing else.
        """
        raise NotImplementedError

    def weights(self) -> dict[str, NDArray[Any]]:
        """All rows of each table, by the name that its weight has in `state_dict`."""
        raise NotImplementedError

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """The opposite: every trainer calls it, and the first trainer's are everybody's."""
        raise NotImplementedError


def carry_over(
    model: paddle.nn.Layer, plan: ModelPlan, *, session: Session, prefix: str = "", seed: int = 0
) -> CarriedOptimizer:
    """Let the model read rows from tables and learn through the session. Every trainer calls it.

    Names of tables begin with ``prefix``. ``seed`` is that of new rows where they begin by a rule. `BadRequest` has all
    problems of the plan.
    """
    raise NotImplementedError
