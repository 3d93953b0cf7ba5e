"""`umiak fetch`: the files of a submitted job, brought here. A program."""

from __future__ import annotations

import os
import threading
import time

from umiak.cli.commands import COMMANDS
from umiak.cli.runs import asking, tables
from umiak.cli.runs.flags import FETCH
from umiak.cli.texts.table_layout import rows
from umiak.core.problem import Exit
from umiak.core.shown import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.core.json_types import JsonObject
    from umiak.schema.flags import Parsed
    from umiak.submit.reach.fetching import Fetch, FetchResult, FoundFile, RunListing

LINE_S, PLAIN_S = 0.2, 10.0
"""Between two states of the progress line, and between two lines where there is no terminal."""
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_LEFT_OUT = {
    "inputs": "data that the job brought in by its `inputs` is not fetched: {names}; name it to fetch it",
    "unreadable": "{count} files or directories can't be read there: {names}",
    "special": "{count} sockets, pipes or devices are not fetched: {names}",
    "links": "{count} links lead out of the run's directories and are not fetched: {names}",
    "in_place": "the job works in {names}, which is not its own: name the files there that you want",
}


_WHAT_WAS_DONE = {"new": "fetched", "unchanged": "unchanged", "updated": "updated", "conflict": "overwritten"}


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak fetch`. The result is the exit status."""
    parsed = asking.parse("fetch", FETCH, argv, environ, printer, takes=COMMANDS["fetch"].most_arguments)
    if parsed is None:
        return Exit.DONE
    from umiak.submit.reach import nodes as choosing
    from umiak.submit.reach.fetching import Fetch

    run = asking.run_of(asking.flow(environ, printer), parsed, printer)
    backend = choosing.reachable(run.backend, run.handle)
    directory = parsed.text("to") or run.handle.id.replace("/", "-")
    with Fetch(
        backend,
        run.handle,
        directory,
        paths=parsed.arguments[1:],
        node=parsed.text("node"),
        overwrites=parsed.truth("overwrite"),
    ) as fetch:
        listing = fetch.look()
        if parsed.truth("list"):
            return _list(listing, parsed, printer)
        return _fetch(fetch, listing, str(run.handle), parsed, printer)


def _list(listing: RunListing, parsed: Parsed, printer: Printer) -> int:
    if parsed.truth("json"):
        data = {"files": [_row(each) for each in listing.files], "size_bytes": listing.size_bytes, **_left_out(listing)}
        printer.data(asking.as_json({**data, "problems": [each.what for each in listing.problems]}))
    else:
        found_rows = [[size_text(each.file.size_bytes), one_line(each.path) + _arrow(each)] for each in listing.files]
        if found_rows:
            printer.data(rows([["SIZE", "FILE"], *found_rows]))
        printer.talk(f"{len(found_rows)} files, {size_text(listing.size_bytes)}")
        _notes(listing, printer)
    printer.problems(listing.problems)
    return Exit.REFUSED if listing.problems else Exit.DONE


def _fetch(fetch: Fetch, listing: RunListing, handle: str, parsed: Parsed, printer: Printer) -> int:
    wanted = listing.wanted
    total = sum(each.file.size_bytes - each.waiting_bytes for each in wanted)
    progress = _Progress(printer, total, len(wanted), is_shown=not parsed.truth("json"))
    try:
        result = fetch.bring(progress.tell)
    except KeyboardInterrupt:
        progress.end()
        printer.note("broken off: the same command goes on where it was")
        raise
    finally:
        progress.end()
    if parsed.truth("json"):
        printer.data(asking.as_json(_data(result, listing, handle, fetch.target.path)))
    else:
        _notes(listing, printer)
        printer.talk(_summary(result, listing, fetch.target.path, progress.took_s))
    printer.problems(result.problems)
    return Exit.REFUSED if result.problems else Exit.DONE


def _summary(result: FetchResult, listing: RunListing, directory: str, took_s: float) -> str:
    from umiak.submit.reach.fetch_plan import FetchVerdict

    counts = {verdict: sum(each.verdict is verdict for each in result.done) for verdict in FetchVerdict}
    new = counts[FetchVerdict.NEW] + counts[FetchVerdict.CONFLICT]
    parts = [f"{new} files"]
    if counts[FetchVerdict.UPDATED]:
        parts.append(f"{counts[FetchVerdict.UPDATED]} updated")
    if counts[FetchVerdict.CONFLICT]:
        parts.append(f"{counts[FetchVerdict.CONFLICT]} of them overwritten")
    if counts[FetchVerdict.UNCHANGED]:
        parts.append(f"{counts[FetchVerdict.UNCHANGED]} were here already")
    rate = f", {size_text(int(result.bytes_copied / took_s))}/s" if result.bytes_copied and took_s > 0.01 else ""
    if not listing.files:
        return "the run has no files yet" if not listing.problems else "no files were fetched"
    return f"{', '.join(parts)}: {size_text(result.bytes_copied)}{rate}, in {one_line(directory)}"


def _notes(listing: RunListing, printer: Printer) -> None:
    for why, (names, count) in listing.left_out.items():
        if count:
            shown = ", ".join(one_line(each) for each in names[:5]) + (f" and {count - 5} more" if count > 5 else "")
            printer.note(_LEFT_OUT[why].format(names=shown, count=count) if why in _LEFT_OUT else f"{why}: {shown}")


def _arrow(listed: FoundFile) -> str:
    return "" if listed.file.target is None else f" -> {one_line(listed.file.target)}"


def _row(listed: FoundFile) -> JsonObject:
    link = {} if listed.file.target is None else {"target": listed.file.target}
    return {
        "node": listed.node,
        "path": listed.path,
        "size_bytes": listed.file.size_bytes,
        "modified_s": listed.file.mtime_ns / 1e9,
        "state": listed.verdict.value,
        **link,
    }


def _left_out(listing: RunListing) -> JsonObject:
    return {
        "left_out": {
            why: {"count": count, "names": list(names)} for why, (names, count) in listing.left_out.items() if count
        }
    }


def _data(result: FetchResult, listing: RunListing, handle: str, directory: str) -> JsonObject:
    return {
        "handle": handle,
        "directory": directory,
        "files": [{**_row(each), "state": _WHAT_WAS_DONE[each.verdict.value]} for each in result.done],
        "bytes_copied": result.bytes_copied,
        **_left_out(listing),
        "problems": [{"code": each.code, "what": each.what, "why": each.why} for each in result.problems],
    }


def size_text(count: int) -> str:
    """``1.2 GiB``."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


class _Progress:
    """How far it is: one line that changes, or, where there is no terminal, a line now and then."""

    def __init__(self, printer: Printer, total: int, files: int, *, is_shown: bool) -> None:
        self._printer, self._total, self._files = printer, total, files
        self._is_live = is_shown and printer.err.isatty()
        self._is_plain = is_shown and not self._is_live
        self._began = time.monotonic()
        self._next = self._began + (0 if self._is_live else PLAIN_S)
        self._lock = threading.Lock()
        self._has_line = False
        self.took_s = 0.0

    def tell(self, size: int, files: int) -> None:
        now = time.monotonic()
        if now < self._next or not (self._is_live or self._is_plain):
            return
        with self._lock:
            if now < self._next:
                return
            self._next = now + (LINE_S if self._is_live else PLAIN_S)
            text = self._text(size, files, now - self._began)
            if self._is_live:
                width = _columns(self._printer)
                self._printer.err.write(f"\r\x1b[K{text[: width - 1]}")
                self._printer.err.flush()
                self._has_line = True
            else:
                self._printer.talk(text)

    def end(self) -> None:
        self.took_s = self.took_s or time.monotonic() - self._began
        if self._has_line:
            self._printer.err.write("\r\x1b[K")
            self._printer.err.flush()
            self._has_line = False

    def _text(self, size: int, files: int, took_s: float) -> str:
        rate = size / took_s if took_s > 0 else 0.0
        left = f", {tables.span((self._total - size) / rate)} left" if rate and self._total > size else ""
        share = f"{min(100, 100 * size // self._total)}%, " if self._total else ""
        return f"{share}{size_text(size)} of {size_text(self._total)}, {files} of {self._files} files, {size_text(int(rate))}/s{left}"


def _columns(printer: Printer) -> int:
    try:
        return max(20, os.get_terminal_size(printer.err.fileno()).columns)
    except OSError:
        return 80
