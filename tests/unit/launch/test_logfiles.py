"""The files of a log directory: never somebody else's, never a way out of it, never waited for. With real files."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import output_of
from umiak.launch.reports.logfiles import Access, claim, open_log

SOMEBODY = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.with_name("precious").write_text("precious")
    path.symlink_to(path.with_name("precious"))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.path.relpath(path))


def make_file_of_somebody(path: Path) -> None:
    path.write_text("not yours")
    path.chmod(0o666)
    os.chown(path, SOMEBODY, -1)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_pipe, "named pipe"),
        (make_link, "symbolic link"),
        (make_socket, "named pipe or a socket"),
        (Path.mkdir, "directory"),
        pytest.param(make_file_of_somebody, "belongs to another user", marks=as_root),
    ],
)
def test_what_is_not_our_own_file_is_left_alone(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    path = tmp_path / "workerlog.0"
    make(path)
    before = os.lstat(path)
    with pytest.raises(OSError, match=why):
        open_log(str(path), overwrite=True)
    after = os.lstat(path)
    assert (after.st_mode, after.st_uid, after.st_size) == (before.st_mode, before.st_uid, before.st_size)
    if make is make_link:
        assert (tmp_path / "precious").read_text() == "precious"


def test_a_pipe_that_somebody_reads_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        open_log(str(path))
    os.close(reader)


@as_root
def test_the_group_can_be_let_in(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    path.write_text("old")
    os.close(open_log(str(path), access=Access(mode=0o640, group=SOMEBODY)))
    assert (mode_of(path), path.stat().st_gid) == (0o640, SOMEBODY)
    claimed = claim(str(tmp_path / "log"), own_name="a", run="run", access=Access(mode=0o640, group=SOMEBODY))
    directory = Path(claimed.path)
    assert (mode_of(directory), directory.stat().st_gid) == (0o750, SOMEBODY)
    assert mode_of(directory / "events.jsonl") == 0o640
    os.close(claimed.lock)


def test_a_directory_is_for_its_owner_only_unless_it_was_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    for name, mode in (("new", 0o700), ("there", 0o755)):
        claimed = claim(str(tmp_path / name), own_name="a", run="run")
        assert mode_of(Path(claimed.path)) == mode
        assert not claimed.note
        os.close(claimed.lock)


def test_further_launchers_get_directories_with_telling_names(tmp_path: Path) -> None:
    claimed = [claim(str(tmp_path), own_name="node1.gpu/07", run="run") for _ in range(3)]
    assert [Path(each.path).relative_to(tmp_path) for each in claimed] == [
        Path(),
        Path("node1.gpu_07"),
        Path("node1.gpu_07.2"),
    ]
    assert f"another launcher writes its logs to {tmp_path}" in claimed[1].note
    os.close(claimed[1].lock)
    again = claim(str(tmp_path), own_name="node1.gpu/07", run="run")
    assert again.path == claimed[1].path, "it is free again"
    for each in (claimed[0], claimed[2], again):
        os.close(each.lock)


def test_a_journal_that_can_not_be_written_is_left_for_a_directory_of_ones_own(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    claimed = claim(str(tmp_path), own_name="host", run="run")
    assert claimed.path == str(tmp_path / "host")
    assert "events.jsonl can't be written (it is a named pipe" in claimed.note
    with pytest.raises(BlockingIOError), open(tmp_path / "host" / "events.jsonl", "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(claimed.lock)


@as_root
def test_a_log_directory_behind_somebody_elses_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    link = tmp_path / "log"
    link.symlink_to(tmp_path / "target")
    os.close(claim(str(link), own_name="host", run="run").lock)  # our own: a person may well want that
    os.chown(link, SOMEBODY, -1, follow_symlinks=False)
    with pytest.raises(OSError, match="symbolic link of another user"):
        claim(str(link), own_name="host", run="run")


def test_a_worker_without_a_log_file_is_told_of_once_and_its_last_words_are_known(tmp_path: Path) -> None:
    told = output_of(
        """
        import os, resource, sys
        from umiak.launch.reports.logs import WorkerLog
        path = f"{sys.argv[1]}/workerlog.0"
        resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0) + 0, 64))
        log = WorkerLog(path, spare_path=f"{path}.run", most_bytes=10, overwrite=False, console=None)
        print(log.trouble, [log.feed(b"Traceback: the end") for _ in range(3)], repr(log.path), log.tail[-7:])
        log.close()
        """,
        tmp_path,
    )
    assert told.strip() == (
        f"{tmp_path}/workerlog.0 can't be written (Too many open files), its worker goes on without a log "
        "['', '', ''] '' the end"
    )


def test_a_log_that_can_not_be_rotated_grows_on(tmp_path: Path) -> None:
    told = output_of(
        """
        import os, resource, sys
        from umiak.launch.reports.logs import WorkerLog
        log = WorkerLog(f"{sys.argv[1]}/workerlog.0", most_bytes=100, overwrite=False, console=None)
        for number in (1, 2):
            os.makedirs(f"{sys.argv[1]}/workerlog.0.{number}/not empty")
        print([log.feed(b"x" * 60) for _ in range(5)])
        """,
        tmp_path,
    )
    assert told.count("workerlog.0 can't be rotated, it grows on") == 1
    assert (tmp_path / "workerlog.0").stat().st_size == 300
