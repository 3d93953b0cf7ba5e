"""What is kept of a submitted job. Values."""

from __future__ import annotations

from umiak.core.status import JobStatus, State
from umiak.core.value import fields, from_row, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


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
    """Of job, place and directory: two submissions with the same one ask for the same."""
    submitted_s: float
    handle: str = ""
    """Empty: the place has not answered yet."""
    status: JobStatus | None = None
    """Once it is over."""


# By rows and not by keywords: a list of 10,000 is to take no time.
_OWN = fields(RunRecord)[:-1]
_ALL = fields(JobStatus)
_STATES = {state.value: state for state in State}
_STATUS = tuple(name for name in fields(JobStatus) if name not in ("state", "nodes"))


def to_plain(record: RunRecord) -> dict[str, Any]:
    """For JSON. A status without its nodes."""
    made = {name: getattr(record, name) for name in _OWN}
    if record.status is not None:
        told = {name: getattr(record.status, name) for name in _STATUS}
        made["status"] = {"state": record.status.state.value, **told}
    return made


def from_plain(data: Mapping[str, Any]) -> RunRecord:
    """KeyError, ValueError or TypeError if `to_plain` has not made it."""
    told = data.get("status")
    status = None
    if told:
        row = {**told, "state": _STATES[told["state"]], "nodes": ()}
        status = from_row(JobStatus, [row[name] for name in _ALL])
    return from_row(RunRecord, [*[data[name] for name in _OWN], status])
