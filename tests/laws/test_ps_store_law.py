"""Laws of what is on disk: it comes back as it was, whatever it was; and what was changed is noticed, wherever it was."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import umiak_native
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from umiak_native import BadFile, Log, ShardFile

from tests.support import checkpoint_helpers as helpers
from tests.support.checkpoint_helpers import DENSE, SPARSE
from tests.support.effort import effort
from umiak.ps import checkpoint, manifest

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(min_size=1, max_size=8)


@contextmanager
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def bits(numbers: np.ndarray) -> bytes:
    return numbers.astype("<f4").tobytes()


@st.composite
def tables(draw: st.DrawFn) -> list:
    found = []
    for name in draw(st.lists(NAMES, unique=True, max_size=3)):
        pieces = []
        spec = draw(st.sampled_from([SPARSE, DENSE]))
        width = draw(st.integers(0, 9))
        for _ in range(draw(st.integers(0, 3))):
            count = draw(st.integers(0, 5))
            floats = arrays.arrays(np.uint32, (count, width)).map(lambda words: words.view(np.float32))
            if spec is SPARSE:
                keys = arrays.arrays(np.uint64, count)
                pieces.append((draw(keys), draw(arrays.arrays(np.uint32, count)), draw(floats)))
            else:
                pieces.append((draw(st.integers(0, 2**64 - 1)), draw(floats).reshape(-1), draw(floats).reshape(-1)))
        found.append((name, spec, draw(PLAIN), pieces))
    return found


@given(tables(), st.integers(0, 12), st.integers(0, 2**64 - 1))
def test_what_was_written_is_read(written: list, power: int, step: int) -> None:
    with place() as directory:
        summary = helpers.write_shard(directory, 0, 2**power, written, step)
        file = ShardFile(directory / summary["name"])
        assert (file.shards, file.shard, file.step) == (2**power, 0, step)
        found: list = []
        for piece in file:
            if piece[0] == "table":
                found.append((piece[1], json.loads(piece[2]), json.loads(piece[3]), []))
            else:
                found[-1][3].append(piece[1:])
        assert [table[:3] for table in found] == [table[:3] for table in written]
        for (_, spec, _, got), (_, _, _, put) in zip(found, written, strict=True):
            if spec == SPARSE:
                put_rows = [piece for piece in put if len(piece[0])]  # no rows leave no trace
                assert [keys.tolist() for keys, _, _ in got] == [keys.tolist() for keys, _, _ in put_rows]
                assert [flags.tolist() for _, flags, _ in got] == [flags.tolist() for _, flags, _ in put_rows]
                assert [bits(data) for _, _, data in got] == [bits(data) for _, _, data in put_rows]
            else:
                assert [(at, bits(a), bits(b)) for at, a, b in got] == [(at, bits(a), bits(b)) for at, a, b in put]
        assert file.fingerprint == (summary["bytes"], summary["crc32"])


@given(tables(), st.data())
def test_what_was_changed_is_refused(written: list, data: st.DataObject) -> None:
    with place() as directory:
        path = directory / helpers.write_shard(directory, 0, 1, written)["name"]
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "remove"])):
            case "flip":
                content[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del content[at:]
            case "insert":
                content[at:at] = data.draw(st.binary(min_size=1, max_size=20))
            case "remove":
                del content[at]
        path.write_bytes(content)
        with pytest.raises(BadFile) as caught:
            list(ShardFile(path))
        assert str(caught.value).startswith(f"{path}: ")


@given(st.dictionaries(st.text(), PLAIN, max_size=4), PLAIN, st.integers(0, 2**64 - 1), st.text())
def test_a_manifest_says_the_same_to_both(metadata: dict, state: object, step: int, name: str) -> None:
    with place() as directory:
        file = helpers.write_shard(directory, 0, 1, [])
        tables = [("emb", SPARSE, state)]
        written = helpers.make_manifest([file], tables, 1, name=name, step=step, metadata=metadata)
        content = manifest.to_bytes(written)
        assert manifest.from_bytes(content, directory) == written
        (directory / "MANIFEST").write_bytes(content)
        native = umiak_native.read_manifest(directory)
        assert json.loads(native)["metadata"] == metadata
        umiak_native.write_manifest(directory, native)
        assert checkpoint.read(directory, verify=True) == written


RECORDS = st.binary(max_size=60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(RECORDS, min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["wait", "rotate", "drop", "close", "kill"]), st.none()),
    ),
    max_size=15,
)


@effort(0.5)
@given(STEPS)
def test_a_log_is_a_list_of_records(steps: list) -> None:
    """Against a model: all records ever appended, the first that must still be there, the last that must be."""
    with place() as root:
        life, directory = 0, root / "0"
        log = Log(directory, 3_600_000)
        records: list[bytes] = []
        begin, durable = 1, 0
        for what, new in steps:
            if what == "append":
                for record in new:
                    records.append(record)
                    assert log.append(record) == len(records)
            elif what == "wait":
                log.wait_durable(len(records))
                durable = len(records)
                assert log.durable == durable
            elif what == "rotate":
                assert log.rotate() == len(records) + 1
            elif what == "drop":
                begin = log.rotate()
                log.drop_before(begin)
                durable = begin - 1
                assert log.durable == durable
                assert [path.name for path in directory.glob("log-*")] == [f"log-{begin:020}.umiak"]
            else:
                if what == "kill":  # what is on disk at this moment, in another place
                    life += 1
                    shutil.copytree(directory, root / str(life))
                    log.close()
                    directory = root / str(life)
                else:
                    log.close()
                    durable = len(records)
                found, torn = Log.replay(directory, begin)
                assert torn is None
                assert [lsn for lsn, _ in found] == list(range(begin, begin + len(found)))
                assert begin + len(found) - 1 >= durable
                records = records[: begin + len(found) - 1]
                assert [record for _, record in found] == records[begin - 1 :]
                durable = len(records)
                log = Log(directory, 3_600_000)
                assert (log.last, log.durable) == (len(records), len(records))
        log.close()
        assert [record for _, record in Log.replay(directory, begin)[0]] == records[begin - 1 :]


@effort(0.5)
@given(st.lists(st.lists(RECORDS, min_size=1, max_size=3), min_size=1, max_size=4), st.booleans(), st.data())
def test_a_damaged_log_gives_a_beginning_or_is_refused(batches: list, rotate: bool, data: st.DataObject) -> None:
    with place() as root:
        log = Log(root / "live", 3_600_000)
        for batch in batches:
            for record in batch:
                log.append(record)
            log.wait_durable(log.last)
            if rotate:
                log.rotate()
        shutil.copytree(root / "live", root / "killed")
        log.close()
        records = [record for batch in batches for record in batch]
        before = len(records) - len(batches[-1])  # later records say that these were on disk
        path = data.draw(st.sampled_from(sorted((root / "killed").glob("log-*"))))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        try:
            found, torn = Log.replay(root / "killed")
        except BadFile as refused:
            found, torn, named = [], None, refused.file
        else:
            assert [record for _, record in found] == records[: len(found)]
            assert len(found) >= before
            named = torn[0] if torn else "nothing"
        assert named == str(path)
