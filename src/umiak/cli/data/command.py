"""`umiak data`: columns and first rows of tables, and whether files fit together. A program."""

from __future__ import annotations

import json
import os
import sys

from umiak.cli.data.flags import FLAGS
from umiak.cli.texts import table_layout
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import inert, one_line
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from umiak.cli.output import Printer
    from umiak.data.tables import TableBatch, TableFile, TextReading
    from umiak.data.tables.checking import Checked
    from umiak.schema.flags import Parsed

COMMANDS = ("show", "check")
LONGEST_CELL = 40
MOST_ROWS = 10_000


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak data`. The result is the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        return printer.page("data", Exit.DONE if argv else Exit.BAD_REQUEST)
    word = argv[0]
    if word not in COMMANDS:
        from umiak.schema.findings import choices

        raise UmiakError.of("UM-CLI-004", f"umiak data: unknown command: {word}", hint=choices(word, COMMANDS))
    parsed = command_line.parse(
        FLAGS,
        argv[1:],
        environ,
        command=f"umiak data {word}",
        starts_program=False,
        arguments=1 if word == "show" else 100_000,
    )
    if parsed.wants_help:
        return printer.page("data")
    problems = list(parsed.problems)
    if not parsed.arguments:
        hint = "umiak data show day.parquet" if word == "show" else "umiak data check 'logs/*.parquet'"
        problems.append(Problem(code="UM-CLI-005", what=f"umiak data {word}: no file is named", hint=f"`{hint}`"))
    problems += _wrong(parsed)
    if problems:
        raise UmiakError(*problems)
    return _show(parsed, printer) if word == "show" else _check(parsed, printer)


def _wrong(parsed: Parsed) -> list[Problem]:
    delimiter = _delimiter(parsed)
    if delimiter is None or (len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'):
        return []
    what = f"--delimiter is {delimiter!r}: one ASCII character is expected"
    return [Problem(code="UM-CLI-005", what=what, hint="a tab is `--delimiter '\\t'`")]


def _delimiter(parsed: Parsed) -> str | None:
    said = parsed.text("delimiter")
    return "\t" if said == "\\t" else said or None


def reading_of(parsed: Parsed) -> TextReading:
    """How texts are read, as flags say."""
    from umiak.data.tables import TextReading

    names = parsed.text("names")
    return TextReading(
        delimiter=_delimiter(parsed),
        quote=None if parsed.truth("no_quotes") else '"',
        names=tuple(names.split(",")) if names else None,
        missing=tuple(parsed.texts.get("missing", ())),
    )


def _show(parsed: Parsed, printer: Printer) -> int:
    from umiak.data import tables
    from umiak.data.tables import checking

    names = checking.names_of(parsed.arguments)
    if len(names) > 1:
        hint = f"name one of them, such as `umiak data show {names[0]}`, or look at all with `umiak data check`"
        raise UmiakError.of("UM-CLI-005", f"umiak data show: {len(names)} files are named", hint=hint)
    table = tables.look(names[0], reading_of(parsed))
    known = [column.name for column in table.columns]
    chosen = parsed.texts.get("column", ())
    checking.known_columns(chosen, known, table.path)
    batch = _first_rows(table, [name for name in known if not chosen or name in chosen], parsed.number("rows") or 0)
    if parsed.truth("json"):
        left_out = batch.bad if batch else 0
        told = {**_told(table), "first_rows": _rows_told(batch), "bad_rows": left_out}
        printer.data(json.dumps(told, ensure_ascii=False))
        return Exit.DONE
    width = os.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [["file", table.path], ["format", _format(table)], ["columns", str(len(known))]]
    if table.rows is not None:
        lines.append(["rows", f"{table.rows} in {len(table.groups)} row groups"])
    printer.data(inert(table_layout.pairs(lines, width)))
    shown = [["COLUMN", "TYPE", "FIRST VALUES"]]
    for column in table.columns:
        if chosen and column.name not in chosen:
            continue
        values = batch.columns[column.name].plain() if batch and column.name in batch.columns else []
        first = column.refused or ", ".join(_cell(value) for value in values)
        shown.append([one_line(column.name), _kind(column.kind, column.is_list), first])
    printer.data("\n" + inert(table_layout.rows(shown, width)))
    if batch and batch.bad:
        rows = "row can't" if batch.bad == 1 else "rows can't"
        printer.talk(inert(f"{batch.bad} {rows} be read: `umiak data check --whole {table.path}` says why"))
    return Exit.DONE


def _first_rows(table: TableFile, names: Sequence[str], rows: int) -> TableBatch | None:
    from umiak.data import tables

    lists = {column.name: column.is_list for column in table.columns if column.refused is None}
    wants = {name: "values[]" if lists[name] else "values" for name in names if name in lists}
    if not rows or not wants:
        return None
    reader = tables.TableReader(tables.parts([table])[:1], wants, batch_rows=min(rows, MOST_ROWS), bad_rows=1.0)
    return next(iter(reader), None)


def _check(parsed: Parsed, printer: Printer) -> int:
    from umiak.data.tables import checking

    names = checking.names_of(parsed.arguments)
    checked = checking.check(
        names, reading_of(parsed), numbers=parsed.texts.get("number", ()), whole=parsed.truth("whole")
    )
    if parsed.truth("json"):
        printer.data(json.dumps(_checked_told(checked), ensure_ascii=False))
    else:
        _print_checked(checked, parsed.truth("whole"), printer)
    printer.problems(checked.problems)
    if not checked.problems:
        return Exit.BAD_REQUEST if checked.bad else Exit.DONE
    return Exit.REFUSED if all(problem.code == "UM-DATA-002" for problem in checked.problems) else Exit.BAD_REQUEST


def _print_checked(checked: Checked, whole: bool, printer: Printer) -> None:
    formats = sorted({_format(table) for table in checked.tables})
    rows = [table.rows for table in checked.tables]
    lines = [["files", f"{len(checked.tables)}, {', '.join(formats)}"]]
    lines.append(["bytes", str(sum(table.size for table in checked.tables))])
    if rows and None not in rows:
        lines.append(["rows", str(sum(row for row in rows if row is not None))])
    lines.append(["rows read", f"{checked.rows}, " + ("all" if whole else "the first ones of each file")])
    lines.append(["bad rows", str(checked.bad)])
    printer.data(table_layout.pairs(lines))
    for table in checked.tables[:1]:
        shown = [["COLUMN", "TYPE", "MISSING"]]
        for column in table.columns:
            gone = checked.missing.get(column.name)
            missing = column.refused or (
                "" if gone is None or not checked.rows else f"{gone / max(1, checked.rows - checked.bad):.1%}"
            )
            shown.append([one_line(column.name), _kind(column.kind, column.is_list), missing])
        printer.data("\n" + inert(table_layout.rows(shown)))
    for bad in checked.bad_examples:
        place = f":{bad.line}" if bad.line else f", row group {bad.group}, row {bad.row}"
        of = f", column {bad.column!r}" if bad.column else ""
        value = f": {bad.value!r}" if bad.value is not None else ""
        printer.talk(inert(one_line(f"bad row: {bad.file}{place}{of}: {bad.reason}{value}")))


def _format(table: TableFile) -> str:
    return table.format.value + (", compressed" if table.packed else "")


def _kind(kind: str, is_list: bool) -> str:
    return f"list of {kind}" if is_list else kind


def _cell(value: Any) -> str:
    shown = repr(_plain(value)) if isinstance(value, (bytes, list)) else "-" if value is None else str(value)
    return shown if len(shown) <= LONGEST_CELL else shown[: LONGEST_CELL - 2] + ".."


def _plain(value: Any) -> Any:
    """As JSON has it; bytes that are no UTF-8 as Python writes them."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value not in (float("inf"), float("-inf")) and value == value:
        return value
    return str(value) if isinstance(value, float) else value


def _rows_told(batch: TableBatch | None) -> list[dict[str, Any]]:
    if batch is None:
        return []
    columns = {name: column.plain() for name, column in batch.columns.items()}
    return [{name: _plain(values[row]) for name, values in columns.items()} for row in range(batch.rows)]


def _told(table: TableFile) -> dict[str, Any]:
    columns = [
        {"name": each.name, "type": each.kind, "list": each.is_list, "refused": each.refused} for each in table.columns
    ]
    return {
        "file": table.path,
        "format": table.format.value,
        "compressed": table.packed,
        "bytes": table.size,
        "rows": table.rows,
        "row_groups": len(table.groups) if table.rows is not None else None,
        "columns": columns,
    }


def _checked_told(checked: Checked) -> dict[str, Any]:
    return {
        "files": [_told(table) for table in checked.tables],
        "rows_read": checked.rows,
        "bad_rows": checked.bad,
        "bad_examples": [
            {"file": each.file, "row_group": each.group, "row": each.row, "line": each.line, "column": each.column}
            | {"value": each.value, "reason": each.reason}
            for each in checked.bad_examples
        ],
        "missing": dict(checked.missing),
        "problems": [{"code": each.code, "what": each.what, "hint": each.hint} for each in checked.problems],
    }
