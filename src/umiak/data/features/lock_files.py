"""`features.lock.json`, and the vocabularies beside it: written at once or not at all, and read with every check. An adapter.

    write_lock(lock, "output/features.lock.json")
    lock = read_lock("output/features.lock.json", section)     UmiakError if it is damaged, of another version, or of another section

Nothing in them is a program: JSON, and a word in each line of a vocabulary. A vocabulary's name has the hash of its content, so that a lock
that is being replaced always finds its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re

from umiak.core.problem import DISK_FULL, Problem, UmiakError, free_space
from umiak.data.features.lock import (
    NUMBERS,
    SCHEMA,
    FeatureLock,
    FittedColumn,
    Vocabulary,
    made,
    plain,
    tables_of,
    unescaped,
    without_data,
)
from umiak.schema.features.section import VERSION, FeatureSection, NumberingKind, section_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "features.lock.json"
MOST_BYTES = 1 << 30
FIT = "`umiak features fit` makes it"


def write_lock(lock: FeatureLock, path: str) -> tuple[str, ...]:
    """Write a lock, its vocabularies first. The result is all files that it consists of."""
    directory = os.path.dirname(path) or "."
    told = plain(lock)
    written = []
    try:
        os.makedirs(directory, exist_ok=True)
        for name, table in lock.tables.items():
            if table.vocabulary is not None:
                content = table.vocabulary.plain()
                file = _file_of(name, hashlib.sha256(content).hexdigest())
                told["tables"][name]["vocabulary"]["file"] = file
                written.append(os.path.join(directory, file))
                _write(written[-1], content)
        told["sha256"] = lock.sha256
        _write(path, (json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    except OSError as error:
        raise _not_written(path, error) from error
    return (*written, path)


def read_lock(path: str, section: FeatureSection | None = None) -> FeatureLock:
    """The lock of a file; with ``section``, only that section's."""
    told = _told(path)
    if told.get("schema") != SCHEMA or told.get("version") != VERSION:
        what = f"{path}: it is of version {told.get('schema')!r}, and its section of version {told.get('version')!r}"
        hint = f"this umiak reads versions {SCHEMA} and {VERSION}: use the umiak that made it, or fit again"
        raise UmiakError.of("UM-DATA-123", what, hint=hint)
    if section is not None and told.get("section_sha256") != section.sha256:
        raise _other_section(path, told, section)
    try:
        lock = _lock_of(told, path, section)
        fits = _content_of(told) == plain(lock) and told["sha256"] == lock.sha256
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if not fits:
        raise _damaged(path, "its content is not what its hash says")
    return lock


def given_vocabularies(section: FeatureSection) -> dict[str, Vocabulary]:
    """Those that a section has itself, in the section or in files, by table."""
    found: dict[str, Vocabulary] = {}
    problems = []
    for feature in section.features:
        numbering = feature.numbering
        if numbering is None or numbering.kind is not NumberingKind.VOCABULARY or numbering.is_fitted:
            continue
        words = [word.encode() for word in numbering.words]
        if numbering.file:
            file = os.path.join(section.directory, numbering.file)
            try:
                with open(file, "rb") as opened:
                    words = [line.rstrip(b"\r\n") for line in opened]
            except OSError as error:
                problems.append(Problem(code="UM-DATA-121", what=f"{file}: it can't be read: {error.strerror}"))
            if b"" in words or len(set(words)) < len(words):
                what = f"{file}: each word must be there once, and no line be empty"
                problems.append(Problem(code="UM-DATA-120", what=what))
        found[feature.table] = Vocabulary(words=tuple(words), counts=(0,) * len(words))
    UmiakError.raise_any(problems)
    return found


def of_section(section: FeatureSection) -> FeatureLock:
    """The lock of a section that needs no data; UmiakError if it does."""
    return without_data(section, given_vocabularies(section))


def _file_of(table: str, sha256: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", table)[:60]
    return f"features.{name}.{sha256[:16]}.vocab"


def _not_written(path: str, error: OSError) -> UmiakError:
    hint = free_space("write it elsewhere") if error.errno in DISK_FULL else None
    return UmiakError.refused("UM-DATA-121", f"{path}: it can't be written: {error.strerror}", hint=hint)


def files_of(path: str) -> tuple[str, ...]:
    """All files of a lock, the vocabularies that it names first."""
    told = _told(path)
    directory = os.path.dirname(path)
    named = [str(table["vocabulary"]["file"]) for table in told["tables"].values() if "vocabulary" in table]
    return (*(os.path.join(directory, os.path.basename(name)) for name in named), path)


def write_file(path: str, content: bytes) -> None:
    """One of them, at once or not at all. UmiakError if it can't be written."""
    try:
        _write(path, content)
    except OSError as error:
        raise _not_written(path, error) from error


def _write(path: str, content: bytes) -> None:
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise _damaged(path, f"more than {MOST_BYTES >> 30} GiB")
            return file.read()
    except OSError as error:
        hint = FIT if isinstance(error, FileNotFoundError) else None
        raise UmiakError.refused("UM-DATA-121", f"{path}: it can't be read: {error.strerror}", hint=hint) from error


def _told(path: str) -> dict[str, Any]:
    try:
        told = json.loads(_content(path))
    except ValueError as error:
        raise _damaged(path, f"it is no JSON: {error}") from error
    except RecursionError as error:
        raise _damaged(path, "nested too deeply") from error
    if not isinstance(told, dict):
        raise _damaged(path, "it is no object")
    return told


def _content_of(told: dict[str, Any]) -> dict[str, Any]:
    """What a file says, without its own hash and the names of files."""
    kept = {name: each for name, each in told.items() if name != "sha256"}
    kept["tables"] = {}
    for name, table in told["tables"].items():
        kept["tables"][name] = dict(table)
        if "vocabulary" in table:
            kept["tables"][name]["vocabulary"] = {
                key: each for key, each in table["vocabulary"].items() if key != "file"
            }
    return kept


def _lock_of(told: dict[str, Any], path: str, section: FeatureSection | None) -> FeatureLock:
    section = section or section_of(told["section"])
    vocabularies = {}
    for name, table in told["tables"].items():
        if "vocabulary" in table:
            vocabularies[name] = _vocabulary(table["vocabulary"], os.path.dirname(path))
    columns = {name: _column(each) for name, each in told["columns"].items()}
    return made(section, columns, tables_of(section, vocabularies), int(told["rows"]))


def _column(told: dict[str, Any]) -> FittedColumn:
    numbers = {name: float(told[name]) for name in NUMBERS if name in told}
    return FittedColumn(
        values=int(told["values"]),
        missing=int(told["missing"]),
        boundaries=tuple(float(each) for each in told.get("boundaries", ())),
        error=float(told.get("error", 0.0)),
        **numbers,
    )


def _vocabulary(told: dict[str, Any], directory: str) -> Vocabulary:
    name = str(told["file"])
    path = os.path.join(directory, name)
    if os.path.basename(name) != name:
        raise ValueError(f"no name of a file: {name!r}")
    content = _content(path)
    if hashlib.sha256(content).hexdigest() != told["sha256"]:
        raise _damaged(path, "its content is not what the lock says")
    words, counts = [], []
    for line in content.split(b"\n")[:-1]:
        count, _, word = line.partition(b"\t")
        counts.append(int(count))
        words.append(unescaped(word))
    return Vocabulary(words=tuple(words), counts=tuple(counts))


def _other_section(path: str, told: dict[str, Any], section: FeatureSection) -> UmiakError:
    """With what is different, as far as the lock still tells it."""
    why = None
    try:
        before = {each["name"]: each for each in told["section"]["features"]}
        now = {each["name"]: each for each in section.plain()["features"]}
        changed = [name for name in now if before.get(name) != now[name]] + [name for name in before if name not in now]
        why = f"different: {', '.join(changed[:5])}" if changed else "label, weight, group or time are different"
    except (KeyError, TypeError):
        pass
    hint = "fit again with `umiak features fit`, and train again; or take the config that it was made from"
    return UmiakError.of("UM-DATA-124", f"{path}: it is the lock of another section `features:`", why=why, hint=hint)


def _damaged(path: str, why: str) -> UmiakError:
    return UmiakError.of("UM-DATA-122", f"{path}: it is damaged: {why}", hint="copy it again, or fit again")
