"""`fluid.DataFeeder`: rows of Python values to what a program is fed. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import Variable
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.scope import LoDTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.fluid.arguments import AnyProgram, Feed, Feeds, Inputs, Outputs, Place, Reader


class DataFeeder:
    """Knows the variables that are fed, in the order of the columns of a row."""

    def __init__(self, feed_list: Inputs, place: Place = None, program: AnyProgram = None) -> None:
        block = (program or default_main_program()).global_block()
        self._variables = [block.var(each) if isinstance(each, str) else each for each in feed_list]
        for each in self._variables:
            if not isinstance(each, Variable):
                raise bad(
                    "UM-FLUID-001", f"DataFeeder: expected variables or their names, got {each!r}", where=user_line()
                )
        self.feed_names = [each.name for each in self._variables]
        self.place = place

    def feed(self, iterable: Reader) -> Feed:
        """The rows of one batch, column by column."""
        batch = list(iterable)
        for number, row in enumerate(batch):
            if len(row) != len(self._variables):
                what = f"DataFeeder: row {number} has {len(row)} columns, expected {len(self._variables)}: {', '.join(self.feed_names)}"
                raise bad("UM-FLUID-006", what, where=user_line())
        return {
            variable.name: column(variable, [row[place] for row in batch])
            for place, variable in enumerate(self._variables)
        }

    def feed_parallel(self, iterable: Reader, num_places: int | None = None) -> Iterator[Feed]:
        """A feed for each part; as many parts as devices, if their number is given."""
        parts = list(iterable)
        if num_places is not None and len(parts) != num_places:
            what = f"DataFeeder.feed_parallel: {len(parts)} parts for num_places={num_places} devices"
            raise bad("UM-FLUID-006", what, where=user_line())
        return (self.feed(each) for each in parts)

    def decorate_reader(self, reader: Reader, multi_devices: bool = False, num_places: int | None = None, drop_last: bool = True) -> Any:  # fmt: skip
        """A reader of feeds from a reader of batches; with ``multi_devices`` of lists of so many feeds as there are devices."""
        devices = 1 if num_places is None else int(num_places)

        def feeds() -> Iterator[Feeds]:
            part = []
            for batch in reader():
                if not multi_devices:
                    yield self.feed(batch)
                    continue
                part.append(batch)
                if len(part) == devices:
                    yield list(self.feed_parallel(part, devices))
                    part = []
            if part and not drop_last:
                what = (
                    f"DataFeeder.decorate_reader(drop_last=False): {len(part)} batches are left for {devices} devices"
                )
                raise bad("UM-FLUID-006", what, "drop_last=True leaves them out", where=user_line())

        return feeds


def column(variable: Variable, items: Outputs) -> Any:
    """The values of one variable in all rows: an array, or sequences one after another."""
    if variable.lod_level:
        return sequences(variable, items)
    array = np.asarray(items, dtype=variable.dtype)
    if len(array.shape) != len(variable.shape):
        sizes = [size if size >= 0 else -1 for size in variable.shape]
        array = array.reshape(
            [len(items) if place == 0 and -1 in sizes[1:] else size for place, size in enumerate(sizes)]
        )
    return array


def sequences(variable: Variable, items: Outputs) -> LoDTensor:
    """Nested lists flattened, with the offsets of each level."""
    levels: list[list[int]] = []
    flat = items
    for _ in range(variable.lod_level):
        levels.append([0, *np.cumsum([len(each) for each in flat]).astype(int).tolist()])
        flat = [one for each in flat for one in each]
    shape = [size for size in variable.shape[1:] if size >= 0]
    values = np.asarray(flat, dtype=variable.dtype).reshape([len(flat), *shape])
    return LoDTensor(values, levels)
