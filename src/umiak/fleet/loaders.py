"""``paddle.io.DataLoader.from_generator``, which Paddle 3 has no longer under that name. An adapter, for Paddle.

    loader = paddle.io.DataLoader.from_generator(feed_list=inputs, capacity=64, iterable=False)
    loader.set_batch_generator(batches)             or set_sample_generator, set_sample_list_generator
    loader.start()
    executor.run(program, fetch_list=[loss])        feeds what comes next, and raises paddle.core.EOFException behind the last
    loader.reset()

Iterable loaders and those of dynamic scripts are Paddle's own. Others were operations of the program:
here the executor asks for the next batch, because rows of tables are needed before the program runs.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import paddle
from paddle.base import core
from paddle.base.reader import DygraphGeneratorLoader, GeneratorLoader

from umiak.fleet.job import inner
from umiak.fleet.threads import Prefetcher
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from umiak.core.json_types import JsonMapping
    from umiak.ps.paddle_types import Fed, Program, Variables

    Feed = dict[str, Fed]

_loaders: weakref.WeakSet[ProgramLoader] = weakref.WeakSet()


def from_generator(
    feed_list: Variables = None,
    capacity: int | None = None,
    use_double_buffer: bool = True,
    iterable: bool = True,
    return_list: bool = False,
    use_multiprocess: bool = False,
    drop_last: bool = True,
) -> GeneratorLoader | DygraphGeneratorLoader:
    """As Paddle 2 has it."""
    if paddle.in_dynamic_mode():
        return DygraphGeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list, use_multiprocess)
    kind = GeneratorLoader if iterable or paddle.framework.use_pir_api() else ProgramLoader
    return kind(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last)


class ProgramLoader(GeneratorLoader):  # type: ignore[misc]
    """A loader that is started and reset, and feeds the program that it was made in, and copies of it."""

    def _init_non_iterable(self) -> None:
        self._program = weakref.ref(paddle.static.default_main_program())
        self._names = [each.name for each in self._feed_list]
        self._run: _GeneratorRun | None = None
        _loaders.add(self)

    @property
    def is_started(self) -> bool:
        return self._run is not None

    def start(self) -> None:
        """Begin with the first batch."""
        if self._tensor_reader is None:
            what = "DataLoader.start: the loader has no generator"
            raise bad("UM-FLEET-063", what, "loader.set_batch_generator(...), or one of its kind, first")
        self.reset()
        self._run = _GeneratorRun(self._tensor_reader, self._names, self._capacity)
        self._run.start()

    def reset(self) -> None:
        """Be ready for another start."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def feeds(self, program: Program) -> bool:
        """Whether a program has the variables that are fed."""
        known = program.global_block().vars
        return all(name in known for name in self._names)

    def is_of(self, program: Program) -> bool:
        """Whether it was made in this very program."""
        return self._program() is program

    def lacks(self, feed: JsonMapping) -> bool:
        """Whether somebody else feeds less than this loader would."""
        return any(name not in feed for name in self._names)

    def next_feed(self) -> Feed:
        """The next batch; raises EOFException behind the last."""
        assert self._run is not None
        feed = self._run.next()
        if feed is None:
            raise core.EOFException("There is no next data: the loader's generator has ended. Call loader.reset()")
        return feed


class _GeneratorRun(Prefetcher["Feed"]):
    """A generator that runs so many batches ahead."""

    def __init__(self, generator: Callable[[], Iterable[Fed]], names: list[str], capacity: int) -> None:
        super().__init__(max(int(capacity), 1), "umiak.fleet loader")
        self._generator = generator
        self._names = names

    def _items(self) -> Iterator[Feed]:
        for arrays in self._generator():
            yield {**arrays} if isinstance(arrays, dict) else dict(zip(self._names, arrays, strict=True))


def fed(program: Program, feed: Fed) -> Fed:
    """What a program is run with: the feed that is given, or what a loader of the program has next."""
    if not len(_loaders):
        return feed
    program = inner(program)
    if not hasattr(program, "global_block"):
        return feed
    given = (feed[0] if feed else {}) if isinstance(feed, (list, tuple)) else feed or {}
    fitting = [each for each in _loaders if each.feeds(program)]
    if not fitting or not any(each.lacks(given) for each in fitting):
        return feed
    started = [each for each in fitting if each.is_started]
    chosen = next((each for each in started if each.is_of(program)), started[0] if started else None)
    if chosen is not None:
        return {**chosen.next_feed(), **given}
    if given:
        return feed  # a part of the program may need no more
    what = "Executor.run: the program is fed by a DataLoader, which is not started"
    raise bad("UM-FLEET-063", what, "loader.start() before each pass, and loader.reset() behind it")


def install() -> None:
    """Give `paddle.io.DataLoader` the function that it had."""
    if not hasattr(paddle.io.DataLoader, "from_generator"):
        paddle.io.DataLoader.from_generator = staticmethod(from_generator)
