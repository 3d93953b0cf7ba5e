"""Sample data of the zoo: the files fit the configs, labels come from the probabilities that are said to be the best, and seeds decide everything."""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import umiak
from tests.support import PATIENCE_S
from umiak.core.value import replace
from umiak.data.reader import SlotReader
from umiak.models import sample
from umiak.models.samples import Sample, clicks, one_id, several_ids, several_numbers
from umiak.train import reading
from umiak.train.config import load
from umiak.train.config.values import Dataset

MODELS = sample.models()
SAMPLES = 4000


def dataset_of(model: str, directory: Path, part: str) -> Dataset:
    _, found = load.load(f"umiak.models.{model}")
    assert found.config
    return replace(found.config.dataset(f"{part}_data"), data_path=str(directory / part))


@cache
def sample_of(model: str) -> Sample:
    drawn: Sample = importlib.import_module(f"umiak.models.{model}.sample").make.draw(SAMPLES, 3)
    return drawn


def digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def exact_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Pairs counted one by one, as the definition has it."""
    above, below = scores[labels == 1], np.sort(scores[labels == 0])
    wins = np.searchsorted(below, above, "left").sum() + np.searchsorted(below, above, "right").sum()
    return float(wins / 2 / (len(above) * len(below)))


def test_there_are_the_models_that_the_readme_lists() -> None:
    page = (Path(umiak.__file__).parent / "models" / "README.md").read_text(encoding="utf-8")
    assert [model for model in MODELS if f"| `{model}` |" not in page] == []
    assert len(MODELS) == page.count("\n| `")


@pytest.mark.parametrize("model", MODELS)
def test_samples_are_read_as_the_config_declares_them(model: str, tmp_path: Path) -> None:
    drawn = sample_of(model)
    best = drawn.write(str(tmp_path))
    assert json.loads((tmp_path / "best.json").read_text()) == best
    for part, size, whose in (
        ("train", SAMPLES, slice(0, SAMPLES)),
        ("test", SAMPLES // 4, slice(SAMPLES, None)),
    ):
        dataset = dataset_of(model, tmp_path, part)
        found = reading.find(dataset)
        assert len(found.files) > 1
        reading.check(dataset, found)
        read: dict[str, list[np.ndarray]] = {label: [] for label in drawn.labels}
        with reading.read(dataset, found) as samples:
            for batch in samples:
                for label, parts in read.items():
                    parts.append(batch.matrix([label])[:, 0])
            seen = samples.seen()
        assert seen is not None
        assert seen.samples == size
        assert not any(seen.missing.values())
        assert seen.undeclared == {}
        reading.check_seen(dataset, found, [seen])
        for label, parts in read.items():
            assert np.array_equal(np.concatenate(parts), drawn.labels[label][whose]), "lines stand in their order"


@pytest.mark.parametrize("model", MODELS)
def test_labels_come_from_the_probabilities_that_are_the_best(model: str) -> None:
    drawn = sample_of(model)
    judged = slice(drawn.train, None)
    for judge, truth in drawn.truths.items():
        labels, likely = drawn.labels[truth.label][judged], truth.probability[judged]
        assert drawn.best()[judge] == pytest.approx(exact_auc(likely, labels), abs=1e-4)
        assert 0.7 < drawn.best()[judge] < 0.95, "something can be learned, and not everything"
        # As many as were to be expected, within four deviations: among all, and among the less and the more likely ones.
        for some in (likely >= 0, likely < np.median(likely), likely >= np.median(likely)):
            expected, deviation = likely[some].sum(), np.sqrt((likely * (1 - likely))[some].sum())
            assert abs(labels[some].sum() - expected) < 4 * deviation, judge


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_decides_every_byte(model: str, tmp_path: Path) -> None:
    make = importlib.import_module(f"umiak.models.{model}.sample").make
    for name, seed in (("one", 5), ("same", 5), ("other", 6)):
        make(str(tmp_path / name), 400, seed)
    assert digests(tmp_path / "one") == digests(tmp_path / "same")
    assert digests(tmp_path / "one") != digests(tmp_path / "other")


def test_the_sample_that_is_packed_with_dnn_is_as_the_document_names_it(tmp_path: Path) -> None:
    packed = Path(umiak.__file__).parent / "models" / "rank" / "dnn" / "data" / "sample_data" / "train"
    lines = [path.read_text().splitlines() for path in sorted(packed.iterdir())]
    assert [len(each) for each in lines] == [50, 50]
    importlib.import_module("umiak.models.rank.dnn.sample").make(str(tmp_path), 100, 1)
    made = [line for path in sorted((tmp_path / "train").iterdir()) for line in path.read_text().splitlines()]
    assert lines[0] + lines[1] == made
    slots = {"sparse": ["click", *map(str, range(1, 27))], "dense": {"dense_var": 13}}
    with SlotReader(
        [str(path) for path in sorted(packed.iterdir())], batch_size=100, unknown="refuse", **slots
    ) as reader:
        assert next(reader).size == 100


# ---- parts


def test_tokens() -> None:
    assert one_id("item", np.array([3, 1, 3])) == ["item:3", "item:1", "item:3"]
    assert several_ids("h", np.array([[1, 2], [3, 4]]), np.array([2, 1])) == ["h:1 h:2", "h:3"]
    assert several_numbers("x", np.array([[0.5, -1.0], [2.0, 0.05]])) == ["x:0.5 x:-1", "x:2 x:0.05"]


def test_groups_are_not_torn_by_the_ends_of_files(tmp_path: Path) -> None:
    importlib.import_module("umiak.models.match.dssm.sample").make(str(tmp_path), 1600, 1)
    for path in tmp_path.glob("*/part-*"):
        groups = [line.split()[1] for line in path.read_text().splitlines()]
        assert all(groups.count(group) == 4 for group in set(groups)), path


def test_a_certain_click_is_a_click() -> None:
    rng = np.random.default_rng(0)
    made = clicks(rng, np.array([-50.0, 50.0] * 50), [["x:1"] * 100], train=50)
    assert made.labels["click"].tolist() == [0, 1] * 50
    assert made.best() == {"auc": 1.0}


# ---- the command


def test_the_command_makes_data_where_the_config_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sample.main(["umiak.models.recall.ncf", "--samples", "200"]) == 0
    said = json.loads(capsys.readouterr().out)
    _, found = load.load("umiak.models.recall.ncf")
    assert found.config
    assert found.config.dataset("train_data").data_path == f"{said['directory']}/train"
    assert said["best"] == json.loads(Path(said["directory"], "best.json").read_text())
    assert len(reading.find(found.config.dataset("test_data")).files) > 0


def test_the_command_lists_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert sample.main(["--list"]) == 0
    assert tuple(capsys.readouterr().out.split()) == MODELS
    assert "rank.dnn" in MODELS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "which model?"),
        (["rank.dn"], "no such model: rank.dn; did you mean rank.dnn?"),
        (["rank.dnn", "--samples", "3"], "--samples: 100 or more, not 3"),
        (["rank.dnn", "--seed", "-1"], "--seed: 0 or more, not -1"),
    ],
)
def test_what_the_command_does_not_understand(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        sample.main(words)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_a_directory_that_can_not_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert sample.main(["rank.lr", "--samples", "100", "--out", str(tmp_path / "file")]) == 3
    assert "can't be written" in capsys.readouterr().err


def test_no_framework_is_needed_to_make_data(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom umiak.models import sample\n"
        f"assert sample.main(['rank.din', '--samples', '100', '--out', {str(tmp_path)!r}]) == 0\n"
        "assert 'paddle' not in sys.modules\n"
        "import umiak.models\n"
        "try:\n    umiak.models.Modell\nexcept AttributeError as error:\n    assert 'Modell' in str(error)\n"
        "else:\n    raise SystemExit('a name that is not there was found')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
