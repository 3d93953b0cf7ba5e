"""PyTorch's layers for parameter servers: their unit tests in a process that has PyTorch, which this one has not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import pytorch
from testbed.pytest_support import require

ROOT = Path(__file__).parents[2]
FILES = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "unit" / "ps").glob("test_ps_torch*.py"))


@pytest.mark.parametrize("file", FILES)
def test_all_of_them_pass_and_none_is_skipped(file: str) -> None:
    require(pytorch.available())
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "0", "--tb=short", "-p", "no:cacheprovider", file]
    done = subprocess.run(command, cwd=ROOT, env=pytorch.environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
    assert "skipped" not in done.stdout, done.stdout


def test_there_are_some() -> None:
    assert FILES
