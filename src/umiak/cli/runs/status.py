"""`umiak status`: how a submitted job is. A program."""

from __future__ import annotations

import time

from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import STATUS
from umiak.core.problem import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak status`. The result is the exit status."""
    parsed = asking.parse("status", STATUS, argv, environ, printer)
    if parsed is None:
        return Exit.DONE
    flow = asking.flow(environ)
    run = asking.run_of(flow, parsed, printer)

    def show(width: int | None) -> tuple[str, bool]:
        status = flow.status(run)
        if parsed.truth("json"):
            return asking.as_json(tables.status_data(run.handle, run.record, status)), status.state.is_over
        return tables.status_text(run.handle, run.record, status, time.time(), width), status.state.is_over

    return asking.repeat(parsed, printer, show)
