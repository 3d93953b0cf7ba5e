"""Which run is meant: by the beginning of its id or handle, or the newest that runs;
or the one that is submitted again. A decider.

    with_handle(records, "ssh://lab/train-3")      the records that it may be
    chosen("train-3", candidates, state_of)        the one that is meant: of several the only one that is not over
    newest_running(records, state_of)              the newest that is not over

``state_of`` asks the place of a run, and is asked only about runs whose end is not recorded. A repetition asks for the
same job on the same place with the same settings, from the same directory, made of the same files; it comes soon, and
the earlier run is not over.
"""

from __future__ import annotations

from umiak.core.problem import UmiakError
from umiak.core.shown import one_line
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from umiak.core.status import State
    from umiak.submit.run_record import RunRecord

    StateOf = Callable[[RunRecord], State]

MOST_SHOWN = 10


def with_handle(records: Iterable[RunRecord], text: str) -> list[RunRecord]:
    """Records whose handle begins so; just the one whose whole handle it is.
    A number is whole: 42 is another run than 4242.
    """
    matching = [each for each in records if each.handle.startswith(text)]
    whole = [each for each in matching if each.handle == text]
    return whole or ([] if text.rpartition("/")[2].isdigit() else matching)


def chosen(text: str, candidates: Sequence[RunRecord], state_of: StateOf) -> RunRecord:
    """The only candidate, or the only one that is not over. UmiakError with all that it may be.

    A run whose place does not answer may still run: it counts as one that is not over."""
    if len(candidates) == 1:
        return candidates[0]
    silent: set[str] = set()
    rows = [(each, _known_state(each, state_of, silent)) for each in candidates]
    running = [row for row in rows if row[1] is None or not row[1].is_over]
    if len(running) == 1:
        return running[0][0]
    shown = [
        f"{each.run_id} ({state.value if state else 'unknown'}, on {one_line(each.place, 40)})"
        for each, state in (running or rows)[:MOST_SHOWN]
    ]
    left = len(running or rows) - len(shown)
    raise UmiakError.of(
        "UM-SUBMIT-011",
        f"{len(running or rows)} runs{' that are not over' if running else ''} begin with {text}",
        why=f"it may be {', '.join(shown)}{f' or one of {left} more' if left else ''}",
        hint="type more of the id, or the whole handle; `umiak list` prints them",
    )


def newest_running(records: Iterable[RunRecord], state_of: StateOf) -> RunRecord:
    """The newest that is not over; ``records`` have the newest first.
    UmiakError if there is none, or if it can't be known which it is.
    """
    for each in records:
        if not each.handle or (each.status is not None and each.status.state.is_over):
            continue
        try:
            state = state_of(each)
        except UmiakError as error:
            # An older run is not taken in its place: that would not be the one that somebody means.
            raise UmiakError.refused(
                "UM-SUBMIT-410",
                f"nobody knows whether the newest run is over: {each.handle}",
                why=str(error),
                hint="name the run that you mean; `umiak list` prints them",
            ) from None
        if not state.is_over:
            return each
    hint = "`umiak list` prints your runs and how they ended"
    raise UmiakError.of("UM-SUBMIT-411", "no run that you submitted is running", hint=hint)


def _known_state(record: RunRecord, state_of: StateOf, silent: set[str]) -> State | None:
    """None: nobody knows. A place that does not answer is asked once, and then in ``silent``."""
    if record.status is not None:
        return record.status.state
    if record.place in silent:
        return None
    try:
        return state_of(record)
    except UmiakError:
        silent.add(record.place)
        return None


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
