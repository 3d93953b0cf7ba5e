"""Whose a file is: whether it may be obeyed, run or read as this user's own.
An adapter; standard library only, so that nodes have it.

    first_untrusted("/scratch/lab/umiak.toml")  None, or an `Untrusted`: "/scratch/lab can be written by everybody (mode 0777)"
    private_directory("/tmp/umiak-data-1000")   makes it with mode 0700, or checks the one that is there
    read_private("/run/user/1000/x", "call")    bytes that nobody else can have written

A file is this user's own if nobody but this user and root can change it or put another in its place. That depends on
the file, on every directory on the way to it, and on every symbolic link on the way with its own directory. The way is
walked from the root down, so that what has been checked can't be exchanged by others afterwards. What others may do
only in a sticky directory such as /tmp is no harm there, as long as the entry itself belongs to this user or to root.

It does not say what to do about it: each caller has its own error (docs/explanation/trust.md has the rule).
"""

from __future__ import annotations

import errno
import os
import stat

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MOST_LINKS = 40
"""As the kernel has it."""
GROUP_WRITE, OTHERS_WRITE, OF_OTHERS = 0o020, 0o002, 0o077
PRIVATE_DIRECTORY = 0o700


@value
class Untrusted:
    """The first thing on the way to a file that somebody else has a hand in."""

    path: str
    why: str
    """Whose it is or who can write it, with its mode."""
    is_directory: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def first_untrusted(
    path: str, *, uids: Collection[int] | None = None, allowed: Iterable[str] = (), is_chosen: bool = False
) -> Untrusted | None:
    """What somebody else could use to change this file, or to put another in its place; None: nothing.

    Of a path of which not all is there, the part that is there is looked at. A directory may not be one that others can
    put files into, a sticky one neither. ``uids``: who is trusted, instead of this user and root. ``allowed``:
    directories, without links in their paths, at and below which everything is trusted. ``is_chosen``: the user has
    named this very file, and so has chosen its owner and the group that works on it; what everybody could have put
    there is still not trusted.
    """
    rule = _Rule(own_uids() if uids is None else uids, tuple(allowed), is_chosen=is_chosen)
    here, seen_here = os.sep, os.lstat(os.sep)
    pending = _parts(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
    links = 0
    untrusted = rule.against(here, seen_here, seen_here, is_last=not pending)
    while pending and not untrusted:
        part = pending.pop()
        entry = os.path.dirname(here) if part == os.pardir else os.path.join(here, part)  # no link is left in `here`
        try:
            seen = os.lstat(entry)
            target = os.readlink(entry) if stat.S_ISLNK(seen.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Untrusted(path=entry, why=f"can't be looked at ({error.strerror})")
        if part != os.pardir:  # what is above has been looked at
            untrusted = rule.against(entry, seen, seen_here, is_last=not pending)
        if target is None:
            here, seen_here = entry, seen
            continue
        links += 1
        if links > MOST_LINKS:
            return Untrusted(path=entry, why="is a link in a circle of links")
        if os.path.isabs(target):
            here, seen_here = os.sep, os.lstat(os.sep)
        pending += _parts(target)
    return untrusted


def own_uids() -> frozenset[int]:
    """Whose files are trusted: root's, who can do anything anyway, and this user's."""
    return frozenset((0, os.geteuid()))


def private_directory(path: str) -> None:
    """Make a directory that nobody else can enter, with those above it, or check the one that is there.

    PermissionError, with the path, if it is a link, is not this user's, or if others can write to it or exchange it:
    what lies in it may be somebody else's then. One that others can only read is closed to them.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), mode=PRIVATE_DIRECTORY, exist_ok=True)
    try:
        os.mkdir(path, PRIVATE_DIRECTORY)
    except FileExistsError:
        pass
    seen = os.lstat(path)
    if stat.S_ISLNK(seen.st_mode):
        raise _refused("it is a symbolic link", path)
    if not stat.S_ISDIR(seen.st_mode):
        raise _refused("it is not a directory", path)
    if seen.st_uid != os.geteuid():
        raise _refused(f"it belongs to another user ({_user(seen.st_uid)})", path)
    untrusted = first_untrusted(path)
    if untrusted:
        raise _refused(str(untrusted), path)
    if seen.st_mode & OF_OTHERS:
        os.chmod(path, PRIVATE_DIRECTORY)


def read_private(directory: str, name: str) -> bytes:
    """A regular file of this user that nobody else may use, in a directory of the same kind.
    PermissionError, with its path.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_private(os.fstat(folder), directory)
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    path = os.path.join(directory, name)
    with os.fdopen(fd, "rb") as file:
        seen = os.fstat(fd)
        _check_private(seen, path)
        if not stat.S_ISREG(seen.st_mode):
            raise _refused("it is not a regular file", path)
        return file.read()


def _parts(path: str) -> list[str]:
    """The steps of a path, the first one last."""
    return [part for part in reversed(path.split(os.sep)) if part not in ("", os.curdir)]


class _Rule:
    """Who is trusted, asked about one entry of a directory after another."""

    def __init__(self, uids: Collection[int], allowed: tuple[str, ...], *, is_chosen: bool) -> None:
        self._uids = uids
        self._allowed = allowed
        self._is_chosen = is_chosen

    def against(self, path: str, seen: os.stat_result, above: os.stat_result, *, is_last: bool) -> Untrusted | None:
        """What is to be said against an entry; ``above``: the directory that it is in."""
        if any(top == os.sep or path == top or path.startswith(f"{top}{os.sep}") for top in self._allowed):
            return None
        is_directory = stat.S_ISDIR(seen.st_mode)
        why = None if self._is_trusted(seen, above) else f"belongs to {_user(seen.st_uid)}"
        why = why or _open_to(path, seen, is_last=is_last, is_chosen=self._is_chosen)
        if why is None:
            return None
        return Untrusted(path=path, why=f"{why} (mode {stat.S_IMODE(seen.st_mode):04o})", is_directory=is_directory)

    def _is_trusted(self, seen: os.stat_result, above: os.stat_result) -> bool:
        if seen.st_uid in self._uids:
            return True
        # In a container that knows no root (Apptainer), directories of root's are shown as nobody's.
        # So are those of other users: where anybody can make one, and as files, they are not taken for root's.
        is_for_anybody = above.st_mode & OTHERS_WRITE and not os.path.samestat(above, seen)
        if self._is_chosen and not is_for_anybody:
            return True
        return stat.S_ISDIR(seen.st_mode) and not is_for_anybody and _is_unmapped_root(seen.st_uid)


def _open_to(path: str, seen: os.stat_result, *, is_last: bool, is_chosen: bool) -> str | None:
    """Who else can write to it, by its mode."""
    mode = seen.st_mode
    if stat.S_ISLNK(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
        return None  # the rights of a link mean nothing, those of a device or a socket are about using it
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and not is_last:
        return None  # others can't touch what is not theirs in it, and whose the next entry is, is looked at
    if mode & OTHERS_WRITE:
        return "can be written by everybody"
    if is_chosen:
        return None
    if mode & GROUP_WRITE and not _is_own_group(seen.st_gid):
        return f"can be written by {_group(seen.st_gid)}"
    if mode & GROUP_WRITE and _has_access_list(path):
        return "has an access list that may let others write"
    return None


def _is_unmapped_root(uid: int) -> bool:
    """Whether this is the number for users without one in this user namespace, and root is such a user."""
    try:
        with open("/proc/sys/kernel/overflowuid", "rb") as file:
            if uid != int(file.read()):
                return False
        with open("/proc/self/uid_map", "rb") as file:
            return all(int(line.split()[0]) > 0 for line in file)
    except (OSError, ValueError):
        return False


def _is_own_group(gid: int) -> bool:
    """Whether nobody is in this group but this user, or root.

    Where a directory service may know users that it does not list, only the group that is called as the user counts.
    """
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    if not set(group.gr_mem) <= {user.pw_name, "root"}:
        return False
    if gid == 0:
        return True
    if gid != user.pw_gid or not (group.gr_name == user.pw_name or _are_users_listed()):
        return False
    return all(other.pw_uid in (0, user.pw_uid) for other in pwd.getpwall() if other.pw_gid == gid)


def _are_users_listed() -> bool:
    """Whether all users and groups are in files of this machine."""
    try:
        with open("/etc/nsswitch.conf", "rb") as file:
            lines = [line.partition(b"#")[0].split() for line in file]
    except OSError:
        return True  # a C library without such services
    sources = {word for line in lines if line[:1] in ([b"passwd:"], [b"group:"]) for word in line[1:]}
    return sources <= {b"files", b"systemd"}


def _has_access_list(path: str) -> bool:
    """With one, the bits of the group are the most that anybody named in it may do."""
    try:
        os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except OSError:
        return False
    return True


def _user(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name}, uid {uid}"
    except KeyError:
        return f"uid {uid}"


def _group(gid: int) -> str:
    import grp

    try:
        return f"group {grp.getgrgid(gid).gr_name}"
    except KeyError:
        return f"group {gid}"


def _check_private(seen: os.stat_result, path: str) -> None:
    if seen.st_uid != os.geteuid():
        raise _refused(f"it belongs to another user (uid {seen.st_uid})", path)
    if seen.st_mode & OF_OTHERS:
        raise _refused(f"others may use it (mode {stat.S_IMODE(seen.st_mode):04o})", path)


def _refused(why: str, path: str) -> PermissionError:
    return PermissionError(errno.EPERM, why, path)
