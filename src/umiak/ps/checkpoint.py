"""Checkpoints on disk: made whole or not at all, read only if they are whole, the newest found, old ones removed. An adapter.

    checkpoint.save(client, "runs/step-200", step=200, metadata={"epoch": 3})
    found = checkpoint.newest("runs")          # found.path, found.manifest; found.skipped says what was passed over
    checkpoint.load(client, found.path)
    checkpoint.keep("runs", 3)

Files are written into ``NAME.partial``; the manifest comes last, and then the directory gets its name in one step. So a
directory without ``.partial`` is a checkpoint, and `read` refuses it all the same if anything is missing from it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import umiak_native

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps import manifest as manifests
from umiak.ps.manifest import BadCheckpoint, Manifest, ShardFile, bad

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from umiak.core.json_types import JsonMapping

    class Saver(Protocol):
        """What `save` and `load` need of a client: a request as JSON, the list of the servers' answers as JSON."""

        def save(self, request: str) -> str: ...
        def load(self, request: str) -> str: ...


PARTIAL = ".partial"
REMOVING = ".removing"
_HINT = "copy the checkpoint again, or use another one; while saving: all servers must see the same directory"


@value
class Found:
    """The newest whole checkpoint, if there is one, and why others were passed over, in words."""

    path: Path | None
    manifest: Manifest | None
    skipped: tuple[str, ...]


def save(
    client: Saver,
    path: str | os.PathLike[str],
    *,
    step: int = 0,
    metadata: JsonMapping | None = None,
    mode: str = "all",
    saved: float | None = None,
) -> Manifest:
    """Let all servers write their shards, then publish them as one checkpoint. All must see the same directory.

    A server is asked with {path, mode, step}: its tables as they are at exactly this step of its own (0 where it counts
    none). It answers with {files, tables}: files as manifests list them, and {name: {spec, state}}.
    """
    path = Path(path).absolute()
    _refuse_existing(path)
    manifests.check_plain({} if metadata is None else metadata, "metadata")
    directory = partial(path)
    try:
        if directory.exists():
            shutil.rmtree(directory)  # what an earlier try left
        directory.mkdir(parents=True)
    except OSError as error:
        raise bad("UM-PS-111", path, "the checkpoint can't be written", why=str(error)) from None
    try:
        manifest = _written(client, path, step=step, metadata=metadata, mode=mode, saved=saved)
        publish(manifest, path)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)  # it may have filled the disk
        raise
    return manifest


def _written(
    client: Saver, path: Path, *, step: int, metadata: JsonMapping | None, mode: str, saved: float | None
) -> Manifest:
    """The shards in ``PATH.partial``, and what its manifest is to say."""
    directory = partial(path)
    answers = json.loads(client.save(json.dumps({"path": str(directory), "mode": mode, "step": step})))
    try:
        files = tuple(file for answer in answers for file in manifests.shard_files(answer["files"]))
        tables = {
            name: table for answer in reversed(answers) for name, table in manifests.tables(answer["tables"]).items()
        }
        first = directory / files[0].name
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise bad("UM-PS-114", directory, "a server's answer can't be understood", why=str(error)) from None
    try:
        shards = umiak_native.ShardFile(first).shards
    except umiak_native.BadFile as error:
        raise bad(
            "UM-PS-107", first, "a file that a server saved can't be read here", why=str(error), hint=_HINT
        ) from None
    return Manifest(
        name=path.name,
        shards=shards,
        step=step,
        saved=time.time() if saved is None else saved,
        tables=tables,
        files=tuple(sorted(files, key=lambda file: file.shard)),
        metadata={} if metadata is None else metadata,
    )


def load(
    client: Saver, path: str | os.PathLike[str], manifest: Manifest | None = None, *, counts_steps: bool = True
) -> Manifest:
    """Let all servers, however many there are, load their shards of a checkpoint. A server is asked with {path, step}.

    Where trainers take no steps in common, the servers count none, whatever the checkpoint says. What of a table's settings
    differs (learning rate, entry, initializer, clip) is as this job's script has it, and said in a line.
    """
    path = Path(path).absolute()
    manifest = manifest or read(path)
    answers = json.loads(client.load(json.dumps({"path": str(path), "step": manifest.step if counts_steps else 0})))
    for change in dict.fromkeys(change for answer in answers for change in answer.get("changes", ())):
        told(change)
    return manifest


def told(change: str) -> None:
    """Say what of a table's settings is not as it was saved."""
    print(f"umiak.ps: {change}, as this script has it", file=sys.stderr)


def compare(manifest: Manifest, names: Iterable[str], path: str | os.PathLike[str]) -> None:
    """Say which of these tables a checkpoint that was loaded lacks, and which of its tables are none of these."""
    here = {*names}
    missing, left = sorted(here - {*manifest.tables}), sorted({*manifest.tables} - here)
    if missing:
        print(f"umiak.ps: {path} has no table {', '.join(missing)}: what they hold is not loaded", file=sys.stderr)
    if left and here:  # a script may also describe all of its tables after it has loaded
        print(f"umiak.ps: {path} also has {', '.join(left)}, which nothing here uses so far", file=sys.stderr)


def partial(path: str | os.PathLike[str]) -> Path:
    """The directory in which a checkpoint of this name is made."""
    path = Path(path)
    return path.with_name(path.name + PARTIAL)


def publish(manifest: Manifest, path: str | os.PathLike[str]) -> Path:
    """Turn ``PATH.partial``, in which all files of the manifest are, into a checkpoint: all or nothing, and on disk."""
    path = Path(path)
    directory = partial(path)
    _refuse_existing(path)
    content = manifests.to_bytes(manifest)
    if problems := _missing(manifest, directory):
        raise BadCheckpoint(*problems)
    try:
        temporary = directory / f".{manifests.FILE_NAME}.tmp"
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, directory / manifests.FILE_NAME)
        _sync(directory)
        os.rename(directory, path)
        _sync(path.parent)
    except OSError as error:
        raise bad("UM-PS-111", path, "the checkpoint can't be written", why=str(error)) from None
    return path


def read(path: str | os.PathLike[str], *, verify: bool = False) -> Manifest:
    """The manifest of a checkpoint, if it is whole: all files are there and as long as they were.

    With ``verify``, every byte of them is read and compared with the checksums as well.
    """
    path = Path(path)
    file = path / manifests.FILE_NAME
    try:
        if file.stat().st_size > manifests.MOST_BYTES:
            raise bad("UM-PS-104", file, "too long for a manifest of umiak")
        content = file.read_bytes()
    except OSError as error:
        raise _no_manifest(path, error) from None
    manifest = manifests.from_bytes(content, file)
    if problems := _missing(manifest, path):
        raise BadCheckpoint(*problems)
    if verify and (problems := [problem for file in manifest.files if (problem := _changed(path, file))]):
        raise BadCheckpoint(*problems)
    return manifest


def newest(directory: str | os.PathLike[str], *, verify: bool = False) -> Found:
    """The whole checkpoint in this directory that was saved last. Unfinished and damaged ones are passed over."""
    whole, skipped = survey(directory, verify=verify)
    path, manifest = whole[-1] if whole else (None, None)
    return Found(path=path, manifest=manifest, skipped=skipped)


def keep(directory: str | os.PathLike[str], count: int) -> tuple[Path, ...]:
    """Remove whole checkpoints of this directory except the ``count`` newest; returns those that are gone.

    What is not whole is left alone. One that is half removed has another name, and goes with the next call.
    """
    if count < 1:
        raise ValueError(f"at least one checkpoint must be kept, not {count}")
    directory = Path(directory)
    whole, _ = survey(directory)
    removed = tuple(path for path, _ in whole[:-count])
    try:
        for path in removed:
            os.rename(path, path.with_name(path.name + REMOVING))
        if removed:
            _sync(directory)
        for path in directory.glob(f"*{REMOVING}"):
            shutil.rmtree(path)
    except OSError as error:
        raise bad("UM-PS-115", directory, "an old checkpoint can't be removed", why=str(error)) from None
    return removed


def survey(
    directory: str | os.PathLike[str], *, verify: bool = False
) -> tuple[list[tuple[Path, Manifest]], tuple[str, ...]]:
    """The whole checkpoints in a directory, oldest first, and words about the others."""
    whole: list[tuple[Path, Manifest]] = []
    skipped: list[str] = []
    try:
        paths = sorted(path for path in Path(directory).iterdir() if path.is_dir())
    except OSError:
        paths = []
    for path in paths:
        if path.name.endswith(REMOVING):
            continue
        if path.name.endswith(PARTIAL):
            skipped.append(f"{path}: was never finished")
            continue
        try:
            whole.append((path, read(path, verify=verify)))
        except BadCheckpoint as error:
            # A directory without a manifest is something else, and nobody asks about it.
            if error.problems[0].code != "UM-PS-101":
                skipped.append(f"{error.problems[0].where}: {error.problems[0].what}")
    whole.sort(key=lambda found: (found[1].saved, found[1].step, found[0].name))
    return whole, tuple(skipped)


def _no_manifest(path: Path, error: OSError) -> BadCheckpoint:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return bad("UM-PS-101", path, "the checkpoint can't be read", why=error.strerror)
    if partial(path).is_dir():
        return bad(
            "UM-PS-101",
            path,
            "no such checkpoint",
            why=f"its saving was never finished: there is only {partial(path).name}",
            hint="use an earlier one",
        )
    if not path.is_dir():
        return bad("UM-PS-101", path, "no such checkpoint", hint="name the directory that was saved")
    hint = "name one of the directories in it" if any(path.glob(f"*/{manifests.FILE_NAME}")) else None
    return bad("UM-PS-101", path, f"not a checkpoint: there is no {manifests.FILE_NAME} in it", hint=hint)


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise bad(
            "UM-PS-109",
            path,
            "already there, and a checkpoint is never overwritten",
            hint="save under another name, such as one with the step in it",
        )


def _missing(manifest: Manifest, directory: Path) -> list[Problem]:
    """Everything that the manifest lists and the directory has not."""
    problems = []
    if wrong := manifests.missing_shards(manifest):
        problems.append(
            Problem(
                code="UM-PS-112",
                where=str(directory),
                what=wrong,
                hint="is the number of shards the same on all servers?",
            )
        )
    for file in manifest.files:
        where = str(directory / file.name)
        try:
            size = os.stat(where).st_size
        except OSError as error:
            problems.append(
                Problem(code="UM-PS-107", where=where, what="a file is missing", why=error.strerror, hint=_HINT)
            )
            continue
        if size != file.bytes:
            what = f"a file is torn: {size} bytes, not the {file.bytes} that were saved"
            problems.append(Problem(code="UM-PS-107", where=where, what=what, hint=_HINT))
    return problems


def _changed(directory: Path, file: ShardFile) -> Problem | None:
    where = directory / file.name
    crc = 0
    try:
        with open(where, "rb") as content:
            while piece := content.read(1 << 20):
                crc = crc32(piece, crc)
    except OSError as error:
        return Problem(code="UM-PS-107", where=str(where), what="a file can't be read", why=error.strerror)
    if crc == file.crc32:
        return None
    return Problem(
        code="UM-PS-108",
        where=str(where),
        what="a file is damaged: its checksum is not the one that was saved",
        hint="copy the checkpoint again, or use another one",
    )


def _sync(directory: Path) -> None:
    """Make names in a directory last."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
