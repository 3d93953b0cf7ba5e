"""`umiak features`: fits features to data, shows and checks the lock. A program."""

from __future__ import annotations

import json
import os
import sys
import time

from umiak.cli.features.flags import FLAGS
from umiak.cli.texts import table_layout
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import inert, one_line
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.data.features import FeatureLock
    from umiak.data.features.fitting import FitProgress
    from umiak.data.tables import TableFile
    from umiak.schema.flags import Parsed

COMMANDS = ("fit", "show", "check")
NAME = "features.lock.json"
FIRST_ROWS = 1000
SAYS_EVERY_S = 2.0


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak features`. The result is the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        return printer.page("features", Exit.DONE if argv else Exit.BAD_REQUEST)
    word = argv[0]
    if word not in COMMANDS:
        from umiak.schema.findings import choices

        raise UmiakError.of("UM-CLI-004", f"umiak features: unknown command: {word}", hint=choices(word, COMMANDS))
    parsed = command_line.parse(
        FLAGS, argv[1:], environ, command=f"umiak features {word}", starts_program=False, arguments=0
    )
    if parsed.wants_help:
        return printer.page("features")
    problems = [*parsed.problems, *_wrong(word, parsed)]
    if problems:
        raise UmiakError(*problems)
    return {"fit": _fit, "show": _show, "check": _check}[word](parsed, printer)


def _wrong(word: str, parsed: Parsed) -> list[Problem]:
    problems = []
    needed = (("model", "-m"), ("data", "--data")) if word == "fit" else (("model", "-m"),)
    for name, spoken in needed:
        if not parsed.said(name):
            hint = f"`umiak features {word} -m CONFIG{' --data FILES' if word == 'fit' else ''}`"
            problems.append(Problem(code="UM-CLI-005", what=f"umiak features {word}: {spoken} is missing", hint=hint))
    only_fit = ("fresh", "threads", "memory", "bad_rows")
    unused = (*only_fit, "data") if word == "show" else only_fit if word == "check" else ()
    for name in unused:
        if parsed.said(name):
            what = f"umiak features {word}: --{name} has no effect"
            problems.append(Problem(code="UM-CLI-005", what=what, hint="it belongs to `umiak features fit`"))
    if _share(parsed) is None:
        what = f"--bad_rows is {parsed.text('bad_rows')}: a share from 0 to 1 is expected"
        problems.append(Problem(code="UM-CLI-005", what=what, hint="such as 0.01"))
    return problems


def _share(parsed: Parsed) -> float | None:
    try:
        share = float(parsed.text("bad_rows") or 0)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None


def _lock_path(parsed: Parsed) -> str:
    model = str(parsed.text("model"))
    beside = model if os.path.isdir(model) else os.path.dirname(model)
    return parsed.text("lock") or os.path.join(beside, NAME)


def _tables(parsed: Parsed) -> list[TableFile]:
    """All files, looked at. What does not fit together is an error."""
    from umiak.cli.data import command
    from umiak.data.tables import checking, look

    names = checking.names_of(parsed.texts.get("data", ()))
    reading = command.reading_of(parsed)
    return [look(name, reading) for name in names]


def _fit(parsed: Parsed, printer: Printer) -> int:
    from umiak.data import features, tables

    section = features.load(str(parsed.text("model")))
    path = _lock_path(parsed)
    previous = None
    if os.path.exists(path) and not parsed.truth("fresh"):
        previous = features.read_lock(path)
    files = _tables(parsed)
    started = time.monotonic()
    lock = features.fit(
        section,
        tables.parts(files),
        previous=previous,
        threads=parsed.number("threads") or 1,
        bad_rows=_share(parsed) or 0.0,
        memory_bytes=(parsed.number("memory") or 4) << 30,
        told=None if parsed.truth("quiet") or parsed.truth("json") else _Progress(printer),
    )
    features.FeatureTransform(lock)  # two words with one hash are found here, not when a training starts
    written = features.write_lock(lock, path)
    if parsed.truth("json"):
        summary = {"lock": path, "files": list(written), "sha256": lock.sha256, "rows": lock.rows}
        printer.data(json.dumps({**summary, "seconds": round(time.monotonic() - started, 3)}))
        return Exit.DONE
    words = sum(len(table.vocabulary.words) for table in lock.tables.values() if table.vocabulary is not None)
    older = previous.tables.values() if previous is not None else ()
    kept = sum(len(table.vocabulary.words) for table in older if table.vocabulary is not None)
    again = f", {kept:,} of them from the older lock" if kept else ""
    printer.data(inert(f"{path}: {lock.rows:,} rows, {words:,} words{again}"))
    return Exit.DONE


class _Progress:
    """Says how far it is: on a terminal in one line, else now and then in a line of its own."""

    def __init__(self, printer: Printer) -> None:
        self._printer, self._last = printer, time.monotonic()

    def __call__(self, done: FitProgress) -> None:
        now = time.monotonic()
        if now - self._last < SAYS_EVERY_S:
            return
        self._last = now
        share = f", {done.bytes / done.of_bytes:.0%} of the bytes" if done.of_bytes else ""
        bad = f", {done.bad:,} bad" if done.bad else ""
        self._printer.talk(f"{done.rows:,} rows{bad}{share}")


def _show(parsed: Parsed, printer: Printer) -> int:
    from umiak.data import features
    from umiak.data.features.lock import plain

    lock = features.read_lock(_lock_path(parsed))
    if parsed.truth("json"):
        printer.data(json.dumps({**plain(lock), "sha256": lock.sha256}, ensure_ascii=False))
        return Exit.DONE
    width = os.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [["lock", _lock_path(parsed)], ["sha256", lock.sha256], ["rows", f"{lock.rows:,}"]]
    printer.data(inert(table_layout.pairs(lines, width)))
    shown = [["FEATURE", "KIND", "FROM", "TABLE", "ROWS", "MISSING", "MEAN", "STD"]]
    for feature in lock.section.features:
        fitted = lock.columns[feature.name]
        rows = lock.rows_of(feature.table) if feature.has_ids else None
        shown.append(
            [
                one_line(feature.name),
                feature.kind.value,
                one_line(feature.column or " x ".join(feature.of)),
                one_line(feature.table) or "-",
                "-" if rows is None else f"{rows:,}" if rows else "on demand",
                f"{fitted.missing / fitted.values:.1%}" if fitted.values else "-",
                "-" if fitted.mean is None else f"{fitted.mean:.6g}",
                "-" if fitted.std is None else f"{fitted.std:.6g}",
            ]
        )
    printer.data("\n" + inert(table_layout.rows(shown, width)))
    return Exit.DONE


def _check(parsed: Parsed, printer: Printer) -> int:
    from umiak.data import features

    section = features.load(str(parsed.text("model")))
    path = _lock_path(parsed)
    lock = features.read_lock(path, section)
    problems, rows = _first_rows(parsed, lock) if parsed.said("data") else ([], 0)
    if parsed.truth("json"):
        told = [{"code": each.code, "what": each.what, "hint": each.hint} for each in problems]
        printer.data(json.dumps({"lock": path, "sha256": lock.sha256, "rows_read": rows, "problems": told}))
    else:
        read = f", {rows:,} rows read" if parsed.said("data") else ""
        printer.data(inert(f"{path}: it belongs to the config{read}"))
    printer.problems(problems)
    return Exit.BAD_REQUEST if problems else Exit.DONE


def _first_rows(parsed: Parsed, lock: FeatureLock) -> tuple[list[Problem], int]:
    """What is wrong with the first rows of each file."""
    from umiak.data import features, tables

    transform = features.FeatureTransform(lock)
    problems: list[Problem] = []
    rows = 0
    for table in _tables(parsed):
        names = {column.name for column in table.columns}
        missing = [each for each in transform.wanted() if each not in names]
        if missing and table.format is not tables.Format.JSON:
            what = f"{table.path}: columns are missing: {', '.join(map(repr, missing))}"
            problems.append(
                Problem(code="UM-DATA-113", what=one_line(what), hint="`umiak data show` prints its columns")
            )
            continue
        try:
            reader = tables.TableReader(tables.parts([table]), transform.wanted(), batch_rows=FIRST_ROWS)
            batch = next(reader, None)
            if batch is not None:
                transform.batch(batch)
                rows += batch.rows
        except UmiakError as error:
            problems += error.problems
    return problems, rows
