"""What the commands about runs share: reading their command line, and finding the run. A program."""

from __future__ import annotations

import json
import os
import time

from umiak.cli.runs import tables
from umiak.cli.texts.table_layout import cut, height
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema import command_line
from umiak.submit import configuration
from umiak.submit.flow import Flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from umiak.cli.output import Printer
    from umiak.schema.flags import Flag, Parsed
    from umiak.submit.flow import KnownRun

CLEAR = "\x1b[H\x1b[2J"
INTERVAL_S = 2.0
RESIZED_S = 0.2
"""Between two looks whether the terminal has another size."""


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
        printer.page(name)
        return None
    if parsed.program:
        hint = f"`umiak {name} --help` lists all flags"
        problem = Problem(code="UM-CLI-005", what=f"unexpected argument: {parsed.program[0]}", hint=hint)
        raise UmiakError(*parsed.problems, problem)
    UmiakError.raise_any(parsed.problems)
    return parsed


def flow(environ: Mapping[str, str], printer: Printer | None = None) -> Flow:
    """For this person in this directory; with a printer, backends tell what they do."""
    return Flow(configuration.context(environ, tell=printer.talk if printer else None))


def run_of(asked: Flow, parsed: Parsed, printer: Printer, *, is_running: bool = False) -> KnownRun:
    """The run that was named; where none was, the newest one, said aloud.
    ``is_running``: the newest that is not over.
    """
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
        raise UmiakError.of("UM-SUBMIT-016", "there are no runs", hint=hint)
    run = asked.find(records[0].run_id)
    printer.note(f"the newest run: {run.handle}")
    return run


def repeat(
    parsed: Parsed,
    printer: Printer,
    show: Callable[[int | None], tuple[str, bool]],
    notes: Callable[[], Sequence[str]] = tuple,
) -> int:
    """Print something, once or with --watch again and again, until it can't change any more. ``show``: a text, and
    whether it is the last, for a terminal of so many columns, or for none; ``notes``: what is told below it. While it
    is watched, a place that does not answer for a while is told and asked again.
    """
    is_watched = parsed.truth("watch")
    is_screen = is_watched and not parsed.truth("json") and printer.out.isatty()
    is_first = True
    while True:
        size = terminal_size(printer.out)
        try:
            text, is_last = show(size[0] if size else None)
            lines = list(notes())
            if is_screen and size:
                text = _fitted(text, lines, *size)
            is_plain = parsed.truth("json") or not printer.colour or not printer.out.isatty()
            printer.data((CLEAR if is_screen else "") + (text if is_plain else tables.coloured(text)))
            for each in lines:
                printer.note(each)
        except UmiakError as error:
            if is_first or error.exit_status != Exit.REFUSED:
                raise
            is_last = False
            printer.problems(error.problems, "warning")
        if not is_watched or is_last:
            return Exit.DONE
        is_first = False
        _wait(parsed.seconds("interval") or INTERVAL_S, printer.out, size)


def terminal_size(stream: TextIO) -> tuple[int, int] | None:
    """Columns and rows; None if it is no terminal, or one that does not say."""
    try:
        size = os.get_terminal_size(stream.fileno()) if stream.isatty() else None
    except (OSError, ValueError):
        return None
    return (size.columns, size.lines) if size and size.columns and size.lines else None


def _fitted(text: str, notes: Sequence[str], columns: int, rows: int) -> str:
    """So many lines that all of them, and the notes, are on the screen."""
    lines = text.splitlines()
    room = max(2, rows - 1 - height([f"note: {each}" for each in notes], columns))
    if len(lines) > room:
        lines = [*lines[: room - 1], cut(f"... {len(lines) - room + 1} more lines", columns)]
    return "".join(f"{line}\n" for line in lines)


def _wait(seconds: float, stream: TextIO, size: tuple[int, int] | None) -> None:
    """Less if the terminal gets another size."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and terminal_size(stream) == size:
        time.sleep(min(left, RESIZED_S))


def as_json(data: object) -> str:
    """One line."""
    return json.dumps(data, ensure_ascii=False)
