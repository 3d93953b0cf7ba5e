"""What features and `objective:` say of embeddings and losses counts: beside plain Paddle over generated batches; what would have no effect is refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umiak.core.problem import UmiakError
from umiak.train.config.objectives.settings import Objective
from umiak.train.config.slots import SlotFeature
from umiak.train.config.values import EmbeddingTables, Learning, Slots

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]

IDS, RATE, STEPS = 12, 0.3, 8
NAMES = ("a", "b", "c")
ZOO = Path(__file__).parents[3] / "src" / "umiak" / "models"


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """Engines, whose jobs are ended."""
    engines: list[Any] = []
    yield engines
    for each in engines:
        each.job.abandon()


def slots(poolings: dict[str, str], dims: dict[str, int], *, weight: bool) -> Slots:
    features = tuple(SlotFeature(name=name, dim=dims.get(name), pooling=poolings.get(name, "sum")) for name in NAMES)
    return Slots(
        sparse=("click", *NAMES), labels=("click",), features=features, weight="sample_weight" if weight else None
    )


def engine(kind: Any, given: Slots, *, hyper: dict[str, Any], where: str | None = None, **options: Any) -> Any:
    from umiak.ps.environment import PsSeat
    from umiak.ps.options import SessionOptions
    from umiak.ps.sessions import Session
    from umiak.ps.strategies import Sync
    from umiak.train.engines.engine import EngineOptions
    from umiak.train.engines.paddle import PaddleEngine

    learning = options.pop("learning", Learning(rule="sgd", settings={"learning_rate": RATE}))
    return PaddleEngine(
        kind,
        given,
        job=Session(PsSeat(), Sync(), SessionOptions()),
        options=EngineOptions(learning=learning, seed=3, **options),
        hyper_parameters=hyper,
        where=where,
    )


def of_zoo(name: str) -> Any:
    from umiak.train.engines.paddle import load_model

    return load_model(str(ZOO / name / "model.py"))


def batches(seed: int, *, longest: int = 4) -> list[tuple[Any, dict[str, list[list[int]]]]]:
    """Batches with samples of no id, of one, and of the same one twice."""
    from umiak.train.reading.batches import Arrays

    draw, found = np.random.default_rng(seed), []
    for _ in range(STEPS):
        size = int(draw.integers(3, 9))
        ids = {
            name: [draw.integers(0, IDS, int(draw.integers(0, longest + 1))).tolist() for _ in range(size)]
            for name in NAMES
        }
        clicks, weights = draw.integers(0, 2, size), draw.random(size) * 3
        one_each = np.arange(size + 1)
        sparse: dict[str, Any] = {"click": (clicks.astype(np.int64), one_each), "sample_weight": (weights, one_each)}
        for name, rows in ids.items():
            flat = np.array([each for row in rows for each in row], np.int64)
            sparse[name] = (flat, np.cumsum([0, *map(len, rows)]).astype(np.int64))
        found.append((Arrays(size=size, dense={}, sparse=sparse), ids))
    return found


def plain_losses(
    trained: Any, given: Slots, data: list[Any], *, decay: float, classes: tuple[float, float]
) -> list[float]:
    """The same linear model, written down with `paddle.nn` and lists. Rows that a batch has decay, those of others do not."""
    import paddle

    tables, everything = {}, np.arange(IDS, dtype=np.int64)
    for each, names in zip(trained.model.flat.embeddings, trained.model.flat.by_dim.values(), strict=True):
        rows = trained.job.client.pull(each.number, everything, create=False)
        shared = paddle.create_parameter(rows.shape, "float32")
        shared.set_value(rows)
        tables |= dict.fromkeys(names, shared)
    weight, bias = (each.numpy() for each in trained.model.tower.parameters())
    top = paddle.nn.Linear(*weight.shape)
    top.weight.set_value(weight)
    top.bias.set_value(bias)
    parameters = [*{id(each): each for each in tables.values()}.values(), *top.parameters()]
    optimizer, losses = paddle.optimizer.SGD(RATE, parameters=parameters), []
    poolings = {each.name: each.pooling for each in given.features}
    order = [name for names in trained.model.flat.by_dim.values() for name in names]
    for batch, ids in data:
        lines = []
        for sample in range(batch.size):
            parts = []
            for name in order:
                own = ids[name][sample]
                rows = tables[name][paddle.to_tensor(own, "int64")] if own else paddle.zeros([1, tables[name].shape[1]])
                how = {"sum": paddle.sum, "mean": paddle.mean, "max": paddle.max}[poolings[name]]
                parts.append(how(rows, axis=0))
            lines.append(paddle.concat(parts))
        labels = batch.sparse["click"][0].astype(np.float32)
        each_loss = paddle.nn.functional.binary_cross_entropy_with_logits(
            top(paddle.stack(lines))[:, 0], paddle.to_tensor(labels), reduction="none"
        )
        counts = np.where(labels > 0, classes[1], classes[0])
        if given.weight:
            counts = counts * batch.sparse["sample_weight"][0]
        loss = (each_loss * paddle.to_tensor(counts.astype(np.float32))).mean()
        losses.append(float(loss))
        for table in {id(each): each for each in tables.values()}.values():
            there = {key for name in order if tables[name] is table for row in ids[name] for key in row}
            loss = loss + decay / 2 * (table[paddle.to_tensor(sorted(there), "int64")] ** 2).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    return losses


CASES: list[tuple[dict[str, str], dict[str, int], bool, Objective, EmbeddingTables]] = [
    ({"a": "mean"}, {}, False, Objective(), EmbeddingTables.SHARED),
    ({"a": "mean", "b": "max"}, {"b": 2}, False, Objective(), EmbeddingTables.SHARED),
    ({"a": "max", "b": "max", "c": "max"}, {"a": 5, "b": 5, "c": 5}, False, Objective(), EmbeddingTables.SHARED),
    (
        {"a": "max", "c": "mean"},
        {"a": 1, "c": 2},
        True,
        Objective(class_weights={"": (1.0, 4.0)}),
        EmbeddingTables.SHARED,
    ),
    ({}, {}, True, Objective(embedding_decay=0.2), EmbeddingTables.SHARED),
    (
        {"b": "mean"},
        {},
        False,
        Objective(class_weights={"click": (0.5, 3.0)}, embedding_decay=0.1),
        EmbeddingTables.SHARED,
    ),
]


@pytest.mark.parametrize(("poolings", "dims", "weight", "objective", "kept"), CASES)
def test_the_same_losses_as_in_plain_paddle(
    made: list[Any],
    poolings: dict[str, str],
    dims: dict[str, int],
    weight: bool,
    objective: Objective,
    kept: EmbeddingTables,
) -> None:
    given = slots(poolings, dims, weight=weight)
    trained = engine(of_zoo("rank/dnn"), given, hyper={"sparse_feature_dim": 3, "fc_sizes": []}, objective=objective)
    made.append(trained)
    assert [each.dim for each in trained.embeddings.made] == list(dict.fromkeys([dims.get(name, 3) for name in NAMES]))
    data = batches(len(poolings) + 10 * len(dims))
    classes = next(iter(objective.class_weights.values()), (1.0, 1.0))
    plain = plain_losses(trained, given, data, decay=objective.embedding_decay or 0.0, classes=classes)  # type: ignore[arg-type]
    losses = [trained.learn(batch, trained.metric_set(), step=step) for step, (batch, _) in enumerate(data)]
    np.testing.assert_allclose(losses, plain, rtol=1e-4, atol=1e-5)
    assert len({round(each, 3) for each in losses}) > STEPS // 2


@pytest.mark.parametrize("kept", [EmbeddingTables.SHARED, EmbeddingTables.PER_SLOT])
def test_an_inference_model_pools_as_training_does(made: list[Any], kept: EmbeddingTables) -> None:
    import paddle

    from umiak.train.modeling.inputs import ServedInputs, filled_up

    given = slots({"a": "mean", "b": "max"}, {"c": 2}, weight=False)
    trained = engine(of_zoo("rank/dnn"), given, hyper={"sparse_feature_dim": 3, "fc_sizes": []}, embedding_tables=kept)
    made.append(trained)
    data = batches(7)
    for step, (batch, _) in enumerate(data):
        trained.learn(batch, trained.metric_set(), step=step)
    batch, everything = data[0][0], np.arange(IDS, dtype=np.int64)
    told = trained.predict(batch)["probability"]
    import contextlib

    with contextlib.ExitStack() as served, paddle.no_grad():
        for each in trained.embeddings.made:
            rows = trained.job.client.pull(each.number, everything, create=False)
            served.enter_context(each.served(everything, rows))
        tensors = {name: paddle.to_tensor(filled_up(*batch.sparse[name], name).ids) for name in NAMES}
        found = trained.model(ServedInputs(tensors, given))["probability"].numpy()
    np.testing.assert_allclose(found, told, atol=1e-6)


def test_dropout_leaves_out_a_share_in_training_only(made: list[Any]) -> None:
    given = slots({}, {}, weight=False)
    kind, seen = of_zoo("rank/dnn"), []

    class Watched(kind):  # type: ignore[misc,valid-type]
        def logit(self, inputs: Any) -> Any:
            seen.append(self.flat(inputs).numpy())
            return super().logit(inputs)

    trained = engine(
        Watched, given, hyper={"sparse_feature_dim": 8, "fc_sizes": []}, objective=Objective(embedding_dropout=0.5)
    )
    made.append(trained)
    (batch, _), *_ = batches(3, longest=4)
    rng = np.random.default_rng(1)
    size = 400
    whole = np.arange(size + 1)
    sparse = {name: (rng.integers(0, IDS, size), whole) for name in NAMES}
    batch = type(batch)(size=size, dense={}, sparse={"click": (rng.integers(0, 2, size), whole), **sparse})
    trained.evaluate(batch, trained.metric_set())
    trained.learn(batch, trained.metric_set(), step=0)
    trained.evaluate(batch, trained.metric_set())
    before, during, after = (each for each in seen)
    assert (before == 0).all(), "no row was there"
    share = float((during == 0).mean())
    assert 0.45 < share < 0.55
    assert (after != 0).all()


# ---- what would have no effect


def refused(made: list[Any], kind: Any, given: Slots, where: str | None = None, **options: Any) -> UmiakError:
    trained = engine(kind, given, where=where, **options)
    made.append(trained)
    with pytest.raises(UmiakError) as caught:
        trained.learn(batches(1)[0][0], trained.metric_set(), step=0)
    return caught.value


CONFIG = """\
features:
  defaults: {pooling: mean}
  columns:
  - {name: a, kind: id, dim: 5}
  - name: [b, c]
    kind: id
    dim: 4
"""


def test_another_dim_is_refused_with_its_line_where_vectors_are_multiplied(made: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    hyper = {"sparse_feature_dim": 3, "fc_sizes": []}
    error = refused(
        made, of_zoo("rank/deepfm"), slots({}, {"a": 5, "b": 4, "c": 4}, weight=False), str(path), hyper=hyper
    )
    assert [each.code for each in error.problems] == ["UM-TRAIN-603"] * 3
    assert [each.where for each in error.problems] == [f"{path}:4:25", f"{path}:7:5", f"{path}:7:5"]
    assert "feature b has `dim: 4`, and the model looks up vectors of 1 and 3 numbers" in error.problems[1].what


@pytest.mark.parametrize("name", ["rank/fm", "rank/deepfm", "rank/xdeepfm"])
def test_one_dim_of_all_features_is_the_models(made: list[Any], name: str) -> None:
    hyper = {"sparse_feature_dim": 3} | (
        {}
        if name == "rank/fm"
        else {"fc_sizes": [4]}
        if "x" not in name
        else {"layer_sizes_cin": [4], "layer_sizes_dnn": [4]}
    )
    trained = engine(of_zoo(name), slots({}, {"a": 5, "b": 5}, weight=False), hyper=hyper)
    made.append(trained)
    trained.learn(batches(1)[0][0], trained.metric_set(), step=0)
    assert {each.dim for each in trained.embeddings.made} == {1, 5}


def test_classes_that_a_loss_does_not_weigh_are_refused(made: list[Any]) -> None:
    kind = of_zoo("rank/dnn")

    class Own(kind):  # type: ignore[misc,valid-type]
        def loss(self, results: Any, inputs: Any) -> Any:
            from umiak.models import cross_entropy

            return inputs.mean(cross_entropy(results["logit"], inputs.numbers("click")))

    hyper = {"sparse_feature_dim": 3, "fc_sizes": []}
    for weights, named in (({"click": (1.0, 2.0)}, "click"), ({"": (1.0, 2.0)}, "its labels")):
        error = refused(made, Own, slots({}, {}, weight=False), hyper=hyper, objective=Objective(class_weights=weights))
        (problem,) = error.problems
        assert (problem.code, f"the classes of {named}" in problem.what) == ("UM-TRAIN-604", True)


def test_a_class_without_a_weight_is_refused(made: list[Any]) -> None:
    kind = of_zoo("rank/dnn")

    class Own(kind):  # type: ignore[misc,valid-type]
        strict_labels = False

    trained = engine(
        Own,
        slots({}, {}, weight=False),
        hyper={"sparse_feature_dim": 3, "fc_sizes": []},
        objective=Objective(class_weights={"": (1.0, 2.0)}),
    )
    made.append(trained)
    batch, _ = batches(1)[0]
    batch.sparse["click"][0][1] = 2
    with pytest.raises(UmiakError, match="a class that has no weight: 2"):
        trained.learn(batch, trained.metric_set(), step=0)
