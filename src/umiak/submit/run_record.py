"""What is kept of a submitted job. Values."""

from __future__ import annotations

from umiak.core.status import JobStatus, State
from umiak.core.value import fields, from_row, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject


@value
class RunRecord:
    """One submitted job."""

    run_id: str
    name: str
    place: str
    backend: str
    directory: str
    """Where it was submitted from."""
    digest: str
    """Of job, name of the place and directory: two submissions with different ones ask for different things."""
    submitted_s: float
    handle: str = ""
    """Empty: the place has not answered yet."""
    place_file: str = ""
    """Which file has the settings of its place, as they were; empty in records of older versions."""
    files: str = ""
    """Content hash of what it was made of; empty in records of older versions."""
    status: JobStatus | None = None
    """Once it is over; its nodes are in a file of their own."""

    @property
    def is_final(self) -> bool:
        """Whether it is known how it ended: nobody is asked any more.
        Of a run that is lost the place may know more some day.
        """
        return self.status is not None and self.status.state.is_over and self.status.state is not State.LOST


# By rows and not by keywords: a list of 10,000 is to take no time.
_ALL = fields(JobStatus)
_STATES = {state.value: state for state in State}
_STATUS = tuple(name for name in fields(JobStatus) if name not in ("state", "nodes"))
_LATER = ("place_file", "files")
"""Fields that records of older versions don't have."""
_FIRST = tuple(name for name in fields(RunRecord) if name not in (*_LATER, "status"))


def to_plain(record: RunRecord) -> JsonObject:
    """For JSON. A status without its nodes."""
    plain = {name: getattr(record, name) for name in (*_FIRST, *_LATER)}
    if record.status is not None:
        status = {name: getattr(record.status, name) for name in _STATUS}
        plain["status"] = {"state": record.status.state.value, **status}
    return plain


def from_plain(data: JsonMapping) -> RunRecord:
    """KeyError, ValueError or TypeError if `to_plain` has not made it."""
    told = data.get("status")
    status = None
    if told:
        row = {**told, "state": _STATES[told["state"]], "nodes": ()}
        status = from_row(JobStatus, [row[name] for name in _ALL])
    later = [data.get(name, "") for name in _LATER]
    return from_row(RunRecord, [*[data[name] for name in _FIRST], *later, status])
