"""Runs know engines by their protocol: a second engine trains without Paddle, and loops take part through public names alone."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import umiak.train
from tests.support.paths import ROOT
from umiak.train.run.stage_loop import StageLoop

TRAIN = Path(umiak.train.__file__).parent


def ran(what: str, directory: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.numpy_training", what, str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_another_engine_trains_resumes_evaluates_and_exports_without_paddle(tmp_path: Path) -> None:
    answer = ran("epochs", tmp_path)
    measured = answer.pop("measured")
    assert measured["finer"] == measured["auc"] == answer["evaluated"][-1]
    assert 0.5 < measured["gauc_samples"] < 1
    assert 0 < measured["ndcg@3"] < 1
    assert measured["log_loss"] == pytest.approx(measured["loss"], abs=1e-6)
    assert measured["gauc_samples.groups"] + measured["gauc_samples.left_out_groups"] > 1
    slices = {name for name in measured if name.startswith("auc_by_2.") and name.endswith(".samples")}
    assert len(slices) == 3
    assert measured["auc_by_2"] == min(measured[name.removesuffix(".samples")] for name in slices)
    assert answer["auc"] > 0.75
    assert answer["evaluated"][-1] == pytest.approx(answer["auc"], abs=1e-9)
    assert answer == {
        "auc": answer["auc"],
        "evaluated": [*answer["evaluated"][:-1], answer["evaluated"][-1]],
        "stopped": [True, True, 0],
        "same rows": True,
        "same tables": True,
        "tables": ["bias", "weights"],
        "served": ["0", "1"],
    }


def test_another_engine_learns_online_without_paddle(tmp_path: Path) -> None:
    assert ran("online", tmp_path) == {
        "passes": [["20260131", 1, []], ["20260131", 2, ["auc", "loss"]], ["20260131", 3, ["auc", "loss"]]],
        "stopped": [True, True, 1],
        "same rows": True,
        "same tables": True,
        "served": ["base", "delta-1", "delta-2"],
    }


def test_a_stage_loop_is_given_what_it_needs_and_no_trainer() -> None:
    names = [*inspect.signature(StageLoop).parameters]
    assert names == ["place", "run", "context", "stages", "engines", "state", "saver", "prefix", "within"]
    tree = ast.parse((TRAIN / "run" / "stage_loop.py").read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "umiak.train.run.trainer" not in modules


def test_no_class_of_a_run_overrides_a_private_method_of_another_one() -> None:
    """What a class may change of its base has a public name."""
    methods: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for path in (TRAIN / "run").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods[node.name] = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                bases[node.name] = [each.id for each in node.bases if isinstance(each, ast.Name)]
    private = {
        (name, method)
        for name, above in bases.items()
        for base in above
        for method in methods[name] & methods.get(base, set())
        if method.startswith("_") and not method.endswith("__")
    }
    assert private == set()


@pytest.mark.parametrize("module", [*sorted((TRAIN / "run").glob("*.py"))], ids=lambda path: path.stem)
def test_a_run_names_no_framework(module: Path) -> None:
    """But for the help that says what `umiak train --check` looks for."""
    for node in ast.walk(ast.parse(module.read_text())):
        names = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        assert not [name for name in names if "paddle" in name or name.startswith("umiak.train.modeling")]
