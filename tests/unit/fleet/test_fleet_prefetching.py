"""A static program whose next feed is known: rows come with the end of the step before, and nothing else changes."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.support.ps_cluster import Cluster, count_pulls, with_prefetch
from umiak.fleet.threads import Prefetcher

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="PaddlePaddle is not installed"),
    pytest.mark.filterwarnings("ignore"),
]
SIZES = (16, 16, 16, 5, 16, 16)


def learned(prefetch: int, *, embedding: str, wrong: bool = False) -> tuple[list[Any], int]:
    """What is fetched of each step, and how often rows are pulled. ``wrong``: another feed comes than was foretold."""
    import paddle
    from paddle.distributed import fleet

    from tests.support.static_programs import ClickProgram, older_programs
    from umiak.fleet import job
    from umiak.fleet.programs.tables import ProgramTables

    with (
        older_programs(),
        Cluster(servers=2, trainers=1) as cluster,
        with_prefetch(cluster.job("sync"), prefetch) as session,
    ):
        pulled = count_pulls(session)
        fleet.init(fleet.PaddleCloudRoleMaker())
        begun = job.current()
        assert begun is not None
        begun.session, begun.tables = session, ProgramTables(session)
        program = ClickProgram(embedding=embedding)
        adam = paddle.optimizer.Adam(0.01, lazy_mode=True)
        program.minimize(fleet.distributed_optimizer(adam, fleet.DistributedStrategy()))
        paddle.static.Executor(paddle.CPUPlace()).run(program.startup)
        runner = begun.runner_of(program.main)
        assert runner is not None
        runner.bind(None)
        pulled.clear()
        feeds: list[Any] = [program.batch(step, size) for step, size in enumerate(SIZES)]
        coming = feeds[1:] if not wrong else [program.batch(99)] * (len(feeds) - 1)
        found = [
            runner.step(feed, [program.loss, program.predict], following=following)
            for feed, following in zip(feeds, [*coming, None], strict=True)
        ]
        return [[each.tolist() for each in step] for step in found], len(pulled)


@pytest.mark.parametrize("embedding", ["layers", "sparse"])
def test_the_rows_of_the_next_feed_come_with_the_end_of_the_step(embedding: str) -> None:
    (found, pulls), (expected, all_pulls) = (learned(prefetch, embedding=embedding) for prefetch in (1, 0))
    assert found == expected
    assert pulls == all_pulls // len(SIZES)


def test_another_feed_than_was_foretold_is_pulled() -> None:
    (found, pulls), (expected, all_pulls) = (learned(prefetch, embedding="layers", wrong=True) for prefetch in (1, 0))
    assert found == expected
    assert pulls == all_pulls


def test_a_batch_that_is_not_there_yet_is_not_waited_for() -> None:
    class Numbers(Prefetcher[int]):
        def _items(self) -> Any:
            yield from (1, 2)
            raise ValueError("spoilt")

    numbers = Numbers(2, "numbers")
    assert numbers.next_if_ready() is None
    numbers.start()
    numbers._thread.join(0.01)
    assert numbers.next() == 1
    assert numbers.next() == 2
    while numbers._ready.empty():
        pass
    assert numbers.next_if_ready() is None
    with pytest.raises(ValueError, match="spoilt"):
        numbers.next()
    numbers.close()
