"""Which files travel with a job: paths, modes and hashes, and one hash over all of them. Values; standard library only.

    manifest = FileManifest(files=(SentFile(path="train.py", kind=FileKind.FILE, sha256="...", size_bytes=12),))
    manifest.digest      names it on every node: what is there already under this name is not sent again

Of a mode only the execute bit counts, as in git: owners and times differ from machine to machine,
and must not change the hash.
"""

from __future__ import annotations

import hashlib
from enum import Enum

from umiak.core.value import value

_FORMAT = b"umiak files 1\0"


class FileKind(str, Enum):
    """What one entry is. There are no others: no devices, no sockets, no hard links."""

    FILE = "file"
    PROGRAM = "program"
    """A file that can be executed."""
    LINK = "link"


@value
class SentFile:
    """One entry."""

    path: str
    """From the root, with slashes."""
    kind: FileKind
    sha256: str
    """Of the bytes; of a link: of its target."""
    size_bytes: int
    target: str = ""
    """Of a link: relative, and inside of the root."""


@value
class FileManifest:
    """All of them, in order of their paths."""

    files: tuple[SentFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.files)

    @property
    def digest(self) -> str:
        """The content hash over paths, modes and bytes."""
        total = hashlib.sha256(_FORMAT)
        for each in sorted(self.files, key=lambda file: as_bytes(file.path)):
            total.update(b"\0".join((each.kind.value.encode(), each.sha256.encode(), as_bytes(each.path), b"")))
        return total.hexdigest()


@value
class FoundFiles:
    """The files of a job as they lie in a directory of this machine."""

    root: str
    manifest: FileManifest


def as_bytes(name: str) -> bytes:
    """A name of a file as the system has it."""
    return name.encode("utf-8", "surrogateescape")


def link(path: str, target: str) -> SentFile:
    """The entry of a symbolic link."""
    data = as_bytes(target)
    return SentFile(
        path=path, kind=FileKind.LINK, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data), target=target
    )


def is_path_inside(path: str) -> bool:
    """Whether a path is one of a manifest: relative, without ``.``, ``..`` and empty parts."""
    return all(part not in ("", ".", "..") for part in path.split("/")) and "\0" not in path


def is_target_inside(path: str, target: str) -> bool:
    """Whether a link can't lead out of the root: ``..`` comes first if at all,
    and not more often than the link lies deep.

    A ``..`` behind a name is refused even where it would stay inside: that name may be a link itself.
    """
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    rest = parts[ups:]
    return (
        ups <= path.count("/") and (not rest or rest == ["."] or is_path_inside("/".join(rest))) and "\0" not in target
    )
