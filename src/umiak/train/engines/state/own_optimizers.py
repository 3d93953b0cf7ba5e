"""A model's own optimizers, unchanged, where the model is in this process alone: any that Paddle has. An adapter, for Paddle.

    optimizers = OwnOptimizers(model, created, job, prefix="")
    optimizers.step(); optimizers.clear_grad()

It stands where `umiak.ps.paddle_models.CarriedOptimizer` stands otherwise. All that Paddle's optimizers remember of each parameter (moments, powers, master weights), and
where their schedules stand, is kept in a table, so that checkpoints have it.
"""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.problem import Problem
from umiak.ps import paddle_internals
from umiak.train.engines.buffers import Buffers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.ps.paddle_types import Optimizer
    from umiak.ps.sessions import Session
    from umiak.ps.values import Opened

TABLE = "dense.optimizer"
TAKE_ROWS = ("Adagrad", "Adam", "Lamb", "Momentum", "RMSProp", "Rprop", "SGD")
"""Those of Paddle's that learn from gradients of some rows; the others fail, or read memory that is not theirs."""


class OwnOptimizers:
    """What the engine asks of an optimizer."""

    learned: tuple[paddle.Tensor, ...] = ()
    """Parameters that tables have by themselves: none."""

    def __init__(self, model: paddle.nn.Layer, optimizers: Sequence[Optimizer], job: Session, *, prefix: str) -> None:
        self._optimizers = optimizers
        schedules = ScheduleState(optimizers)
        cleared = ClearedGradients(model, optimizers)
        self._kept = Buffers(
            paddle.nn.Layer(),
            job,
            table=f"{prefix}{TABLE}",
            learned=(),
            more={**dict(_remembered(model, optimizers)), **schedules.tensors(), **cleared.tensors()},
        )

        def store() -> None:
            schedules.store()
            cleared.store()

        def load() -> None:
            schedules.load()
            cleared.load()

        self._kept.on_read, self._kept.on_set = store, load

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

    def expect(self, ids: Iterable[object], *, is_one_pass: bool = False) -> None:
        """Nothing is fetched."""

    def expect_behind(self, ids: Sequence[object] | None) -> None:
        """Nothing is fetched."""

    def refresh(self, *, everything: bool = False) -> None:
        """Nobody else changes anything."""

    def set_weights(self, weights: Mapping[str, AnyArray]) -> None:
        """No weight is in a table of its own."""

    def upload(self) -> None:
        """The model has them."""


def problems(model: paddle.nn.Layer, optimizers: Sequence[Optimizer]) -> list[Problem]:
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


def _remembered(model: paddle.nn.Layer, optimizers: Sequence[Optimizer]) -> Iterator[tuple[str, paddle.Tensor]]:
    """The tensors, with names that are the same in every process. Paddle makes them in the first step, and here before it."""
    names_of = {each.name: name for name, each in model.named_parameters()}
    block = paddle.base.framework.default_main_program().global_block()
    for number, optimizer in enumerate(optimizers):
        groups = paddle_internals.parameter_groups(optimizer)
        for parameters in groups if groups and isinstance(groups[0], dict) else [groups]:
            paddle_internals.create_accumulators(optimizer, block, parameters)
        for kind, tensors in paddle_internals.remembered(optimizer).items():
            for parameter, tensor in tensors.items():
                yield f"optimizer.{number}.{kind}.{names_of.get(parameter, parameter)}", tensor


# ---- gradients

CLEARED = "umiak.cleared"


class ClearedGradients:
    """Where zeros stand for a gradient behind `clear_grad`. A parameter that the next backward pass does not reach learns from them, and not where there is nothing."""

    def __init__(self, model: paddle.nn.Layer, optimizers: Sequence[Optimizer]) -> None:
        self._parameters = model.parameters() if optimizers else []
        self._tensor = paddle.zeros([len(self._parameters)], "uint8")

    def tensors(self) -> dict[str, paddle.Tensor]:
        """None where nothing learns."""
        return {CLEARED: self._tensor} if self._parameters else {}

    def store(self) -> None:
        """From the model into the tensor."""
        gradients = [each.grad for each in self._parameters]
        stands = [each is not None and not each.is_selected_rows() for each in gradients]
        self._tensor.set_value(np.array(stands, np.uint8))

    def load(self) -> None:
        """From the tensor into the model."""
        for parameter, stands in zip(self._parameters, self._tensor.tolist(), strict=True):
            parameter.grad = paddle.zeros_like(parameter) if stands else None


# ---- schedules

ROOM = 4096
"""Bytes for all of them."""
NAME = "umiak.schedules"


class ScheduleState:
    """The schedules of some optimizers."""

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        rates = [getattr(each, "_learning_rate", None) for each in optimizers]
        self._schedules = [each for each in rates if isinstance(each, paddle.optimizer.lr.LRScheduler)]
        self._tensor = paddle.zeros([ROOM], "uint8") if self._schedules else None

    def tensors(self) -> dict[str, paddle.Tensor]:
        """None where rates are constant."""
        return {} if self._tensor is None else {NAME: self._tensor}

    def state(self) -> list[JsonObject]:
        """Numbers, by their names, of each schedule."""
        return [_plain(each.state_dict()) for each in self._schedules]

    def store(self) -> None:
        """From the schedules into the tensor. What does not fit is not kept."""
        text = json.dumps(self.state()).encode()
        if self._tensor is not None and len(text) <= ROOM:
            self._tensor.set_value(np.frombuffer(text.ljust(ROOM, b"\0"), np.uint8))

    def load(self) -> None:
        """From the tensor into the schedules."""
        if self._tensor is None:
            return
        text = self._tensor.numpy().tobytes().rstrip(b"\0")
        for schedule, state in zip(self._schedules, json.loads(text) if text else [], strict=False):
            schedule.set_state_dict(state)


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _plain(each) for name, each in item.items() if not callable(each)}
    if isinstance(item, (list, tuple)):
        return [_plain(each) for each in item]
    return item if isinstance(item, (int, float, str, bool, type(None))) else float(item)
