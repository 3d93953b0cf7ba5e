"""What the commands about runs share: reading their command line, and finding the run. A program."""

from __future__ import annotations

import json
import time

from umiak.cli.runs import tables
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema import command_line
from umiak.submit import configuration
from umiak.submit.flow import Flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Flag, Parsed
    from umiak.submit.flow import KnownRun

CLEAR = "\x1b[H\x1b[2J"
INTERVAL_S = 2.0


def parse(
    name: str,
    flags: Sequence[Flag],
    argv: Sequence[str],
    environ: Mapping[str, str],
    printer: Printer,
    *,
    takes: int = 1,
) -> Parsed | None:
    """The command line, or None if help was asked for and given. UmiakError with everything that is wrong."""
    parsed = command_line.parse(flags, argv, environ, command=f"umiak {name}", starts_program=False, arguments=takes)
    if parsed.wants_help:
        from umiak.cli.runs import help as help_pages

        printer.data(help_pages.text(name))
        return None
    if parsed.program:
        hint = f"`umiak {name} --help` lists all flags"
        problem = Problem(code="UM-CLI-005", what=f"unexpected argument: {parsed.program[0]}", hint=hint)
        raise UmiakError(*parsed.problems, problem)
    if parsed.problems:
        raise UmiakError(*parsed.problems)
    return parsed


def flow(environ: Mapping[str, str], printer: Printer | None = None) -> Flow:
    """For this person in this directory; with a printer, backends tell what they do."""
    return Flow(configuration.context(environ, tell=printer.talk if printer else None))


def run_of(asked: Flow, parsed: Parsed, printer: Printer, *, is_running: bool = False) -> KnownRun:
    """The run that was named; where none was, the newest one, said aloud. ``is_running``: the newest that is not over."""
    if parsed.arguments:
        run = asked.find(parsed.arguments[0])
        if parsed.arguments[0] not in (str(run.handle), run.handle.id, run.record.run_id if run.record else ""):
            printer.note(f"the run: {run.handle}")
        return run
    if is_running:
        run = asked.newest_running()
        printer.note(f"the newest running run: {run.handle}")
        return run
    records = asked.records.all()
    if not records:
        hint = "submit a job first: `umiak submit job.yaml`"
        raise UmiakError(Problem(code="UM-SUBMIT-016", what="there are no runs", hint=hint))
    run = asked.find(records[0].run_id)
    printer.note(f"the newest run: {run.handle}")
    return run


def repeat(
    parsed: Parsed, printer: Printer, show: Callable[[], tuple[str, bool]], after: Callable[[], None] | None = None
) -> int:
    """Print something, once or with --watch again and again, until it can't change any more. ``show``: a text, and whether it is
    the last; ``after``: what is told below it. While it is watched, a place that does not answer for a while is told and asked again."""
    is_watched = parsed.truth("watch")
    after = after or _nothing
    screen = CLEAR if is_watched and not parsed.truth("json") and printer.out.isatty() else ""
    is_first = True
    while True:
        try:
            text, is_last = show()
            is_plain = parsed.truth("json") or not printer.colour or not printer.out.isatty()
            printer.data(screen + (text if is_plain else tables.coloured(text)))
            after()
        except UmiakError as error:
            if is_first or error.exit_status != Exit.REFUSED:
                raise
            is_last = False
            printer.problems(error.problems, "warning")
        if not is_watched or is_last:
            return Exit.DONE
        is_first = False
        time.sleep(parsed.seconds("interval") or INTERVAL_S)


def _nothing() -> None:
    pass


def as_json(data: object) -> str:
    """One line."""
    return json.dumps(data, ensure_ascii=False)
