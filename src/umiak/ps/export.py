"""Tables of a checkpoint for others: Parquet, safetensors, plain dicts. An adapter.

    export.to_parquet("runs/step-200", "emb", "emb.parquet")
    export.to_safetensors("runs/step-200", "emb", "emb.safetensors")

Shard after shard is read, checked and written, so memory is bounded by a row group of 64 MiB, not by the table. What is
exported are values: a key's weights, and with an accessor its show, click and embed_w. Optimizer state is not, nor are keys
that were counted but have no row yet. A file appears under its name when it is complete.

``python -m umiak.ps.export --help`` is the same from a shell.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.core.problem import Exit, UmiakError
from umiak.core.value import value
from umiak.ps import checkpoint
from umiak.ps.manifest import BadCheckpoint, Manifest, bad

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, BinaryIO

    from numpy.typing import NDArray

    from umiak.core.json_types import JsonObject
    from umiak.data.array_types import AnyArray

    Floats = NDArray[np.float32]

PENDING = 1
"""The flag of a key that was counted but has no row."""

_STATISTICS = {"show": 3, "click": 4, "embed_w": 5}
"""Columns of a saved row with an accessor."""
_ROW_GROUP_BYTES = 64 << 20


@value
class Export:
    """A file that was written. ``rows`` counts keys of a sparse table, elements of a dense one."""

    file: str
    table: str
    step: int
    rows: int
    bytes: int


@value
class _Rows:
    """Some rows of a sparse table: what is exported of them."""

    keys: NDArray[np.uint64]
    values: Floats
    statistics: dict[str, Floats]


def to_parquet(path: str | os.PathLike[str], table: str, file: str | os.PathLike[str]) -> Export:
    """A sparse table as Parquet: ``key`` (uint64), ``value`` (a list of dim float32), one row group per virtual shard.

    With an accessor also ``show``, ``click`` and ``embed_w``. Needs pyarrow (``python -m pip install pyarrow``).
    """
    source = _Source(path, table)
    if source.is_dense:
        raise bad(
            "UM-PS-122",
            path,
            f"dense tables are not exported to Parquet: {table}",
            hint="export it to a file that ends in .safetensors",
        )
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise bad(
            "UM-PS-123", file, "Parquet needs pyarrow", why=str(error), hint="python -m pip install pyarrow"
        ) from None

    statistics = list(_STATISTICS) if source.has_accessor else []
    about = {"table": table, "checkpoint": source.manifest.name, "step": source.manifest.step, "spec": source.spec}
    schema = pa.schema(
        [
            pa.field("key", pa.uint64(), nullable=False),
            *(pa.field(name, pa.float32(), nullable=False) for name in statistics),
            pa.field("value", pa.list_(pa.field("element", pa.float32(), nullable=False), source.dim), nullable=False),
        ],
        metadata={"umiak": json.dumps(about)},
    )

    def record(rows: _Rows) -> pa.RecordBatch:
        flat = pa.array(np.ascontiguousarray(rows.values).reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(flat, type=schema.field("value").type)
        arrays = [pa.array(rows.keys), *(pa.array(rows.statistics[name]) for name in statistics), lists]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    total = 0
    with _whole(file) as out, pq.ParquetWriter(out, schema) as writer:

        def flush(batches: list[pa.RecordBatch]) -> None:
            if batches:
                group = pa.Table.from_batches(batches)
                writer.write_table(group, row_group_size=group.num_rows)
                batches.clear()

        for shard in source.shards():
            waiting: list[pa.RecordBatch] = []
            size = 0
            for rows in source.rows(shard):
                waiting.append(record(rows))
                total += len(rows.keys)
                size += waiting[-1].nbytes
                if size >= _ROW_GROUP_BYTES:
                    flush(waiting)
                    size = 0
            flush(waiting)
    return _done(source, file, total)


def to_safetensors(path: str | os.PathLike[str], table: str, file: str | os.PathLike[str]) -> Export:
    """A table as safetensors: ``TABLE.keys`` (U64) and ``TABLE.values`` (F32, a row per key), keys in no special order.

    With an accessor also ``TABLE.show``, ``TABLE.click`` and ``TABLE.embed_w``. A dense table's arrays have their own names.
    """
    source = _Source(path, table)
    if source.is_dense:
        return _dense_to_safetensors(source, file)
    count = source.count()
    tensors: dict[str, tuple[str, list[int]]] = {f"{table}.keys": ("U64", [count])}
    tensors[f"{table}.values"] = ("F32", [count, source.dim])
    if source.has_accessor:
        tensors.update({f"{table}.{name}": ("F32", [count]) for name in _STATISTICS})
    done = 0
    with _whole(file) as out:
        places = _begin(out, tensors, source)
        for shard in source.shards():
            for rows in source.rows(shard):
                if done + len(rows.keys) > count:
                    raise source.strange()
                _put(out, places[f"{table}.keys"] + 8 * done, rows.keys.astype("<u8", copy=False))
                _put(out, places[f"{table}.values"] + 4 * source.dim * done, rows.values)
                for name, column in rows.statistics.items():
                    _put(out, places[f"{table}.{name}"] + 4 * done, column)
                done += len(rows.keys)
        if done != count:
            raise source.strange()
    return _done(source, file, count)


def rows(path: str | os.PathLike[str], table: str) -> tuple[NDArray[np.uint64], Floats]:
    """All keys of a sparse table and their rows, in memory, as a layer reads them: with an accessor ``embed_w`` comes first."""
    source = _Source(path, table)
    found = [rows for shard in source.shards() for rows in source.rows(shard)]
    keys = [np.zeros(0, np.uint64), *(each.keys for each in found)]
    values = [np.zeros((0, source.dim), np.float32), *(each.values for each in found)]
    if not source.has_accessor:
        return np.concatenate(keys), np.concatenate(values)
    first = [np.zeros(0, np.float32), *(each.statistics["embed_w"] for each in found)]
    return np.concatenate(keys), np.column_stack([np.concatenate(first), np.concatenate(values)])


def specs_of(path: str | os.PathLike[str]) -> dict[str, JsonObject]:
    """The tables of a checkpoint, as they are described."""
    return {name: dict(table.spec) for name, table in checkpoint.read(path).tables.items()}


def arrays(path: str | os.PathLike[str], table: str) -> dict[str, Floats]:
    """The arrays of a dense table, by name, each as its numbers end to end."""
    source = _Source(path, table)
    whole = np.zeros(sum(_sizes(source.spec)), np.float32)
    for shard in source.shards():
        for _, offset, values, _ in source.pieces(shard):
            whole[offset : offset + len(values)] = values
    ends = np.cumsum([0, *_sizes(source.spec)]).tolist()
    names = [each["name"] for each in source.spec["arrays"]]
    return {name: whole[first:end] for name, first, end in zip(names, ends[:-1], ends[1:], strict=True)}


def contents(path: str | os.PathLike[str]) -> dict[str, JsonObject]:
    """All of a checkpoint in memory, for tests and small tables: by table name, as `umiak_native.ShardFile` hands it out.

    {"spec", "state", "rows": {key: (flags, numbers)}} for a sparse table, {"spec", "state", "values", "extra"} for a dense
    one: all elements end to end, and the rest of each shard's piece by its offset.
    """
    manifest = checkpoint.read(path, verify=True)
    tables: dict[str, JsonObject] = {}
    for file in manifest.files:
        for piece in _pieces(Path(path) / file.name):
            if piece[0] == "table":
                _, name, spec, state = piece
                if name not in tables:
                    plain = json.loads(spec)
                    tables[name] = {"spec": plain, "state": json.loads(state)}
                    if plain["kind"] == "sparse":
                        tables[name]["rows"] = {}
                    else:
                        tables[name] |= {"values": np.zeros(sum(_sizes(plain)), np.float32), "extra": {}}
                current = tables[name]
            elif piece[0] == "rows":
                for key, flags, row in zip(piece[1].tolist(), piece[2].tolist(), piece[3], strict=True):
                    current["rows"][key] = (flags, row)
            else:
                _, offset, values, extra = piece
                current["values"][offset : offset + len(values)] = values
                current["extra"][offset] = extra
    return tables


class _Source:
    """One table of a checkpoint."""

    def __init__(self, path: str | os.PathLike[str], table: str) -> None:
        self.path = Path(path)
        self.manifest: Manifest = checkpoint.read(path)
        self.table = table
        if table not in self.manifest.tables:
            known = ", ".join(self.manifest.tables) or "none"
            raise bad("UM-PS-121", path, f"no such table: {table}", hint=f"it has these tables: {known}")
        self.spec: JsonObject = dict(self.manifest.tables[table].spec)
        self.is_dense = self.spec["kind"] == "dense"
        self.has_accessor = not self.is_dense and self.spec.get("accessor") is not None
        self.dim: int = 0 if self.is_dense else self.spec["dim"]

    def shards(self) -> Iterator[Path]:
        for file in self.manifest.files:
            yield self.path / file.name

    def pieces(self, shard: Path) -> Iterator[Any]:
        """The pieces of this table in a file; the whole file is checked."""
        ours = False
        for piece in _pieces(shard):
            if piece[0] == "table":
                ours = piece[1] == self.table
                if ours and umiak_native.spec_differences(piece[2], json.dumps(self.spec)):
                    raise self.strange()
            elif ours:
                yield piece

    def rows(self, shard: Path) -> Iterator[_Rows]:
        begin, end = umiak_native.value_columns(json.dumps(self.spec))
        statistics = _STATISTICS if self.has_accessor else {}
        for _, all_keys, flags, numbers in self.pieces(shard):
            if numbers.shape[1] < end:
                raise self.strange()
            there = (flags & PENDING) == 0
            keys, data = all_keys[there], numbers[there]
            if len(keys):
                columns = {name: np.ascontiguousarray(data[:, at]) for name, at in statistics.items()}
                yield _Rows(keys=keys, values=np.ascontiguousarray(data[:, begin:end]), statistics=columns)

    def count(self) -> int:
        """How many rows there are. Only where keys can be pending, the files must be read to know."""
        if self.spec.get("entry", {}).get("by") == "count":
            return sum(len(rows.keys) for shard in self.shards() for rows in self.rows(shard))
        return sum(file.rows.get(self.table, 0) for file in self.manifest.files)

    def strange(self) -> BadCheckpoint:
        return bad("UM-PS-108", self.path, f"its files don't hold what its manifest says of table {self.table}")


def _pieces(shard: Path) -> Iterator[Any]:
    try:
        yield from umiak_native.ShardFile(shard)
    except umiak_native.BadFile as error:
        _, _, what = str(error).partition(": ")
        hint = "copy the checkpoint again, or use another one"
        raise bad("UM-PS-108", shard, "a file can't be used", why=f"it {what}", hint=hint) from None


def _sizes(spec: JsonObject) -> list[int]:
    return [int(np.prod(array["shape"], dtype=np.int64)) for array in spec["arrays"]]


def _dense_to_safetensors(source: _Source, file: str | os.PathLike[str]) -> Export:
    total = sum(_sizes(source.spec))
    seen = 0
    with _whole(file) as out:
        # Arrays lie end to end in the file as they do in the table, so a piece may run from one into the next.
        places = _begin(out, {array["name"]: ("F32", array["shape"]) for array in source.spec["arrays"]}, source)
        begin = min(places.values(), default=0)
        for shard in source.shards():
            for _, offset, values, _ in source.pieces(shard):
                if offset + len(values) > total:
                    raise source.strange()
                _put(out, begin + 4 * offset, values)
                seen += len(values)
        if seen != total:
            raise source.strange()
    return _done(source, file, total)


def _begin(out: BinaryIO, tensors: dict[str, tuple[str, list[int]]], source: _Source) -> dict[str, int]:
    """Write the header of a safetensors file; returns where each tensor begins. They lie end to end in this order."""
    header: JsonObject = {
        "__metadata__": {
            "producer": "umiak",
            "table": source.table,
            "checkpoint": source.manifest.name,
            "step": str(source.manifest.step),
            "spec": json.dumps(source.spec),
        }
    }
    places = {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = (8 if dtype == "U64" else 4) * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        places[name] = at
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write(len(text).to_bytes(8, "little") + text)
    begin = 8 + len(text)
    out.flush()
    os.ftruncate(out.fileno(), begin + at)
    return {name: begin + place for name, place in places.items()}


def _put(out: BinaryIO, at: int, numbers: AnyArray) -> None:
    rest = memoryview(np.ascontiguousarray(numbers).view(np.uint8).reshape(-1).data)
    while rest:
        written = os.pwrite(out.fileno(), rest, at)
        at += written
        rest = rest[written:]


@contextmanager
def _whole(file: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that gets its name when everything was written and is on disk."""
    path = Path(file)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w+b") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise bad("UM-PS-124", path, "the export can't be written", why=error.strerror or str(error)) from None
    finally:
        temporary.unlink(missing_ok=True)


def _done(source: _Source, file: str | os.PathLike[str], rows: int) -> Export:
    return Export(
        file=os.fspath(file), table=source.table, step=source.manifest.step, rows=rows, bytes=os.stat(file).st_size
    )


def main(words: Sequence[str]) -> int:
    """The command line; returns the exit status. Data goes to stdout, messages to stderr."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m umiak.ps.export",
        description="Write a table of a checkpoint as Parquet or safetensors. Prints what was written as JSON.",
        epilog="examples:\n"
        "  python -m umiak.ps.export runs/step-200 --table emb --to emb.parquet\n"
        "  python -m umiak.ps.export runs/step-200 --table net --to net.safetensors\n"
        "  python -m umiak.ps.export runs/step-200            which tables it has\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="directory of a checkpoint")
    parser.add_argument("--table", metavar="NAME", help="which table; without it, the tables are listed as JSON")
    parser.add_argument("--to", metavar="FILE", help="a name that ends in .parquet or .safetensors")
    asked = parser.parse_args(words)
    if (asked.table is None) != (asked.to is None):
        parser.error("--table and --to belong together")
    try:
        said = _listing(asked.checkpoint) if asked.table is None else _exported(asked.checkpoint, asked.table, asked.to)
    except UmiakError as error:
        sys.stderr.write("".join(f"{line}\n" for problem in error.problems for line in problem.lines()))
        return error.exit_status
    sys.stdout.write(json.dumps(said) + "\n")
    return Exit.DONE


def _listing(path: str) -> JsonObject:
    manifest = checkpoint.read(path)
    rows = {name: sum(file.rows.get(name, 0) for file in manifest.files) for name in manifest.tables}
    tables = {name: {"rows": rows[name], "spec": table.spec} for name, table in manifest.tables.items()}
    return {"checkpoint": manifest.name, "step": manifest.step, "shards": manifest.shards, "tables": tables}


def _exported(path: str, table: str, file: str) -> JsonObject:
    if file.endswith(".parquet"):
        done = to_parquet(path, table, file)
    elif file.endswith(".safetensors"):
        done = to_safetensors(path, table, file)
    else:
        raise bad("UM-PS-125", file, "not a format that is known", hint="let it end in .parquet or .safetensors")
    return {"file": done.file, "table": done.table, "step": done.step, "rows": done.rows, "bytes": done.bytes}


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has gone, as `head`, ends it quietly
    sys.exit(main(sys.argv[1:]))
