"""The nodes of a run on a Ray cluster, as `umiak exec` and `umiak fetch` choose among them. A decider."""

from __future__ import annotations

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backend import JobNode, RunFileRoots
from umiak.submit.backends.ray import state
from umiak.submit.backends.ray.sessions.messages import GONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.core.job import Handle
    from umiak.core.json_types import JsonMapping

DIRECTORIES = (("log", "logs"), ("work", "work"))
"""Of a node's directory."""


def living(actors: Sequence[JsonMapping], handle: Handle) -> Sequence[JobNode]:
    """Those whose actors are alive. UmiakError if none is."""
    found = state.living_in(actors)
    if not found:
        raise UmiakError.refused(
            "UM-SUBMIT-391",
            f"no command can be run on the nodes of {handle}",
            why="Ray has not started any of them yet, or has lost them all",
            hint=f"wait until it runs: `umiak status {handle} --watch`",
        )
    return _nodes(found, handle)


def recorded(text: str, handle: Handle) -> Sequence[JobNode]:
    """Those that the driver has written down. UmiakError if there are none."""
    places = state.places_in(text)
    if not places:
        raise UmiakError.refused(
            "UM-SUBMIT-490",
            f"the files of the run can't be found: {handle}",
            why="the cluster does not know any more on which nodes it was, or it never was on any",
            hint="name what a job must bring home in its `outputs`; `umiak logs` prints its lines",
        )
    return _nodes(places, handle)


def _nodes(places: Mapping[str, str], handle: Handle) -> Sequence[JobNode]:
    return [JobNode(run_id=handle.id, name=name, address=place) for name, place in places.items()]


def roots_of(nodes: Sequence[JobNode]) -> Sequence[RunFileRoots]:
    """Working directory and logs of each. The program there is told where they are by its actor."""
    return [
        RunFileRoots(name=each.name, node=each, others=DIRECTORIES, node_number=number)
        for number, each in enumerate(nodes)
    ]


def not_started(node: JobNode, why: str) -> UmiakError:
    """The program for commands and files could not be started on a node."""
    if why == GONE:
        problem = Problem(
            code="UM-SUBMIT-490",
            what=f"{node.name}: the files of the run are gone: {node.run_id}",
            why="the working directories of a run on Ray are removed at its end",
            hint="set `keep_directories = true` in the place's settings, fetch while the job runs, or name what it must bring home in its `outputs`",
        )
    else:
        problem = Problem(
            code="UM-SUBMIT-491",
            what=f"{node.name}: Ray could not start the program for commands and files there",
            why=why,
            hint="`umiak status` says how the run is; Ray's dashboard says whether that node is alive",
        )
    return UmiakError(problem, exit_status=Exit.REFUSED)
