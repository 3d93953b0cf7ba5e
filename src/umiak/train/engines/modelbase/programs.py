"""The code of a model in the form of PaddleRec 1.8.5, and the programs that it records. An adapter.

    code = ModelCode("models/rank/dnn/model.py", written, where="config.yaml")
    made = code.training("dataset_train")           made.main, made.startup, made.inputs, made.cost, made.told
    made = code.evaluation("dataset_infer")

Nothing of the model is changed. What it fails with is told with its place; so is what it leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.fluid.record import naming
from umiak.fluid.record.current import program_guard
from umiak.fluid.record.program import RecordedProgram, Variable
from umiak.schema.findings import choices
from umiak.train.config.paddlerec.dotted import listed
from umiak.train.engines import own_code
from umiak.train.engines.model_text import MODEL_BASE
from umiak.train.engines.modelbase.base import variables_of
from umiak.train.engines.modelbase.metric import ProgramMetric

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import NoReturn

    from umiak.core.json_types import JsonMapping

METHODS = ("input_data", "net", "optimizer")
"""What a model is asked."""
CODE = "UM-TRAIN-593"


@value
class ModelProgram:
    """What a model has recorded."""

    main: Any
    startup: Any
    inputs: tuple[Any, ...]
    """Variables that are fed, in the order of a sample's fields."""
    cost: Any = None
    """None: it has set none."""
    told: dict[str, Any] = {}
    """Variables that are shown, by names."""
    metrics: tuple[ProgramMetric, ...] = ()
    """Those of ``told`` that are metrics."""
    optimizer: Any = None


class ModelCode:
    """A class Model."""

    def __init__(self, file: str, written: JsonMapping, where: str | None = None) -> None:
        """``written``: the whole config, which the constructor gets."""
        self.file = file
        self._written = listed(dict(written))
        self._kind = model_class(file, where)

    def running(self) -> AbstractContextManager[None]:
        """What goes wrong here is the model's."""
        return own_code.running(self.file)

    def training(self, dataset: str) -> ModelProgram:
        """The program that learns."""
        main, startup = RecordedProgram(), RecordedProgram()
        with self.running(), program_guard(main, startup), naming.guard():
            model = self._kind(self._written)
            inputs = self._inputs(model.input_data(dataset_name=dataset), "input_data")
            model._data_var = list(inputs)  # noqa: SLF001 - as PaddleRec's trainer sets it
            model.net(model._data_var, False)  # noqa: SLF001
            cost = getattr(model, "_cost", None)
            if not isinstance(cost, Variable):
                hint = "net(inputs, is_infer=False) sets self._cost to a variable with one element"
                self._refuse(f"net of class Model leaves self._cost {_said(cost)}", hint)
            optimizer = model.optimizer()
            if not callable(getattr(optimizer, "minimize", None)):
                hint = "return one of fluid.optimizer, such as fluid.optimizer.Adam(learning_rate)"
                self._refuse(f"optimizer() of class Model returns {_said(optimizer)}", hint)
            optimizer.minimize(cost)
        return self._made(main, startup, inputs, cost, getattr(model, "_metrics", None), optimizer)

    def evaluation(self, dataset: str) -> ModelProgram:
        """The program that answers, or is evaluated."""
        main, startup = RecordedProgram(), RecordedProgram()
        with self.running(), program_guard(main, startup), naming.guard():
            model = self._kind(self._written)
            inputs = self._inputs(model.input_data(is_infer=True, dataset_name=dataset), "input_data(is_infer=True)")
            model._infer_data_var = list(inputs)  # noqa: SLF001
            model.net(model._infer_data_var, True)  # noqa: SLF001
            cost = getattr(model, "_cost", None)
        cost = cost if isinstance(cost, Variable) else None
        made = self._made(main, startup, inputs, cost, getattr(model, "_infer_results", None), None)
        if not made.told and cost is None:
            hint = 'net(inputs, is_infer=True) names what is to be told: self._infer_results["AUC"] = auc'
            self._refuse(
                "net of class Model sets neither self._infer_results nor self._cost where is_infer is True", hint
            )
        return made

    def _made(
        self, main: Any, startup: Any, inputs: tuple[Any, ...], cost: Any, named: Any, optimizer: Any
    ) -> ModelProgram:
        named = named if isinstance(named, dict) else {}
        told = variables_of(named)
        others = [str(name) for name, each in named.items() if not isinstance(each, (ProgramMetric, Variable))]
        if others:
            self._refuse(
                f"metrics are no variables of the program: {', '.join(others)}",
                "fetch variables, or metrics of paddlerec.core.metrics",
            )
        return ModelProgram(
            main=main,
            startup=startup,
            inputs=inputs,
            cost=cost,
            told={str(name): each for name, each in told.items() if isinstance(each, Variable)},
            metrics=tuple([each for each in named.values() if isinstance(each, ProgramMetric)]),
            optimizer=optimizer,
        )

    def _inputs(self, given: Any, method: str) -> tuple[Any, ...]:
        if isinstance(given, Variable):
            given = [given]
        if not isinstance(given, (list, tuple)) or not given:
            hint = "return the variables that are fed; without such a method, declare sparse_slots and dense_slots"
            self._refuse(f"{method} of class Model returns {_said(given)} instead of a list of variables", hint)
        for each in given:
            if not isinstance(each, Variable):
                self._refuse(
                    f"{method} of class Model returns {_said(each)} among the variables that are fed",
                    "fluid.data makes one",
                )
        return tuple(given)

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise UmiakError.of(CODE, what, hint=hint, where=self.file)


def model_class(file: str, where: str | None = None) -> type[Any]:
    """The class of a file. UmiakError if it has none, or one that lacks methods."""
    module = own_code.imported(file, where)
    kind = getattr(module, "Model", None)
    if not isinstance(kind, type):
        classes = [name for name, item in vars(module).items() if isinstance(item, type)]
        what = f"{file} has no class Model"
        raise UmiakError.of("UM-TRAIN-013", what, hint=choices("Model", classes), where=where)
    missing = [name for name in METHODS if not callable(getattr(kind, name, None))]
    if missing:
        what = f"class Model of {file} has no {', no '.join(missing)}"
        hint = f"derive it from paddlerec.core.model.{MODEL_BASE}"
        raise UmiakError.of("UM-TRAIN-013", what, hint=hint, where=where)
    return kind


def _said(item: object) -> str:
    if isinstance(item, (list, tuple)) and not item:
        return "an empty list"
    return "nothing" if item is None else f"a {type(item).__name__}"
