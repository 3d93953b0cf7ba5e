"""The base of models in the form of PaddleRec 1.8.5, which record programs of `paddle.fluid`. A program.

    from paddlerec.core.model import ModelBase

    class Model(ModelBase):
        def _init_hyper_parameters(self):
            self.dim = envs.get_global_env("hyper_parameters.dim")

        def net(self, inputs, is_infer=False):
            ...
            self._metrics["AUC"] = auc
            self._cost = fluid.layers.reduce_mean(cost)

It is asked in this order: the constructor, `input_data`, `net`, and, to train, `optimizer`, whose answer minimizes ``_cost``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from umiak.core.problem import UmiakError
from umiak.fluid.layers import basics
from umiak.fluid.learning import optimizers
from umiak.fluid.record.program import Variable
from umiak.fluid.running.loaders import GeneratorLoader
from umiak.train.engines.modelbase.metric import ProgramMetric
from umiak.train.reading import base as envs

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": optimizers.SGDOptimizer,
    "ADAM": functools.partial(optimizers.AdamOptimizer, lazy_mode=True),
    "ADAGRAD": optimizers.AdagradOptimizer,
}
"""Those that ``hyper_parameters.optimizer.class`` may name; others a model makes itself."""


class ModelBase:
    """What a model has before it adds anything."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """``config``: the whole config as it is written."""
        self._cost: Any = None
        self._metrics: dict[str, Any] = {}
        self._infer_results: dict[str, Any] = {}
        self._data_var: Any = []
        self._infer_data_var: Any = []
        self._data_loader: Any = None
        self._infer_data_loader: Any = None
        self._sparse_data_var: list[Any] = []
        self._dense_data_var: list[Any] = []
        self._sparse_data_var_map: dict[str, Any] = {}
        self._dense_data_var_map: dict[str, Any] = {}
        self._fetch_interval = 20
        self._platform = envs.get_platform()
        self._env = config
        self._init_hyper_parameters()

    # ---- what a model may say otherwise

    def _init_hyper_parameters(self) -> None:
        """Reads what the config says."""

    def input_data(self, is_infer: bool = False, **named: Any) -> Any:  # noqa: ARG002 - a model's own may use it
        """The inputs, in the order of a sample's fields: here the slots of the dataset, dense ones first. None without slots."""
        dataset = f"dataset.{named.get('dataset_name')}"
        sparse = _words(envs.get_global_env(f"{dataset}.sparse_slots"))
        dense = [_dense(each) for each in _words(envs.get_global_env(f"{dataset}.dense_slots"))]
        if not sparse and not dense:
            return None
        self._dense_data_var_map = {name: basics.data(name=name, shape=shape, dtype="float32") for name, shape in dense}
        self._sparse_data_var_map = {
            name: basics.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in sparse
        }
        self._dense_data_var = [*self._dense_data_var_map.values()]
        self._sparse_data_var = [*self._sparse_data_var_map.values()]
        return [*self._dense_data_var, *self._sparse_data_var]

    def net(self, inputs: Any, is_infer: bool = False) -> Any:
        """Records the program: sets ``_cost`` and ``_metrics``, or ``_infer_results``."""

    def optimizer(self) -> Any:
        """What minimizes ``_cost``: by ``hyper_parameters.optimizer``."""
        name = envs.get_global_env("hyper_parameters.optimizer.class")
        rate = envs.get_global_env("hyper_parameters.optimizer.learning_rate")
        strategy = envs.get_global_env("hyper_parameters.optimizer.strategy")
        return self._build_optimizer(name, rate, strategy)

    def train_net(self) -> Any:
        """Of models before 1.8.5; nobody asks."""

    def infer_net(self) -> Any:
        """Of models before 1.8.5; nobody asks."""

    # ---- what it is asked

    def get_inputs(self) -> Any:
        """The inputs of training."""
        return self._data_var

    def get_infer_inputs(self) -> Any:
        """The inputs of evaluation."""
        return self._infer_data_var

    def get_avg_cost(self) -> Any:
        """What is minimized."""
        return self._cost

    def get_metrics(self) -> dict[str, Any]:
        """What is told while training: variables by names."""
        return variables_of(self._metrics)

    def get_infer_results(self) -> dict[str, Any]:
        """What is told while evaluating."""
        return variables_of(self._infer_results)

    def get_clear_metrics(self) -> list[Any]:
        """Metrics that begin from zero with every checkpoint that is evaluated."""
        return [each for each in self._infer_results.values() if isinstance(each, ProgramMetric)]

    def get_fetch_period(self) -> int:
        """Batches between two lines, where the config does not say it."""
        return self._fetch_interval

    def _init_slots(self, **named: Any) -> None:
        """The slots of a phase's dataset as ``_data_var``, as models before 1.8.5 ask for them."""
        phases = {each["name"]: each for each in self._env["phase"]}
        phase = phases[named["name"]]
        self._data_var = self.input_data(dataset_name=phase["dataset_name"]) or []

    def _init_dataloader(self, is_infer: bool = False) -> None:
        """A loader for the inputs, for code that looks at it: the trainer feeds the program itself."""
        inputs = self._infer_data_var if is_infer else self._data_var
        self._data_loader = GeneratorLoader(inputs, iterable=True)

    def _build_optimizer(self, name: str, lr: Any, strategy: Any = None) -> Any:  # noqa: ARG002 - models hand it over
        """SGD, Adam that learns lazily, or Adagrad."""
        known = OPTIMIZERS.get(str(name).upper())
        if known is None:
            raise _optimizer_problem(f"hyper_parameters.optimizer.class: {name}", f"one of {', '.join(OPTIMIZERS)}")
        if not isinstance(lr, (float, Variable)):
            try:
                lr = float(lr)
            except (TypeError, ValueError):
                what = f"hyper_parameters.optimizer.learning_rate is no number: {lr}"
                raise _optimizer_problem(what, "a number such as 0.001 or 1e-3") from None
        return known(lr)


def variables_of(named: Mapping[str, Any]) -> dict[str, Any]:
    """Variables by names: of metrics, those that they give."""
    found: dict[str, Any] = {}
    for name, each in named.items():
        if isinstance(each, ProgramMetric):
            found.update(each.get_result())
        elif isinstance(each, Variable):
            found[name] = each
    return found


def _optimizer_problem(what: str, hint: str) -> UmiakError:
    return UmiakError.of("UM-TRAIN-593", what, hint=f"{hint}; or let the model's own optimizer() make another one")


def _words(said: Any) -> list[str]:
    """What a config lists: words with spaces between, or a list."""
    if isinstance(said, (list, tuple)):
        return [str(each) for each in said]
    return str(said or "").split()


def _dense(word: str) -> tuple[str, list[int]]:
    """``price:1`` or ``image:[8,8]``."""
    name, _, sizes = word.partition(":")
    return name, [int(each) for each in sizes.strip("[]").split(",")]
