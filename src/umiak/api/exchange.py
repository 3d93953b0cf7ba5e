"""Functions and results on their way between the processes of one call:
pickled, in files that only this user can write. An adapter.

    with exchange.directory() as path:                         0700, new, removed at the end
        exchange.put(path, "call", exchange.packed(...))       0600, appears whole or not at all
        exchange.unpacked(exchange.get(path, "call"))

What is unpickled can run any code, so a file is read only if it is a regular file of this user in a directory that
belongs to this user and that nobody else can enter (docs/decisions/0015). cloudpickle, where it is installed, also
takes along what was defined in a notebook or in the script itself; without it, only what can be imported is packed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import tempfile
from io import BytesIO

from umiak.adapters import ownership
from umiak.api.results import RunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAIN = "__main__"


class NotImportable(Exception):
    """Something that is packed by its name is in no module that another process could import."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@contextlib.contextmanager
def directory() -> Iterator[str]:
    """A new directory for one call."""
    path = tempfile.mkdtemp(prefix="umiak-run-")
    try:
        yield path
    finally:
        remove(path)


def remove(path: str) -> None:
    """Remove what is left of a call."""
    shutil.rmtree(path, ignore_errors=True)


def put(path: str, name: str, data: bytes) -> None:
    """Write a file; who reads it sees all of it or nothing, also if this process is killed meanwhile."""
    unfinished = os.path.join(path, f".{name}.{os.getpid()}")
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    os.rename(unfinished, os.path.join(path, name))


def get(path: str, name: str) -> bytes:
    """Read a file. RunError if anybody but this user could have written it."""
    try:
        return ownership.read_private(path, name)
    except PermissionError as error:
        raise _not_private(str(error.filename), str(error.strerror)) from None


def names(path: str) -> list[str]:
    """Every file that is there in full."""
    return sorted(name for name in os.listdir(path) if not name.startswith("."))


def packed(item: object) -> bytes:
    """An object as bytes. NotImportable, or whatever pickle raises."""
    try:
        import cloudpickle
    except ImportError:
        buffer = BytesIO()
        _ByName(buffer, pickle.HIGHEST_PROTOCOL).dump(item)
        return buffer.getvalue()
    data: bytes = cloudpickle.dumps(item)
    return data


def unpacked(data: bytes) -> Any:
    """The object again; only for what `get` has read."""
    return pickle.loads(data)  # noqa: S301 - made by this user's own processes, see the module's docstring


class _ByName(pickle.Pickler):
    """Plain pickle writes the names of functions and classes;
    the names of the main program mean something else in a worker.
    """

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, type) or callable(item):
            name = getattr(item, "__qualname__", "")
            if name and (getattr(item, "__module__", None) == MAIN or "<" in name):
                raise NotImportable(name)
        return NotImplemented


def _not_private(path: str, why: str) -> RunError:
    hint = "something changed a file of this call; TMPDIR must name a directory where files keep their owner and mode"
    return RunError.refused("UM-RUN-011", f"not read, because it is not private: {path}", why=why, hint=hint)
