"""What a run leaves to read: tagged lines on the console, a file per worker, rotated, appended or begun anew."""

from __future__ import annotations

import os
import subprocess

import pytest

from testbed.pytest_support import NetworkFactory
from tests.integration.launching import LAUNCH, WORKERS, Stage, free_port, until

CHATTY = WORKERS / "chatty.py"


@pytest.mark.parametrize(
    ("flags", "shown"), [("", ["0"]), ("--tee 0", ["0"]), ("--tee all", ["0", "1"]), ("--tee none", [])]
)
def test_tee_shows_the_first_everybody_or_nobody_with_a_tag(stage: Stage, flags: str, shown: list[str]) -> None:
    launcher = stage.launch(f"--nproc_per_node 2 {flags}", CHATTY, "3")
    assert launcher.wait() == 0
    lines = [f"[trainer {rank}] line {number} of {rank}" for rank in shown for number in range(3)]
    assert sorted(launcher.stdout.splitlines()) == sorted([*lines, *(f"[trainer {rank}] no newline" for rank in shown)])
    for rank in "01":
        assert launcher.log(f"workerlog.{rank}") == "".join(f"line {n} of {rank}\n" for n in range(3)) + "no newline"
    assert "the job is done" in launcher.stderr
    assert "line " not in launcher.stderr


def test_a_log_file_is_rotated_before_it_grows_too_large(stage: Stage) -> None:
    launcher = stage.launch("--log_max_bytes 4k", CHATTY, "20000")
    assert launcher.wait() == 0
    files = [launcher.log_dir / name for name in ("workerlog.0.2", "workerlog.0.1", "workerlog.0")]
    assert [path.name for path in files if path.exists()] == ["workerlog.0.2", "workerlog.0.1", "workerlog.0"]
    assert not (launcher.log_dir / "workerlog.0.3").exists()
    kept = "".join(path.read_text() for path in files)
    everything = "".join(f"line {number} of 0\n" for number in range(20000)) + "no newline"
    assert everything.endswith(kept), "the end of the output, without a gap"
    assert launcher.stdout.count("[trainer 0] line ") == 20000, "the console has it all"


@pytest.mark.parametrize(("flags", "runs"), [("", 2), ("--log_overwrite true", 1)])
def test_a_second_run_appends_unless_it_is_told_to_overwrite(stage: Stage, flags: str, runs: int) -> None:
    place = stage.directory / "place"
    for _ in range(2):
        launcher = stage.launch(flags, CHATTY, "5", cwd=place)
        assert launcher.wait() == 0
    assert launcher.log("workerlog.0").count("line 0 of 0") == runs


def test_a_restart_does_not_overwrite_what_was_said_before_it(stage: Stage) -> None:
    launcher = stage.launch("--max_restart 1 --log_overwrite true")
    stage.story.until_alive(generation=1)
    stage.story.order("raise", rank=0)
    stage.story.until_alive(generation=2)
    stage.story.order("end")
    assert launcher.wait() == 0
    assert launcher.log("workerlog.0").count("born as trainer 0") == 2
    assert "RuntimeError" in launcher.log("workerlog.0")


def test_a_console_that_nobody_reads_does_not_hold_the_job_up(stage: Stage) -> None:
    unread, full = os.pipe()
    try:
        launcher = stage.start([*LAUNCH, str(CHATTY), "200000"], stdout=full)
        until(lambda: stage.story.lives() and stage.story.lives()[0].moment("done"), "the worker has said it all")
        assert launcher.wait() == 0
    finally:
        os.close(unread)
        os.close(full)
    assert launcher.log("workerlog.0").count("\n") == 200000


def test_a_reader_that_goes_away_does_not_end_the_job(stage: Stage) -> None:
    reading, writing = os.pipe()
    launcher = stage.start([*LAUNCH, str(WORKERS / "obedient.py")], stdout=writing)
    os.close(writing)
    stage.story.until_alive(generation=1)
    os.close(reading)
    stage.story.order("say nobody hears this", rank=0)
    until(lambda: "nobody hears this" in launcher.log("workerlog.0"), "it is in the log", talk=stage.transcript)
    stage.story.order("end")
    assert launcher.wait() == 0


def test_closed_streams_are_no_reason_to_fail(stage: Stage) -> None:
    launcher = stage.start(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *LAUNCH, str(CHATTY), "2"])
    assert launcher.wait() == 0
    assert launcher.log("workerlog.0").count("line ") == 2


@pytest.mark.netns
def test_a_full_disk_does_not_stop_the_job(stage: Stage, network: NetworkFactory) -> None:
    (a,) = network(1).hosts
    place = stage.directory / "place" / "log"
    place.mkdir(parents=True)
    a.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", str(place)], check=True)
    launcher = stage.launch("", CHATTY, "20000", host=a, cwd=place.parent)
    assert launcher.wait() == 0
    assert launcher.stdout.count("[trainer 0] line ") == 20000
    assert "workerlog.0 can't be written, its worker goes on without a log: No space left on device" in launcher.stderr


def test_two_launchers_in_one_directory_keep_their_logs_apart(stage: Stage) -> None:
    place = stage.directory / "place"
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    launchers = [stage.launch(flags, cwd=place) for _ in range(2)]
    stage.story.until_alive(generation=1, world=2)
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    said = sorted(path.read_text() for path in (place / "log").rglob("workerlog.0"))
    assert said == ["born as trainer 0\n", "born as trainer 1\n"]


def test_workers_see_an_empty_input_and_the_first_one_the_launchers(stage: Stage) -> None:
    launcher = stage.start(
        [*LAUNCH, "--nproc_per_node", "2", "--tee", "all", "sh", "-c", 'echo "<$(cat)>"'], stdin=subprocess.PIPE
    )
    assert launcher.process.stdin is not None
    with launcher.process.stdin as to_it:
        to_it.write("typed")
    assert launcher.wait() == 0
    assert sorted(launcher.stdout.splitlines()) == ["[trainer 0] <typed>", "[trainer 1] <>"]


def test_the_log_directory_and_its_files_are_private_whatever_the_umask(stage: Stage) -> None:
    launcher = stage.start(["sh", "-c", 'umask 0; exec "$@"', "sh", *LAUNCH, "--hang_timeout", "60", str(CHATTY), "1"])
    assert launcher.wait() == 0
    names = {path.name for path in launcher.log_dir.iterdir()}
    assert {"workerlog.0", "events.jsonl", "envlog.trainer.0", "backup_env.0.json", "stacks.trainer.0"} <= names
    assert {path.stat().st_mode & 0o777 for path in launcher.log_dir.iterdir()} == {0o600}
    assert launcher.log_dir.stat().st_mode & 0o777 == 0o700


def test_a_log_directory_that_cannot_be_made_is_refused(stage: Stage) -> None:
    (stage.directory / "file").touch()
    launcher = stage.launch(f"--log_dir {stage.directory}/file/log", CHATTY, "1")
    assert launcher.wait() == 3
    assert "UM-LAUNCH-202" in launcher.stderr
