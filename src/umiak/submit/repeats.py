"""Whether a submission is the repetition of an earlier one whose answer nobody has seen. A decider.

A repetition asks for the same job (command, roles, variables, names of secrets, resources), on the same place with the same settings,
from the same directory, made of the same files. It comes soon, and the earlier run is not over. Everything else is a new run.
"""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.status import State
    from umiak.submit.run_record import RunRecord

YOUNG_S = 3600.0
"""A command whose answer was lost is repeated within this time, or not at all."""


@value
class RepeatedRequest:
    """What is submitted now, apart from the job itself."""

    place_file: str
    files: str
    now_s: float


def why_another(earlier: RunRecord, request: RepeatedRequest) -> str:
    """Why the earlier run is not the one that is asked for, as far as its record says; empty: it may be."""
    age_s = request.now_s - earlier.submitted_s
    if age_s > YOUNG_S:
        return f"it was submitted {age_s / 60:.0f} minutes ago"
    if earlier.files != request.files:
        return "the job's files have changed since"
    if earlier.place_file != request.place_file:
        return f"the settings of {earlier.place} have changed since"
    if earlier.status is not None:
        return why_over(earlier.status.state)
    return ""


def why_over(state: State) -> str:
    """Empty: it goes on."""
    return f"it is over: {state.value}" if state.is_over else ""


def other_files(earlier: RunRecord, files: str) -> bool:
    """Whether a run with the same key was made of other files. Records of older versions don't say."""
    return bool(earlier.files) and earlier.files != files
