"""`make demo` kills a server and a trainer, goes on, and shows that nothing was lost; its exit status is true."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import eventually

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo.py"
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_server_and_a_trainer_are_killed_and_the_result_is_the_same(tmp_path: Path, columns: int) -> None:
    environ = {**os.environ, "LANG": "C", "LC_ALL": "C", "COLUMNS": str(columns), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(DEMO), "recovery"], cwd=tmp_path, env=environ, capture_output=True, check=False
    )
    text = done.stdout.decode("ascii")
    assert done.returncode == 0, text + done.stderr.decode()
    words = " ".join(text.split())
    assert [*re.findall(r"kill -9 \d+ # (\w+) 1", words)] == ["server", "trainer"]
    assert [*re.findall(r"umiak: restarting (\w+) 1 in its place", words)] == ["server", "trainer"]
    assert "The weights are the same, bit for bit: sha256 " in words
    assert max(len(line) for line in text.splitlines()) < columns
    left = eventually(lambda: "none" if not processes_in(tmp_path) else None)
    assert left == "none"


def processes_in(directory: Path) -> list[str]:
    return [process.name for process in Path("/proc").glob("[0-9]*") if is_in(process / "cwd", directory)]


def is_in(link: Path, directory: Path) -> bool:
    try:
        return Path(os.readlink(link)).is_relative_to(directory)
    except OSError:  # gone, or not ours
        return False


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("umiak_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_another_result_is_a_failure(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def watched(run: object) -> object:
        run.best, run.curve = 0.84, [(0.0, 0.5), (0.5, 0.8), (1.0, 0.83)]  # type: ignore[attr-defined]
        run.weights = f"of {run.directory.name}"  # type: ignore[attr-defined]
        return run

    monkeypatch.setattr(demo.Run, "watched", watched)
    assert demo.main(["recovery"]) == 1
    assert "the demo failed: the weights differ: of with-kills with kills" in " ".join(capsys.readouterr().out.split())


def test_a_job_that_fails_is_a_failure(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "UMIAK", [sys.executable, "-c", "import sys; print('the cause'); sys.exit(7)"])
    assert demo.main(["recovery"]) == 1
    printed = capsys.readouterr().out
    assert "the cause" in printed
    assert "`umiak launch` ended with 7" in printed
