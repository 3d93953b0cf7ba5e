"""Goes through a dataset's batches: they are made ready while others are learned, and what is fetched is printed. An adapter.

In sync jobs trainers take their steps together. They tell each other the sizes of their next batches, some at a time: so each
batch counts by its size, and a trainer that has none left takes part in the others' steps without one.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import value
from umiak.fleet.datasets import fetch_lines
from umiak.fleet.datasets.feeds import feed_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from umiak_native import MultiSlotSamples

    from umiak.fleet.datasets.feeds import Feed
    from umiak.fleet.datasets.settings import DatasetSettings

    class StepTaker(Protocol):
        """Learns a batch, or only runs the program with it."""

        def step(self, feed: Feed, fetch: Sequence[Any], share: float | None) -> list[Any]:
            """What is fetched, as arrays or tensors."""

        def skip(self) -> None:
            """Take part in a step without a batch."""

    Gather = Callable[[bytes], list[bytes]]

BATCHES_AHEAD = 6
LONGEST_BLOCK = 16
"""Trainers of a sync job agree on so many steps at a time."""


@value
class FetchPlan:
    """What is fetched, and what is done with it."""

    variables: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    period: int = 100
    """In batches."""
    handler: Any = None
    """One of Paddle's ``FetchHandler``: it is called every ``period_secs`` with the values of its ``var_dict``."""

    @property
    def handled(self) -> dict[str, Any]:
        return dict(self.handler.var_dict) if self.handler is not None else {}


@value
class BatchStep:
    """One of a trainer's steps."""

    batch: ReadyBatch | None
    share: float | None = None


@value
class ReadyBatch:
    """A batch as the program is fed with it."""

    size: int
    feed: Feed


def run(
    batches: Iterable[MultiSlotSamples],
    settings: DatasetSettings,
    taker: StepTaker,
    fetch: FetchPlan,
    *,
    gather: Gather | None = None,
    rank: int = 0,
    write: Callable[[str], None],
) -> int:
    """Take a step for each batch; how many there were. ``gather`` is given where trainers take their steps together."""
    ready = ReadyBatches(batches, settings)
    done = 0
    handled = fetch.handled
    wanted = [*fetch.variables, *handled.values()]
    handled_at = time.monotonic()
    try:
        for step in _together(ready, gather, rank) if gather else _alone(ready):
            if step.batch is None:
                taker.skip()
                continue
            found = taker.step(step.batch.feed, wanted, step.share)
            done += 1
            if fetch.variables and done % fetch.period == 0:
                clock = time.strftime("%Y-%m-%d %H:%M:%S")
                write(fetch_lines.line(clock, done, fetch.names, found[: len(fetch.variables)]))
            if handled and time.monotonic() - handled_at >= fetch.handler.period_secs:
                handled_at = time.monotonic()
                values = map(np.array, found[len(fetch.variables) :])
                fetch.handler.handler(dict(zip(handled, values, strict=True)))
    finally:
        ready.close()
    return done


def _alone(ready: ReadyBatches) -> Iterator[BatchStep]:
    while (batch := ready.next()) is not None:
        yield BatchStep(batch=batch)


def _together(ready: ReadyBatches, gather: Gather, rank: int) -> Iterator[BatchStep]:
    """Steps with all others, until nobody has a batch."""
    length = 1
    while True:
        block: list[ReadyBatch] = []
        while len(block) < length and (batch := ready.next()) is not None:
            block.append(batch)
        told = gather(json.dumps([batch.size for batch in block]).encode())
        columns = [json.loads(each) if each else [] for each in told]
        steps = max(map(len, columns))
        if steps == 0:
            return
        for step in range(steps):
            sizes = [column[step] if step < len(column) else 0 for column in columns]
            batch = block[step] if step < len(block) else None
            yield BatchStep(batch=batch, share=sizes[rank] / sum(sizes))
        length = min(length * 2, LONGEST_BLOCK)


class ReadyBatches:
    """Batches that a thread makes ready while others are used."""

    def __init__(self, batches: Iterable[MultiSlotSamples], settings: DatasetSettings) -> None:
        self._batches = batches
        self._settings = settings
        self._ready: queue.Queue[ReadyBatch | BaseException | None] = queue.Queue(BATCHES_AHEAD)
        self._stop = threading.Event()
        self._is_done = False
        self._thread = threading.Thread(target=self._make, name="dataset batches", daemon=True)
        self._thread.start()

    def next(self) -> ReadyBatch | None:
        """None: that was all of them."""
        if self._is_done:
            return None
        batch = self._ready.get()
        if isinstance(batch, BaseException):
            self._is_done = True
            raise batch
        self._is_done = batch is None
        return batch

    def close(self) -> None:
        """End the thread, and with it whatever the batches are read by."""
        self._stop.set()
        stop: Callable[[], None] | None = getattr(self._batches, "stop", None)
        if stop is not None:
            stop()  # its program may never print anything more
        self._thread.join()

    def _make(self) -> None:
        last: BaseException | None = None
        try:
            for samples in self._batches:
                ready = ReadyBatch(size=len(samples), feed=feed_of(samples, self._settings))
                if not self._put(ready):
                    break
        except BaseException as error:  # noqa: BLE001 - raised where the batches are used
            last = error
        self._put(last)

    def _put(self, batch: ReadyBatch | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._ready.put(batch, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False
