"""The model zoo, and what models are written with. A package.

    from umiak.models import ClickModel          # the base of a model of your own

A model has a directory: ``config.yaml``, ``model.py``, and ``sample.py``, which makes data with a known signal. `umiak train -m umiak.models.rank.dnn`
names one. Importing this imports Paddle; the command line finds configs without it.
"""

from __future__ import annotations

from umiak.train.modeling import ClickModel, Embedding, Ids, Inputs, Judge, Model, Padded, Slots, Tables

__all__ = ["ClickModel", "Embedding", "Ids", "Inputs", "Judge", "Model", "Padded", "Slots", "Tables"]
