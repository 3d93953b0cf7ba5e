"""The slot reader: files that Python reads, positions, and memory."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.slot_helpers import packed, rows
from tests.unit.data.test_slot_reader import LINES, _feed, read
from umiak import data

# ---- files that Python reads


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("how", ["bzip2", "xz"])
def test_bzip2_and_xz_are_unpacked(tmp_path: Path, how: str, threads: int) -> None:
    text = LINES * 5000
    path = tmp_path / "train"
    path.write_bytes(packed(text, how, members=3))
    expected = rows(read(text))
    assert rows(read(path, threads=threads)) == expected
    assert rows(read(path.read_bytes(), threads=threads)) == expected
    opener = bz2.open if how == "bzip2" else lzma.open
    with opener(path) as file:
        assert rows(read(file)) == expected
    assert rows(read([path, LINES, path])) == [*expected, *rows(read(LINES)), *expected]


@pytest.mark.parametrize("how", ["bzip2", "xz"])
def test_a_position_and_a_cache_of_what_python_unpacks(tmp_path: Path, how: str) -> None:
    path = tmp_path / "train"
    path.write_bytes(packed(LINES * 100, how))
    expected = rows(read(LINES * 100))
    reader = read(path, batch_size=4)
    first = rows([next(reader), next(reader)])
    assert first + rows(read(path, position=reader.position())) == expected
    for _ in range(2):
        assert rows(read(path, cache=True)) == expected
    assert data.split([path], 2) == [(), (data.Part(path=str(path)),)] or len(data.split([path], 2)[0]) == 1
    with pytest.raises(data.ReadError, match="it is compressed, so no part of it"):
        list(read(data.Part(path=str(path), start=1, end=9)))


@pytest.mark.parametrize("how", ["bzip2", "xz"])
def test_a_damaged_file_is_named(tmp_path: Path, how: str) -> None:
    path = tmp_path / "train"
    whole = packed(LINES * 1000, how)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(data.ReadError, match=r"train: it can't be read: Compressed file ended") as caught:
        list(read(path))
    assert (caught.value.problems[0].code, caught.value.file) == ("UM-DATA-002", str(path))


def test_anything_that_can_be_read(tmp_path: Path) -> None:
    expected = rows(read(LINES))
    path = tmp_path / "train"
    path.write_bytes(LINES)
    for source in (io.BytesIO(LINES), io.StringIO(LINES.decode()), bytearray(LINES), memoryview(LINES)):
        assert rows(read(source)) == expected
    with path.open() as text:
        assert rows(read(text)) == expected
    with gzip.open(tmp_path / "train.gz", "wb") as file:
        file.write(LINES)
    with gzip.open(tmp_path / "train.gz", "rt") as text:
        assert rows(read(text)) == expected
    begun = io.BytesIO(b"other text\n" + LINES)
    begun.readline()
    assert rows(read(begun)) == expected


def test_a_file_that_fails_while_it_is_read() -> None:
    class Broken:
        def read(self, _size: int) -> bytes:
            raise OSError("the disk is on fire")

    with pytest.raises(data.ReadError, match=r"<Broken>: it can't be read: the disk is on fire"):
        list(read(Broken()))  # type: ignore[arg-type]


def test_a_reader_that_is_dropped_while_its_threads_read_python_files() -> None:
    reader = read(io.BytesIO(LINES * 100_000), threads=4, batch_size=10)
    next(reader)
    del reader


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINES.decode().encode("utf-16"), "text in UTF-16.*iconv -f UTF-16 -t UTF-8"),
        (LINES.decode().encode("utf-16-be"), "looks like text in UTF-16.*iconv"),
        (LINES.decode().encode("utf-16-le"), "looks like text in UTF-16.*iconv"),
        (b"PK\x03\x04....", "zip archive.*unzip"),
        (b"\x04\x22\x4d\x18....", "lz4"),
    ],
)
def test_what_is_not_text_is_named(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "train"
    path.write_bytes(text)
    for source in (text, path):
        with pytest.raises(data.ReadError, match=said) as caught:
            list(read(source))
        assert caught.value.problems[0].code == "UM-DATA-090"


@pytest.mark.parametrize(("how", "command"), [("bzip2", "bzip2 -d"), ("xz", "xz -d")])
def test_a_pipe_that_is_compressed_names_the_command(tmp_path: Path, how: str, command: str) -> None:
    path = tmp_path / "train"
    path.write_bytes(packed(LINES, how))
    with path.open("rb") as file, pytest.raises(data.ReadError, match=f"compressed with {how}.*`{command}`"):
        list(read(file))


# ---- positions


def test_a_position_is_json_and_belongs_to_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "train"
    path.write_bytes(LINES * 10)
    reader = read(path, batch_size=4)
    next(reader)
    position = reader.position()
    assert json.loads(position)["samples"] == 4
    assert len(rows(read(path, position=position))) == 26
    for other in ({"sparse": ["click"]}, {"shuffle": 5}, {"cache": True}):
        with pytest.raises(data.ReadError, match="belongs to other files, slots") as caught:
            read(path, position=position, **other)
        assert caught.value.problems[0].code == "UM-DATA-003"
    for damaged in ("", "{}", "[1]", position.replace('"version":1', '"version":2'), position[:-3]):
        with pytest.raises(data.ReadError):
            read(path, position=damaged)


def test_a_position_in_a_file_that_has_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "train"
    path.write_bytes(LINES * 10)
    reader = read(path, batch_size=4)
    next(reader)
    for text in (b"click:1 1:5\n" * 100, b"click:1\n"):
        path.write_bytes(text)
        with pytest.raises(data.ReadError, match="the file is not as it was"):
            list(read(path, position=reader.position()))


def test_there_is_no_position_without_order() -> None:
    reader = read(LINES, threads=2, ordered=False)
    with pytest.raises(data.ReadError, match="the order was given up"):
        reader.position()


def test_a_pipe_is_gone_on_with_from_its_beginning() -> None:
    text = LINES * 10
    reader = read(text, batch_size=4)
    next(reader)
    saved = reader.position()
    reading, writing = os.pipe()
    _feed(writing, text)
    with os.fdopen(reading, "rb") as pipe:
        # Names count, so the pipe is given the same one.
        class Named:
            name = "<bytes>"
            fileno = pipe.fileno

        assert len(rows(read(Named(), position=saved))) == 26  # type: ignore[arg-type]


# ---- memory


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    program = (
        "import sys, resource; from umiak import data\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "def run(times):\n"
        "    text = [sys.argv[1]] * times\n"
        "    for threads in (1, 2):\n"
        "        for batch in data.SlotReader(text, sparse=['click', '1'], threads=threads, bad_lines=10**9): batch.sparse\n"
        "run(3); before = peak(); run(30); print(peak() - before)\n"
    )
    path = tmp_path / "train"
    path.write_bytes((b"click:1 1:5 x%d:3\n" * 50 % tuple(range(50)) + b"bad\n") * 2000)
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000, "KiB"
