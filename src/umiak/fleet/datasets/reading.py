"""Reads a dataset: several files at a time through its program, parsed natively, cut into batches. An adapter.

    for batch in FileBatches(settings, say): ...        samples of one batch each; the last ones may be smaller

There are as many rows of files as threads, and batches are taken from them in turn; a row that is at the end of a file goes on with
the next one that nobody reads yet. So the order depends on the files alone, not on how fast they are, and with one thread it is
that of the files. At the end each row may have a batch that is not full, as in Paddle.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

import umiak_native
from umiak_native import MultiSlotSamples

from umiak.core.problem import Problem
from umiak.fleet.datasets import pipes
from umiak.fleet.datasets.pipes import PipeError, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umiak.fleet.datasets.settings import DatasetSettings

BLOCK_BYTES = 1 << 20
"""So much text is parsed at a time,"""
BLOCKS_AHEAD = 4
"""and so many blocks of each file are kept ready."""


class FileStream:
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
        self._settings = settings
        self._file = file
        self._say = say
        self._ended = ended
        self._blocks: queue.Queue[MultiSlotSamples | BaseException | None] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name=f"dataset {file}", daemon=True)
        self._program: Source | None = None
        self._lock = threading.Lock()
        self.is_started = False

    def start(self) -> None:
        self.is_started = True
        self._thread.start()

    def next(self) -> MultiSlotSamples | None:
        """Some samples; None at the end of the file, or when it was closed. `PipeError` if it failed."""
        while not self._stop.is_set():
            try:
                block = self._blocks.get(timeout=0.5)
            except queue.Empty:
                continue
            if isinstance(block, BaseException):
                raise block
            return block
        return None

    def close(self) -> None:
        """End its program and its thread."""
        if not self.is_started:
            return
        self._stop.set()
        with self._lock:
            if self._program is not None:
                self._program.kill()
        self._thread.join()

    def _read(self) -> None:
        try:
            self._read_blocks()
        except BaseException as error:  # noqa: BLE001 - it is raised where the samples are used
            self._put(error)
        else:
            self._put(None)
        finally:
            with self._lock:
                program, self._program = self._program, None
            if program is not None:
                program.close()
            self._ended()

    def _read_blocks(self) -> None:
        settings = self._settings
        parser = umiak_native.MultiSlotParser(settings.forms, texts=settings.texts)
        with self._lock:
            if self._stop.is_set():
                return
            program = self._program = pipes.opened(settings.command, self._file)
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
            if not self._put(samples):
                return

    def _put(self, block: MultiSlotSamples | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._blocks.put(block, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

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
