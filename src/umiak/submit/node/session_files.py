"""The files of a run on this machine, listed and read for a client. An adapter.

    for batch in found.entries(): ...     [path, size_bytes, mtime_ns, mode, link target or None], many at a time
    found.open("work/output/model.pt")

Links are listed and never followed. What is no file, such as a socket, and what can't be looked into is counted
and named. Data that the job brought in by its `inputs` is left out unless it is named.
"""

from __future__ import annotations

import os
import stat

from umiak.core import light_json
from umiak.submit.node.session_frames import is_wanted, may_hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    from umiak.core.json_types import JsonMapping

    FileEntry: TypeAlias = "list[Any]"

BATCH = 500
MOST_NAMED = 20
LONGEST_PLAN = 1 << 20


class RunFilesHere:
    """What a client asked for, below some directories."""

    def __init__(self, base: str, request: JsonMapping) -> None:
        self._base = base
        self._patterns = tuple(str(each) for each in request.get("paths") or ())
        self._roots: dict[str, str] = {}
        """By the first part of their paths."""
        self._in_place: set[str] = set()
        self._inputs = self._declared_inputs(str(request.get("plans") or ""))
        self.left_out: dict[str, list[str]] = {"inputs": [], "unreadable": [], "special": [], "in_place": []}
        self.counts = dict.fromkeys(self.left_out, 0)
        for root in request.get("roots") or ():
            self._take(root)

    def entries(self) -> Iterator[list[FileEntry]]:
        """All files, many at a time."""
        batch: list[FileEntry] = []
        for prefix, path in sorted(self._roots.items()):
            if prefix in self._in_place and not self._patterns:
                self._leave_out("in_place", path)
                continue
            for entry in self._walk(prefix, path):
                batch.append(entry)
                if len(batch) >= BATCH:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def open(self, path: str) -> int:
        """A descriptor of a regular file. OSError if it is none, or is not there any more."""
        prefix, _, rest = path.partition("/")
        if prefix not in self._roots or not rest or ".." in rest.split("/"):
            raise FileNotFoundError(2, os.strerror(2), path)
        fd = os.open(f"{self._roots[prefix]}/{rest}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(22, "not a file", path)
        return fd

    def _take(self, root: JsonMapping) -> None:
        path = os.path.join(self._base, str(root.get("path") or ""))
        if prefix := str(root.get("prefix") or ""):
            if os.path.isdir(path):
                self._roots[prefix] = path
                if root.get("in_place"):
                    self._in_place.add(prefix)
            return
        from fnmatch import fnmatchcase

        for name in sorted(_names(path)):
            if any(fnmatchcase(name, each) for each in root.get("only") or ()) and os.path.isdir(f"{path}/{name}"):
                self._roots[name] = f"{path}/{name}"

    def _walk(self, shown: str, path: str) -> Iterator[FileEntry]:
        try:
            with os.scandir(path) as entries:
                rows = sorted(entries, key=lambda each: each.name)
        except OSError:
            self._leave_out("unreadable", shown)
            return
        for row in rows:
            name = f"{shown}/{row.name}"
            if row.is_dir(follow_symlinks=False):
                if not self._patterns and name.partition("/")[2] in self._inputs:
                    self._leave_out("inputs", name)
                elif may_hold(name, self._patterns):
                    yield from self._walk(name, row.path)
            elif is_wanted(name, self._patterns):
                yield from self._entry(name, row)

    def _entry(self, name: str, row: os.DirEntry[str]) -> Iterator[FileEntry]:
        try:
            seen = row.stat(follow_symlinks=False)
            target = os.readlink(row.path) if stat.S_ISLNK(seen.st_mode) else None
        except OSError:
            return  # it is gone, as temporary files are
        if target is None and not stat.S_ISREG(seen.st_mode):
            self._leave_out("special", name)
        elif not self._patterns and name.partition("/")[2] in self._inputs:
            self._leave_out("inputs", name)
        elif target is None and not os.access(row.path, os.R_OK):
            self._leave_out("unreadable", name)
        else:
            yield [name, seen.st_size, seen.st_mtime_ns, seen.st_mode & 0o777, target]

    def _leave_out(self, why: str, name: str) -> None:
        self.counts[why] += 1
        if len(self.left_out[why]) < MOST_NAMED:
            self.left_out[why].append(name)

    def _declared_inputs(self, plans: str) -> frozenset[str]:
        """The paths of the job's `inputs` in its working directory, from the plans of its nodes."""
        directory = os.path.join(self._base, plans)
        inputs: set[str] = set()
        for name in _names(directory) if directory else ():
            if name.endswith(".json"):
                try:
                    with open(f"{directory}/{name}", "rb") as file:
                        plan = light_json.loads(file.read(LONGEST_PLAN))
                    inputs |= {os.path.normpath(each["path"]) for each in plan["inputs"]}
                except (OSError, ValueError, KeyError, TypeError):
                    continue  # another file
        return frozenset(inputs)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
