"""How the trainer's code is laid out: folders that can be overlooked, and a runner's keys in few places."""

from __future__ import annotations

from pathlib import Path

import pytest

import umiak.train
from umiak.core.value import fields
from umiak.train.config.values import Runner
from umiak.train.plan.plan import Run

TRAIN = Path(umiak.train.__file__).parent
MOST_MODULES = 16


@pytest.mark.parametrize(
    "folder", [path.parent for path in sorted(TRAIN.rglob("__init__.py"))], ids=lambda path: path.name
)
def test_a_folder_can_be_overlooked(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, modules


def test_a_run_holds_its_runner_and_copies_nothing_of_it() -> None:
    """So that a new key of a runner has no place in a plan to be added to."""
    assert fields(Run)[0] == "runner"
    assert {*fields(Run)} & {*fields(Runner)} == {"evaluation"}, "there the stage, here the phase's name and patience"
