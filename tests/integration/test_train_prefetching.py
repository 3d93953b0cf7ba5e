"""Training with rows that come with the end of the step before: the same bits as without, and hardly a pull beside them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from testbed.pytest_support import require
from tests.support import dygraph_helpers as models
from tests.support import train_runs
from tests.support.ps_cluster import Cluster, count_pulls, with_prefetch
from tests.support.train_runs import BATCH, EPOCHS, EVERY, SAMPLES, Work, contents

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle"), pytest.mark.filterwarnings("ignore")]
STEPS = -(-SAMPLES // BATCH)
LAST = str(EPOCHS - 1)


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def trained(work: Work, mode: str, prefetch: int, *words: str) -> tuple[dict[str, Any], int]:
    """What a run's last checkpoint has, and how often it has pulled rows."""
    from umiak.train.run.peers import Peers
    from umiak.train.run.stopwatch import Stopwatch

    with Cluster(servers=2, trainers=1) as cluster, with_prefetch(cluster.job(mode), prefetch) as job:
        watch = Stopwatch()
        job._connect = lambda: watch.timed(job.connected())
        context = {"job": job, "peers": Peers(job, watch, waits_for_nobody=mode == "async"), "watch": watch}
        pulled = count_pulls(job)
        with work.trainer("alone", *words, **context) as trainer:
            trainer.train()
        return contents(work.path / "out" / "alone" / LAST), len(pulled)


NO_SAVES = ("-o", "runner.alone.save_step_interval=-1")
MODELS = {
    "a matrix of ids": (),
    "a table for each slot": ("-o", "embedding_tables=per_slot"),
    "a reader class": ("-o", "runner.alone.phases=own"),
}


@pytest.mark.parametrize("mode", ["sync", "hybrid", "async"])
def test_every_strategy_learns_the_same_bits(mode: str) -> None:
    with train_runs.opened() as work:
        (found, pulls), (expected, all_pulls) = (trained(work, mode, prefetch) for prefetch in (1, 0))
    assert found == expected
    # Of the first step, behind a checkpoint, and where trainers agree on their next batches or take the next part.
    assert all_pulls >= EPOCHS * STEPS
    assert pulls <= all_pulls - EPOCHS * (STEPS - STEPS // EVERY - 8)


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_look_is_known_before_it_is_its_turn(kind: str) -> None:
    with train_runs.opened() as work:
        (found, pulls), (expected, all_pulls) = (
            trained(work, "sync", prefetch, *NO_SAVES, *MODELS[kind]) for prefetch in (1, 0)
        )
    assert found == expected
    assert pulls < all_pulls / 2


def test_two_trainers_and_two_servers_learn_the_same_bits() -> None:
    found = []
    for prefetch in (1, 0):
        with train_runs.opened() as work:
            done = work.run_forked("sync", "-o", f"runner.sync.prefetch_rows={prefetch}")
            assert done.status == 0, done.said
            found.append(contents(work.path / "out" / "sync" / LAST))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "stepping",
    ["", "(0.1 * dy_model.embedding(self.create_feeds(batch_data, config)[1][0]).square().mean()).backward()"],
)
def test_models_of_paddlerec_learn_the_same_bits(stepping: str, tmp_path: Path) -> None:
    import yaml

    from umiak.train.config.values import Slots
    from umiak.train.engines import choice
    from umiak.train.engines.engine import EngineOptions, EngineRequest
    from umiak.train.reading.batches import StackedBatch

    arrays = models.story(tmp_path, samples=480, optimizer=models.LAZY, stepping=stepping)
    batches = [StackedBatch(size=len(each[0]), arrays=tuple(each)) for each in arrays]
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    ends = []
    for prefetch in (1, 0):
        with Cluster(servers=2, trainers=1) as cluster, with_prefetch(cluster.job("sync"), prefetch) as job:
            wanted = EngineRequest(
                model=str(tmp_path / "dygraph_model.py"),
                slots=Slots(),
                job=job,
                options=EngineOptions(seed=11, written=written),
                where=str(tmp_path / "config.yaml"),
            )
            made = choice.framework().engine(wanted)
            metrics, pulled = made.metric_set(), count_pulls(job)
            for step, (batch, following) in enumerate(zip(batches, [*batches[1:], None], strict=True)):
                made.expect(following)
                made.learn(batch, metrics, step=step)
            if prefetch:
                assert len(pulled) <= 2 * 3
            else:
                assert len(pulled) >= len(batches)
            job.save(str(tmp_path / str(prefetch)))
        ends.append(contents(tmp_path / str(prefetch)))
    assert ends[0] == ends[1]


TURNING = """
    def turned(self):
        self.count = getattr(self, "count", 0) + 1
        return self.features if self.count % 3 else self.features[::-1]

    def logit"""


def test_a_model_that_looks_up_something_else_learns_the_same_bits() -> None:
    with train_runs.opened() as work:
        text = (work.path / "model.py").read_text()
        text = text.replace("inputs.ids(*self.features)", "inputs.ids(*self.turned())").replace(
            "\n    def logit", TURNING
        )
        (work.path / "model.py").write_text(text)
        (found, pulls), (expected, all_pulls) = (trained(work, "sync", prefetch) for prefetch in (1, 0))
    assert found == expected
    assert all_pulls - 4 <= pulls <= all_pulls, "once it was wrong, nothing is foreseen"
