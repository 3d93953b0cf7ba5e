"""Goes through a dataset's batches: they are made ready while others are learned, and what is fetched is printed.
An adapter.

In sync jobs trainers take their steps together. They tell each other the sizes of their next batches, some at a time:
so each batch counts by its size, and a trainer that has none left takes part in the others' steps without one.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import value
from umiak.fleet.datasets.settings import feed_of
from umiak.fleet.threads import Prefetcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from numpy.typing import ArrayLike
    from umiak_native import MultiSlotSamples

    from umiak.data.array_types import AnyArray
    from umiak.fleet.datasets.settings import DatasetSettings, Feed
    from umiak.ps.paddle_types import Fetched, Variable

    class StepTaker(Protocol):
        """Learns a batch, or only runs the program with it."""

        def step(
            self, feed: Feed, fetch: Sequence[Variable | str], share: float | None, following: Feed | None
        ) -> list[Fetched]:
            """What is fetched, as arrays or tensors. ``following``: the feed of the step behind it, where it is known."""

        def skip(self) -> None:
            """Take part in a step without a batch."""

    class FetchHandler(Protocol):
        """Paddle's class of this name."""

        var_dict: Mapping[str, Variable]
        period_secs: float

        def handler(self, values: dict[str, AnyArray]) -> None: ...

    Gather = Callable[[bytes], list[bytes]]
    ReadyStep = tuple["ReadyBatch | None", float | None, "ReadyBatch | None"]
    """A batch, its part of all trainers' samples, and this trainer's next batch, where it is known."""

BATCHES_AHEAD = 6
LONGEST_BLOCK = 16
"""Trainers of a sync job agree on so many steps at a time."""


@value
class FetchPlan:
    """What is fetched, and what is done with it."""

    variables: tuple[Variable, ...] = ()
    names: tuple[str, ...] = ()
    period: int = 100
    """In batches."""
    handler: FetchHandler | None = None
    """One of Paddle's ``FetchHandler``: it is called every ``period_secs`` with the values of its ``var_dict``."""


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
    ready.start()
    steps: Iterable[ReadyStep] = _together(ready, gather, rank) if gather else _alone(ready)
    done = 0
    handler = fetch.handler
    handled = {} if handler is None else dict(handler.var_dict)
    wanted = [*fetch.variables, *handled.values()]
    handled_at = time.monotonic()
    try:
        for batch, share, following in steps:
            if batch is None:
                taker.skip()
                continue
            found = taker.step(batch.feed, wanted, share, None if following is None else following.feed)
            done += 1
            if fetch.variables and done % fetch.period == 0:
                clock = time.strftime("%Y-%m-%d %H:%M:%S")
                write(line_of(clock, done, fetch.names, found[: len(fetch.variables)]))
            if handler is not None and handled and time.monotonic() - handled_at >= handler.period_secs:
                handled_at = time.monotonic()
                values = map(np.array, found[len(fetch.variables) :])
                handler.handler(dict(zip(handled, values, strict=True)))
    finally:
        ready.close()
    return done


def line_of(clock: str, batch: int, names: Sequence[str], arrays: Sequence[ArrayLike]) -> str:
    """What is fetched of a batch, as Paddle prints it; ``clock`` is the local time.

    time: [2026-11-17 05:50:43], batch: [2], the loss[1]:[25.982], h[4]:[0.427268 0.460417 0.540477 0.616482]
    """
    values = ", ".join(f"{name}{_shown(np.asarray(array))}" for name, array in zip(names, arrays, strict=True))
    return f"time: [{clock}], batch: [{batch}], {values}"


def _shown(array: AnyArray) -> str:
    flat = array.reshape(-1)
    return f"[{flat.size}]:[{' '.join(map(_number, flat.tolist()))}]"


def _number(number: float | bool) -> str:
    """As a stream of C++ writes it: six digits at most, no zeros behind them, 1 and 0 for booleans."""
    return f"{number:g}" if isinstance(number, float) else str(int(number))


def _alone(ready: ReadyBatches) -> Iterator[ReadyStep]:
    """No batch waits for the one behind it."""
    batch = ready.next()
    while batch is not None:
        following = ready.next_if_ready()
        yield batch, None, following
        batch = following or ready.next()


def _together(ready: ReadyBatches, gather: Gather, rank: int) -> Iterator[ReadyStep]:
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
            batch, following = (block[at] if at < len(block) else None for at in (step, step + 1))
            yield batch, sizes[rank] / sum(sizes), following
        length = min(length * 2, LONGEST_BLOCK)


class ReadyBatches(Prefetcher[ReadyBatch]):
    """Batches that a thread makes ready while others are used."""

    def __init__(self, batches: Iterable[MultiSlotSamples], settings: DatasetSettings) -> None:
        super().__init__(BATCHES_AHEAD, "dataset batches")
        self._batches = batches
        self._settings = settings

    def _items(self) -> Iterator[ReadyBatch]:
        for samples in self._batches:
            yield ReadyBatch(size=len(samples), feed=feed_of(samples, self._settings))

    def _interrupt(self) -> None:
        stop: Callable[[], None] | None = getattr(self._batches, "stop", None)
        if stop is not None:
            stop()  # its program may never print anything more
