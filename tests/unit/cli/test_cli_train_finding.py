"""`umiak train`: where a config is found, and how it is read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.support.train_helpers import FLAT, SINGLE, runner_text
from tests.unit.cli import test_cli_train as first
from tests.unit.cli.test_cli_train import NO_CONFIG
from umiak.cli.main import main
from umiak.core.problem import UmiakError
from umiak.train.config import load
from umiak.train.config.workspace import Library

_alone = first._alone


# ---- where a config is


def test_a_file_of_nearly_this_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ctr").mkdir()
    Path("ctr/config.yaml").write_text(FLAT)
    assert main(["train", "-m", "ctr/confg.yaml"]) == 2
    assert "hint: did you mean `ctr/config.yaml`?" in capsys.readouterr().err


def test_names_are_not_alike_because_they_end_alike(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bigint.yaml").write_text(FLAT)
    assert main(["train", "-m", "missing.yaml"]) == 2
    assert capsys.readouterr().err == NO_CONFIG.format("missing.yaml")
    assert main(["train", "-m", "bigimt.yml"]) == 2
    assert "hint: did you mean `bigint.yaml`?" in capsys.readouterr().err


def test_a_directory_whose_config_has_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ctr").mkdir()
    Path("ctr/wide.yml").write_text(FLAT)
    assert main(["train", "-m", "ctr"]) == 2
    assert "error: ctr/config.yaml: can't be read" in (err := capsys.readouterr().err)
    assert "hint: did you mean `ctr/wide.yml`?" in err
    Path("ctr/deep.yaml").write_text(FLAT)
    assert main(["train", "-m", "ctr"]) == 2
    assert "hint: there are `ctr/deep.yaml`, `ctr/wide.yml`\n" in capsys.readouterr().err


def test_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ctr").mkdir()
    Path("ctr/config.yaml").write_text(FLAT)
    assert main(["train", "-m", "ctr", "--explain"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ctr/config.yaml, workspace ctr\n")
    assert "ctr/data/train" in out


@pytest.mark.parametrize("package", ["umiak", "paddlerec"])
def test_a_model_of_the_package(package: str, tmp_path: Path) -> None:
    place = tmp_path / "umiak" / "models" / "rank" / "dnn"
    place.mkdir(parents=True)
    (place / "config.yaml").write_text(SINGLE)
    library = Library(root=str(tmp_path / "umiak"), models=("rank.dnn",))
    source, reading = load.load(f"{package}.models.rank.dnn", library=library)
    assert source.path == str(place / "config.yaml")
    assert reading.config is not None
    assert reading.config.phases[0].model == str(place / "model.py")


def test_a_model_that_is_not_there() -> None:
    with pytest.raises(UmiakError) as caught:
        load.load("umiak.models.rank.dn", library=Library(root="/x", models=("rank.dnn", "recall.ncf")))
    (problem,) = caught.value.problems
    assert (problem.code, problem.what) == ("UM-CONFIG-002", "no such model: umiak.models.rank.dn")
    assert problem.hint == "did you mean `rank.dnn`? there are rank.dnn, recall.ncf"
    with pytest.raises(UmiakError) as caught:
        load.load("paddlerec.models.rank.dnn", library=Library(root="/x"))
    assert caught.value.problems[0].hint == "this umiak has no models in it; name a directory or a config.yaml"


def test_the_models_of_this_umiak_are_those_with_a_config() -> None:
    library = load.installed()
    for model in library.models:
        assert Path(library.directory(f"umiak.models.{model}") or "", "config.yaml").is_file()


def test_a_file_that_has_a_dotted_name() -> None:
    Path("umiak.models.mine").write_text(runner_text())
    assert load.load("umiak.models.mine")[0].path == "umiak.models.mine"
    assert load.find("paddlerec.yaml", Library(root="/x")) == "paddlerec.yaml"


def test_files_that_are_no_text(tmp_path: Path) -> None:
    Path("latin.yaml").write_bytes(b"workspace: .\nmode: caf\xe9\n")
    with pytest.raises(UmiakError) as caught:
        load.read("latin.yaml")
    assert caught.value.problems[0].lines() == [
        "error: latin.yaml:2:10: not UTF-8: byte 0xe9 [UM-CONFIG-003]",
        "  hint: a config is a text; save it as UTF-8",
    ]
    Path("large.yaml").write_bytes(b"#" * (load.MOST_BYTES + 1))
    with pytest.raises(UmiakError) as caught:
        load.read("large.yaml")
    assert caught.value.problems[0].code == "UM-CONFIG-001"
    with pytest.raises(UmiakError, match="larger than 4 MB"):
        load.read("/dev/zero")


def test_a_pipe_is_read_to_its_end() -> None:
    os.mkfifo("config.yaml")
    text = runner_text() + "#" * 100_000  # more than fits into a pipe
    writer = threading.Thread(target=lambda: Path("config.yaml").write_text(text))
    writer.start()
    assert load.read("config.yaml").text == text
    writer.join()


def test_a_pipe_whose_writer_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is there is waited for, however long: as with ``-m <(make_config)``."""
    reader, writer = os.pipe()
    block = os.set_blocking

    def write_at_last(number: int, blocking: bool) -> None:
        """Called when the first attempt to read found nothing."""
        os.write(writer, b"workspace: .")
        os.close(writer)
        block(number, blocking)

    monkeypatch.setattr(load, "PIPE_WAIT_S", 0.0)
    monkeypatch.setattr(os, "set_blocking", write_at_last)
    assert load.read(f"/dev/fd/{reader}").text == "workspace: ."
    os.close(reader)


def test_a_pipe_to_which_nobody_writes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(load, "PIPE_WAIT_S", 0.01)
    os.mkfifo("config.yaml")
    assert main(["train", "-m", "config.yaml"]) == 2
    assert capsys.readouterr().err == ("error: config.yaml: a pipe without a writer for 0.01 s [UM-CONFIG-001]\n")
