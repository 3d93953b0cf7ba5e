"""`umiak train --compare plain`: what is to be compared, and how it came out. A program.

    problems(parsed)                          flags that do not go together
    main(plan, parsed, environ, printer)      the exit status: 0 equal, 4 different

What trains, on either side, is another process (`umiak.train.compare`).
"""

from __future__ import annotations

import json
import sys

from umiak.adapters import own_modules
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.train.config.values import RunnerClass
from umiak.train.plan.plan import RunRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.train.plan.plan import Plan, Run

STEPS = 8
TOLERANCE = 1e-5
NOT_WITH = ("resume", "on", "backend", "explain", "check", "survey", "record")


def problems(parsed: Parsed) -> list[Problem]:
    """Of the flags about comparing."""
    found = []
    if parsed.said("compare"):
        for name in NOT_WITH:
            if parsed.truth(name) if name in ("resume", "explain", "check") else parsed.said(name):
                what = f"{parsed['compare'].said_as} and {parsed[name].said_as}"
                found.append(Problem(code="UM-CLI-080", what=what, hint="say one of them"))
        if (tolerance := _number(parsed.text("tolerance"))) is None or not 0 < tolerance < 1:
            what = f"--tolerance: {parsed.text('tolerance')}"
            found.append(Problem(code="UM-CLI-082", what=what, hint="expected a number between 0 and 1, as in 1e-5"))
        return found
    for name in ("steps", "tolerance"):
        if parsed.said(name) and not (name == "steps" and parsed.said("record")):
            what = f"{parsed[name].said_as} without --compare"
            found.append(Problem(code="UM-CLI-081", what=what, hint="add `--compare plain`"))
    if parsed.said("record") and not parsed.said("steps"):
        found.append(Problem(code="UM-CLI-081", what="--record without --steps", hint="say how many: `--steps 8`"))
    return found


def main(plan: Plan, parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> int:
    """Train both ways, and tell what differs."""
    from umiak.train.compare import program, report
    from umiak.train.compare.values import CompareVerdict, ModelKind

    run = _chosen(plan)
    outcome = program.compare(
        program.CompareRequest(
            ours=_command(run, parsed),
            kind=ModelKind.DYGRAPH,
            mode=run.group.mode if run.group.role is not RunRole.ALONE else "alone",
            tolerance=_number(parsed.text("tolerance")) or TOLERANCE,
            environ=dict(environ),
        ),
        (lambda _: None) if parsed.truth("quiet") else printer.talk,
    )
    if parsed.truth("json"):
        printer.data(json.dumps({"config": plan.config, **report.data(outcome)}, indent=2))
    else:
        printer.data(report.text(outcome))
    return Exit.DONE if outcome.verdict is CompareVerdict.EQUAL else Exit.DIFFERS


def _command(run: Run, parsed: Parsed) -> tuple[str, ...]:
    """umiak's side: the same config, recorded."""
    words = [sys.executable, *own_modules.start_words("umiak.cli.main"), "train", "-m", parsed.text("model"), "--quiet"]
    words += [
        "--record",
        "{directory}",
        "--steps",
        str(parsed.number("steps") or STEPS),
        "--run_dir",
        "{directory}/run",
    ]
    if parsed.said("topology"):
        words += ["--topology", parsed.text("topology")]
    for said in parsed.texts.get("override", ()):
        if not said.startswith("mode="):
            words += ["-o", said]
    return (*words, "-o", f"mode={json.dumps([run.name])}")


def _chosen(plan: Plan) -> Run:
    """The runner that is compared. UmiakError if it is not one, or one that can't be."""
    trained = [run for run in plan.runs if run.kind is not RunnerClass.INFER]
    if len(trained) != 1:
        names = ", ".join(run.name for run in trained) or "none"
        what = f"one runner that trains can be compared at a time, and mode has {names}"
        raise UmiakError(Problem(code="UM-TRAIN-584", what=what, hint="choose it: `-o mode=NAME`", where=plan.config))
    (run,) = trained
    if run.runner.online is not None or len(run.stages) != 1:
        what = f"runner {run.name} can't be compared: " + (
            "it learns online" if run.runner.online is not None else f"it has {len(run.stages)} phases"
        )
        hint = "compare a runner of class train or local_cluster_train with one phase"
        raise UmiakError(Problem(code="UM-TRAIN-584", what=what, hint=hint, where=plan.config))
    _check_order(run)
    return run


def _check_order(run: Run) -> None:
    """Trainers that do not wait for one another take no steps that could be compared one by one."""
    group = run.group
    is_in_step = group.strategy is None or group.strategy.value == "sync"
    if (group.trainers or 1) > 1 and not is_in_step:
        raise UmiakError(
            Problem(
                code="UM-TRAIN-585",
                what=f"{group.trainers} trainers in {group.mode} differ from plain Paddle, and from run to run",
                why="a gradient counts when it arrives, and is computed from values that others have changed meanwhile",
                hint="compare them in sync, `-o runner.sync_mode=sync`, or one trainer: `-o runner.worker_num=1`",
            )
        )


def _number(text: str) -> float | None:
    """None: it is none; nothing said is the default."""
    if not text:
        return TOLERANCE
    try:
        return float(text)
    except ValueError:
        return None
