"""Real processes: how they are started, and that nothing of them is left however their launcher ends.

Everything here happens in processes of its own, because what is tested kills whatever its process has ever started.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE_S, eventually, is_running, output_of, python
from umiak.adapters import process

PREAMBLE = """
import json, os, select, signal, subprocess, sys, time
from umiak.adapters import kernel_requests, process, watchdog

def everything(child):
    os.set_blocking(child.output, True)
    data = b""
    while piece := os.read(child.output, 65536):
        data += piece
    return data.decode()
"""

TREE = """
import os, sys, time
# A family as bad programs have it: a child, and one in a session of its own whose parent has gone.
def leave_behind(pids):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            pids.write(f"{os.getpid()}\\n"); pids.flush()
            time.sleep(600)
        os._exit(0)
    os.wait()

pids = open(sys.argv[1], "a")
leave_behind(pids)
if os.fork() == 0:
    pids.write(f"{os.getpid()}\\n"); pids.flush()
    time.sleep(600)
pids.write(f"{os.getpid()}\\n"); pids.flush()
time.sleep(600)
"""


def run(code: str, *arguments: str | Path) -> Any:
    """What the code prints, as JSON."""
    return json.loads(output_of(PREAMBLE + textwrap.dedent(code), *arguments))


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Path]:
    """A program that starts a whole family; afterwards nothing may be left of it, and nothing is."""
    script = tmp_path / "family.py"
    script.write_text(TREE)
    yield script
    for pid in pids_in(tmp_path / "pids"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pids_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def all_there(path: Path) -> list[int]:
    return eventually(lambda: pids if len(pids := pids_in(path)) == 3 else [])


def all_gone(pids: list[int]) -> None:
    eventually(lambda: not any(is_running(pid) for pid in pids))


# ---- starting


def test_a_program_is_started_and_its_words_and_its_end_arrive() -> None:
    seen = run(
        """
        child = process.spawn(["sh", "-c", "echo out; echo err >&2; exit 3"], os.environ)
        text = everything(child)
        select.select([child.pidfd], [], [])
        print(json.dumps([text, process.reap(child)]))
        """
    )
    assert seen == ["out\nerr\n", 3]


def test_a_program_gets_the_environment_that_it_is_given_and_nothing_more() -> None:
    seen = run(
        """
        child = process.spawn([sys.executable, "-S", "-c", "import os; print(sorted(os.environ))"], {"ONLY": "this", "LC_ALL": "C"})
        print(json.dumps([everything(child), process.reap(child)]))
        """
    )
    assert seen == ["['LC_ALL', 'ONLY']\n", 0]


def test_a_program_inherits_no_descriptors_and_reads_nothing() -> None:
    seen = run(
        """
        kept = [os.open(os.devnull, os.O_RDWR) for _ in range(5)]
        show = "import os; fds = {int(fd) for fd in os.listdir('/proc/self/fd')}; print(sorted(fds - {3})); print(repr(input() if False else __import__('sys').stdin.read()))"
        child = process.spawn([sys.executable, "-S", "-c", show], os.environ)
        print(json.dumps(everything(child)))
        process.reap(child)
        """
    )
    assert seen == "[0, 1, 2]\n''\n"


def test_one_worker_may_read_what_the_launcher_was_given() -> None:
    with python(
        PREAMBLE
        + textwrap.dedent(
            """
            child = process.spawn(["cat"], os.environ, read_stdin=True)
            print(json.dumps(everything(child)))
            process.reap(child)
            """
        ),
        stdin=subprocess.PIPE,
    ) as asking:
        out, err = asking.communicate("data from a pipe\n", timeout=PATIENCE_S)
    assert json.loads(out) == "data from a pipe\n", err


def test_a_program_has_a_session_of_its_own_and_the_signals_that_its_launcher_was_started_with() -> None:
    seen = run(
        """
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        child = process.spawn(["sh", "-c", "ps -o sid= -p $$ | tr -d ' '; echo $$; cat /proc/self/status"], os.environ)
        print(json.dumps(everything(child).splitlines()))
        process.reap(child)
        """
    )
    assert seen[0] == seen[1], "the session bears the number of the process"
    ignored = int(next(line for line in seen if line.startswith("SigIgn")).split()[1], 16)
    is_ignored = {
        number.name: bool(ignored >> (number - 1) & 1)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGPIPE)
    }
    assert is_ignored == {"SIGTERM": False, "SIGUSR1": False, "SIGHUP": True, "SIGPIPE": False}, "as under nohup"


def test_a_program_that_a_signal_ended_says_which() -> None:
    seen = run(
        """
        child = process.spawn(["sleep", "600"], os.environ)
        os.kill(child.pid, signal.SIGKILL)
        print(json.dumps(process.reap(child)))
        """
    )
    assert seen == -9


def test_what_cannot_be_started_is_told_with_the_shells_code_and_nothing_is_left(tmp_path: Path) -> None:
    script = tmp_path / "no-shebang"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    plain = tmp_path / "not-executable"
    plain.write_text("#!/bin/sh\n")
    seen = run(
        """
        outcomes = []
        before = len(os.listdir("/proc/self/fd"))
        for program in sys.argv[1:]:
            try:
                process.spawn([program], os.environ)
            except process.NotStarted as error:
                outcomes.append([error.exit_code, str(error)])
        outcomes.append(len(os.listdir("/proc/self/fd")) - before)
        outcomes.append(process.descendants(os.getpid()))
        print(json.dumps(outcomes))
        """,
        "no-such-program-anywhere", tmp_path / "missing", plain, tmp_path, script,
    )  # fmt: skip
    assert [outcome[0] for outcome in seen[:5]] == [127, 127, 126, 126, 126]
    assert seen[1][1] == f"{tmp_path / 'missing'}: No such file or directory"
    assert seen[2][1].endswith("Permission denied")
    assert seen[5:] == [0, []]


def test_a_program_dies_with_its_launcher(tmp_path: Path) -> None:
    code = (
        PREAMBLE + "child = process.spawn(['sleep', '600'], os.environ); print(child.pid, flush=True); time.sleep(600)"
    )
    with python(code) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        assert is_running(pid)
        launcher.kill()
    all_gone([pid])


# ---- ending


def test_a_signal_for_a_group_reaches_the_whole_group_and_a_group_that_is_gone_is_fine() -> None:
    seen = run(
        """
        child = process.spawn(["sh", "-c", "sleep 600 & echo started; wait"], os.environ)
        os.set_blocking(child.output, True)
        os.read(child.output, 100)
        process.signal_group(child, signal.SIGTERM)
        rest = everything(child)  # the pipe ends when the last of them has gone
        code = process.reap(child)
        process.signal_group(child, signal.SIGTERM)
        print(json.dumps([rest, code]))
        """
    )
    assert seen == ["", -15]


def test_killing_descendants_finds_those_that_ran_away(family: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with python(
        PREAMBLE
        + textwrap.dedent(
            """
            kernel_requests.become_subreaper()
            child = process.spawn([sys.executable, *sys.argv[1:]], os.environ)
            sys.stdin.readline()
            killed = process.kill_descendants(spare=[child.pid])
            alive = [pid for pid, state in process.descendants(os.getpid()) if state not in "ZX"]
            print(json.dumps([killed, alive, process.reap(child), process.descendants(os.getpid())]))
            """
        ),
        family,
        pids,
        stdin=subprocess.PIPE,
    ) as launcher:
        started = all_there(pids)
        out, err = launcher.communicate("go on\n", timeout=PATIENCE_S)
    killed, alive, code, left = json.loads(out or "[]") or pytest.fail(err)
    assert killed >= 3
    assert alive == []
    assert code == -9, "a spared child is left for anyone who waits for it"
    assert left == [], "and everyone else is not left as a zombie"
    assert not any(is_running(pid) for pid in started)


def test_killing_nobody_is_fine() -> None:
    assert run("print(process.kill_descendants())") == 0


def test_orphans_are_collected_and_children_are_not() -> None:
    seen = run(
        """
        kernel_requests.become_subreaper()
        child = process.spawn(["sh", "-c", "(exit 0) & exit 4"], os.environ)
        deadline = time.monotonic() + 200
        states = lambda: dict(process.descendants(os.getpid()))
        # First the shell: a list of processes that began before its fork does not have the orphan.
        while states()[child.pid] != "Z" and time.monotonic() < deadline:
            time.sleep(0.01)
        # The orphan is one of ours now, or its shell has collected it itself.
        while set(states().values()) != {"Z"} and time.monotonic() < deadline:
            time.sleep(0.01)
        process.reap_adopted([child.pid])
        left = [pid for pid, _ in process.descendants(os.getpid())]
        print(json.dumps([left == [child.pid], process.reap(child)]))
        """
    )
    assert seen == [True, 4]


def test_a_process_whose_name_is_made_to_confuse_is_found_all_the_same(tmp_path: Path) -> None:
    program = tmp_path / ") Z 1 ("
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    seen = run(
        """
        child = process.spawn([sys.argv[1], "600"], os.environ)
        while open(f"/proc/{child.pid}/comm").read().strip() != ") Z 1 (":
            time.sleep(0.001)
        found = [pid for pid, state in process.descendants(os.getpid()) if state not in "ZX"]
        killed = process.kill_descendants(spare=[child.pid])
        print(json.dumps([found == [child.pid], killed, process.reap(child)]))
        """,
        program,
    )
    assert seen == [True, 1, -9]


def test_who_catches_a_signal_is_known() -> None:
    code = "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: None); print(flush=True); sys.stdin.read()"
    with python(code, stdin=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert process.catches(other.pid, signal.SIGUSR1)
        assert not process.catches(other.pid, signal.SIGUSR2)
        other.communicate(timeout=PATIENCE_S)
    assert not process.catches(other.pid, signal.SIGUSR1)


def test_memory_kills_are_counted() -> None:
    assert process.out_of_memory_kills() >= 0
    with open("/proc/vmstat") as file:
        assert any(line.startswith("oom_kill ") for line in file), "where the kernel tells it"


# ---- the two halves of a launcher

GUARDED = (
    PREAMBLE
    + """
for number in process.FORWARDED:  # a background job of a shell inherits some of them ignored
    signal.signal(number, signal.SIG_DFL)
try:
    pulse = watchdog.guard(600)
except watchdog.Killed as error:
    sys.exit(100 + error.number)
if isinstance(pulse, int):
    sys.exit(pulse)
"""
)


@pytest.mark.parametrize(
    ("ending", "status"), [("os._exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 109)]
)
def test_how_the_working_half_ended_is_passed_on(ending: str, status: int) -> None:
    with python(GUARDED + ending) as launcher:
        launcher.communicate(timeout=PATIENCE_S)
    assert launcher.returncode == status


@pytest.mark.parametrize("number", process.FORWARDED, ids=lambda number: number.name)
def test_signals_are_passed_on_to_the_working_half(number: signal.Signals) -> None:
    code = GUARDED + textwrap.dedent(
        """
        number = int(sys.argv[1])
        signal.signal(number, lambda *_: sys.exit(40))
        watchdog.open_for_signals()
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
        """
    )
    with python(code, str(int(number))) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        launcher.send_signal(number)
        launcher.communicate(timeout=PATIENCE_S)
    assert launcher.returncode == 40


def test_a_signal_that_comes_before_the_handlers_are_in_place_is_not_lost() -> None:
    code = GUARDED + textwrap.dedent(
        """
        print("two", flush=True)
        sys.stdin.readline()
        signal.signal(signal.SIGTERM, lambda *_: os._exit(41))
        watchdog.open_for_signals()
        time.sleep(600)
        """
    )
    with python(code, stdin=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate("go on\n", timeout=PATIENCE_S)
    assert launcher.returncode == 41


def test_what_the_working_half_left_behind_is_ended_when_it_ends(family: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = GUARDED + textwrap.dedent(
        """
        subprocess.Popen([sys.executable, *sys.argv[1:]])
        sys.stdin.readline()
        os._exit(5)
        """
    )
    with python(code, family, pids, stdin=subprocess.PIPE) as launcher:
        started = all_there(pids)
        launcher.communicate("end\n", timeout=PATIENCE_S)
    assert launcher.returncode == 5
    assert not any(is_running(pid) for pid in started), "they are gone before the launcher is"


def test_without_a_watchdog_the_working_half_does_not_live_on() -> None:
    with python(GUARDED + "print(os.getpid(), flush=True); time.sleep(600)") as launcher:
        assert launcher.stdout is not None
        working = int(launcher.stdout.readline())
        launcher.kill()
    all_gone([working])


WATCHED = (
    PREAMBLE
    + """
try:
    pulse = watchdog.guard(0.3, start_s=float(sys.argv[1]))
except watchdog.Unresponsive as error:
    sys.exit(50 if error.silent_s >= 0.3 else 51)
if isinstance(pulse, int):
    sys.exit(pulse)
"""
)


def test_a_working_half_that_hangs_is_ended_with_all_that_it_started(family: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = WATCHED + textwrap.dedent(
        """
        subprocess.Popen([sys.executable, *sys.argv[2:]])
        while sys.stdin.buffer.raw.readline() != b"hang\\n":
            pass
        pulse.beat()
        time.sleep(600)
        """
    )
    with python(code, "600", family, pids, stdin=subprocess.PIPE) as launcher:
        started = all_there(pids)
        launcher.communicate("hang\n", timeout=PATIENCE_S)
    assert launcher.returncode == 50
    assert not any(is_running(pid) for pid in started), "they are gone before the watchdog is"


def test_a_working_half_that_shows_signs_of_life_or_said_how_long_it_takes_is_left_alone() -> None:
    code = WATCHED + textwrap.dedent(
        """
        began = time.monotonic()
        while time.monotonic() < began + 1:
            pulse.beat()
            time.sleep(0.01)
        pulse.beat(allow_s=600)
        time.sleep(1)
        os._exit(5)
        """
    )
    with python(code, "600") as launcher:
        launcher.communicate(timeout=PATIENCE_S)
    assert launcher.returncode == 5


@pytest.mark.parametrize("half", ["the one that waits", "the one that works"])
def test_nothing_is_left_of_a_real_launch_when_one_of_its_halves_is_killed(
    half: str, family: Path, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    options = ["--nproc_per_node", "1", "--topology", "none", "--log_dir", str(tmp_path / "log")]
    command = [sys.executable, "-m", "umiak.launch", *options, str(family), str(pids)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as launcher:
        started = all_there(pids)
        (working,) = [pid for pid in process.descendants(launcher.pid) if pid[0] in _children_of(launcher.pid)]
        os.kill(launcher.pid if half == "the one that waits" else working[0], signal.SIGKILL)
        launcher.communicate(timeout=PATIENCE_S)
    all_gone([*started, working[0]])
    assert launcher.returncode in (-9, 137)


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
