"""What starting the command line costs: the modules that it must not import, counted in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import umiak
from tests.support import PATIENCE_S

HEAVY = {
    "argparse",
    "asyncio",
    "dataclasses",
    "difflib",
    "inspect",
    "ipaddress",
    "json",
    "logging",
    "pathlib",
    "re",
    "socket",
    "subprocess",
    "textwrap",
    "traceback",
    "typing",
}


def modules_after(code: str) -> set[str]:
    # Without site (-S): what an environment's .pth files import is not ours, and would hide what is.
    script = f"import sys\n{code}\nsys.stdout.write(' '.join(sys.modules))"
    environ = {"PYTHONPATH": os.path.dirname(os.path.dirname(umiak.__file__))}
    command = [sys.executable, "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True, env=environ)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import umiak.cli.main, umiak.cli.launch",
        "from umiak.launch.command_line import reading; reading.read(['--nnodes', '2', '--rank', '1', 'x.py'], {'PADDLE_NNODES': '3'})",
        "import umiak.schema.command_line, umiak.launch.command_line.paddle",
        "import umiak.cli.texts.help_text; umiak.cli.texts.help_text.of('launch')",
    ],
)
def test_no_heavy_module_is_imported(code: str) -> None:
    imported = modules_after(code)
    assert "umiak.schema.flags" in imported
    assert imported & HEAVY == set()


def test_the_package_alone_imports_next_to_nothing() -> None:
    ours = {name for name in modules_after("import umiak; umiak.progress") if name.partition(".")[0] == "umiak"}
    assert ours == {"umiak"}
    assert "umiak.api.run" in modules_after("import umiak; umiak.run")


def test_the_command_line_does_not_import_the_table_of_another_command() -> None:
    imported = modules_after("import umiak.cli.main; umiak.cli.main.main(['token'])")
    assert {name for name in imported if name.startswith("umiak.cli.")} == {
        "umiak.cli.commands",
        "umiak.cli.main",
        "umiak.cli.output",
        "umiak.cli.token",
    }
    assert imported & {"umiak.api", "importlib", "warnings"} == set()


@pytest.mark.parametrize("words", [["status"], ["list", "--json"], ["submit", "--dry-run", "--", "train.py"]])
def test_commands_about_runs_import_what_they_need_alone(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    code = f"""import io, os, umiak.cli.main
os.chdir({str(tmp_path)!r}); os.environ["XDG_STATE_HOME"] = {str(tmp_path)!r}
out, sys.stdout = sys.stdout, io.StringIO()
umiak.cli.main.main({words})
sys.stdout = out"""
    imported = modules_after(code)
    assert "umiak.cli.runs.asking" in imported
    # Only json is needed, and brings re.
    assert imported & (HEAVY - {"json", "re"}) == set()
    assert {name for name in imported if name.startswith("umiak.")} & {
        "umiak.launch",
        "umiak.launch.command_line",
        "umiak.platforms",
    } == set()


def test_the_measure_measures() -> None:
    assert modules_after("import argparse") & HEAVY


def test_garbage_is_collected_again_once_a_launch_is_under_way(tmp_path: Path) -> None:
    """It is switched off while modules are imported: a launcher that stays for weeks must not leave it so."""
    code = (
        "import gc\nfrom umiak.cli.main import main\nfrom umiak.launch.program import _Launch\n"
        "def show():\n    print(gc.get_freeze_count() > 0, gc.isenabled(), flush=True)\n"
        "class Shown(_Launch):\n    def run(self):\n        status = super().run()\n        show()\n        return status\n"
        "import umiak.launch.program as program\nprogram._Launch = Shown\n"
        f"main(['launch', '--log_dir', {str(tmp_path)!r}, '--', '/bin/true'])\nshow()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The second line is the watchdog's, which only waits for the launcher to end.
    assert ran.stdout.splitlines() == ["True True", "False False"]
