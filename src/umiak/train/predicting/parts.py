"""The files of a prediction: parts that are there as a whole or not at all, what they belong to, and the output made of them. An adapter.

OUT.parts/manifest.json      what was predicted with what: nobody goes on with parts of something else
OUT.parts/part-000000.csv    a part, under its name when it is on the disk
OUT.parts/part-000000.json   rows, SHA-256, and where the reader stood behind it
OUT                          all parts, one behind the other, under its name when all of it is on the disk
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from umiak.core.decode import Malformed, decode, encode
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import fields, value
from umiak.train.predicting import rows
from umiak.train.reading.batches import mask_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.data.array_types import AnyArray

PARTIAL = ".partial"
MANIFEST = "manifest.json"
BLOCK = 1 << 20
FORMAT = 1


@value
class Made:
    """What parts belong to. Parts of a prediction that differs in any of this are not gone on with."""

    format: int = FORMAT
    config: str
    """SHA-256 of the config as it was read, overrides and all."""
    model: str
    """The checkpoint."""
    model_hash: str
    data: str
    data_hash: str
    """SHA-256 of names, sizes and times of change."""
    keep: tuple[str, ...]
    batch_size: int
    batches: int
    """In a part."""
    out: str
    """What kind of file: csv or parquet."""


@value
class PartDone:
    """A part that is there."""

    rows: int
    sha256: str
    size: int
    next: str
    """Where the reader stood behind it."""
    is_last: bool = False
    """Whether nothing came behind it."""


class OpenPart(Protocol):
    """A part that is being written."""

    def put(self, columns: Mapping[str, AnyArray | list[str]]) -> None: ...
    def close(self) -> None: ...


class Parts:
    """The parts of one output."""

    def __init__(self, out: str) -> None:
        self.out = Path(out)
        self.directory = Path(f"{out}.parts")
        self.kind = "parquet" if self.out.suffix.lower() in (".parquet", ".pq") else "csv"

    # ---- beginning

    def begin(self, made: Made, *, resume: bool) -> None:
        """A directory for parts of this prediction: an empty one, or with ``resume`` what another process has left. UmiakError if it is of something else."""
        there = self._manifest()
        if resume and there is not None:
            different = [name for name in fields(Made) if getattr(there, name) != getattr(made, name)]
            if different:
                raise UmiakError(
                    *[
                        Problem(
                            code="UM-PREDICT-005",
                            what=f"{self.directory} is of another prediction: {name} was {getattr(there, name)}, and is {getattr(made, name)}",
                            hint="leave --resume out to begin again, or go on with what it was begun with",
                        )
                        for name in different
                    ]
                )
            for left in self.directory.glob(f"*{PARTIAL}"):
                left.unlink()
            return
        if self.directory.exists():
            if there is None and any(self.directory.iterdir()):
                what = f"a directory of this name is there, and not of a prediction: {self.directory}"
                raise UmiakError.of("UM-PREDICT-006", what, hint="move it away, or choose another --out")
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True)
        self._write(self.directory / MANIFEST, json.dumps(encode(made), indent=2).encode())

    def forget_if_empty(self) -> None:
        """Leave nothing behind of a prediction that has not finished a part: there is nothing to resume."""
        if {each.name for each in self.directory.glob("*") if not each.name.endswith(PARTIAL)} <= {MANIFEST}:
            shutil.rmtree(self.directory, ignore_errors=True)

    def done(self, number: int) -> PartDone | None:
        """A part, if all of it is there."""
        try:
            found = decode(PartDone, json.loads(self._note(number).read_bytes()))
            return found if self.path(number).stat().st_size == found.size else None
        except (OSError, ValueError, Malformed):
            return None

    # ---- a part

    def path(self, number: int) -> Path:
        return self.directory / f"part-{number:06}.{self.kind}"

    def open(self, number: int) -> OpenPart:
        """Write a part; it gets its name with `finish`."""
        path = Path(f"{self.path(number)}{PARTIAL}")
        return _CsvPart(path) if self.kind == "csv" else _ParquetPart(path)

    def finish(self, number: int, written: OpenPart, *, rows_in_it: int, next_position: str, is_last: bool) -> PartDone:
        """The part is whole: put it under its name, then say so."""
        written.close()
        path = self.path(number)
        digest, size = _digest(Path(f"{path}{PARTIAL}"))
        os.replace(f"{path}{PARTIAL}", path)
        found = PartDone(rows=rows_in_it, sha256=digest, size=size, next=next_position, is_last=is_last)
        self._write(self._note(number), json.dumps(encode(found)).encode())
        return found

    # ---- the output

    def join(self, count: int, names: Sequence[str]) -> int:
        """All parts as one file, under its name when it is on the disk; the parts go. Returns its rows."""
        partial = Path(f"{self.out}{PARTIAL}")
        total = self._join_csv(partial, count, names) if self.kind == "csv" else self._join_parquet(partial, count)
        os.replace(partial, self.out)
        _sync(self.out.parent)
        shutil.rmtree(self.directory)
        return total

    def _join_csv(self, partial: Path, count: int, names: Sequence[str]) -> int:
        total = 0
        with partial.open("wb") as out:
            out.write(rows.csv_head(names).encode())
            for number in range(count):
                done = self.done(number)
                digest = hashlib.sha256()
                with self.path(number).open("rb") as part:
                    while block := part.read(BLOCK):
                        digest.update(block)
                        out.write(block)
                total += self._checked(number, done, digest.hexdigest())
            out.flush()
            os.fsync(out.fileno())
        return total

    def _join_parquet(self, partial: Path, count: int) -> int:
        from pyarrow import parquet

        total, writer = 0, None
        for number in range(count):
            total += self._checked(number, self.done(number), _digest(self.path(number))[0])
            file = parquet.ParquetFile(self.path(number))
            writer = writer or parquet.ParquetWriter(partial, file.schema_arrow)
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group))
        if writer is not None:
            writer.close()
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        return total

    def _checked(self, number: int, done: PartDone | None, digest: str) -> int:
        if done is None or done.sha256 != digest:
            what = f"a part has changed since it was written: {self.path(number)}"
            raise UmiakError.of("UM-PREDICT-007", what, hint="remove it, and continue with --resume")
        return done.rows

    def _manifest(self) -> Made | None:
        try:
            return decode(Made, json.loads((self.directory / MANIFEST).read_bytes()))
        except (OSError, ValueError, Malformed):
            return None

    def _note(self, number: int) -> Path:
        return self.directory / f"part-{number:06}.json"

    def _write(self, path: Path, content: bytes) -> None:
        with Path(f"{path}{PARTIAL}").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}{PARTIAL}", path)
        _sync(path.parent)


class _CsvPart:
    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")

    def put(self, columns: Mapping[str, AnyArray | list[str]]) -> None:
        self._file.write(rows.csv_text(columns).encode())

    def close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class _ParquetPart:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._tables: list[object] = []

    def put(self, columns: Mapping[str, AnyArray | list[str]]) -> None:
        import pyarrow as pa

        several = [name for name, each in columns.items() if isinstance(each, list)]
        if several:
            what = f"--keep: slot {several[0]} has not exactly one value in every sample"
            raise UmiakError.of("UM-PREDICT-004", what, hint="write CSV, where they stand side by side in one text")
        self._tables.append(pa.table({name: _arrow(each) for name, each in columns.items()}))

    def close(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        # One row group for each part.
        parquet.write_table(pa.concat_tables(self._tables).combine_chunks(), self._path)
        with self._path.open("rb+") as file:
            os.fsync(file.fileno())


def _arrow(column: AnyArray | list[str]) -> object:
    """A column of the same type in every part, whatever is missing."""
    import numpy as np
    import pyarrow as pa

    if isinstance(column, np.ma.MaskedArray):
        return pa.array(np.asarray(column), mask=mask_of(column))
    if not isinstance(column, list) and column.dtype.kind == "O":
        return pa.array(column.tolist(), pa.string())
    return pa.array(column)


def can_write_parquet() -> bool:
    """Whether pyarrow is installed."""
    import importlib.util

    return importlib.util.find_spec("pyarrow") is not None


def _digest(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def _sync(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
