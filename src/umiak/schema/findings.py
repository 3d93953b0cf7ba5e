"""What is wrong with a config, collected while it is read, each with its place. Values.

Place      a line and a column of a file, or an override of the command line
Findings   problems, which stop a run, and warnings, which do not
"""

from __future__ import annotations

from umiak.core.nearest import few, nearest
from umiak.core.problem import Problem
from umiak.core.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable


@value
class Place:
    """Where something was said. Lines and columns count from 1; an override has neither."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class Findings:
    """Problems and warnings, told in the order of the file. The only thing here that changes."""

    def __init__(self) -> None:
        self._problems: list[tuple[Place, Problem]] = []
        self._warnings: list[tuple[Place, Problem]] = []

    def problem(self, code: str, place: Place, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        self._problems.append((place, _made(code, place, what, why, hint)))

    def warning(self, code: str, place: Place, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        self._warnings.append((place, _made(code, place, what, why, hint)))

    def add(self, others: Findings, *, as_warnings: bool = False) -> None:
        """Take in what was found elsewhere; its problems may count less here."""
        (self._warnings if as_warnings else self._problems).extend(others._problems)
        self._warnings += others._warnings

    def without(self, told: Container[tuple[str, str | None]]) -> Findings:
        """Those whose code and place were not told elsewhere; without the warnings."""
        rest = Findings()
        rest._problems = [each for each in self._problems if (each[1].code, each[1].where) not in told]
        return rest

    @property
    def problems(self) -> tuple[Problem, ...]:
        return _in_order(self._problems)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        subjects = {_subject(*each) for each in self._problems if not each[0].line}
        return _in_order([each for each in self._warnings if _subject(*each) not in subjects])


MOST_LISTED = 20
"""Of more words a hint names the likest only."""


def choices(word: str, known: Iterable[str]) -> str:
    """A hint: the word that was probably meant, and all that there are, or of many the likest."""
    known = tuple(known)
    by_lower = {each.lower(): each for each in known}
    meant = nearest(word.lower(), by_lower)
    every = f"it is one of {', '.join(known)}"
    if len(known) > MOST_LISTED:
        shown = few(word, known) or known[:3]
        every = f"it is one of {', '.join(shown)} and {len(known) - len(shown)} others"
    if meant:
        return f"did you mean `{by_lower[meant]}`?{f' {every}' if len(known) > 1 else ''}"
    if len(known) > 1:
        return every
    return f"there is only {known[0]}" if known else "there is none"


def _made(code: str, place: Place, what: str, why: str | None, hint: str | None) -> Problem:
    return Problem(code=code, what=_line(what), why=why and _line(why), hint=hint and _line(hint), where=str(place))


def _line(text: str) -> str:
    """A message is a line of its own, though names in a config may have ends of lines in them."""
    return " ".join(text.splitlines())


def _in_order(found: list[tuple[Place, Problem]]) -> tuple[Problem, ...]:
    """Overrides first, then the file from its top;
    each complaint once, though an override may be put in many places.
    """
    ordered = sorted(found, key=lambda pair: (pair[0].line, pair[0].column))
    first: dict[Problem, Problem] = {}
    for place, problem in ordered:
        first.setdefault(_subject(place, problem), problem)
    return tuple(first.values())


def _subject(place: Place, problem: Problem) -> Problem:
    """What makes two complaints one: of an override not the section, since it is put into many."""
    return problem if place.line else replace(problem, what=problem.what.rpartition(": ")[2])
