"""Configs whose data is tables: the section `features:`, and the keys that go with it, in both layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from umiak.core.problem import UmiakError
from umiak.train.config import layouts, load, writing
from umiak.train.config.objectives.settings import Objective
from umiak.train.config.slots import DenseSlot
from umiak.train.config.values import TrainConfig

FEATURES = """
features:
  label: clk
  weight: w
  time: ts
  group: uid
  columns:
  - {name: user, kind: id, from: uid}
  - {name: price, kind: number}
  - {name: tags, kind: id, list: true, hash: 100}
  - {name: pic, kind: vector, dim: 3}
  - {name: hidden, kind: id, only_crossed: true}
  - {name: both, kind: cross, of: [user, hidden]}
"""
FLAT = """
runner:
  model: rank.deepfm
  train_data_dir: "logs/*.parquet"
  train_batch_size: 64
  epochs: 2
  evaluate_share: 0.25
  bad_rows: 0.01
"""


def read(tmp_path: Path, text: str) -> layouts.Reading:
    (tmp_path / "config.yaml").write_text(text)
    return load.load(str(tmp_path))[1]


def config(tmp_path: Path, text: str) -> TrainConfig:
    found = read(tmp_path, text)
    assert not found.problems
    assert found.config is not None
    return found.config


def told(tmp_path: Path, text: str) -> list[str]:
    return [f"{each.code} {each.what}" for each in read(tmp_path, text).problems]


def test_slots_are_labels_then_ids_and_numbers_are_dense(tmp_path: Path) -> None:
    made = config(tmp_path, FLAT + FEATURES)
    dataset = made.dataset("train")
    assert dataset.sparse_slots == ("clk", "user", "tags", "both")
    assert dataset.dense_slots == (DenseSlot(name="price", shape=(1,)), DenseSlot(name="pic", shape=(3,)))
    assert not dataset.has_slots
    assert not dataset.reads_files
    assert dataset.bad_rows == 0.01


def test_a_share_of_the_rows_is_evaluated_on_and_not_trained_on(tmp_path: Path) -> None:
    made = config(tmp_path, FLAT + FEATURES)
    assert made.dataset("train").rows_share == (0.0, 0.75)
    assert made.dataset("evaluate").rows_share == (0.75, 1.0)
    assert made.runner("train").evaluation is not None
    assert made.dataset("evaluate").batch_size == 64
    assert made.dataset("evaluate").data_path == made.dataset("train").data_path == f"{tmp_path}/logs/*.parquet"


@pytest.mark.parametrize(
    ("said", "train", "evaluated"),
    [
        ("evaluate_after: 2026-01-02", (1767312000.0, None), (None, 1767312000.0)),
        ("train_until: 2026-01-02T00:00:10", (1767312010.0, None), (None, 1767312010.0)),
        ("train_until: 10\n  evaluate_after: 20", (10.0, None), (None, 20.0)),
    ],
)
def test_later_rows_are_evaluated_on(tmp_path: Path, said: str, train: object, evaluated: object) -> None:
    made = config(tmp_path, FLAT.replace("evaluate_share: 0.25", said) + FEATURES)
    rows = made.dataset("train"), made.dataset("evaluate")
    assert [(each.rows_before, each.rows_after) for each in rows] == [train, evaluated]


def test_files_of_their_own_are_evaluated_on_as_a_whole(tmp_path: Path) -> None:
    said = "evaluate_after: 10\n  evaluate_data_dir: days\n  early_stop_patience: 2"
    made = config(tmp_path, FLAT.replace("evaluate_share: 0.25", said) + FEATURES)
    evaluated = made.dataset("evaluate")
    assert (evaluated.data_path, evaluated.rows_after) == (f"{tmp_path}/days", None)
    assert made.runner("train").evaluation.patience == 2  # type: ignore[union-attr]


def test_inference_reads_what_was_kept_back_or_files_of_its_own(tmp_path: Path) -> None:
    infer = FLAT + "  infer_load_path: out\nmode: [infer]\n" + FEATURES
    assert config(tmp_path, infer).dataset("infer").rows_share == (0.75, 1.0)
    own = config(tmp_path, infer.replace("infer_load_path", "test_data_dir: days\n  infer_load_path")).dataset("infer")
    assert (own.data_path, own.rows_share) == (f"{tmp_path}/days", None)


def test_a_model_of_the_zoo_is_named_without_a_path(tmp_path: Path) -> None:
    model = config(tmp_path, FLAT + FEATURES).phase("train").model
    assert model.endswith("/umiak/models/rank/deepfm/model.py")
    assert Path(model).is_file()


def test_the_older_layout_says_the_same(tmp_path: Path) -> None:
    made = config(tmp_path, FLAT + FEATURES)
    again = config(tmp_path, yaml.safe_dump(writing.plain(made)))
    assert again == made


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("evaluate_share: 0.25", "evaluate_share: 1.5", "rows_share"),
        ("bad_rows: 0.01", "bad_rows: 1.5", "bad_rows: expected a share from 0 to 1"),
        ("  time: ts\n", "", ""),
        ("name: price", "name: clk", "a label and a feature have one name"),
        ("name: price", "name: sample_weight", "the weights of samples have this name"),
        ("kind: number", "kind: numbers", "unknown value: numbers"),
        ("features:", "feature:", "nothing says how a line becomes a sample"),
    ],
)
def test_what_does_not_go_together_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = FLAT + FEATURES
    assert old in text
    found = told(tmp_path, text.replace(old, new))
    assert any(words in each for each in found) if words else not found


def test_rows_by_time_need_a_time(tmp_path: Path) -> None:
    text = FLAT.replace("evaluate_share: 0.25", "evaluate_after: 5") + FEATURES.replace("  time: ts\n", "")
    assert any("the features have no time" in each for each in told(tmp_path, text))


def test_keys_of_tables_without_features_are_told(tmp_path: Path) -> None:
    text = "runner: {train_data_dir: d, train_batch_size: 4, epochs: 1, sparse_slots: 'click 1', bad_rows: 0.5, model: rank.dnn}"
    (warning,) = read(tmp_path, text).warnings
    assert (warning.code, "no effect: bad_rows" in warning.what) == ("UM-CONFIG-018", True)


def test_keys_of_lines_have_no_effect_on_tables(tmp_path: Path) -> None:
    warnings = read(tmp_path, FLAT + "  padding: 3\n" + FEATURES).warnings
    assert ["no effect: padding" in each.what for each in warnings] == [True, True], "of training and of evaluation"


def test_a_time_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UmiakError, match="expected a time"):
        UmiakError.raise_any(read(tmp_path, FLAT + "  train_until: soon\n" + FEATURES).problems)


OBJECTIVE = """
objective:
  class_weights: {clk: [1, 4]}
  embedding_decay: 1e-6
  embedding_dropout: 0.25
"""


def test_an_objective_is_read_and_written_in_both_layouts(tmp_path: Path) -> None:
    made = config(tmp_path, FLAT + FEATURES + OBJECTIVE)
    assert made.objective == Objective(class_weights={"clk": (1.0, 4.0)}, embedding_decay=1e-6, embedding_dropout=0.25)
    assert config(tmp_path, yaml.safe_dump(writing.plain(made))) == made
    every = config(tmp_path, FLAT + FEATURES + "objective: {class_weights: [0.5, 2, 3]}")
    assert every.objective.class_weights == {"": (0.5, 2.0, 3.0)}
    assert config(tmp_path, yaml.safe_dump(writing.plain(every))) == every


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{clk: [1, 4]}", "{clic: [1, 4]}", "UM-CONFIG-015 objective: class_weights: dataset train has no slot clic"),
        ("{clk: [1, 4]}", "4", "class_weights"),
        ("{clk: [1, 4]}", "[4]", "expected a weight for each class"),
        ("{clk: [1, 4]}", "[1, -4]", "numbers from 0 to 1e6"),
        ("{clk: [1, 4]}", "[0, 0]", "one of them is more than 0"),
        ("{clk: [1, 4]}", "[true, 1]", "numbers from 0 to 1e6"),
        ("0.25\n", "1.5\n", "expected a share below 1"),
        ("1e-6", "-1e-6", "embedding_decay"),
        ("embedding_decay", "embeding_decay", ""),
    ],
)
def test_a_wrong_objective_is_told(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in OBJECTIVE
    found = read(tmp_path, FLAT + FEATURES + OBJECTIVE.replace(old, new))
    if words:
        assert any(words in f"{each.code} {each.what}" for each in found.problems), found.problems
        return
    assert any("embeding_decay" in each.what for each in (*found.problems, *found.warnings))


def test_models_in_the_forms_of_paddlerec_have_no_objective_here(tmp_path: Path) -> None:
    (tmp_path / "dygraph_model.py").write_text("class DygraphModel:\n    pass\n")
    text = "runner: {train_data_dir: d, train_batch_size: 4, epochs: 1}" + OBJECTIVE
    (problem,) = read(tmp_path, text).problems
    assert (problem.code, "has its loss" in problem.what) == ("UM-CONFIG-022", True)
    assert str(problem.where).endswith("config.yaml:3:3")
