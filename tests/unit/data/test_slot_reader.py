"""The slot reader's face: what batches look like, what errors say, which inputs and settings there are."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support import PATIENCE_S
from tests.support.slot_helpers import CRITEO_DENSE, CRITEO_SPARSE, criteo, packed, rows
from umiak import data
from umiak.core.problem import UmiakError

LINES = b"click:1 1:5 1:6 d:0.5 d:1\nclick:0 1:7 d:2 d:-3\nclick:1\n"


def read(source: data.reader.Input | list[data.reader.Input], **settings: object) -> data.SlotReader:
    slots = {"sparse": ["click", "1"], "dense": {"d": 2}}
    return data.SlotReader(source, **{**slots, **settings})  # type: ignore[arg-type]


# ---- batches


def test_a_batch_is_columns() -> None:
    (batch,) = read(LINES)
    assert batch.size == len(batch) == 3
    values, offsets = batch.sparse["1"]
    assert values.tolist() == [5, 6, 7, 0]
    assert offsets.tolist() == [0, 2, 3, 4]
    assert (values.dtype, offsets.dtype) == (np.int64, np.int64)
    assert batch.sparse["click"][0].tolist() == [1, 0, 1]
    assert batch.dense["d"].tolist() == [[0.5, 1], [2, -3], [0, 0]]
    assert batch.dense["d"].dtype == np.float32
    assert batch.dense["d"].flags.c_contiguous
    assert list(batch.sparse) == ["click", "1"]
    assert batch.bytes == 3 * 8 + 4 * 8 + 4 * 8 + 4 * 8 + 6 * 4


def test_arrays_are_the_batchs_own_and_outlive_it() -> None:
    reader = read(LINES * 100, batch_size=3)
    first = next(reader)
    values, _ = first.sparse["1"]
    again, _ = first.sparse["1"]
    assert again is values
    assert values.flags.writeable
    values[0] = 99
    dense = first.dense["d"]
    del first
    list(reader)
    del reader
    assert values.tolist() == [99, 6, 7, 0]
    assert dense.tolist() == [[0.5, 1], [2, -3], [0, 0]]


@pytest.mark.parametrize("ids", ["int64", "uint64"])
@pytest.mark.parametrize("after", ["the columns", "the arrays"])
def test_slots_with_one_id_per_sample_make_a_matrix(ids: str, after: str) -> None:
    lines = b"".join(b"click:%d a:%d b:%d\n" % (at % 2, at, 2**64 - 1 - at) for at in range(200))
    (batch,) = data.SlotReader(lines, sparse=["click", "a", "b"], batch_size=200, ids=ids)  # type: ignore[arg-type]
    if after == "the arrays":
        assert batch.sparse
    found = batch.matrix(["b", "click", "b"])
    assert found.dtype == ids
    assert found.flags.c_contiguous
    assert found.flags.writeable
    np.testing.assert_array_equal(found, np.stack([batch.sparse[slot][0] for slot in ("b", "click", "b")], axis=1))
    assert batch.matrix([]).shape == (200, 0)
    assert batch.matrix(["a"]).shape == (200, 1)


@pytest.mark.parametrize("after", ["the columns", "the arrays"])
def test_other_slots_make_no_matrix(after: str) -> None:
    (batch,) = read(b"click:1 1:5 1:6\nclick:0\n", padding=None)
    if after == "the arrays":
        assert batch.sparse
    with pytest.raises(ValueError, match='slot "1" does not have one id per sample: 2 ids in 2 samples'):
        batch.matrix(["click", "1"])
    for name in ("d", "nothing"):
        with pytest.raises(KeyError, match=name):
            batch.matrix([name])


def test_a_matrix_holds_what_the_arrays_hold_now() -> None:
    (batch,) = read(b"click:1 1:5\nclick:0 1:6\n")
    first = batch.matrix(["1", "click"])
    batch.sparse["1"][0][0] = 99
    assert batch.matrix(["1", "click"]).tolist() == [[99, 1], [6, 0]]
    assert first.tolist() == [[5, 1], [6, 0]]


def test_ids_are_64_bits() -> None:
    text = b"1:18446744073709551615\n1:-1\n1:-9223372036854775808\n"
    (signed,) = read(text)
    (unsigned,) = read(text, ids="uint64")
    assert signed.sparse["1"][0].tolist() == [-1, -1, -(2**63)]
    assert unsigned.sparse["1"][0].tolist() == [2**64 - 1, 2**64 - 1, 2**63]
    assert unsigned.sparse["1"][0].dtype == np.uint64


def test_batches_go_over_the_ends_of_files(tmp_path: Path) -> None:
    paths = []
    for number, packing in enumerate(["plain", "gzip", "zstd"]):
        # The name says nothing; the bytes do.
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_bytes(packed(f"1:{number}\n".encode() * 3, packing))
    batches = list(read(paths, batch_size=4))
    assert [batch.sparse["1"][0].tolist() for batch in batches] == [[0, 0, 0, 1], [1, 1, 2, 2], [2]]
    assert [batch.size for batch in read(paths, batch_size=4, drop_last=True)] == [4, 4]
    assert [batch.size for batch in read(paths, batch_size=9, drop_last=True)] == [9]


def test_nothing_gives_no_batch(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert list(read([])) == []
    assert list(read(empty)) == []
    assert list(read(b"")) == []
    assert list(read(packed(b"", "gzip"))) == []
    assert list(read(empty, cache=True)) == []


def test_many_threads_keep_the_order() -> None:
    text = criteo(3000)
    settings = {"sparse": CRITEO_SPARSE, "dense": CRITEO_DENSE, "block_bytes": 4096}
    one = rows(data.SlotReader(text, **settings))
    assert len(one) == 3000
    assert rows(data.SlotReader(text, **settings, threads=4)) == one
    other = rows(data.SlotReader(text, **settings, threads=4, ordered=False))
    assert sorted(other) == sorted(one)


def test_numbers_are_those_of_numpy() -> None:
    text = criteo(500)
    (batch,) = data.SlotReader(text, sparse=CRITEO_SPARSE, dense=CRITEO_DENSE, batch_size=1000)
    lines = [line.split() for line in text.decode().splitlines()]
    dense = [[np.float32(token.split(":")[1]) for token in line if token.startswith("dense")] for line in lines]
    assert (batch.dense["dense_feature"] == np.array(dense)).all()
    assert batch.sparse["26"][0].tolist() == [int(line[-1].split(":")[1]) for line in lines]


# ---- slots


def test_padding() -> None:
    text = b"click:1\n"
    (batch,) = read(text, padding=-7, dense_padding=0.25)
    assert batch.sparse["1"][0].tolist() == [-7]
    assert batch.dense["d"].tolist() == [[0.25, 0.25]]
    (batch,) = read(text, padding=None)
    assert batch.sparse["1"][0].tolist() == []
    assert batch.sparse["1"][1].tolist() == [0, 0]
    with pytest.raises(data.ReadError, match='a dense slot is missing: "d"'):
        list(read(text, dense_padding=None))


def test_what_never_and_what_always_occurs_is_known() -> None:
    reader = read(b"click:1 dense_var:1 dense_var:2\nclick:0 dense_var:2 x:1\n")
    list(reader)
    seen = reader.statistics()
    assert seen.samples == 2
    assert seen.missing == {"click": 0, "1": 2, "d": 2}
    assert seen.never == ("1", "d")
    assert seen.always == ("dense_var",)
    assert seen.unknown["dense_var"] == data.SlotTimes(values=3, samples=2)
    assert seen.unknown["x"] == data.SlotTimes(values=1, samples=1)
    quiet = read(b"click:1 x:1\n", unknown="skip")
    list(quiet)
    assert quiet.statistics().unknown == {}
    assert read(b"").statistics().never == ()


def test_unknown_names_do_not_grow_without_end() -> None:
    text = b"".join(b"click:1 s%d:1\n" % number for number in range(5000)) + b"click:1 " + b"x" * 300 + b":1\n"
    for threads in (1, 3):
        reader = read(text, threads=threads, block_bytes=4096)
        list(reader)
        seen = reader.statistics()
        assert len(seen.unknown) == 1024
        assert seen.unknown_others == 5001 - 1024


# ---- bad lines

WRONG = [
    (b"1:x", 1, "1:x", "not_an_id"),
    (b"click:1  1:1.5 d:1", 10, "1:1.5", "not_an_id"),
    (b"click:1 1:18446744073709551616", 9, "1:18446744073709551616", "id_range"),
    (b"click:1 1:", 9, "1:", "no_value"),
    (b"click:1 d:nan d:1", 9, "d:nan", "not_a_number"),
    (b"click:1 d:1e39 d:1", 9, "d:1e39", "number_range"),
    (b"click:1 d:1", 1, "d", "dense_count"),
    (b"click:1 d:1 d:2 d:3", 1, "d", "dense_count"),
    (b"click", 1, "click", "no_colon"),
    (b"click:1 :5", 9, ":5", "no_name"),
    (b"click:1 1:\xff", 9, "1:\ufffd", "not_an_id"),
]


@pytest.mark.parametrize(("line", "column", "token", "reason"), WRONG)
def test_a_bad_line_is_told_exactly(tmp_path: Path, line: bytes, column: int, token: str, reason: str) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"click:1\nclick:0\n" + line + b"\nclick:1\n")
    reader = read(path)
    with pytest.raises(data.ReadError) as caught:
        list(reader)
    error = caught.value
    assert (error.file, error.line, error.column) == (str(path), 3, column)
    assert (error.token, error.reason) == (token, reason)
    assert error.problems[0].code == "UM-DATA-001"
    assert error.problems[0].what.startswith(f"{path}:3:{column}: ")
    assert list(reader) == []


def test_bad_lines_are_counted_up_to_a_limit() -> None:
    text = b"click:1\nbad\n\nclick:0\n1:x\n"
    reader = read(text, bad_lines=2)
    assert len(rows(reader)) == 2
    seen = reader.statistics()
    assert (seen.bad_lines, seen.blank_lines) == (2, 1)
    assert seen.bad_by_reason == {"no_colon": 1, "not_an_id": 1}
    assert [(line.line, line.offset) for line in seen.bad_examples] == [(2, 8), (5, 21)]
    with pytest.raises(data.ReadError, match=r"<bytes>:5:1: not an id.*it is bad line 2, and 1 are allowed"):
        list(read(text, bad_lines=1))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("blank", [b"", b"   ", b"\t", b"\r", b" \r"])
def test_blank_lines_are_passed_over_and_counted(blank: bytes, threads: int) -> None:
    lines = [b"click:1", blank, b"click:0", blank, blank, b"click:1", blank]
    reader = read(b"\n".join(lines) + b"\n", threads=threads, batch_size=2)
    assert [row[0][0] for row in rows(reader)] == [(1,), (0,), (1,)]
    seen = reader.statistics()
    assert (seen.samples, seen.blank_lines, seen.bad_lines) == (3, 4, 0)


def test_a_bad_line_behind_blank_ones_has_its_own_number() -> None:
    with pytest.raises(data.ReadError) as caught:
        list(read(b"click:1\n\n\nbad\n"))
    assert (caught.value.line, caught.value.reason) == (4, "no_colon")


def test_the_limit_holds_over_a_resumption() -> None:
    text = b"bad\nclick:1\nbad\nclick:0\nbad\n"
    reader = read(text, bad_lines=2, batch_size=2)
    next(reader)
    with pytest.raises(data.ReadError) as caught:
        list(read(text, bad_lines=2, position=reader.position()))
    assert caught.value.line == 5


def test_a_line_number_is_that_of_the_file_in_a_part_too(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"click:1\n" * 10 + b"bad\n")
    for start in (1, 8, 9, 60, 73):
        with pytest.raises(data.ReadError) as caught:
            list(read(data.Part(path=str(path), start=start)))
        assert caught.value.line == 11


@pytest.mark.parametrize("threads", [1, 2])
def test_a_line_without_end_is_a_bad_one(threads: int) -> None:
    long = b"click:1 " + b"1:1 " * (5 << 20)
    reader = read(b"click:1\n" + long + b"\nclick:0\n", bad_lines=1, threads=threads)
    assert len(rows(reader)) == 2
    (line,) = reader.statistics().bad_examples
    assert (line.line, line.reason, line.detail) == (2, "too_long", f"{len(long) + 1} bytes")


# ---- inputs


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd"])
def test_a_pipe(threads: int, packing: str) -> None:
    reading, writing = os.pipe()
    text = b"click:1 1:5\n" * 50_000
    feeder = threading.Thread(target=_feed, args=(writing, packed(text, packing, 3)))
    feeder.start()
    with os.fdopen(reading, "rb") as pipe:
        reader = read(pipe, threads=threads)
        assert sum(batch.size for batch in reader) == 50_000
    feeder.join()


def _feed(descriptor: int, text: bytes) -> None:
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(text)


def test_what_a_pipe_has_brought_is_given_out_at_once() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        reader = read(pipe, batch_size=1)
        os.write(writing, b"click:1\n")
        assert next(reader).sparse["click"][0].tolist() == [1]
        os.write(writing, b"click:0\nclick")
        assert next(reader).sparse["click"][0].tolist() == [0]
        os.write(writing, b":5")
        os.close(writing)
        assert next(reader).sparse["click"][0].tolist() == [5]
        assert next(reader, None) is None


def test_a_fifo_without_a_writer_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = read(path)
    feeder = threading.Thread(target=path.write_bytes, args=(b"click:1\n",))
    feeder.start()
    assert len(rows(reader)) == 1
    feeder.join()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_reader_that_waits_for_a_pipe_can_be_closed(threads: int) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, read(pipe, threads=threads, batch_size=1) as reader:
        os.write(writing, b"click:1\n")
        next(reader)
    os.close(writing)
    assert list(reader) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_the_waiting(threads: int) -> None:
    program = (
        "import os; from umiak import data; r, w = os.pipe(); print('waits', flush=True)\n"
        f"list(data.SlotReader(os.fdopen(r, 'rb'), sparse=['1'], threads={threads}))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    ) as waiting:
        assert waiting.stdout
        assert waiting.stderr
        assert waiting.stdout.readline() == b"waits\n"
        deadline = time.monotonic() + PATIENCE_S
        while waiting.poll() is None and time.monotonic() < deadline:
            waiting.send_signal(signal.SIGINT)
            try:
                waiting.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        assert b"KeyboardInterrupt" in waiting.stderr.read()


def test_one_thread_starts_no_other() -> None:
    before = len(os.listdir("/proc/self/task"))
    reader = read(LINES * 1000, shuffle=100, batch_size=10)
    next(reader)
    assert len(os.listdir("/proc/self/task")) == before
    two = read(LINES * 1000, threads=2, batch_size=10, block_bytes=64)
    next(two)
    assert len(os.listdir("/proc/self/task")) == before + 2
    two.close()
    assert len(os.listdir("/proc/self/task")) == before


def test_torn_files_are_errors(tmp_path: Path) -> None:
    for packing in ("gzip", "zstd"):
        path = tmp_path / packing
        path.write_bytes(packed(criteo(100), packing)[:-20])
        with pytest.raises(data.ReadError) as caught:
            list(data.SlotReader(path, sparse=CRITEO_SPARSE))
        assert caught.value.problems[0].code == "UM-DATA-002"
        assert caught.value.file == str(path)


def test_missing_files_are_named_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(UmiakError) as caught:
        read([tmp_path / "a", tmp_path / "b"])
    assert [problem.what for problem in caught.value.problems] == [
        f"no such file: {tmp_path / name}" for name in ("a", "b")
    ]


def test_a_part_of_a_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.gz"
    path.write_bytes(packed(LINES, "gzip"))
    with pytest.raises(data.ReadError, match="it is compressed, so no part of it can be read alone"):
        list(read(data.Part(path=str(path), start=3)))


# ---- settings

IMPOSSIBLE = [
    ({"sparse": [], "dense": {}}, "no slot is asked for"),
    ({"sparse": ["a b"]}, "not a slot's name"),
    ({"sparse": ["a:b", ""]}, "not a slot's name.*not a slot's name"),
    ({"sparse": ["d"]}, 'slot named twice: "d"'),
    ({"dense": {"d": 0}}, "from 1 to 1048576 is expected"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"threads": 0}, "threads is 0"),
    ({"threads": 10_000}, "1 to 256"),
    ({"padding": 2**64}, "padding is"),
    ({"bad_lines": -1}, "bad_lines is -1"),
    ({"unknown": "ignore"}, "count, skip or refuse"),
    ({"ids": "int32"}, "int64 or uint64"),
    ({"dense_padding": 1e39}, "dense_padding is"),
    ({"cache": True}, "cache: only possible for files"),
    ({"cache": 3}, "cache: neither True nor a directory: 3"),
    ({"shuffle": -1}, "shuffle"),
    ({"shuffle": True}, "shuffle is True: an integer"),
    ({"seed": math.nan, "shuffle": 2}, "seed is nan: an integer"),
    ({"sparse": "abc"}, r"sparse is 'abc': a list of names is expected[\s\S]*sparse=\['abc'\]"),
    ({"sparse": 1}, "sparse is 1: a list of names"),
    ({"sparse": None}, "sparse is None: a list of names"),
    ({"sparse": [1]}, "sparse: a slot's name is a text, not 1"),
    ({"dense": ["d"]}, r"dense is \['d'\]: the number of values by name"),
    ({"dense": "d"}, "dense is 'd': the number of values by name"),
    ({"dense": {3: 1}}, "dense: a slot's name is a text, not 3"),
    ({"dense": {"d": 1.5}}, "dense: 'd' has 1.5 values"),
    ({"dense": {"d": -1}}, "dense: 'd' has -1 values"),
    ({"batch_size": 1.5}, "batch_size is 1.5: an integer"),
    ({"batch_size": "3"}, "batch_size is '3': an integer"),
    ({"batch_size": None}, "batch_size is None: an integer"),
    ({"padding": 0.5}, "padding is 0.5: an integer"),
    ({"dense_padding": "0"}, "dense_padding is '0': a number"),
    ({"drop_last": "no"}, "drop_last is 'no': expected a boolean"),
    ({"bad_lines": 0.1}, "bad_lines is 0.1: an integer"),
    ({"block_bytes": -1}, "block_bytes is -1: an integer"),
    ({"position": {}}, "position is {}: what position"),
]


@pytest.mark.parametrize(("settings", "words"), IMPOSSIBLE)
def test_what_is_impossible_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UmiakError, match=words) as caught:
        read(LINES, **settings)
    assert {problem.code for problem in caught.value.problems} == {"UM-DATA-004"}


def test_not_an_input() -> None:
    with pytest.raises(UmiakError, match="not an input"):
        read(5)  # type: ignore[arg-type]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UmiakError) as caught:
        read(LINES, sparse="abc", batch_size=None, threads=0, unknown="drop")
    assert [problem.what.split(" ")[0] for problem in caught.value.problems] == [
        "sparse",
        "batch_size",
        "threads",
        "unknown",
    ]


def test_numbers_of_numpy_are_numbers() -> None:
    (batch,) = read(LINES, batch_size=np.int64(3), dense={"d": np.int32(2)}, shuffle=np.int64(2), seed=np.int64(1))
    assert batch.size == 3


def test_a_pattern_and_a_directory_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(LINES)
    with pytest.raises(UmiakError, match=r"no such file.*\*\.txt[\s\S]*glob\.glob"):
        read(str(tmp_path / "*.txt"))
    with pytest.raises(UmiakError, match=r"a directory, not a file[\s\S]*glob\.glob"):
        read(tmp_path)
