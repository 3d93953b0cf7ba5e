"""`umiak cancel`: ends a submitted job. A program."""

from __future__ import annotations

from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import CANCEL
from umiak.core.problem import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak cancel`. The result is the exit status."""
    parsed = asking.parse("cancel", CANCEL, argv, environ, printer)
    if parsed is None:
        return Exit.DONE
    flow = asking.flow(environ)
    run = asking.run_of(flow, parsed, printer, is_running=True)
    was_over = flow.status(run).state.is_over
    if not was_over:
        run.backend.cancel(run.handle, parsed.seconds("grace") or 0.0)
    status = flow.status(run)
    if parsed.truth("json"):
        printer.data(asking.as_json(tables.status_data(run.handle, run.record, status)))
    else:
        printer.talk(f"{run.handle} {'was already over: ' if was_over else ''}{status.state.value}")
    return Exit.DONE
