"""Tables with parameters in a model: what is counted, what learns, what does not fit."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.ps import environment, export, strategies
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.train.config.values import RowRule, TableParameters
from umiak.train.reading.batches import Arrays as Batch

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]
SGD = RowRule(rule="sgd", settings={"learning_rate": 1.0}, initial_range=0.0)
PADDING = 2**64 - 1
"""Read in vain where a sample has no more ids; it has a row without a show."""
COUNTED = TableParameters(embed=SGD, embedx=SGD, embedx_threshold=2.0, show_scale=False)


def job() -> Session:
    return Session(environment.PsSeat(), strategies.Sync(), SessionOptions(shards=4))


def model(dim: int = 3, padded: bool = False):
    import paddle

    from umiak.train.modeling import ClickModel

    class Model(ClickModel):
        @value
        class Hyper:
            dim: int = 3

        def __init__(self, hyper, slots, tables) -> None:
            super().__init__(hyper, slots, tables)
            self.embedding = tables.embedding(dim)
            self.bias = self.create_parameter([1], default_initializer=paddle.nn.initializer.Constant(0.0))

        def logit(self, inputs):
            if padded:
                rows = sum(self.embedding.each(inputs.padded(name, 4)).sum(axis=1) for name in self.features)
            else:
                rows = self.embedding(inputs.ids(*self.features)).sum(axis=1)
            return rows.sum(axis=1, keepdim=True) + self.bias

    return Model


def engine(own: Session, kind, tables: dict[str, TableParameters] | None = None, **ways):
    from umiak.train.config.values import Slots
    from umiak.train.engines.engine import EngineOptions
    from umiak.train.engines.paddle import PaddleEngine

    named = {"embedding": COUNTED} if tables is None else tables
    return PaddleEngine(
        kind,
        Slots(sparse=("click", "1", "2")),
        job=own,
        options=EngineOptions(tables=named, **ways),
        hyper_parameters={},
    )


def batch(clicks: list[int], first: list[list[int]], second: list[list[int]]) -> Batch:
    def column(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        ids = np.array([each for row in rows for each in row], np.int64)
        return ids, np.cumsum([0, *map(len, rows)]).astype(np.int64)

    return Batch(
        size=len(clicks),
        sparse={"click": column([[each] for each in clicks]), "1": column(first), "2": column(second)},
        dense={},
    )


def rows(own: Session, path: Path) -> dict[int, list[float]]:
    """Show, click, embed_w and the wide part of every row."""
    own.save(str(path))
    found = export.contents(path)["embedding"]["rows"]
    return {key: [row[3], row[4], row[5], *row[-2:]] for key, (_, row) in found.items() if key != PADDING}


ONE_EACH = batch([1, 0, 0], [[7], [7], [8]], [[9], [9], [9]])
SEVERAL = batch([1, 0, 0], [[7], [7, 7], []], [[9], [9], [9]])


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("given", "expected"),
    [(ONE_EACH, {7: [2, 1], 8: [1, 0], 9: [3, 1]}), (SEVERAL, {7: [3, 1], 9: [3, 1]})],
)
def test_shows_and_clicks(tmp_path: Path, given: Batch, expected: dict[int, list[float]], padded: bool) -> None:
    own = job()
    made = engine(own, model(padded=padded))
    made.learn(given, made.metric_set(), step=0)
    assert {key: row[:2] for key, row in rows(own, tmp_path / "a").items()} == expected
    made.evaluate(given, made.metric_set())
    assert {key: row[:2] for key, row in rows(own, tmp_path / "b").items()} == expected, "evaluation counts nothing"


@pytest.mark.parametrize("scale", [0, 1])
def test_rows_learn_from_the_sum_over_samples(tmp_path: Path, scale: int) -> None:
    own = job()
    made = engine(own, model(), gradient_scale=scale)
    made.learn(ONE_EACH, made.metric_set(), step=0)
    found = rows(own, tmp_path / "a")
    # The logit is 0, so a sample's gradient is 0.5 - its label; embed_w begins at 0 and the learning rate is 1.
    assert {key: row[2] for key, row in found.items()} == pytest.approx({7: 0.0, 8: -0.5, 9: -0.5})


def test_the_wide_part_comes_late(tmp_path: Path) -> None:
    own = job()
    made = engine(own, model())
    for step in range(3):
        made.learn(ONE_EACH, made.metric_set(), step=step)
    found = rows(own, tmp_path / "a")
    # Three clicks of 1 and more for 7 and 9; 8 was shown three times for 0.1 each.
    assert found[8][3:] == [0, 0]
    assert all(number != 0 for number in found[9][3:])
    keys, served = export.rows(tmp_path / "a", "embedding")
    assert served.shape == (3, 3)
    assert {int(key): row.tolist() for key, row in zip(keys, served, strict=True)} == {
        key: pytest.approx(row[2:]) for key, row in found.items()
    }


def test_other_tables_are_as_they_were() -> None:
    own = job()
    made = engine(own, model(), {})
    made.learn(ONE_EACH, made.metric_set(), step=0)
    (table,) = own.registry.tables
    assert table.spec.accessor is None
    assert table.spec.dim == 3


@pytest.mark.parametrize(
    ("dim", "said", "what"),
    [
        (3, TableParameters(embedx_dim=3), "embedx_dim of table embedding is 3, and the model asks for rows of 3"),
        (1, TableParameters(), "table embedding has rows of one number in the model, and no wide part"),
    ],
)
def test_rows_that_do_not_fit(dim: int, said: TableParameters, what: str) -> None:
    with pytest.raises(UmiakError) as raised:
        engine(job(), model(dim), {"embedding": said})
    (problem,) = raised.value.problems
    assert problem.code == "UM-TRAIN-031"
    assert problem.what == f"table_parameters: {what}"


def test_a_table_that_no_model_has() -> None:
    from umiak.train.engines.engine_set import check_tables

    named = {"embeding": COUNTED}
    with pytest.raises(UmiakError) as raised:
        check_tables([engine(job(), model(), named)], named, "c.yaml")
    (problem,) = raised.value.problems
    assert (problem.code, problem.where) == ("UM-TRAIN-032", "c.yaml")
    assert problem.hint == "did you mean `embedding`?"
