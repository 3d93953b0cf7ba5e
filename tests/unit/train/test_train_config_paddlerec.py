"""Configs of PaddleRec 2: which form a model is in, keys that only its code reads, and the dictionary that the code gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.train_helpers import FLAT, LIBRARY
from umiak.train.config import layouts, load
from umiak.train.config.layouts import Reading
from umiak.train.config.paddlerec.directory import ModelDirectory, ModelForm, directory
from umiak.train.config.paddlerec.dotted import dotted
from umiak.train.config.values import DatasetType

DYGRAPH = directory({"dygraph_model.py": "class DygraphModel():\n", "net.py": "", "criteo_reader.py": ""})


def read(text: str, *said: str, beside: ModelDirectory = DYGRAPH) -> Reading:
    return layouts.read(text, source="c.yaml", directory="/m", library=LIBRARY, said=said, beside=beside)


@pytest.mark.parametrize(
    ("names", "said", "expected"),
    [
        (["model.py", "dygraph_model.py"], None, ("model.py", ModelForm.OWN)),
        (["dygraph_model.py", "static_model.py"], None, ("dygraph_model.py", ModelForm.DYGRAPH)),
        (["static_model.py"], None, ("static_model.py", ModelForm.STATIC)),
        (["model.py", "dygraph_model.py"], "dygraph_model.py", ("dygraph_model.py", ModelForm.DYGRAPH)),
        (["model.py"], "other.py", ("other.py", ModelForm.OWN)),
        ([], None, ("model.py", ModelForm.OWN)),
    ],
)
def test_the_files_beside_a_config_say_its_form(
    names: list[str], said: str | None, expected: tuple[str, ModelForm]
) -> None:
    assert directory(dict.fromkeys(names, "")).model(said) == expected


def test_a_file_of_any_name_with_the_class_is_one() -> None:
    assert directory({"mine.py": "import paddle\nclass DygraphModel:\n"}).model("mine.py")[1] is ModelForm.DYGRAPH


def test_a_directory_with_a_dygraph_model_trains_with_it() -> None:
    found = read(FLAT)
    assert found.problems == ()
    assert found.config is not None
    assert found.config.phase("train").model == "/m/dygraph_model.py"
    dataset = found.config.dataset("train")
    assert dataset.type is DatasetType.REC_DATASET
    assert dataset.reads_files
    assert dataset.data_converter == "/m/criteo_reader.py"
    assert dataset.reader_class == "RecDataset"
    assert not dataset.drop_last


def test_without_a_reader_the_module_is_reader() -> None:
    found = read(FLAT.replace('  train_reader_path: "criteo_reader"\n', ""))
    assert found.config is not None
    assert found.config.dataset("train").data_converter == "/m/reader.py"


def test_without_a_batch_size_the_reader_gives_batches() -> None:
    found = read(FLAT.replace("  train_batch_size: 512\n", ""))
    assert found.config is not None
    assert found.config.dataset("train").ready_batches


def test_slots_replace_the_reader() -> None:
    found = read(FLAT, "runner.sparse_slots=click 1 2", "runner.dense_slots=dense_feature:13")
    assert found.config is not None
    assert not found.config.dataset("train").reads_files
    assert found.config.phase("train").model == "/m/dygraph_model.py"


OTHER_KEYS = """
  is_train: 1
  word_count_dict_path: "data/dict"
  sync_mod: async
  hyper_parameters.x: 3
  nested: {a: [1, 2]}
optimizer:
  weight_decay: 0.1
  nesterov: true
"""


def test_keys_of_the_model_and_its_reader_are_passed_on() -> None:
    text = FLAT.replace("\nhyper_parameters:", f"{OTHER_KEYS}\nhyper_parameters:").replace("class: Adam", "class: Lion")
    found = read(text)
    assert found.problems == ()
    assert [each.hint for each in found.warnings] == ["if `sync_mode` was meant, write that"]


def test_a_model_of_our_own_stays_strict() -> None:
    found = read(FLAT.replace("epochs: 3", "epochz: 3"), beside=ModelDirectory(names=("model.py",)))
    assert any("epochz" in each.what for each in found.problems)


def test_static_programs_are_told_what_runs_them() -> None:
    found = read(FLAT, beside=directory({"static_model.py": "class StaticModel:\n"}))
    assert [each.code for each in found.problems] == ["UM-CONFIG-025"]
    assert "tools/static_ps_trainer.py" in (found.problems[0].hint or "")


def test_a_model_that_knows_its_batch_size_gets_full_batches() -> None:
    beside = directory({"dygraph_model.py": 'config.get("runner.train_batch_size", 2)'})
    found = read(FLAT, beside=beside)
    assert found.config is not None
    assert found.config.dataset("train").drop_last
    again = read(FLAT, "runner.drop_last=false", beside=beside)
    assert again.config is not None
    assert not again.config.dataset("train").drop_last


def _dotted(text: str, *said: str) -> dict[str, object]:
    found = read(text, *said)
    assert found.config is not None, found.problems
    return dotted(layouts.written(text, found.config, source="c.yaml", said=said), "/m/c.yaml")


def test_code_gets_dotted_keys_and_lists() -> None:
    made = _dotted(FLAT)
    assert made["runner.train_batch_size"] == 512
    assert made["hyper_parameters.fc_sizes"] == [512, 256, 128, 32]
    assert made["hyper_parameters.optimizer.learning_rate"] == 0.001
    assert made["config_abs_dir"] == "/m"
    assert made["yaml_path"] == "/m/c.yaml"


def test_overrides_have_the_types_that_paddlerec_gives_them() -> None:
    said = (
        "runner.epochs=1",
        "runner.use_gpu=False",
        "hyper_parameters.optimizer.learning_rate=1",
        "hyper_parameters.fc_sizes=[4, 2]",
        "runner.CE=true",
        "runner.train_data_dir=7",
    )
    made = _dotted(FLAT, *said)
    assert made["runner.epochs"] == 1
    assert made["runner.use_gpu"] is False
    assert isinstance(made["hyper_parameters.optimizer.learning_rate"], float)
    assert made["hyper_parameters.fc_sizes"] == [4, 2]
    assert made["runner.CE"] == "true"
    assert made["runner.train_data_dir"] == "7"


def test_the_directory_is_looked_at_where_the_workspace_is(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "dygraph_model.py").write_text("class DygraphModel:\n    pass\n")
    (tmp_path / "config.yaml").write_text(f"workspace: {tmp_path}/there\n{FLAT}")
    _, found = load.load(str(tmp_path / "config.yaml"), library=LIBRARY)
    assert found.config is not None
    assert found.config.phase("train").model == f"{tmp_path}/there/dygraph_model.py"
