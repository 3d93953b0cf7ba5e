"""The directory into which a run's files are fetched: whole files or none, and what was fetched before. An adapter.

    target = FetchTarget("ctr-3f2a9c")
    target.seen("node0/work/model.pt"), target.fetched("node0/work/model.pt")
    with target.part(path, file) as part: ...

A file is written beside its name, under one that says of which state of the file it is the beginning, and renamed when
it is whole: a fetch that was broken off goes on there. What was fetched is noted line by line, so that a file that a
person has changed is known from one that has grown on the node.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading

from umiak.core.problem import UmiakError
from umiak.submit.reach.fetch_plan import PART, FetchedBefore, FileHere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO

    from umiak.submit.reach.fetch_plan import NodeFile, OpenedFile

NOTES = ".umiak-fetch.jsonl"
SPARE_BYTES = 1 << 20


class FetchTarget:
    """One directory. Its methods may be called by several threads, each for files of its own."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._lock = threading.Lock()
        self._notes = self._read_notes()
        self._file: BinaryIO | None = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def seen(self, path: str) -> FileHere | None:
        """What is under this name."""
        parts = path.split("/")
        for count in range(1, len(parts)):
            above = os.path.join(self.path, *parts[:count])
            try:
                if not stat.S_ISDIR(os.lstat(above).st_mode):
                    return FileHere(is_other=True)
            except FileNotFoundError:
                return None
        try:
            found = os.lstat(self._full(path))
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            return FileHere(target=os.readlink(self._full(path)))
        if not stat.S_ISREG(found.st_mode):
            return FileHere(is_other=True)
        return FileHere(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns)

    def fetched(self, path: str) -> FetchedBefore | None:
        return self._notes.get(path)

    def waiting_bytes(self, path: str, file: NodeFile) -> int:
        """How much of a file is here from a fetch that was broken off."""
        try:
            return min(os.lstat(self._part(path, file.size_bytes, file.mtime_ns)).st_size, file.size_bytes)
        except OSError:
            return 0

    def check_room(self, needed: int) -> None:
        """UmiakError if the disk can't take so much."""
        there = self.path
        while not os.path.isdir(there) and there != os.path.dirname(there):
            there = os.path.dirname(there)
        room = os.statvfs(there)
        free = room.f_bavail * room.f_frsize
        if needed + SPARE_BYTES > free:
            raise self.unwritable(f"{needed} bytes are wanted, and {free} are free", there)

    def part(self, path: str, file: NodeFile, opened: OpenedFile) -> PartFile:
        """A file that begins to come, at the offset at which the node begins."""
        full = self._full(path)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            self._forget_parts(path, keep=self._part(path, opened.size_bytes, opened.mtime_ns))
            return PartFile(self, path, self._part(path, opened.size_bytes, opened.mtime_ns), file.mode, opened)
        except OSError as error:
            raise self.unwritable(error.strerror or "", error.filename or full) from None

    def link(self, path: str, file: NodeFile) -> None:
        """A link, as it is on the node."""
        assert file.target is not None
        full = self._full(path)
        temporary = f"{full}.{os.urandom(6).hex()}{PART}"
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            os.symlink(file.target, temporary)
            os.replace(temporary, full)
        except OSError as error:
            raise self.unwritable(error.strerror or "", full) from None
        self.note(path, FetchedBefore(size_bytes=0, there_ns=file.mtime_ns, here_ns=0, target=file.target))

    def note(self, path: str, done: FetchedBefore) -> None:
        """That it was fetched."""
        row = {"path": path, "size": done.size_bytes, "there_ns": done.there_ns, "here_ns": done.here_ns}
        line = json.dumps({**row, **({"target": done.target} if done.target is not None else {})})
        with self._lock:
            self._notes[path] = done
            try:
                if self._file is None:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                    self._file = os.fdopen(os.open(os.path.join(self.path, NOTES), flags, 0o644), "ab", buffering=0)
                self._file.write(line.encode() + b"\n")
            except OSError as error:
                raise self.unwritable(error.strerror or "", os.path.join(self.path, NOTES)) from None

    def unwritable(self, why: str, path: str) -> UmiakError:
        return UmiakError.refused(
            "UM-SUBMIT-398",
            f"files can't be written here: {path}",
            why=why,
            hint="is there room, and may you write there? `df -h`; --to names another directory; repeated, it goes on where it was",
        )

    def _full(self, path: str) -> str:
        return os.path.join(self.path, path)

    def _part(self, path: str, size: int, mtime_ns: int) -> str:
        mark = hashlib.sha256(f"{size} {mtime_ns}".encode()).hexdigest()[:16]
        directory, name = os.path.split(self._full(path))
        return os.path.join(directory, f".{name}.{mark}{PART}")

    def _forget_parts(self, path: str, keep: str) -> None:
        """Beginnings of earlier states of a file."""
        directory, name = os.path.split(self._full(path))
        start = f".{name}."
        for each in os.listdir(directory):
            is_part = each.startswith(start) and each.endswith(PART) and len(each) == len(start) + 16 + len(PART)
            if is_part and os.path.join(directory, each) != keep:
                os.unlink(os.path.join(directory, each))

    def _read_notes(self) -> dict[str, FetchedBefore]:
        notes: dict[str, FetchedBefore] = {}
        try:
            with open(os.path.join(self.path, NOTES), encoding="utf-8", errors="replace") as file:
                for line in file:
                    try:
                        row = json.loads(line)
                        notes[str(row["path"])] = FetchedBefore(
                            size_bytes=int(row["size"]),
                            there_ns=int(row["there_ns"]),
                            here_ns=int(row["here_ns"]),
                            target=row.get("target"),
                        )
                    except (ValueError, KeyError, TypeError):
                        continue  # the last line of a fetch that was killed
        except OSError:
            pass
        return notes


class PartFile:
    """A file on its way. Left by an error it stays, and is gone on with next time."""

    def __init__(self, target: FetchTarget, path: str, part: str, mode: int, opened: OpenedFile) -> None:
        self._target, self._path, self._part, self._opened = target, path, part, opened
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(part, flags, 0o600 | mode & 0o777)
        os.ftruncate(self._fd, opened.offset)
        os.lseek(self._fd, opened.offset, os.SEEK_SET)

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            raise self._target.unwritable(error.strerror or "", self._part) from None

    def finish(self) -> None:
        """It is whole: give it its name."""
        full = os.path.join(self._target.path, self._path)
        try:
            try:
                os.utime(self._fd, ns=(self._opened.mtime_ns, self._opened.mtime_ns))
            except (OverflowError, ValueError):
                pass  # a node may say anything
            seen = os.fstat(self._fd)
            os.replace(self._part, full)
        except OSError as error:
            raise self._target.unwritable(error.strerror or "", full) from None
        self._target.note(
            self._path,
            FetchedBefore(size_bytes=seen.st_size, there_ns=self._opened.mtime_ns, here_ns=seen.st_mtime_ns),
        )

    def discard(self) -> None:
        """It was changed while it came: its beginning is of no use."""
        os.unlink(self._part)
