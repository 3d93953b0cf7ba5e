"""Commands in a directory where somebody else has left modules with the names of Python's own: none of them is imported.

`python -m` looks in the working directory first. The command `umiak` does not, and neither may the processes that it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import pythons
from tests.support import eventually
from umiak.adapters import own_modules

SOMEBODY = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
UMIAK = (str(Path(sys.executable).with_name("umiak")),)
OTHERS = ("umiak", "umiak_native", "yaml", "numpy", "paddle", "fsspec", "asyncssh", "sitecustomize", "usercustomize")


class Trap:
    """A directory of everybody's, in which whatever is imported leaves its name."""

    def __init__(self, tmp_path: Path) -> None:
        self.here = tmp_path / "everybodys"
        self.here.mkdir()
        self.sprung = tmp_path / "sprung"
        for name in (*sorted(sys.stdlib_module_names), *OTHERS):
            if name not in sys.builtin_module_names:
                (self.here / f"{name}.py").write_text(f"open({str(self.sprung)!r}, 'a').write('{name} ')\n")
        for path in (self.here, *self.here.iterdir()):
            os.chown(path, SOMEBODY, SOMEBODY)
        self.here.chmod(0o1777)
        os.chown(self.here, 0, 0)
        self.own = tmp_path / "own"
        self.own.mkdir()
        (self.own / "train.py").write_text("print('trains')\n")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "XDG_", "PYTHON"))}
        self.environ = {**kept, "HOME": str(self.own)}

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.here,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        told = done.stdout + done.stderr
        assert not self.sprung.exists(), f"{words} imported {self.sprung.read_text()}\n{told}"
        return told


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


@as_root
def test_the_trap_springs(trap: Trap) -> None:
    """So that the tests below can fail."""
    with pytest.raises(AssertionError, match="imported"):
        trap.run(sys.executable, "-m", "json.tool", "--help")


@as_root
@pytest.mark.parametrize("version", sorted(pythons.found()))
def test_no_python_looks_there_for_modules_of_ours(trap: Trap, version: str) -> None:
    """Before 3.11 there is no flag for it."""
    source = str(Path(own_modules.__file__).parents[2])
    code = (
        f"import os, sys; sys.path.insert(0, {source!r}); from umiak.adapters.own_modules import start_words as words\n"
    )
    code += "os.execv(sys.executable, [sys.executable, '-u', *words('json.tool'), '--help'])"
    isolated = "-I"  # so that the first interpreter does not look there either
    assert "usage" in trap.run(pythons.found()[version], isolated, "-c", code)


@as_root
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("doctor", "--timeout", "30"), "ok"),
        (("launch", "--log_dir", "{own}/log", "--nproc_per_node", "1", "{own}/train.py"), "trains"),
        (("launch", "--check", "--log_dir", "{own}/log", "--nproc_per_node", "1", "{own}/train.py"), ""),
        (("submit", "--foreground", "--", "{own}/train.py"), "trains"),
        (("train", "-m", "umiak.models.rank.dnn", "--check"), ""),
        (("list",), "RUN"),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, tuple) else "",
)
def test_no_command_imports_what_lies_in_the_working_directory(trap: Trap, words: tuple[str, ...], told: str) -> None:
    assert told in trap.run(*UMIAK, *(word.format(own=trap.own) for word in words))


@as_root
def test_neither_do_commands_and_copies_on_the_node_of_a_job(trap: Trap) -> None:
    (trap.own / "waits.py").write_text("import time\nprint('up', flush=True)\nwhile True:\n    time.sleep(1)\n")
    handle = trap.run(*UMIAK, "submit", "--", str(trap.own / "waits.py")).split()[-1]
    try:
        eventually(lambda: "up" in trap.run(*UMIAK, "logs", handle))
        assert "beside it" in trap.run(*UMIAK, "exec", handle, "--", "echo", "beside it")
        assert "workerlog.0" in trap.run(*UMIAK, "fetch", handle, "--list", "log")
    finally:
        trap.run(*UMIAK, "cancel", handle)


@as_root
def test_neither_do_trainers_and_their_readers(trap: Trap) -> None:
    made = [
        sys.executable,
        "-m",
        "umiak.models.sample",
        "rank.dnn",
        "--samples",
        "400",
        "--out",
        str(trap.own / "data"),
    ]
    subprocess.run(made, cwd=trap.own, check=True, capture_output=True)
    data = [f"dataset.{name}_data.data_path={trap.own / 'data' / name}" for name in ("train", "test")]
    kept = f"runner.ps.save_checkpoint_path={trap.own / 'models'}"
    said = [word for each in (*data, kept, "mode=ps", "runner.ps.epochs=1") for word in ("-o", each)]
    told = trap.run(*UMIAK, "train", "-m", "umiak.models.rank.dnn", "--run_dir", str(trap.own / "run"), *said)
    assert "auc" in told.lower()
    assert "UM-" not in told, told


@as_root
def test_neither_does_a_call_from_python(trap: Trap) -> None:
    """A script has its own directory first, and no working directory."""
    (trap.own / "call.py").write_text(
        "import umiak, functions\nif __name__ == '__main__':\n"
        f"    print(umiak.run(functions.add, 1, 2, nproc_per_node=2, log_dir={str(trap.own / 'log')!r}))\n"
    )
    (trap.own / "functions.py").write_text("def add(a, b):\n    return a + b\n")
    assert "(3, 3)" in trap.run(sys.executable, str(trap.own / "call.py"))
