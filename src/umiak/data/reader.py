"""The slot reader as Python sees it: names, defaults, errors with codes. An adapter; the work is done by ``umiak_native``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import umiak_native
from umiak_native import Batch

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.data import statistics
from umiak.data.parts import Part

__all__ = ["Batch", "ReadError", "SlotReader"]

Input = str | os.PathLike[str] | Part | bytes | IO[bytes]
"""A path, a part of a file, bytes, or an open file that has a descriptor (a pipe)."""

_LARGEST = 3.4028234663852886e38
"""The largest float32."""

_CODES = {"line": "UM-DATA-001", "file": "UM-DATA-002", "position": "UM-DATA-003", "asked": "UM-DATA-004"}
_HINTS = {
    "line": "mend the line, or let some bad lines pass with bad_lines=...",
    "position": "read from the beginning, or with the same files, slots, shuffle and cache as before",
}


class ReadError(UmiakError):
    """A reader can't go on. Where a line is to blame, the fields say which; else they are None."""

    def __init__(self, error: umiak_native.ReaderError) -> None:
        problem = Problem(code=_CODES[error.kind], what=error.message, hint=_HINTS.get(error.kind))
        super().__init__(problem, exit_status=Exit.BAD_REQUEST if error.kind != "file" else Exit.REFUSED)
        self.file = error.file
        self.line = error.line
        self.column = error.column
        self.token = error.token
        self.reason = error.reason


class SlotReader:
    """An iterator of batches. It is made for one pass over its inputs; a next epoch takes a new one.

    ``inputs``         one input or several, read in this order: paths, parts of files, bytes, open pipes
    ``sparse``         slots with any number of ids per sample
    ``dense``          slots with a fixed number of float32 values, by name
    ``padding``        the id of a sparse slot that a line does not have; None leaves it without any
    ``dense_padding``  the value of a dense slot that a line does not have; None makes it a bad line
    ``unknown``        slots that were not asked for: "count" them, "skip" them, or "refuse" their lines
    ``bad_lines``      so many bad lines are passed over and counted; the next one raises ReadError
    ``threads``        1 parses in the calling thread and starts none
    ``ordered``        False gives up the order of several threads' blocks, and with it the position
    ``shuffle``        samples are permuted in windows of so many; 0 leaves them in order
    ``seed, epoch``    of the shuffle; the same ones give the same order, whatever the number of threads
    ``cache``          True keeps parsed files beside theirs, a directory keeps them there
    ``ids``            whether ids come as int64 or uint64; the bits are the same
    ``position``       where an earlier reader was, from its ``position()``
    """

    def __init__(
        self,
        inputs: Input | Sequence[Input],
        *,
        sparse: Sequence[str] = (),
        dense: Mapping[str, int] | None = None,
        batch_size: int = 512,
        drop_last: bool = False,
        padding: int | None = 0,
        dense_padding: float | None = 0.0,
        unknown: Literal["count", "skip", "refuse"] = "count",
        bad_lines: int = 0,
        threads: int = 1,
        ordered: bool = True,
        shuffle: int = 0,
        seed: int = 0,
        epoch: int = 0,
        cache: bool | str | os.PathLike[str] | None = None,
        ids: Literal["int64", "uint64"] = "int64",
        position: str | None = None,
        block_bytes: int | None = None,
    ) -> None:
        given = _several(inputs)
        settings = {
            "sparse": list(sparse),
            "dense": [{"name": name, "dim": dim} for name, dim in (dense or {}).items()],
            "padding": padding,
            "dense_padding": dense_padding,
            "unknown": unknown,
            "batch_size": batch_size,
            "drop_last": drop_last,
            "threads": threads,
            "ordered": ordered,
            "bad_lines": bad_lines,
            "shuffle": {"buffer": shuffle, "seed": _mixed(seed, epoch)} if shuffle else None,
            "cache": None if cache in (None, False) else {"directory": None if cache is True else os.fspath(cache)},  # type: ignore[arg-type]
            "block_bytes": block_bytes,
        }
        _check(given, settings, cache=cache not in (None, False), ids=ids)
        try:
            native = [_native(item) for item in given]
            self._reader = umiak_native.SlotReader(native, json.dumps(settings), position, ids == "uint64")
        except umiak_native.ReaderError as error:
            raise ReadError(error) from error
        except ValueError as error:
            raise _asked(str(error)) from error

    def __iter__(self) -> SlotReader:
        return self

    def __next__(self) -> Batch:
        try:
            return self._reader.__next__()
        except umiak_native.ReaderError as error:
            raise ReadError(error) from error

    def position(self) -> str:
        """JSON from which another reader goes on behind the last batch; its batches may have another size."""
        try:
            return self._reader.position()
        except umiak_native.ReaderError as error:
            raise ReadError(error) from error

    def statistics(self) -> statistics.Statistics:
        """What was seen so far."""
        return statistics.from_json(self._reader.statistics())

    def close(self) -> None:
        """End threads and let go of files; what is left of the input is not read."""
        self._reader.close()

    def __enter__(self) -> SlotReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _several(inputs: Input | Sequence[Input]) -> list[Input]:
    if isinstance(inputs, (list, tuple)):
        return list(inputs)
    one: Any = inputs
    if isinstance(one, (str, bytes, os.PathLike, Part)) or hasattr(one, "fileno"):
        return [one]
    raise _asked(f"not an input: {inputs!r}")


def _check(given: Sequence[Input], settings: Mapping[str, Any], *, cache: bool, ids: str) -> None:
    """Everything that is wrong with what was asked for, at once."""
    problems = []
    for item in given:
        path = item.path if isinstance(item, Part) else item
        if isinstance(path, (str, os.PathLike)):
            if not Path(path).exists():
                problems.append(Problem(code="UM-DATA-002", what=f"no such file: {os.fspath(path)}"))
        elif cache:
            what = "a cache is only possible for files, not for pipes and bytes"
            problems.append(Problem(code="UM-DATA-004", what=what))
    shuffle = settings["shuffle"]
    numbers: dict[str, tuple[float | None, float, float]] = {
        "padding": (settings["padding"], -(2**63), 2**64 - 1),
        "dense_padding": (settings["dense_padding"], -_LARGEST, _LARGEST),
        "batch_size": (settings["batch_size"], 1, 2**40),
        "bad_lines": (settings["bad_lines"], 0, 2**64 - 1),
        "threads": (settings["threads"], 1, 256),
        "shuffle": (shuffle and shuffle["buffer"], 0, 2**32 - 1),
    }
    for name, (number, least, most) in numbers.items():
        if number is not None and not least <= number <= most:
            problems.append(_problem(f"{name} is {number}: {least} to {most} are possible"))
    if settings["unknown"] not in ("count", "skip", "refuse"):
        problems.append(_problem(f"unknown is {settings['unknown']!r}: count, skip or refuse are possible"))
    if ids not in ("int64", "uint64"):
        problems.append(_problem(f"ids is {ids!r}: int64 or uint64 are possible"))
    if problems:
        raise UmiakError(*problems)


def _native(item: Input) -> tuple[str, int, int | None] | tuple[int, str] | tuple[bytes, str]:
    if isinstance(item, Part):
        return item.path, item.start, item.end
    if isinstance(item, bytes):
        return item, "<bytes>"
    if isinstance(item, (str, os.PathLike)):
        return os.fspath(item), 0, None
    return item.fileno(), str(getattr(item, "name", "<pipe>"))


def _mixed(seed: int, epoch: int) -> int:
    """One number of 64 bits for both; neighbours are mixed well further down."""
    return (seed * 0x9E3779B97F4A7C15 + epoch * 0xD1B54A32D192ED03) % 2**64


def _problem(what: str) -> Problem:
    return Problem(code="UM-DATA-004", what=what)


def _asked(what: str) -> UmiakError:
    return UmiakError(_problem(what))
