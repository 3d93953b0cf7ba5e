"""The user's side of a static comparison: class StaticModel of a `static_model.py` as PaddleRec's trainers call it, and its reader's batches. An adapter, for Paddle.

    built = build(facts)                    feeds, loss and fetches in the default program; nothing learns yet
    built.model.create_optimizer()
    for batch in batches(facts): ...        a list of arrays, in the order of the feeds

Neither knows anything of what is compared: both sides use it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.value import value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.json_types import JsonMapping
    from umiak.data.array_types import AnyArray


@value
class BuiltProgram:
    """A model in the default program."""

    model: Any
    feeds: tuple[str, ...]
    loss: Any


def build(facts: JsonMapping) -> BuiltProgram:
    """Call the model's code as PaddleRec's static trainers do."""
    path = facts["model"]
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("static_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["static_model"] = module
    spec.loader.exec_module(module)
    model = module.StaticModel(facts["config"])
    feeds = model.create_feeds()
    fetched = model.net(feeds)
    loss = getattr(model, "_cost", None)
    if loss is None:
        loss = fetched.get("cost", fetched.get("loss", next(iter(fetched.values()))))
    return BuiltProgram(model=model, feeds=tuple([each.name for each in feeds]), loss=loss)


def batches(facts: JsonMapping) -> Iterator[list[AnyArray]]:
    """What PaddleRec's DataLoader gives, whole batches only, again and again."""
    config = facts["config"]
    above = config["config_abs_dir"]
    directory = os.path.join(above, config["runner.train_data_dir"])
    size = int(config["runner.train_batch_size"])
    sys.path.insert(0, above)
    reader = importlib.import_module(config.get("runner.train_reader_path", "reader"))
    files = sorted(os.path.join(directory, name) for name in os.listdir(directory))
    while True:
        given = False
        samples: list[Any] = []
        for sample in _samples(reader.RecDataset(files, config=config)):
            samples.append([np.asarray(each) for each in sample])
            if len(samples) == size:
                given = True
                yield [np.stack([one[place] for one in samples]) for place in range(len(samples[0]))]
                samples = []
        if not given:
            return


def _samples(dataset: Any) -> Iterator[Any]:
    if hasattr(type(dataset), "__getitem__") and hasattr(type(dataset), "__len__"):
        try:
            count = len(dataset)
        except (TypeError, RuntimeError):
            count = 0
        if count:
            yield from (dataset[place] for place in range(count))
            return
    yield from iter(dataset)
