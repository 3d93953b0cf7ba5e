"""Worker logs and the console: private files that are rotated, tagged lines, and a slow reader who holds nobody up."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import Sink, output_of, run_until
from umiak.adapters.loop import Loop
from umiak.launch.reports import logs
from umiak.launch.reports.logfiles import open_log
from umiak.launch.reports.logs import Console, WorkerLog


def worker_log(path: Path, *, most_bytes: int = 1 << 20, overwrite: bool = False, console: Any = None) -> WorkerLog:
    log = WorkerLog(str(path), most_bytes=most_bytes, overwrite=overwrite, console=console)
    log.begin("trainer 3", 3)
    return log


# ---- files


def test_output_is_kept_as_it_came(tmp_path: Path) -> None:
    log = worker_log(tmp_path / "workerlog.0")
    pieces = [b"step 1\nst", b"ep 2\r", b"50%\r100%\r\n", b"\xff\x00 not text", b""]
    for piece in pieces:
        assert log.feed(piece) == ""
    log.close()
    assert (tmp_path / "workerlog.0").read_bytes() == b"".join(pieces)


def test_log_files_are_for_their_owner_only_also_if_they_were_there_before(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    path.write_text("old\n")
    path.chmod(0o644)
    log = worker_log(path, most_bytes=20)
    log.feed(b"x" * 15)
    log.feed(b"y" * 15)
    log.close()
    for name in ("workerlog.0", "workerlog.0.1"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_log_is_appended_to_unless_it_is_to_be_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    for overwrite, expected in ((False, "new\n"), (False, "new\nnew\n"), (True, "new\n")):
        log = worker_log(path, overwrite=overwrite)
        log.feed(b"new\n")
        log.close()
        assert path.read_text() == expected


def test_a_log_is_never_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (tmp_path / "workerlog.0").symlink_to(target)
    with pytest.raises(OSError, match=r"symbolic|loop"):
        open_log(str(tmp_path / "workerlog.0"), overwrite=True)
    assert target.read_text() == "precious"


def test_a_log_that_grows_too_large_is_rotated_and_two_old_ones_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    log = worker_log(path, most_bytes=100)
    for number in range(10):
        log.feed(b"%d" % number * 60)
    log.close()
    files = {file.name: file.read_bytes()[:1] for file in tmp_path.glob("workerlog.*")}
    assert files == {"workerlog.0": b"9", "workerlog.0.1": b"8", "workerlog.0.2": b"7"}
    assert all(file.stat().st_size <= 100 for file in tmp_path.iterdir())


def test_a_log_that_was_large_before_is_rotated_at_the_first_word(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    path.write_bytes(b"old" * 50)
    log = worker_log(path, most_bytes=100)
    log.feed(b"new")
    log.close()
    assert path.read_bytes() == b"new"
    assert (tmp_path / "workerlog.0.1").read_bytes() == b"old" * 50


def test_one_piece_that_is_larger_than_the_limit_is_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "workerlog.0"
    log = worker_log(path, most_bytes=10)
    log.feed(b"x" * 1000)
    log.close()
    assert path.stat().st_size == 1000


def test_a_full_disk_is_told_once_and_the_last_words_are_still_known() -> None:
    """In a process of its own, with a limit on the size of files in the place of a disk that is full."""
    told = output_of(
        """
        import resource, sys, tempfile
        from umiak.launch.reports.logs import WorkerLog
        with tempfile.TemporaryDirectory() as folder:
            log = WorkerLog(f"{folder}/workerlog.0", most_bytes=1 << 30, overwrite=False, console=None)
            log.begin("trainer 0", 0)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            troubles = [log.feed(b"x" * 1000 + b"\\n") for _ in range(20)]
            log.feed(b"Traceback: the last words\\n")
            print([trouble for trouble in troubles if trouble])
            print(log.tail.splitlines()[-1])
            log.close()
        """
    )
    troubles, last_words = told.splitlines()
    assert troubles.count("can't be written") == 1
    assert "its worker goes on without a log" in troubles
    assert last_words == "Traceback: the last words"


def test_the_last_words_are_those_of_the_last_process(tmp_path: Path) -> None:
    log = worker_log(tmp_path / "workerlog.0")
    log.feed(b"first process\n")
    assert log.tail == "first process\n"
    log.begin("trainer 3", 3)
    assert log.tail == ""
    log.feed(b"x" * 100_000 + b"end\xff")
    assert len(log.tail) == logs.TAIL_BYTES
    assert log.tail.endswith("end�")
    log.close()


# ---- tagged lines


def test_each_line_on_the_console_bears_its_workers_tag(tmp_path: Path) -> None:
    sink = Sink()
    log = worker_log(tmp_path / "workerlog.0", console=sink)
    log.feed(b"step 1\nstep 2\n\nstep 3\n")
    assert sink.shown == b"[trainer 3] step 1\n[trainer 3] step 2\n[trainer 3] \n[trainer 3] step 3\n"
    log.close()


def test_a_line_that_comes_in_pieces_is_shown_once_it_is_whole(tmp_path: Path) -> None:
    sink = Sink()
    log = worker_log(tmp_path / "workerlog.0", console=sink)
    for piece in (b"loss", b": 0", b".3\nlo"):
        log.feed(piece)
    assert sink.shown == b"[trainer 3] loss: 0.3\n"
    log.close()
    assert sink.shown == b"[trainer 3] loss: 0.3\n[trainer 3] lo\n"


def test_a_progress_bar_is_seen_while_it_moves(tmp_path: Path) -> None:
    sink = Sink()
    log = worker_log(tmp_path / "workerlog.0", console=sink)
    log.feed(b"10%\r20%\r")
    assert sink.shown == b"[trainer 3] 10%\r[trainer 3] 20%\r"
    log.feed(b"done\r\n")
    assert sink.shown.endswith(b"[trainer 3] done\n")
    log.close()


def test_a_line_without_an_end_is_shown_all_the_same(tmp_path: Path) -> None:
    sink = Sink()
    log = worker_log(tmp_path / "workerlog.0", console=sink)
    log.feed(b"x" * (2 * logs.LONGEST_PARTIAL_LINE))
    assert sink.shown.count(b"x") == 2 * logs.LONGEST_PARTIAL_LINE
    log.close()


def test_tags_have_colours_only_where_the_console_has(tmp_path: Path) -> None:
    for colours in (False, True):
        sink = Sink(colours=colours)
        log = worker_log(tmp_path / "workerlog.0", console=sink)
        log.feed(b"hello\n")
        assert (b"\x1b[" in sink.shown) is colours
        assert b"[trainer 3] " in sink.shown
        assert b"hello\n" in sink.shown
        log.close()


# ---- the console


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    yield read_end, write_end
    for end in (read_end, write_end):
        with contextlib.suppress(OSError):  # a test may have closed it
            os.close(end)


def read_all(fd: int) -> bytes:
    """Everything that is in a pipe now."""
    os.set_blocking(fd, False)
    data = b""
    while True:
        try:
            piece = os.read(fd, 1 << 20)
        except BlockingIOError:
            return data
        if not piece:
            return data
        data += piece


def lines_of(console: Console, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        console.write(b"line %06d %s\n" % (number, b"." * 85))


def test_the_shells_pipe_stays_as_it_was(pipe: tuple[int, int]) -> None:
    read_end, write_end = pipe
    console = Console(write_end, {}, lambda _fd, _call: None)
    console.write(b"hello\n")
    assert os.get_blocking(write_end), "others who write to it would be disturbed"
    assert os.read(read_end, 100) == b"hello\n"
    assert not console.is_terminal
    assert not console.colours
    os.close(console._fd)


def test_a_slow_reader_gets_everything_in_order_as_long_as_it_fits(pipe: tuple[int, int]) -> None:
    read_end, write_end = pipe
    loop = Loop()
    console = Console(write_end, {}, loop.on_writable)
    lines_of(console, 5000)  # half a megabyte: more than a pipe takes, less than is kept
    seen = bytearray()
    os.set_blocking(read_end, False)
    loop.on_readable(read_end, lambda: seen.extend(os.read(read_end, 4096)))
    run_until(loop, lambda: seen.count(b"\n") == 5000)
    assert [int(line.split()[1]) for line in seen.decode().splitlines()] == list(range(5000))
    loop.forget(read_end)
    os.close(console._fd)


def test_a_reader_who_stops_holds_nobody_up_and_is_told_what_was_left_out(pipe: tuple[int, int]) -> None:
    read_end, write_end = pipe
    waiting: dict[int, Callable[[], None] | None] = {}
    console = Console(write_end, {}, lambda fd, call: waiting.update({fd: call}))
    lines_of(console, 30_000)  # three megabytes into a pipe that nobody reads
    assert any(waiting.values()), "the console wants to know when it may go on"

    def read_on() -> bytes:
        seen = read_all(read_end)
        while (call := next((call for call in waiting.values() if call), None)) is not None:
            call()
            seen += read_all(read_end)
        return seen

    seen = read_on()
    lines_of(console, 1, first=99_999)
    seen += read_on()
    lines = seen.decode().splitlines()
    shown = [int(line.split()[1]) for line in lines if line.startswith("line")]
    notes = [line for line in lines if not line.startswith("line")]
    assert shown == sorted(set(shown))
    assert shown[-1] == 99_999
    left_out = 30_001 - len(shown)
    assert left_out > 10_000
    assert notes == [f"... {left_out} lines left out here, they are in the log files"]
    os.close(console._fd)


def test_a_reader_who_is_gone_is_no_reason_to_stop(pipe: tuple[int, int]) -> None:
    read_end, write_end = pipe
    console = Console(write_end, {}, lambda _fd, _call: None)
    os.close(read_end)
    for _ in range(3):
        console.write(b"is anybody there?\n")
    os.close(console._fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_pipe_of_another_user_holds_nobody_up_either() -> None:
    """As after su or sudo: it can't be opened a second time, and switching it to non-blocking would disturb its owner."""
    told = output_of(
        """
        import os
        from umiak.launch.reports.logs import Console
        read_end, write_end = os.pipe()
        os.seteuid(12345)
        waiting = {}
        console = Console(write_end, {}, lambda fd, call: waiting.update({fd: call}))
        line = b"." * 99 + b"\\n"
        for _ in range(3000):
            console.write(line)
        seen = 0
        while seen < 300_000:
            seen += len(os.read(read_end, 65536))
            if waiting.get(write_end):
                waiting[write_end]()
        print(console._fd == write_end, os.get_blocking(write_end), seen)
        """
    )
    assert told.split() == ["True", "True", "300000"]


def test_at_the_end_a_slow_reader_gets_the_rest(pipe: tuple[int, int]) -> None:
    read_end, write_end = pipe
    console = Console(write_end, {}, lambda _fd, _call: None)
    lines_of(console, 3000)
    child = os.fork()
    if child == 0:  # the slow reader
        os.close(write_end)
        os.close(console._fd)
        count = 0
        while data := os.read(read_end, 4096):
            count += data.count(b"\n")
        os._exit(0 if count == 3000 else 1)
    console.drain(30.0)
    os.close(write_end)
    os.close(console._fd)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_draining_gives_up_on_a_reader_who_does_not_read(pipe: tuple[int, int]) -> None:
    _, write_end = pipe
    console = Console(write_end, {}, lambda _fd, _call: None)
    lines_of(console, 3000)
    console.drain(0.05)
    assert console._waiting
    os.close(console._fd)


def test_colours_are_for_terminals_whose_owner_did_not_say_no() -> None:
    main, terminal = os.openpty()
    for environ, colours in (
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ):
        console = Console(terminal, environ, lambda _fd, _call: None)
        assert console.is_terminal
        assert console.colours is colours
        os.close(console._fd)
    os.close(main)
    os.close(terminal)
