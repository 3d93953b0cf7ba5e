"""What the texts of models and readers say about a plan that can't be carried out here: told before anything is started. An adapter: it reads files.

in_code(plan)       problems: packages that are not installed, all at once; an optimizer that tables do not have
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.train.engines import model_text
from umiak.train.plan.plan import RunRole
from umiak.train.survey.packages import PackageLook, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from umiak.train.plan.plan import Plan, Run
    from umiak.train.survey.packages import MissingPackage

TRAINS = (RunRole.ALONE, RunRole.LAUNCHER, RunRole.TRAINER)
OF_THE_TRAINER = (model_text.FLUID, "numpy", "paddle", "umiak", "umiak_native")
"""What the trainer needs itself, or no package has: told elsewhere."""
NOT_INSTALLED = "the model or its reader imports what is not installed here: "


def in_code(plan: Plan) -> list[Problem]:
    """Everything, of all runs that train or evaluate here."""
    looking = PackageLook()
    found = _missing_packages(plan, looking)
    for run in _runs(plan):
        if run.is_training and run.group.fleet_mode is not None:
            found += [each for stage in run.stages for each in _unknown_optimizers(stage.model, looking)]
    return [*dict.fromkeys(found)]


def untold(plan: Plan, told: Iterable[Problem]) -> list[Problem]:
    """Missing packages, unless an import has told all of them already: it stops at the first."""
    words = " ".join(each.what for each in told)
    return [
        each for each in _missing_packages(plan, PackageLook()) if any(name not in words for name in _names(each.what))
    ]


def _runs(plan: Plan) -> list[Run]:
    return [run for run in plan.runs if run.group.role in TRAINS]


def _missing_packages(plan: Plan, looking: PackageLook) -> list[Problem]:
    stages = [stage for run in _runs(plan) for stage in (*run.stages, run.evaluation) if stage is not None]
    files = [stage.model for stage in stages]
    files += [file for each in stages if not each.dataset.has_slots and (file := each.dataset.data_converter)]
    missing: dict[str, MissingPackage] = {}
    for file in files:
        for each in looking.missing(file):
            if each.name not in OF_THE_TRAINER:
                missing.setdefault(each.name, each)
    if not missing:
        return []
    return [
        Problem(
            code="UM-TRAIN-540",
            what=f"{NOT_INSTALLED}{', '.join(missing)}",
            why="; ".join(f"{each.name} in {each.where}" for each in missing.values()),
            hint=command(missing),
        )
    ]


def _names(what: str) -> list[str]:
    return what.removeprefix(NOT_INSTALLED).split(", ")


def _unknown_optimizers(model: str, looking: PackageLook) -> Iterator[Problem]:
    """Where `create_optimizer` names only classes that tables do not learn by."""
    named = model_text.named_optimizers(looking.text(model) or "")
    if named and not any(name in model_text.ON_TABLES for name, _ in named):
        name, line = named[0]
        yield Problem(
            code="UM-TRAIN-532",
            what=f"optimizer: {name} is not on parameter servers, nor where several trainers share a model",
            hint=f"use one of {', '.join(model_text.ON_TABLES)}; alone, without servers, {name} works",
            where=f"{model}:{line}",
        )
