"""Reads a dataset: several files at a time through its program, parsed natively, cut into batches. An adapter.

    for batch in FileBatches(settings, say): ...        samples of one batch each; the last ones may be smaller
    SampleMemory().load(settings, say)                  all of them, to be shuffled before they are cut into batches

There are as many rows of files as threads, and batches are taken from them in turn; a row that is at the end of a file
goes on with the next one that nobody reads yet. So the order depends on the files alone, not on how fast they are, and
with one thread it is that of the files. At the end each row may have a batch that is not full, as in Paddle.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import umiak_native
from umiak_native import MultiSlotSamples

from umiak.core.problem import Problem
from umiak.fleet.datasets import pipes
from umiak.fleet.datasets.pipes import PipeError, Source
from umiak.fleet.threads import BackgroundTask, Prefetcher
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from umiak.fleet.datasets.settings import DatasetSettings

BLOCK_BYTES = 1 << 20
"""So much text is parsed at a time,"""
BLOCKS_AHEAD = 4
"""and so many blocks of each file are kept ready."""


class FileStream(Prefetcher[MultiSlotSamples]):
    """The samples of one file, read by a thread of its own."""

    def __init__(
        self,
        settings: DatasetSettings,
        file: str,
        *,
        ahead: int,
        say: Callable[[str], None],
        ended: Callable[[], None],
    ) -> None:
        super().__init__(ahead, f"dataset {file}")
        self._settings = settings
        self._file = file
        self._say = say
        self._when_ended = ended
        self._program: Source | None = None
        self._lock = threading.Lock()
        self.is_started = False

    def start(self) -> None:
        self.is_started = True
        super().start()

    def close(self) -> None:
        if self.is_started:
            super().close()

    def _interrupt(self) -> None:
        with self._lock:
            if self._program is not None:
                self._program.kill()

    def _ended(self) -> None:
        with self._lock:
            program, self._program = self._program, None
        if program is not None:
            program.close()
        self._when_ended()

    def _items(self) -> Iterator[MultiSlotSamples]:
        settings = self._settings
        parser = umiak_native.MultiSlotParser(settings.forms, texts=settings.texts)
        with self._lock:
            if self._is_stopped:
                return
            program = self._program = pipes.opened(settings.command, self._file, settings.remote)
        lines = 0
        for text in program.blocks(BLOCK_BYTES):
            try:
                samples, surplus = parser.parse(text)
            except umiak_native.ReaderError as error:
                raise self._bad_line(program, error, lines) from error
            if surplus is not None:
                place = program.line(lines + surplus + 1)
                self._say(f"{place}: more than the {len(settings.slots)} slots of use_var; the rest is passed over")
            lines += len(samples)
            yield samples

    def _bad_line(self, source: Source, error: umiak_native.ReaderError, before: int) -> PipeError:
        slot: int | None = getattr(error, "slot", None)
        line = before + (error.line or 0) + 1
        named = f"slot {slot + 1} ({self._settings.slots[slot].name}), " if slot is not None else ""
        return PipeError(
            Problem(
                code="UM-FLEET-046",
                what=f"a line {source.origin} is no sample: {named}column {error.column}: {error.message}",
                why="a line has for each variable of use_var the number of its values, and these",
                hint=f"look at it: {source.show_line(line)}",
                where=source.line(line),
            )
        )


class FileStreams:
    """All files of a dataset, of which a few are read at a time."""

    def __init__(self, settings: DatasetSettings, say: Callable[[str], None], *, ahead: int = BLOCKS_AHEAD) -> None:
        """``ahead``: 0 is any number."""
        self._said = False
        self._say = say
        self._lock = threading.Lock()
        self._streams = [
            FileStream(settings, file, ahead=ahead, say=self._say_once, ended=self._start_next)
            for file in settings.files
        ]
        self._given = 0
        self._started = 0
        self._is_closed = False
        for _ in range(min(settings.threads, len(self._streams))):
            self._start_next()

    def next_stream(self) -> FileStream | None:
        """The next file that nobody has."""
        with self._lock:
            if self._is_closed or self._given == len(self._streams):
                return None
            stream = self._streams[self._given]
            self._given += 1
            while self._started < self._given:
                self._start()
        return stream

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for stream in self._streams:
            stream.close()

    def _start_next(self) -> None:
        with self._lock:
            if self._started < len(self._streams) and not self._is_closed:
                self._start()

    def _start(self) -> None:
        self._streams[self._started].start()
        self._started += 1

    def _say_once(self, text: str) -> None:
        with self._lock:
            if self._said:
                return
            self._said = True
        self._say(text)


class FileRow:
    """Files that are read one after the other, cut into batches."""

    def __init__(self, streams: FileStreams, batch_size: int) -> None:
        self._streams = streams
        self._batch_size = batch_size
        self._stream = streams.next_stream()
        self._block: MultiSlotSamples | None = None
        self._used = 0

    def next_batch(self) -> MultiSlotSamples | None:
        """None: there is nothing left."""
        parts: list[MultiSlotSamples] = []
        missing = self._batch_size
        while missing:
            if self._block is None:
                self._block, self._used = self._next_block(), 0
                if self._block is None:
                    break
            end = min(self._used + missing, len(self._block))
            parts.append(self._block.cut(self._used, end))
            missing -= end - self._used
            self._used = end
            if end == len(self._block):
                self._block = None
        if len(parts) > 1:
            return MultiSlotSamples.join(parts)
        return parts[0] if parts else None

    def _next_block(self) -> MultiSlotSamples | None:
        while self._stream is not None:
            block = self._stream.next()
            if block is None:
                self._stream = self._streams.next_stream()
            elif len(block):
                return block
        return None


class FileBatches:
    """All batches of a dataset's files, once. `stop` ends every program, from any thread."""

    def __init__(self, settings: DatasetSettings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._streams = FileStreams(settings, say)

    def __iter__(self) -> Iterator[MultiSlotSamples]:
        settings, streams = self._settings, self._streams
        try:
            rows = [FileRow(streams, settings.batch_size) for _ in range(min(settings.threads, len(settings.files)))]
            while rows:
                left = []
                for row in rows:
                    batch = row.next_batch()
                    if batch is not None:
                        left.append(row)
                        yield batch
                rows = left
        finally:
            self.stop()

    def stop(self) -> None:
        self._streams.close()


def everything(settings: DatasetSettings, say: Callable[[str], None]) -> MultiSlotSamples:
    """All samples, in the order of the files."""
    streams = FileStreams(settings, say, ahead=0)
    blocks: list[MultiSlotSamples] = []
    try:
        while (stream := streams.next_stream()) is not None:
            while (block := stream.next()) is not None:
                blocks.append(block)
    finally:
        streams.close()
    if not blocks:
        return umiak_native.MultiSlotParser(settings.forms).parse(b"")[0]
    return MultiSlotSamples.join(blocks)


class SampleMemory:
    """The samples of a dataset in memory. Their order is kept apart, so that a shuffle moves no samples.

    Whatever is random is drawn from numpy's global generator: ``numpy.random.seed`` makes it the same in every run.
    """

    def __init__(self) -> None:
        self._samples: MultiSlotSamples | None = None
        self._order: NDArray[np.int64] | None = None
        self._loading: BackgroundTask | None = None
        self.is_shuffled = False

    def __len__(self) -> int:
        return 0 if self._samples is None else len(self._samples)

    @property
    def is_loaded(self) -> bool:
        return self._samples is not None

    @property
    def samples(self) -> MultiSlotSamples:
        """As they were loaded, whatever their order."""
        if self._samples is None:
            raise bad(
                "UM-FLEET-048",
                "the dataset holds no samples: nothing was loaded, or it was released",
                "dataset.load_into_memory() first",
            )
        return self._samples

    def load(self, settings: DatasetSettings, say: Callable[[str], None]) -> None:
        """Read all files. What was there before is forgotten."""
        self.release()
        self._samples = everything(settings, say)

    def start_loading(self, settings: DatasetSettings, say: Callable[[str], None]) -> None:
        """The same while this thread goes on; `wait` tells its end."""
        self.wait()
        self._loading = BackgroundTask(partial(self.load, settings, say), "dataset preload")

    def wait(self) -> None:
        """Until `start_loading` is done. Raises what it failed of."""
        loading, self._loading = self._loading, None
        if loading is not None:
            loading.join()

    def shuffle(self) -> None:
        self._order = np.random.permutation(len(self.samples)).astype(np.int64)
        self.is_shuffled = True

    def shuffle_slots(self, slots: Sequence[int]) -> None:
        """Give these slots to other samples: how much worse a model gets shows what a slot is worth."""
        samples = self.samples
        for slot in slots:
            picked = np.random.permutation(len(samples)).astype(np.int64)
            samples = samples.with_slots_of([slot], picked)
        self._samples = samples

    def replace(self, samples: MultiSlotSamples) -> None:
        """Hold other samples, in a random order."""
        self._samples = samples
        self.shuffle()

    def release(self) -> None:
        self._samples = self._order = None
        self.is_shuffled = False

    def batches(self, batch_size: int) -> Iterator[MultiSlotSamples]:
        samples, order = self.samples, self._order
        for start in range(0, len(samples), batch_size):
            end = min(start + batch_size, len(samples))
            yield samples.cut(start, end) if order is None else samples.take(order[start:end])
