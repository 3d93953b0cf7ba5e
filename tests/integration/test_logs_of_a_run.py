"""What a run leaves to read: tagged lines on the console, a file per worker, rotated, appended or started over."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from testbed.ports import free_port
from testbed.pytest_support import NetworkFactory, require
from tests.support.launching import LAUNCH, WORKERS, Stage, until

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


def test_quiet_leaves_the_workers_their_words_and_says_what_goes_wrong(stage: Stage) -> None:
    launcher = stage.launch("--quiet --nproc_per_node 2", CHATTY, "3")
    assert launcher.wait() == 0
    assert launcher.stderr == ""
    assert launcher.stdout.count("[trainer 0] line ") == 3
    launcher = stage.launch("-q", stage.directory / "nowhere.py")
    assert launcher.wait() != 0
    assert "error: " in launcher.stderr
    assert "LAUNCH INFO" not in launcher.stderr


def test_verbose_shows_every_setting(stage: Stage) -> None:
    plain, verbose = stage.launch("", CHATTY, "3"), stage.launch("--verbose", CHATTY, "3")
    assert plain.wait() == verbose.wait() == 0
    assert "LAUNCH INFO" in plain.stderr
    assert "Job: default, mode collective, replicas 1[1:1], elastic False" in plain.stderr
    assert "grace: 30" not in plain.stderr
    assert "grace: 30" in verbose.stderr


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


@pytest.mark.netns
@pytest.mark.parametrize("free_bytes", [0, 4096])
def test_a_worker_is_not_sent_to_a_file_that_is_not_whole(
    stage: Stage, network: NetworkFactory, free_bytes: int
) -> None:
    """Paddle reads its lists from PADDLE_BACKUP_ENV_PATH, if that is set, and ends if there is half a file."""
    (a,) = network(1).hosts
    place = stage.directory / "place" / "log"
    place.mkdir(parents=True)
    a.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", str(place)], check=True)
    a.run(["dd", "if=/dev/zero", f"of={place}/full", "bs=4096", f"count={16 - free_bytes // 4096}"], check=False)
    script = stage.directory / "reads.py"
    script.write_text(
        "import json, os\n"
        "path = os.environ.get('PADDLE_BACKUP_ENV_PATH')\n"
        "known = {**(json.load(open(path)) if path else {}), **os.environ}\n"
        "print('endpoints:', len(known['PADDLE_TRAINER_ENDPOINTS'].split(',')))\n"
    )
    launcher = stage.launch("--nproc_per_node 2 --tee all", script, host=a, cwd=place.parent)
    assert launcher.wait() == 0, launcher.stderr
    assert launcher.stdout.count("endpoints: 2") == 2


def test_two_launchers_in_one_directory_keep_their_logs_apart(stage: Stage) -> None:
    place = stage.directory / "place"
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    launchers = [stage.launch(flags, cwd=place) for _ in range(2)]
    stage.story.until_alive(generation=1, world=2)
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    said = sorted(path.read_text() for path in (place / "log").rglob("workerlog.0"))
    assert said == ["born as trainer 0\n", "born as trainer 1\n"]
    assert (place / "log" / os.uname().nodename / "workerlog.0").exists()


@pytest.mark.netns
def test_nodes_that_share_a_log_directory_are_found_by_their_names(stage: Stage, network: NetworkFactory) -> None:
    place = stage.directory / "place"
    flags = "--nnodes 3 --master 10.88.0.1:7000"
    a, b, c = network(3).hosts
    launchers = [stage.launch(flags, host=a, cwd=place)]
    launchers[0].expect("waiting for 2 of 3 nodes")
    launchers += [stage.launch(flags, host=b, cwd=place), stage.launch(f"{flags} --rank 2", host=c, cwd=place)]
    stage.story.until_alive(generation=1, world=3)
    stage.story.order("end")
    assert [launcher.wait() for launcher in launchers] == [0, 0, 0]
    assert {str(path.relative_to(place / "log").parent) for path in (place / "log").rglob("workerlog.0")} == {
        ".",
        "node1",
        "node2.node2",
    }


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
    for path in ("file/log", "file"):
        launcher = stage.launch(f"--log_dir {stage.directory}/{path}", CHATTY, "1")
        assert launcher.wait() == 3
        assert f"expected a directory for logs, got a file: {stage.directory}/file [UM-LAUNCH-202]" in launcher.stderr


# ---- log directories where something is in the way


@pytest.mark.parametrize("what", ["pipe", "link", "directory", "file of another user"])
def test_what_is_in_the_way_of_a_log_file_is_left_alone_and_the_job_runs(stage: Stage, what: str) -> None:
    place = stage.directory / "place"
    log = place / "log"
    log.mkdir(parents=True, mode=0o700)
    file = log / "workerlog.0"
    match what:
        case "pipe":
            os.mkfifo(file, mode=0o600)
        case "link":
            (stage.directory / "precious").write_text("precious")
            file.symlink_to(stage.directory / "precious")
            (stage.directory / "precious").chmod(0o600)
        case "directory":
            file.mkdir(mode=0o700)
        case _:
            require(None if os.geteuid() == 0 else "only root can make files of other users")
            file.write_text("not yours")
            file.chmod(0o600)
            os.chown(file, 12345, -1)
    before = os.lstat(file)
    launcher = stage.launch("--heartbeat_timeout 60", CHATTY, "5", cwd=place)
    assert launcher.wait() == 0
    (own,) = log.glob("workerlog.0.*")
    assert "line 4 of 0" in own.read_text()
    assert f"its worker's output goes to {own}" in launcher.stderr
    after = os.lstat(file)
    assert (after.st_mode, after.st_uid, after.st_size) == (before.st_mode, before.st_uid, before.st_size)


def test_a_pipe_in_the_place_of_the_journal_does_not_hold_the_launcher_up(stage: Stage) -> None:
    place = stage.directory / "place"
    (place / "log").mkdir(parents=True, mode=0o700)
    os.mkfifo(place / "log" / "events.jsonl", mode=0o600)
    launcher = stage.launch("--heartbeat_timeout 60", CHATTY, "5", cwd=place)
    assert launcher.wait() == 0
    own = place / "log" / os.uname().nodename
    assert "line 4 of 0" in (own / "workerlog.0").read_text()
    assert f"this one writes to {own}" in launcher.stderr
    (place / "log" / "events.jsonl").unlink()


@pytest.mark.parametrize(("inodes", "status"), [(1, 3), (2, 0), (3, 0), (4, 0), (20, 0)])
def test_a_log_directory_without_inodes_is_told_of(stage: Stage, inodes: int, status: int) -> None:
    require(None if os.geteuid() == 0 and shutil.which("unshare") else "mounting needs root and unshare")
    place = stage.directory / "place"
    (place / "log").mkdir(parents=True, mode=0o700)
    mount = f'mount -t tmpfs -o nr_inodes={inodes},mode=0700 none log && exec "$@"'
    launcher = stage.start(["unshare", "-m", "sh", "-c", mount, "sh", *LAUNCH, str(CHATTY), "5"], cwd=place)
    assert launcher.wait() == status
    if status:
        assert "No space left on device" in launcher.stderr
        assert "[UM-LAUNCH-202]" in launcher.stderr
    else:
        assert "[trainer 0] line 4 of 0" in launcher.stdout
        assert ("its worker goes on without a log" in launcher.stderr) == (inodes < 20)


@pytest.mark.parametrize("most", [8, 12, 15, 17, 19, 21, 24, 26, 28])
def test_too_few_descriptors_are_told_of(stage: Stage, most: int) -> None:
    """However few there are: the job runs, or a message says what is missing."""
    limited = f'ulimit -n {most}; exec "$@"'
    launcher = stage.start(["sh", "-c", limited, "sh", *LAUNCH, "--nproc_per_node", "2", str(CHATTY), "5"])
    status = launcher.wait()
    assert status in (0, 3, 126), launcher.stderr
    assert "Traceback" not in launcher.stderr
    if status:
        assert "Too many open files" in launcher.stderr


def test_a_collector_may_be_let_in(stage: Stage) -> None:
    require(None if os.geteuid() == 0 else "only root can give files to any group")
    launcher = stage.launch("--log_dir shared --log_group 12345", CHATTY, "5")
    assert launcher.wait() == 0
    log = launcher.directory / "shared"
    assert (log.stat().st_mode & 0o777, log.stat().st_gid) == (0o750, 12345)
    for path in log.iterdir():
        assert (path.stat().st_mode & 0o777, path.stat().st_gid) == (0o640, 12345), path.name


def test_a_group_that_does_not_exist_is_an_error(stage: Stage) -> None:
    launcher = stage.launch("--log_group no-such-group", CHATTY, "5")
    assert launcher.wait() == 2
    assert "no such group: --log_group no-such-group [UM-LAUNCH-316]" in launcher.stderr
