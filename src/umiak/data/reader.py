"""The slot reader as Python sees it: names, defaults, errors with codes. An adapter; the work is done by ``umiak_native``."""

from __future__ import annotations

import glob
import json
import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex

import umiak_native
from umiak_native import Batch

from umiak.core.problem import BadRequest, Exit, Problem, UmiakError
from umiak.data import statistics
from umiak.data.inputs import Input, head, is_file, native, several
from umiak.data.other_formats import other_format
from umiak.data.parts import Part

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject

__all__ = ["Batch", "ReadError", "SlotReader"]

_LARGEST = 3.4028234663852886e38
"""The largest float32."""
_MOST_VALUES = 1 << 20
"""Of a dense slot."""

_CODES = {
    "line": "UM-DATA-001",
    "file": "UM-DATA-002",
    "position": "UM-DATA-003",
    "asked": "UM-DATA-004",
    "not_text": "UM-DATA-090",
}
_HINTS = {
    "line": "correct the line, or let some bad lines pass with bad_lines=...",
    "position": "read from the beginning, or with the same files, slots, shuffle and cache as before",
}
_REMEDIES = {
    "bzip2": "unpack it: `bzip2 -d`, or give its path, or what bz2.open(...) gives",
    "xz": "unpack it: `xz -d`, or give its path, or what lzma.open(...) gives",
    "zip": "unpack it: `unzip`",
    "lz4": "unpack it: `lz4 -d`, or pack it with gzip or zstd",
    "utf-16": "convert it: `iconv -f UTF-16 -t UTF-8`",
    "unmarked-utf-16": "convert it: `iconv -f UTF-16LE -t UTF-8`, or from UTF-16BE",
}
"""By what an input is instead of text."""


class ReadError(UmiakError):
    """A reader can't go on. Where a line is to blame, the fields say which; else they are None."""

    def __init__(self, error: umiak_native.ReaderError) -> None:
        hint = _REMEDIES[error.reason] if error.kind == "not_text" else _HINTS.get(error.kind)
        problem = Problem(code=_CODES[error.kind], what=error.message, hint=hint)
        # Of a file that is none of slot text, its first line would be blamed, or a piece of binary.
        other = other_format(head(error.file)) if error.kind == "line" and error.file else None
        if other is not None:
            what = f"{error.file}: expected slot text (lines of slot:value), got {other.name}"
            problem = Problem(code="UM-DATA-095", what=what, why=error.message, hint=other.hint)
        super().__init__(problem, exit_status=Exit.BAD_REQUEST if error.kind != "file" else Exit.REFUSED)
        self.file = error.file
        self.line = error.line
        self.column = error.column
        self.token = error.token
        self.reason = error.reason

    def __str__(self) -> str:
        (problem,) = self.problems
        return problem.what if problem.hint is None else f"{problem.what} ({problem.hint})"


class SlotReader:
    """An iterator of batches. It is made for one pass over its inputs; a next epoch takes a new one.

    ``inputs``         one input or several, read in this order: paths, parts of files, bytes, open files and pipes
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
        given = several(inputs)
        settings: JsonObject = {
            "sparse": sparse,
            "dense": {} if dense is None else dense,
            "padding": padding,
            "dense_padding": dense_padding,
            "unknown": unknown,
            "batch_size": batch_size,
            "drop_last": drop_last,
            "threads": threads,
            "ordered": ordered,
            "bad_lines": bad_lines,
            "block_bytes": block_bytes,
        }
        _check(given, settings, shuffle=shuffle, seed=seed, epoch=epoch, cache=cache, ids=ids, position=position)
        settings["shuffle"] = {"buffer": operator.index(shuffle), "seed": _mixed(seed, epoch)} if shuffle else None
        settings["cache"] = (
            None if cache in (None, False) else {"directory": None if cache is True else os.fspath(cache)}  # type: ignore[arg-type]
        )
        try:
            self._reader = umiak_native.SlotReader(
                [native(item) for item in given], json.dumps(settings), position, ids == "uint64"
            )
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


def _check(
    given: Sequence[Input],
    settings: JsonObject,
    *,
    shuffle: Any,
    seed: Any,
    epoch: Any,
    cache: Any,
    ids: str,
    position: object,
) -> None:
    """Everything that is wrong with what was asked for, at once; numbers become Python's own."""
    cached = cache not in (None, False)
    problems = _wrong_inputs(given, cached=cached)
    if cached and cache is not True and not isinstance(cache, (str, os.PathLike)):
        problems.append(_problem(f"cache: neither True nor a directory: {cache!r}"))
    problems += _wrong_slots(settings)
    problems += _wrong_numbers(settings, {"shuffle": shuffle, "seed": seed, "epoch": epoch})
    for name in ("drop_last", "ordered"):
        if not isinstance(settings[name], bool):
            problems.append(_problem(f"{name} is {settings[name]!r}: expected a boolean"))
    if settings["unknown"] not in ("count", "skip", "refuse"):
        problems.append(_problem(f"unknown is {settings['unknown']!r}: count, skip or refuse is expected"))
    if position is not None and not isinstance(position, str):
        problems.append(_problem(f"position is {position!r}: what position() gave is expected"))
    if ids not in ("int64", "uint64"):
        problems.append(_problem(f"ids is {ids!r}: int64 or uint64 is expected"))
    BadRequest.raise_any(problems)


def _wrong_inputs(given: Sequence[Input], *, cached: bool) -> list[Problem]:
    problems = []
    for item in given:
        if not is_file(item):
            if cached:
                problems.append(_problem("cache: only possible for files, not for pipes and bytes"))
            continue
        path = item.path if isinstance(item, Part) else os.fspath(item)  # type: ignore[arg-type]
        if not Path(path).exists():
            hint = f"read several: sorted(glob.glob({path!r}))" if glob.has_magic(path) else None
            problems.append(Problem(code="UM-DATA-002", what=f"no such file: {path}", hint=hint))
        elif Path(path).is_dir():
            hint = f"read its files: sorted(glob.glob({path + '/*'!r}))"
            problems.append(Problem(code="UM-DATA-002", what=f"a directory, not a file: {path}", hint=hint))
    return problems


_WHOLE = {
    "padding": (-(2**63), 2**64 - 1),
    "batch_size": (1, 2**40),
    "bad_lines": (0, 2**64 - 1),
    "threads": (1, 256),
    "block_bytes": (1, 2**40),
    "shuffle": (0, 2**32 - 1),
    "seed": (-(2**64), 2**64),
    "epoch": (-(2**64), 2**64),
}
"""Integers, and their ranges."""


def _wrong_numbers(settings: JsonObject, more: JsonMapping) -> list[Problem]:
    problems = []
    for name, (least, most) in _WHOLE.items():
        number = settings[name] if name in settings else more[name]
        if number is None and name in ("padding", "block_bytes"):
            continue
        if not _is_whole(number) or not least <= number <= most:
            problems.append(_problem(f"{name} is {number!r}: an integer from {least} to {most} is expected"))
        elif name in settings:
            settings[name] = operator.index(number)
    number = settings["dense_padding"]
    if number is not None and not (_is_number(number) and -_LARGEST <= number <= _LARGEST):
        problems.append(_problem(f"dense_padding is {number!r}: a number or None is expected"))
    elif number is not None:
        settings["dense_padding"] = float(number)
    return problems


def _wrong_slots(settings: JsonObject) -> list[Problem]:
    """What is wrong with the slots; those that are right become what the native core takes."""
    sparse, dense, problems = settings["sparse"], settings["dense"], []
    if isinstance(sparse, (str, bytes)):
        # A text is a sequence as well: of slots that are called by its letters.
        problems.append(_problem(f"sparse is {sparse!r}: a list of names is expected", f"sparse=[{sparse!r}]"))
        sparse = ()
    try:
        names = list(sparse)
    except TypeError:
        problems.append(_problem(f"sparse is {sparse!r}: a list of names is expected", 'sparse=["click", "1"]'))
        names = []
    if not isinstance(dense, Mapping):
        what = f"dense is {dense!r}: the number of values by name is expected"
        problems.append(_problem(what, 'dense={"price": 1}'))
        dense = {}
    for kind, name in [*(("sparse", each) for each in names), *(("dense", each) for each in dense)]:
        if not isinstance(name, str):
            problems.append(_problem(f"{kind}: a slot's name is a text, not {name!r}", f"write {str(name)!r}"))
    for name, dim in dense.items():
        if not _is_whole(dim) or not 1 <= dim <= _MOST_VALUES:
            problems.append(
                _problem(f"dense: {name!r} has {dim!r} values: an integer from 1 to {_MOST_VALUES} is expected")
            )
    settings["sparse"] = names
    settings["dense"] = [] if problems else [{"name": name, "dim": operator.index(dim)} for name, dim in dense.items()]
    return problems


def _is_whole(number: object) -> bool:
    return isinstance(number, SupportsIndex) and not isinstance(number, bool)


def _is_number(number: object) -> bool:
    return isinstance(number, SupportsFloat) and not isinstance(number, bool)


def _mixed(seed: int, epoch: int) -> int:
    """One number of 64 bits for both; neighbours are mixed well further down."""
    return (operator.index(seed) * 0x9E3779B97F4A7C15 + operator.index(epoch) * 0xD1B54A32D192ED03) % 2**64


def _problem(what: str, hint: str | None = None) -> Problem:
    return Problem(code="UM-DATA-004", what=what, hint=hint)


def _asked(what: str) -> UmiakError:
    return BadRequest(_problem(what))
