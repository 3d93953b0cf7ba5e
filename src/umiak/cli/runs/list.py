"""`umiak list`: the submitted jobs of this user, the newest first. A program."""

from __future__ import annotations

import time

from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import LIST
from umiak.core.job import handle
from umiak.core.problem import Exit, UmiakError
from umiak.core.status import JobStatus, State
from umiak.core.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.submit.flow import Flow
    from umiak.submit.run_record import RunRecord

UNKNOWN_RUNS = ("UM-SUBMIT-012", "UM-SUBMIT-029", "UM-SUBMIT-030", "UM-SUBMIT-146", "UM-SUBMIT-148")
"""Problems of one run, and not of its whole place."""


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak list`. The result is the exit status."""
    parsed = asking.parse("list", LIST, argv, environ, printer, takes=0)
    if parsed is None:
        return Exit.DONE
    flow = asking.flow(environ)

    notes: list[str] = []

    def show(width: int | None) -> tuple[str, bool]:
        places: dict[tuple[str, str], str] = {}
        if parsed.truth("everybody"):
            records = _records_of(flow, parsed.text("on"))
        else:
            records = [each for each in flow.records.all() if not parsed.said("on") or each.place == parsed.text("on")]
        shown = records if parsed.truth("all") else records[: parsed.number("limit")]
        runs = [(each, _status(flow, each, places)) for each in shown]
        if parsed.truth("json"):
            return asking.as_json([_data(*each, places.get(_place_of(each[0]), "")) for each in runs]), False
        notes[:] = [f"runs of {place} can't be asked about: {why}" for (place, _), why in places.items()]
        if len(shown) < len(records):
            notes.append(f"{len(records) - len(shown)} more: `umiak list --all`")
        return tables.list_text(runs, time.time(), width), False

    return asking.repeat(parsed, printer, show, lambda: notes)


def _records_of(flow: Flow, place: str) -> list[RunRecord]:
    """Every run that a place knows of, the newest first.
    Of those that somebody else submitted nothing more is kept here.
    """
    from umiak.submit.run_record import RunRecord

    records = []
    for each in flow.backend(flow.place(place or None)).list():
        run = flow.find(str(each))
        record = run.record
        if record is None or record.handle != str(each):
            record = RunRecord(
                run_id=each.id,
                name=each.id,
                place=each.place,
                backend=each.backend,
                directory="",
                digest="",
                submitted_s=0.0,
                handle=str(each),
            )
            try:
                status = flow.status(run)
            except UmiakError as error:
                status = JobStatus(state=State.LOST, reason=str(error))
            record = replace(record, status=status, submitted_s=status.submitted_s or 0.0)
        records.append(record)
    return sorted(records, key=lambda each: -each.submitted_s)


def _place_of(record: RunRecord) -> tuple[str, str]:
    """Places of two projects may have the same name."""
    return record.place, record.place_file or record.directory


def _status(flow: Flow, record: RunRecord, places: dict[tuple[str, str], str]) -> JobStatus | None:
    """Its place is asked only while it is not over. A place that can't be asked does not hide the runs of others,
    is asked once, and is then in ``places`` with the reason; None: nobody knows how the run is.
    """
    if record.status is not None:
        return record.status
    if not record.handle:
        state = State.STARTING if flow.records.is_submitting(record) else State.LOST
        return JobStatus(state=state, reason="its submission was not completed: repeat it")
    if _place_of(record) in places:
        return None
    try:
        return flow.status(flow.find(record.run_id))
    except UmiakError as error:
        if error.problems[0].code in UNKNOWN_RUNS:
            return JobStatus(state=State.LOST, reason=str(error))
        places[_place_of(record)] = f"{error.problems[0].what} [{error.problems[0].code}]"
        return None


def _data(record: RunRecord, status: JobStatus | None, why: str) -> dict[str, object]:
    known = handle(record.handle) if record.handle else None
    data = tables.run_data(known, record, status or JobStatus(state=State.LOST, reason=why))
    return data if status else {**data, "state": None}
