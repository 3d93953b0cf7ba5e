"""`fluid.io.DataLoader.from_generator` and `PyReader`: batches from generators of people's own. A program.

Iterable, it yields feeds; otherwise it feeds its program itself between `start` and the `EOFException` at the end. There is no thread
in between: a batch is made when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.fluid.record import naming
from umiak.fluid.record.current import default_main_program, in_dygraph_mode
from umiak.fluid.record.problems import EOFException, bad
from umiak.fluid.record.program import Variable
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.feeding import DataFeeder
from umiak.fluid.running.scope import LoDTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from umiak.fluid.arguments import DType, Feed, Inputs, Output, Outputs, Place, Reader, Shape


class GeneratorLoader:
    """One loader, and its program."""

    def __init__(
        self, feed_list: Inputs, *, iterable: bool = True, return_list: bool = False, drop_last: bool = True
    ) -> None:
        self._feed_list, self.iterable, self.return_list = list(feed_list or ()), iterable, return_list
        self.drop_last, self.started = drop_last, False
        self._batches: Callable[[], Iterator[Feed]] | None = None
        self._running: Iterator[Feed] | None = None
        if not iterable:
            default_main_program().loaders.append(self)

    # ---- where batches come from

    def set_sample_generator(self, reader: Reader, batch_size: int, drop_last: bool = True, places: Place = None) -> GeneratorLoader:  # fmt: skip
        """A reader of rows."""

        def batches() -> Iterator[Any]:
            rows: Outputs = []
            for row in reader():
                rows.append(row if isinstance(row, list | tuple) else (row,))
                if len(rows) == batch_size:
                    yield rows
                    rows = []
            if rows and not drop_last:
                yield rows

        return self.set_sample_list_generator(batches)

    def set_sample_list_generator(self, reader: Reader, places: Place = None) -> GeneratorLoader:
        """A reader of lists of rows."""
        if in_dygraph_mode() or not self._feed_list:

            def columns() -> Iterator[Feed]:
                for batch in reader():
                    yield {str(place): np.asarray(each) for place, each in enumerate(zip(*batch, strict=True))}

            self._batches = columns
            return self
        feeder = DataFeeder(self._feed_list)
        self._batches = lambda: (feeder.feed(batch) for batch in reader())
        return self

    def set_batch_generator(self, reader: Reader, places: Place = None) -> GeneratorLoader:
        """A reader of whole batches: an array for each variable, or a dictionary."""
        names = [each.name for each in self._feed_list]

        def batches() -> Iterator[Feed]:
            for batch in reader():
                if isinstance(batch, dict):
                    yield batch
                    continue
                arrays = batch if isinstance(batch, list | tuple) else [batch]
                keys = names or [str(place) for place in range(len(arrays))]
                if len(arrays) != len(keys):
                    what = f"a batch has {len(arrays)} arrays, expected {len(keys)}: {', '.join(keys)}"
                    raise bad("UM-FLUID-006", what, where=user_line())
                yield dict(zip(keys, arrays, strict=True))

        self._batches = batches
        return self

    decorate_sample_generator = set_sample_generator
    decorate_sample_list_generator = set_sample_list_generator
    decorate_batch_generator = set_batch_generator
    decorate_paddle_reader = set_sample_list_generator
    decorate_tensor_provider = set_batch_generator

    # ---- how they are asked for

    def __iter__(self) -> Iterator[Any]:
        for feed in self._begun():
            if in_dygraph_mode():
                from umiak.fluid.record.dynamic import to_variable

                yield [to_variable(np.asarray(each)) for each in feed.values()]
            elif self.return_list:
                yield [each if isinstance(each, LoDTensor) else np.asarray(each) for each in feed.values()]
            else:
                yield [feed]

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def _begun(self) -> Iterator[Feed]:
        if self._batches is None:
            hint = "call set_sample_generator, set_sample_list_generator or set_batch_generator"
            raise bad("UM-FLUID-006", "this loader has no reader yet", hint, where=user_line())
        return iter(self._batches())

    def start(self) -> None:
        """Feed the program, from the first batch on."""
        if self.iterable:
            raise bad(
                "UM-FLUID-001",
                "start() is for loaders with iterable=False",
                "write `for feed in loader():`",
                where=user_line(),
            )
        self._running, self.started = self._begun(), True

    def reset(self) -> None:
        """Stop, after an `EOFException` or before."""
        self._running, self.started = None, False

    def next_feed(self) -> Feed:
        """The next batch."""
        assert self._running is not None
        try:
            return next(self._running)
        except StopIteration:
            raise EOFException("There is no next data.") from None

    # ---- py_reader of layers, which makes its own variables

    @property
    def variables(self) -> list[Variable]:
        """What it feeds."""
        return self._feed_list


class DataLoader:
    """`fluid.io.DataLoader`."""

    @staticmethod
    def from_generator(feed_list: Inputs = None, capacity: int | None = None, use_double_buffer: bool = True, iterable: bool = True, return_list: bool = False, use_multiprocess: bool = False, drop_last: bool = True) -> GeneratorLoader:  # fmt: skip
        """A loader of what a generator yields."""
        return GeneratorLoader(feed_list, iterable=iterable, return_list=return_list, drop_last=drop_last)

    @staticmethod
    def from_dataset(dataset: Any, places: Place = None, drop_last: bool = True) -> GeneratorLoader:
        """A loader of the batches of a dataset, whose variables it feeds."""
        from umiak.fluid.running import dataset_runs

        return GeneratorLoader(None).set_batch_generator(lambda: dataset_runs.feeds(dataset, drop_last=drop_last))


class PyReader(GeneratorLoader):
    """`fluid.io.PyReader`."""

    def __init__(self, feed_list: Inputs = None, capacity: int | None = None, use_double_buffer: bool = True, iterable: bool = True, return_list: bool = False) -> None:  # fmt: skip
        super().__init__(feed_list, iterable=iterable, return_list=return_list)


def py_reader(capacity: int, shapes: Shape, dtypes: DType, lod_levels: DType = None, name: str | None = None, use_double_buffer: bool = True) -> GeneratorLoader:  # fmt: skip
    """`fluid.layers.py_reader`: a loader with variables of its own; `read_file` returns them."""
    from umiak.fluid.layers.basics import data_v2

    prefix = name or naming.generate("py_reader")
    levels = lod_levels or [0] * len(shapes)
    variables = [
        data_v2(f"{prefix}_{place}", shape, dtype, level)
        for place, (shape, dtype, level) in enumerate(zip(shapes, dtypes, levels, strict=True))
    ]
    for each in variables:
        each.checked = False
    return GeneratorLoader(variables, iterable=False)


def create_py_reader_by_data(capacity: int, feed_list: Inputs, name: str | None = None, use_double_buffer: bool = True) -> GeneratorLoader:  # fmt: skip
    """The same, with variables that are there."""
    return GeneratorLoader(feed_list, iterable=False)


def read_file(reader: GeneratorLoader) -> Output:
    """The variables of a py_reader."""
    variables = reader.variables
    return variables[0] if len(variables) == 1 else list(variables)


def double_buffer(reader: Reader, place: Place = None, name: str | None = None) -> Output:
    """The same reader."""
    return reader
