"""`umiak.run`: functions and scripts in real workers; what they return, raise, and how they end with their caller."""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import umiak
from tests.support import PATIENCE_S, run_functions
from tests.support.launching import until
from tests.support.paths import ROOT
from umiak.api import exchange
from umiak.core.runtime.repeated_signal import ONE_S


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs and the private directories of calls go where the test can look at them."""
    (tmp_path / "private").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "private"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path / "work")


def nothing_private_is_left(tmp_path: Path) -> bool:
    return not list((tmp_path / "private").iterdir())


# ---- what comes back


def test_what_the_function_returns_comes_back_by_rank(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    results = umiak.run(run_functions.add, 40, kwargs={"other": 2}, nproc_per_node=3)
    assert results == ((0, 42), (1, 42), (2, 42))
    assert results.log_dir == str(tmp_path / "work" / "log")
    assert (tmp_path / "work" / "log" / "workerlog.2").read_text() == "adding on rank 2\n"
    assert "[trainer 0] adding on rank 0" in capfd.readouterr().out
    assert nothing_private_is_left(tmp_path)


def test_output_goes_where_the_callers_output_goes(capsys: pytest.CaptureFixture[str]) -> None:
    # As in a notebook, sys.stdout is no longer the process's own.
    umiak.run(run_functions.add, 1, nproc_per_node=2, tee="all", log_level="INFO")
    out, err = capsys.readouterr()
    assert {"[trainer 0] adding on rank 0", "[trainer 1] adding on rank 1"} <= set(out.splitlines())
    assert "LAUNCH INFO" in err


def test_functions_of_the_main_program_need_no_guard_and_no_file(tmp_path: Path) -> None:
    # A notebook's cells: no file, no `if __name__ == "__main__"`, an event loop that is running, a class of its own.
    program = """
import asyncio, dataclasses, os
import umiak

@dataclasses.dataclass
class Config:
    lr: float

offset = 10

def train(config):
    return Config(config.lr + offset + int(os.environ["RANK"]))

async def cell():
    return umiak.run(train, Config(0.5), nproc_per_node=2)

results = asyncio.run(cell())
assert results == (Config(10.5), Config(11.5)), results
assert umiak.run(lambda: 7) == (7,)
print("fine")
"""
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


def test_without_cloudpickle_the_command_that_installs_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "work" / "cloudpickle.py").write_text("raise ImportError\n")
    (tmp_path / "work" / "tasks.py").write_text("def double(x):\n    return 2 * x\n")
    program = """
import umiak, tasks

class Mine:
    pass

def here():
    pass

assert umiak.run(tasks.double, 21, nproc_per_node=2) == (42, 42)
for call in ((here,), (lambda: 1,), (tasks.double, Mine()), (tasks.double, [Mine])):
    try:
        umiak.run(*call)
    except umiak.RunError as error:
        print(error.problems[0].code, "pip install" in str(error), "[run]" in str(error))
"""
    (tmp_path / "work" / "main.py").write_text(program)
    done = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, timeout=PATIENCE_S)
    told = [line for line in done.stdout.splitlines() if line.startswith("UM-")]
    assert (told, done.returncode) == (["UM-RUN-004 True True"] * 4, 0), done.stderr


def test_a_script_runs_as_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = Path("show.py")
    script.write_text("import os, sys\nprint(sys.argv, os.environ['COLOUR'], __name__)\n")
    results = umiak.run(script, "--lr", 0.1, nproc_per_node=2, tee="all", env={"COLOUR": "red"}, log_dir="elsewhere")
    assert results == ()
    assert results.log_dir == str(tmp_path / "work" / "elsewhere")
    out = capfd.readouterr().out
    assert out.count("['show.py', '--lr', '0.1'] red __main__") == 2
    assert umiak.run("show", module=True, env={"COLOUR": "red"}) == ()


def test_a_thread_may_call_and_two_calls_may_run_at_once() -> None:
    found: dict[int, tuple[object, ...]] = {}

    def call(number: int) -> None:
        found[number] = umiak.run(run_functions.add, number, nproc_per_node=2)

    threads = [threading.Thread(target=call, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1: ((0, 1), (1, 1)), 2: ((0, 2), (1, 2))}


def test_a_running_event_loop_is_no_obstacle() -> None:
    async def cell() -> tuple[object, ...]:
        return umiak.run(run_functions.add, 1)

    async def beside() -> tuple[object, ...]:
        return await asyncio.to_thread(umiak.run, run_functions.add, 2)

    assert asyncio.run(cell()) == ((0, 1),)
    assert asyncio.run(beside()) == ((0, 2),)


def test_a_worker_may_call_as_well() -> None:
    assert umiak.run(run_functions.nested, nproc_per_node=2) == (((0, 1), (1, 1)),) * 2


def test_variables_of_a_cluster_do_not_concern_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"PADDLE_NNODES": "4", "PADDLE_MASTER": "10.0.0.9:8090", "PADDLE_SERVER_NUM": "2"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("PADDLE_NPROC_PER_NODE", "3")
    assert umiak.run(run_functions.variable, "WORLD_SIZE") == ("3", "3", "3")


def test_a_restart_counts_and_what_failed_before_is_forgotten() -> None:
    assert umiak.run(run_functions.fail_once, nproc_per_node=2, max_restart=1) == ("1", "1")


# ---- what goes wrong


def failed(*call: object, **options: object) -> umiak.RunError:
    with pytest.raises(umiak.RunError) as caught:
        umiak.run(*call, **options)
    return caught.value


def test_an_exception_comes_with_rank_and_remote_traceback(tmp_path: Path) -> None:
    error = failed(run_functions.fail_on, 1, "raise", nproc_per_node=2)
    text = str(error)
    assert text.startswith("rank 1 of 2 failed: ValueError: no such column: age [UM-RUN-006]\n")
    assert str(tmp_path / "work" / "log" / "workerlog.1") in text
    assert 'run_functions.py", line ' in text
    assert 'raise ValueError("no such column: age")' in text
    assert "umiak/api" not in text
    assert [failure.rank for failure in error.failures] == [1]
    assert isinstance(error.__cause__, ValueError)
    assert error.exit_status == 1
    assert 'raise ValueError("no such column: age")' in (tmp_path / "work" / "log" / "workerlog.1").read_text()
    assert nothing_private_is_left(tmp_path)


def test_a_traceback_has_the_lines_of_a_notebook_and_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    cell = "def train():\n    print('begin', flush=True)\n    weight = 1 / 0  # in a cell\n"
    name = "<ipython-input-7-3f2a9c>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell, name, "exec"), space)  # as a notebook does
    with pytest.raises(umiak.RunError) as told:
        umiak.run(space["train"], nproc_per_node=1)
    assert "weight = 1 / 0  # in a cell" in str(told.value)
    shown = "".join(capsys.readouterr())
    assert "begin" in shown
    assert "ZeroDivisionError" not in shown, "the exception has it"


SCRIPT = """
import sys, umiak

def train():
    sys.stdout.buffer.write("begin \N{SNOWMAN} \x1b]0;title\x07\\n".encode())
    raise ValueError("no such column: age")

try:
    umiak.run(train, nproc_per_node=1)
except umiak.RunError as error:
    print(error, file=sys.stderr)
"""


@pytest.mark.parametrize("has_terminal", [False, True])
def test_a_script_shows_a_worker_s_error_once(tmp_path: Path, has_terminal: bool) -> None:
    """Its output keeps its bytes, also where Python would write ASCII; on a terminal tags have colours, and nothing steers it."""
    (tmp_path / "script.py").write_text(SCRIPT)
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "xterm"}
    environ.pop("NO_COLOR", None)
    ours, theirs = os.openpty() if has_terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py"], env=environ, stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)
    _, err = process.communicate(timeout=PATIENCE_S)
    out = b""
    while data := _read(ours):
        out += data
    os.close(ours)
    assert "begin \N{SNOWMAN}".encode() in out
    assert (b"\x1b]0;title" in out) != has_terminal
    assert (b"m[trainer 0] \x1b[0mbegin" in out) == has_terminal
    assert (out + err).count(b"ValueError: no such column: age") == 2, "the first line of the error, and its traceback"
    assert b"ValueError" not in out


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except OSError:  # of a terminal that nobody has open any more
        return b""


def test_a_traceback_that_ends_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()\nprint('goes on')\n"
    umiak.run(run_functions.execute, code, nproc_per_node=1)
    shown = capsys.readouterr().out
    assert shown.count("ZeroDivisionError") == 1
    assert shown.index("ZeroDivisionError") < shown.index("goes on")


def test_all_failed_ranks_are_known_the_first_failure_first(tmp_path: Path) -> None:
    error = failed(run_functions.fail_in_order, str(tmp_path), nproc_per_node=2, failure_grace=60)
    assert [(each.rank, each.what) for each in error.failures] == [
        (1, "ValueError: the first"),
        (0, "ConnectionError: the second"),
    ]
    assert "it failed first; after it: rank 0 (ConnectionError: the second)" in str(error)
    assert "traceback of rank 0:" in str(error)


def test_an_exception_that_can_not_be_copied_is_told_in_words() -> None:
    error = failed(run_functions.fail_on, 0, "odd", nproc_per_node=2)
    assert "Missing: no such column: age in users" in str(error)
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("how", "what", "number", "status"),
    [("kill", "killed by SIGKILL (9)", 9, 137), ("exit", "exit code 5", None, 5)],
)
def test_a_worker_that_is_killed_or_exits(how: str, what: str, number: int | None, status: int) -> None:
    error = failed(run_functions.fail_on, 1, how, nproc_per_node=2)
    assert str(error).startswith(f"rank 1 of 2 failed: {what} [UM-RUN-007]\n")
    assert [(each.rank, each.signal) for each in error.failures] == [(1, number)]
    assert error.exit_status == status


def test_a_worker_that_hangs_is_named() -> None:
    error = failed(run_functions.fail_on, 5, "never", nproc_per_node=2, hang_timeout=1)
    assert "failed: hung: no output and no umiak.progress() for 1 s [UM-RUN-007]" in str(error)
    assert error.failures


def test_a_worker_without_a_result_is_named() -> None:
    assert str(failed(run_functions.fail_on, 0, "vanish")).startswith(
        "rank 0 of 1 ended without a result [UM-RUN-012]\n"
    )


def test_what_can_not_be_sent_is_told() -> None:
    assert "UM-RUN-009" in str(failed(run_functions.unsendable))
    error = failed(run_functions.add, threading.Lock())
    assert error.problems[0].code == "UM-RUN-005"
    assert "lock" in str(error)


def test_a_function_that_a_worker_can_not_import_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "gone.py"
    module.write_text("def work():\n    return 1\n")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(tmp_path))
        import gone  # type: ignore[import-not-found]
    module.unlink()
    assert "UM-RUN-008" in str(failed(gone.work))
    assert "No module named 'gone'" in str(failed(gone.work))


def test_a_script_that_fails_and_one_that_is_not_there() -> None:
    Path("bad.py").write_text("raise ValueError('no such column: age')\n")
    error = failed("bad.py", nproc_per_node=2)
    assert error.exit_status == 1
    assert "ValueError: no such column: age" in str(error)
    assert "UM-JOB-001" in str(error)
    assert "no such script: nowhere.py [UM-LAUNCH-201]" in str(failed("nowhere.py"))


def test_a_call_that_is_wrong_starts_nothing_and_tells_everything(tmp_path: Path) -> None:
    error = failed(run_functions.add, 1, nproc_per_nod=2, nnodes=2, grace="soon", env={"A": 1})
    assert [problem.code for problem in error.problems] == ["UM-RUN-001", "UM-RUN-002", "UM-RUN-003", "UM-CLI-003"]
    assert "did you mean nproc_per_node?" in str(error)
    assert not list((tmp_path / "work").iterdir())
    assert failed(None).problems[0].code == "UM-RUN-003"
    assert failed("x.py", kwargs={"a": 1}).problems[0].code == "UM-RUN-003"
    assert "less than 1: --nproc_per_node 0" in str(failed(run_functions.add, nproc_per_node=0))


# ---- how it ends


CALLER = """
import sys, umiak
from tests.support import run_functions
print(umiak.run(getattr(run_functions, sys.argv[2]), sys.argv[1], nproc_per_node=2, grace=60))
"""


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], list[int]]]]:
    """Starts a process that calls; it and its workers, when both workers are there."""
    story = tmp_path / "story"
    story.mkdir()
    root = ROOT
    started: list[subprocess.Popen[str]] = []

    def workers() -> list[int]:
        return [int(each.suffix[1:]) for each in story.iterdir()]

    def start(function: str = "wait_forever") -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-c", CALLER, str(story), function]
        environ = {**os.environ, "PYTHONPATH": str(root)}
        started.append(subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True))
        until(lambda: len(workers()) == 2, "both workers are there", talk=lambda: str(started[0].poll()))
        return started[0], workers()

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for pid in workers():
        if not is_gone(pid):  # the test has failed; their launcher ends with them
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def test_ctrl_c_ends_the_workers_and_is_raised(tmp_path: Path, caller) -> None:
    process, workers = caller()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "killing all workers now" not in err  # it came once
    assert all(is_gone(pid) for pid in workers)
    assert nothing_private_is_left(tmp_path)


def test_a_second_ctrl_c_does_not_wait_for_workers_that_go_on(tmp_path: Path, caller) -> None:
    process, workers = caller("ignore_signals")
    process.send_signal(signal.SIGINT)
    while "received SIGINT" not in process.stderr.readline():
        assert process.poll() is None
    received_at = time.monotonic()
    until(lambda: time.monotonic() > received_at + 2 * ONE_S, "before that it would be the same one")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert "second signal: killing all workers now" in err
    assert process.returncode == -signal.SIGINT
    assert all(is_gone(pid) for pid in workers)


@pytest.mark.parametrize("ignored", [False, True], ids=["as usual", "where SIGTERM is ignored"])
def test_a_killed_caller_leaves_nothing(tmp_path: Path, caller, ignored: bool) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN) if ignored else None
    try:
        process, workers = caller()
    finally:
        if ignored:
            signal.signal(signal.SIGTERM, before)
    process.kill()
    process.wait()
    until(lambda: all(is_gone(pid) for pid in workers), "no worker is left")
    until(lambda: nothing_private_is_left(tmp_path), "no file is left")


# ---- what is unpickled


def test_files_are_private_and_only_private_ones_are_read(tmp_path: Path) -> None:
    with exchange.directory() as path:
        assert os.stat(path).st_mode & 0o777 == 0o700
        exchange.put(path, "one", b"1")
        assert os.stat(f"{path}/one").st_mode & 0o777 == 0o600
        assert exchange.get(path, "one") == b"1"
        os.chmod(f"{path}/one", 0o620)
        with pytest.raises(umiak.RunError, match="UM-RUN-011"):
            exchange.get(path, "one")
        os.chmod(f"{path}/one", 0o600)
        os.symlink("one", f"{path}/link")
        with pytest.raises(OSError, match="link"):
            exchange.get(path, "link")
        os.chmod(path, 0o770)
        with pytest.raises(umiak.RunError, match="others may use it"):
            exchange.get(path, "one")
        os.chmod(path, 0o700)
        if os.geteuid() == 0:
            os.chown(f"{path}/one", 65534, -1)
            with pytest.raises(umiak.RunError, match="belongs to another user"):
                exchange.get(path, "one")
    assert not os.path.exists(path)


class Trap:
    """Would tell if it were unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("sprung",))


def test_nothing_is_unpickled_from_a_file_that_others_may_write(tmp_path: Path) -> None:
    with exchange.directory() as path:
        exchange.put(path, "caller", pickle.dumps(Trap()))
        os.chmod(f"{path}/caller", 0o666)
        with pytest.raises(umiak.RunError, match="UM-RUN-011"):
            exchange.unpacked(exchange.get(path, "caller"))
    assert not Path("sprung").exists()
