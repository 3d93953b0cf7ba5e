"""What models are written with: slots divided into labels and features, and batches as a model sees them."""

from __future__ import annotations

import importlib.util
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from umiak.core.problem import UmiakError

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


def inputs(ids: list[list[int]]) -> Any:
    from umiak.train.modeling import Slots
    from umiak.train.modeling.inputs import BatchInputs

    offsets = np.cumsum([0, *map(len, ids)])
    batch = SimpleNamespace(
        size=len(ids), dense={}, sparse={"history": (np.array([*chain(*ids)], np.int64), offsets)}, matrix=None
    )
    return BatchInputs(batch, Slots(sparse=("history",)))


@pytest.mark.parametrize(
    ("ids", "length", "expected"),
    [
        ([[1, 2], [], [3]], 5, [[1, 2], [-1, -1], [3, -1]]),
        ([[1, 2, 3], [4]], 2, [[1, 2], [4, -1]]),
        ([[], []], 5, [[-1], [-1]]),
    ],
    ids=["as wide as the longest", "cut", "one column at least"],
)
def test_a_padded_slot_is_as_wide_as_it_needs_to_be(ids: list[list[int]], length: int, expected: list[Any]) -> None:
    padded = inputs(ids).padded("history", length)
    assert padded.ids.tolist() == expected
    assert padded.mask.numpy().tolist() == [[float(each != -1) for each in row] for row in expected]


def test_labels_are_the_first_sparse_slots() -> None:
    from umiak.train.modeling import Slots

    slots = Slots(sparse=("click", "buy", "1", "2"))
    assert slots.split(2, "Model") == (("click", "buy"), ("1", "2"))
    assert slots.split(4, "Model") == (("click", "buy", "1", "2"), ())


@pytest.mark.parametrize(
    ("sparse", "labels", "told"),
    [
        ((), 1, "Model needs a label, and the dataset has no sparse slots"),
        (("click",), 2, "Model needs 2 labels, and the dataset has 1 sparse slot"),
    ],
)
def test_too_few_slots_for_the_labels(sparse: tuple[str, ...], labels: int, told: str) -> None:
    from umiak.train.modeling import Slots

    with pytest.raises(UmiakError) as caught:
        Slots(sparse=sparse).split(labels, "Model")
    (problem,) = caught.value.problems
    assert (problem.code, problem.what) == ("UM-TRAIN-010", told)


def test_dlrm_says_which_sizes_do_not_fit() -> None:
    from umiak import ps
    from umiak.models.rank.dlrm.model import Model
    from umiak.train.config.slots import DenseSlot
    from umiak.train.modeling import Slots, Tables

    slots = Slots(sparse=("click", "1"), dense=(DenseSlot(name="x", shape=(2,)),))
    with pytest.raises(UmiakError) as caught:
        Model(Model.Hyper(sparse_feature_dim=8), slots, Tables(ps.init("sync")))
    assert "16 numbers with 8" in caught.value.problems[0].what
    assert "end with 8" in (caught.value.problems[0].hint or "")


@pytest.mark.parametrize("size", [2, 7], ids=["fewer vectors than fields", "more"])
def test_both_ways_to_multiply_vectors_are_the_same(size: int) -> None:
    import paddle

    from umiak.models.blocks import Products

    rng = np.random.default_rng(0)
    x, first = rng.normal(size=(4, 5, 3)), rng.normal(size=(4, 5, 6))
    layer = Products(3, 6, size)
    weight = layer.weight.numpy().reshape(3, 6, size)
    found = layer(paddle.to_tensor(x, "float32"), paddle.to_tensor(first, "float32"))
    assert np.allclose(found.numpy(), np.einsum("bdi,bdj,ijk->bdk", x, first, weight), atol=1e-5)


def test_a_model_whose_metrics_have_their_old_name_is_refused(tmp_path: Path) -> None:
    """Else it would be trained without a word about what it is evaluated by."""
    from umiak.train.engines.paddle import load_model

    file = tmp_path / "model.py"
    file.write_text(
        "from umiak.models import ClickModel\n\nclass Model(ClickModel):\n    def judges(self):\n        return {}\n"
    )
    with pytest.raises(UmiakError, match="has a method judges, which is called metrics now") as error:
        load_model(str(file), "config.yaml")
    assert error.value.problems[0].code == "UM-TRAIN-013"
    file.write_text(file.read_text().replace("judges", "metrics"))
    assert load_model(str(file)).__name__ == "Model"
