"""`make demo` kills a server and a trainer, goes on, and shows that nothing was lost; its exit status is true."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import PATIENCE_S, eventually
from tests.support.paths import ROOT

DEMO = ROOT / "examples" / "demo.py"


def test_a_server_and_a_trainer_are_killed_and_the_result_is_the_same(tmp_path: Path) -> None:
    """In a narrow terminal."""
    columns = 40
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
    report = (tmp_path / "demo" / "report.html").read_text()
    assert report.count("<polyline") == 2
    assert "The weights are the same, bit for bit" in report
    assert "http" not in text  # the address has a token in it, and a file may be read by others
    left = eventually(lambda: "none" if not processes_in(tmp_path) else None)
    assert left == "none"


def test_at_a_terminal_it_is_watched_in_a_browser_while_it_trains(tmp_path: Path) -> None:
    environ = {name: text for name, text in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    demo = subprocess.Popen(
        [sys.executable, str(DEMO), "recovery"], cwd=tmp_path, env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    runs: list[str] = []
    try:
        while piece := read(ours):
            said += piece
            found = re.search(rb"(http://127\.0\.0\.1:\d+)/#t=(\S+)\r", said)
            if found and b"kill -9" in said and not runs:
                headers = {"Authorization": f"Bearer {found[2].decode()}"}
                request = urllib.request.Request(f"{found[1].decode()}/runs.json?q=state:running", headers=headers)
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                    runs = [row["directory"] for row in json.load(answer)["runs"]]
        assert demo.wait(PATIENCE_S) == 0, said.decode()
    finally:
        demo.kill()
        demo.wait()
        os.close(ours)
    # Before the first line of its metrics was seen, the run is its launcher's directory.
    assert runs in ([str(tmp_path / "demo" / "with-kills" / each).rstrip("/")] for each in ("", "log"))
    assert b"demo/report.html" in said
    assert eventually(lambda: not processes_in(tmp_path))


def read(terminal: int) -> bytes:
    """Nothing at its end, which is an error on a terminal."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


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
    monkeypatch.syspath_prepend(str(DEMO.parent))
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
    monkeypatch.setenv("COLUMNS", "80")
    assert demo.main(["recovery"]) == 1
    printed = capsys.readouterr().out
    assert "the demo failed: the weights differ: of with-kills with kills" in " ".join(printed.split())
    assert 40 < max(len(line) for line in printed.splitlines()) < 80


def test_a_job_that_fails_is_a_failure(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "UMIAK", [sys.executable, "-c", "import sys; print('the cause'); sys.exit(7)"])
    assert demo.main(["recovery"]) == 1
    printed = capsys.readouterr().out
    assert "the cause" in printed
    assert "the cause" in (Path("demo") / "report.html").read_text()
    assert "`umiak launch` ended with 7" in printed
