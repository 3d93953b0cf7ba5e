"""Asks a place's backend how the place is, for `umiak doctor --on PLACE`. A program.

A backend with a method ``examine`` tells about hosts, keys and rights (`umiak.submit.backend.Examinable`). One without it is
asked to ``check`` the smallest job that there is.
"""

from __future__ import annotations

from umiak.core.job import FrameworkName, Job, RoleSpec
from umiak.core.problem import UmiakError
from umiak.doctor.facts import PlaceFacts, PlaceFinding
from umiak.submit import configuration
from umiak.submit.flow import Flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SMALLEST = Job(name="doctor", command=("true",), roles=(RoleSpec(),), framework=FrameworkName.NONE)


def examine(name: str | None, environ: Mapping[str, str]) -> PlaceFacts:
    """What its backend says; without a name, which places could be named."""
    flow = Flow(configuration.context(environ))
    try:
        if name is None:
            return PlaceFacts(known=tuple(flow.places.places))
        place = flow.place(name)
        backend = flow.backend(place)
        look = getattr(backend, "examine", None)
        if look is not None:
            found = [PlaceFinding(text=each.text, problem=each.problem, is_warning=each.is_warning) for each in look()]
        else:
            found = [PlaceFinding(problem=each) for each in backend.check(SMALLEST)]
    except UmiakError as error:
        return PlaceFacts(name=name or "", error=error.problems)
    return PlaceFacts(name=name, backend=place.backend, findings=tuple(found))
