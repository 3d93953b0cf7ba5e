"""The files of the log directory: whose they are, and who may read them. An adapter.

    fd = open_log("log/workerlog.0", access=Access())
    claimed = claim("log", own_name="node1.gpu-07", run="gistdo")

A log directory may be one where others write as well, such as one below /tmp. So nothing is followed out of it, and
nothing that somebody else has put there is written to: a link, a pipe, a file of another user is an OSError that says
what it is. Nothing here waits, also not for a pipe that nobody reads.
"""

from __future__ import annotations

import errno
import os
import stat

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

JOURNAL = "events.jsonl"
MOST_LAUNCHERS = 100
"""How many launchers of one node may share a log directory and still have a directory with a telling name."""


@value
class Access:
    """Who may read log files: their owner, unless ``--log_mode`` and ``--log_group`` say otherwise."""

    mode: int = 0o600
    group: int | None = None

    @property
    def directory_mode(self) -> int:
        """For directories: who may read files in them may also enter and list them."""
        return self.mode | (self.mode & 0o444) >> 2


PRIVATE = Access()


def open_log(path: str, *, overwrite: bool = False, access: Access = PRIVATE) -> int:
    """A file to append to, with the wanted rights also if it was there before. OSError if it is not our own file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        is_new = True
    except FileExistsError:
        fd = _open_what_is_there(path, flags)
        is_new = False
    try:
        if not is_new:
            _check_is_own_file(path, fd)
        if access.group is not None and os.fstat(fd).st_gid != access.group:
            os.fchown(fd, -1, access.group)
        os.fchmod(fd, access.mode)
        if overwrite and not is_new:
            os.ftruncate(fd, 0)
    except OSError:
        os.close(fd)
        raise
    return fd


def _open_what_is_there(path: str, flags: int) -> int:
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link") from None
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a named pipe or a socket") from None
        raise


def _check_is_own_file(path: str, fd: int) -> None:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if found.st_uid != os.geteuid() and found.st_uid != _owner_of_new_files(os.path.dirname(path)):
        raise OSError(errno.EPERM, f"it belongs to another user (uid {found.st_uid})")


def _owner_of_new_files(directory: str) -> int:
    """Whom a file belongs to that we make there: a file server may have its own idea of who we are."""
    path = os.path.join(directory, f".umiak-{os.urandom(6).hex()}")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.unlink(path)
        return os.fstat(fd).st_uid
    finally:
        os.close(fd)


@value
class Claimed:
    """A log directory that is this launcher's as long as ``lock`` is open."""

    path: str
    lock: int
    note: str = ""
    """Why it is not the one that was asked for."""


def claim(path: str, *, own_name: str, run: str, access: Access = PRIVATE) -> Claimed:
    """Make the log directory and lock it; one below it, with a telling name, if another launcher writes there.

    OSError if neither can be had.
    """
    if os.path.islink(path) and os.lstat(path).st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "it is a symbolic link of another user")
    refusal = _try_to_lock(path, access)
    if isinstance(refusal, int):
        return Claimed(path=path, lock=refusal)
    note = f"another launcher writes its logs to {path}"
    if refusal.errno not in (errno.EWOULDBLOCK, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
        note = f"{os.path.join(path, JOURNAL)} can't be written ({refusal.strerror})"
    for below in _own_directories(path, own_name, run):
        locked = _try_to_lock(below, access)
        if isinstance(locked, int):
            return Claimed(path=below, lock=locked, note=f"{note}, this one writes to {below}")
        if locked.errno != errno.EWOULDBLOCK:
            raise refusal
    raise refusal


def _own_directories(path: str, own_name: str, run: str) -> Iterator[str]:
    plain = "".join(letter if letter.isalnum() or letter in ".-_" else "_" for letter in own_name).lstrip(".")
    yield os.path.join(path, plain)
    for number in range(2, MOST_LAUNCHERS):
        yield os.path.join(path, f"{plain}.{number}")
    yield os.path.join(path, f"{plain}.{run}")


def _try_to_lock(path: str, access: Access) -> int | OSError:
    """A lock on this directory, which goes with this process; or why it can't be had."""
    import fcntl

    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        if access != PRIVATE:
            if access.group is not None:
                os.chown(path, -1, access.group)
            os.chmod(path, access.directory_mode)
        fd = open_log(os.path.join(path, JOURNAL), access=access)
    except OSError as error:
        return error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        return error
    return fd
