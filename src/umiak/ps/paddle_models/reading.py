"""Reads a Paddle model and its optimizers, for the plan that carries them over. An adapter, for Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.paddle_models.plans import ModelPlan, TableChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import paddle

DEFAULT = TableChoice()


def plan_of(
    model: paddle.nn.Layer,
    optimizers: Any | Sequence[Any],
    *,
    is_shared: bool,
    choice: TableChoice = DEFAULT,
) -> ModelPlan:
    """What becomes of the model and of its optimizer, or of several. ``is_shared``: with servers, or collectively.

    Nothing is changed. What can't be carried over is in `ModelPlan.problems`, all of it.
    """
    raise NotImplementedError


def used_elsewhere(model: paddle.nn.Layer, run: Callable[[], paddle.Tensor]) -> tuple[str, ...]:
    """Layers (`nn.Embedding`) whose weight a loss also depends on past their `forward`: to be given as ``TableChoice(parameters=...)``.

    ``run`` computes the loss of a batch with the unchanged model; it is called once, and the model, its gradients, buffers and
    Paddle's random state are afterwards as before.
    """
    raise NotImplementedError
