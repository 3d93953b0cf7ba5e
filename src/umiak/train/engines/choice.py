"""Chooses the framework of a run, and imports it: the only way from `umiak.train.run` to a framework. An adapter.

There is one, PaddlePaddle, with two forms of models: our own, class Model, and that of PaddleRec 2, class DygraphModel. A model's file says which it is.
Importing a framework takes seconds, so it is asked for when a process is about to train.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.train.engines import model_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from umiak.ps.clients.collective import Group
    from umiak.ps.sessions import Session
    from umiak.train.config.values import Device, Slots
    from umiak.train.engines.dygraph import DygraphFramework
    from umiak.train.engines.engine import Engine, EngineOptions, Framework, ModelFindings
    from umiak.train.engines.paddle import PaddleFramework
    from umiak.train.reading.batches import Batch


def framework() -> Framework:
    """The framework that models are written with. UmiakError if it can't be imported."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No ccache found")  # for compiling operators, which nobody does here
        try:
            import paddle  # noqa: F401
        except ImportError as error:
            problem = Problem(
                code="UM-TRAIN-006",
                what="PaddlePaddle can't be imported",
                why=str(error),
                hint="`python -c 'import paddle'` says more; reinstall it, in the build for this machine",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED) from error
        from umiak.train.engines.dygraph import DygraphFramework
        from umiak.train.engines.paddle import PaddleFramework

    return _BothForms(PaddleFramework(), DygraphFramework())


class _BothForms:
    """A framework for models of either form."""

    def __init__(self, own: PaddleFramework, dygraph: DygraphFramework) -> None:
        self._own = own
        self._dygraph = dygraph

    def engine(
        self,
        model: str,
        slots: Slots,
        *,
        job: Session,
        options: EngineOptions,
        hyper_parameters: Mapping[str, Any],
        where: str | None = None,
        sample: Callable[[], Batch | None] | None = None,
    ) -> Engine:
        if is_dygraph(model):
            return self._dygraph.engine(model, slots, job=job, options=options, where=where, sample=sample)
        return self._own.engine(
            model, slots, job=job, options=options, hyper_parameters=hyper_parameters, where=where, sample=sample
        )

    def examine(
        self, model: str, options: EngineOptions, hyper_parameters: Mapping[str, Any], where: str | None
    ) -> ModelFindings:
        if is_dygraph(model):
            return self._dygraph.examine(model, options, where)
        return self._own.examine(model, options, hyper_parameters, where)

    def can_use(self, device: Device) -> bool:
        return self._own.can_use(device)

    def group(self, *, on_cpu: bool) -> Group:
        return self._own.group(on_cpu=on_cpu)


def is_dygraph(model: str) -> bool:
    """Whether a model's file is in the form of PaddleRec 2, by the classes that it has."""
    return model_text.is_dygraph(_seen(model))


def text_problems(model: str) -> tuple[Problem, ...]:
    """What is wrong with a model's file before it is imported: it is no Python, or written for `paddle.fluid`."""
    return _seen(model).problems


def refuse_old(models: Iterable[str]) -> None:
    """UmiakError if one of these files is written for `paddle.fluid`: whatever else is wrong then, the model can't run."""
    found = [problem for model in models for problem in _seen(model).problems if problem.code == model_text.OLD]
    if found:
        raise UmiakError(*found)


def _seen(model: str) -> model_text.Text:
    try:
        with open(model, "rb") as text:
            return model_text.look(text.read(), model)
    except OSError:
        return model_text.Text()  # told where it is imported
