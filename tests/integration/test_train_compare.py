"""`umiak train --compare plain` on real models: equal ones, one that is made to differ, one that no seed decides, one that is not plain Paddle."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.pytest_support import require
from tests.support import dygraph_helpers as models
from tests.support import paddle_forks
from tests.support.paddle_forks import Forks

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

LINEAR = {"norm": "x", "optimizer": models.SGD}
"""Without batch normalization and Adam, which make steps of rounding."""
ONLY_HERE = "'umiak.train.engines.dygraph' in __import__('sys').modules"
OTHERWISE = f"""self.count = getattr(self, "count", -1) + 1
        if {ONLY_HERE} and self.count == 3:
            loss = loss + 0.05 * (1 + dy_model.top.bias.sum())"""
"""In umiak's process alone the fourth batch has another loss: its first call is the trial of another object, which counts for itself."""
BY_CHANCE = "loss = loss * (1.0 + int.from_bytes(__import__('os').urandom(2), 'big') / 65536)"
SERVERS = ("-o", "runner.sync_mode=sync", "-o", "runner.server_num=2", "-o", "runner.worker_num=2")


Comparing = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture(autouse=True)
def _paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with paddle_forks.opened() as made:
        yield made


@pytest.fixture
def compared(forks: Forks, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparing:
    """A comparison in a directory, whose processes have imported Paddle before they begin."""

    def run(*words: str) -> tuple[int, dict[str, Any], str]:
        """The exit status, what was printed as JSON, and what was said."""
        command = ["umiak.cli.main", "train", "-m", "config.yaml", "--compare", "plain", "--json", *words]
        own = ("PADDLE_", "UMIAK_", "TRAINING_")
        environ = {name: each for name, each in os.environ.items() if not name.startswith(own)}
        output = tmp_path_factory.mktemp("output")
        out, err = output / "out", output / "err"
        status = forks.run(
            command, cwd=str(tmp_path), environ={**environ, "TMPDIR": str(tmp_path)}, out=str(out), err=str(err)
        )
        assert not [*tmp_path.glob("umiak-compare-*")], "records are gone"
        printed = out.read_text()
        return status, json.loads(printed) if printed else {}, err.read_text()

    return run


def test_a_comparison_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    models.story(tmp_path, samples=320, **LINEAR)
    command = [sys.executable, "-m", "umiak.cli.main", "train", "-m", "config.yaml", "--compare", "plain", *SERVERS]
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})
    while not (records := [*tmp_path.glob("umiak-compare-*")]) or not any(records[0].iterdir()):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait() == 143
    assert not [*tmp_path.glob("umiak-compare-*")]


def by_name(told: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["first_step"] for each in told["parameters"] if each["first_step"] is not None}


def test_an_equal_model_alone_and_with_servers(tmp_path: Path, compared: Comparing) -> None:
    models.story(tmp_path, samples=320, **LINEAR)
    for words, trainers, servers in (((), 1, 0), (SERVERS, 2, 2)):
        status, told, said = compared("--steps", "6", *words)
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


def test_statistics_and_generators_are_each_trainers_own(tmp_path: Path, compared: Comparing) -> None:
    """An epoch has five steps: behind it all trainers go on with the mean of their statistics."""
    models.story(tmp_path, samples=320, optimizer=models.SGD, norm="F.dropout(self.norm(x), 0.2)")
    status, told, said = compared("--steps", "8", *SERVERS)
    assert status == 0, (said, told)
    statistics = {each["name"]: each for each in told["parameters"] if each["name"].startswith("norm._")}
    assert statistics["norm._mean"]["moved"] > 0.01


def test_a_model_that_learns_otherwise_is_found(tmp_path: Path, compared: Comparing) -> None:
    models.story(tmp_path, samples=320, stepping=OTHERWISE, **LINEAR)
    status, told, said = compared("--steps", "6")
    assert status == 4, said
    assert told["verdict"] == "differs"
    assert told["first_step"] == 4
    found = by_name(told)
    assert found.pop("top.bias") == 4
    assert all(step > 4 for step in found.values()), "what differs elsewhere follows from it"
    assert told["loss"]["first_step"] == 4
    assert "once more" in said


def test_a_model_that_no_seed_decides(tmp_path: Path, compared: Comparing) -> None:
    models.story(tmp_path, samples=320, stepping=BY_CHANCE, **LINEAR)
    status, told, said = compared("--steps", "3")
    assert status == 4, said
    assert told["verdict"] == "not deterministic"
    assert "two runs of plain Paddle differ from step 1 on" in told["reasons"][0]


def test_epsilon_of_rows_without_a_gradient_is_the_reason(tmp_path: Path, compared: Comparing) -> None:
    """Paddle's Adam for sparse gradients has two on CPUs; a large one shows it."""
    optimizer = models.ADAM.replace(", parameters", ", epsilon=1e-2, parameters")
    models.story(tmp_path, samples=320, norm="x", optimizer=optimizer)
    status, told, said = compared("--steps", "4", "-o", "runner.dense_embeddings=embedding")
    assert status == 4, said
    assert told["verdict"] == "sparse gradients", told
    assert next(iter(by_name(told))) == "embedding.weight"
    assert "of plain Paddle with one epsilon for all rows" in told["reasons"][-1]


def test_rows_of_tables_move_in_each_step_as_in_paddle(tmp_path: Path, compared: Comparing) -> None:
    """Also those without a gradient, which have an epsilon of their own: alone and on servers."""
    optimizer = models.ADAM.replace(", parameters", ", epsilon=1e-2, parameters")
    models.story(tmp_path, samples=320, norm="x", optimizer=optimizer)
    for words in ((), SERVERS):
        status, told, said = compared("--steps", "8", *words)
        assert (status, told["verdict"]) == (0, "equal"), said
        assert not told.get("remarks"), told


@pytest.mark.parametrize("kind", ["Momentum", "RMSProp"])
def test_rows_that_paddle_leaves_out_are_the_reason(kind: str, tmp_path: Path, compared: Comparing) -> None:
    """Those of a batch without an id twice, whose ids are not in ascending order: with gradients of all rows, Paddle agrees."""
    models.story(tmp_path, samples=320, norm="x", optimizer=models.ADAM.replace("Adam", kind))
    net = tmp_path / "net.py"
    together = (
        "[self.embedding(paddle.concat(ids, axis=1)).flatten(1)]"  # gradients of several lookups would be in order
    )
    net.write_text(re.sub(r"rows = \[.*\]", f"rows = {together}", net.read_text()))
    status, told, said = compared("--steps", "4", "-o", "runner.train_batch_size=4")
    assert status == 4, said
    assert told["verdict"] == "sparse gradients", told
    assert next(iter(by_name(told))) == "embedding.weight"
    assert "of plain Paddle with gradients of all rows" in told["reasons"][-1]


def test_rows_that_rest_are_the_reason(tmp_path: Path, compared: Comparing) -> None:
    models.story(tmp_path, samples=320, norm="x", optimizer=models.ADAM)
    status, told, said = compared("--steps", "4", "-o", "runner.lazy_embeddings=true", *SERVERS)
    assert status == 4, said
    assert told["verdict"] == "lazy rows", told
    assert any("embedding: rows learn lazily" in each for each in told["remarks"])
    assert "of plain Paddle with `lazy_mode=True`" in told["reasons"][-1]


def test_gradients_that_each_trainer_clips_are_the_reason(tmp_path: Path, compared: Comparing) -> None:
    clipped = models.SGD.replace(", parameters", ", grad_clip=paddle.nn.ClipGradByGlobalNorm(1e-3), parameters")
    models.story(tmp_path, samples=320, norm="x", optimizer=clipped)
    status, told, said = compared("--steps", "4", "-o", "hyper_parameters.sparse=False", *SERVERS)
    assert status == 4, said
    assert told["verdict"] == "clipped apart", told
    assert any("clipped by each trainer for itself" in each for each in told["remarks"])
    assert "of plain Paddle if each trainer's gradients are clipped" in told["reasons"][-1]


def test_code_finds_no_mode_in_a_config_that_says_none(tmp_path: Path, compared: Comparing) -> None:
    """PaddleRec's readers ask for one, and take what is there for their own."""
    models.story(tmp_path, samples=320, stepping="assert 'mode' not in config, config['mode']", **LINEAR)
    status, told, said = compared("--steps", "2")
    assert (status, told.get("verdict")) == (0, "equal"), said


def test_sides_that_fail(tmp_path: Path, compared: Comparing) -> None:
    """Plain Paddle alone, then both."""
    failing = f"if not ({ONLY_HERE}): raise ValueError('only here')"
    models.story(tmp_path, samples=320, stepping=failing, **LINEAR)
    status, _, said = compared("--steps", "2")
    assert status == 1
    assert "UM-TRAIN-582" in said
    assert "ValueError: only here" in said
    models.write_model(tmp_path, stepping="raise ValueError('everywhere')", **LINEAR)
    status, _, said = compared("--steps", "2")
    assert status == 1
    assert "UM-TRAIN-581" in said
    assert "everywhere" in said
    models.write_model(tmp_path, stepping="x = = 1", **LINEAR)
    status, _, said = compared("--steps", "2")
    assert status == 1
    assert "not Python: SyntaxError" in said


def test_the_plain_side_imports_nothing_of_the_trainer(tmp_path: Path, compared: Comparing) -> None:
    seeing = "open('seen', 'w').write(' '.join(sorted(name for name in __import__('sys').modules if name.startswith('umiak'))))"
    models.story(tmp_path, samples=320, stepping=f"if not ({ONLY_HERE}): {seeing}", **LINEAR)
    status, _, said = compared("--steps", "2")
    assert status == 0, said
    seen = (tmp_path / "seen").read_text().split()
    assert {name for name in seen if name.startswith("umiak.train")} == {
        "umiak.train",
        "umiak.train.compare",
        "umiak.train.compare.plain_side",
        "umiak.train.compare.records",
        "umiak.train.compare.values",
    }
    assert not [name for name in seen if name.startswith(("umiak.ps", "umiak.fleet", "umiak_native"))]


def test_a_model_of_umiaks_own_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compared: Comparing) -> None:
    from umiak.models import sample

    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        assert sample.main(["rank.lr", "--samples", "300"]) == 0
    (tmp_path / "config.yaml").symlink_to(Path(sample.__file__).parent / "rank" / "lr" / "config.yaml")
    status, _, said = compared("-o", "workspace=umiak.models.rank.lr")
    assert status in (1, 2)
    assert "UM-TRAIN-580" in said
