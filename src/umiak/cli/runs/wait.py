"""`umiak wait`: until a submitted job is over. A program."""

from __future__ import annotations

from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import WAIT
from umiak.core.problem import Exit, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak wait`. The result is the job's exit status."""
    parsed = asking.parse("wait", WAIT, argv, environ, printer)
    if parsed is None:
        return Exit.DONE
    flow = asking.flow(environ)
    run = asking.run_of(flow, parsed, printer)
    status = flow.wait(run, parsed.seconds("timeout"))
    if parsed.truth("json"):
        printer.data(asking.as_json(tables.status_data(run.handle, run.record, status)))
    if status.exit_status is None:
        what = f"the job is not over after {parsed.seconds('timeout'):g} s: {run.handle}"
        hint = f"it goes on; `umiak status {run.handle}`"
        raise UmiakError.refused("UM-SUBMIT-017", what, hint=hint)
    if not parsed.truth("json"):
        reason = f": {status.reason}" if status.reason else ""
        printer.talk(f"{run.handle} {status.state.value}{reason}")
    return int(status.exit_status)
