"""What `umiak exec` and `umiak fetch` do on every place alike: stories that the tests of each place tell with a run of their own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tests.support import PATIENCE_S, eventually


class Person(Protocol):
    """Somebody who types commands of umiak."""

    directory: Path

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]: ...

    def umiak(self, *words: str, status: int = 0) -> str: ...


def output(person: Person, *words: str, stdin: str = "") -> tuple[str, str, int]:
    """Standard output, standard error and exit status of a command."""
    with person.start(*words, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(stdin, timeout=300)
    return out, err, process.returncode


def tells_what_a_worker_sees(person: Person, handle: str, rank: int, directory: str | None = None) -> None:
    """Variables, working directory, both outputs, input and the exit code, with words that a shell would take apart."""
    script = 'echo "$UMIAK_RANK $UMIAK_ROLE $UMIAK_JOB_ID"; pwd; echo "$1"; cat; echo trouble >&2; exit 7'
    odd = "a b'c\"d;$(touch x)*"
    words = ["exec", handle, "--rank", str(rank), "--", "sh", "-c", script, "sh", odd]
    out, err, status = output(person, *words, stdin="from here\n")
    assert status == 7, f"{out}{err}"
    first, where, third, *rest = out.splitlines()
    assert first == f"{rank} trainer {handle.rpartition('/')[2]}"
    assert directory is None or where == directory
    assert (third, rest) == (odd, ["from here"])
    assert "trouble\n" in err
    assert "trouble" not in out


def passes_bytes_on(person: Person, handle: str) -> None:
    """More than all buffers together, and no letter is changed."""
    given, came = person.directory / "given", person.directory / "came"
    given.write_bytes(os.urandom(3_000_000))
    with open(given, "rb") as source, open(came, "wb") as sink:  # noqa: SIM117
        with person.start("exec", handle, "--", "cat", stdin=source, stdout=sink) as process:
            _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert came.read_bytes() == given.read_bytes()


def unique_mark() -> str:
    """A number that no other process of this machine has among its arguments. Not drawn with a test's seed: two tests at once would have the same."""
    return str(secrets.randbelow(10**12) + 10**12)


def ends_with_its_client(
    person: Person, handle: str, alive: Callable[[str], list[int]], mark: str = "", within_s: float = PATIENCE_S
) -> None:
    """A client that is killed leaves nothing on the node: not the command, not what it has started. ``mark``: see `unique_mark`."""
    mark = mark or unique_mark()
    script = f"sleep 1000.{mark} & sleep 1001.{mark} & echo begun; wait"
    with person.start("exec", handle, "--", "sh", "-c", script, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        eventually(lambda: len(alive(mark)) >= 2)  # a shell's child is still the shell for a moment
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    eventually(lambda: not alive(mark), within_s=within_s)


def passes_signals_on(person: Person, handle: str) -> None:
    """Ctrl-C is the command's to answer."""
    script = "trap 'echo interrupted; exit 5' INT; echo begun; while :; do sleep 0.1; done"
    with person.start("exec", handle, "--", "sh", "-c", script, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (5, "interrupted\n"), err


def has_a_shell(person: Person, handle: str, *words: str) -> None:
    """A real terminal: its size, Ctrl-C, and the exit status of the shell."""
    with Screen(person, "exec", handle, *words) as screen:
        screen.resize(33, 101)
        screen.type("PS1=; stty size; echo rank-is-$UMIAK_RANK\r")
        screen.until("33 101", "rank-is-0")
        mark = str(time.monotonic_ns())
        screen.type(f"sleep 1000.{mark}\r")
        eventually(lambda: processes_with(mark))
        screen.type("\x03")
        eventually(lambda: not processes_with(mark))
        screen.type("echo still-$((40 + 2))\r")
        screen.until("still-42")
        screen.resize(20, 60)
        screen.type("stty size\r")
        screen.until("20 60")
        screen.type("exit 9\r")
        assert screen.process.wait(PATIENCE_S) == 9, screen.seen


class Screen:
    """A person's terminal with one command in it."""

    def __init__(self, person: Person, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self._size(theirs, 33, 101)
        self.process = person.start(*words, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.seen = ""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        self._size(self._ours, rows, columns)
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGWINCH)  # it has no session of its own, so the kernel does not

    @staticmethod
    def _size(fd: int, rows: int, columns: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, *texts: str) -> None:
        """Read until all of these were seen, from here on."""
        start = len(self.seen)
        deadline = time.monotonic() + PATIENCE_S
        while not all(text in self.seen[start:] for text in texts):
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{texts} not in:\n{self.seen}"
            if select.select([self._ours], [], [], min(left_s, 1))[0]:
                try:
                    self.seen += os.read(self._ours, 4096).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"{texts} not in:\n{self.seen}") from None


def fetched(person: Person, handle: str, *words: str, status: int = 0) -> dict[str, Any]:
    """What `umiak fetch --json` says."""
    found: dict[str, Any] = json.loads(person.umiak("fetch", handle, "--json", *words, status=status))
    return found


def files_below(directory: Path) -> dict[str, bytes]:
    """What was fetched, without our notes; a part of a file is none."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != ".umiak-fetch.jsonl":
            assert not path.name.endswith(".umiak-part"), path
            found[str(path.relative_to(directory))] = path.read_bytes()
    return found


def processes_with(mark: str) -> list[int]:
    """Of this machine and of all hosts of the testbed on it."""

    def look() -> Iterator[int]:
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"sleep") and any(mark.encode() in word for word in words):
                    yield int(name)

    return list(look())
