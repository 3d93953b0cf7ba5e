"""Finds umiak's own files: which places a project and its user name, and where runs are kept. An adapter.

UMIAK_PLACES                   a variable with the text of such a file: before all files
umiak.toml                     in the working directory or above it: the project's
~/.config/umiak/config.toml    the user's own (XDG_CONFIG_HOME)
~/.local/state/umiak           runs (XDG_STATE_HOME); below it machines/NAME.toml: places of rented machines

A place says what is run as this user, so a file that somebody
else could have written is refused (docs/explanation/trust.md).
"""

from __future__ import annotations

import os

from umiak.adapters import trusted_files
from umiak.core.problem import UmiakError
from umiak.submit import places
from umiak.submit.backend import SubmitContext, nobody_listens
from umiak.submit.registry import BackendNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.submit.places import NamedPlace, PlacesReading

PROJECT = "umiak.toml"
VARIABLE = "UMIAK_PLACES"
"""Its text is that of a further file, nearer than all others: `kubectl umiak` names its cluster so."""


def context(
    environ: Mapping[str, str], directory: str | None = None, *, tell: Callable[[str], None] | None = None
) -> SubmitContext:
    """Where this process is, and who listens."""
    state = os.path.join(_base(environ, "XDG_STATE_HOME", ".local/state"), "umiak")
    here = os.path.abspath(directory or os.getcwd())
    return SubmitContext(environ=environ, directory=here, state_directory=state, tell=tell or nobody_listens)


def read(at: SubmitContext) -> PlacesReading:
    """All places of the project and of the user, and what is wrong in their files."""
    files = [(VARIABLE, at.environ.get(VARIABLE)), *[(path, _text(path, at.environ)) for path in paths(at)]]
    return places.read([(path, text) for path, text in files if text is not None], BackendNames())


def load(at: SubmitContext) -> PlacesReading:
    """As `read`; UmiakError with everything that is wrong."""
    reading = read(at)
    UmiakError.raise_any(reading.problems)
    return reading


def place(reading: PlacesReading, name: str | None) -> NamedPlace:
    """A place by its name; none: the default."""
    place = reading.places.get(name or reading.default)
    if place is None:
        from umiak.schema.findings import choices

        hint = f"{choices(str(name), sorted(reading.places))}; or describe it in {PROJECT}: [place.{name}]"
        raise UmiakError.of("UM-SUBMIT-005", f"unknown place: {name}", hint=hint)
    return place


def paths(at: SubmitContext) -> tuple[str, ...]:
    """The files that there may be, the nearest first."""
    user = os.path.join(_base(at.environ, "XDG_CONFIG_HOME", ".config"), "umiak", "config.toml")
    directory = at.directory
    while True:
        project = os.path.join(directory, PROJECT)
        if os.path.isfile(project):
            return project, user, *_rented(at)
        parent = os.path.dirname(directory)
        if parent == directory:
            return user, *_rented(at)
        directory = parent


def machines_directory(at: SubmitContext) -> str:
    """Where `umiak machines` keeps what it knows, and the places of machines."""
    return os.path.join(at.state_directory, "machines")


def _rented(at: SubmitContext) -> list[str]:
    directory = machines_directory(at)
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    return [os.path.join(directory, name) for name in names if name.endswith(".toml") and not name.startswith(".")]


def _base(environ: Mapping[str, str], variable: str, default: str) -> str:
    """A base directory as the XDG specification has it: a path that is not absolute is not used."""
    directory = environ.get(variable, "")
    return (
        directory if os.path.isabs(directory) else os.path.join(environ.get("HOME") or os.path.expanduser("~"), default)
    )


def _text(path: str, environ: Mapping[str, str]) -> str | None:
    try:
        return trusted_files.read_text(path, environ)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UmiakError.refused(
            "UM-SUBMIT-006", f"can't be read: {path}", why=why, hint=f"look at it: `ls -l {path}`, `file {path}`"
        ) from None
