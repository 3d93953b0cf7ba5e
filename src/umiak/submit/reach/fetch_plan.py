"""Which files of a node are taken, and what becomes of files that are here already. A decider.

    inside_links(files)                    without links that lead elsewhere
    safe_files("node0", files)             the files whose paths stay where they are put, and what is wrong with the others
    verdict_of(file, here, fetched)        NEW, UNCHANGED, UPDATED or CONFLICT

A node is not trusted: a path that is absolute, leads upwards or goes through a link is refused;
a link that leads out of the directory of its node is left out.
"""

from __future__ import annotations

import os
from enum import Enum

from umiak.core.names import is_digits
from umiak.core.problem import Problem
from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.submit.payload.file_manifest import is_path_inside, is_target_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from umiak.submit.backend import RunFileRoots


@value
class NodeFile:
    """A file of a node, as the node says."""

    path: str
    size_bytes: int
    mtime_ns: int = 0
    mode: int = 0o644
    target: str | None = None
    """Of a link."""


@value
class NodeListing:
    """What a node has of a run."""

    files: tuple[NodeFile, ...]
    left_out: Mapping[str, tuple[str, ...]]
    """By reason (``inputs``, ``unreadable``, ``special``, ``in_place``), the first of them."""
    counts: Mapping[str, int]


@value
class OpenedFile:
    """Before its pieces come: what it is now, and where they begin."""

    size_bytes: int
    mtime_ns: int
    offset: int


PART = ".umiak-part"
"""The end of the name of a file that is not here as a whole."""
LONGEST_NAME, LONGEST_PATH = 255 - 40, 3000
"""Bytes: the name of a part is longer than its file's."""


class FetchVerdict(str, Enum):
    """What becomes of a file."""

    NEW = "new"
    UNCHANGED = "unchanged"
    UPDATED = "updated"
    """It was fetched before, is here as it was then, and is another one there now."""
    CONFLICT = "conflict"
    """Something else is here under its name."""


@value
class FileHere:
    """What is under a name here."""

    size_bytes: int = 0
    mtime_ns: int = 0
    target: str | None = None
    """Of a link."""
    is_other: bool = False
    """It is no file and no link, or a part of the way to it is a link or no directory."""


@value
class FetchedBefore:
    """What was written down when a file was fetched."""

    size_bytes: int
    there_ns: int
    """The time of its last change on the node."""
    here_ns: int
    target: str | None = None


def inside_links(files: Iterable[NodeFile]) -> tuple[list[NodeFile], list[str]]:
    """Without links that lead out of the directory of their node,
    such as those to data elsewhere; and the paths of these.
    """
    kept, outward = [], []
    for file in files:
        is_inside = file.target is None or (
            _is_encodable(file.target) and is_path_inside(file.path) and is_target_inside(file.path, file.target)
        )
        if is_inside:
            kept.append(file)
        else:
            outward.append(file.path)
    return kept, outward


def safe_files(name: str, files: Iterable[NodeFile]) -> tuple[list[NodeFile], list[Problem]]:
    """Of what a node lists."""
    good: dict[str, NodeFile] = {}
    bad: list[tuple[str, str]] = []
    for file in files:
        if why := _wrong(file, good):
            bad.append((file.path, why))
        else:
            good[file.path] = file
    for path in [*good]:
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        if through := next((each for each in above if each in good), ""):
            del good[path]
            bad.append((path, f"it lies behind a file or a link: {through}"))
    shown = [
        Problem(
            code="UM-SUBMIT-395",
            what=f"{name}: the node names a file that is not fetched: {one_line(path, 200)}",
            why=one_line(why, 300),
            hint="paths and links must stay below the run's directories; look at it there: `umiak exec`",
        )
        for path, why in bad[:10]
    ]
    if len(bad) > len(shown):
        shown.append(Problem(code="UM-SUBMIT-395", what=f"{name}: {len(bad) - len(shown)} more of the same kind"))
    return list(good.values()), shown


def _wrong(file: NodeFile, known: dict[str, NodeFile]) -> str:
    path = file.path
    if not is_path_inside(path) or "/" not in path:
        return "its path leads out of the run's directory"
    if path in known:
        return "it is listed twice"
    data = os.fsencode(path) if _is_encodable(path) else b""
    if not data or len(data) > LONGEST_PATH or max(map(len, data.split(b"/"))) > LONGEST_NAME:
        return "its name is too long, or no name of a file"
    if path.endswith(PART):
        return "it has the name of a file that is being fetched"
    if file.target is not None and not is_target_inside(path, file.target):
        return "it is a link that leads out of the run's directory"
    return ""


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeError:
        return False
    return True


def verdict_of(file: NodeFile, here: FileHere | None, fetched: FetchedBefore | None) -> FetchVerdict:
    """``here``: what is under its name; ``fetched``: what was written down about it."""
    if here is None:
        return FetchVerdict.NEW
    if here.is_other:
        return FetchVerdict.CONFLICT
    if file.target is not None or here.target is not None:
        if here.target == file.target:
            return FetchVerdict.UNCHANGED
        is_ours = (
            fetched is not None
            and here.target == fetched.target
            and (here.target is not None or (here.size_bytes, here.mtime_ns) == (fetched.size_bytes, fetched.here_ns))
        )
        return FetchVerdict.UPDATED if is_ours else FetchVerdict.CONFLICT
    if fetched is not None and (here.size_bytes, here.mtime_ns) == (fetched.size_bytes, fetched.here_ns):
        is_same = (file.size_bytes, file.mtime_ns) == (fetched.size_bytes, fetched.there_ns)
        return FetchVerdict.UNCHANGED if is_same else FetchVerdict.UPDATED
    is_same = (here.size_bytes, here.mtime_ns) == (file.size_bytes, file.mtime_ns)
    return FetchVerdict.UNCHANGED if is_same else FetchVerdict.CONFLICT


def names_of(roots: RunFileRoots) -> list[str]:
    """The nodes that have something there."""
    return [name for name, _ in roots.parts] or [roots.node.name]


def is_of_node(roots: RunFileRoots, text: str) -> bool:
    """Whether a node that is named so, or has this number, has something there."""
    if roots.parts:
        return _number(roots, text) is not None
    return text in (roots.name, roots.node.name) or (is_digits(text) and int(text) == roots.node_number)


def files_of_node(roots: RunFileRoots, text: str, files: Sequence[NodeFile]) -> tuple[NodeFile, ...]:
    """Without what is of other nodes alone."""
    own = _number(roots, text)
    others = tuple(f"{path}/" for number, (_, path) in enumerate(roots.parts) if number != own)
    return tuple(each for each in files if not each.path.startswith(others)) if others else tuple(files)


def _number(roots: RunFileRoots, text: str) -> int | None:
    names = [name for name, _ in roots.parts]
    if text in names:
        return names.index(text)
    return int(text) if is_digits(text) and int(text) < len(names) else None


def bad_patterns(paths: Sequence[str]) -> list[Problem]:
    """Of what a person names."""
    return [
        Problem(
            code="UM-SUBMIT-397",
            what=f"expected a path of the run, got {one_line(path, 200) or 'nothing'}",
            hint="write it from the working directory of the job, without `..`, or as `umiak fetch --list` prints it",
        )
        for path in paths
        if not is_path_inside(path)
    ]


def nothing_found(paths: Sequence[str], run: str) -> list[Problem]:
    """Paths that no file has."""
    return [
        Problem(
            code="UM-SUBMIT-397",
            what=f"no file of the run has this path: {one_line(path, 200)}",
            hint=f"`umiak fetch {run} --list` prints all",
        )
        for path in paths
    ]
