"""Every model of the zoo learns what was planted in its sample data, and answers as a model for serving what it answered in training."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import forked_trials, plain_inference
from umiak import ps
from umiak.cli.main import main
from umiak.core.problem import UmiakError
from umiak.core.value import replace, value
from umiak.models import sample
from umiak.models.sample import models
from umiak.train import reading
from umiak.train.config import load
from umiak.train.config.values import Dataset

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]

SMALL = {"sparse_feature_dim": 8, "fc_sizes": [32, 16]}


@value
class Trial:
    """How a model is tried: smaller than its config has it where that takes long."""

    epochs: int
    hyper: dict[str, Any] = {}
    rate: float = 0.005
    margin: float = 0.02
    """How far from the best AUC it may stay."""


TRIALS = {
    "rank.lr": Trial(epochs=1, rate=0.02, margin=0.01),
    "rank.fm": Trial(epochs=4, hyper={"sparse_feature_dim": 4}, rate=0.003),
    "rank.dnn": Trial(epochs=3, hyper=SMALL),
    "rank.wide_deep": Trial(epochs=4, hyper=SMALL, rate=0.01),
    "rank.deepfm": Trial(epochs=3, hyper={**SMALL, "sparse_feature_dim": 4}, rate=0.003),
    "rank.dcn": Trial(epochs=2, hyper=SMALL),
    "rank.dcn_v2": Trial(epochs=2, hyper={**SMALL, "low_rank": 8, "num_experts": 2}),
    "rank.xdeepfm": Trial(
        epochs=3, hyper={"sparse_feature_dim": 4, "layer_sizes_cin": [4, 4], "layer_sizes_dnn": [16]}
    ),
    "rank.dlrm": Trial(
        epochs=3,
        hyper={"sparse_feature_dim": 8, "bot_layer_sizes": [64, 8], "top_layer_sizes": [64, 32, 2]},
        rate=0.003,
    ),
    "rank.din": Trial(
        epochs=1, hyper={"item_emb_size": 8, "cat_emb_size": 8, "attention_sizes": [16], "fc_sizes": [32]}, rate=0.01
    ),
    "recall.word2vec": Trial(epochs=4, hyper={"sparse_feature_dim": 8}, rate=0.01),
    "recall.ncf": Trial(epochs=2),
    "match.dssm": Trial(epochs=2, hyper={"sparse_feature_dim": 16, "fc_sizes": [32, 16]}, rate=0.01),
    "multitask.mmoe": Trial(epochs=2, hyper={"sparse_feature_dim": 4, "expert_num": 4}),
    "multitask.esmm": Trial(epochs=2, hyper={"sparse_feature_dim": 4, "ctr_fc_sizes": [32], "cvr_fc_sizes": [32]}),
}


@value
class Learned:
    """A model that has learned its sample."""

    engine: Any
    train: Dataset
    test: Dataset
    reached: dict[str, float]
    best: dict[str, float]
    margin: float


def test_every_model_is_tried() -> None:
    assert sorted(TRIALS) == sorted(models())


def learn(model: str, directory: Path, trial: Trial) -> Learned:
    from umiak.train.engines.engine import EngineOptions
    from umiak.train.engines.paddle import PaddleEngine, load_model
    from umiak.train.modeling import Slots

    best = importlib.import_module(f"umiak.models.{model}.sample").make(str(directory))
    _, found = load.load(f"umiak.models.{model}", [f"hyper_parameters.optimizer.learning_rate={trial.rate}"])
    assert found.config
    train, test = (
        replace(found.config.dataset(f"{part}_data"), data_path=str(directory / part)) for part in ("train", "test")
    )
    engine = PaddleEngine(
        load_model(found.config.phase("train").model),
        Slots(sparse=train.sparse_slots, dense=train.dense_slots),
        job=ps.init("sync"),
        options=EngineOptions(learning=found.config.learning, seed=1),
        hyper_parameters={**found.config.hyper_parameters, **trial.hyper},
    )
    step, learning, judging = 0, engine.metric_set(), engine.metric_set()
    for epoch in range(trial.epochs):
        with reading.read(train, reading.find(train), epoch=epoch) as samples:
            for batch in samples:
                engine.learn(batch, learning, step=step)
                step += 1
    with reading.read(test, reading.find(test)) as samples:
        for batch in samples:
            engine.evaluate(batch, judging)
    reached = judging.readings().epoch
    return Learned(engine=engine, train=train, test=test, reached=reached, best=best, margin=trial.margin)


@pytest.fixture(scope="module", params=sorted(TRIALS))
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learn(request.param, tmp_path_factory.mktemp("sample"), TRIALS[request.param])


def first_batch(dataset: Dataset) -> Any:
    with reading.read(dataset, reading.find(dataset)) as samples:
        return next(iter(samples))


def all_rows(learned: Learned) -> Callable[[Any], tuple[Any, Any]]:
    """Rows of every id of the training data, for `export`."""
    with reading.read(learned.train, reading.find(learned.train)) as samples:
        ids = [np.unique(np.concatenate([each for each, _ in batch.sparse.values()])) for batch in samples]
    keys = np.unique(np.concatenate(ids)).astype(np.uint64)
    client = learned.engine.job.client
    return lambda embedding: (keys, client.pull(embedding.number, keys, create=False))


def given(exported: Any, batch: Any) -> dict[str, Any]:
    """A batch as the exported model takes it."""
    return {
        each.name: np.ascontiguousarray(
            batch.dense[each.name] if each.kind == "dense" else padded(*batch.sparse[each.name], each.padding)
        )
        for each in exported.inputs
    }


def answers(exported: Any, batch: Any) -> dict[str, Any]:
    from paddle import inference

    config = inference.Config(f"{exported.path}/inference.json", f"{exported.path}/inference.pdiparams")
    config.disable_glog_info()
    predictor = inference.create_predictor(config)
    assert predictor.get_input_names() == [each.name for each in exported.inputs]
    for name, numbers in given(exported, batch).items():
        predictor.get_input_handle(name).copy_from_cpu(numbers)
    predictor.run()
    tensors = [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]
    return {each.name: tensor for each, tensor in zip(exported.outputs, tensors, strict=True)}


def padded(ids: np.ndarray, offsets: np.ndarray, padding: int) -> np.ndarray:
    rows = np.split(ids, offsets[1:-1])
    # One column more than needed: a served model has any width.
    matrix = np.full((len(rows), 1 + max(map(len, rows))), padding, np.int64)
    for number, row in enumerate(rows):
        matrix[number, : len(row)] = row
    return matrix


def test_a_model_comes_near_the_best(learned: Learned) -> None:
    for judge, best in learned.best.items():
        # Its own AUC is of 4096 bins, and a model may be lucky.
        assert best - learned.margin < learned.reached[judge] < best + 0.003, judge


def test_a_served_model_answers_alike(learned: Learned, tmp_path: Path) -> None:
    from umiak.train.engines import paddle_export

    engine = learned.engine
    batch = first_batch(learned.test)
    exported = paddle_export.export(engine, str(tmp_path / "served"), all_rows(learned))
    expected = engine.predict(batch)
    found = answers(exported, batch)
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        assert np.ptp(numbers) > 0.1, f"{name} says the same of everything"
        assert np.abs(found[name] - numbers).max() < 1e-5, name
    prefix = f"{exported.path}/inference"
    plain = plain_inference.predictions({prefix: given(exported, batch)})[prefix]
    for way in plain_inference.WAYS:
        for each, numbers in zip(exported.outputs, plain[way], strict=True):
            assert np.abs(numbers - expected[each.name]).max() < 1e-5, f"{each.name}, loaded by {way}"
    labels = {judge.label for judge in engine.model.metrics().values()}
    assert labels.isdisjoint(each.name for each in exported.inputs)


@pytest.mark.parametrize("model", sorted(TRIALS))
def test_a_model_with_a_table_for_each_slot(model: str, tmp_path: Path) -> None:
    """It learns a batch, and answers it alike as a model for serving. Tables that a model shares on purpose are one."""
    from umiak.train.config.values import EmbeddingTables
    from umiak.train.engines import paddle_export
    from umiak.train.engines.engine import EngineOptions
    from umiak.train.engines.paddle import PaddleEngine, load_model
    from umiak.train.modeling import Slots

    importlib.import_module(f"umiak.models.{model}.sample").make(str(tmp_path), samples=300)
    _, found = load.load(f"umiak.models.{model}")
    assert found.config
    train = replace(found.config.dataset("train_data"), data_path=str(tmp_path / "train"))
    engine = PaddleEngine(
        load_model(found.config.phase("train").model),
        Slots(sparse=train.sparse_slots, dense=train.dense_slots),
        job=ps.init("sync"),
        options=EngineOptions(learning=found.config.learning, seed=1, embedding_tables=EmbeddingTables.PER_SLOT),
        hyper_parameters={**found.config.hyper_parameters, **TRIALS[model].hyper},
    )
    names = [each.table for each in engine.embeddings.made]
    assert len({*names}) == len(names)
    batch = first_batch(train)
    engine.learn(batch, engine.metric_set(), step=0)
    for each in engine.embeddings.made:
        table, dot, slot = each.table.partition(".")
        assert not dot or {*batch.sparse[slot][0]}, f"table {table} of a slot that no sample has"
    keys = np.unique(np.concatenate([ids for ids, _ in batch.sparse.values()])).astype(np.uint64)
    client = engine.job.client
    exported = paddle_export.export(
        engine, str(tmp_path / "served"), lambda each: (keys, client.pull(each.number, keys, create=False))
    )
    paddle_export.check(exported, engine, batch)
    labels = {judge.label for judge in engine.model.metrics().values()}
    assert labels.isdisjoint(name.rpartition(".")[2] for name in names)


@pytest.mark.parametrize("model", sorted(TRIALS))
def test_a_config_has_no_mistakes(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With its sample data, and importing the model."""
    monkeypatch.chdir(tmp_path)
    assert sample.main([model, "--samples", "300"]) == 0
    capsys.readouterr()
    with forked_trials.installed():
        assert main(["train", "-m", f"umiak.models.{model}", "-o", "mode=[single,ps,collective,infer]", "--check"]) == 0
    assert main(["train", "-m", f"umiak.models.{model}", "--explain"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "config.yaml: nothing is wrong: " not in line] == []


@pytest.mark.parametrize("model", sorted(TRIALS))
def test_a_model_knows_the_hyper_parameters_of_its_config(model: str) -> None:
    from umiak.train.engines import hyper
    from umiak.train.engines.paddle import load_model

    _, found = load.load(f"umiak.models.{model}")
    assert found.config
    kind = load_model(found.config.phase("train").model)
    hyper.typed(kind.Hyper, found.config.hyper_parameters)
    hyper.typed(kind.Hyper, TRIALS[model].hyper)


# ---- exports


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learn("rank.fm", tmp_path_factory.mktemp("small"), Trial(epochs=1, hyper={"sparse_feature_dim": 4}))


def test_an_export_says_what_goes_in_and_what_comes_out(small: Learned, tmp_path: Path) -> None:
    from umiak.train.engines import paddle_export

    path = tmp_path / "served"
    exported = paddle_export.export(small.engine, str(path), all_rows(small), ["dense_var", "26"], ["probability"])
    said = json.loads((path / "signature.json").read_text())
    assert sorted(each.name for each in path.iterdir()) == ["inference.json", "inference.pdiparams", "signature.json"]
    assert [each["name"] for each in said["inputs"]] == ["dense_var", *map(str, range(1, 27))]
    assert said["inputs"][:2] == [
        {"name": "dense_var", "kind": "dense", "dtype": "float32", "shape": [None, 13]},
        {"name": "1", "kind": "sparse", "dtype": "int64", "shape": [None, None], "padding": -1},
    ]
    assert said["outputs"] == [{"name": "probability", "dtype": "float32", "shape": [None, 1]}]
    assert exported.path == str(path)


def test_an_export_takes_the_place_of_an_older_one_and_of_an_unfinished_one(small: Learned, tmp_path: Path) -> None:
    from umiak.train.engines import paddle_export

    for name in ("served", "served.partial", "served.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rubbish").write_text("")
    paddle_export.export(small.engine, str(tmp_path / "served"), all_rows(small))
    assert [each.name for each in tmp_path.iterdir()] == ["served"]
    assert not (tmp_path / "served" / "rubbish").exists()


def test_learning_goes_on_after_an_export(small: Learned, tmp_path: Path) -> None:
    from umiak.train.engines import paddle_export

    engine, batch = small.engine, first_batch(small.train)
    paddle_export.export(engine, str(tmp_path / "served"), all_rows(small))
    before = engine.predict(batch)["probability"]
    engine.learn(batch, engine.metric_set(), step=10_000)
    assert np.abs(engine.predict(batch)["probability"] - before).max() > 1e-4


def test_an_unknown_id_reads_as_zeros_in_a_served_model(small: Learned, tmp_path: Path) -> None:
    from umiak.train.engines import paddle_export

    served = paddle_export.export(small.engine, str(tmp_path / "served"), all_rows(small))
    without_rows = paddle_export.export(
        small.engine,
        str(tmp_path / "none"),
        lambda embedding: (np.empty(0, np.uint64), np.empty((0, embedding.dim), np.float32)),
    )
    known = Path(small.test.data_path, "part-0000").read_text()
    (tmp_path / "unknown").write_text(re.sub(r"(?<= )(\d+):\d+", r"\1:1234567", known))
    batch, unknown = first_batch(small.test), first_batch(replace(small.test, data_path=str(tmp_path / "unknown")))
    found = answers(served, unknown)["probability"]
    assert np.array_equal(found, answers(without_rows, batch)["probability"])
    assert np.abs(found - small.engine.predict(unknown)["probability"]).max() < 1e-6, "evaluation and serving are alike"
    assert np.abs(found - answers(served, batch)["probability"]).max() > 0.1


def test_names_that_are_not_there_are_told_and_nothing_is_written(small: Learned, tmp_path: Path) -> None:
    from umiak.train.engines import paddle_export

    with pytest.raises(UmiakError) as caught:
        paddle_export.export(
            small.engine, str(tmp_path / "served"), all_rows(small), ["click", "dense"], ["probabilities"]
        )
    assert {problem.code for problem in caught.value.problems} == {"UM-TRAIN-015"}
    told = [problem.what for problem in caught.value.problems]
    assert told == [
        "the inference model has no input click",
        "the inference model has no input dense",
        "the inference model has no output probabilities",
    ]
    assert "probability" in (caught.value.problems[2].hint or "")
    assert [*tmp_path.iterdir()] == []
