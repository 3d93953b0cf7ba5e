"""Chooses the framework of a run, and imports it: the only way from `umiak.train.run` to a framework. An adapter.

There is one, PaddlePaddle, with three forms of models: our own, class Model, that of PaddleRec 2, class DygraphModel, and that of PaddleRec 1.8.5, class Model of
`paddlerec.core.model.ModelBase`. A model's file says which it is.
Importing a framework takes seconds, so it is asked for when a process is about to train.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.problem import Problem, UmiakError
from umiak.ps.paddle_import import without_remarks
from umiak.train.engines import model_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.core.json_types import JsonMapping
    from umiak.ps.clients.collective import Group
    from umiak.train.config.values import Device
    from umiak.train.engines.dygraph import DygraphFramework
    from umiak.train.engines.engine import Engine, EngineOptions, EngineRequest, Framework, ModelFindings
    from umiak.train.engines.fluid import FluidFramework
    from umiak.train.engines.paddle import PaddleFramework


def framework() -> Framework:
    """The framework that models are written with. UmiakError if it can't be imported."""
    with without_remarks():
        try:
            import paddle  # noqa: F401
        except ImportError as error:
            raise UmiakError.refused(
                "UM-TRAIN-006",
                "PaddlePaddle can't be imported",
                why=str(error),
                hint="`python -c 'import paddle'` says more; reinstall it, in the build for this machine",
            ) from error
        from umiak.train.engines.dygraph import DygraphFramework
        from umiak.train.engines.paddle import PaddleFramework

    return _AllForms(PaddleFramework(), DygraphFramework())


class _AllForms:
    """A framework for models of each form."""

    def __init__(self, own: PaddleFramework, dygraph: DygraphFramework) -> None:
        self._own = own
        self._dygraph = dygraph

    def engine(self, wanted: EngineRequest) -> Engine:
        if is_model_base(wanted.model):
            return _of_fluid().engine(wanted)
        return (self._dygraph if is_dygraph(wanted.model) else self._own).engine(wanted)

    def examine(
        self, model: str, options: EngineOptions, hyper_parameters: JsonMapping, where: str | None
    ) -> ModelFindings:
        if is_model_base(model):
            return _of_fluid().examine(model, options, where)
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


def is_model_base(model: str) -> bool:
    """Whether a model's file is in the form of PaddleRec 1.8.5."""
    return model_text.is_model_base(_seen(model))


def _of_fluid() -> FluidFramework:
    """Not before it is needed: it imports all operations of `paddle.fluid`."""
    from umiak.train.engines.fluid import FluidFramework

    return FluidFramework()


def text_problems(model: str) -> tuple[Problem, ...]:
    """What is wrong with a model's file before it is imported: it is no Python, or written for `paddle.fluid`."""
    return _seen(model).problems


def refuse_old(models: Iterable[str]) -> None:
    """UmiakError if one of these files is written for `paddle.fluid`: whatever else is wrong then, the model can't run."""
    found = [problem for model in models for problem in _seen(model).problems if problem.code == model_text.OLD]
    UmiakError.raise_any(found)


def _seen(model: str) -> model_text.Text:
    try:
        with open(model, "rb") as text:
            return model_text.look(text.read(), model)
    except OSError:
        return model_text.Text()  # told where it is imported
