"""A trainer's samples of one epoch, read in any way. An adapter: what both kinds of reading have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType

from umiak.core.problem import Problem
from umiak.train.reading import checking
from umiak.train.reading.batches import Batch
from umiak.train.reading.positions import Position, Share


class Samples(ABC):
    """An iterator of batches that knows where it is."""

    def __init__(self, of: Share) -> None:
        self.of = of
        self.given = 0
        """Samples that were given out, those before the position that it began at included."""

    def __iter__(self) -> Samples:
        return self

    def __next__(self) -> Batch:
        batch = self._next()
        self.given += batch.size
        return batch

    def position(self) -> str:
        """JSON: from here on nothing was given out."""
        return Position(of=self.of, samples=self.given, at=self._at()).to_json()

    @abstractmethod
    def empty(self) -> Batch:
        """A batch without samples that has all slots."""

    def seen(self) -> checking.Seen | None:
        """How often declared slots occurred; None: there are none."""
        return None

    def file(self) -> str | None:
        """The file that is read now, or the first of several; None: there is none."""
        return None

    def warnings(self) -> Sequence[Problem]:
        """What is odd about the code that reads, as far as it is known by now. It only grows."""
        return ()

    @abstractmethod
    def close(self) -> None: ...
    @abstractmethod
    def _next(self) -> Batch: ...
    @abstractmethod
    def _at(self) -> str: ...

    def __enter__(self) -> Samples:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
