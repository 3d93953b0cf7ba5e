"""Finds the files of a dataset, in the same order for every trainer. An adapter.

    find(dataset) -> Files(files=(File(path=...), ...), digest="9f2c...")

``data_path`` is a directory (everything below it but hidden names), a pattern (``**`` goes through directories), a file, or a URL
(see `umiak.adapters.stores.storage`). Files are in the order of their names. The digest is made of names below ``data_path`` and of sizes: trainers whose
digests differ would not divide the same data, and `agree` says so before they do.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from umiak.adapters.stores import storage
from umiak.core.nearest import nearest
from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import without_password
from umiak.core.value import replace, value
from umiak.data import parts
from umiak.data.streams import places
from umiak.train.config.values import Dataset

SAMPLES = "umiak_data"
"""Where configs of models that come with umiak look for their sample data, below which there are an area and a model."""


FIRST_BYTES = 1 << 16
"""So much of a file is looked at to guess the length of its lines."""


@value
class Files:
    """What a dataset is made of."""

    files: tuple[parts.File, ...]
    digest: str

    @property
    def size(self) -> int:
        """Bytes, as they lie there."""
        return sum(file.size for file in self.files)


def find(
    dataset: Dataset, *, below: Sequence[str] | None = None, without: str | None = None, where: str | None = None
) -> Files:
    """All files of a dataset, or of some directories ``below`` its path, but none that is called ``without``.

    ``where`` is the config's line that has it.
    """
    path = dataset.data_path
    if dataset.stream is not None:
        return _spans(path, below or ())
    if dataset.reads_files and not storage.is_url(path):
        return _entries(path, dataset.name, where)
    if below is None:
        names = names_of(path, dataset.name, where)
    else:
        roots = [below_path(path, each) for each in below]
        names = [name for root in roots for name in names_of(root, dataset.name, where)]
    names = [name for name in names if os.path.basename(name) != without]
    if not storage.is_url(path):
        check_plain(names)
    found = [_weigh(name) for name in names]
    return Files(files=tuple(found), digest=digest([(_relative(file.path, path), file.size) for file in found]))


def fetched(given: tuple[parts.Part, ...], directory: str | None = None) -> tuple[parts.Part, ...]:
    """The same parts of local files, which readers read: those behind URLs are copied as a whole, others are left as they are."""
    return tuple(
        [
            replace(part, path=storage.fetch(part.path, directory)) if storage.is_url(part.path) else part
            for part in given
        ]
    )


def line_bytes(found: Files) -> float:
    """About how long a line is, from the first lines of the first file that can be looked at; the same for every trainer."""
    for file in found.files:
        if not file.packed and file.size and os.path.isfile(file.path):
            with open(file.path, "rb") as lines:
                first = lines.read(FIRST_BYTES)
            return len(first) / max(1, first.count(b"\n"))
    return 256.0


def is_remote(found: Files) -> bool:
    """Whether files are behind URLs, and fetched as a whole."""
    return any(storage.is_url(file.path) for file in found.files)


def below_path(path: str, directory: str) -> str:
    """A directory below a dataset's path."""
    return f"{path.rstrip('/')}/{directory}"


def names_in(path: str) -> list[str]:
    """The names of all files that a path stands for, in order."""
    return storage.names_of(path) if storage.is_url(path) else _local(path)


def names_of(path: str, dataset: str, where: str | None = None) -> list[str]:
    """The same. UmiakError if there are none."""
    names = names_in(path)
    if names:
        return names
    raise UmiakError.of(
        "UM-DATA-006",
        f"dataset {dataset} has no files: {without_password(path)}",
        why=_why(path),
        hint=_hint(path),
        where=where,
    )


def check_plain(names: Sequence[str]) -> None:
    """UmiakError for what is there and no file: to open a pipe would wait for its writer."""
    problems = []
    for name in names:
        kind = _special(name)
        if kind is not None:
            what = f"{name}: not a file, but {kind}"
            hint = "a training reads its data several times, and cuts it: let it be written to a file first"
            problems.append(Problem(code="UM-DATA-060", what=what, hint=hint))
    UmiakError.raise_any(problems)


def digest(names: Sequence[tuple[str, int]]) -> str:
    """A short text that is equal for equal names and sizes."""
    return hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()[:32]


def held(found: Files) -> str:
    """A short text that is equal for trainers that see the very same files, on one machine or in containers of one."""
    if is_remote(found):
        return "url"  # the same for everybody
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            machine = file.read().strip()
    except OSError:
        machine = socket.gethostname()
    places = [os.stat(file.path) for file in found.files]
    return digest([(machine, 0), *((str(place.st_dev), place.st_ino) for place in places)])


def agree(digests: Sequence[str], dataset: str) -> None:
    """Raise UmiakError if trainers have found different files; ``digests`` are those of trainers 0, 1, ..."""
    others = [rank for rank, each in enumerate(digests) if each != digests[0]]
    if others:
        shown = ", ".join(map(str, others[:8])) + (", ..." if len(others) > 8 else "")
        raise UmiakError.refused(
            "UM-DATA-013",
            f"dataset {dataset}: trainers do not see the same files: {shown} and 0 differ in names or sizes",
            hint="let data_path be the same shared directory on every node, and complete before training begins; where each node "
            "has its own part, write `node_data: own` in the runner",
        )


def _entries(path: str, dataset: str, where: str | None) -> Files:
    """What a reader class that opens files itself is given: whatever is in a directory, directories too, and nothing if it is empty."""
    if not os.path.isdir(path):
        return Files(
            files=tuple(map(_weigh, names_of(path, dataset, where))), digest=digest([(os.path.basename(path), 0)])
        )
    found = []
    for name in sorted(os.listdir(path)):
        if not name.startswith("."):
            entry = os.path.join(path, name)
            inner = _walk(entry) if os.path.isdir(entry) else [entry]
            sizes = [os.path.getsize(each) for each in inner if os.path.isfile(each)]
            found.append(parts.File(path=entry, size=sum(sizes)))
    return Files(files=tuple(found), digest=digest([(os.path.basename(file.path), file.size) for file in found]))


def _spans(path: str, texts: Sequence[str]) -> Files:
    """Parts of a stream: files whose sizes are counted in messages."""
    found = [(each, places.span_of(each).count) for each in texts]
    return Files(
        files=tuple([parts.File(path=below_path(path, each), size=count) for each, count in found]),
        digest=digest([(path.rstrip("/").rpartition("/")[2], 0), *found]),
    )


def _weigh(name: str) -> parts.File:
    """A file's size, and whether it is compressed."""
    if not storage.is_url(name):
        return parts.weigh(name)
    size, first = storage.start_of(name, parts.MAGIC_BYTES)
    return parts.File(path=name, size=size, packed=parts.is_packed(first))


def _special(path: str) -> str | None:
    """What a path leads to that is neither a file nor a directory, in words."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None  # told when it is opened
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode))


def _local(path: str) -> list[str]:
    if os.path.isfile(path) or _special(path):
        return [path]
    if os.path.isdir(path):
        return _walk(path)
    if glob.has_magic(path):
        names = []
        for name in glob.glob(path, recursive=True):
            if os.path.isdir(name):
                names += _walk(name)
            elif os.path.isfile(name) or _special(name):
                names.append(name)
        return sorted(set(names))
    return []


def _walk(root: str) -> list[str]:
    """Every file below a directory; links to directories are followed, unless they lead back."""
    names: list[str] = []
    seen: set[tuple[int, int]] = set()
    for directory, inner, files in os.walk(root, followlinks=True, onerror=_raise):
        status = os.stat(directory)
        if (status.st_dev, status.st_ino) in seen:
            inner.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        # In order, so that of two links to one directory everybody follows the same.
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        names += [os.path.join(directory, name) for name in files if not name.startswith(".")]
    return sorted(names)


def _raise(error: OSError) -> None:
    raise UmiakError.refused("UM-DATA-002", f"{error.filename}: it can't be read: {error.strerror}") from error


def _relative(name: str, path: str) -> str:
    """A file's name as it is on every node, wherever the data is mounted."""
    root = path
    if not storage.is_url(path) and not os.path.exists(path):
        while glob.has_magic(root):
            root = os.path.dirname(root)
    return name.removeprefix(root).lstrip("/") or os.path.basename(name)


def _why(path: str) -> str | None:
    if storage.is_url(path) or glob.has_magic(path):
        return "nothing fits"
    return (
        "the directory is empty, hidden names left aside"
        if os.path.isdir(path)
        else "there is no such file or directory"
    )


def _hint(path: str) -> str | None:
    """What may have been meant by a path that leads nowhere."""
    if storage.is_url(path) or os.path.isdir(path):
        return None
    samples, *model = path.split("/")[:3]
    if samples == SAMPLES and len(model) == 2:
        return f"`python -m umiak.models.sample {'.'.join(model)}` makes it"
    at = Path(path)
    while at != at.parent and not at.parent.is_dir():
        at = at.parent
    if at.parent.is_dir() and not glob.has_magic(at.name):
        meant = nearest(at.name, sorted(each.name for each in at.parent.iterdir()))
        if meant:
            return f"did you mean `{at.parent / meant}`?"
    return f"there is {at.parent}, but not {at}" if str(at) != path else None
