"""A model's dense parameters as one dense table, and when they and the embeddings learn. An adapter, without a framework.

    learner = Learner(job, arrays, first_values, rule)
    learner.step(gradients, share)        push everything, end the step, fetch the parameters into `learner.values`

`umiak.ps.paddle` and `umiak.ps.torch` give it a face that fits their framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import fields, replace
from umiak.ps import specs
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.ps.client import Floats, Gradients
    from umiak.ps.job import Job
    from umiak.ps.lookup import Table
    from umiak.ps.specs import Array, Clip, Optimizer

TABLE = "dense"
_LINE = 16
"""Numbers in a line of the processor's cache."""


class Learner:
    """The optimizer of a model: its parameters in one table of ``arrays``, and the ``tables`` of its embeddings."""

    def __init__(
        self,
        job: Job,
        arrays: Iterable[Array],
        first_values: Floats,
        *,
        rule: Optimizer,
        clip: Clip | None,
        table: str = TABLE,
        tables: Iterable[Table] = (),
    ) -> None:
        self._job = job
        self._strategy = job.strategy
        self.rule = rule
        self.tables = tuple(tables)
        for each in self.tables:
            each.follow(rule)
        self.arrays = tuple(arrays)
        self.values = first_values
        self.number: int | None = None
        self._told: float | None = 1.0
        self.table = table
        self.spec = specs.DenseTable(arrays=self.arrays, optimizer=rule, clip=clip or specs.Clip())
        if self.arrays:
            self.number = self._strategy.open_dense(table, self.spec, first_values)
            self._strategy.pull_dense(self.number, self.values)

    @property
    def learning_rate(self) -> float:
        return float(getattr(self.rule, "learning_rate", 1.0))

    def step(self, gradients: Gradients, *, share: float | None, factor: float) -> None:
        """One step: ``factor`` is what every learning rate is multiplied by from now on."""
        if factor != self._told:
            self._tell(factor)
        self._job.book.push(share)
        if self.number is None:
            self._strategy.end_step()
        else:
            self._strategy.learn_dense(self.number, gradients, self.values, share=share)

    def forget_rates(self) -> None:
        """The tables may have been loaded, with learning rates of their own: the next step tells them what holds."""
        self._told = None

    def fetch(self) -> None:
        """The newest parameters, as the strategy sees fit."""
        if self.number is not None:
            self._strategy.pull_dense(self.number, self.values)

    def _tell(self, factor: float) -> None:
        self._told = factor
        if self.number is not None:
            self._strategy.set_learning_rate(self.number, factor * self.learning_rate)
        for table in self.tables:
            own = getattr(table.spec.optimizer, "learning_rate", None)
            if own is not None:
                self._strategy.set_learning_rate(table.number, factor * own)


def chosen_rule(rule: Optimizer | str, learning_rate: float | None) -> Optimizer:
    """A rule by name or as it is, with a learning rate of its own if one was said."""
    if isinstance(rule, str):
        if rule not in specs.RULES:
            raise bad("UM-PS-008", f"no such rule: {rule}", f"choose one of {', '.join(specs.RULES)}")
        rule = specs.rule(rule)
    if learning_rate is None or "learning_rate" not in fields(rule):
        return rule
    return replace(rule, learning_rate=float(learning_rate))


def room_for(arrays: Iterable[Array]) -> Floats:
    """A flat array that holds all of these, beginning where vector instructions like it."""
    size = sum(array.size for array in arrays)
    room = np.zeros(size + _LINE, np.float32)
    skip = -room.ctypes.data // room.itemsize % _LINE
    return room[skip : skip + size]
