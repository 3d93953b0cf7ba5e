"""`umiak logs`: what the workers of a submitted job print. A program."""

from __future__ import annotations

from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import LOGS
from umiak.core.cluster import Role
from umiak.core.problem import Exit
from umiak.core.shown import inert
from umiak.submit.backend import LogsWanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.submit.backend import LogLine


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak logs`. The result is the exit status."""
    parsed = asking.parse("logs", LOGS, argv, environ, printer)
    if parsed is None:
        return Exit.DONE
    flow = asking.flow(environ, printer)
    run = asking.run_of(flow, parsed, printer)
    rank = parsed.number("rank")
    wanted = LogsWanted(
        follow=parsed.truth("follow"), role=Role(parsed.text("role")) if parsed.said("role") else None, rank=rank
    )
    is_empty = True
    for line in flow.logs(run, wanted):
        is_empty = False
        if parsed.truth("json"):
            printer.data(asking.as_json(tables.line_data(line)))
        else:
            printer.data(shown(line, printer, is_tagged=rank is None))
    if is_empty and (rank is not None or wanted.role):
        who = f"{(wanted.role or Role.TRAINER).value}{'' if rank is None else f' {rank}'}"
        printer.note(f"no lines of {who}: `umiak logs {run.handle}` prints those of all, with their ranks")
    return Exit.DONE


def shown(line: LogLine, printer: Printer, *, is_tagged: bool = True) -> str:
    """A line as it is printed: nothing in it steers a terminal."""
    text = inert(line.text) if printer.out.isatty() else line.text
    return f"[{line.source}] {text}" if is_tagged else text
