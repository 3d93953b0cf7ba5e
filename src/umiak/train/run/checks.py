"""What `umiak train --check` looks at besides the config: models, reader classes, data, directories. An adapter.

    found = examine(plan)
    found.problems          everything that would stop the run, at once
    found.warnings          what could not be looked at here, and devices that this machine does not have

Nothing is trained and nothing is written. Files of models are read first and, where PaddlePaddle is installed, imported by a process of their own, so that
one that never ends, exits or crashes does not take the check with it. Of the data the first lines are read.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from umiak.adapters import own_modules
from umiak.core.decode import decode
from umiak.core.problem import Problem, UmiakError
from umiak.core.value import replace, value
from umiak.train.config.values import Dataset, Device, Online, RunnerClass
from umiak.train.engines import model_text
from umiak.train.engines.engine import ModelFindings
from umiak.train.plan.plan import Plan, Run, Stage, visible_settings

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.train.reading.finding import Files

IMPORT_LIMIT_S = 120.0
"""A model whose file takes longer to import does something else."""
FIRST_SAMPLES = 100
"""So many samples of a reader class are looked at."""
NEEDED_FOR_DATA = ("numpy", "umiak_native")


@value
class CheckFindings:
    """What came of looking."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    seen: str = ""
    """What was looked at, in words."""


def examine(plan: Plan) -> CheckFindings:
    """Look at everything that a plan needs."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    stages = [each for run in plan.runs for each in _stages(run)]
    models = tuple(dict.fromkeys(stage.model for stage in stages))
    can_import = importlib.util.find_spec("paddle") is not None and not _missing(NEEDED_FOR_DATA)
    readable = [model for model in models if not _add(problems, _model(model, plan, by_text=not can_import))]
    if can_import:
        for model in readable:
            _add(problems, _imported(model, plan, warnings))
        warnings += _devices(plan)
    elif models:
        warnings.append(_not_seen(f"whether {', '.join(models)} can be imported", ["paddle", *NEEDED_FOR_DATA]))
    datasets = _datasets(plan)
    missing = _missing(NEEDED_FOR_DATA)
    for dataset, online in datasets:
        if missing:
            _add(problems, _reader_text(dataset))
        else:
            _add(problems, _data(dataset, online, plan))
    if missing:
        warnings.append(_not_seen("the data", NEEDED_FOR_DATA))
    _add(problems, _directories(plan))
    counts = [_count(len(models), "model"), _count(len(datasets), "dataset")]
    return CheckFindings(
        problems=tuple(dict.fromkeys(problems)),
        warnings=tuple(dict.fromkeys(warnings)),
        seen=f"the config, {counts[0]} and the first lines of {counts[1]}"
        if not missing
        else f"the config, {counts[0]}",
    )


def _add(problems: list[Problem], found: Iterator[Problem]) -> bool:
    """Take in what was found; whether it was anything."""
    before = len(problems)
    try:
        problems.extend(found)
    except UmiakError as error:
        problems.extend(error.problems)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        problems.append(Problem(code="UM-TRAIN-023", what=what))
    return len(problems) > before


def _stages(run: Run) -> list[Stage]:
    return [*run.stages, *([run.evaluation] if run.evaluation else [])]


def _datasets(plan: Plan) -> list[tuple[Dataset, Online | None]]:
    found: dict[str, tuple[Dataset, Online | None]] = {}
    for run in plan.runs:
        # What is evaluated beside a stream has no days either.
        is_streaming = any(stage.dataset.stream is not None for stage in run.stages)
        for stage in _stages(run):
            found.setdefault(stage.dataset.name, (stage.dataset, None if is_streaming else run.runner.online))
    return list(found.values())


# ---- models


def _model(path: str, plan: Plan, *, by_text: bool) -> Iterator[Problem]:
    text = _text(path, "UM-TRAIN-013", "the model's file", plan.config)
    seen = model_text.look(text, path)
    yield from seen.problems
    if model_text.is_dygraph(seen):
        if lacking := model_text.lacking(seen):
            what = f"class {model_text.DYGRAPH} of {path} has no {', no '.join(lacking)}"
            yield Problem(code="UM-TRAIN-013", what=what, where=path)
        return
    if problem := model_text.missing(
        seen, "Model", path, code="UM-TRAIN-013", hint="a file of a model has a class Model"
    ):
        yield problem
    elif by_text and seen.hyper is not None:
        from dataclasses import field, make_dataclass

        from umiak.train.engines import hyper

        fields = [(each.name, Any, field(default=None) if each.is_optional else field()) for each in seen.hyper]
        hyper.typed(make_dataclass("Hyper", fields, kw_only=True), plan.hyper_parameters, plan.config)


def _imported(path: str, plan: Plan, warnings: list[Problem]) -> Iterator[Problem]:
    """What a process finds that imports it."""
    answer = yield from _asked(path, plan)
    if answer is not None:
        warnings += answer.warnings


def tables(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Lines about the tables of models in the form of PaddleRec 2, by their files. Each is made for it, in a process of its own."""
    found: dict[str, tuple[str, ...]] = {}
    for model in dict.fromkeys(stage.model for run in plan.runs for stage in run.stages):
        try:
            seen = model_text.look(_text(model, "UM-TRAIN-013", "the model's file", None), model)
        except (OSError, UmiakError):
            continue  # a plan can be shown where its files are not
        if not model_text.is_dygraph(seen):
            continue
        if importlib.util.find_spec("paddle") is None or _missing(NEEDED_FOR_DATA):
            found[model] = ("not known here, where PaddlePaddle is not installed",)
            continue
        problems: list[Problem] = []
        answers: list[ModelFindings] = []
        _add(problems, _kept(_asked(model, plan), answers))
        lines = [line for each in answers for line in each.tables]
        found[model] = (*lines, *(f"problem: {each.what} ({each.where or model})" for each in problems))
    return found


def _kept(asking: Generator[Problem, None, ModelFindings | None], answers: list[ModelFindings]) -> Iterator[Problem]:
    answer = yield from asking
    answers += [answer] if answer is not None else []


def _asked(path: str, plan: Plan) -> Generator[Problem, None, ModelFindings | None]:
    """What a process finds that imports it: problems, and what else is to be known."""
    runs = [run for run in plan.runs if any(stage.model == path for stage in _stages(run))]
    first = next((run for run in runs if run.is_training), runs[0])
    question = {
        "model": path,
        "hyper_parameters": plan.hyper_parameters,
        "config": plan.config,
        "settings": visible_settings(plan.written, first.stages[0], first.name),
        "written": plan.written,
        "seed": first.runner.seed or 0,
        "is_shared": first.group.fleet_mode is not None,
    }
    asked = json.dumps(question, default=list)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as answers:
        try:
            process = subprocess.Popen(
                [sys.executable, *own_modules.start_words("umiak.train.run.trial"), "model", str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)
        try:
            _, said = process.communicate(asked.encode(), timeout=IMPORT_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            what = f"{path}: importing it takes longer than {IMPORT_LIMIT_S:g} s"
            yield Problem(code="UM-TRAIN-061", what=what, hint="let the file define the model, and do nothing else")
            return None
        answer = answers.read()
    if not answer:
        yield _ended(path, process.returncode, said)
        return None
    found = json.loads(answer)
    yield from (decode(Problem, each) for each in found["problems"])
    return decode(ModelFindings, found["found"])


def _ended(path: str, status: int, said: bytes) -> Problem:
    """The process has not come to an answer."""
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    lines = said.decode(errors="replace").strip().splitlines()
    return Problem(
        code="UM-TRAIN-061",
        what=f"{path}: the process that imported it ended {how}",
        why=lines[-1].strip() if lines else None,
        hint=f"`python {path}` shows more",
    )


def _devices(plan: Plan) -> list[Problem]:
    wanted = {run.runner.device for run in plan.runs} - {Device.CPU}
    if not wanted:
        return []
    words = [
        sys.executable,
        *own_modules.start_words("umiak.train.run.trial"),
        "devices",
        *sorted(each.value for each in wanted),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=IMPORT_LIMIT_S, check=False)
    return [
        Problem(
            code="UM-TRAIN-024",
            what=f"device {device} can't be used here",
            hint="write `device: cpu`, or install the build of PaddlePaddle for it; elsewhere it may be there",
            where=plan.config,
        )
        for device in done.stdout.split()
    ]


# ---- data


def _data(dataset: Dataset, online: Online | None, plan: Plan) -> Iterator[Problem]:
    from umiak.train import reading
    from umiak.train.reading import finding

    if dataset.stream is not None:
        from umiak.train.run.streams import checks

        checks.check(dataset, plan.config)
        return
    below = None
    if online is not None:
        below = _arrived(dataset, online)
        if below is None:
            return
    unreadable = [*_unreadable(dataset, below)]
    if unreadable:
        yield from unreadable
        return
    found = finding.find(dataset, below=below, without=online.data_donefile if online else None, where=plan.config)
    if not dataset.reads_files and not any(file.size for file in found.files):
        yield _nothing(dataset, "all of its files are empty", plan)
        return
    dataset = replace(dataset, reader_processes=1, batch_size=min(dataset.batch_size, FIRST_SAMPLES))
    if dataset.features is not None:
        yield from _tables(dataset, found, plan)
        return
    reading.check(
        dataset, found, where=plan.config, extra_allowed=dataset.extra_slots_allowed, bad_lines=dataset.bad_lines
    )
    told: JsonObject = {"config": plan.config, "settings": _settings(dataset, plan)}
    native: JsonObject = {"bad_lines": dataset.bad_lines} if dataset.has_slots else {}
    with reading.read(dataset, found, **told, **native) as samples:
        if next(samples, None) is None:
            yield _nothing(dataset, "none of its lines is a sample", plan)


def _tables(dataset: Dataset, found: Files, plan: Plan) -> Iterator[Problem]:
    """The columns of every file, and the first rows of one, as features if these were fitted."""
    from umiak.train.reading.tables import locks, looking, sources
    from umiak.train.reading.tables.places import TablePlaces

    assert dataset.features is not None
    lock = locks.known_or_given(dataset.features, plan.config)
    places = TablePlaces(sources.text_reading(dataset))
    for file in found.files:
        if file.size:
            try:
                looking.check_columns(places.table(file.path), looking.columns_of(dataset.features))
            except UmiakError as error:
                yield from error.problems
    rows = sources.source(dataset, lock) if lock is not None else None
    if rows is not None:
        rows.check(found)


def _settings(dataset: Dataset, plan: Plan) -> JsonObject:
    pairs = ((run, stage) for run in plan.runs for stage in _stages(run))
    run, stage = next((run, stage) for run, stage in pairs if stage.dataset.name == dataset.name)
    return visible_settings(plan.written, stage, run.name)


def _nothing(dataset: Dataset, why: str, plan: Plan) -> Problem:
    what = f"dataset {dataset.name} has no samples: {dataset.data_path}"
    return Problem(code="UM-TRAIN-019", what=what, why=why, where=plan.config)


def _unreadable(dataset: Dataset, below: tuple[str, ...] | None) -> Iterator[Problem]:
    """Every local file that can't be opened, not only the first."""
    from umiak.adapters.stores import storage
    from umiak.train.reading import finding

    if storage.is_url(dataset.data_path):
        return
    path = dataset.data_path
    for root in [path] if below is None else [finding.below_path(path, each) for each in below]:
        for name in finding.names_in(root):
            yield from _weighed(name)


def _weighed(name: str) -> tuple[Problem, ...]:
    from umiak.data import parts
    from umiak.train.reading import finding

    try:
        finding.check_plain([name])
        parts.weigh(name)
    except UmiakError as error:
        return error.problems
    return ()


def _arrived(dataset: Dataset, online: Online) -> tuple[str, ...] | None:
    """The directories of the first pass that are there; None if nothing of it is, which may come later."""
    from umiak.train.config import days
    from umiak.train.run import arrivals

    arrived = arrivals.look(online, [dataset.data_path], next(days.passes(online)))
    if arrived.awaited or (arrived.is_empty and online.data_donefile):
        return None
    if arrived.is_empty:
        raise UmiakError.of(
            "UM-TRAIN-030",
            f"the first pass has no data: {', '.join(arrived.missing[:4])}",
            why="there is no data_donefile to wait for",
            hint="correct data_path, start_day or end_day; or write `data_donefile:`, and a pass is waited for",
        )
    return arrived.there[dataset.data_path]


def _reader_text(dataset: Dataset) -> Iterator[Problem]:
    """A reader class as far as its file says something about it."""
    if dataset.has_slots or dataset.data_converter is None:
        return
    file = dataset.data_converter
    seen = model_text.look(_text(file, "UM-DATA-010", "the reader's file", None), file, code="UM-DATA-010")
    yield from seen.problems
    name, hint = dataset.reader_class, "reader_class_name names it"
    if problem := model_text.missing(seen, name, file, code="UM-DATA-010", hint=hint):
        yield problem


# ---- directories


def _directories(plan: Plan) -> Iterator[Problem]:
    made: list[str] = []
    for run in plan.runs:
        if run.runner.init_model_path and "://" not in run.runner.init_model_path:
            path = os.path.normpath(run.runner.init_model_path)
            is_made_before = any(path == each or path.startswith(f"{each}/") for each in made)
            if not is_made_before and not os.path.exists(path):
                is_own = run.kind is RunnerClass.INFER
                yield Problem(
                    code="UM-TRAIN-016",
                    what=f"runner {run.name}: no checkpoint is there: {run.runner.init_model_path}",
                    hint="train first: `-o mode=` names the runner" if is_own else None,
                    where=plan.config,
                )
        for saving in (run.runner.checkpoint, run.runner.step_checkpoint, run.runner.inference):
            if saving is not None and "://" not in saving.path:
                made.append(os.path.normpath(saving.path))
                if run.is_training and (why := _can_not_write(saving.path)):
                    yield Problem(
                        code="UM-TRAIN-017",
                        what=f"runner {run.name}: nothing can be saved there: {saving.path}",
                        why=why,
                        hint="save elsewhere: save_checkpoint_path, save_step_path, save_inference_path",
                        where=plan.config,
                    )


def _can_not_write(path: str) -> str | None:
    """Why a directory could not be made or written to; None if nothing is in the way."""
    at = os.path.abspath(path)
    while not os.path.lexists(at):
        at = os.path.dirname(at)
    if not os.path.isdir(at):
        return f"{at} is not a directory"
    return None if os.access(at, os.W_OK | os.X_OK) else f"no permission to write to {at}"


# ---- words


def _text(path: str, code: str, what: str, where: str | None) -> bytes:
    if not os.path.isfile(path):
        said = "is a directory" if os.path.isdir(path) else "is not there"
        raise UmiakError.of(code, f"{what} {said}: {path}", where=where)
    with open(path, "rb") as file:
        return file.read()


def _missing(names: Sequence[str]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def _not_seen(what: str, needed: Sequence[str]) -> Problem:
    return Problem(
        code="UM-TRAIN-062",
        what=f"not looked at: {what}",
        why=f"not installed here: {', '.join(_missing(needed))}",
        hint="check again where it will be trained",
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
