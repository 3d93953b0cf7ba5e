"""One prediction of an output at a time. An adapter: a lock of the kernel, which ends with the process that has it, however that ends.

with held("scores.csv"):        UmiakError that says who has it, if another process predicts it
    ...

The file of the lock, ``scores.csv.lock``, says whose it is, and is removed with it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from datetime import datetime, timezone

from umiak.core.problem import UmiakError
from umiak.core.shown import one_line

ENDING = ".lock"
_MOST_SAID = 200
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""What a file system says that has none: then nobody is kept away."""


@contextlib.contextmanager
def held(out: str) -> Iterator[None]:
    """Nobody else predicts this output meanwhile."""
    path = f"{out}{ENDING}"
    file = _taken(path, out)
    try:
        began = datetime.now(timezone.utc).isoformat(timespec="seconds")
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}, since {began}\n".encode(), 0)
        yield
    finally:
        # While it is locked: a process that opened it meanwhile sees that it is not the file of this name any more.
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(file)


def _taken(path: str, out: str) -> int:
    """The descriptor of the file, locked."""
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = one_line(os.pread(file, _MOST_SAID, 0).decode(errors="replace").strip())
            os.close(file)
            raise UmiakError.of(
                "UM-PREDICT-012",
                f"another process predicts this output: {out}",
                why=who or None,
                hint="wait for it, or end it and continue with --resume; or choose another --out",
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(file)
                raise
        if _is_there(path, file):
            return file
        os.close(file)  # its holder removed it between the two


def _opened(path: str) -> int:
    """What is written into it goes to no file of another name: directories of outputs may be others' as well."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(path, flags, 0o644)
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return file
    os.close(file)
    raise FileExistsError(errno.EEXIST, "not a file of its own, so that it can't be a lock", path)


def _is_there(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
