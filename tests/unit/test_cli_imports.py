"""What starting the command line costs: the modules that it must not import, counted in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import umiak

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environ)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import umiak.cli.main, umiak.cli.launch",
        "import umiak.cli.launch; umiak.cli.launch.read(['--nnodes', '2', '--rank', '1', 'x.py'], {'PADDLE_NNODES': '3'})",
        "import umiak.cli.flags, umiak.compat.paddle_launch",
        "import umiak.cli.help_text; umiak.cli.help_text.launch()",
    ],
)
def test_no_heavy_module_is_imported(code: str) -> None:
    imported = modules_after(code)
    assert "umiak.cli" in imported
    assert imported & HEAVY == set()


def test_the_measure_measures() -> None:
    assert modules_after("import argparse") & HEAVY
