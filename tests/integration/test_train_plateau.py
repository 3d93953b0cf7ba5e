"""`schedule: {class: plateau}` in runs: alone, with servers and collectively rates fall alike, and a resumed run goes on with the rate that it had."""

from __future__ import annotations

import importlib.util

import pytest

from testbed.pytest_support import require
from tests.support.train_runs import Work

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle"), pytest.mark.timeout(300)]
SCHEDULE = "{class: plateau, metric: auc, threshold: 0.9, gamma: 0.1}"
"""Nothing is better by nine tenths: the rate falls after every evaluation but the first."""


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


@pytest.fixture(autouse=True)
def _with_plateau(work: Work) -> None:
    with work.config.open("a") as file:
        file.write(f"hyper_parameters:\n  optimizer: {{class: sgd, learning_rate: 0.5, schedule: {SCHEDULE}}}\n")


def moved(work: Work, runner: str, one: int, other: int) -> float:
    """How far the dense parameters went between two epochs."""
    import numpy as np

    from umiak.ps import export

    path = work.path / "out" / runner
    arrays = [export.arrays(str(path / str(each)), "dense") for each in (one, other)]
    return float(max(np.abs(arrays[0][name] - arrays[1][name]).max() for name in arrays[0]))


@pytest.mark.parametrize("runner", ["alone", "sync", "collective"])
def test_rates_fall_after_evaluations_that_are_no_better(work: Work, runner: str) -> None:
    words = ("-o", f"runner.{runner}.epochs=4")
    done = work.here(runner, *words) if runner == "alone" else work.run_forked(runner, *words)
    assert done.status == 0, done.said
    steps = [moved(work, runner, epoch, epoch + 1) for epoch in range(3)]
    assert steps[1] < 0.5 * steps[0], steps
    assert steps[2] < 0.5 * steps[1], steps
    assert "learning rate: 0.1 of the first one from here on" in done.said
    assert "learning rate: 0.01 of the first one from here on" in done.said


def test_resumed_it_comes_to_the_same_bits(work: Work) -> None:
    assert work.here("alone", "-o", "runner.alone.epochs=4").status == 0
    whole = work.checkpoint("out", "alone", "3")
    for name in work.names("out", "alone"):
        if name != "2":
            work.forget(f"out/alone/{name}")
    work.forget("steps")
    done = work.here("alone", "-o", "runner.alone.epochs=4", "--resume")
    assert done.status == 0, done.said
    assert work.checkpoint("out", "alone", "3") == whole


def test_what_it_needs_is_told(work: Work) -> None:
    work.change("evaluate_phase: test, ", "")
    done = work.here("alone")
    assert (done.status, "UM-TRAIN-020" in done.said) == (2, True), done.said
    assert "evaluate_phase" in done.said
