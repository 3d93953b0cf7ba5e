"""`umiak export`: what it writes answers as the model in the programs that it is for, and what can't be written is told."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import yaml

from testbed.pytest_support import require
from tests.support import modelbase_helpers, plain_inference
from tests.support.paths import ROOT
from tests.support.train_runs import Work
from umiak.cli import main as cli
from umiak.ps import export

pytestmark = [pytest.mark.paddle, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]
ONNX = ROOT / ".venv-onnx"
RUN_ONNX = """
import json, sys
import numpy as np
import onnxruntime
asked = json.load(sys.stdin)
session = onnxruntime.InferenceSession(asked["file"], providers=["CPUExecutionProvider"])
kinds = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
given = {each.name: np.array(asked["arrays"][each.name], kinds[each.type]) for each in session.get_inputs()}
outputs = [each.name for each in session.get_outputs()]
print(json.dumps(dict(zip(outputs, [each.tolist() for each in session.run(None, given)]))))
"""


@pytest.fixture
def trained(work: Work) -> Work:
    done = work.here("alone")
    assert done.status == 0, done.said
    return work


def asked(path: Path) -> dict[str, Any]:
    """Some rows: ids that are there, ids that nobody has, several ids, and none."""
    chance = np.random.default_rng(4)
    arrays: dict[str, Any] = {str(slot): 1000 * (slot - 1) + chance.integers(0, 40, (9, 3)) for slot in range(1, 5)}
    arrays["1"][0], arrays["2"][1], arrays["3"][2] = -1, 2**63 - 1, -(2**63)
    arrays["4"][3, 1:] = -1
    arrays["price"] = chance.random((9, 2)).astype(np.float32)
    return arrays


def umiak(work: Work, *words: str) -> subprocess.CompletedProcess[str]:
    packages = [str(each) for each in ONNX.glob("lib/python*/site-packages")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, *packages])}
    command = [sys.executable, "-m", "umiak.cli.main", "export", *words]
    return subprocess.run(command, cwd=work.path, env=environ, capture_output=True, text=True, check=False)


def as_plain_paddle(work: Work, arrays: dict[str, Any]) -> Any:
    prefix = str(work.path / "plain" / "inference")
    return plain_inference.predictions({prefix: arrays})[prefix]["static"][0]


def in_onnxruntime(file: Path, arrays: dict[str, Any]) -> dict[str, Any]:
    given = json.dumps({"file": str(file), "arrays": {name: each.tolist() for name, each in arrays.items()}})
    command = [str(ONNX / "bin" / "python"), "-c", RUN_ONNX]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return {name: np.array(each) for name, each in json.loads(done.stdout).items()}


def test_onnx_has_tables_in_it_or_beside_it(trained: Work) -> None:
    require(
        None if (ONNX / "bin" / "python").exists() else f"onnxruntime is not installed: make test makes {ONNX.name}"
    )
    done = umiak(trained, "-m", "config.yaml", "--format", "paddle", "--out", "plain", "-q")
    assert done.returncode == 0, done.stderr
    arrays = asked(trained.path)
    expected = as_plain_paddle(trained, arrays)
    done = umiak(trained, "-m", "config.yaml", "--format", "onnx", "--out", "inside", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["gap"] <= 1e-5
    assert told["files"] == ["export.json", "model.onnx", "signature.json"]
    found = in_onnxruntime(trained.path / "inside" / "model.onnx", arrays)
    assert [*found] == ["probability"]
    assert np.abs(found["probability"] - expected).max() <= 1e-5
    # The same without the table: who asks brings its rows, from the file beside the model.
    done = umiak(trained, "-m", "config.yaml", "--format", "onnx", "--out", "outside", "--largest_table", "0", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["left_out"] == ["embedding"]
    signature = json.loads((trained.path / "outside" / "signature.json").read_text())
    table = safetensors.numpy.load_file(trained.path / "outside" / "embedding.safetensors")
    rows = dict(zip(table["embedding.keys"].view(np.int64).tolist(), table["embedding.values"], strict=True))
    brought = {each["name"]: each for each in signature["inputs"] if each["kind"] == "rows"}
    assert {each["of"] for each in brought.values()} == {"1", "2", "3", "4"}
    nothing = np.zeros(4, np.float32)
    for name, each in brought.items():
        ids = arrays[each["of"]]
        arrays[name] = np.array([[rows.get(one, nothing) for one in row] for row in ids.tolist()], np.float32)
        arrays[name][ids == -1] = 7.0  # nothing is there, whatever is brought for it
    found = in_onnxruntime(trained.path / "outside" / "model.onnx", arrays)
    assert np.abs(found["probability"] - expected).max() <= 1e-5


class Frame:
    """What the loader wants of a DataFrame, for the columns are lists."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]


def test_mlflow_finds_a_loader_that_answers_as_predict(trained: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    assert umiak(trained, "-m", "config.yaml", "--format", "mlflow", "--out", "m", "-q").returncode == 0
    root = trained.path / "m"
    said = yaml.safe_load((root / "MLmodel").read_text())
    flavor = said["flavors"]["python_function"]
    assert said["model_uuid"]
    assert all((root / flavor["env"][name]).is_file() for name in ("conda", "virtualenv"))
    needs = (root / "requirements.txt").read_text()
    assert "paddlepaddle==" in needs
    assert "umiak" not in needs
    columns = {each["name"]: each for each in json.loads(said["signature"]["inputs"])}
    assert columns["1"] == {"name": "1", "type": "array", "items": {"type": "long"}, "required": True}
    assert json.loads(said["signature"]["outputs"]) == [{"name": "probability", "type": "float", "required": True}]
    spec = importlib.util.spec_from_file_location("loader", root / flavor["code"] / f"{flavor['loader_module']}.py")
    assert spec is not None
    assert spec.loader is not None
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    model = loader._load_pyfunc(str(root / flavor["data"]))
    lines = [line.split() for line in (trained.path / "data/test/part").read_text().splitlines()]
    pairs = [[each.split(":") for each in line] for line in lines]
    frame: dict[str, list[Any]] = {name: [[int(n) for k, n in row if k == name] for row in pairs] for name in "1234"}
    frame["price"] = [[float(n) for k, n in row if k == "price"] for row in pairs]
    frame["2"] = [each[0] for each in frame["2"]]  # a number where there is one
    monkeypatch.chdir(trained.path)
    assert cli.main(["predict", "-m", "config.yaml", "--out", "s.csv", "-q"]) == 0
    with (trained.path / "s.csv").open(newline="") as file:
        expected = [float(row["probability"]) for row in csv.DictReader(file)]
    assert np.allclose(model.predict(Frame(frame))["probability"], expected, atol=1e-5)
    with pytest.raises(ValueError, match="column 3 is missing"):
        model.predict(Frame({name: each for name, each in frame.items() if name != "3"}))
    with pytest.raises(ValueError, match="column 1 has fractions"):
        model.predict(Frame({**frame, "1": [[0.5]] * len(pairs)}))
    with pytest.raises(ValueError, match="different lengths"):
        model.predict(Frame({**frame, "1": [[3]]}))


def test_tables_are_read_by_others_and_nothing_is_replaced_by_chance(trained: Work) -> None:
    checkpoint = str(trained.path / "out/alone/1")
    keys, rows = export.rows(checkpoint, "embedding")
    expected = dict(zip(keys.tolist(), rows.tolist(), strict=True))
    done = umiak(trained, "-m", "config.yaml", "--format", "parquet", "--out", "p")
    assert done.returncode == 0, done.stderr
    assert "left out, since they are dense: dense" in done.stderr
    table = pq.read_table(trained.path / "p" / "embedding.parquet")
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == expected
    words = ["--checkpoint", "out/alone", "--format", "safetensors", "--out", "s"]
    assert umiak(trained, *words).returncode == 0
    found = safetensors.numpy.load_file(trained.path / "s" / "embedding.safetensors")
    got = zip(found["embedding.keys"].tolist(), found["embedding.values"].tolist(), strict=True)
    assert dict(got) == expected
    dense = safetensors.numpy.load_file(trained.path / "s" / "dense.safetensors")
    assert {name: each.size for name, each in dense.items()} == {
        name: each.size for name, each in export.arrays(checkpoint, "dense").items()
    }
    assert json.loads((trained.path / "s" / "export.json").read_text())["checkpoint"].endswith("out/alone/1")

    def refused(code: str, words_said: str, *words: str) -> None:
        done = umiak(trained, *words)
        assert (done.returncode, code in done.stderr, words_said in done.stderr) == (2, True, True), done.stderr

    refused("UM-EXPORT-001", "--overwrite", *words)
    assert umiak(trained, *words, "--overwrite", "--table", "embedding").returncode == 0
    assert trained.names("s") == ["embedding.safetensors", "export.json"]
    refused("UM-EXPORT-001", "has not written it", *words[:-1], "data", "--overwrite")
    refused("UM-EXPORT-005", "no table none", *words[:-1], "n", "--table", "none")
    refused("UM-EXPORT-005", "dense", "-m", "config.yaml", "--format", "parquet", "--out", "n", "--table", "dense")
    refused("UM-EXPORT-005", "neither -m nor --checkpoint", "--format", "parquet", "--out", "n")
    refused("UM-EXPORT-005", "--format is missing", "-m", "config.yaml", "--out", "n")
    refused("UM-EXPORT-005", "no meaning", "-m", "config.yaml", "--format", "mlflow", "--out", "n", "--table", "x")
    assert not (trained.path / "n").exists()
    assert not [each for each in trained.names() if each.endswith((".partial", ".old"))]


def test_a_model_of_1_8_5_is_refused_with_the_reason(tmp_path: Path) -> None:
    modelbase_helpers.story(tmp_path)
    work = Work(tmp_path)
    assert work.here("alone").status == 0
    done = umiak(work, "-m", "config.yaml", "--format", "mlflow", "--out", "m")
    assert (done.returncode, "UM-EXPORT-003" in done.stderr) == (2, True), done.stderr
    assert "paddle.fluid" in done.stderr
    assert not [each for each in work.names() if each.startswith("m")]
    done = umiak(work, "-m", "config.yaml", "--format", "safetensors", "--out", "s")
    assert done.returncode == 0, done.stderr
    found = safetensors.numpy.load_file(tmp_path / "s" / "dense.model.safetensors")
    assert found["Words"].size == modelbase_helpers.WORDS * 4
