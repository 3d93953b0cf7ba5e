"""The places where jobs can run, as configuration files name them. A decider.

    [place.lab]
    backend = "ssh"
    hosts = ["10.0.0.1", "10.0.0.2"]

Files are given from the nearest to the farthest: a project's ``umiak.toml``, then the user's own.
A place of the nearer file hides one of the same name. `local`, this machine, is always there.
"""

from __future__ import annotations

from umiak.core.names import is_name
from umiak.core.value import value
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.keys import WrongType
from umiak.schema.kinds import word_of
from umiak.schema.yaml_tree import Section, kind_of, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from umiak.core.problem import Problem

LOCAL = "local"
_TABLES = ("place", "default_place", "machines")


@value
class NamedPlace:
    """A place: which backend runs it, and what is said about it."""

    name: str
    backend: str
    settings: Section
    """Without ``backend``; its backend reads it with a table of its own."""


@value
class PlacesReading:
    """All places of all files."""

    places: Mapping[str, NamedPlace]
    machines: Mapping[str, Section]
    """Machines that can be rented; `umiak.submit.machines.settings` reads a table of them."""
    default: str = LOCAL
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read(files: Iterable[tuple[str, str]], backends: Collection[str]) -> PlacesReading:
    """The places of these texts, each with the path of its file."""
    findings = Findings()
    nothing = Section(place=Place(source="umiak"))
    places: dict[str, NamedPlace] = {}
    machines: dict[str, Section] = {}
    default = None
    for source, text in files:
        from umiak.schema import toml_tree  # most people have no such file, and need no regular expressions for it

        tree = toml_tree.parse(text, source, findings)
        for entry in tree.entries if tree else ():
            if entry.key == "place" and isinstance(entry.node, Section):
                for each in entry.node.entries:
                    place = _place(each.key, each.place, each.node, backends, findings)
                    if place:
                        places.setdefault(place.name, place)
            elif entry.key == "machines" and isinstance(entry.node, Section):
                for each in entry.node.entries:
                    if _is_table(each.key, each.place, each.node, findings, "machines"):
                        machines.setdefault(each.key, each.node)  # type: ignore[arg-type]
            elif entry.key == "default_place":
                default = default or (_text(entry.node), entry.place)
            elif entry.key not in _TABLES:
                what = f"unknown table or key: {shortened(entry.key)}"
                findings.problem("UM-CONFIG-012", entry.place, what, hint=choices(entry.key, _TABLES))
            else:
                what = f"{entry.key} must be a table, not {kind_of(entry.node)}"
                findings.problem(
                    "UM-CONFIG-013", entry.place, what, hint='write `[place.lab]` and below it `backend = "ssh"`'
                )
    places.setdefault(LOCAL, NamedPlace(name=LOCAL, backend=LOCAL, settings=nothing))
    if default and default[0] not in places:
        findings.problem(
            "UM-CONFIG-015",
            default[1],
            f"default_place: there is no place named {shortened(default[0])}",
            hint=choices(default[0], places),
        )
    return PlacesReading(
        places=places,
        machines=machines,
        default=default[0] if default else LOCAL,
        problems=findings.problems,
        warnings=findings.warnings,
    )


def _place(name: str, at: Place, node: object, backends: Collection[str], findings: Findings) -> NamedPlace | None:
    if not _is_table(name, at, node, findings, "place") or not isinstance(node, Section):
        return None
    entry = node.get("backend")
    if entry is None:
        hint = f"write `backend =` with one of {', '.join(sorted(backends))}"
        findings.problem("UM-CONFIG-011", at, f"place {name}: backend is missing", hint=hint)
        return None
    backend = _text(entry.node)
    if backend not in backends:
        what = f"place {name}: unknown backend: {shortened(backend) or 'nothing'}"
        findings.problem("UM-CONFIG-014", entry.place, what, hint=choices(backend, sorted(backends)))
        return None
    rest = tuple([each for each in node.entries if each.key != "backend"])
    return NamedPlace(name=name, backend=backend, settings=Section(place=at, entries=rest))


def _is_table(name: str, at: Place, node: object, findings: Findings, table: str) -> bool:
    if not is_name(name):
        hint = "use up to 64 letters, digits, `-`, `_` and `.`"
        what = f"expected a name of {'a place' if table == 'place' else table}, got {shortened(name) or 'nothing'}"
        findings.problem("UM-CONFIG-014", at, what, hint=hint)
        return False
    if not isinstance(node, Section):
        findings.problem("UM-CONFIG-013", at, f"{table} {name} must be a table", hint=f"write `[{table}.{name}]`")
        return False
    return True


def _text(node: object) -> str:
    try:
        return word_of(node).strip()  # type: ignore[arg-type]
    except WrongType:
        return ""
