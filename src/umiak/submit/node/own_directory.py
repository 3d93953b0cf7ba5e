"""Directories that jobs are run from, on nodes and on file systems that many people share:
made for their owner alone, and checked before they are used. An adapter.

    make("/shared/me/umiak/runs", trusted)      with those above it; NotOwn if somebody else has a hand in one of them
    check("/shared/me/umiak/runs/ctr-3f2a9c", trusted)

What somebody else can change is neither run nor believed: anyone who makes such a tree first under a name that can be
guessed would have a launcher of theirs run, a plan of theirs done, and a process of the user's choice ended. The rule
is that of `umiak.adapters.ownership`.
"""

from __future__ import annotations

import os

from umiak.adapters import ownership, private_files
from umiak.core.problem import Exit, Problem, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CODE = "UM-SUBMIT-350"


class NotOwn(UmiakError):
    """Somebody else could change what is in a directory."""

    def __init__(self, path: str, found: ownership.Untrusted, prefix: str = "") -> None:
        super().__init__(problem_of(path, str(found), found.path, prefix), exit_status=Exit.REFUSED)


def check(path: str, trusted: Iterable[str] = (), prefix: str = "") -> None:
    """`NotOwn` if anybody but this user and root can change a file or directory, or put another in its place. What is
    not there yet is nobody's. ``trusted``: directories at and below which all is well. ``prefix``: before the message,
    as in ``place lab: ``.
    """
    untrusted = ownership.first_untrusted(path, allowed=trusted)
    if untrusted:
        raise NotOwn(path, untrusted, prefix)


def make(path: str, trusted: Iterable[str] = (), prefix: str = "") -> None:
    """A directory that nobody else can enter, with those above it. `NotOwn`, also if it is there already; OSError."""
    trusted = tuple(trusted)
    check(path, trusted, prefix)
    mask = os.umask(0o077)
    try:
        os.makedirs(path, mode=private_files.PRIVATE_DIRECTORY, exist_ok=True)
    finally:
        os.umask(mask)
    check(path, trusted, prefix)  # others may have been faster
    seen = os.stat(path)
    if seen.st_mode & 0o077 and seen.st_uid == os.geteuid():
        os.chmod(path, private_files.PRIVATE_DIRECTORY)


def if_own(path: str) -> str:
    """The path, if nobody else can change what is there;
    else nothing: who works in somebody else's directory has chosen it.
    """
    return "" if ownership.first_untrusted(path) else path


def problem_of(path: str, why: str, at: str, prefix: str = "") -> Problem:
    """``at``: the directory that somebody else has a hand in."""
    from shlex import quote

    hint = (
        f"name a directory of your own with `directory` of the place; if this one is yours, close it: `chmod go-w {quote(at)}`; if you trust "
        f'everybody who can write there: `trusted_directories = ["{at}"]` of the place'
    )
    what = f"{prefix}others can change what would run there: {path}"
    return Problem(code=CODE, what=what, why=why, hint=hint)
