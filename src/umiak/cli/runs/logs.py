"""`umiak logs`: what the workers of a submitted job print. A program."""

from __future__ import annotations

from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import LOGS
from umiak.core.cluster import Role
from umiak.core.problem import Exit, UmiakError
from umiak.core.shown import one_line, without_sequences
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
    since_s = _since(parsed.text("since")) if parsed.said("since") else None
    flow = asking.flow(environ, printer)
    run = asking.run_of(flow, parsed, printer)
    rank = parsed.number("rank")
    wanted = LogsWanted(
        follow=parsed.truth("follow"),
        role=Role(parsed.text("role")) if parsed.said("role") else None,
        rank=rank,
        tail=parsed.number("tail"),
        since_s=since_s,
    )
    is_raw = parsed.truth("raw")
    is_empty = True
    for line in flow.logs(run, wanted):
        is_empty = is_empty and line.is_note
        show(line, printer, is_json=parsed.truth("json"), is_raw=is_raw, is_tagged=rank is None)
    if is_empty and (rank is not None or wanted.role):
        who = f"{(wanted.role or Role.TRAINER).value}{'' if rank is None else f' {rank}'}"
        printer.note(f"no lines of {who}: `umiak logs {run.handle}` prints those of all, with their ranks")
    return Exit.DONE


def show(
    line: LogLine, printer: Printer, *, is_json: bool = False, is_raw: bool = False, is_tagged: bool = True
) -> None:
    """Print a line. Unless it is to be raw, nothing in it steers a terminal,
    nor one that a file with it is shown on later.
    """
    text = line.text if is_raw else without_sequences(line.text)
    if is_json:
        printer.data(asking.as_json({**tables.line_data(line), "text": text}))
    elif is_tagged:
        printer.data(f"[{line.source}] {text}")
    elif line.is_note:
        printer.note(text)  # among lines without tags nobody would know it
    else:
        printer.data(text)


def _since(text: str) -> float:
    import time

    from umiak.cli.runs.moments import moment

    try:
        return moment(text, now_s=time.time())
    except (ValueError, OverflowError):
        hint = "write how long ago (`--since 10m`, 2h, 1d) or a time (`--since 09:30`, `--since 2026-11-18T09:30:00Z`)"
        raise UmiakError.of(
            "UM-CLI-007", f"--since: expected a duration or a time, got {one_line(text, 80)}", hint=hint
        ) from None
