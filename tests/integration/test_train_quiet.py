"""`umiak train --quiet`: what goes well is written down and not said; what does not is said, with its exit status."""

from __future__ import annotations

import importlib.util
import signal

import pytest

from testbed.pytest_support import require
from tests.support.train_runs import EPOCHS, Work, slow

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle")]


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


@pytest.mark.parametrize("runner", ["alone", "collective", "sync", "async"])
def test_a_run_that_goes_well_says_nothing(work: Work, runner: str) -> None:
    done = work.run(runner, "--quiet")
    assert (done.status, done.said, done.out) == (0, "", "")
    assert [row["epoch"] for row in work.epochs(runner)] == list(range(EPOCHS))
    assert {row["event"] for row in work.metrics(runner)} >= {"progress", "epoch"}
    assert (work.path / "run" / runner / "curve.svg").is_file()


def test_events_are_still_printed_where_they_were_asked_for(work: Work) -> None:
    done = work.here("alone", "-q", "--json")
    assert (done.status, done.said) == (0, "")
    assert done.out == (work.path / "run" / "alone" / "metrics.jsonl").read_text()


@pytest.mark.parametrize("runner", ["alone", "sync"])
def test_warnings_are_said_whole(work: Work, runner: str) -> None:
    work.change("  dim: 4\n", "  dim: 4\n  width: 8\n")
    done = work.run_forked(runner, "--quiet")
    assert done.status == 0
    lines = [line.removeprefix("[trainer 0] ") for line in done.said.splitlines()]
    assert lines[0].startswith("warning: ")
    assert "width" in lines[0]
    assert len(lines) > 1
    assert all(line.startswith("  ") for line in lines[1:]), done.said


@pytest.mark.parametrize("runner", ["alone", "collective", "sync"])
def test_a_run_that_fails_says_why(work: Work, runner: str) -> None:
    """In the last of its processes, after some good steps."""
    path = work.path / "model.py"
    last = "0" if runner == "alone" else "1"
    blow = (
        "        self.times = getattr(self, 'times', 0) + self.training\n"
        f"        if self.times > 6 and os.environ.get('UMIAK_RANK', '0') == '{last}':\n"
        "            return paddle.to_tensor(float('nan')) * paddle.ones([inputs.size, 1])\n"
    )
    head = "    def logit(self, inputs):\n"
    path.write_text(path.read_text().replace(head, head + blow))
    done = work.run_forked(runner, "--quiet")
    assert done.status == 1, done.said
    assert "[UM-TRAIN-014]" in done.said
    assert "epoch 1/" not in done.said


def test_a_run_that_is_stopped_says_so(work: Work) -> None:
    started = work.fork("alone", "--quiet", env=slow(0.02))
    assert started.until(lambda: work.paced() >= 3, "three batches")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.status == 143
    (line,) = done.said.splitlines()
    assert line.startswith(f"stopped, resumable: everything is in {work.outcome('alone')['saved']}")
