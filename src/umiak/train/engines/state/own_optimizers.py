"""A model's own optimizers, unchanged, where the model is in this process alone: any that Paddle has. An adapter, for Paddle.

    optimizers = OwnOptimizers(model, created, job, prefix="")
    optimizers.step(); optimizers.clear_grad()

It stands where `umiak.ps.paddle_models.CarriedOptimizer` stands otherwise. All that Paddle's optimizers remember of each parameter (moments, powers, master weights), and
where their schedules stand, is kept in a table, so that checkpoints have it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import paddle

from umiak.core.problem import Problem
from umiak.train.engines.buffers import Buffers
from umiak.train.engines.state.schedules import ScheduleState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from umiak.ps.sessions import Session
    from umiak.ps.values import Opened

TABLE = "dense.optimizer"
TAKE_ROWS = ("Adagrad", "Adam", "Lamb", "Momentum", "RMSProp", "Rprop", "SGD")
"""Those of Paddle's that learn from gradients of some rows; the others fail, or read memory that is not theirs."""


class OwnOptimizers:
    """What the engine asks of an optimizer."""

    learned: tuple[paddle.Tensor, ...] = ()
    """Parameters that tables have by themselves: none."""

    def __init__(self, model: paddle.nn.Layer, optimizers: Sequence[Any], job: Session, *, prefix: str) -> None:
        self._optimizers = optimizers
        schedules = ScheduleState(optimizers)
        self._kept = Buffers(
            paddle.nn.Layer(),
            job,
            table=f"{prefix}{TABLE}",
            learned=(),
            more={**dict(_remembered(model, optimizers)), **schedules.tensors()},
        )
        self._kept.on_read, self._kept.on_set = schedules.store, schedules.load

    def step(self, *, share: float | None = None) -> None:
        """As Paddle does it. ``share`` 0: there was no batch."""
        if share != 0:
            for each in self._optimizers:
                each.step()

    def clear_grad(self) -> None:
        for each in self._optimizers:
            each.clear_grad()

    def tables(self) -> dict[str, Opened]:
        return self._kept.tables()

    def store(self) -> None:
        """What they remember into the table, before it is saved."""
        self._kept.put()

    def fetch(self) -> None:
        """The opposite, after a checkpoint was loaded."""
        self._kept.fetch()

    def expect(self, ids: Iterable[Any], *, is_one_pass: bool = False) -> None:
        """Nothing is fetched."""

    def refresh(self, *, everything: bool = False) -> None:
        """Nobody else changes anything."""

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """No weight is in a table of its own."""

    def upload(self) -> None:
        """The model has them."""


def problems(model: paddle.nn.Layer, optimizers: Sequence[Any]) -> list[Problem]:
    """Why Paddle's own optimizers can't learn in a loop as PaddleRec's."""
    found = []
    sparse = [
        name
        for name, each in model.named_sublayers()
        if isinstance(each, paddle.nn.Embedding) and getattr(each, "_sparse", False)
    ]
    for each in optimizers:
        kind = type(each).__name__
        if not type(each).__module__.startswith("paddle.optimizer"):
            what = f"optimizer: {kind} is none of paddle.optimizer: what it remembers would not be in checkpoints"
            found.append(Problem(code="UM-TRAIN-530", what=what, hint=f"one of {', '.join(names())} works"))
        elif len(inspect.signature(each.step).parameters):
            what = f"optimizer: {kind}.step needs a closure, which the loop of PaddleRec's trainer does not have"
            found.append(Problem(code="UM-TRAIN-530", what=what, hint=f"one of {', '.join(names())} works"))
        elif sparse and kind not in TAKE_ROWS:
            what = f"optimizer: Paddle's {kind} does not learn from embeddings with sparse=True: {', '.join(sparse)}"
            hint = f"make them with sparse=False, or use one of {', '.join(TAKE_ROWS)}"
            found.append(Problem(code="UM-TRAIN-531", what=what, hint=hint))
    return found


def names() -> list[str]:
    """The optimizers of this Paddle that learn step by step."""
    kinds = [getattr(paddle.optimizer, name) for name in paddle.optimizer.__all__]
    return [
        each.__name__
        for each in kinds
        if isinstance(each, type) and each is not paddle.optimizer.Optimizer and not _needs_closure(each)
    ]


def _needs_closure(kind: type[Any]) -> bool:
    return len(inspect.signature(kind.step).parameters) > 1


def _remembered(model: paddle.nn.Layer, optimizers: Sequence[Any]) -> Iterator[tuple[str, paddle.Tensor]]:
    """The tensors, with names that are the same in every process. Paddle makes them in the first step, and here before it."""
    names_of = {each.name: name for name, each in model.named_parameters()}
    block = paddle.base.framework.default_main_program().global_block()
    for number, optimizer in enumerate(optimizers):
        groups = optimizer._param_groups  # noqa: SLF001
        for parameters in groups if groups and isinstance(groups[0], dict) else [groups]:
            optimizer._create_accumulators(block, parameters)  # noqa: SLF001
        kept = {**optimizer._accumulators, "master": optimizer._master_weights}  # noqa: SLF001
        for kind, tensors in kept.items():
            for parameter, tensor in tensors.items():
                yield f"optimizer.{number}.{kind}.{names_of.get(parameter, parameter)}", tensor
