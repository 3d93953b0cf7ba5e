"""The data of a pass over a stream: what a `StageData` is to files. An adapter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import umiak
from umiak.train.reading.streams.samples import StreamSource
from umiak.train.run.stage_data import StageData

if TYPE_CHECKING:
    from umiak.data.features.lock import FeatureLock
    from umiak.train.plan.plan import Stage
    from umiak.train.run.context import Settings
    from umiak.train.run.peers import Peers

LAG_EVERY_S = 5.0
"""A broker is asked so often how much there is."""


class StreamData(StageData):
    """The messages of one pass after the other."""

    is_stream = True

    def __init__(
        self,
        stage: Stage,
        settings: Settings,
        peers: Peers,
        runner: str,
        source: StreamSource,
        behind: Callable[[], int | None],
        *,
        below: Sequence[str],
    ) -> None:
        """``behind``: how many messages are there behind the beginning of the pass, those in it among them."""
        self._stream = source
        self._behind = behind
        self._looked: tuple[float, int | None] = (float("-inf"), None)
        super().__init__(stage, settings.config, settings.written, peers, runner, below=below)

    def _source(self, _lock: FeatureLock | None, _predicted: Sequence[str] | None) -> StreamSource:
        return self._stream

    def turn_to(self, below: Sequence[str] | None) -> None:
        self._looked = (float("-inf"), None)
        super().turn_to(below)

    def guess(self) -> int | None:
        """Nobody knows when a stream ends."""
        return None

    def lag(self, samples: int) -> int | None:
        looked, behind = self._looked
        if time.monotonic() - looked >= LAG_EVERY_S:
            behind = self._behind()
            self._looked = (time.monotonic(), behind)
        return None if behind is None else max(0, behind - samples)

    def close(self) -> None:
        self._stream.close()
        super().close()


def source_of(stage: Stage, lock: FeatureLock | None, note: Callable[[str], None]) -> StreamSource:
    """How a stage's messages are read; while one is waited for, the process shows that it lives."""

    def idle(text: str) -> None:
        umiak.progress()
        if text:
            note(text)

    return StreamSource(stage.dataset, lock, idle)
