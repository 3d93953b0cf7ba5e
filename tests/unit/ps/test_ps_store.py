"""Shard files and the log on disk: they come back, and nothing that is not whole is ever taken for it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import umiak_native
from umiak_native import BadFile, Log, ShardFile

from tests.support import PATIENCE_S
from tests.support import checkpoint_helpers as helpers
from tests.support.checkpoint_helpers import CTR, DENSE, DENSE_PIECE, END, HEADER, NUMBERS, ROWS, SPARSE, TABLE

HEAD = {"shards": 2, "shard": 1, "count": 1, "step": 5, "about": None}
EMB = {"name": "emb", "spec": SPARSE, "state": None}
NET = {"name": "net", "spec": DENSE, "state": None}


def read(path: Path) -> list:
    return list(ShardFile(path))


def refusal(path: Path) -> BadFile:
    with pytest.raises(BadFile) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert caught.value.file == str(path)
    return caught.value


def put(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(content)
    return path


def small(tmp_path: Path) -> Path:
    numbers = np.arange(25, dtype=np.float32)
    tables = [
        ("emb", SPARSE, {"learning_rate": 0.25}, [helpers.rows([1, 2], 6), helpers.rows([2**64 - 1], 6, flags=9)]),
        ("net", DENSE, None, [(0, numbers, numbers[:0]), (32, numbers[:2], numbers)]),
    ]
    helpers.write_shard(tmp_path, 1, 2, tables)
    return tmp_path / "shard-00001.umiak"


# ---- shard files


def test_a_shard_file_comes_back(tmp_path: Path) -> None:
    path = small(tmp_path)
    file = ShardFile(path)
    assert (file.shards, file.shard, file.step, file.about, file.fingerprint) == (2, 1, 5, "null", None)
    table, first, second, net, dense, other = list(file)
    assert (table[0], table[1], json.loads(table[2]), json.loads(table[3])) == (
        "table",
        "emb",
        SPARSE,
        {"learning_rate": 0.25},
    )
    assert (first[0], first[1].tolist(), first[2].tolist(), first[3].shape) == ("rows", [1, 2], [0, 0], (2, 6))
    assert second[1].tolist() == [2**64 - 1]
    assert second[2].tolist() == [9]
    assert net[:2] == ("table", "net")
    assert (dense[0], dense[1], dense[2].tolist(), dense[3].tolist()) == ("dense", 0, list(range(25)), [])
    assert (other[1], other[2].tolist(), other[3].tolist()) == (32, [0, 1], list(range(25)))
    content = path.read_bytes()
    assert file.fingerprint == (len(content), crc32(content))
    assert list(file) == []
    assert json.loads(umiak_native.verify_shard_file(path)) == {
        "name": path.name,
        "shard": 1,
        "count": 1,
        "bytes": len(content),
        "crc32": crc32(content),
        "rows": {"emb": 3, "net": 27},
    }
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_reader_written_from_the_page_alone_understands_it(tmp_path: Path) -> None:
    blocks = list(helpers.blocks_of(small(tmp_path).read_bytes()))
    assert [kind for kind, _ in blocks] == [
        HEADER,
        TABLE,
        ROWS,
        ROWS,
        TABLE,
        DENSE_PIECE,
        NUMBERS,
        DENSE_PIECE,
        NUMBERS,
        NUMBERS,
        END,
    ]
    assert json.loads(blocks[0][1]) == HEAD
    assert json.loads(blocks[1][1]) == {"name": "emb", "spec": SPARSE, "state": {"learning_rate": 0.25}}
    assert blocks[2][1] == helpers.rows_block(*helpers.rows([1, 2], 6))
    assert struct.unpack("<QQQ", blocks[7][1]) == (32, 2, 25)
    totals = [{"name": "emb", "rows": 3, "elements": 0}, {"name": "net", "rows": 0, "elements": 27}]
    assert json.loads(blocks[-1][1]) == {"blocks": 11, "tables": totals}


def test_a_file_written_from_the_page_alone_is_understood(tmp_path: Path) -> None:
    totals = [{"name": "emb", "rows": 1, "elements": 0}]
    end = {"blocks": 4, "tables": totals}
    piece = helpers.rows([77], 6)
    path = put(
        tmp_path, helpers.file_of([(HEADER, HEAD), (TABLE, EMB), (ROWS, helpers.rows_block(*piece)), (END, end)])
    )
    _, rows = read(path)
    assert rows[1].tolist() == [77]
    assert np.array_equal(rows[3], piece[2])


def test_numbers_keep_all_their_bits(tmp_path: Path) -> None:
    bits = np.array([0, 0x80000000, 1, 0x7F800001, 0xFFC12345, 0x7F7FFFFF], np.uint32)
    piece = (np.array([3], np.uint64), np.zeros(1, np.uint32), bits.view(np.float32).reshape(1, 6))
    powers = {"beta": 0.1 + 0.2, "tiny": 5e-324, "count": 2**63}
    helpers.write_shard(tmp_path, 0, 1, [("emb", SPARSE, powers, [piece])])
    table, rows = read(tmp_path / "shard-00000.umiak")
    assert json.loads(table[3]) == powers
    assert rows[3].view(np.uint32).tolist() == [bits.tolist()]


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    content = small(tmp_path).read_bytes()
    path = tmp_path / "changed"
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        refusal(path)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    content = small(tmp_path).read_bytes()
    path = tmp_path / "cut"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert refusal(path).trouble == "torn"
    path.write_bytes(content + b"\0")
    assert refusal(path).trouble == "damaged"


@pytest.mark.parametrize(
    ("content", "trouble", "words"),
    [
        (b"", "torn", "longer than 0 bytes"),
        (b"{}", "foreign", "not a shard file of umiak"),
        (b"PAR1" * 10, "foreign", "not a shard file of umiak"),
        (helpers.file_of([], version=3), "version", "format 3, and this umiak reads formats up to 2"),
        (helpers.file_of([]), "torn", "before its header"),
        (helpers.file_of([(END, {})]), "damaged", "first block is not a header"),
        (helpers.file_of([(HEADER, {})]), "schema", "its header is not understood"),
        (helpers.file_of([(HEADER, b"[" * 100_000)]), "schema", "its header is not understood"),
        (helpers.file_of([(HEADER, {**HEAD, "shards": 3})]), "schema", "shard 1 of 3"),
        (helpers.file_of([(HEADER, {**HEAD, "shard": 2})]), "schema", "shard 2 of 2"),
        (helpers.file_of([(HEADER, {**HEAD, "count": 2})]), "schema", "holds 2 from shard 1 of 2"),
        (helpers.file_of([(HEADER, {**HEAD, "count": 0})]), "schema", "holds 0 from shard 1 of 2"),
        (helpers.file_of([(HEADER, HEAD)]), "torn", "without its end block"),
        (helpers.file_of([(HEADER, HEAD), (99, b"")]), "damaged", "unknown kind 99"),
        (helpers.file_of([(HEADER, HEAD), (NUMBERS, b"")]), "damaged", "unknown kind 5"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, EMB), (TABLE, EMB)]), "damaged", "twice"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, {**EMB, "spec": {"kind": "cube"}})]), "schema", "not understood"),
        (helpers.file_of([(HEADER, HEAD), (ROWS, helpers.rows_block(*helpers.rows([1], 6)))]), "damaged", "no table"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, NET), (ROWS, struct.pack("<II", 0, 1))]), "damaged", "no table"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, EMB), (ROWS, b"")]), "damaged", "size that it says"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, EMB), (ROWS, struct.pack("<II", 2**32 - 1, 2**32 - 1))]), "damaged", "size"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, EMB), (DENSE_PIECE, struct.pack("<QQQ", 0, 0, 0))]), "damaged", "no dense"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, NET), (DENSE_PIECE, struct.pack("<QQQ", 0, 2**62, 2**63))]), "torn", "no room"),
        (helpers.file_of([(HEADER, HEAD), (TABLE, NET), (DENSE_PIECE, b"")]), "damaged", "dense piece"),
        (
            helpers.file_of([(HEADER, HEAD), (TABLE, NET), (DENSE_PIECE, struct.pack("<QQQ", 0, 1, 1)), (NUMBERS, b"\0" * 12)]),
            "damaged",
            "more numbers",
        ),
        (
            helpers.file_of([(HEADER, HEAD), (TABLE, NET), (DENSE_PIECE, struct.pack("<QQQ", 0, 1, 1)), (NUMBERS, b"\0" * 4), (END, {})]),
            "torn",
            "",
        ),
        (helpers.file_of([(HEADER, HEAD), (END, {"blocks": 3, "tables": []})]), "damaged", "counts other blocks"),
        (helpers.file_of([(HEADER, HEAD), (END, {"blocks": 2, "tables": [{"name": "a", "rows": 0, "elements": 0}]})]), "damaged", "counts"),
        (helpers.MAGIC + struct.pack("<II", 1, 0) + struct.pack("<IIII", 2**32 - 1, 1, 0, 0), "torn", "cut off or damaged"),
    ],
)  # fmt: skip
def test_what_strangers_write(tmp_path: Path, content: bytes, trouble: str, words: str) -> None:
    said = refusal(put(tmp_path, content))
    if words:
        assert said.trouble == trouble
        assert words in str(said)


def test_blocks_in_another_order_are_noticed(tmp_path: Path) -> None:
    prologue = helpers.file_of([])
    end = helpers.block(END, 1, json.dumps({"blocks": 2, "tables": []}).encode())
    first = helpers.block(HEADER, 0, json.dumps(HEAD).encode())
    assert read(put(tmp_path, prologue + first + end)) == []
    assert "block 0 was expected" in str(refusal(put(tmp_path, prologue + end + first)))


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in str(refusal(tmp_path / "pipe"))
    assert "not a regular file" in str(refusal(tmp_path))
    assert refusal(tmp_path / "absent").trouble == "io"


def test_a_writer_refuses_what_does_not_fit(tmp_path: Path) -> None:
    two = helpers.rows([1], 6), helpers.rows([1], 7)
    with pytest.raises(OSError, match="don't fit together"):
        helpers.write_shard(tmp_path, 0, 1, [("emb", SPARSE, None, two)])
    with pytest.raises(OSError, match="outside of a sparse table"):
        helpers.write_shard(tmp_path, 0, 1, [("net", DENSE, None, two[:1])])
    assert list(tmp_path.iterdir()) == []


def test_differences_of_specs_are_told_by_field() -> None:
    assert umiak_native.spec_differences(json.dumps(SPARSE), json.dumps(SPARSE)) == []
    assert umiak_native.spec_differences(json.dumps(SPARSE), json.dumps({**SPARSE, "dim": 4})) == [
        "dim: 3 in the file, 4 in the table"
    ]
    lines = umiak_native.spec_differences(json.dumps(SPARSE), json.dumps(CTR))
    assert [line.partition(":")[0] for line in lines] == ["accessor"]
    lines = umiak_native.spec_differences(json.dumps(SPARSE), json.dumps(DENSE))
    assert "kind: sparse in the file, dense in the table" in lines


# ---- the log


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("log-*.umiak"))


def filled(directory: Path, *batches: int, rotate: bool = False) -> Path:
    """A log as a kill leaves it: these many records in each disk write. Returns a copy of its directory."""
    log = Log(directory / "live", 3_600_000)
    for count in batches:
        for _ in range(count):
            log.append(f"record {log.last + 1}".encode())
        log.wait_durable(log.last)
        if rotate:
            log.rotate()
    copy = directory / "killed"
    shutil.copytree(directory / "live", copy)
    log.close()
    return copy


def numbers(directory: Path, first: int = 1) -> list[int]:
    records, _ = Log.replay(directory, first)
    assert [record for _, record in records] == [f"record {lsn}".encode() for lsn, _ in records]
    return [lsn for lsn, _ in records]


def places(segment: Path) -> list[int]:
    """Where each record of a segment begins."""
    content = segment.read_bytes()
    at, found = 40, []
    while at < len(content):
        found.append(at)
        at += 32 + struct.unpack_from("<I", content, at + 4)[0]
    return found


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def test_a_log_comes_back_from_where_it_is_asked(tmp_path: Path) -> None:
    directory = filled(tmp_path, 3, 2, rotate=True)
    assert numbers(directory) == [1, 2, 3, 4, 5]
    assert numbers(directory, 4) == [4, 5]
    assert numbers(directory, 6) == []
    with pytest.raises(BadFile, match="ends with record 5, and records up to 6 were on disk"):
        numbers(directory, 7)
    assert numbers(tmp_path / "absent") == []
    with pytest.raises(BadFile, match="there is no log, and records up to 1 were on disk"):
        numbers(tmp_path / "absent", 2)


def test_only_one_process_has_a_log(tmp_path: Path) -> None:
    log = Log(tmp_path, 0)
    with pytest.raises(BadFile, match="another process uses this log"):
        Log(tmp_path, 0)
    log.close()
    Log(tmp_path, 0).close()
    with pytest.raises(ValueError, match="closed"):
        log.append(b"")


def test_a_torn_end_is_cut_off_at_every_byte(tmp_path: Path) -> None:
    directory = filled(tmp_path, 2, 3)
    (segment,) = segments(directory)
    content = segment.read_bytes()
    begins = [*places(segment), len(content)]
    for length in range(40, len(content)):
        segment.write_bytes(content[:length])
        records, torn = Log.replay(directory)
        whole = max(begin for begin in begins if begin <= length)
        assert [lsn for lsn, _ in records] == list(range(1, begins.index(whole) + 1))
        assert torn == (None if whole == length else (str(segment), whole, length - whole))
        assert segment.stat().st_size == whole
        assert Log.replay(directory)[1] is None


def test_what_no_later_record_calls_durable_is_torn(tmp_path: Path) -> None:
    # The kernel may write the pages of one batch in any order before a crash.
    directory = filled(tmp_path, 3, 3)
    (segment,) = segments(directory)
    content = bytearray(segment.read_bytes())
    at = places(segment)[4]
    content[at : at + 30] = bytes(30)
    segment.write_bytes(content)
    assert numbers(directory) == [1, 2, 3, 4]


def test_damage_behind_which_records_are_whole_is_refused(tmp_path: Path) -> None:
    directory = filled(tmp_path, 3, 3)
    (segment,) = segments(directory)
    content = segment.read_bytes()
    begins = places(segment)
    for at in range(begins[3]):
        flip(segment, at)
        with pytest.raises(BadFile) as caught:
            numbers(directory)
        assert caught.value.file == str(segment)
        assert at < 40 or "this is damage, not a crash" in str(caught.value)
        if at >= 40:
            lost = max(begin for begin in begins if begin <= at)
            assert f"at byte {lost}:" in str(caught.value)
        segment.write_bytes(content)
    assert numbers(directory) == [1, 2, 3, 4, 5, 6]


def test_after_a_proper_close_any_damage_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    directory = tmp_path / "live"
    (segment,) = segments(directory)
    content = segment.read_bytes()
    for at in range(len(content) - 32):
        flip(segment, at)
        with pytest.raises(BadFile):
            Log.replay(directory)
        segment.write_bytes(content)
    segment.write_bytes(content + b"x")
    with pytest.raises(BadFile, match="something follows the end"):
        Log.replay(directory)


def test_any_damage_before_the_last_segment_is_refused(tmp_path: Path) -> None:
    directory = filled(tmp_path, 2, 2, rotate=True)
    first = segments(directory)[0]
    content = first.read_bytes()
    for at in range(len(content)):
        flip(first, at)
        with pytest.raises(BadFile):
            numbers(directory)
        first.write_bytes(content[:at])
        with pytest.raises(BadFile):
            numbers(directory)
        first.write_bytes(content)
    assert numbers(directory) == [1, 2, 3, 4]


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    directory = filled(tmp_path, 1, 1, 1, rotate=True)
    segments(directory)[1].unlink()
    with pytest.raises(BadFile, match="ends with record 1, and the next file begins with 3"):
        numbers(directory)


def test_a_renamed_or_newer_segment_is_refused(tmp_path: Path) -> None:
    directory = filled(tmp_path, 1)
    (segment,) = segments(directory)
    content = segment.read_bytes()
    segment.write_bytes(content[:8] + struct.pack("<I", 2) + content[12:])
    with pytest.raises(BadFile, match="format 2, and this umiak reads format 1"):
        numbers(directory)
    segment.write_bytes(b"something else")
    with pytest.raises(BadFile, match="not a log of umiak"):
        Log(directory, 0)
    segment.write_bytes(content)
    segment.rename(directory / "log-00000000000000000002.umiak")
    with pytest.raises(BadFile, match="not with that of its name"):
        numbers(directory)


def test_an_old_log_in_a_record_is_not_taken_for_records(tmp_path: Path) -> None:
    old = segments(filled(tmp_path, 3))[0].read_bytes()
    log = Log(tmp_path / "new", 3_600_000)
    log.append(b"short")
    log.append(old * 3)
    log.wait_durable(2)
    shutil.copytree(tmp_path / "new", tmp_path / "killed-new")
    log.close()
    (segment,) = segments(tmp_path / "killed-new")
    flip(segment, places(segment)[0] + 33)
    records, torn = Log.replay(tmp_path / "killed-new")
    assert records == []
    assert torn is not None


def test_what_was_dropped_is_gone_and_numbers_go_on(tmp_path: Path) -> None:
    log = Log(tmp_path, 0)
    for _ in range(3):
        log.append(b"a")
    begin = log.rotate()
    log.append(b"b")
    log.wait_durable(log.last)
    size = log.size
    assert (begin, log.drop_before(begin), log.durable, log.failure) == (4, 1, 4, None)
    assert log.size < size
    log.close()
    log = Log(tmp_path, 0)
    assert log.append(b"c") == 5
    log.close()
    assert Log.replay(tmp_path, 4)[0] == [(4, b"b"), (5, b"c")]


APPENDER = """
import os, random, sys
from umiak_native import Log
directory, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)
log = Log(directory, 1)
os.write(1, b"%d\\n" % log.durable)
while True:
    for _ in range(chance.randrange(1, 30)):
        lsn = log.last + 1
        assert log.append(b"%d:" % lsn + b"x" * chance.choice([0, 10, 1000, 30000])) == lsn
    if chance.random() < 0.2:
        log.rotate()
    if chance.random() < 0.5:
        log.wait_durable(log.last)
    os.write(1, b"%d\\n" % log.durable)
"""


def test_kill_9_loses_nothing_that_was_called_durable(tmp_path: Path) -> None:
    chance = random.Random(5)
    for life in range(8):
        child = subprocess.Popen([sys.executable, "-c", APPENDER, str(tmp_path), str(life)], stdout=subprocess.PIPE)
        assert child.stdout
        for _ in range(chance.randrange(1, 40)):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        said = child.stdout.read()  # whatever it still managed to say
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
        durable = [int(line) for line in said.split(b"\n")[:-1]]
        records, _ = Log.replay(tmp_path)
        assert [lsn for lsn, _ in records] == list(range(1, len(records) + 1))
        assert all(record.startswith(b"%d:" % lsn) for lsn, record in records)
        assert len(records) >= max(durable, default=0)
    assert len(records) > 0


FULL = """
import resource, sys
from umiak_native import Log
directory, limit = sys.argv[1], int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
log = Log(directory, 0)
durable = 0
try:
    while True:
        lsn = log.append(b"x" * 5000)
        log.wait_durable(lsn)
        durable = lsn
except ValueError as error:
    print(error)
try:
    log.append(b"y")
except ValueError as error:
    assert str(error) == log.failure
else:
    raise SystemExit("a failed log took a record")
log.rotate()
print(durable)
"""


def fill_up(directory: Path, limit: int) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(directory), str(limit)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    said, durable = done.stdout.splitlines()
    return said, int(durable)


def test_a_file_that_may_not_grow_stops_the_log_for_good(tmp_path: Path) -> None:
    said, durable = fill_up(tmp_path, 100_000)
    assert "the log can't be written: File too large" in said
    assert durable == 19
    records, _ = Log.replay(tmp_path)
    assert len(records) == durable
    log = Log(tmp_path, 0)
    log.wait_durable(log.append(b"again"))
    log.close()


@pytest.fixture
def tiny_disk(tmp_path: Path):
    place = tmp_path / "tiny"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip(f"a small disk can't be mounted here: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_stops_the_log_for_good(tiny_disk: Path) -> None:
    said, durable = fill_up(tiny_disk / "log", 0)
    assert "No space left on device" in said
    assert durable > 10
    records, _ = Log.replay(tiny_disk / "log")
    assert len(records) >= durable


def test_a_full_disk_leaves_no_half_shard_file(tiny_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        helpers.write_shard(tiny_disk, 0, 1, [("emb", SPARSE, None, [helpers.rows(range(20_000), 6)])])
    assert list(tiny_disk.iterdir()) == []
