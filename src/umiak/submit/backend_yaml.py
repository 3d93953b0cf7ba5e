"""A backend.yaml of PaddleRec as a place. A decider.

    read('backend: "PaddleCloud"\\ncluster_type: mpi\\n...', "backend.yaml", ["paddlecloud", ...]).place

The first key says which backend it is for; that backend reads the rest, by a table of its own.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.schema import yaml_tree
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.keys import WrongType
from umiak.schema.kinds import word_of
from umiak.schema.yaml_tree import Section, kind_of, shortened
from umiak.submit.places import NamedPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.core.problem import Problem

OTHER_NAMES = {"k8s": "kubernetes"}


@value
class BackendReading:
    """What a file says. There is a place only if nothing is wrong."""

    place: NamedPlace | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read(text: str, source: str, backends: Collection[str]) -> BackendReading:
    """The place of a file, under its backend's name."""
    findings = Findings()
    tree = yaml_tree.parse(text, source, findings)
    start = Place(source=source, line=1, column=1)
    place = None
    if tree is None and findings.problems:
        pass  # it is not YAML: what it lacks is not told as well
    elif isinstance(tree, Section) or tree is None:
        place = _place(tree or Section(place=start), findings, backends)
    else:
        findings.problem("UM-CONFIG-013", start, f"a backend is a mapping, and this is {kind_of(tree)}")
    wrong = findings.problems
    return BackendReading(place=None if wrong else place, problems=wrong, warnings=findings.warnings)


def _place(tree: Section, findings: Findings, backends: Collection[str]) -> NamedPlace | None:
    entry = tree.get("backend")
    if entry is None:
        findings.problem(
            "UM-CONFIG-011", tree.place, "backend is missing", hint='write `backend: "PaddleCloud"` at the top'
        )
        return None
    try:
        word = word_of(entry.node).strip()
    except WrongType:
        word = ""
    name = OTHER_NAMES.get(word.lower(), word.lower())
    if name not in backends:
        what = f"unknown backend: {shortened(word) or 'nothing'}"
        findings.problem("UM-CONFIG-014", entry.node.place, what, hint=choices(word, sorted(backends)))
        return None
    rest = tuple([each for each in tree.entries if each.key != "backend"])
    return NamedPlace(name=name, backend=name, settings=Section(place=tree.place, entries=rest))
