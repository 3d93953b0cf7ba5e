"""`umiak predict`: reads a config, chooses model and data, and hands them to the predictor. A program."""

from __future__ import annotations

import json
import os
import signal
import sys

from umiak.adapters import kernel_requests
from umiak.cli.predict.flags import FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import replace
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.train.plan.plan import Plan


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak predict`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak predict", starts_program=False)
    if parsed.wants_help:
        return printer.page("predict")
    _check_request(parsed)
    from umiak.cli.train import check_installed

    check_installed(("yaml", "numpy", "umiak_native", "paddle"))
    plan = plan_of(parsed, environ, printer, is_worker=parsed.truth("part_worker"))
    from umiak.train.predicting import program

    options = program.PredictOptions(
        out=os.path.abspath(parsed.text("out")),
        keep=tuple([each.strip() for each in parsed.text("keep").split(",") if each.strip()]),
        workers=parsed.number("workers") or 1,
        resume=parsed.truth("resume"),
        part_rows=parsed.number("part_rows") or program.PART_ROWS,
        worker_words=("predict", *argv, "--part_worker"),
    )
    if parsed.truth("part_worker"):
        # A prediction that is resumed writes the same files: no worker of the one that was killed may still do so.
        kernel_requests.ask_for_death_signal(signal.SIGKILL)
        # What a model prints must not stand among the answers.
        answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        program.serve_parts(plan, options, iter(sys.stdin), lambda line: answers.write(f"{line}\n"))
        return Exit.DONE

    def say(line: str) -> None:
        if not parsed.truth("quiet"):
            printer.talk(line)

    try:
        done = program.predict(plan, options, say)
    except UmiakError as error:
        raise UmiakError(*map(_for_predictions, error.problems), exit_status=error.exit_status) from error
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        hint = "with --resume it goes on where it was, if there is room and it may be written"
        raise UmiakError.refused("UM-PREDICT-011", what, hint=hint) from error
    if parsed.truth("json"):
        rate = done.rows / done.seconds if done.seconds else 0.0
        summary = {
            "out": done.out,
            "rows": done.rows,
            "seconds": round(done.seconds, 3),
            "rows_per_s": round(rate, 1),
            "parts": done.parts,
            "resumed_parts": done.resumed,
            "checkpoint": done.checkpoint,
        }
        printer.data(json.dumps(summary, indent=2))
    else:
        say(f"{done.rows:,} rows in {done.seconds:.1f}s: {parsed.text('out')}")
    return Exit.DONE


def _for_predictions(problem: Problem) -> Problem:
    """The reader's advice to let bad lines pass has no effect here."""
    if "bad_lines" not in (problem.hint or ""):
        return problem
    return replace(problem, hint="correct the line: each row of the data has a row of the output")


def _has_effect(warning: Problem) -> bool:
    """Whether it is of a key that has none in training alone: models of PaddleRec 1.8.5 answer with what it names."""
    return warning.code == "UM-CONFIG-018" and warning.what.endswith("save_inference_fetch_varnames")


def plan_of(parsed: Parsed, environ: Mapping[str, str], printer: Printer, *, is_worker: bool = False) -> Plan:
    """The config with one runner that evaluates one phase, on the data that was asked for.
    UmiakError with everything that is wrong.
    """
    from umiak.adapters import trusted_files
    from umiak.train.config import layouts, load
    from umiak.train.plan.plan import code_of, plan
    from umiak.train.plan.process_role import ProcessRole
    from umiak.train.predicting.choosing import PredictRequest, choose

    overrides = parsed.texts.get("override", ())
    source, reading = load.load(parsed.text("model"), overrides)
    if reading.config is None:
        raise UmiakError(*reading.problems)
    if not is_worker:
        printer.problems([each for each in reading.warnings if not _has_effect(each)], "warning")
    asked = PredictRequest(data=parsed.text("data"), checkpoint=parsed.text("checkpoint"), phase=parsed.text("phase"))
    chosen = choose(reading.config, asked)
    made = plan(chosen.config, ProcessRole(), source.path)
    trusted_files.check_chosen(source.path, code_of(made), environ)
    return replace(made, written=layouts.written(source.text, reading.config, source=source.path, said=overrides))


def _check_request(parsed: Parsed) -> None:
    problems = [*parsed.problems]
    if parsed.program:
        problems.append(Problem(code="UM-CLI-005", what=f"unexpected argument: {parsed.program[0]}"))
    for name, spoken in (("model", "-m"), ("out", "--out")):
        if not parsed.said(name):
            hint = "`umiak predict -m config.yaml --data PATH --out scores.csv`"
            problems.append(Problem(code="UM-PREDICT-009", what=f"{spoken} is missing", hint=hint))
    out = parsed.text("out")
    if out:
        problems += _problems_of_out(parsed, os.path.abspath(out))
    if problems:
        raise UmiakError(*problems)


def _problems_of_out(parsed: Parsed, out: str) -> list[Problem]:
    problems = []
    if os.path.isdir(out) or out.endswith(os.sep):
        problems.append(Problem(code="UM-PREDICT-009", what=f"--out is a directory: {out}", hint="name a file"))
    elif not os.path.isdir(os.path.dirname(out)):
        problems.append(Problem(code="UM-PREDICT-009", what=f"there is no directory {os.path.dirname(out)}"))
    elif os.path.exists(out) and not parsed.truth("overwrite"):
        what = f"the output is there already: {out}"
        problems.append(Problem(code="UM-PREDICT-006", what=what, hint="--overwrite replaces it"))
    if out.lower().endswith((".parquet", ".pq")):
        import importlib.util

        if importlib.util.find_spec("pyarrow") is None:
            what = "Parquet is written with pyarrow, which is not installed"
            hint = "python -m pip install pyarrow, or let --out end in .csv"
            problems.append(Problem(code="UM-PREDICT-010", what=what, hint=hint))
    return problems
