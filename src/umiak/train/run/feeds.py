"""Steps for one trainer: batches in the order that its mode asks for, alone or with the others, and where it stands among them. An adapter.

    LockstepFeed    every trainer has its share of the data, and all take every step together: alone, sync, hybrid, collective
    WorkQueueFeed   parts are handed out to trainers that are idle: async, half_async, geo

`place` is plain data from which a later run goes on with exactly the steps that would have come next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.data.parts import Part
from umiak.train.reading.batches import Batch, Step
from umiak.train.reading.checking import Seen
from umiak.train.reading.checking import together as seen_together
from umiak.train.reading.datasets.division import DatasetPart
from umiak.train.reading.samples import Samples
from umiak.train.reading.shuffling.pieces import PartGroup
from umiak.train.reading.work_queue import WorkQueue
from umiak.train.run.peers import Peers
from umiak.train.run.stopwatch import Stopwatch

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

LONGEST_BLOCK = 16
"""Trainers agree on the sizes of so many batches at a time: one exchange instead of one per step."""


@value
class StopOrSave:
    """What is to be done before the next step. All trainers get the same at the same place."""

    save: bool = False
    stop: bool = False

    def __bool__(self) -> bool:
        return self.save or self.stop


class LockstepFeed:
    """This trainer's share of an epoch, in steps with all others."""

    def __init__(self, samples: Samples, peers: Peers, watch: Stopwatch, *, at: JsonObject | None = None) -> None:
        self._samples = samples
        self._peers = peers
        self._watch = watch
        self._begin = samples.position()
        self._file = samples.file()
        self._block = int(at["block"]) if at else 0
        self._used = int(at["used"]) if at else 0

    def steps(self, wanted: Callable[[], StopOrSave]) -> Iterator[Step | StopOrSave]:
        """Until nobody has samples. ``wanted`` says what this trainer would like, and is asked now and then."""
        skipped = self._used
        while True:
            self._begin, self._used = self._samples.position(), skipped
            self._file = self._samples.file()
            batches = self._read(min(1 << self._block, LONGEST_BLOCK))
            own = wanted()
            told = self._peers.tell(
                {"sizes": [batch.size for batch in batches], "save": own.save, "stop": own.stop}, "block"
            )
            everybodys = StopOrSave(save=any(each["save"] for each in told), stop=any(each["stop"] for each in told))
            if everybodys and not skipped:
                yield everybodys
            columns = [each["sizes"] for each in told]
            steps = max(map(len, columns))
            if steps == 0:
                return
            for step in range(steps):
                self._used = step + 1
                if step >= skipped:
                    sizes = tuple(column[step] if step < len(column) else 0 for column in columns)
                    batch, following = (batches[at] if at < len(batches) else None for at in (step, step + 1))
                    yield Step(batch=batch, sizes=sizes, rank=self._peers.rank, following=following)
            self._block += 1
            skipped = 0

    def place(self) -> JsonObject:
        """Behind the step that was given out last."""
        return {"position": self._begin, "block": self._block, "used": self._used}

    def seen(self) -> Seen | None:
        return self._samples.seen()

    def file(self) -> str | None:
        """The file of the first batch that was read with the one that was given out last."""
        return self._file

    def warnings(self) -> Sequence[Problem]:
        return self._samples.warnings()

    def close(self) -> None:
        self._samples.close()

    def _read(self, count: int) -> list[Batch]:
        batches = []
        with self._watch.measuring("reading"):
            for _ in range(count):
                batch = next(self._samples, None)
                if batch is None:
                    break
                batches.append(batch)
        return batches


class WorkQueueFeed:
    """Parts, one after the other, as long as there are any."""

    def __init__(
        self,
        parts: Sequence[Part | PartGroup | DatasetPart],
        queue: WorkQueue,
        open_part: Callable[[Part | PartGroup | DatasetPart, str | None], Samples],
        draw: Callable[[], int],
        watch: Stopwatch,
        *,
        reads_ahead: bool = False,
    ) -> None:
        """``reads_ahead``: a batch is given out when the one behind it in its part has been read."""
        self._parts = parts
        self._queue = queue
        self._open = open_part
        self._draw = draw
        self._watch = watch
        self._samples: Samples | None = None
        self._part: int | None = None
        self._drawn = 0
        self._seen: list[Seen] = []
        self._reads_ahead = reads_ahead
        self._behind: tuple[str, str | None] | None = None
        """Where the batch that was given out ends, and its file, where more has been read."""

    def steps(self, wanted: Callable[[], StopOrSave]) -> Iterator[Step | StopOrSave]:
        """Until no part is left. ``wanted`` is asked between two steps."""
        while True:
            number = self._draw()
            self._drawn = number + 1
            part, position = self._queue.part(number)
            if part >= len(self._parts):
                return
            with self._open(self._parts[part], position) as self._samples:
                self._part = part
                batch = self._next(self._samples)
                while batch is not None:
                    following = self._ahead(self._samples)
                    yield Step(batch=batch, sizes=(batch.size,), rank=0, following=following)
                    if now := wanted():
                        yield now
                    batch = following if self._reads_ahead else self._next(self._samples)
                self._behind = None
                seen = self._samples.seen()
                self._seen += [seen] if seen else []
            self._part = None

    def place(self) -> JsonObject:
        """Which part this trainer has, where it is in it, and how many numbers were drawn as far as it knows."""
        position = None
        if self._samples is not None and self._part is not None:
            position = self._behind[0] if self._behind else self._samples.position()
        return {"part": self._part, "position": position, "drawn": self._drawn}

    def seen(self) -> Seen | None:
        return seen_together(self._seen) if self._seen else None

    def file(self) -> str | None:
        """The file of the batch that was given out last."""
        if self._behind is not None:
            return self._behind[1]
        return self._samples.file() if self._samples is not None else None

    def warnings(self) -> Sequence[Problem]:
        return self._samples.warnings() if self._samples is not None else ()

    def close(self) -> None:
        if self._samples is not None:
            self._samples.close()

    def _ahead(self, samples: Samples) -> Batch | None:
        """The batch behind the one that is given out now. Who goes on later does so before it."""
        if not self._reads_ahead:
            return None
        self._behind = samples.position(), samples.file()
        return self._next(samples)

    def _next(self, samples: Samples) -> Batch | None:
        with self._watch.measuring("reading"):
            return next(samples, None)
