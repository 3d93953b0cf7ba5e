"""What the command line hands over to the dashboard, which knows none of the programs beside it. Values."""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.cluster.job_view import ClusterReader
    from umiak.dashboard.rows import SubmissionSight

    AskServers: TypeAlias = "Callable[[str, Sequence[int]], JsonObject | None]"


def nobody(_run_id: str, _pids: Sequence[int]) -> JsonObject | None:
    """Of a dashboard that knows no servers."""
    return None


@value
class KnownPlace:
    """A place where jobs run, as its file has it."""

    name: str
    backend: str
    source: str
    """The file."""
    is_default: bool = False


@value
class PlaceCommands:
    """Which places there are, and what to run to ask one of them."""

    known: Callable[[], tuple[Sequence[KnownPlace], Sequence[str]]]
    """The places, and what is wrong in their files."""
    questions: Mapping[str, Callable[[str], Sequence[str]]]
    """``doctor`` and ``queue``: the command line for the place of a name."""


@value
class RemoteCommands:
    """What to run to ask a place about submitted runs."""

    queue: Callable[[str], Sequence[str]]
    """The runs of the place of a name: `umiak list --json`."""
    status: Callable[[str], Sequence[str]]
    """One run: `umiak status --json`."""
    logs: Callable[[str, int], Sequence[str]]
    """So many last lines of each of its workers: `umiak logs --json`."""


@value
class GivenSources:
    """Whom to ask for what is in no run directory."""

    submitted: Callable[[], Sequence[SubmissionSight]] = tuple
    """The runs of `umiak submit`."""
    servers: AskServers = nobody
    """The parameter servers of a run."""
    places: PlaceCommands | None = None
    """The places where jobs run."""
    cancel: Callable[[str], Sequence[str]] | None = None
    """The command line that cancels a submitted run."""
    remote: RemoteCommands | None = None
    """Runs on other places."""
    cluster: ClusterReader | None = None
    """The cluster whose PaddleJobs are shown."""
