"""A run as the list shows it, and what it is made of. Values.

row = RunRow(id="ctr-3f", kind=RunKind.SUBMITTED, name="ctr", state="running", directory="/home/ada/ctr")
as_data(row)                    for JSON
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import fields, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

UNREADABLE = "unreadable"
"""The state of a run whose files can't be read; every other is one of `umiak.core.status.State`."""


class RunKind(str, Enum):
    """What started a run."""

    LAUNCHED = "launch"
    TRAINED = "train"
    SUBMITTED = "submit"
    PADDLEJOB = "paddlejob"


@value
class SubmissionSight:
    """A run of `umiak submit` as this machine remembers it."""

    run_id: str
    name: str
    place: str
    handle: str = ""
    directory: str = ""
    """Where it was submitted from."""
    submitted_s: float = 0.0
    state: str = ""
    """Empty while it is not known to be over."""
    reason: str = ""
    started_s: float | None = None
    ended_s: float | None = None
    exit_code: int | None = None
    epoch: int | None = None
    """This and what follows, as far as its place has told."""
    step: int | None = None
    samples_per_s: float | None = None
    metric: str = ""
    metric_value: float | None = None
    nodes_up: int | None = None
    nodes_expected: int | None = None
    log_directory: str = ""
    """Below it are the log directories of its launchers, if they are on this machine."""


@value
class RunSource:
    """The directories of one run. Not shown: requests name runs by their ids."""

    launch_directories: tuple[str, ...] = ()
    metrics_directory: str = ""
    submitted: SubmissionSight | None = None


@value
class RunRow:
    """One line of the list of runs."""

    id: str
    kind: RunKind
    name: str
    place: str = ""
    directory: str = ""
    state: str
    reason: str = ""
    started_s: float | None = None
    ended_s: float | None = None
    changed_s: float | None = None
    """When it last wrote something."""
    epoch: int | None = None
    step: int | None = None
    samples_per_s: float | None = None
    metric: str = ""
    metric_value: float | None = None
    sparkline: tuple[float, ...] = ()
    nodes_up: int | None = None
    nodes_expected: int | None = None
    restarts: int = 0

    @property
    def text(self) -> str:
        """What a filter without a field looks at."""
        parts = (self.id, self.kind.value, self.name, self.place, self.directory, self.state, self.reason)
        return " ".join(parts).lower()


def as_data(row: RunRow) -> JsonObject:
    """For JSON."""
    data: JsonObject = {name: getattr(row, name) for name in fields(RunRow)}
    return {**data, "kind": row.kind.value, "sparkline": list(row.sparkline)}
