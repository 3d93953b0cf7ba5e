"""Samples that a reader class of the user's makes, put together to batches. An adapter."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.data.parts import Part
from umiak.train.config.values import Dataset
from umiak.train.reading import finding, lines
from umiak.train.reading.columns import Column
from umiak.train.reading.finding import Files
from umiak.train.reading.pool import Pool, ReaderClass, Result
from umiak.train.reading.positions import Position, Share
from umiak.train.reading.samples import WindowedSamples
from umiak.train.reading.shuffling.windows import ReadPosition


class UserSamples(WindowedSamples):
    """Samples that a class of the user's makes."""

    def __init__(
        self,
        dataset: Dataset,
        kind: ReaderClass,
        found: Files,
        own: tuple[Part, ...],
        of: Share,
        begin: Position | None,
        pool: Pool | None = None,
        *,
        shuffle: int = 0,
    ) -> None:
        """``shuffle``: samples are permuted in windows of so many; 0: they come in order."""
        super().__init__(dataset.batch_size, own, of, begin, shuffle=shuffle)
        self._is_own_pool = pool is None or not pool.is_open
        self._pool = pool if pool is not None and pool.is_open else Pool(kind, dataset.reader_processes)
        self._at_end = False
        try:
            self.columns = _columns(self._pool, found)
            self._start()
        except BaseException:
            self._pool.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes."""
        return self._pool.pids

    def warnings(self) -> Sequence[Problem]:
        return self._pool.warnings

    def close(self) -> None:
        """End its processes, unless they are somebody else's and have nothing left to do."""
        self._results.close()
        if self._is_own_pool or not self._at_end:
            self._pool.close()
        self._waiting = []

    def _results_from(self, place: ReadPosition) -> Generator[Result, None, None]:
        chunks = lines.chunks(self._own, part=place.part, offset=place.offset, skip=place.samples)
        return self._pool.read(chunks, self._own, self.columns)

    def _ended(self) -> None:
        self._at_end = True
        self.close()

    def _spoken(self, place: ReadPosition) -> ReadPosition:
        path = self._own[place.part].path
        return replace(place, file=path, line=lines.line_number(path, place.offset or 0))


def _columns(pool: Pool, found: Files) -> tuple[Column, ...]:
    """What the first sample of all data says, for every trainer the same."""
    if found.digest not in pool.known:
        said = (pool.columns(finding.fetched((Part(path=file.path),))) for file in found.files)
        pool.known[found.digest] = next((columns for columns in said if columns), ())
    return pool.known[found.digest]
