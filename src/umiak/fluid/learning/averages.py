"""Averages of parameters over a training: `optimizer.ModelAverage` and `ExponentialMovingAverage`. A program.

`apply` puts the averages in place of the parameters in the current scope, and puts the parameters back behind its block.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import paddle

from umiak.fluid.learning.rates import autoincreased_step_counter
from umiak.fluid.record import naming
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import OPTIMIZE
from umiak.fluid.record.recording import append_plain, create_state
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.scope import global_scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import Feed, Input, Output, Penalty

EMA_STEPS = "@EMA_STEP_COUNTER@"


class _Averages:
    """What both share: a value for each parameter that takes its place for a while."""

    def __init__(self) -> None:
        parameters = default_main_program().global_block().all_parameters()
        self._parameters = [each for each in parameters if each.do_model_average is not False]
        self._before: Feed = {}

    def _average(self, name: str, tensors: Feed) -> Any:
        raise NotImplementedError

    @contextmanager
    def apply(self, executor: object, need_restore: bool = True) -> Iterator[None]:
        """Averages in place of the parameters, in the block or until `restore`."""
        tensors = global_scope().tensors
        for each in self._parameters:
            if each.name not in tensors:
                what = f"{type(self).__name__}.apply: {each.name} has no value in this scope"
                raise bad("UM-FLUID-005", what, "run the startup program first", where=user_line())
        with paddle.no_grad():
            for each in self._parameters:
                self._before[each.name] = tensors[each.name].clone()
                tensors[each.name].set_value(self._average(each.name, tensors))
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: object) -> None:
        """The parameters as they were."""
        tensors = global_scope().tensors
        with paddle.no_grad():
            for name, value in self._before.items():
                tensors[name].set_value(value)
        self._before.clear()


class ModelAverage(_Averages):
    """The mean of a parameter over its last values: over a part of all runs, no fewer and no more than two bounds."""

    def __init__(self, average_window_rate: float, min_average_window: int = 10000, max_average_window: int = 10000, regularization: Penalty = None, name: str | None = None) -> None:  # fmt: skip
        super().__init__()
        if min_average_window > max_average_window:
            what = f"ModelAverage: min_average_window={min_average_window} is above max_average_window={max_average_window}"
            raise bad("UM-FLUID-001", what, where=user_line())
        self._states: dict[str, dict[str, list[str]]] = {}
        prefix = f"{name}_" if name else ""
        for each in self._parameters:
            sums = [
                create_state(naming.generate(f"{each.name}_{prefix}sum_{number}"), each.shape, each.dtype, 0.0)
                for number in (1, 2, 3)
            ]
            counts = [
                create_state(naming.generate(f"{each.name}_{prefix}{count}"), [1], "int64", 0)
                for count in ("num_accumulates", "old_num_accumulates", "num_updates")
            ]
            arguments = {"parameter": each, "sums": sums, "counts": counts, "rate": float(average_window_rate)}
            bounds = {"shortest": min_average_window, "longest": max_average_window}
            append_plain("average_accumulates", {**arguments, **bounds}, [*sums, *counts], role=OPTIMIZE)
            self._states[each.name] = {"sums": [one.name for one in sums], "counts": [one.name for one in counts[:2]]}

    def _average(self, name: str, tensors: Feed) -> Any:
        sums, counts = ([tensors[each] for each in self._states[name][key]] for key in ("sums", "counts"))
        count = int(sum(each.item() for each in counts))
        return paddle.add_n(sums) / count if count else tensors[name]


class ExponentialMovingAverage(_Averages):
    """A mean in which old values count less and less; `update` records it. It is corrected for its beginning at zero when it is applied."""

    def __init__(self, decay: float = 0.999, thres_steps: Input = None, name: str | None = None) -> None:
        super().__init__()
        self._decay, self._steps = float(decay), thres_steps
        self._rate = create_state("scheduled_ema_decay_rate", [1], "float32", self._decay)
        self._means = {
            each.name: create_state(naming.generate(f"{name or ''}{each.name}_ema"), each.shape, each.dtype, 0.0)
            for each in self._parameters
        }

    def update(self) -> None:
        """Record that the means follow the parameters, with every run of the program."""
        autoincreased_step_counter(EMA_STEPS)
        append_plain("ema_decay", {"decay": self._decay, "steps": self._steps}, [self._rate], role=OPTIMIZE)
        for each in self._parameters:
            mean: Output = self._means[each.name]
            append_plain("ema", {"mean": mean, "parameter": each, "rate": self._rate}, [mean], role=OPTIMIZE)

    def _average(self, name: str, tensors: Feed) -> Any:
        runs = tensors.get(EMA_STEPS)
        mean = tensors[self._means[name].name]
        count = 0 if runs is None else int(runs.item())
        return mean / (1.0 - float(tensors["scheduled_ema_decay_rate"].item()) ** count) if count else mean
