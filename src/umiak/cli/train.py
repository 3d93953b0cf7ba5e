"""`umiak train`: reads a config, makes the plan, and shows it or hands it to the trainer. A program.

    main(argv, environ, printer)    the command itself

Whatever is asked for, the whole config is checked first, and everything that is wrong with it is told at once.
"""

from __future__ import annotations

from umiak.cli.train_flags import FLAGS, OF_A_SUBMISSION
from umiak.contracts.paddle import PADDLEREC_ROLE
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import replace, value
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from umiak.cli.output import Printer
    from umiak.core.json_types import JsonObject
    from umiak.schema.flags import Parsed
    from umiak.train.plan.plan import Plan

PADDLE = "paddlepaddle"
PACKAGES = {"yaml": "PyYAML", "numpy": "numpy", "umiak_native": "umiak's native core", "paddle": "PaddlePaddle"}
"""What training imports, and how people call it."""


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak train`. The result is the exit status."""
    parsed = parse(argv, environ)
    if parsed.wants_help:
        return printer.page("train")
    if parsed.wants_version:
        from umiak.adapters.version import version

        printer.data(f"umiak {version()}")
        return Exit.DONE
    if parsed.truth("schema") and not parsed.problems:
        from umiak.train.config import json_schema

        printer.data(json_schema.text().rstrip())
        return Exit.DONE
    if parsed.said("survey") and not parsed.problems:
        return _survey(parsed, printer)
    _check_request(parsed)
    if _is_submitted(parsed, environ):
        from umiak.cli import train_submit

        return train_submit.main(parsed, environ, printer)
    _check_installed(parsed)
    if parsed.text("compare") == "static":
        from umiak.cli import train_compare

        return train_compare.static(parsed, environ, printer)
    found = examined(parsed, environ)
    return _answer(parsed, checked(found) if parsed.truth("check") else found, environ, printer)


def _survey(parsed: Parsed, printer: Printer) -> int:
    """Every config below a directory, judged."""
    from umiak.core.shown import inert
    from umiak.train.survey import rows
    from umiak.train.survey.look import look

    if parsed.said("model"):
        raise UmiakError.of("UM-TRAIN-005", "--survey and -m", hint="say one of them")
    made = look(parsed.text("survey"))
    if parsed.truth("json"):
        import json

        printer.data(json.dumps(rows.data(made), indent=2))
    else:
        printer.data(inert(rows.text(made)))
    return Exit.DONE


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Parsed:
    """The command line, read; mistakes in it are in ``problems``."""
    return command_line.parse(FLAGS, argv, environ, command="umiak train", starts_program=False)


def _check_request(parsed: Parsed) -> None:
    problems = [*parsed.problems]
    if not parsed.said("model") and not any(problem.code == "UM-CLI-005" for problem in problems):
        problems.append(
            Problem(
                code="UM-TRAIN-001",
                what="nothing to train: -m is missing",
                hint="name a config: `umiak train -m config.yaml`",
            )
        )
    if parsed.said("on") and parsed.said("backend"):
        what = f"{parsed['on'].spoken} and {parsed['backend'].spoken}"
        problems.append(Problem(code="UM-TRAIN-005", what=what, hint="each names a place: say one of them"))
    for name in () if parsed.said("on") or parsed.said("backend") else OF_A_SUBMISSION:
        if parsed.said(name):
            what = f"{parsed[name].said_as} without a place"
            problems.append(Problem(code="UM-TRAIN-005", what=what, hint="add `--on PLACE` or `-b backend.yaml`"))
    if parsed.truth("explain") and parsed.truth("check"):
        problems.append(Problem(code="UM-TRAIN-005", what="--explain and --check", hint="say one of them"))
    if parsed.said("compare") or parsed.said("record") or parsed.said("steps") or parsed.said("tolerance"):
        from umiak.cli import train_compare

        problems += train_compare.problems(parsed)
    UmiakError.raise_any(problems)


def _is_submitted(parsed: Parsed, environ: Mapping[str, str]) -> bool:
    """Whether this command sends the config elsewhere. On a node that it was sent to, the same command trains."""
    if parsed.truth("explain") or parsed.truth("check"):
        return False
    is_node = environ.get(PADDLEREC_ROLE, "").strip().upper() == "WORKER"
    return (parsed.said("on") or parsed.said("backend")) and not is_node


@value
class Examined:
    """What came of a config: a plan, or problems; and warnings in any case."""

    plan: Plan | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    exit_status: int = Exit.DONE
    seen: str = ""
    """What a check has looked at, in words."""


def examined(parsed: Parsed, environ: Mapping[str, str]) -> Examined:
    """The config, read and checked, and the plan for this process."""
    from umiak import platforms
    from umiak.adapters import trusted_files
    from umiak.contracts import seat
    from umiak.train.config import layouts, load
    from umiak.train.plan.plan import code_of, plan
    from umiak.train.plan.process_role import process_role

    warnings: tuple[Problem, ...] = ()
    try:
        overrides = parsed.texts.get("override", ())
        source, reading = load.load(parsed.text("model"), overrides)
        warnings = reading.warnings
        if reading.config is None:
            problems = tuple(reading.problems)
            return Examined(plan=None, problems=problems, warnings=warnings, exit_status=Exit.BAD_REQUEST)
        only = parsed.text("topology").lower() or None
        placement = None if seat.is_own(environ) else platforms.detect(environ, only=only)
        made = plan(reading.config, process_role(environ, placement), source.path)
        trusted_files.check_chosen(source.path, code_of(made), environ)
        made = replace(made, written=layouts.written(source.text, reading.config, source=source.path, said=overrides))
    except UmiakError as error:
        return Examined(plan=None, problems=error.problems, warnings=warnings, exit_status=error.exit_status)
    return Examined(plan=made, warnings=warnings)


def checked(found: Examined) -> Examined:
    """The same, with what a look at models, reader classes and data has brought."""
    if found.plan is None:
        return found
    from umiak.train.run import checks
    from umiak.train.survey.obstacles import untold

    more = checks.examine(found.plan)
    problems = (*more.problems, *untold(found.plan, more.problems))
    warnings = (*found.warnings, *more.warnings)
    if problems:
        return Examined(plan=None, problems=problems, warnings=warnings, exit_status=Exit.BAD_REQUEST)
    return Examined(plan=found.plan, warnings=warnings, seen=more.seen)


def _answer(parsed: Parsed, found: Examined, environ: Mapping[str, str], printer: Printer) -> int:
    if parsed.truth("json") and (parsed.truth("explain") or parsed.truth("check")):
        return _answer_as_json(parsed, found, printer)
    printer.problems(found.warnings, "warning")
    if found.plan is None:
        raise UmiakError(*found.problems, exit_status=found.exit_status)
    if parsed.truth("check"):
        if not parsed.truth("quiet"):
            printer.talk(f"{found.plan.config}: nothing is wrong: {found.seen} were looked at")
        return Exit.DONE
    if parsed.truth("explain"):
        from umiak.core.shown import inert
        from umiak.train.plan import explain
        from umiak.train.run import checks

        encoding = (getattr(printer.out, "encoding", None) or "utf-8").lower().replace("-", "")
        printer.data(inert(explain.text(found.plan, plain=encoding != "utf8", tables=checks.tables(found.plan))))
        return Exit.DONE
    return _train(found.plan, parsed, environ, printer)


def _answer_as_json(parsed: Parsed, found: Examined, printer: Printer) -> int:
    import json

    from umiak.core.decode import encode
    from umiak.core.shown import without_passwords

    answer = {"problems": encode(found.problems), "warnings": encode(found.warnings)}
    if parsed.truth("explain"):
        from umiak.train.run import checks

        answer["tables"] = checks.tables(found.plan) if found.plan else {}
        answer["plan"] = found.plan and without_passwords(_spelled(encode(replace(found.plan, written={}))))
    printer.data(json.dumps(answer, indent=2))
    return found.exit_status


def _spelled(plan: Any) -> JsonObject:
    """A plan's keys in the words of the field, and those of each runner beside its processes and phases."""
    runs = []
    for run in plan.pop("runs"):
        runner, group = run["runner"], run["group"]
        evaluated = runner.pop("evaluation") or {}
        runs.append(
            {
                **runner,
                "process_group": group,
                "phases": run["stages"],
                "evaluation": run["evaluation"],
                "patience": evaluated.get("patience"),
                "stop_metric": evaluated.get("metric"),
            }
        )
    return {"runs": runs, **plan}


def _train(made: Plan, parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> int:
    from umiak.cli import train_start
    from umiak.train.plan.plan import RunRole, obstacles
    from umiak.train.survey.obstacles import in_code

    in_the_way = [*obstacles(made), *_missing_packages(made)]
    UmiakError.raise_any(in_the_way or in_code(made))
    if parsed.said("compare"):
        from umiak.cli import train_compare

        return train_compare.main(made, parsed, environ, printer)
    for number, run in enumerate(made.runs, start=1):
        if run.group.role is RunRole.LAUNCHER:
            ended = train_start.launched(run, parsed, environ, printer)
        else:
            from umiak.train.run.main import RunOptions, execute

            options = RunOptions(
                resume=parsed.truth("resume"),
                run_dir=parsed.text("run_dir"),
                is_json=parsed.truth("json"),
                is_quiet=parsed.truth("quiet"),
                columns=parsed.number("live"),
                record_dir=parsed.text("record"),
                record_steps=parsed.number("steps") or 0,
            )
            ended = execute(run, made, options, environ)
        if ended.status != Exit.DONE:
            return ended.status
        if ended.stopped_by is not None and number < len(made.runs):
            printer.talk(f"stopped: runner {made.runs[number].name} is not begun")
            return 128 + ended.stopped_by
    return Exit.DONE


def _missing_packages(made: Plan) -> list[Problem]:
    """What is not installed here and will be imported: told before anything is started, without importing it."""
    from umiak.train.plan.plan import RunRole

    roles = {run.group.role for run in made.runs} - {RunRole.IDLE}
    needed = ["numpy", "umiak_native"] if roles else []
    if roles - {RunRole.SERVER}:
        needed.append("paddle")
    missing = _not_installed(needed)
    return [_to_install("UM-TRAIN-006", missing)] if missing else []


def _check_installed(parsed: Parsed) -> None:
    """Where not even the config can be read, everything that training needs is named at once."""
    if _not_installed(["yaml"]):
        needs_all = not (parsed.truth("explain") or parsed.truth("check"))
        raise UmiakError(_to_install("UM-CONFIG-006", _not_installed(PACKAGES if needs_all else ["yaml"])))


def check_installed(names: Iterable[str]) -> None:
    """UmiakError with one command that installs what is missing of these packages."""
    if missing := _not_installed(names):
        raise UmiakError(_to_install("UM-TRAIN-006", missing))


def _not_installed(names: Iterable[str]) -> list[str]:
    import importlib.util

    return [name for name in names if importlib.util.find_spec(name) is None]


def _to_install(code: str, names: list[str]) -> Problem:
    """One command for all of them."""
    from umiak.adapters import installation

    what = f"training needs what is not installed: {', '.join(PACKAGES[name] for name in names)}"
    if names == ["yaml"]:
        return Problem(code=code, what=what, hint="python -m pip install pyyaml")
    if names == ["paddle"]:
        return Problem(
            code=code, what=what, hint=f"python -m pip install {PADDLE}, or the build of it for your devices"
        )
    others = (PADDLE,) if "paddle" in names else ()
    return Problem(code=code, what=what, hint=installation.command("train", *others))
