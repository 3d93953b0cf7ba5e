"""The model zoo, and what models are written with. A package.

    from umiak.models import ClickModel          # the base of a model of your own

A model has a directory: ``config.yaml``, ``model.py``, and ``sample.py``, which makes data with a known signal. `umiak train -m umiak.models.rank.dnn`
names one, `python -m umiak.models.sample rank.dnn` makes its data. README.md lists them all.

blocks     parts that several models are built from
samples    what the makers of sample data have in common
sample     their command

Asking for one of the names here imports Paddle, importing this package does not: makers of data and the command line do without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umiak.train.modeling import (
        ClickModel,
        Embedding,
        Ids,
        Inputs,
        Judge,
        Model,
        Padded,
        Slots,
        Tables,
        cross_entropy,
    )

__all__ = ["ClickModel", "Embedding", "Ids", "Inputs", "Judge", "Model", "Padded", "Slots", "Tables", "cross_entropy"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'umiak.models' has no attribute {name!r}")
    return getattr(importlib.import_module("umiak.train.modeling"), name)
