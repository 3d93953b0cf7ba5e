"""Files that say what is run as this user: refused if somebody else could have written them, unless the user allows it.
An adapter.

    text = read_text("/scratch/umiak.toml", environ)      UmiakError: UM-SUBMIT-340, with who and how to allow it
    check_chosen("config.yaml", ["model.py"], environ)    what a person named on the command line, and what that names

What a person allows is in the variable UMIAK_SAFE_DIRECTORIES and in the file safe_directories of the person's own
configuration; it is read only when something would be refused. Whose a file is, `ownership` says;
docs/explanation/trust.md has the rule.
"""

from __future__ import annotations

import os

from umiak.adapters import ownership
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from umiak.adapters.ownership import Untrusted

VARIABLE = "UMIAK_SAFE_DIRECTORIES"
FILE = "safe_directories"
EVERYTHING = "*"
PAGE = "docs/explanation/trust.md"


def check(path: str, environ: Mapping[str, str], what: str = "file") -> None:
    """UmiakError if somebody else could have written this file. ``what`` it is, for the message."""
    if refusal := problem(path, environ, what):
        raise UmiakError(refusal, exit_status=Exit.REFUSED)


def read_text(path: str, environ: Mapping[str, str], what: str = "file") -> str:
    """What is in such a file, as UTF-8. OSError or ValueError if it can't be read."""
    with open(path, encoding="utf-8") as file:
        # Opened first: one that comes into being after a look would not have been looked at.
        check(path, environ, what)
        return file.read()


def problem(path: str, environ: Mapping[str, str], what: str = "file") -> Problem | None:
    """Why this file is not used."""
    uids = _uids(environ)
    untrusted = ownership.first_untrusted(path, uids=uids)
    if untrusted is None:
        return None
    untrusted = ownership.first_untrusted(path, uids=uids, allowed=_allowed(environ))
    return _problem(path, what, untrusted) if untrusted else None


def check_chosen(path: str, names: Iterable[str], environ: Mapping[str, str]) -> None:
    """UmiakError if everybody could have written this file, or one of those that it names:
    what it runs, imports or loads.

    Its owner is trusted, no matter who that is: who types a file's name wants it, as with `python train.py`.
    """
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return  # a pod has no other users, and its volumes are often open to everybody
    try:
        uids = _uids(environ) | {os.stat(path).st_uid}
    except OSError:
        return  # there is no such file: its reader says so
    problems = []
    names = tuple(names)
    # Python looks for modules beside a file that it runs: there others must not be able to put any.
    beside = [os.path.dirname(os.path.abspath(name)) for name in names if name.endswith(".py")]
    for name in dict.fromkeys((path, *names, *beside)):
        untrusted = ownership.first_untrusted(name, uids=uids, is_chosen=True)
        untrusted = untrusted and ownership.first_untrusted(name, uids=uids, allowed=_allowed(environ), is_chosen=True)
        if untrusted:
            problems.append(_problem(name, "directory of code" if name in beside else "file", untrusted))
    if problems:
        raise UmiakError(*problems, exit_status=Exit.REFUSED)


def list_file(environ: Mapping[str, str]) -> str:
    """Where a person lists directories."""
    home = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(home, "umiak", FILE)


def _uids(environ: Mapping[str, str]) -> frozenset[int]:
    """Who is trusted: with sudo also the user who called it."""
    caller = environ.get("SUDO_UID", "")
    is_sudo = os.geteuid() == 0 and caller.isascii() and caller.isdigit()
    return ownership.own_uids() | ({int(caller)} if is_sudo else set())


def _allowed(environ: Mapping[str, str]) -> Collection[str]:
    named = [(each, VARIABLE) for each in environ.get(VARIABLE, "").split(os.pathsep) if each]
    if any(each == EVERYTHING for each, _ in named):
        return (os.sep,)
    home = environ.get("HOME") or os.path.expanduser("~")
    allowed = []
    for text, where in (*named, *_listed(list_file(environ), environ)):
        path = os.path.join(home, text[2:]) if text.startswith("~/") else text
        if text == EVERYTHING:
            return (os.sep,)
        if not os.path.isabs(path):
            hint = f"write it from the root on, as in `{os.path.abspath(one_line(text))}`, or `{EVERYTHING}` for all"
            what = f"{where}: not an absolute path of a directory: {one_line(text)}"
            raise UmiakError.of("UM-SUBMIT-341", what, hint=hint)
        allowed.append(os.path.realpath(path))
    return allowed


def _listed(path: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The lines of the file, each with its place. It can't allow itself."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UmiakError.of("UM-SUBMIT-341", f"can't be read: {path}", why=why) from None
    if untrusted := ownership.first_untrusted(path, uids=_uids(environ)):
        why = f"somebody else could have written it: {one_line(str(untrusted))}"
        hint = f"give it to you alone: `ls -ld {one_line(untrusted.path)}`"
        what = f"the list of safe directories is not used: {path}"
        raise UmiakError.refused("UM-SUBMIT-341", what, why=why, hint=hint)
    stripped = [(line.strip(), f"{path}:{number}") for number, line in enumerate(lines, 1)]
    return [(text, where) for text, where in stripped if text and not text.startswith("#")]


def _problem(path: str, what: str, found: Untrusted) -> Problem:
    from shlex import quote

    directory = found.path if found.is_directory else os.path.dirname(found.path)
    allow = f"export {VARIABLE}={quote(one_line(directory))}"
    return Problem(
        code="UM-SUBMIT-340",
        what=f"this {what} is not used: {one_line(path)}",
        why=f"somebody else could have written it: {one_line(str(found))}",
        hint=f"change owner or mode; or if you trust all who can write there: `{allow}`, or a line in ~/.config/umiak/{FILE} ({PAGE})",
    )
