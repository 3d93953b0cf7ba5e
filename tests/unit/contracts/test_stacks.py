"""A hanging Python worker shows its stacks when it is asked to, and start-up files of its owner still run."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import umiak
from tests.support import PATIENCE_S
from umiak.contracts.stacks import stack_environment

INJECT = str(Path(umiak.__file__).parent / "launch" / "inject")

STUCK_IN_PYTHON = """
import time
def wait_for_batch():
    print("ready", flush=True)
    time.sleep(3600)
wait_for_batch()
"""
# PyDLL keeps the interpreter's lock, so no Python code can run in this process any more.
STUCK_IN_C = """
import ctypes, os, threading
def compute_in_c():
    reader, writer = os.pipe()
    print("ready", flush=True)
    ctypes.PyDLL(None).read(reader, ctypes.create_string_buffer(1), 1)
threading.Thread(target=threading.Event().wait, daemon=True).start()
compute_in_c()
"""


def worker_environment(directory: Path, **more: str) -> dict[str, str]:
    told = stack_environment(
        more,
        directory=INJECT,
        signal_number=signal.SIGUSR2,
        stack_file=str(directory / "stacks"),
        progress_file=str(directory / "progress"),
    )
    return {**os.environ, **more, **told}


def run_python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )


def test_variables() -> None:
    told = stack_environment(
        {"PYTHONPATH": "/a::/b"}, directory="/inject", signal_number=12, stack_file="/s", progress_file="/p"
    )
    assert told == {
        "PYTHONPATH": "/inject:/a::/b",
        "UMIAK_STACK_SIGNAL": "12",
        "UMIAK_STACK_FILE": "/s",
        "UMIAK_PROGRESS_FILE": "/p",
    }


@pytest.mark.parametrize("before", [{}, {"PYTHONPATH": ""}, {"PYTHONPATH": "/inject"}])
def test_an_empty_path_gets_no_empty_entry(before: dict[str, str]) -> None:
    told = stack_environment(before, directory="/inject", signal_number=12, stack_file="/s", progress_file="/p")
    assert told["PYTHONPATH"] == "/inject"


@pytest.mark.parametrize(
    ("code", "function"), [(STUCK_IN_PYTHON, "wait_for_batch"), (STUCK_IN_C, "compute_in_c")], ids=["python", "c"]
)
def test_a_stuck_worker_shows_where(tmp_path: Path, code: str, function: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(code)
    stacks = tmp_path / "stacks"
    with subprocess.Popen(
        [sys.executable, str(script)], env=worker_environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            assert stat.S_IMODE(stacks.stat().st_mode) == 0o600
            assert stacks.read_text() == ""
            for times in (1, 2):
                worker.send_signal(signal.SIGUSR2)
                wait_until(stacks, f"in {function}", times)
            assert "train.py" in stacks.read_text()
            assert worker.poll() is None
        finally:
            worker.kill()


def wait_until(file: Path, words: str, times: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while file.read_text().count(words) < times:
        assert time.monotonic() < deadline, f"waited in vain for: {words}"
        time.sleep(0.002)


def test_all_threads_are_shown(tmp_path: Path) -> None:
    code = """
import os, signal, threading
inside, done = threading.Event(), threading.Event()
def load_data():
    inside.set()
    done.wait()
threading.Thread(target=load_data).start()
inside.wait()
os.kill(os.getpid(), signal.SIGUSR2)
done.set()
"""
    assert run_python(code, worker_environment(tmp_path)).returncode == 0
    text = (tmp_path / "stacks").read_text()
    assert "in load_data" in text
    assert "most recent call first" in text


def test_the_owners_sitecustomize_still_runs_and_nothing_else_is_seen(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mark = __file__\n")
    code = "import sys, sitecustomize; print(mark); print(sitecustomize.__file__); print(*sys.path, sep='\\n')"
    result = run_python(code, worker_environment(tmp_path, PYTHONPATH=str(own)))
    assert result.stderr == ""
    mark, module, *path = result.stdout.splitlines()
    assert mark == module == str(own / "sitecustomize.py")
    assert INJECT not in path
    assert str(own) in path


def test_without_another_sitecustomize_nothing_happens(tmp_path: Path) -> None:
    result = run_python("print('ran')", worker_environment(tmp_path))
    assert (result.stdout, result.stderr, result.returncode) == ("ran\n", "", 0)


def test_the_owners_failing_sitecustomize_fails_as_it_always_did(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("raise RuntimeError('mine')\n")
    plain = run_python("print('ran')", {**os.environ, "PYTHONPATH": str(own)})
    ours = run_python("print('ran')", worker_environment(tmp_path, PYTHONPATH=str(own)))
    assert "mine" in plain.stderr
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, plain.returncode)


@pytest.mark.parametrize(
    "broken",
    [
        {"UMIAK_STACK_SIGNAL": "not a number"},
        {"UMIAK_STACK_SIGNAL": "9"},
        {"UMIAK_STACK_SIGNAL": "99999"},
        {"UMIAK_STACK_FILE": "/not/there/stacks"},
        {"UMIAK_STACK_FILE": ""},
    ],
)
def test_nothing_here_breaks_a_worker(tmp_path: Path, broken: dict[str, str]) -> None:
    result = run_python("print('ran')", {**worker_environment(tmp_path), **broken})
    assert (result.stdout, result.stderr, result.returncode) == ("ran\n", "", 0)


def test_a_child_python_shows_its_stacks_too(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = 'import os, signal\\ndef in_child(): os.kill(os.getpid(), signal.SIGUSR2)\\nin_child()'\n"
        "sys.exit(subprocess.run([sys.executable, '-c', child]).returncode)"
    )
    assert run_python(code, worker_environment(tmp_path)).returncode == 0
    assert "in in_child" in (tmp_path / "stacks").read_text()
