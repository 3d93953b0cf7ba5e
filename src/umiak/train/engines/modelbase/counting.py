"""What a program of PaddleRec 1.8.5 tells about each batch, made numbers of an epoch and of all trainers. An adapter, for programs of `paddle.fluid`.

    counting = ProgramCounting(program, scope)
    metrics = counting.metric_set()
    counting.count(metrics, fetched, samples=512)           after each batch

An area under the curve comes of its histograms, a metric of `paddlerec.core.metrics` of its state: what these have grown by is added up over trainers. Other
variables are means over batches, by samples. What depends on a state of the program that nobody can add up is shown as the first trainer's last batch has it, as in PaddleRec.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.fluid.record.program import FORWARD, Parameter, Ref
from umiak.fluid.record.reaching import ancestors
from umiak.train.engines.modelbase.metrics import area_under
from umiak.train.metrics.objects import LOSS, ObjectMetricSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from umiak.fluid.running.scope import VariableScope
    from umiak.train.engines.modelbase.programs import ModelProgram

AUC = ("auc", "auc_of_last")
AUC_STATES = ("positive", "negative")
_HISTOGRAMS = {"positive": "_stat_pos", "negative": "_stat_neg"}
"""As `paddle.metric.Auc` calls them: by these classes are told apart."""


class StateMetric:
    """What the variables of a state have grown by. Each is an attribute, so that it can be added up."""

    def __init__(self, states: Mapping[str, Any], answer: Callable[[Any], float]) -> None:
        for name, array in states.items():
            setattr(self, name, np.zeros_like(array))
        self._answer = answer

    def update(self) -> None:
        """The trainer does it."""

    def accumulate(self) -> float:
        """The number."""
        return self._answer(self)


class BatchMean:
    """The mean over batches, by samples."""

    def __init__(self) -> None:
        self.total = 0.0
        self.weight = 0.0

    def update(self) -> None:
        """The trainer does it."""

    def accumulate(self) -> float:
        return self.total / self.weight if self.weight else math.nan


class ProgramCounting:
    """The metrics of one program."""

    def __init__(
        self, program: ModelProgram, scope: VariableScope, running: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._scope = scope
        self._running = running
        self._program = program
        self.states = states_of(program)
        """The names of variables that metrics add up."""
        self._made: list[tuple[str, Callable[[], object], dict[str, str]]] = []
        """Names, objects, and for each attribute the variable that it follows."""
        self._means: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._plan()
        self.fetched = (*self._means.values(), *self._last.values())
        """The names of variables that each batch is asked for. What is added up is not among them."""
        self._before: dict[str, Any] = {}

    def metric_set(self) -> ObjectMetricSet:
        """An empty one."""
        objects = [make() for _, make, _ in self._made] + [BatchMean() for _ in self._means]
        names = [name for name, _, _ in self._made] + [*self._means]
        self._before = {name: self._value(name) for _, _, followed in self._made for name in followed.values()}
        return ObjectMetricSet(names, objects, guard=self._running)

    def count(self, metrics: ObjectMetricSet, fetched: Mapping[str, Any], *, samples: int, loss: float | None) -> None:
        """A batch was run, and what was fetched came of it."""
        now = {name: self._value(name) for name in self._before}
        for made, (_, _, followed) in zip(metrics.objects, self._made, strict=False):
            for attribute, name in followed.items():
                setattr(made, attribute, getattr(made, attribute) + (now[name] - self._before[name]))
        self._before = now
        for made, variable in zip(metrics.objects[len(self._made) :], self._means.values(), strict=True):
            assert isinstance(made, BatchMean)
            made.total += _number(fetched[variable]) * samples
            made.weight += samples
        told = {name: _number(fetched[variable]) for name, variable in self._last.items()}
        metrics.count(samples=samples, loss=loss, told=told)

    # ---- what each variable is

    def _plan(self) -> None:
        covered: set[str] = set()
        for metric in self._program.metrics:
            states = dict(metric._global_metric_state_vars)  # noqa: SLF001 - as PaddleRec names it
            arrays = {key: self._value(name) for key, (name, _) in states.items()}
            numbers = metric.values_of({key: np.zeros_like(array) for key, array in arrays.items()})
            for name in numbers or ():
                self._follow_metric(name, metric, {key: each for key, (each, _) in states.items()}, arrays)
                covered.add(name)
        block = self._program.main.global_block()
        producers = {name: each for each in block.ops for name in each.outputs}
        written = {name for each in block.ops if each.role == FORWARD for name in each.outputs}
        state = {name for name in written if _is_state(block.vars.get(name))}
        for name, variable in self._program.told.items():
            if name in covered:
                continue
            made_by = producers.get(variable.name)
            if made_by is not None and made_by.type == "auc" and {*_auc_states(made_by).values()} <= self.states:
                self._follow_auc(name, made_by)
            elif (
                variable.name in state
                or (made_by is not None and made_by.type in AUC)
                or (ancestors(block, variable.name) & state)
            ):
                self._last[_spoken(name)] = variable.name
            elif variable is not self._program.cost or name != LOSS:
                self._means[_spoken(name)] = variable.name

    def _follow_auc(self, name: str, made_by: Any) -> None:
        followed = {_HISTOGRAMS[key]: each for key, each in _auc_states(made_by).items()}
        arrays = {attribute: self._value(each) for attribute, each in followed.items()}
        curve = str(made_by.arguments.get("curve", "ROC"))

        def area(item: Any) -> float:
            return area_under(item._stat_pos, item._stat_neg)  # noqa: SLF001 - our own

        if curve != "ROC":
            self._last[_spoken(name)] = self._program.told[name].name
            return
        self._made.append((_spoken(name), lambda: StateMetric(arrays, area), followed))

    def _follow_metric(self, name: str, metric: Any, variables: dict[str, str], arrays: dict[str, Any]) -> None:
        attributes = {key: f"_{key}" for key in variables}

        def number(item: Any) -> float:
            found = metric.values_of({key: getattr(item, attribute) for key, attribute in attributes.items()})
            return float(found[name])

        new = {attributes[key]: array for key, array in arrays.items()}
        followed = {attributes[key]: each for key, each in variables.items()}
        self._made.append((_spoken(name), lambda: StateMetric(new, number), followed))

    def _value(self, name: str) -> Any:
        return self._scope.tensors[name].numpy()


def states_of(program: ModelProgram) -> set[str]:
    """The variables in which a program's metrics add up what they have seen."""
    found = {name for metric in program.metrics for name, _ in metric._global_metric_state_vars.values()}  # noqa: SLF001
    block = program.main.global_block()
    for operation in block.ops:
        if operation.type in AUC:
            found |= {name for name in _auc_states(operation).values() if _is_state(block.vars.get(name))}
    return found


def _auc_states(operation: Any) -> dict[str, str]:
    given = {key: operation.arguments.get(key) for key in AUC_STATES}
    return {key: each.name for key, each in given.items() if isinstance(each, Ref)}


def _is_state(variable: Any) -> bool:
    """Whether it stays from one batch to the next, and is not learned."""
    return variable is not None and variable.persistable and not isinstance(variable, Parameter)


def _number(value: Any) -> float:
    """Of several numbers their mean."""
    array = np.asarray(value[0] if isinstance(value, list) and value else value, np.float64)
    return float(array.mean()) if array.size else math.nan


def _spoken(name: str) -> str:
    """A name without a dot, which stands between a metric and its parts."""
    spoken = name.replace(".", "_")
    return f"{spoken}_" if spoken == LOSS else spoken
