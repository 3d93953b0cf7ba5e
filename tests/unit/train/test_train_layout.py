"""How the trainer's code is laid out: folders that can be overlooked, and a runner's keys in few places."""

from __future__ import annotations

from pathlib import Path

import pytest

import umiak.train
from umiak.core.value import fields
from umiak.schema.settings import table
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


def test_a_key_that_is_a_field_of_its_runner_is_declared_once_and_used() -> None:
    """What a new key of a runner costs: two files, and a row in two more where configs of the newer layout have it, too."""
    assert {key.name for key in table(Runner)} == {"seed", "keep_checkpoints", "print_interval"}
    files = {
        path.relative_to(TRAIN).as_posix() for path in TRAIN.rglob("*.py") if "keep_checkpoints" in path.read_text()
    }
    newer = {"config/flat.py", "config/flat_keys.py"}
    of_streams = {"config/runners.py"}  # runs of streams keep another number, where none is said
    assert files == {"config/values.py", "run/saver.py"} | newer | of_streams
