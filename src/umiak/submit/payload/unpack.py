"""Unpacks the files of a job on a node, once per content hash: ``python -m umiak.submit.payload.unpack``. A program.

    python umiak-launcher.pyz -m umiak.submit.payload.unpack DIGEST STORE [ARCHIVE] [--into DIRECTORY]

It prints the directory STORE/DIGEST. If it is there already, it is complete, and the archive is not looked at.
Otherwise the archive (``-``: standard input) is unpacked beside it, checked against the digest, and renamed: an archive
that was cut off or changed leaves nothing. ``--into`` copies the files to a directory of one run, since what a job
writes there is its own business.

Nothing is written outside of STORE, whatever an archive says. Standard library only: a node has nothing else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import zlib

from umiak.core.problem import Exit, UmiakError
from umiak.core.shown import one_line
from umiak.submit.payload.file_manifest import (
    FileKind,
    FileManifest,
    SentFile,
    is_path_inside,
    is_target_inside,
    link,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

MOST_BYTES = 64 * 1024**3
USAGE = "usage: python -m umiak.submit.payload.unpack DIGEST STORE [ARCHIVE] [--into DIRECTORY]"


def main(words: list[str]) -> int:
    """The command; its exit status."""
    into = ""
    if "--into" in words[:-1]:
        at = words.index("--into")
        into = words[at + 1]
        words = words[:at] + words[at + 2 :]
    if not 2 <= len(words) <= 3:
        sys.stderr.write(f"{USAGE}\n")
        return Exit.BAD_REQUEST
    try:
        directory = unpack(words[0], words[1], words[2] if len(words) > 2 else "")
        if into:
            copy(directory, into)
    except UmiakError as error:
        for problem in error.problems:
            sys.stderr.write("".join(f"{line}\n" for line in problem.lines()))
        return error.exit_status
    sys.stdout.write(f"{into or directory}\n")
    return Exit.DONE


def unpack(digest: str, store: str, archive: str = "") -> str:
    """The directory with the files of this digest, made from the archive if it is not there."""
    target = os.path.join(store, digest)
    if len(digest) != 64 or digest.strip("0123456789abcdef"):
        raise _refused(f"not a content hash: {one_line(digest, 80)}")
    if os.path.isdir(target):
        return target
    if not archive:
        raise UmiakError.of(
            "UM-SUBMIT-059",
            f"the files are not on this node: {digest}",
            hint="send the archive",
            exit_status=Exit.JOB_FAILED,
        )
    try:
        os.makedirs(store, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=store, prefix=".unpacking-", ignore_cleanup_errors=True) as temporary:
            partial = os.path.join(temporary, "files")
            os.mkdir(partial, 0o755)
            if archive == "-":
                manifest = _extract(sys.stdin.buffer, partial)
            else:
                with open(archive, "rb") as file:
                    manifest = _extract(file, partial)
            if manifest.digest != digest:
                raise _refused("the archive is not what was sent: its content hash is another one")
            try:
                os.rename(partial, target)
            except OSError:
                if not os.path.isdir(target):
                    raise  # else another process was faster, with the same files
    except OSError as error:
        what = f"files can't be unpacked: {one_line(store)}"
        raise UmiakError.refused(
            "UM-SUBMIT-061", what, why=str(error), hint="look at the disk: `df -h`, `df -i`"
        ) from error
    return target


def copy(directory: str, into: str) -> None:
    """Give a run its own copy. What is there already under the same name is replaced."""
    try:
        shutil.copytree(directory, into, symlinks=True, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        what = f"files can't be copied: {one_line(into)}"
        raise UmiakError.refused(
            "UM-SUBMIT-061", what, why=str(error)[:500], hint="look at the disk: `df -h`"
        ) from error


def _extract(source: BinaryIO, made: str) -> FileManifest:
    """Write every entry, links last: so that nothing is ever written through one."""
    files: dict[str, SentFile] = {}
    left = MOST_BYTES
    try:
        with tarfile.open(fileobj=source, mode="r|gz") as archive:
            for member in archive:
                _check(member, files)
                left -= member.size
                if left < 0:
                    raise _refused("the archive is too large")
                files[member.name] = (
                    link(member.name, member.linkname) if member.issym() else _file(archive, member, made)
                )
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _refused("the archive is damaged or was cut off", str(error)) from error
    for each in files.values():
        if each.kind is FileKind.LINK:
            full = os.path.join(made, each.path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            os.symlink(each.target, full)
    return FileManifest(files=tuple(files.values()))


def _check(member: tarfile.TarInfo, found: dict[str, SentFile]) -> None:
    shown = one_line(member.name, 200)
    if not (member.isreg() or member.issym()) or member.issparse():
        raise _refused(f"the archive has what is no file: {shown}")
    if not is_path_inside(member.name) or member.name in found:
        raise _refused(f"the archive has a path that leads out of its directory, or twice the same: {shown}")
    if member.issym() and not is_target_inside(member.name, member.linkname):
        raise _refused(f"the archive has a link that leads out of its directory: {shown}")


def _file(archive: tarfile.TarFile, member: tarfile.TarInfo, made: str) -> SentFile:
    kind = FileKind.PROGRAM if member.mode & 0o100 else FileKind.FILE
    full = os.path.join(made, member.name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    # No link is there yet, and nothing is written over.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    source = archive.extractfile(member)
    assert source is not None
    total = hashlib.sha256()
    with os.fdopen(os.open(full, flags, 0o755 if kind is FileKind.PROGRAM else 0o644), "wb") as file:
        while block := source.read(1 << 20):
            total.update(block)
            file.write(block)
    return SentFile(path=member.name, kind=kind, sha256=total.hexdigest(), size_bytes=member.size)


def _refused(what: str, why: str | None = None) -> UmiakError:
    return UmiakError.refused("UM-SUBMIT-060", what, why=why, hint="submit the job again")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
