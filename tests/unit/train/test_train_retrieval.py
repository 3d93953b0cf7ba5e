"""Items among all that there are: what is drawn for a positive sample, and Recall@k over a whole catalogue, beside brute force, with one trainer and with several."""

from __future__ import annotations

import importlib.util
import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umiak.core.problem import UmiakError
from umiak.train.config import layouts, load, writing
from umiak.train.config.objectives.retrieval import Negatives, Retrieval, RetrievalLoss
from umiak.train.metrics.retrieved import recalls

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]
NEEDS_PADDLE = pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed")

# ---- the number


def over_all_orders(scores: list[int], relevant: list[int], unknown: int, k: int) -> float:
    """The mean over all orders in which the highest come first."""
    found = [
        len({*order[:k]} & {*relevant}) / (len(relevant) + unknown)
        for order in itertools.permutations(range(len(scores)))
        if all(scores[one] >= scores[other] for one, other in itertools.pairwise(order))
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("seed", range(12))
def test_recall_is_its_mean_over_all_orders_of_ties(seed: int) -> None:
    draw = np.random.default_rng(seed)
    size = int(draw.integers(1, 7))
    scores = draw.integers(0, 3, size).tolist()
    relevant = np.flatnonzero(draw.random(size) < 0.5)
    unknown = int(draw.integers(0, 2)) or int(not relevant.size)
    cutoffs = (1, 2, 3, 9)
    told = recalls(np.array(scores), relevant, unknown, cutoffs)
    expected = [over_all_orders(scores, relevant.tolist(), unknown, k) for k in cutoffs]
    assert [number / of for number, of in told] == pytest.approx(expected)


def test_recall_without_ties_is_what_a_ranking_says() -> None:
    draw = np.random.default_rng(4)
    scores, relevant = draw.permutation(500), draw.choice(500, 30, replace=False)
    for k in (1, 10, 50, 499, 500, 501):
        first = np.argsort(-scores)[:k]
        ((number, of),) = recalls(scores, relevant, 0, (k,))
        assert number / of == pytest.approx(np.isin(first, relevant).sum() / 30)


# ---- of all trainers


def catalogue(keys: list[int], weights: list[float] | None = None) -> Any:
    from umiak.train.reading.batches import Arrays
    from umiak.train.reading.tables.catalogue import Catalogue

    ids = np.array(keys, np.int64)
    tags = np.repeat(ids * 10, ids % 3)
    ends = np.concatenate([[0], np.cumsum(ids % 3)])
    items = Arrays(
        size=len(ids),
        dense={"price": (ids[:, None] / 4).astype(np.float32)},
        sparse={"item": (ids, np.arange(len(ids) + 1)), "tags": (tags, ends)},
    )
    return Catalogue(
        items=items, keys=ids, order=np.argsort(ids), weights=None if weights is None else np.array(weights)
    )


def batch_of(users: list[int], items: list[int], labels: list[int], context: list[int] | None = None) -> Any:
    from umiak.train.reading.batches import Arrays

    ends, ids = np.arange(len(users) + 1), np.array(items, np.int64)
    sparse = {
        "click": (np.array(labels, np.float32), ends),
        "user": (np.array(users, np.int64), ends),
        "context": (np.array(context or users, np.int64), ends),
        "item": (ids, ends),
        "tags": (np.repeat(ids * 10, ids % 3), np.concatenate([[0], np.cumsum(ids % 3)])),
    }
    return Arrays(size=len(users), dense={"price": (ids[:, None] / 4).astype(np.float32)}, sparse=sparse)


class MadeUpEngine:
    """Scores by what it is given of user and item, some of them alike."""

    def scores(self, batch: Any) -> Any:
        users, items = batch.sparse["user"][0], batch.sparse["item"][0]
        assert (np.diff(batch.sparse["tags"][1]) == items % 3).all()
        assert (batch.dense["price"][:, 0] == items / 4).all()
        return (users * 7 + items * 13 + batch.sparse["context"][0]) % 6


class ThreadPeers:
    """Trainers that are threads."""

    def __init__(self, rank: int, world: int, board: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.world = rank, world
        self._board, self._barrier = board, barrier

    def _gathered(self, said: Any) -> list[Any]:
        self._board[self.rank] = said
        self._barrier.wait()
        found = [*self._board]
        self._barrier.wait()
        return found

    def tell(self, message: Any, name: str = "tell") -> list[Any]:
        return self._gathered(message)

    def all_of(self, payload: bytes) -> list[bytes]:
        return self._gathered(payload)

    def add(self, vector: Any) -> Any:
        return sum(self._gathered(vector))


def told_by(world: int, rows: list[tuple[int, int, int, int]], cutoffs: tuple[int, ...], keys: list[int]) -> Any:
    """What each of so many trainers says; rows go to them in turn."""
    from umiak.train.evaluating.retrieving import Retrieved

    retrieval = Retrieval(items="items", features=("item", "tags", "price"), recall=cutoffs)
    board: list[Any] = [None] * world
    barrier, found = threading.Barrier(world), [None] * world

    def run(rank: int) -> None:
        own = Retrieved(retrieval, catalogue(keys), MadeUpEngine(), label="click", group="user")
        mine = rows[rank::world]
        for at in range(0, len(mine), 5):
            piece = mine[at : at + 5]
            own.update(batch_of(*[list(each) for each in zip(*piece, strict=True)]))  # type: ignore[arg-type]
        found[rank] = own.added(ThreadPeers(rank, world, board, barrier))  # type: ignore[arg-type, call-overload]

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_those_of_brute_force_with_one_trainer_and_with_many(seed: int) -> None:
    draw, cutoffs = np.random.default_rng(seed), (1, 3, 8)
    keys = sorted(draw.choice(40, 12, replace=False).tolist())
    rows = [
        (int(draw.integers(1, 9)), int(draw.choice([*keys, 41, 42])), int(draw.random() < 0.3), 0) for _ in range(60)
    ]
    chosen: dict[int, set[int]] = {}
    for user, item, label, _ in rows:
        chosen.setdefault(user, set()).update({item} if label else ())
    expected = {}
    for k in cutoffs:
        shares = []
        for user, items in chosen.items():
            scores = [(user * 7 + item * 13) % 6 for item in keys]
            known = np.array([keys.index(item) for item in items if item in keys], np.int64)
            if items:
                ((number, of),) = recalls(np.array(scores), known, len(items) - len(known), (k,))
                shares.append(number / of)
        expected[f"recall@{k}"] = np.mean(shares)
    expected["recall.groups"] = sum(1 for items in chosen.values() if items)
    expected["recall.left_out_groups"] = sum(1 for items in chosen.values() if not items)
    expected["recall.unknown_items"] = sum(1 for items in chosen.values() for item in items if item not in keys)
    alone = told_by(1, [(*each[:3], 0) for each in rows], cutoffs, keys)[0]
    assert alone == pytest.approx(expected)
    for world in (2, 3):
        assert all(each == alone for each in told_by(world, rows, cutoffs, keys)), "to the bit"


def test_a_user_whose_features_differ_is_ranked_by_the_same_row_on_any_trainer() -> None:
    rows = [(user, item, 1, context) for context in (1, 2, 3, 4) for user, item in ((5, 3), (6, 8), (7, 1))]
    told = [told_by(world, rows, (1, 2), [1, 2, 3, 4, 8]) for world in (1, 2, 4)]
    assert told[0][0] == told[1][0] == told[1][1] == told[2][3]


def test_nobody_who_chose_anything_is_no_number() -> None:
    (told,) = told_by(1, [(1, 2, 0, 0), (2, 2, 0, 0)], (3,), [2, 4])
    assert np.isnan(told["recall@3"])
    assert (told["recall.groups"], told["recall.left_out_groups"]) == (0, 2)


# ---- what is drawn


def drawn(kind: str, loss: str, batch: Any, *, keys: list[int], weights: list[float] | None = None, **more: Any) -> Any:
    from umiak.train.modeling.negatives import NegativeSampler

    retrieval = Retrieval(
        items="items", features=("item", "tags", "price"), negatives=Negatives(kind), loss=RetrievalLoss(loss), **more
    )
    return NegativeSampler(retrieval, catalogue(keys, weights), "click").drawn(batch, more.pop("seed", 5))


@NEEDS_PADDLE
@pytest.mark.parametrize("kind", ["uniform", "popularity", "in_batch"])
def test_samples_get_others_items_and_keep_their_own_user(kind: str) -> None:
    batch = batch_of([1, 2, 3, 4], [3, 8, 5, 3], [1, 0, 1, 1], [11, 12, 13, 14])
    made = drawn(kind, "log_loss", batch, keys=[3, 4, 5, 8], weights=[1, 2, 3, 4], count=6).batch
    labels, items, users = (made.sparse[name][0] for name in ("click", "item", "user"))
    assert labels.tolist() == [1, 0, 1, 1] + [0] * (made.size - 4)
    assert (items[:4].tolist(), users[:4].tolist()) == ([3, 8, 5, 3], [1, 2, 3, 4])
    own = {1: 3, 3: 5, 4: 3}
    assert {*users[4:].tolist()} == {1, 3, 4}
    assert all(own[user] != item for user, item in zip(users[4:].tolist(), items[4:].tolist(), strict=True))
    if kind == "in_batch":
        assert {*items[4:].tolist()} == {3, 5}, "items of positive samples"
    assert (made.sparse["context"][0] == users + 10).all()
    assert (made.dense["price"][:, 0] == items / 4).all()
    assert (np.diff(made.sparse["tags"][1]) == items % 3).all()
    assert (made.sparse["tags"][0] == np.repeat(items * 10, items % 3)).all()


@NEEDS_PADDLE
@pytest.mark.parametrize(("kind", "power"), [("uniform", 0.0), ("popularity", 1.0), ("popularity", 0.5)])
def test_items_are_drawn_as_often_as_they_should_be(kind: str, power: float) -> None:
    keys, weights = [2, 5, 7, 11], np.array([1.0, 4.0, 2.0, 9.0])
    batch = batch_of([1], [40], [1])
    made = drawn(kind, "log_loss", batch, keys=keys, weights=weights.tolist(), count=40_000, alpha=power).batch
    shares = np.bincount(made.sparse["item"][0][1:], minlength=12)[keys] / 40_000
    np.testing.assert_allclose(shares, weights**power / (weights**power).sum(), atol=0.012)


@NEEDS_PADDLE
@pytest.mark.parametrize("kind", ["uniform", "popularity", "in_batch"])
def test_the_softmax_is_that_of_numpy(kind: str) -> None:
    import paddle

    from umiak.train.modeling.inputs import BatchInputs
    from umiak.train.modeling.model import Slots
    from umiak.train.modeling.negatives import softmax_loss

    keys, weights = [3, 4, 5, 8], np.array([1.0, 2.0, 3.0, 4.0])
    batch = batch_of([1, 2, 3, 4, 5], [3, 8, 5, 3, 8], [1, 0, 1, 1, 1])
    one_each = np.arange(6)
    batch.sparse["sample_weight"] = (np.array([2.0, 9.0, 1.0, 0.5, 3.0]), one_each)
    found = drawn(kind, "softmax", batch, keys=keys, weights=weights.tolist(), count=3)
    made = found.batch
    assert made.size == 4 * (1 + 3)
    items = made.sparse["item"][0].reshape(4, 4)
    assert items[:, 0].tolist() == [3, 5, 3, 8]
    assert made.sparse["click"][0].reshape(4, 4).sum(axis=0).tolist() == [4, 0, 0, 0]
    assert made.sparse["user"][0].reshape(4, 4)[:, 2].tolist() == [1, 3, 4, 5]
    logits = np.random.default_rng(1).normal(size=(4, 4))
    chances = dict(zip(keys, np.log(weights / weights.sum()), strict=True))
    expected = []
    for row in range(4):
        kept = [0] + [at for at in (1, 2, 3) if items[row, at] != items[row, 0]]
        corrected = [logits[row, at] - (0 if kind == "uniform" else chances[items[row, at]]) for at in kept]
        expected.append(np.log(np.exp(corrected).sum()) - corrected[0])
    for weight, counts in ((None, np.ones(4)), ("sample_weight", np.array([2.0, 1.0, 0.5, 3.0]))):
        inputs = BatchInputs(made, Slots(sparse=("click", "user", "item"), weight=weight))
        loss = softmax_loss(paddle.to_tensor(logits.reshape(-1, 1), "float32"), found, inputs)
        assert float(loss) == pytest.approx(float(np.mean(np.array(expected) * counts)), rel=1e-5)


@NEEDS_PADDLE
def test_an_item_whose_chance_nobody_knows_is_refused() -> None:
    batch = batch_of([1], [9], [1])
    with pytest.raises(UmiakError, match="1 items of a batch are not in the catalogue"):
        drawn("popularity", "softmax", batch, keys=[3, 4], weights=[1, 1])
    assert drawn("popularity", "log_loss", batch, keys=[3, 4], weights=[1, 1]).batch.size == 5


@NEEDS_PADDLE
@pytest.mark.parametrize("kind", ["uniform", "in_batch"])
def test_a_batch_without_a_positive_sample(kind: str) -> None:
    batch = batch_of([1, 2], [3, 4], [0, 0])
    assert drawn(kind, "log_loss", batch, keys=[3, 4]).batch.size == 2
    assert drawn(kind, "softmax", batch, keys=[3, 4], weights=[1, 1]).batch.size == 0


# ---- the section

CONFIG = """
runner: {model: recall.ncf, train_data_dir: logs, train_batch_size: 4, epochs: 1}
features:
  label: click
  group: user
  columns:
  - {name: user, kind: id}
  - {name: item, kind: id}
  - {name: tags, kind: id, list: true}
retrieval:
  items: items.parquet
  features: [item, tags]
  negatives: popularity
  weight: views
  recall: [10, 50]
"""


def reading(directory: Path, text: str) -> layouts.Reading:
    (directory / "config.yaml").write_text(text)
    return load.load(str(directory))[1]


def test_the_section_is_read_and_written_in_both_layouts(tmp_path: Path) -> None:
    import yaml

    found = reading(tmp_path, CONFIG)
    assert not found.problems
    made = found.config
    assert made is not None
    assert made.retrieval == Retrieval(
        items=f"{tmp_path}/items.parquet",
        features=("item", "tags"),
        negatives=Negatives.POPULARITY,
        weight="views",
        recall=(10, 50),
    )
    assert reading(tmp_path, yaml.safe_dump(writing.plain(made))).config == made


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  items: items.parquet\n", "", "retrieval: items is not there"),
        ("[item, tags]", "[itm]", "there is no feature itm"),
        ("[item, tags]", "[tags]", "tags has not one id in each row"),
        ("  weight: views\n", "", "popularity needs to know how often items are chosen"),
        ("  group: user\n", "", "recall needs to know whose samples they are"),
        ("[10, 50]", "[10, 0]", "expected different numbers of 1 or more"),
        ("popularity", "popular", "popular"),
        ("  label: click", "  labels: click", "label"),
    ],
)
def test_what_is_wrong_with_it_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in CONFIG
    found = reading(tmp_path, CONFIG.replace(old, new))
    assert any(words in each.what for each in (*found.problems, *found.warnings)), found.problems


def test_a_catalogue_for_nothing_is_told(tmp_path: Path) -> None:
    text = CONFIG.replace("  negatives: popularity\n", "").replace("  recall: [10, 50]\n", "")
    assert ["retrieval: no effect" in each.what for each in reading(tmp_path, text).warnings] == [True]


def test_without_features_there_is_no_catalogue(tmp_path: Path) -> None:
    text = "runner: {model: recall.ncf, train_data_dir: logs, train_batch_size: 4, epochs: 1, sparse_slots: 'click user item'}"
    found = reading(tmp_path, f"{text}\nretrieval: {{items: i.parquet, features: [item]}}\n")
    assert any("there are no features" in each.what for each in found.problems)
    slots = CONFIG.replace("epochs: 1", "epochs: 1, sparse_slots: 'click user item'")
    assert any("no dataset is a table" in each.what for each in reading(tmp_path, slots).problems)


# ---- the catalogue


def test_a_catalogue_is_read_of_its_columns_alone(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from umiak.data.features import lock_files
    from umiak.train.reading.tables import catalogue as catalogues

    (tmp_path / "config.yaml").write_text(CONFIG)
    from umiak.schema.features import reading as sections

    lock = lock_files.of_section(sections.load(tmp_path))
    path = tmp_path / "items.parquet"
    retrieval = Retrieval(items=str(path), features=("item", "tags"), weight="views")
    table = {"item": ["a", "b", "c"], "tags": [["x"], [], ["x", "y"]], "views": [1, 5, 2]}
    parquet.write_table(pa.table(table), path, row_group_size=2)
    made = catalogues.read(retrieval, lock)
    assert (made.items.size, made.slots) == (3, ("item", "tags"))
    assert made.weights is not None
    assert made.weights.tolist() == [1, 5, 2]
    assert made.items.sparse["tags"][1].tolist() == [0, 1, 1, 3]
    assert made.places(made.keys[[2, 0]]).tolist() == [2, 0]
    assert made.places(np.array([12345])).tolist() == [-1]
    for column, values, words in (
        ("item", ["a", "b", "a"], "two items have the same item: rows 1 and 3"),
        ("views", [1, 0, 2], "weight views is 0 in row 2"),
    ):
        parquet.write_table(pa.table({**table, column: values}), path)
        with pytest.raises(UmiakError, match=words):
            catalogues.read(retrieval, lock)
    parquet.write_table(pa.table(table).drop(["tags"]), path)
    with pytest.raises(UmiakError, match="there is no column 'tags'"):
        catalogues.read(retrieval, lock)
