"""`umiak list`: the submitted jobs of this user, the newest first. A program."""

from __future__ import annotations

import time

from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import LIST
from umiak.core.job import handle
from umiak.core.problem import Exit, UmiakError
from umiak.core.status import JobStatus, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.submit.flow import Flow
    from umiak.submit.run_record import RunRecord


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak list`. The result is the exit status."""
    parsed = asking.parse("list", LIST, argv, environ, printer, takes=0)
    if parsed is None:
        return Exit.DONE
    flow = asking.flow(environ)

    def show() -> str:
        records = [each for each in flow.records.all() if not parsed.said("on") or each.place == parsed.text("on")]
        shown = records if parsed.truth("all") else records[: parsed.number("limit")]
        runs = [(each, _status(flow, each)) for each in shown]
        if parsed.truth("json"):
            return asking.as_json([_data(*each) for each in runs])
        if len(shown) < len(records):
            printer.note(f"{len(records) - len(shown)} more: `umiak list --all`")
        return tables.list_text(runs, time.time())

    return asking.repeat(parsed, printer, show)


def _status(flow: Flow, record: RunRecord) -> JobStatus:
    """Its place is asked only while it is not over. A place that can't be asked does not hide the other runs."""
    if record.status is not None:
        return record.status
    if not record.handle:
        state = State.STARTING if flow.records.is_submitting(record) else State.LOST
        return JobStatus(state=state, reason="its submission was not completed: repeat it")
    try:
        return flow.status(flow.find(record.run_id))
    except UmiakError as error:
        return JobStatus(state=State.LOST, reason=str(error))


def _data(record: RunRecord, status: JobStatus) -> dict[str, object]:
    return tables.run_data(handle(record.handle) if record.handle else None, record, status)
