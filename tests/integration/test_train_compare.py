"""`umiak train --compare plain` on real models: equal ones, one that is made to differ, one that no seed decides, one that is not plain Paddle."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.pytest_support import require
from tests import dygraph_helpers as models

pytestmark = [pytest.mark.paddle, pytest.mark.timeout(400), pytest.mark.filterwarnings("ignore")]

LINEAR = {"norm": "x", "optimizer": models.SGD}
"""Without batch normalization and Adam, which make steps of rounding."""
ONLY_HERE = "'umiak.train.engines.dygraph' in __import__('sys').modules"
OTHERWISE = f"""self.count = getattr(self, "count", -1) + 1
        if {ONLY_HERE} and self.count == 3:
            loss = loss + 0.05 * (1 + dy_model.top.bias.sum())"""
"""In umiak's process alone the fourth batch has another loss: its first call is the trial of another object, which counts for itself."""
BY_CHANCE = "loss = loss * (1.0 + int.from_bytes(__import__('os').urandom(2), 'big') / 65536)"
SERVERS = ("-o", "runner.sync_mode=sync", "-o", "runner.server_num=2", "-o", "runner.worker_num=2")


@pytest.fixture(autouse=True)
def _paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def compared(directory: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """The exit status, what was printed as JSON, and what was said."""
    command = [
        sys.executable,
        "-m",
        "umiak.cli.main",
        "train",
        "-m",
        "config.yaml",
        "--compare",
        "plain",
        "--json",
        *words,
    ]
    kept = {name: each for name, each in os.environ.items() if not name.startswith(("PADDLE_", "UMIAK_", "TRAINING_"))}
    done = subprocess.run(
        command, cwd=directory, env={**kept, "TMPDIR": str(directory)}, capture_output=True, text=True, timeout=300
    )
    assert not [*directory.glob("umiak-compare-*")], "records are gone"
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def by_name(told: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["first_step"] for each in told["parameters"] if each["first_step"] is not None}


def test_an_equal_model_alone_and_with_servers(tmp_path: Path) -> None:
    models.story(tmp_path, samples=320, **LINEAR)
    for words, trainers, servers in (((), 1, 0), (SERVERS, 2, 2)):
        status, told, said = compared(tmp_path, "--steps", "6", *words)
        assert status == 0, said
        assert (told["verdict"], told["steps"], told["trainers"], told["servers"]) == ("equal", 6, trainers, servers)
        assert told["largest"] < 1e-5
        moved = {each["name"]: each["moved"] for each in told["parameters"]}
        assert moved["embedding.weight"] > 1e-4, "both have learned, so that equal means something"
        assert "hidden.bias" in moved
    assert sorted(each.name for each in tmp_path.iterdir() if not each.name.startswith("__")) == [
        "config.yaml",
        "data",
        "dygraph_model.py",
        "net.py",
    ], "nothing is saved, and nothing is put aside"


def test_statistics_and_generators_are_each_trainers_own(tmp_path: Path) -> None:
    """An epoch has five steps: behind it all trainers go on with the mean of their statistics."""
    models.story(tmp_path, samples=320, optimizer=models.SGD, norm="F.dropout(self.norm(x), 0.2)")
    status, told, said = compared(tmp_path, "--steps", "8", *SERVERS)
    assert status == 0, (said, told)
    statistics = {each["name"]: each for each in told["parameters"] if each["name"].startswith("norm._")}
    assert statistics["norm._mean"]["moved"] > 0.01


def test_a_model_that_learns_otherwise_is_found(tmp_path: Path) -> None:
    models.story(tmp_path, samples=320, stepping=OTHERWISE, **LINEAR)
    status, told, said = compared(tmp_path, "--steps", "6")
    assert status == 4, said
    assert told["verdict"] == "differs"
    assert told["first_step"] == 4
    found = by_name(told)
    assert found.pop("top.bias") == 4
    assert all(step > 4 for step in found.values()), "what differs elsewhere follows from it"
    assert told["loss"]["first_step"] == 4
    assert "once more" in said


def test_a_model_that_no_seed_decides(tmp_path: Path) -> None:
    models.story(tmp_path, samples=320, stepping=BY_CHANCE, **LINEAR)
    status, told, said = compared(tmp_path, "--steps", "3")
    assert status == 4, said
    assert told["verdict"] == "not deterministic"
    assert "two runs of plain Paddle differ from step 1 on" in told["reasons"][0]


def test_epsilon_of_rows_without_a_gradient_is_the_reason(tmp_path: Path) -> None:
    """Paddle's Adam for sparse gradients has two on CPUs; a large one shows it."""
    optimizer = models.ADAM.replace(", parameters", ", epsilon=1e-2, parameters")
    models.story(tmp_path, samples=320, norm="x", optimizer=optimizer)
    status, told, said = compared(tmp_path, "--steps", "4")
    assert status == 4, said
    assert told["verdict"] == "sparse gradients", told
    assert next(iter(by_name(told))) == "embedding.weight"
    assert "of plain Paddle with one epsilon for all rows" in told["reasons"][-1]


def test_sides_that_fail(tmp_path: Path) -> None:
    """Plain Paddle alone, then both."""
    failing = f"if not ({ONLY_HERE}): raise ValueError('only here')"
    models.story(tmp_path, samples=320, stepping=failing, **LINEAR)
    status, _, said = compared(tmp_path, "--steps", "2")
    assert status == 1
    assert "UM-TRAIN-582" in said
    assert "ValueError: only here" in said
    models.write_model(tmp_path, stepping="raise ValueError('everywhere')", **LINEAR)
    status, _, said = compared(tmp_path, "--steps", "2")
    assert status == 1
    assert "UM-TRAIN-581" in said
    assert "everywhere" in said
    models.write_model(tmp_path, stepping="x = = 1", **LINEAR)
    status, _, said = compared(tmp_path, "--steps", "2")
    assert status == 1
    assert "not Python: SyntaxError" in said


def test_the_plain_side_imports_nothing_of_the_trainer(tmp_path: Path) -> None:
    seeing = "open('seen', 'w').write(' '.join(sorted(name for name in __import__('sys').modules if name.startswith('umiak'))))"
    models.story(tmp_path, samples=320, stepping=f"if not ({ONLY_HERE}): {seeing}", **LINEAR)
    status, _, said = compared(tmp_path, "--steps", "2")
    assert status == 0, said
    seen = (tmp_path / "seen").read_text().split()
    assert {name for name in seen if name.startswith("umiak.train")} == {
        "umiak.train",
        "umiak.train.compare",
        "umiak.train.compare.records",
        "umiak.train.compare.values",
    }
    assert not [name for name in seen if name.startswith(("umiak.ps", "umiak.fleet", "umiak_native"))]


def test_a_model_of_umiaks_own_form(tmp_path: Path) -> None:
    from umiak.models import sample

    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert sample.main(["rank.lr", "--samples", "300"]) == 0
    finally:
        os.chdir(before)
    (tmp_path / "config.yaml").symlink_to(Path(sample.__file__).parent / "rank" / "lr" / "config.yaml")
    status, _, said = compared(tmp_path, "-o", "workspace=umiak.models.rank.lr")
    assert status in (1, 2)
    assert "UM-TRAIN-580" in said
