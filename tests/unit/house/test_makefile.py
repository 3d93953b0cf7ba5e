"""`make setup` on a machine that is not ready for it: a sentence, and the next attempt works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PYTHON = """\
#!/bin/sh
echo "$*" >> asked
case "$*" in
"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && exit 1 ;;
esac
"""


@pytest.fixture(params=["umiak", "my clone of ümiak"])
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A checkout, and a PATH with little on it."""
    tmp_path = tmp_path / request.param
    for name in ("Makefile", "pyproject.toml", "hatch_build.py", "shims/paddlerec/pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name in ("sh", "mkdir", "cp"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    program(tmp_path, "python3", PYTHON)
    return tmp_path


def program(machine: Path, name: str, text: str = "#!/bin/sh\n") -> None:
    path = machine / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


def setup(machine: Path) -> subprocess.CompletedProcess[str]:
    make = shutil.which("make")
    assert make is not None
    environ = {"PATH": str(machine / "bin"), "HOME": os.environ.get("HOME", "/")}
    return subprocess.run([make, "setup"], cwd=machine, env=environ, capture_output=True, text=True, check=False)


def test_without_cargo(machine: Path) -> None:
    done = setup(machine)
    assert done.returncode == 2
    assert done.stderr.startswith("umiak's native core needs Rust 1.89 or newer: no cargo on PATH")
    assert done.stdout == ""
    assert not (machine / "asked").exists()


OLD_PYTHON = """\
#!/bin/sh
case "$1" in
-c) exec REAL -c "import sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18 (main)'; exec(sys.argv[1])" "$2" ;;
esac
"""


def test_with_a_python_that_is_too_old(machine: Path) -> None:
    program(machine, "cargo")
    program(machine, "python3", OLD_PYTHON.replace("REAL", shlex.quote(sys.executable)))
    done = setup(machine)
    assert done.returncode == 2
    assert re.match(
        r"umiak needs Python 3\.10 or newer, and .+ is 3\.9\.18; name another one: make PYTHON=", done.stderr
    )


def test_without_python(machine: Path) -> None:
    program(machine, "cargo")
    (machine / "bin" / "python3").unlink()
    done = setup(machine)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "umiak needs Python 3.10 or newer: no python3 on PATH; name another one: make PYTHON="
    )


def test_an_environment_that_was_only_half_made_is_made_again(machine: Path) -> None:
    """Debian without python3-venv: an environment without pip, and a hint which package to install."""
    program(machine, "cargo")
    for times in (1, 2):
        assert setup(machine).returncode == 2
        assert (machine / "asked").read_text().splitlines().count("-m venv .venv") == times


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_run_what_the_makefile_has(workflow: Path) -> None:
    commands = re.findall(r"^ +- run: make ([a-z-]+)", workflow.read_text(encoding="utf-8"), re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands
    assert set(commands) <= set(targets)
    if workflow.stem == "checks":
        assert commands == ["setup", "check", "quick"]
