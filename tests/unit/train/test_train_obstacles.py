"""What the texts of models and readers say is told before anything is started: missing packages, all at once, and optimizers that servers do not have."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path

import pytest

from tests.unit.train.test_train_survey import DYGRAPH, READER, model
from umiak.cli import train
from umiak.cli.output import Printer
from umiak.core.problem import Exit, UmiakError
from umiak.train.engines import model_text
from umiak.train.survey import rows
from umiak.train.survey.look import look
from umiak.train.survey.packages import PackageLook, command

SHARED = ("-o", "runner.sync_mode=sync", "-o", "runner.server_num=1", "-o", "runner.worker_num=1")
METHODS = """
    def create_model(self, config): pass
    def create_metrics(self): pass
    def train_forward(self, dy_model, metrics, batch, config): pass
    def create_optimizer(self, dy_model, config):
        {}
"""


def refused(root: Path, name: str, *words: str) -> UmiakError:
    """What `umiak train` says before it starts anything."""
    with pytest.raises(UmiakError) as said:
        train.main(["-m", str(root / name / "config.yaml"), *words], {}, Printer(io.StringIO(), io.StringIO()))
    assert not (root / name / "run").exists()
    assert said.value.exit_status == Exit.BAD_REQUEST
    return said.value


@pytest.fixture
def without(tmp_path: Path) -> Path:
    """A model that lacks packages in its own file, in one beside it and in its reader."""
    model(
        tmp_path,
        "ctr",
        dygraph_model="import six_like_this\nimport json\n" + DYGRAPH,
        net="import numpy\n\nimport nltk_like_this.corpus\nimport layers\n",
        layers="from faiss_like_this import Index\nfrom tools_here import x\n",
        reader="import pandas_like_this as pd\nimport six_like_this\n" + READER,
    )
    (tmp_path / "tools_here").mkdir()
    return tmp_path


def test_training_names_all_missing_packages_before_it_starts(without: Path) -> None:
    for words in ((), SHARED, ("--check",)):
        *others, problem = refused(without, "ctr", *words).problems
        assert bool(others) == (words == ("--check",)), "a check imports the model besides"
        assert problem.code == "UM-TRAIN-540"
        names = ["six_like_this", "nltk_like_this", "faiss_like_this", "pandas_like_this"]
        assert problem.what.endswith(f"not installed here: {', '.join(names)}")
        assert problem.hint == f"python -m pip install {' '.join(names)}"
        for place in ("dygraph_model.py:1", "net.py:3", "layers.py:1", "reader.py:1"):
            assert f"{without}/ctr/{place}" in (problem.why or "")


def test_a_survey_lists_them_for_one_config_and_for_many(without: Path) -> None:
    model(without, "other", net="import sklearn_like_this\n")
    made = look(str(without))
    assert made.packages == (
        "six_like_this",
        "nltk_like_this",
        "faiss_like_this",
        "pandas_like_this",
        "sklearn_like_this",
    )
    assert f"  hint: {command(made.packages)}\n" in rows.text(made)
    out = io.StringIO()
    config = str(without / "other" / "config.yaml")
    assert train.main(["--survey", config, "--json"], {}, Printer(out, io.StringIO())) == 0
    told = json.loads(out.getvalue())
    assert told["total"]["packages"] == ["sklearn_like_this"]
    assert told["total"]["install"] == "python -m pip install sklearn_like_this"
    assert [each["config"] for each in told["configs"]] == [config]


def test_packages_are_called_as_pip_calls_them() -> None:
    assert command(("yaml", "six", "sklearn", "cv2")) == "python -m pip install pyyaml six scikit-learn opencv-python"


def test_nothing_is_missing_that_is_caught_or_near(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "helpers_here.py").touch()
    file = inner / "model.py"
    file.write_text(
        "import helpers_here\nimport paddlerec.core\ntry:\n    import not_there\nexcept ImportError:\n    pass\n"
    )
    assert PackageLook().missing(str(file)) == ()


def test_code_that_changes_where_it_imports_from_is_not_refused(tmp_path: Path) -> None:
    file = tmp_path / "dygraph_model.py"
    old = "import sys\nif sys.version_info[0] == 2:\n    import cPickle as pickle\n"
    file.write_text(old + "sys.path.append('/opt/shared')\nimport helpers_of_ours, nltk\n")
    missing = [each.name for each in PackageLook().missing(str(file))]
    assert missing == (["nltk"] if importlib.util.find_spec("nltk") is None else [])
    file.write_text("import helpers_of_ours\n")
    assert [each.name for each in PackageLook().missing(str(file))] == ["helpers_of_ours"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("return paddle.optimizer.Lamb(0.1, parameters=dy_model.parameters())", 10),
        ("rate = 0.1\n        return paddle.optimizer.NAdam(rate)", 11),
        ("return None", None),
        ("return paddle.optimizer.Adam(0.1) if config else paddle.optimizer.Lamb(0.1)", None),
        ("return getattr(paddle.optimizer, config['class'])(paddle.optimizer.Lamb)", None),
    ],
)
def test_an_optimizer_that_servers_do_not_have_is_refused_with_its_line(
    text: str, line: int | None, tmp_path: Path
) -> None:
    source = DYGRAPH.replace("    pass\n", METHODS.format(text))
    model(tmp_path, "ctr", dygraph_model=source)
    named = model_text.named_optimizers(source)
    if line is None:
        assert not named or any(name in model_text.ON_TABLES for name, _ in named)
        return
    (problem,) = refused(tmp_path, "ctr", *SHARED).problems
    assert problem.code == "UM-TRAIN-532"
    assert problem.where == f"{tmp_path}/ctr/dygraph_model.py:{line}"
    assert "SGD, Momentum, Adagrad, Adam, AdamW, RMSProp" in (problem.hint or "")
