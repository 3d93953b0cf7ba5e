"""The program of a pipe_command: what it prints, how it fails, and that nothing of it is left."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from umiak.fleet.datasets.pipes import LAST_LINES, PipeError, PipeProgram, PlainFile, opened


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "part 0"
    path.write_text("".join(f"1 {number}\n" for number in range(1000)))
    return str(path)


def printed(command: str, file: str, most_bytes: int = 1 << 20) -> list[bytes]:
    program = PipeProgram(command, file)
    try:
        return list(program.blocks(most_bytes))
    finally:
        program.close()
        program.close()


def test_the_file_is_its_input(file: str) -> None:
    assert b"".join(printed("cat", file)) == Path(file).read_bytes()
    assert b"".join(printed("grep -v 5 | sed s/1/2/", file)).startswith(b"2 0\n2 1\n")


def test_blocks_are_whole_lines(file: str) -> None:
    blocks = printed("cat", file, most_bytes=100)
    assert len(blocks) > 1
    assert all(block.endswith(b"\n") for block in blocks)
    assert b"".join(printed("printf '1 5\\n1 6'", file)) == b"1 5\n1 6"


@pytest.mark.parametrize("text", ["", "1 5\n", "1 5\n1 6", "\n\n1 7\n" * 400])
@pytest.mark.parametrize("most_bytes", [7, 1 << 20])
def test_cat_needs_no_program(tmp_path: Path, text: str, most_bytes: int) -> None:
    path = tmp_path / "part-0"
    path.write_text(text)
    plain = opened(" cat ", str(path))
    assert isinstance(plain, PlainFile)
    blocks = list(plain.blocks(most_bytes))
    assert b"".join(blocks) == text.encode() == b"".join(printed("cat", str(path)))
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    plain.close()
    plain.close()


def test_only_a_plain_file_is_read_without_a_program(tmp_path: Path) -> None:
    packed, directory = tmp_path / "part-0.gz", tmp_path / "directory"
    packed.write_bytes(gzip.compress(b"1 5\n"))
    directory.mkdir()
    for command, path in (("cat", packed), ("cat | cat", Path(__file__)), ("cat", directory)):
        program = opened(command, str(path))
        program.close()
        assert isinstance(program, PipeProgram)
    with pytest.raises(PipeError, match="UM-FLEET-044"):
        opened("cat", str(tmp_path / "none"))


def test_a_file_that_is_read_ends_when_it_is_killed(file: str) -> None:
    plain = opened("cat", file)
    blocks = plain.blocks(100)
    assert next(blocks)
    plain.kill()
    assert len(list(blocks)) <= 1
    plain.close()


def test_what_a_slow_program_printed_is_not_kept_back(file: str) -> None:
    program = PipeProgram("head -2; sleep 600", file)
    try:
        assert next(program.blocks(1 << 20)) == b"1 0\n1 1\n"
    finally:
        program.close()


def test_a_gzip_file_is_unpacked_for_it(tmp_path: Path) -> None:
    path = tmp_path / "part-0.gz"
    path.write_bytes(gzip.compress(b"1 5\n"))
    assert printed("cat", str(path)) == [b"1 5\n"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 3", "exit code 3"),
        ("cat > /dev/null; false | cat", "exit code 1"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("no-such-program-anywhere", "exit code 127"),
    ],
)
def test_a_program_that_fails_is_an_error(file: str, command: str, code: str) -> None:
    with pytest.raises(PipeError) as raised:
        printed(command, file)
    text = str(raised.value)
    assert code in text
    assert file in text
    assert "UM-FLEET-045" in text


def test_its_last_words_are_a_part_of_the_error(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PipeError) as raised:
        printed("for i in $(seq 100); do echo word $i. >&2; done; exit 1", file)
    assert f"word {100 - LAST_LINES + 1}.\n" in str(raised.value)
    assert f"word {100 - LAST_LINES}.\n" not in str(raised.value)
    assert "word 1.\n" in capfd.readouterr().err


def test_a_later_part_that_has_enough_is_no_error(file: str) -> None:
    assert printed("yes 1 5 | head -1", file) == [b"1 5\n"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipeError, match="UM-FLEET-044"):
        PipeProgram("cat", str(tmp_path / "none"))


def group_members(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(of) == group and state not in "ZX":
            found.append(int(entry.name))
    return found


def wait_until_gone(group: int) -> None:
    ends = time.monotonic() + PATIENCE_S
    while group_members(group):
        assert time.monotonic() < ends, f"{group_members(group)} are left"
        time.sleep(0.02)


def test_closing_ends_everything_that_it_started(file: str) -> None:
    program = PipeProgram("sleep 601 | cat & sleep 602 | cat", file)
    assert group_members(program.pid)
    program.close()
    wait_until_gone(program.pid)


def test_nothing_is_left_when_the_reader_is_killed(file: str) -> None:
    script = textwrap.dedent(
        f"""
        from umiak.fleet.datasets.pipes import PipeProgram
        program = PipeProgram("sleep 603 | cat", {file!r})
        print(program.pid, flush=True)
        list(program.blocks(1))
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        group = int(reader.stdout.readline())
        assert group_members(group)
        os.kill(reader.pid, signal.SIGKILL)
    wait_until_gone(group)


def test_the_hook_for_fleet_is_not_for_it(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UMIAK_FLEET", "1")
    monkeypatch.setenv("ANOTHER", "2")
    assert printed('echo "1 $UMIAK_FLEET$ANOTHER"', file) == [b"1 2\n"]
