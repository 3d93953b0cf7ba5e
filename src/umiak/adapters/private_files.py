"""Files that only their owner can read, and that are there as a whole or not at all. An adapter.

write("run.json", "...")              replaces what was there
write_once("supervisor.json", "...")  False if somebody else was first, also on file systems without locks
"""

from __future__ import annotations

import os

PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700


def make_directory(path: str) -> None:
    """A directory for its owner alone, with those above it.
    One that is there keeps its rights, unless others could enter it.
    """
    os.makedirs(path, mode=PRIVATE_DIRECTORY, exist_ok=True)
    if os.stat(path).st_mode & 0o077:
        os.chmod(path, PRIVATE_DIRECTORY)


def write(path: str, text: str, *, mode: int = PRIVATE_FILE, group: int | None = None) -> None:
    """All of it, or nothing. ``mode`` and ``group``: of a file that others may read."""
    temporary = _temporary(path, text)
    if group is not None:
        os.chown(temporary, -1, group)
    if mode != PRIVATE_FILE:
        os.chmod(temporary, mode)
    os.replace(temporary, path)


def write_once(path: str, text: str) -> bool:
    """As `write`, unless the file is there; whether this call made it. Of several at the same time one does."""
    temporary = _temporary(path, text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def remove(path: str) -> None:
    """If it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _temporary(path: str, text: str) -> str:
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.urandom(6).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # a full disk is told without it
        raise
    return temporary
