"""Judges every config below a directory: is it right, and is all there that it needs? An adapter: it reads files, and runs nothing of theirs.

    survey = look("models")
    print(rows.text(survey))

Whether a model learns, or its code works with this PaddlePaddle, only a run tells; `umiak train --check` imports one.
"""

from __future__ import annotations

import glob
import os

from umiak.core.problem import Problem, UmiakError
from umiak.train.config import load
from umiak.train.config.paddlerec.directory import DYGRAPH, is_dygraph
from umiak.train.config.values import Dataset, Device, RunnerClass
from umiak.train.engines import model_text
from umiak.train.survey.packages import PackageLook
from umiak.train.survey.rows import Survey, SurveyReason, SurveyRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.train.config.values import Phase, TrainConfig
    from umiak.train.config.workspace import Library

ENDINGS = (".yaml", ".yml")
MOST_NAMED = 3
"""So many things of a kind are named in a line."""
STATIC = "UM-CONFIG-025"
OWN_TRAINER = "trainer.py"


def look(directory: str) -> Survey:
    """Everything below a directory, or one config."""
    if not os.path.isdir(directory) and not (os.path.isfile(directory) and directory.endswith(ENDINGS)):
        what = f"--survey: not a directory, and no config: {directory}"
        raise UmiakError.of("UM-TRAIN-080", what)
    looking = _Looking(load.installed())
    found, others = [], 0
    for path in _files(directory):
        row = looking.row(path, os.path.relpath(path, directory) if os.path.isdir(directory) else path)
        if row is None:
            others += 1
        else:
            found.append(row)
    return Survey(directory=directory, rows=tuple(found), others=others, packages=tuple(looking.missing))


def _files(directory: str) -> Iterator[str]:
    if os.path.isfile(directory):
        yield directory
    for here, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(ENDINGS))


class _Looking:
    """What was seen once is not looked at again."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._packages = PackageLook()
        self.missing: dict[str, None] = {}
        """Packages that any of them needs and that are not installed."""

    def row(self, path: str, name: str) -> SurveyRow | None:
        """One config; None if the file is something else."""
        try:
            source = load.read(path)
            if not _may_be_config(source.text):
                return None
            _, reading = load.load(path, library=self._library)
        except UmiakError as error:
            return SurveyRow(path=name, reasons=((SurveyReason.CONFIG, error.problems[0].what),))
        if reading.config is None:
            return SurveyRow(path=name, reasons=tuple(_config_reasons(reading.problems)))
        config = reading.config
        reasons, remarks = [], [each.what.removeprefix("runner: ") for each in reading.warnings]
        for phase in _phases(config):
            reasons += [*self._code(phase, config), *self._data(config.dataset(phase.dataset_name))]
            remarks += self._remarks(phase, config)
        shown = [*dict.fromkeys(remarks)]
        if len(shown) > MOST_NAMED:
            shown = [*shown[:MOST_NAMED], f"{len(shown) - MOST_NAMED} more"]
        return SurveyRow(path=name, reasons=tuple(dict.fromkeys(reasons)), remarks=tuple(shown))

    def _code(self, phase: Phase, config: TrainConfig) -> Iterator[tuple[SurveyReason, str]]:
        """What is wrong with the model's and the reader's files, as far as their texts say it."""
        dataset = config.dataset(phase.dataset_name)
        is_rec = is_dygraph(phase.model)
        files = [(phase.model, "DygraphModel" if is_rec else "Model", "the model's file")]
        if not dataset.has_slots and dataset.data_converter:
            files.append((dataset.data_converter, dataset.reader_class, "the reader's file"))
        missing: list[str] = []
        has_fluid = False
        for file, name, what in files:
            text = self._packages.text(file)
            if text is None:
                yield SurveyReason.CODE, f"{what} is not there: {os.path.basename(file)}"
                continue
            seen = model_text.look(text, file)
            has_fluid = has_fluid or model_text.is_model_base(seen)
            if seen.problems:
                problem = seen.problems[0]
                reason = SurveyReason.FLUID if problem.code == model_text.OLD else SurveyReason.CODE
                yield (
                    reason,
                    f"{os.path.basename(file)}: {problem.what}" if reason is SurveyReason.CODE else problem.what,
                )
            elif problem_of := model_text.missing(seen, name, os.path.basename(file), code="UM-TRAIN-013"):
                yield SurveyReason.CODE, problem_of.what
            missing += [each.name for each in self._packages.missing(file)]
        for name in dict.fromkeys(missing):
            if name.startswith(model_text.FLUID):
                if has_fluid:  # the trainer provides it to such models and their readers
                    continue
                yield SurveyReason.FLUID, f"the model imports {name}"
            else:
                self.missing[name] = None
                yield SurveyReason.PACKAGE, f"package {name} is not installed"

    def _data(self, dataset: Dataset) -> Iterator[tuple[SurveyReason, str]]:
        path = os.path.normpath(dataset.data_path)
        if "://" in dataset.data_path:
            return
        if not os.path.exists(path) and not (glob.has_magic(path) and glob.glob(path, recursive=True)):
            yield SurveyReason.DATA, f"the data is not there: {path}"
        elif os.path.isdir(path) and not os.listdir(path):
            yield SurveyReason.DATA, f"the directory of the data is empty: {path}"

    def _remarks(self, phase: Phase, config: TrainConfig) -> Iterator[str]:
        if (
            is_dygraph(phase.model)
            and self._packages.text(os.path.join(os.path.dirname(phase.model), OWN_TRAINER)) is not None
        ):
            yield f"it has a {OWN_TRAINER} of its own, which is not used: {DYGRAPH} is trained"
        for name in config.mode:
            device = config.runner(name).device
            if device is not Device.CPU:
                yield f"it wants a {device.value}: `-o runner.use_{device.value}=false` where there is none"
        if "://" in config.dataset(phase.dataset_name).data_path:
            yield "its data is behind a URL, which was not looked at"


def _may_be_config(text: str) -> bool:
    """Whether a YAML file is a config at all, and not one of something else."""
    firsts = {line.partition(":")[0].strip("\"' ") for line in text.splitlines() if line[:1] not in (" ", "#", "")}
    return "runner" in firsts or bool(firsts & {"train", "dygraph", "static"} and "hyper_parameters" in firsts)


def _config_reasons(problems: tuple[Problem, ...]) -> Iterator[tuple[SurveyReason, str]]:
    for problem in problems[:MOST_NAMED]:
        if problem.code == STATIC:
            yield SurveyReason.STATIC, f"{problem.what}: `umiak launch ... tools/static_ps_trainer.py` runs it"
        else:
            line = (problem.where or "").rsplit(":", 2)
            yield SurveyReason.CONFIG, f"{problem.what}{f' (line {line[1]})' if len(line) == 3 else ''}"
    if len(problems) > MOST_NAMED:
        yield SurveyReason.CONFIG, f"{len(problems) - MOST_NAMED} more"


def _phases(config: TrainConfig) -> list[Phase]:
    """What is run: of training first, so that what is missing for it is told first."""
    runners = sorted([config.runner(name) for name in config.mode], key=lambda each: each.kind is RunnerClass.INFER)
    return [config.phase(name) for runner in runners for name in runner.phases]
