"""What pages and examples import is public: a name in `__all__` of a package that is a face."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from umiak import models

FACES = (
    "umiak",
    "umiak.data",
    "umiak.data.features",
    "umiak.data.tables",
    "umiak.fluid",
    "umiak.models",
    "umiak.ps",
    "umiak.submit.backend",
    "umiak.submit.reach.channels",
    "umiak.testing.backends",
    "umiak.train.reading",
)
ALLOWED = {"umiak.launch.journal": "it reads what a launcher has logged, to find out why; no program is built on it"}
"""What is no face, with the reason why a page shows it nevertheless."""
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sources() -> list[tuple[str, str]]:
    """All code that users are shown, and the zoo, which they learn from."""
    pages = [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [(str(page.relative_to(ROOT)), text) for page in pages for text in CODE.findall(page.read_text())]
    own = [*(ROOT / "examples").rglob("*.py"), *(ROOT / "src/umiak/models").rglob("model.py")]
    found += [(str(path.relative_to(ROOT)), path.read_text()) for path in own]
    return found


def imported(text: str) -> set[str]:
    """The full names of what a text imports from here."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{each.name}" for each in node.names}
    return {name for name in names if name.split(".")[0] == "umiak"}


def is_public(name: str) -> bool:
    package, _, own = name.rpartition(".")
    return name in FACES or name in ALLOWED or (package in FACES and own in importlib.import_module(package).__all__)


def test_everything_that_is_shown_to_users_imports_public_names() -> None:
    found = {(file, name) for file, text in sources() for name in imported(text)}
    assert len({name for _, name in found}) > 20
    zoo = {"umiak.models.blocks"}  # parts of the zoo for the zoo
    private = {(file, name) for file, name in found if not is_public(name) and name.rpartition(".")[0] not in zoo}
    assert private == set()


def test_what_is_allowed_is_needed() -> None:
    used = {name for _, text in sources() for name in imported(text)}
    assert {*ALLOWED} <= used


@pytest.mark.parametrize("face", FACES)
def test_a_face_has_what_it_lists(face: str) -> None:
    package = importlib.import_module(face)
    listed = [name for name in package.__all__ if face != "umiak.models" or name not in models._MODELING]
    assert [name for name in listed if name != "cross_entropy" and not hasattr(package, name)] == []
    assert sorted(set(package.__all__)) == sorted(package.__all__)


def test_the_face_of_models_lists_all_that_it_has() -> None:
    assert sorted(models._HOMES) == sorted(models.__all__)


@pytest.mark.parametrize(
    ("names", "absent"),
    [
        ("", ["numpy", "paddle", "umiak_native", "umiak.train", "umiak.ps"]),
        ("Auc, MetricSet, Uniform, Adagrad, ReaderBase, Slots", ["paddle"]),
    ],
)
def test_the_face_of_models_brings_what_is_asked_for(names: str, absent: list[str]) -> None:
    program = f"import sys, umiak.models\n{f'from umiak.models import {names}' if names else ''}\n"
    program += f"assert not [name for name in {absent} if name in sys.modules]\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_there_is_nothing_else() -> None:
    with pytest.raises(AttributeError, match=r"module 'umiak.models' has no attribute 'Judge'"):
        _ = models.Judge  # type: ignore[attr-defined]
