"""`umiak export`: reads the flags and the config, and hands them to what writes. A program."""

from __future__ import annotations

import json
import os

from umiak.cli.export.flags import FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.train.exporting.program import ExportRequest, Written
    from umiak.train.plan.plan import Plan

TABLE_FORMATS = ("parquet", "safetensors")


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak export`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak export", starts_program=False)
    if parsed.wants_help:
        return printer.page("export")
    _check_request(parsed)
    from umiak.cli.train import check_installed

    of_tables = parsed.text("format") in TABLE_FORMATS
    needs = ("numpy", "umiak_native") if of_tables else ("yaml", "numpy", "umiak_native", "paddle")
    check_installed((*needs, "yaml") if parsed.said("model") else needs)

    def say(line: str) -> None:
        if not parsed.truth("quiet"):
            printer.talk(line)

    try:
        done = _tables(parsed, environ, printer) if of_tables else _model(parsed, environ, printer, say)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise UmiakError.refused("UM-EXPORT-006", what, hint="name a place for --out that can be written") from error
    if parsed.truth("json"):
        summary = {
            "out": done.out,
            "format": done.format,
            "checkpoint": done.checkpoint,
            "files": [*done.files],
            "gap": done.gap,
            "left_out": [*done.outside],
        }
        printer.data(json.dumps(summary, indent=2))
    else:
        for line in _lines(done, parsed):
            say(line)
    return Exit.DONE


def _lines(done: Written, parsed: Parsed) -> list[str]:
    lines = []
    if done.outside and done.format == "onnx":
        lines.append(f"outside of the model, its rows are inputs: {', '.join(done.outside)}")
    elif done.outside:
        lines.append(f"left out, since they are dense: {', '.join(done.outside)} (--format safetensors writes them)")
    compared = "" if done.gap is None else f", compared with the trained model: apart by {done.gap:.1e} at most"
    lines.append(f"{parsed.text('out')}: {', '.join(done.files)}{compared}")
    return lines


def _tables(parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> Written:
    from umiak.train.checkpoints import runs
    from umiak.train.exporting import program

    asked = _request(parsed)
    program.check_place(asked)
    path = parsed.text("checkpoint")
    if parsed.said("model"):
        from umiak.train.checkpoints.mirror import mirrored

        run, mirrors = mirrored(_plan(parsed, environ, printer).runs[0])
        mirrors.fetch()
        path = run.runner.init_model_path or path
    return program.export_tables(runs.model_to_use(path)[0], asked)


def _model(parsed: Parsed, environ: Mapping[str, str], printer: Printer, say: Callable[[str], None]) -> Written:
    from umiak.train.exporting import onnx_files, program

    asked = _request(parsed)
    program.check_place(asked)
    if asked.format == "onnx":
        onnx_files.check_installed()
    return program.export(_plan(parsed, environ, printer), asked, say)


def _request(parsed: Parsed) -> ExportRequest:
    from umiak.train.exporting.program import ExportRequest

    return ExportRequest(
        format=parsed.text("format"),
        out=os.path.abspath(parsed.text("out")),
        tables=tuple([each.strip() for each in parsed.text("table").split(",") if each.strip()]),
        largest_table=parsed.number("largest_table") or 0,
        overwrite=parsed.truth("overwrite"),
    )


def _plan(parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> Plan:
    from umiak.cli.predict.command import plan_of

    return plan_of(parsed, environ, printer)


def _check_request(parsed: Parsed) -> None:
    problems = [*parsed.problems]
    example = "`umiak export -m ctr --format onnx --out ctr-onnx`"
    if parsed.program:
        problems.append(Problem(code="UM-CLI-005", what=f"unexpected argument: {parsed.program[0]}"))
    kind, of_tables = parsed.text("format"), parsed.text("format") in TABLE_FORMATS
    missing = [name for name in ("format", "out") if not parsed.said(name)]
    problems += [Problem(code="UM-EXPORT-005", what=f"--{name} is missing", hint=example) for name in missing]
    if not parsed.said("model") and not (of_tables and parsed.said("checkpoint")):
        what = "-m is missing" if kind and not of_tables else "neither -m nor --checkpoint says what is exported"
        problems.append(Problem(code="UM-EXPORT-005", what=what, hint=example))
    if parsed.said("table") and kind and not of_tables:
        what = f"--table has no meaning with --format {kind}: a model has all of its tables"
        problems.append(Problem(code="UM-EXPORT-005", what=what, hint="--largest_table, with onnx"))
    if parsed.said("largest_table") and kind and kind != "onnx":
        problems.append(Problem(code="UM-EXPORT-005", what=f"--largest_table has no meaning with --format {kind}"))
    out = parsed.text("out")
    if out and not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        what = f"there is no directory {os.path.dirname(os.path.abspath(out))}"
        problems.append(Problem(code="UM-EXPORT-005", what=what))
    if kind == "parquet" and not _has("pyarrow"):
        hint = "python -m pip install pyarrow, or --format safetensors"
        problems.append(
            Problem(code="UM-EXPORT-002", what="Parquet is written with pyarrow, which is not installed", hint=hint)
        )
    if problems:
        raise UmiakError(*problems)


def _has(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None
