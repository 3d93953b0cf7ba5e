"""The files of one run that may be looked at: a list by keys, made from names that are known. An adapter.

listed = files_of(source)           {key: ListedFile}
listed["3f2a..."].path              a request names a file by its key; no part of a request ever becomes a path
"""

from __future__ import annotations

import hashlib
import os
import re
import stat

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.dashboard.rows import RunSource

MOST_FILES = 5000
KEY_DIGITS = 16
_LOG = re.compile(r"(worker|server|heter)log\.(\d+)((?:\.\d+)?)")
_ROLES = {"worker": "trainer", "server": "server", "heter": "heter"}
_OF_WORKER = re.compile(r"(stacks|envlog|progress)\.(trainer|server|heter)\.(\d+)")
_KINDS = {"stacks": "stacks", "envlog": "environment", "progress": "progress"}
_OTHERS = (
    (re.compile(r"launcher\.log|supervisor\.log"), "launcher"),
    (re.compile(r"events\.jsonl"), "journal"),
    (re.compile(r"metrics\.jsonl"), "metrics"),
    (re.compile(r"curve\.svg"), "plot"),
    (re.compile(r"state\.json|outcome\.json|config\.json"), "state"),
    (re.compile(r"error\.[a-z]+\.\d+\.[\d-]+\.json"), "report"),
    (re.compile(r"[\w.-]+\.gpu\.log"), "devices"),
)
"""What is not named here is not shown: backups of environments and state of servers are nobody's reading."""


@value
class ListedFile:
    """One file of a run."""

    key: str
    name: str
    """Relative to the run."""
    kind: str
    path: str
    """Of this machine; not shown."""
    size_bytes: int
    changed_s: float
    role: str = ""
    number: int | None = None
    """The worker's number on its node."""
    launcher: str = ""

    @property
    def is_current_log(self) -> bool:
        return self.kind == "log"

    @property
    def is_empty_mark(self) -> bool:
        """A file whose time alone says something: when a worker last got on."""
        return self.kind == "progress"

    @property
    def data(self) -> JsonObject:
        return {
            "key": self.key,
            "name": self.name,
            "kind": self.kind,
            "size_bytes": self.size_bytes,
            "changed_s": self.changed_s,
            "role": self.role,
            "number": self.number,
            "launcher": self.launcher,
        }


def files_of(source: RunSource) -> dict[str, ListedFile]:
    """Everything that may be looked at, logs first."""
    found: list[ListedFile] = []
    many = len(source.launch_directories) > 1
    for directory in source.launch_directories:
        found += _listed(directory, os.path.basename(directory) if many else "")
    if source.metrics_directory and source.metrics_directory not in source.launch_directories:
        found += _listed(source.metrics_directory, "")
    found.sort(key=lambda each: (_ORDER.get(each.kind, 9), each.launcher, each.role != "trainer", each.number or 0))
    return {each.key: each for each in found[:MOST_FILES]}


_ORDER = {"log": 0, "launcher": 1, "stacks": 2, "report": 3, "metrics": 4, "plot": 5, "rotated": 6}


def _listed(directory: str, launcher: str) -> list[ListedFile]:
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                known = _known(entry.name)
                if known is None:
                    continue
                seen = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(seen.st_mode):
                    continue
                kind, role, number = known
                name = f"{launcher}/{entry.name}" if launcher else entry.name
                found.append(
                    ListedFile(
                        key=hashlib.sha256(os.fsencode(entry.path)).hexdigest()[:KEY_DIGITS],
                        name=name,
                        kind=kind,
                        path=entry.path,
                        size_bytes=seen.st_size,
                        changed_s=seen.st_mtime,
                        role=role,
                        number=number,
                        launcher=launcher,
                    )
                )
    except OSError:
        pass  # the row of the run says what can't be read
    return found


def _known(name: str) -> tuple[str, str, int | None] | None:
    log = _LOG.fullmatch(name)
    if log is not None:
        return "rotated" if log[3] else "log", _ROLES[log[1]], int(log[2])
    own = _OF_WORKER.fullmatch(name)
    if own is not None:
        return _KINDS[own[1]], own[2], int(own[3])
    for pattern, kind in _OTHERS:
        if pattern.fullmatch(name):
            return kind, "", None
    return None
