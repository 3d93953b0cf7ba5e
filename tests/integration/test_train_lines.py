"""`print_interval`: a line, and an entry in ``metrics.jsonl``, after so many batches of the first trainer, in every mode."""

from __future__ import annotations

import importlib.util
import json

import pytest

from testbed.pytest_support import require
from tests.support.train_runs import EPOCHS, FREE, Work
from umiak.train.run.feeds import LONGEST_BLOCK

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle")]

BATCH = 16


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


@pytest.mark.parametrize("interval", [1, 7])
@pytest.mark.parametrize("runner", ["alone", "sync", "async", "half_async", "geo", "hybrid", "collective"])
def test_a_line_after_so_many_batches(work: Work, runner: str, interval: int) -> None:
    words = ["-o", f"runner.{runner}.print_interval={interval}", "-o", f"dataset.train.batch_size={BATCH}"]
    words += ["-o", f"runner.{runner}.save_step_interval=-1"]
    words += ["-o", f"runner.{runner}.runner_result_dump_path={work.path / 'own'}"]
    done = work.here(runner, *words) if runner == "alone" else work.run_forked(runner, *words)
    assert done.status == 0, done.said
    told = [row for row in work.metrics(runner) if row["event"] == "progress"]
    for epoch in range(EPOCHS):
        own = len(json.loads((work.path / f"own_epoch_{epoch}").read_text()))  # the first trainer's batches
        batches = [row["batch"] for row in told if row["epoch"] == epoch]
        if runner in FREE:
            assert len(batches) == own // interval
            continue
        # Trainers take every step together; the first one may be in the last steps without a batch.
        assert own > LONGEST_BLOCK
        assert len(batches) in (own // interval, (own + 1) // interval)
        assert batches == [interval * number for number in range(1, len(batches) + 1)]
    assert len([line for line in done.said.splitlines() if f"/{EPOCHS}  batch " in line]) == len(told), done.said
