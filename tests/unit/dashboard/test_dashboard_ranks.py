"""What each worker of a run does now: phases, who waits for whom, processes that are found below their launcher, stacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import eventually
from tests.support.run_directories import WALL, exited, failure
from tests.unit.dashboard.test_dashboard_stories import row, story
from umiak.dashboard import run_files, sentences
from umiak.dashboard.files import Locks
from umiak.dashboard.rows import RunSource
from umiak.dashboard.run_files import ListedFile
from umiak.dashboard.workers import processes, ranks

NOW = WALL + 1000


def log(number: int, changed_s: float, kind: str = "log") -> ListedFile:
    size = 10 if kind == "log" else 0
    name = f"{kind}.{number}"
    return ListedFile(
        key=name, name=name, kind=kind, path="", size_bytes=size, changed_s=changed_s, role="trainer", number=number
    )


def looks(*files: ListedFile, waits: dict[int, str] | None = None, **story_of: object) -> list[ranks.RankLook]:
    found = story(**story_of)
    return ranks.rank_looks(found.workers.values(), "", files, {}, waits or {}, NOW)


def test_a_worker_that_writes_runs_and_one_that_does_not_is_silent() -> None:
    found = looks(log(0, NOW - 5), log(1, NOW - 500))
    assert [(each.key, each.phase, each.log) for each in found] == [
        ("trainer.0", "running", "log.0"),
        ("trainer.1", "silent", "log.1"),
    ]
    said = sentences.sentence_of(row("running", started_s=WALL), [story()], NOW, found)
    assert said.text == "running for 16 min, 2 of 2 workers up, trainer 1 has written nothing for 8 min"
    assert "stack of trainer 1" in said.hint


def test_progress_counts_as_a_sign_of_life() -> None:
    found = looks(log(0, NOW - 500), log(0, NOW - 5, "progress"), log(1, NOW - 500), log(1, NOW - 400, "progress"))
    assert [each.phase for each in found] == ["running", "silent"]
    assert found[1].wrote_s == NOW - 400


def test_who_waits_for_whom_is_in_the_sentence() -> None:
    waits = {0: 'barrier "end" waits for trainer 1 (gone for 3 s)'}
    found = looks(log(0, NOW - 5), log(1, NOW - 5), waits=waits)
    assert [each.phase for each in found] == ["waiting", "running"]
    said = sentences.sentence_of(row("running"), [story()], NOW, found)
    assert said.text == 'running, 2 of 2 workers up, trainer 0 waits: barrier "end" waits for trainer 1 (gone for 3 s)'


def test_a_worker_that_has_ended_neither_waits_nor_is_silent() -> None:
    found = story(exited(0, 60.0), exited(1, 60.0, failure(1)))
    told = ranks.rank_looks(found.workers.values(), "", [log(0, WALL), log(1, WALL)], {}, {1: "x"}, NOW)
    assert [(each.phase, each.waits) for each in told] == [("done", ""), ("failed", "")]


@pytest.mark.parametrize(
    ("count", "said"), [(1, "trainer 0"), (3, "trainer 0, trainer 1 and trainer 2"), (5, "2 more")]
)
def test_many_are_named_in_a_few_words(count: int, said: str) -> None:
    found = looks(*[log(number, NOW - 500) for number in range(count)], workers=count)
    assert said in sentences.named(found)


def test_files_of_a_worker_are_known_as_its_own(tmp_path: Path) -> None:
    for name in ("workerlog.1", "stacks.trainer.1", "progress.trainer.1", "envlog.server.0", "stacks.trainer.x"):
        (tmp_path / name).write_text("x" if name[0] != "p" else "")
    found = run_files.files_of(RunSource(launch_directories=(str(tmp_path),))).values()
    assert {(each.kind, each.role, each.number) for each in found} == {
        ("log", "trainer", 1),
        ("stacks", "trainer", 1),
        ("progress", "trainer", 1),
        ("environment", "server", 0),
    }
    told = ranks.rank_looks(story().workers.values(), "", found, {}, {}, NOW)
    assert [bool(each.stacks) for each in told] == [False, True]


PY_SPY = """#!/bin/sh
[ "$1 $2 $3" = "dump --nonblocking --pid" ] || exit 9
[ -d "/proc/$4" ] || { echo "no process" >&2; exit 1; }
echo "Process $4: python train.py --password hunter2"
printf 'Thread %s\\033[2J\\n    wait (train.py:3)\\n' "$4"
"""


def test_processes_are_found_below_their_launcher_and_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that holds the journal has a worker, which has a child with the same variables."""
    (tmp_path / "events.jsonl").touch()
    worker = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    launcher = (
        "import fcntl, os, subprocess, sys\n"
        "file = open('events.jsonl', 'a')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "environ = {**os.environ, 'UMIAK_ROLE': 'trainer', 'UMIAK_LOCAL_RANK': '3'}\n"
        f"subprocess.run([sys.executable, '-c', {worker!r}], env=environ)\n"
    )
    started = subprocess.Popen([sys.executable, "-c", launcher], cwd=tmp_path, stdin=subprocess.PIPE)
    try:
        found = eventually(lambda: processes.workers_of(str(tmp_path), Locks()))
        assert list(found) == ["trainer.3"]
        parents = Path(f"/proc/{found['trainer.3'].pid}/status").read_text().splitlines()
        assert f"PPid:\t{started.pid}" in parents
        # A process that has only just begun has less.
        eventually(lambda: processes.workers_of(str(tmp_path), Locks())["trainer.3"].memory_bytes > 1 << 20)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        assert "py-spy is not installed" in processes.stack_of(found["trainer.3"]).why
        (tmp_path / "py-spy").write_text(PY_SPY)
        (tmp_path / "py-spy").chmod(0o755)
        stack = processes.stack_of(found["trainer.3"])
        pid = found["trainer.3"].pid
        assert (stack.text, stack.why) == (f"Process {pid}\nThread {pid}\n    wait (train.py:3)\n", "")
    finally:
        assert started.stdin is not None
        started.stdin.close()
        started.wait()
    assert processes.workers_of(str(tmp_path), Locks()) == {}
    gone = processes.stack_of(found["trainer.3"])
    assert gone.why == "py-spy could not look at it: no process"
    assert os.path.exists(tmp_path / "events.jsonl")
