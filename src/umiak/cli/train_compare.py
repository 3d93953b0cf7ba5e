"""`umiak train --compare plain`: what is to be compared, and how it came out. A program.

    problems(parsed)                          flags that do not go together
    main(plan, parsed, environ, printer)      the exit status: 0 equal, 4 different
    static(parsed, environ, printer)          the same for a static program

What trains, on either side, is another process (`umiak.train.compare`).
"""

from __future__ import annotations

import json
import os
import sys

from umiak.adapters import own_modules
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema.findings import Place
from umiak.train.config.values import RunnerClass
from umiak.train.plan.plan import RunRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.cli.output import Printer
    from umiak.core.json_types import JsonObject
    from umiak.schema.flags import Parsed
    from umiak.train.compare.program import CompareRequest
    from umiak.train.plan.plan import Plan, Run

STEPS = 8
TOLERANCE = 1e-5
SEED = 12345
"""That of PaddleRec's trainers, where a config says none."""
STATIC = "umiak.train.compare.fleet_static"
NOT_WITH = ("resume", "on", "backend", "explain", "check", "survey", "record")


def problems(parsed: Parsed) -> list[Problem]:
    """Of the flags about comparing."""
    problems = []
    if parsed.said("compare"):
        for name in NOT_WITH:
            if parsed.truth(name) if name in ("resume", "explain", "check") else parsed.said(name):
                what = f"{parsed['compare'].said_as} and {parsed[name].said_as}"
                problems.append(Problem(code="UM-CLI-080", what=what, hint="say one of them"))
        if (tolerance := _number(parsed.text("tolerance"))) is None or not 0 < tolerance < 1:
            what = f"--tolerance: {parsed.text('tolerance')}"
            problems.append(Problem(code="UM-CLI-082", what=what, hint="expected a number between 0 and 1, as in 1e-5"))
        return problems
    for name in ("steps", "tolerance"):
        if parsed.said(name) and not (name == "steps" and parsed.said("record")):
            what = f"{parsed[name].said_as} without --compare"
            problems.append(Problem(code="UM-CLI-081", what=what, hint="add `--compare plain`"))
    if parsed.said("record") and not parsed.said("steps"):
        problems.append(Problem(code="UM-CLI-081", what="--record without --steps", hint="say how many: `--steps 8`"))
    return problems


def main(plan: Plan, parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> int:
    """Train both ways, and tell what differs."""
    from umiak.train.compare import program
    from umiak.train.compare.values import ModelKind

    run = _chosen(plan)
    request = program.CompareRequest(
        ours=_command(plan, run, parsed),
        kind=ModelKind.DYGRAPH,
        mode=run.group.mode if run.group.role is not RunRole.ALONE else "alone",
        tolerance=_number(parsed.text("tolerance")) or TOLERANCE,
        environ=dict(environ),
    )
    return _told(request, plan.config, parsed, printer)


def static(parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> int:
    """The same for the static program beside a config, which `umiak train` itself does not train."""
    from umiak.train.compare import program
    from umiak.train.compare.values import ModelKind

    facts = _static_facts(parsed, environ)
    servers, trainers = facts["servers"], facts["trainers"]
    start = [sys.executable, *own_modules.start_words("umiak.cli.main"), "launch", "--log_dir", "{directory}/logs"]
    start += ["--server_num", str(servers), "--trainer_num", str(trainers), "-m"]
    words = [*start, STATIC] if servers else [sys.executable, *own_modules.start_words(STATIC)]
    request = program.CompareRequest(
        ours=(*words, "{directory}"),
        kind=ModelKind.STATIC,
        mode="sync" if servers else "alone",
        tolerance=_number(parsed.text("tolerance")) or TOLERANCE,
        environ={**environ, "FLAGS_enable_pir_api": "0"},
        facts=facts,
    )
    return _told(request, parsed.text("model"), parsed, printer)


def _told(request: CompareRequest, config: str, parsed: Parsed, printer: Printer) -> int:
    from umiak.train.compare import program, report
    from umiak.train.compare.values import CompareVerdict

    outcome = program.compare(request, (lambda _: None) if parsed.truth("quiet") else printer.talk)
    if parsed.truth("json"):
        printer.data(json.dumps({"config": config, **report.data(outcome)}, indent=2))
    else:
        printer.data(report.text(outcome))
    return Exit.DONE if outcome.verdict is CompareVerdict.EQUAL else Exit.DIFFERS


def _static_facts(parsed: Parsed, environ: Mapping[str, str]) -> JsonObject:
    """What both sides have to know. UmiakError if the config can't be read, or has no static program beside it."""
    from umiak.adapters import trusted_files
    from umiak.schema import yaml_tree
    from umiak.schema.findings import Findings
    from umiak.train.config import load, overrides
    from umiak.train.config.paddlerec.directory import STATIC as FILE
    from umiak.train.config.paddlerec.dotted import dotted, retyped

    source = load.read(load.find(parsed.text("model"), load.installed()))
    said, findings = parsed.texts.get("override", ()), Findings()
    root = yaml_tree.parse(source.text, source.path, findings)
    if not isinstance(root, yaml_tree.Section):
        findings.problem("UM-CONFIG-003", Place(source=source.path), "not a mapping")
        raise UmiakError(*findings.problems)
    tree = overrides.apply(root, said, findings)
    UmiakError.raise_any(findings.problems)
    config = dotted(retyped(yaml_tree.free(root), yaml_tree.free(tree), said), os.path.abspath(source.path))
    model = os.path.join(os.path.abspath(source.directory), FILE)
    reader = os.path.join(os.path.dirname(model), f"{config.get('runner.train_reader_path', 'reader')}.py")
    missing = [path for path in (model, reader) if not os.path.isfile(path)]
    if missing:
        what = f"no static program can be compared: {missing[0]} is not there"
        raise UmiakError.of("UM-TRAIN-586", what, hint="name a config with a static_model.py beside it")
    trusted_files.check_chosen(source.path, (model, reader), environ)
    strategy = str(config.get("runner.sync_mode") or "").lower()
    trainers = int(config.get("runner.worker_num") or 1) if strategy else 1
    if strategy not in ("", "sync") and trainers > 1:
        raise _not_in_step(trainers, strategy)
    return {
        "model": model,
        "config": config,
        "seed": int(config.get("runner.seed") or SEED),
        "steps": parsed.number("steps") or STEPS,
        "trainers": trainers,
        "servers": int(config.get("runner.server_num") or 1) if strategy else 0,
    }


def _command(plan: Plan, run: Run, parsed: Parsed) -> tuple[str, ...]:
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
    # A reader gets the whole config: it finds a mode in it only if the config, or its user, says one.
    is_alone = len(plan.runs) == 1
    for said in parsed.texts.get("override", ()):
        if is_alone or not said.startswith("mode="):
            words += ["-o", said]
    return (*words,) if is_alone else (*words, "-o", f"mode={json.dumps([run.name])}")


def _chosen(plan: Plan) -> Run:
    """The runner that is compared. UmiakError if it is not one, or one that can't be."""
    trained = [run for run in plan.runs if run.kind is not RunnerClass.INFER]
    if len(trained) != 1:
        names = ", ".join(run.name for run in trained) or "none"
        what = f"one runner that trains can be compared at a time, and mode has {names}"
        raise UmiakError.of("UM-TRAIN-584", what, hint="choose it: `-o mode=NAME`", where=plan.config)
    (run,) = trained
    if run.runner.online is not None or len(run.stages) != 1:
        what = f"runner {run.name} can't be compared: " + (
            "it learns online" if run.runner.online is not None else f"it has {len(run.stages)} phases"
        )
        hint = "compare a runner of class train or local_cluster_train with one phase"
        raise UmiakError.of("UM-TRAIN-584", what, hint=hint, where=plan.config)
    _check_order(run)
    return run


def _check_order(run: Run) -> None:
    """Trainers that do not wait for one another take no steps that could be compared one by one."""
    group = run.group
    is_in_step = group.strategy is None or group.strategy.value == "sync"
    if (group.trainers or 1) > 1 and not is_in_step:
        raise _not_in_step(group.trainers or 1, group.mode)


def _not_in_step(trainers: int, mode: str) -> UmiakError:
    return UmiakError.of(
        "UM-TRAIN-585",
        f"{trainers} trainers in {mode} differ from plain Paddle, and from run to run",
        why="a gradient counts when it arrives, and is computed from values that others have changed meanwhile",
        hint="compare them in sync, `-o runner.sync_mode=sync`, or one trainer: `-o runner.worker_num=1`",
    )


def _number(text: str) -> float | None:
    """None: it is none; nothing said is the default."""
    if not text:
        return TOLERANCE
    try:
        return float(text)
    except ValueError:
        return None
