"""The base of metrics that models in the form of PaddleRec 1.8.5 have: variables of a program that add something up. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.fluid.running.scope import global_scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class ProgramMetric:
    """A metric says which variables its state is, and what comes of a state."""

    _global_metric_state_vars: Mapping[str, tuple[str, str]]
    """By names of its own: the names of variables that are added up over batches and trainers, and their types."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """Records what adds the state up."""

    def get_result(self) -> dict[str, Any]:
        """Variables that are told, by names."""
        raise NotImplementedError(f"{type(self).__name__} has no get_result")

    def values_of(self, states: Mapping[str, NDArray[Any]]) -> dict[str, float] | None:  # noqa: ARG002 - of subclasses
        """The numbers that a state stands for, by the names of `get_result`; None: this metric does not say it."""
        return None

    def clear(self, scope: Any = None) -> None:
        """Begin from zero."""
        scope = scope or global_scope()
        for name, dtype in self._global_metric_state_vars.values():
            found = scope.find_var(name)
            if found is not None:
                found.get_tensor().set(np.zeros(np.asarray(found.get_tensor()).shape, dtype))

    def calc_global_metrics(self, fleet: Any, scope: Any = None) -> Any:
        """What the states in a scope stand for, over all trainers that fleet knows."""
        scope = scope or global_scope()
        states = {}
        for key, (name, dtype) in self._global_metric_state_vars.items():
            own = np.asarray(scope.find_var(name).get_tensor()).astype(dtype)
            states[key] = own if fleet is None else np.asarray(fleet.util.all_reduce(own))
        return self._calculate(states)

    def _calculate(self, global_metrics: Mapping[str, NDArray[Any]]) -> Any:
        """What a state stands for, for people."""
        return self.values_of(global_metrics)
