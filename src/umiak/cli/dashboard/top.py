"""`umiak top`: the runs of this machine that go on, and the workers of one, in a terminal, live. A program.

The same model as that of `umiak dashboard`, without a server: what a run is, is read from its files, and nothing is written.
"""

from __future__ import annotations

import os
import time

from umiak.cli.dashboard import top_text
from umiak.cli.dashboard.flags import TOP_FLAGS
from umiak.cli.texts.table_layout import cut
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.dashboard.http.json_text import json_text
from umiak.dashboard.index import RunIndex
from umiak.dashboard.outside.server_rates import ServerHistory
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from umiak.cli.output import Printer
    from umiak.core.json_types import JsonObject
    from umiak.dashboard.details import WatchedRun
    from umiak.dashboard.rows import RunRow

MOST_DIRECTORIES = 1000
MOST_IN_JSON = 1000
CLEAR = "\x1b[H\x1b[2J"


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak top`. The result is the exit status."""
    parsed = command_line.parse(
        TOP_FLAGS, argv, environ, command="umiak top", starts_program=False, arguments=MOST_DIRECTORIES
    )
    if parsed.wants_help:
        return printer.page("top")
    directories = parsed.arguments or (".",)
    problems = list(parsed.problems)
    if parsed.program:
        problems.append(Problem(code="UM-CLI-005", what=f"unexpected argument: {parsed.program[0]}"))
    hint = "name directories below which there are runs; a run goes behind --run"
    problems += [
        Problem(code="UM-DASH-004", what=f"not a directory: {each}", hint=hint)
        for each in directories
        if not os.path.isdir(each)
    ]
    if problems:
        raise UmiakError(*problems)
    from umiak.cli.dashboard.command import submitted_of

    top = _Top(RunIndex(directories, submitted_of(parsed, environ)), parsed.text("run"), shows_all=parsed.truth("all"))
    as_json = parsed.truth("json")
    is_once = parsed.truth("once") or not (as_json or printer.out.isatty())
    interval_s = parsed.seconds("interval") or 1.0
    while True:
        top.look()
        size = None if as_json else _size_of(printer.out)
        if as_json:
            printer.data(json_text(top.data()))
        else:
            text = top.text(size[0] if size else None)
            printer.data(text if is_once else CLEAR + _fitted(text, size))
        if is_once:
            return Exit.DONE
        time.sleep(interval_s)


class _Top:
    """What is shown, brought up to date with every look."""

    def __init__(self, index: RunIndex, wanted: str, *, shows_all: bool) -> None:
        self._index, self._wanted, self._shows_all = index, wanted, shows_all
        self._rows: list[RunRow] = []
        self._run: JsonObject | None = None
        self._before: JsonObject | None = None
        self._watched: dict[str, WatchedRun] = {}
        self._servers: dict[str, ServerHistory] = {}
        self._now_s = 0.0

    def look(self) -> None:
        """UmiakError if there is no such run."""
        from umiak.dashboard import filters

        self._index.refresh()
        self._now_s = time.time()
        ordered = filters.in_order(self._index.rows, filters.DEFAULT_SORT)
        self._rows = ordered if self._shows_all else [row for row in ordered if row.ended_s is None]
        chosen = self._chosen(ordered)
        before, self._before = self._run, None
        self._run = None if chosen is None else self._of(chosen)
        if before is not None and self._run is not None and before["row"]["id"] == self._run["row"]["id"]:
            self._before = before

    def text(self, width: int | None) -> str:
        return top_text.screen(self._rows, len(self._index.rows), self._run, self._before, self._now_s, width)

    def data(self) -> JsonObject:
        from umiak.dashboard.rows import as_data

        rows = [as_data(row) for row in self._rows[:MOST_IN_JSON]]
        return {"now_s": self._now_s, "all": len(self._index.rows), "runs": rows, "run": self._run}

    def _chosen(self, ordered: Sequence[RunRow]) -> RunRow | None:
        """The run that was named, or the newest one that goes on."""
        if not self._wanted:
            return self._rows[0] if self._rows and self._rows[0].ended_s is None else None
        exact = [row for row in ordered if self._wanted in (row.id, row.name)]
        found = exact or [row for row in ordered if row.id.startswith(self._wanted)]
        if not found:
            hint = "`umiak top --all` lists the runs of these directories with their ids"
            raise UmiakError.of("UM-DASH-006", f"unknown run: {self._wanted}", hint=hint)
        return found[0]

    def _of(self, row: RunRow) -> JsonObject:
        from umiak.dashboard import run_files
        from umiak.dashboard.details import WatchedRun

        source = self._index.source(row.id)
        assert source is not None, "a row has a source"
        watched = self._watched.get(row.id)
        if watched is None or watched.source != source:
            watched = WatchedRun(source)
        self._watched = {row.id: watched}
        watched.update()
        servers = self._servers_of(row, watched)
        waits = servers.waits_at(self._now_s) if servers else {}
        files, is_over = run_files.files_of(source).values(), row.ended_s is not None
        looks = watched.looks(files, waits, self._now_s, is_over=is_over)
        told = servers.data(self._now_s) if servers else None
        return {**watched.data(row, self._now_s, looks), "servers": told, "now_s": self._now_s}

    def _servers_of(self, row: RunRow, watched: WatchedRun) -> ServerHistory | None:
        if not watched.has_servers or row.ended_s is not None:
            return None
        from umiak.cli.dashboard.servers import ServersOfRuns

        if row.id not in self._servers:
            self._servers = {row.id: ServerHistory()}
            self._ask = ServersOfRuns()
        report = self._ask(row.id, watched.pids())
        if report is not None:
            self._servers[row.id].add(report, self._now_s)
        return self._servers[row.id]


def _size_of(stream: TextIO) -> tuple[int, int] | None:
    try:
        size = os.get_terminal_size(stream.fileno()) if stream.isatty() else None
    except (OSError, ValueError):
        return None
    return (size.columns, size.lines) if size and size.columns and size.lines else None


def _fitted(text: str, size: tuple[int, int] | None) -> str:
    """So many lines that all of them are on the screen."""
    if size is None:
        return text
    lines, room = text.splitlines(), max(2, size[1] - 1)
    if len(lines) > room:
        lines = [*lines[: room - 1], cut(f"... {len(lines) - room + 1} more lines", size[0])]
    return "".join(f"{line}\n" for line in lines)
