"""What umiak asks of a model besides what PaddleRec's trainer does leaves no trace: runs are equal to a plain loop, to the bit."""

from __future__ import annotations

import importlib.util
import itertools
import random as random_of_python
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy import random as random_of_numpy

from tests.support import dygraph_helpers as models
from tests.support import remembering_models
from tests.unit.train.test_train_dygraph import engine, learned, stacked

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_model_that_counts_and_draws_learns_as_in_a_plain_loop(seed: int, sparse: bool, tmp_path: Path) -> None:
    batches = remembering_models.story(tmp_path, seed, sparse=sparse)
    expected: dict[str, Any] = {}
    losses, _ = models.plain_losses(tmp_path / "dygraph_model.py", batches, epochs=2, state=expected)
    made = engine(tmp_path, sample=lambda: stacked(batches[0]))
    found: list[float] = []
    for _ in range(2):
        found += learned(made, batches, len(found))[0]
        with made.without_trace():  # an evaluation between two epochs
            metrics = made.metric_set()
            for batch in batches:
                made.evaluate(stacked(batch), metrics)
    weights = made.weights()
    assert found == losses
    assert {name: np.array_equal(weights[name], each) for name, each in expected.items()} == dict.fromkeys(
        weights, True
    )


def test_a_sublayer_that_the_model_turns_stays_turned_for_the_epoch(tmp_path: Path) -> None:
    batches = models.story(tmp_path, samples=128, optimizer=models.SGD, stepping="dy_model.norm.eval()")
    losses, _ = models.plain_losses(tmp_path / "dygraph_model.py", batches, epochs=1)
    found, _ = learned(engine(tmp_path, sample=lambda: stacked(batches[0])), batches)
    assert found == losses


def test_what_is_drawn_after_a_checkpoint_is_what_would_have_been_drawn() -> None:
    import paddle

    from umiak.train.engines.state import generators

    def drawn() -> list[float]:
        of_python = [random_of_python.random(), random_of_python.gauss(0, 1)]
        return [*of_python, random_of_numpy.rand(), random_of_numpy.randn(), *paddle.rand([3]).tolist()]

    generators.seed_all(5)
    drawn()
    text = generators.packed()
    expected = drawn()
    drawn()
    generators.unpack(text)
    assert drawn() == expected


class Remembers:
    """All kinds of memory that a model's code may have."""

    shared: list[int] = []

    def __init__(self) -> None:
        self.number, self.text = 1, "a"
        self.nested = {"list": [1, {2}], "queue": deque([1, 2], maxlen=2)}
        self.alias = self.nested["list"]
        self.array = np.arange(3)
        self.chance = random_of_python.Random(1)
        self.rng = random_of_numpy.default_rng(1)
        self.old = random_of_numpy.RandomState(1)
        self.counter = itertools.count()

        def closed(count: list[int] = [0]) -> int:  # noqa: B006 - as people write it
            count[0] += 1
            return count[0] + self.number

        self.closed = closed

    def look(self) -> list[Any]:
        """Changes everything, and says what it was."""
        seen = [self.number, self.text, str(self.nested), self.array.tolist(), self.chance.random(), self.rng.random()]
        seen += [self.old.rand(), next(self.counter), self.closed(), [*self.shared], self.alias is self.nested["list"]]
        self.number, self.text = 2, "b"
        self.alias.append(3)
        self.nested["queue"].append(5)  # type: ignore[attr-defined]
        self.nested["more"] = []
        self.array += 1
        self.shared.append(1)
        self.later = 1
        return seen


def test_all_kinds_of_memory_are_put_back(tmp_path: Path) -> None:
    from umiak.train.engines import own_code
    from umiak.train.engines.state import traces

    file = tmp_path / "dygraph_model.py"
    file.write_text("")
    own_code.imported(str(file))
    module = next(iter(own_code.modules_of(str(file)).values()))
    assert isinstance(module, ModuleType)
    kind = type("Own", (Remembers,), {**vars(Remembers), "__module__": module.__name__})
    module.made = made = kind()  # type: ignore[attr-defined]
    before = {*vars(made)}
    with traces.without_trace([made], str(file)):
        first = made.look()
        module.new = 1  # type: ignore[attr-defined]
    assert {*vars(made)} == before
    assert not hasattr(module, "new")
    assert made.look()[:-3] == first[:-3]
