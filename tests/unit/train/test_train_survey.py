"""`umiak train --survey`: a directory of good and bad configs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from umiak.cli import train
from umiak.cli.output import Printer
from umiak.core.problem import UmiakError
from umiak.train.survey import imports, rows
from umiak.train.survey.look import look
from umiak.train.survey.rows import SurveyReason, SurveyVerdict

CONFIG = """\
runner:
  train_data_dir: data
  train_reader_path: reader
  train_batch_size: 2
  epochs: 1
"""
DYGRAPH = "import paddle\nimport net\n\nclass DygraphModel:\n    pass\n"
READER = "from paddle.io import IterableDataset\n\nclass RecDataset(IterableDataset):\n    pass\n"
OLD = """\
workspace: "{here}"
mode: one
runner:
- {{name: one, class: train, epochs: 1, phases: [p]}}
phase:
- {{name: p, model: "{{workspace}}/model.py", dataset_name: d}}
dataset:
- {{name: d, batch_size: 2, data_path: "{{workspace}}/data", sparse_slots: "click 1"}}
"""


def model(root: Path, name: str, config: str = CONFIG, *, has_data: bool = True, **files: str) -> None:
    directory = root / name
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text(config.format(here=directory) if "{here}" in config else config)
    if has_data:
        (directory / "data").mkdir()
        (directory / "data" / "part-0").write_text("click:1 1:2\n")
    for stem, text in {"dygraph_model": DYGRAPH, "net": "import numpy\n", "reader": READER, **files}.items():
        if text:
            (directory / f"{stem}.py").write_text(text)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    model(tmp_path, "good")
    model(tmp_path, "typo", CONFIG + "  print_intervall: 3\n")
    model(tmp_path, "gpu", CONFIG + "  use_gpu: true\n")
    model(tmp_path, "trainer", trainer="print('runs by itself')\n")
    model(tmp_path, "no_data", has_data=False)
    model(tmp_path, "no_package", net="import nothing_like_this.x\n")
    model(tmp_path, "maybe", net="try:\n    import nothing_like_this\nexcept ImportError:\n    pass\n")
    model(tmp_path, "static", dygraph_model="", static_model="class StaticModel: pass\n")
    model(tmp_path, "fluid", OLD, dygraph_model="", model="import paddle.fluid as fluid\nclass Model: pass\n")
    model(tmp_path, "fluid_net", net="import paddle.fluid\n")
    model(tmp_path, "syntax", reader="def :\n")
    model(tmp_path, "no_class", reader="class Other: pass\n")
    model(tmp_path, "wrong", CONFIG.replace("epochs: 1", "epochs: many"))
    model(tmp_path, "not_yaml", "runner: {\n")
    model(tmp_path, "runs_away", dygraph_model="raise SystemExit('it was run')\n" + DYGRAPH)
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    return tmp_path


def test_each_config_is_judged_with_a_reason(zoo: Path) -> None:
    found = {row.path.removesuffix("/config.yaml"): row for row in look(str(zoo)).rows}
    runs = [name for name, row in found.items() if row.verdict is SurveyVerdict.RUNS]
    remarks = [name for name, row in found.items() if row.verdict is SurveyVerdict.REMARKS]
    assert runs == ["good", "maybe", "runs_away"]
    assert remarks == ["gpu", "trainer", "typo"]
    reasons = {name: row.reasons[0][0] for name, row in found.items() if row.reasons}
    assert reasons == {
        "fluid": SurveyReason.FLUID,
        "fluid_net": SurveyReason.FLUID,
        "no_class": SurveyReason.CODE,
        "no_data": SurveyReason.DATA,
        "no_package": SurveyReason.PACKAGE,
        "not_yaml": SurveyReason.CONFIG,
        "static": SurveyReason.STATIC,
        "syntax": SurveyReason.CODE,
        "wrong": SurveyReason.CONFIG,
    }
    assert "package nothing_like_this is not installed" in found["no_package"].line
    assert "tools/static_ps_trainer.py" in found["static"].line
    assert "print_intervall" in found["typo"].line


def test_the_total_counts_all(zoo: Path) -> None:
    made = look(str(zoo))
    assert made.others == 1
    assert made.total.startswith("15 configs: 3 run, 3 run with remarks, 9 do not run (")
    assert rows.text(made).splitlines()[-1] == made.total


def test_the_command_prints_lines_or_json(zoo: Path) -> None:
    out = io.StringIO()
    assert train.main(["--survey", str(zoo)], {}, Printer(out, io.StringIO())) == 0
    assert "good/config.yaml: runs\n" in out.getvalue()
    out = io.StringIO()
    assert train.main(["--survey", str(zoo), "--json"], {}, Printer(out, io.StringIO())) == 0
    told = json.loads(out.getvalue())
    assert told["total"]["configs"] == 15
    assert {"config": "good/config.yaml", "verdict": "runs", "reasons": [], "remarks": []} in told["configs"]


def test_something_else_than_a_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(UmiakError, match="not a directory"):
        look(str(tmp_path / "nothing"))


def test_imports_are_read_from_the_text() -> None:
    text = "import a.b\nfrom c import d\nfrom . import e\nif x:\n  import f\ndef g():\n  import h\nif __name__ == '__main__':\n  import i\n"
    assert imports.imported(text) == ("a.b", "c"), "what is imported under a condition may never be"
    assert imports.imported("def :") == ()


def test_models_of_paddlerec_1_8_5_run(tmp_path: Path) -> None:
    code = "import paddle.fluid as fluid\nfrom paddlerec.core.model import ModelBase\n\nclass Model(ModelBase):\n    pass\n"
    model(tmp_path, "old", OLD, dygraph_model="", model=code)
    model(
        tmp_path,
        "derived",
        OLD,
        dygraph_model="",
        model=code.replace("Model(", "Base(") + "class Model(Base):\n    pass\n",
    )
    found = {row.path: row.verdict for row in look(str(tmp_path)).rows}
    assert found == {"old/config.yaml": SurveyVerdict.RUNS, "derived/config.yaml": SurveyVerdict.RUNS}
