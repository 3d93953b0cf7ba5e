"""Lets models import `paddlerec.core.model` and its neighbours, where no `paddlerec` is installed. An adapter: it adds modules.

    provide(settings, runtime, written)

A real PaddleRec that is installed is left alone: its `envs` are told the config, as its own trainer would tell them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import umiak.fluid
from umiak.train.config.paddlerec.dotted import listed
from umiak.train.engines.modelbase.base import ModelBase
from umiak.train.engines.modelbase.metric import ProgramMetric
from umiak.train.engines.modelbase.metrics import METRICS
from umiak.train.reading import base

if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.json_types import JsonMapping


class ModelPart:
    """`paddlerec.core.layer.Layer`: the base of parts of models."""

    def __init__(self, config: object) -> None:
        """Nothing."""

    def generate(self, param: object) -> object:
        """Records the part."""
        raise NotImplementedError(f"{type(self).__name__} has no generate")


def provide(settings: JsonMapping, runtime: Mapping[str, str], written: JsonMapping) -> None:
    """``settings``: what `envs.get_global_env` knows; ``runtime``: what `envs.get_runtime_environ` does; ``written``: the config."""
    umiak.fluid.install()
    base.provide_old_modules(listed(settings))
    base.set_runtime(runtime)
    if base.is_provided():
        _modules()
        return
    envs = importlib.import_module("paddlerec.core.utils.envs")
    tell = getattr(envs, "set_global_envs", None)
    if tell is not None:
        tell(listed(dict(written)))


def _modules() -> None:
    core = importlib.import_module("paddlerec.core")
    core.__dict__["model"] = base.provide("paddlerec.core.model", ModelBase=ModelBase)
    core.__dict__["layer"] = base.provide("paddlerec.core.layer", Layer=ModelPart)
    core.__dict__["metric"] = base.provide("paddlerec.core.metric", Metric=ProgramMetric)
    metrics = base.provide("paddlerec.core.metrics", **METRICS)
    core.__dict__["metrics"] = metrics
    for name, module in (
        ("auc", "AUC"),
        ("recall_k", "RecallK"),
        ("pairwise_pn", "PosNegRatio"),
        ("precision_recall", "PrecisionRecall"),
    ):
        metrics.__dict__[name] = base.provide(f"paddlerec.core.metrics.{name}", **{module: METRICS[module]})
