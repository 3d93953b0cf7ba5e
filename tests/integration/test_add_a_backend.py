"""The tutorial "add a backend": its package, found by its entry point, runs a job and keeps the laws. And so does our own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, eventually, submitting
from tests.support.paths import ROOT
from umiak.core.job import Job, RoleSpec
from umiak.submit import configuration
from umiak.submit.flow import Flow
from umiak.testing.backends import broken_laws

toml = pytest.importorskip("tomllib", reason="of Python 3.11")
PAGE = ROOT / "docs" / "tutorials" / "add-a-backend.md"
FILE = re.compile(r"^<!-- package: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[submitting.Desk]:
    with submitting.opened(tmp_path) as opened:
        yield opened


@pytest.fixture
def installed(desk: submitting.Desk, tmp_path: Path) -> submitting.Desk:
    """The tutorial's package as pip leaves it: its module, and metadata with its entry points."""
    site = tmp_path / "site"
    metadata = site / "umiak_background-1.dist-info"
    metadata.mkdir(parents=True)
    (site / "umiak_background.py").write_text(FILES["umiak_background.py"])
    project = toml.loads(FILES["pyproject.toml"])["project"]
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["umiak.backends"]
    rows = "".join(f"{name} = {value}\n" for name, value in points.items())
    (metadata / "entry_points.txt").write_text(f"[umiak.backends]\n{rows}")
    desk.environ["PYTHONPATH"] = str(site)
    (desk.directory / "umiak.toml").write_text(FILES["umiak.toml"])
    return desk


def test_the_tutorials_backend_runs_jobs(installed: submitting.Desk) -> None:
    handle = installed.submit("--on", "here", "--nproc_per_node", "2", "--", "train.py", "lines=3")
    assert handle.startswith("background://here/train-")
    followed = installed.umiak("logs", "-f", handle)
    assert sorted(installed.starts()) == ["trainer.0", "trainer.1"]
    assert "[trainer 1] line 2" in followed
    installed.umiak("wait", handle)
    failed = installed.submit("--on", "here", "--", "train.py", "fail=7")
    installed.umiak("wait", failed, status=7)
    assert "BACKGROUND-001" in installed.umiak("submit", "--on", "here", "--nnodes", "2", "--", "train.py", status=2)
    waiting = installed.submit("--on", "here", "--", "train.py", "until=never")
    installed.until_started(4)
    installed.umiak("cancel", waiting)
    assert installed.status(waiting)["state"] == "cancelled"
    eventually(lambda: not installed.left())


def test_the_tutorials_own_test(installed: submitting.Desk, tmp_path: Path) -> None:
    (tmp_path / "test_background.py").write_text(FILES["test_background.py"])
    # One that hangs is ended with the stacks of its threads, so that it is known where.
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "90", "test_background.py"]
    done = subprocess.run(
        words, cwd=tmp_path, env=installed.environ, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_laws_are_noticed_when_they_are_broken(installed: submitting.Desk, tmp_path: Path) -> None:
    """A backend that starts a job each time, keeps the token in a file and forgets lines."""
    module = tmp_path / "site" / "umiak_background.py"
    text = module.read_text()
    for old, new in (
        (
            "        except FileExistsError:\n            return self.handle(submission.run_id)\n",
            "        except FileExistsError:\n            pass\n",
        ),
        (
            "        command, nothing = submission",
            "        open(f'{run}/env', 'w').write(str(environ))\n        command, nothing = submission",
        ),
        ("position=str(seen))", "position=str(seen + 1))"),
    ):
        assert old in text
        text = text.replace(old, new)
    module.write_text(text)
    (tmp_path / "test_background.py").write_text(FILES["test_background.py"])
    words = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "test_background.py"]
    done = subprocess.run(
        words, cwd=tmp_path, env=installed.environ, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 1
    assert "secrets: one stands in a file" in done.stdout
    assert "logs: read on from a position" in done.stdout


def test_the_backend_local_keeps_the_laws(desk: submitting.Desk) -> None:
    flow = Flow(configuration.context(desk.environ, str(desk.directory)))
    job = Job(name="try", command=("train.py", "lines=5"), roles=(RoleSpec(workers=2),))
    broken = broken_laws(
        lambda: Flow(flow.context).backend(flow.place("local")),
        job,
        starts=lambda: len(os.listdir(desk.state / "umiak" / "local")) if desk.state.exists() else 0,
        searched=[desk.state, desk.directory],
    )
    assert broken == []
    assert len(desk.starts()) == 2
