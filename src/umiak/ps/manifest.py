"""What a checkpoint consists of, and the text that says so. Values, and a decider that reads them.

A manifest is written last: without one there is no checkpoint, only files. Its text has a first line that names the format,
JSON, and a last line with a checksum of all before it:

    umiak checkpoint 1
    {"name": "step-200", ...}
    crc32 89abcdef

docs/reference/checkpoints.md has every field. The native core reads and writes the same.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING
from zlib import crc32

from umiak.core.problem import BadRequest
from umiak.core.value import fields, value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

VERSION = 2
READ = ("1", "2")
"""Formats that are read. In the first one, every file holds one shard."""
FILE_NAME = "MANIFEST"
MOST_BYTES = 64 << 20

_FIRST = b"umiak checkpoint "
_LAST = len(b"crc32 89abcdef\n")


class BadCheckpoint(BadRequest):
    """A checkpoint, or a part of one, that can't be used or made."""


def bad(code: str, where: object, what: str, why: str | None = None, hint: str | None = None) -> BadCheckpoint:
    """One problem as an exception."""
    return BadCheckpoint.of(code, what, why=why, hint=hint, where=str(where))


@value
class Table:
    """A table's specification and the state that belongs to all of it, as plain JSON data."""

    spec: JsonMapping
    state: Any = None


@value
class ShardFile:
    """One file of a checkpoint: ``count`` virtual shards from ``shard`` on.

    ``rows`` counts, by table, rows of sparse and elements of dense tables.
    """

    name: str
    shard: int
    count: int
    bytes: int
    crc32: int
    rows: Mapping[str, int]


@value
class Manifest:
    """A whole checkpoint. ``saved`` is in seconds since 1970; ``metadata`` is the trainer's own, plain JSON data."""

    name: str
    shards: int
    step: int
    saved: float
    tables: Mapping[str, Table]
    files: tuple[ShardFile, ...]
    metadata: JsonMapping


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest's text. Metadata that is not plain JSON data is refused, with the place of the first such item."""
    check_plain(manifest.metadata, "metadata")
    plain = {
        "name": manifest.name,
        "shards": manifest.shards,
        "step": manifest.step,
        "saved": manifest.saved,
        "tables": {name: {"spec": table.spec, "state": table.state} for name, table in manifest.tables.items()},
        "files": [
            {**{name: getattr(file, name) for name in fields(file)}, "rows": dict(file.rows)} for file in manifest.files
        ],
        "metadata": manifest.metadata,
    }
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
    content = b"%s%d\n%s\n" % (_FIRST, VERSION, text.encode())
    return content + b"crc32 %08x\n" % crc32(content)


def from_bytes(content: bytes, where: object) -> Manifest:
    """The manifest that this text says; `BadCheckpoint` for one that is cut, changed, foreign or of another format."""
    if content[: len(_FIRST)] != _FIRST[: len(content)]:
        raise bad("UM-PS-104", where, "not a manifest of umiak", hint="is this the directory of a checkpoint?")
    text, last = content[:-_LAST], content[-_LAST:]
    line, newline, body = text.partition(b"\n")
    version = line[len(_FIRST) :].decode(errors="replace")
    if newline and version not in READ:
        raise bad(
            "UM-PS-105",
            where,
            f"a checkpoint of format {version!r}, and this umiak reads formats up to {VERSION}",
            hint="use the version of umiak that saved it, or a newer one",
        )
    if not (newline and last[:6] == b"crc32 " and last[-1:] == b"\n"):
        raise bad(
            "UM-PS-102",
            where,
            "the manifest is cut off: its last line is not a checksum",
            why="it was copied in part, or its disk was full",
            hint="use another checkpoint, or copy this one again",
        )
    if last != b"crc32 %08x\n" % crc32(text):
        raise bad(
            "UM-PS-103",
            where,
            "the manifest's checksum is wrong",
            why="it was edited or damaged after the save",
            hint="use another checkpoint, or copy this one again",
        )
    try:
        return _manifest(json.loads(body), has_counts=version != "1")
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise bad("UM-PS-106", where, "the manifest can't be understood", why=why) from None


def shard_files(plain: object, *, has_counts: bool = True) -> tuple[ShardFile, ...]:
    """Entries of a manifest, or of a server's answer, from plain data; ValueError if they are something else."""
    names = ("name", "shard", *(("count",) if has_counts else ()), "bytes", "crc32", "rows")
    entries = []
    for item in _typed(plain, list, "files"):
        entry = _object(item, names, "a file")
        rows = _typed(entry["rows"], dict, "rows")
        name = _typed(entry["name"], str, "name")
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"a file can't be called {name!r}")
        entries.append(
            ShardFile(
                name=name,
                **{each: _number(entry.get(each, 1), each) for each in ("shard", "count", "bytes", "crc32")},
                rows={table: _number(count, f"rows.{table}") for table, count in rows.items()},
            )
        )
    return tuple(entries)


def tables(plain: object) -> dict[str, Table]:
    """Tables by name from plain data; ValueError if it is something else."""
    found = {}
    for name, item in _typed(plain, dict, "tables").items():
        entry = _object(item, ("spec", "state"), f"table {name}")
        found[name] = Table(spec=_typed(entry["spec"], dict, f"the spec of {name}"), state=entry["state"])
    return found


def missing_shards(manifest: Manifest) -> str | None:
    """What is wrong with the list of files: every shard must be in exactly one. None if nothing is."""
    if strange := [file.name for file in manifest.files if not 0 < file.count <= manifest.shards]:
        return f"a file can't hold so many shards: {strange[0]}"
    shards = [file.shard + place for file in manifest.files for place in range(file.count)]
    there = set(shards)
    if absent := [shard for shard in range(manifest.shards) if shard not in there]:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        return f"no file holds shard {', '.join(map(str, absent[:3]))}{more} of {manifest.shards}"
    if beyond := there - set(range(manifest.shards)):
        return f"a file holds shard {min(beyond)}, and there are only {manifest.shards}"
    if len(shards) > len(there):
        return f"{len(manifest.files)} files for {manifest.shards} shards: some shard is there twice"
    if len({file.name for file in manifest.files}) < len(manifest.files):
        return "a file is listed twice"
    return None


def _manifest(plain: object, *, has_counts: bool) -> Manifest:
    names = ("name", "shards", "step", "saved", "tables", "files", "metadata")
    entry = _object(plain, names, "the manifest")
    shards = _number(entry["shards"], "shards")
    if shards < 1 or shards & (shards - 1):
        raise ValueError(f"shards: expected a power of two, got {shards}")
    saved = entry["saved"]
    if type(saved) not in (int, float):
        raise ValueError(f"saved: expected a number, got {type(saved).__name__}")
    return Manifest(
        name=_typed(entry["name"], str, "name"),
        shards=shards,
        step=_number(entry["step"], "step"),
        saved=float(saved),
        tables=tables(entry["tables"]),
        files=shard_files(entry["files"], has_counts=has_counts),
        metadata=_typed(entry["metadata"], dict, "metadata"),
    )


def _object(item: object, names: tuple[str, ...], what: str) -> JsonObject:
    entry: JsonObject = _typed(item, dict, what)
    if set(entry) != set(names):
        raise ValueError(f"{what}: expected the fields {', '.join(names)}, got {', '.join(map(str, entry))}")
    return entry


def _typed(item: object, kind: type, what: str) -> Any:
    if type(item) is not kind:
        raise ValueError(f"{what}: expected {kind.__name__}, got {type(item).__name__}")
    return item


def _number(item: object, what: str) -> int:
    number: int = _typed(item, int, what)
    if number < 0:
        raise ValueError(f"{what}: negative: {number}")
    return number


def check_plain(item: object, where: str) -> None:
    """Refuse metadata that JSON would not give back, with the place of the first such item."""
    if item is None or isinstance(item, (str, bool, int)):
        return
    if isinstance(item, float) and math.isfinite(item):
        return
    if isinstance(item, (list, tuple)):
        for index, each in enumerate(item):
            check_plain(each, f"{where}[{index}]")
        return
    if isinstance(item, dict) and all(isinstance(key, str) for key in item):
        for key, each in item.items():
            check_plain(each, f"{where}.{key}")
        return
    raise bad(
        "UM-PS-113",
        where,
        f"can't be saved: {item!r}"[:120],
        why="a checkpoint's metadata is JSON: text, finite numbers, lists, and objects with text as keys",
        hint="turn it into one of these first, such as float(loss) or array.tolist()",
    )
