"""Tables on real terminals: they fit, also after a resize, and nothing of this is in a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, eventually
from umiak.core.status import JobStatus, State
from umiak.submit import configuration
from umiak.submit.records import Records
from umiak.submit.run_record import RunRecord

CLEAR = "\x1b[H\x1b[2J"
RUNS = 30


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With so many runs of long names that are over."""
    records = Records(configuration.context({"HOME": str(tmp_path)}).state_directory)
    records.prepare()
    for number in range(RUNS):
        name = f"recommendation-with-a-long-name-{number:02d}"
        records.write(
            RunRecord(
                run_id=f"{name}-{number:08x}",
                name=name,
                place="local",
                backend="local",
                directory="/work",
                digest="0",
                handle=f"local://local/{name}-{number:08x}",
                submitted_s=time.time() - number,
                status=JobStatus(state=State.FAILED, exit_code=7, started_s=1.0, ended_s=5000.0),
            )
        )
    return tmp_path


class Screen:
    """A terminal of some size with a program on it."""

    def __init__(self, home: Path, columns: int, rows: int, *words: str) -> None:
        self._master, slave = pty.openpty()
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "umiak", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=home,
            env={**os.environ, "HOME": str(home), "NO_COLOR": "1", "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(slave)
        self.output = ""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self) -> str:
        """What was printed until now."""
        while select.select([self._master], [], [], 0.05)[0]:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:  # the program has ended
                break
            if not data:
                break
            self.output += data.decode().replace("\r\n", "\n")
        return self.output

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_S)
        os.close(self._master)


@contextlib.contextmanager
def screen(home: Path, columns: int, rows: int, *words: str) -> Iterator[Screen]:
    opened = Screen(home, columns, rows, *words)
    try:
        yield opened
    finally:
        opened.close()


def last_frame(output: str) -> list[str]:
    return output.rsplit(CLEAR, maxsplit=1)[-1].splitlines()


def test_a_watched_list_fits_the_terminal_and_follows_its_size(home: Path) -> None:
    with screen(home, 40, 10, "list", "--watch", "--interval", "0.1", "--all") as shown:
        eventually(lambda: shown.read().count(CLEAR) >= 2)
        frame = shown.output.split(CLEAR)[1].splitlines()
        assert max(map(len, frame)) <= 40
        assert len(frame) < 10
        assert frame[0].split() == ["RUN", "STATE"]
        assert frame[-1] == f"... {RUNS - 7} more lines"
        shown.resize(200, 60)
        eventually(lambda: "HANDLE" in "".join(last_frame(shown.read())[:1]))
        eventually(lambda: len(last_frame(shown.read())) == RUNS + 1)


def test_tables_fit_forty_columns_and_pipes_get_everything(home: Path) -> None:
    with screen(home, 40, 24, "list") as shown:
        eventually(lambda: shown.process.poll() is not None)
        table = [line for line in shown.read().splitlines() if not line.startswith("note: ")]
        assert max(map(len, table)) <= 40, shown.output
    environ = {**os.environ, "HOME": str(home), "COLUMNS": "40"}
    piped = subprocess.run(
        [sys.executable, "-m", "umiak", "list"], cwd=home, env=environ, capture_output=True, text=True, check=True
    )
    assert piped.stdout.splitlines()[0].split() == ["RUN", "STATE", "PLACE", "SUBMITTED", "RAN", "EXIT", "HANDLE"]
    assert "\x1b" not in piped.stdout
    assert "local://local/recommendation-with-a-long-name-05-00000005" in piped.stdout
