"""A model in the form of PaddleRec 2: class DygraphModel of a `dygraph_model.py`, and what its methods give back. An adapter, for Paddle.

    code = DygraphCode("models/rank/dnn/dygraph_model.py", config)
    model = code.create_model()
    optimizers = code.create_optimizers(model)
    found = code.train_forward(model, metrics, tensors)         loss, metrics and what it wants to be shown

Nothing of the model is changed. What it fails with is told with its place; what it gives back in another form than PaddleRec's trainer asks for, as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema.findings import choices
from umiak.train.engines import own_code
from umiak.train.engines.model_text import DYGRAPH as CLASS
from umiak.train.engines.model_text import DYGRAPH_METHODS
from umiak.train.engines.state import traces
from umiak.train.metrics import objects

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from typing import NoReturn

    from umiak.core.json_types import JsonObject
    from umiak.ps.paddle_types import Optimizer, Tensor


@value
class Forwarded:
    """What came of a batch."""

    metrics: tuple[object, ...]
    loss: Tensor = None
    """A tensor of one number; None: evaluating gives none."""
    number: float = math.nan
    """The loss as it is shown."""
    told: dict[str, float] = {}
    """What is to be shown besides metrics."""


class DygraphCode:
    """The code of one model."""

    def __init__(self, file: str, config: JsonObject, where: str | None = None) -> None:
        """``config`` is what its methods get: one dictionary with dotted keys."""
        self.file = file
        self.config = config
        kind = dygraph_class(file, where)
        with self.running():
            self._user = kind()

    def without_trace(self, *roots: object) -> AbstractContextManager[None]:
        """What its code remembers of what is done within, its object has forgotten afterwards; and so have ``roots``, such as a model and its optimizers."""
        return traces.without_trace([self._user, self.config, *roots], self.file)

    def running(self) -> AbstractContextManager[None]:
        """What goes wrong here is the model's."""
        return own_code.running(self.file)

    def create_model(self) -> paddle.nn.Layer:
        # Paddle refuses a second parameter of one name, and a model may be made once more, to write its weights.
        with self.running(), paddle.utils.unique_name.guard():
            model = self._user.create_model(self.config)
        if not isinstance(model, paddle.nn.Layer):
            self._refuse(f"create_model returned {_kind(model)} instead of a paddle.nn.Layer")
        return model

    def create_optimizers(self, model: paddle.nn.Layer) -> tuple[Optimizer, ...]:
        """Usually one. Whatever else comes with it, such as its schedule, it has already."""
        with self.running():
            made = self._user.create_optimizer(model, self.config)
        each = made if isinstance(made, (list, tuple)) else [made]
        found = tuple([one for one in each if isinstance(one, paddle.optimizer.Optimizer)])
        if not found:
            self._refuse(f"create_optimizer returned {_kind(made)} instead of a paddle.optimizer.Optimizer")
        return found

    def create_metrics(self) -> tuple[list[str], list[object]]:
        """Names, and objects."""
        with self.running():
            made = self._user.create_metrics()
        if not isinstance(made, (list, tuple)) or len(made) != 2:
            self._refuse(
                f"create_metrics returned {_kind(made)} instead of a list of metrics and a list of their names"
            )
        metrics, names = ([*each] if isinstance(each, (list, tuple)) else [each] for each in made)
        problems = objects.misfits(names, metrics, self.file)
        UmiakError.raise_any(problems)
        return [str(name) for name in names], metrics

    def train_forward(self, model: paddle.nn.Layer, metrics: list[object], batch: Any) -> Forwarded:
        with self.running():
            made = self._user.train_forward(model, metrics, batch, self.config)
            if not isinstance(made, tuple) or len(made) < 3:
                self._refuse(f"train_forward returned {_kind(made)} instead of loss, metrics and a dictionary to print")
            # One that returns more has the loss behind what it predicts.
            loss, returned, told = made[-3:]
            if not isinstance(loss, paddle.Tensor):
                self._refuse(f"train_forward returned {_kind(loss)} instead of a tensor as the loss")
            if not loss.size:
                self._refuse(f"the loss of train_forward has the shape {loss.shape}, which holds no number")
            numbers = _numbers(told)
            # Of several numbers Paddle's backward pass takes the sum.
            one = loss if loss.size == 1 else loss.astype("float32").sum()
            return Forwarded(loss=one, number=_shown(loss, numbers), metrics=_metrics(returned, metrics), told=numbers)

    def infer_forward(self, model: paddle.nn.Layer, metrics: list[object], batch: Any) -> Forwarded:
        """A model that has no way of its own to be evaluated is evaluated as it is trained."""
        if not hasattr(self._user, "infer_forward"):
            return self.train_forward(model, metrics, batch)
        with self.running():
            made = self._user.infer_forward(model, metrics, batch, self.config)
            if not isinstance(made, tuple) or len(made) < 2:
                self._refuse(f"infer_forward returned {_kind(made)} instead of metrics and a dictionary to print")
            returned, told = made[-2:]
            return Forwarded(metrics=_metrics(returned, metrics), told=_numbers(told))

    def _refuse(self, what: str) -> NoReturn:
        raise UmiakError.of("UM-TRAIN-067", what, where=self.file)


def dygraph_class(file: str, where: str | None = None) -> type[Any]:
    """The class of a file. UmiakError if it has none, or one that lacks methods."""
    module = own_code.imported(file, where)
    kind = getattr(module, CLASS, None)
    if not isinstance(kind, type):
        classes = [name for name, item in vars(module).items() if isinstance(item, type)]
        what = f"{file} has no class {CLASS}"
        raise UmiakError.of("UM-TRAIN-013", what, hint=choices(CLASS, classes), where=where)
    missing = [name for name in DYGRAPH_METHODS if not callable(getattr(kind, name, None))]
    if missing:
        what = f"class {CLASS} of {file} has no {', no '.join(missing)}"
        raise UmiakError.of("UM-TRAIN-013", what, where=where)
    return kind


def _metrics(returned: object, given: Sequence[object]) -> tuple[object, ...]:
    """The metrics that go on: those that were given back, if they are."""
    return tuple(returned) if isinstance(returned, (list, tuple)) and len(returned) == len(given) else tuple(given)


def _shown(loss: paddle.Tensor, told: dict[str, float]) -> float:
    """The loss as a number. A model that has set the gradients itself may return a tensor that means nothing, and show its loss only."""
    if loss.stop_gradient and objects.LOSS in told:
        return told[objects.LOSS]
    return float(loss.astype("float32").mean().item())


def _numbers(told: object) -> dict[str, float]:
    """Numbers by name; of a tensor with several their mean."""
    found: dict[str, float] = {}
    for name, each in (told if isinstance(told, dict) else {}).items():
        numbers = each.detach().astype("float32").numpy() if isinstance(each, paddle.Tensor) else each
        try:
            array = np.asarray(numbers, np.float64)
        except (TypeError, ValueError):
            continue
        if array.size:
            found[str(name).replace(".", "_")] = float(array.mean())
    return found


def _kind(item: object) -> str:
    if isinstance(item, (tuple, list)):
        return f"a {type(item).__name__} of {len(item)}"
    return "nothing" if item is None else f"a {type(item).__name__}"
