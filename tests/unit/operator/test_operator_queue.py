"""The order in which jobs and their requests are worked on: the queue, and the fair share of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from umiak.operator.cancellation import within
from umiak.operator.controller.fair_share import FIRST_WINDOW, SLICE, FairShare
from umiak.operator.controller.job_queue import JobQueue

PATIENCE_S = 150.0


# ---- the queue


def test_a_key_waits_once_and_in_order() -> None:
    async def main() -> None:
        queue = JobQueue()
        for key in ("a", "b", "a", "c"):
            queue.add(key)
        assert [await queue.get_new() for _ in range(3)] == ["a", "b", "c"]

    asyncio.run(main())


def test_a_key_is_never_given_to_two_workers() -> None:
    async def main() -> None:
        queue = JobQueue()
        queue.add("a")
        assert await queue.get_new() == "a"
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(6))
def test_a_worker_ends_when_it_is_told_to_in_the_moment_of_a_change(turns: int) -> None:
    """`asyncio.wait_for` of Python 3.11 swallows a cancellation in that moment: the operator then never ended."""

    async def main() -> None:
        queue = JobQueue()
        worker = asyncio.ensure_future(queue.get())
        queue.add_after("later", 1000.0)
        for _ in range(5):
            await asyncio.sleep(0)
        queue.add_after("sooner", 900.0)
        for _ in range(turns):
            await asyncio.sleep(0)
        worker.cancel()
        await asyncio.wait({worker}, timeout=5.0)
        assert worker.cancelled()

    asyncio.run(main())


def test_jobs_that_have_begun_and_new_ones_stand_in_two_lines() -> None:
    async def main() -> None:
        queue = JobQueue()
        for key in "abcdef":
            queue.add(key)
        assert [await queue.get_new(), await queue.get_new()] == ["a", "b"]
        for key in "ba":
            queue.done(key)
            queue.add(key)
        assert [await queue.get(), await queue.get()] == ["b", "a"]
        assert [await queue.get_new() for _ in range(4)] == ["c", "d", "e", "f"]
        queue.forget("a")
        queue.done("a")
        assert len(queue) == 0

    asyncio.run(main())


def test_of_two_delays_the_earlier_counts() -> None:
    async def main() -> None:
        queue = JobQueue()
        queue.add("a")
        queue.done(await queue.get_new())
        queue.add_after("a", 3600)
        queue.add_after("a", 0.01)
        queue.add_after("a", 1800)
        assert await asyncio.wait_for(queue.get(), PATIENCE_S) == "a"
        assert queue.delayed == 0

    asyncio.run(main())


def test_failures_come_back_later_and_later() -> None:
    async def main() -> None:
        queue = JobQueue(chance=lambda: 0.5)
        waits = [queue.add_failed("a") for _ in range(12)]
        assert waits == sorted(waits)
        assert waits[0] == pytest.approx(0.2)
        assert waits[-1] == pytest.approx(60.0)
        queue.succeeded("a")
        assert queue.add_failed("a") == pytest.approx(0.2)
        assert queue.add_failed("b", at_least_s=7.0) == pytest.approx(7.0)

    asyncio.run(main())


# ---- fair share


def test_a_small_batch_overtakes_a_large_one() -> None:
    async def main() -> None:
        share = FairShare(in_flight=4)
        order: list[str] = []

        def call(name: str) -> Callable[[], Awaitable[None]]:
            async def made() -> None:
                await asyncio.sleep(0.001)
                order.append(name)

            return made

        large = asyncio.ensure_future(share.run([call("large")] * 200))
        await asyncio.sleep(0)
        small = asyncio.ensure_future(share.run([call("small")] * 4))
        outcome = await small
        assert (outcome.started, outcome.errors) == (4, ())
        assert len(order) <= SLICE + 8 + 4 + 8
        assert (await large).started == 200

    asyncio.run(main())


def test_what_finishes_a_job_goes_before_what_begins_others() -> None:
    async def main() -> None:
        share = FairShare(in_flight=2)
        order: list[str] = []

        def call(name: str) -> Callable[[], Awaitable[None]]:
            async def made() -> None:
                await asyncio.sleep(0)
                order.append(name)

            return made

        others = [asyncio.ensure_future(share.run([call("pod")] * 4)) for _ in range(20)]
        await asyncio.sleep(0)
        await share.run([call("addresses")], is_last=True)
        assert order.index("addresses") <= 8
        await asyncio.gather(*others)

    asyncio.run(main())


def test_after_a_failure_nothing_more_is_started() -> None:
    async def main() -> None:
        share = FairShare(in_flight=32)
        started = 0

        async def fails() -> None:
            nonlocal started
            started += 1
            await asyncio.sleep(0.001)
            raise ValueError("no")

        outcome = await share.run([fails] * 100)
        assert started == FIRST_WINDOW
        assert outcome.skipped == 100 - FIRST_WINDOW
        assert len(outcome.errors) == FIRST_WINDOW

    asyncio.run(main())


def test_what_does_not_hold_any_more_is_skipped() -> None:
    async def main() -> None:
        share = FairShare(in_flight=2)
        done = 0

        async def counts() -> None:
            nonlocal done
            await asyncio.sleep(0)
            done += 1

        outcome = await share.run([counts] * 50, lambda: done < 5)
        assert outcome.skipped > 30
        assert outcome.started + outcome.skipped == 50

    asyncio.run(main())


# ---- waits with a limit


def test_a_wait_gives_the_result_the_error_or_the_timeout() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def main() -> None:
        assert await within(asyncio.sleep(0, "done"), PATIENCE_S) == "done"
        with pytest.raises(ValueError, match="no"):
            await within(fails(), None)
        waiting = asyncio.ensure_future(asyncio.Event().wait())
        with pytest.raises(asyncio.TimeoutError):
            await within(waiting, 0.0)
        assert waiting.cancelled()

    asyncio.run(main())
