"""What is kept of a submitted job. Values."""

from __future__ import annotations

from umiak.core.status import JobStatus, State
from umiak.core.value import fields, value

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


def to_plain(record: RunRecord) -> dict[str, Any]:
    """For JSON."""
    made = {name: getattr(record, name) for name in fields(record) if name != "status"}
    if record.status is not None:
        status = record.status
        made["status"] = {
            "state": status.state.value,
            "said": status.said,
            "reason": status.reason,
            "exit_code": status.exit_code,
            "submitted_s": status.submitted_s,
            "started_s": status.started_s,
            "ended_s": status.ended_s,
        }
    return made


def from_plain(data: Mapping[str, Any]) -> RunRecord:
    """KeyError, ValueError or TypeError if `to_plain` has not made it."""
    told = data.get("status")
    status = JobStatus(**{**told, "state": State(told["state"])}) if told else None
    return RunRecord(**{**data, "status": status})
