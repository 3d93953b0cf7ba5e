"""Rows of the next step: what will be asked for, and what has come of it until a layer asks. A decider.

    next_rows.expect([(table, keys)])           the batch that comes next has these keys
    asked = next_rows.ask(step=7)               they go with the end of the step: table, keys, room for rows
    next_rows.arrive()                          they are there
    rows = next_rows.take(number, keys, step=7)

What is given out is what a pull at the end of the step before has read. It is given once, for the very keys that were
expected, in that step alone. Whatever else may change rows lets go of them first; then there is a pull, as for others.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from umiak.ps import specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from numpy.typing import NDArray

    from umiak.ps import gradients
    from umiak.ps.gradients import Floats
    from umiak.ps.specs import SparseTable

    Keys = NDArray[np.uint64]

    class ReadTable(Protocol):
        """A table whose rows are read: an `EmbeddingTable`, or a handle of one."""

        spec: SparseTable

        @property
        def number(self) -> int: ...

    Look = tuple[ReadTable, Keys | Callable[[], Keys]]
    """A table, and the keys that a layer asks it for at once, or what gives them when they are needed."""
    Room = Callable[[tuple[int, ...]], Floats]
    Asked = tuple[int, Keys, Floats]
    """A table's number, keys, and where their rows go."""


class NextRows:
    """Those of one trainer."""

    def __init__(self) -> None:
        self._expected: list[Look] = []
        self._coming: dict[int, list[tuple[Keys, Floats]]] = {}
        self._held: dict[int, list[tuple[Keys, Floats]]] = {}
        self.room: Room = lambda shape: np.empty(shape, np.float32)
        """Makes the arrays that rows go to: a GPU copies from memory of its own kind."""
        self._step = 0
        """The step that what is held, or coming, is for."""
        self.was_wrong = False
        """Whether rows have come that nobody has asked for by the end of their step."""

    def expect(self, looks: Iterable[Look]) -> None:
        """What the next batch will look up: the keys of each look, of any shape. They are copied."""
        self._expected = [(table, keys if callable(keys) else keys.flatten()) for table, keys in looks]

    def ask(self, *, step: int) -> list[Asked]:
        """What was expected, to be read for this step; from now on nothing of before is held."""
        self.was_wrong |= any(self._held.values())
        by_table: dict[int, tuple[ReadTable, list[Keys]]] = {}
        for table, said in self._expected:
            keys = said() if callable(said) else said
            if keys.size:
                by_table.setdefault(table.number, (table, []))[1].append(keys)
        self._expected, self._held, self._coming, self._step = [], {}, {}, step
        asked = []
        for number, (table, looks) in by_table.items():
            whole = looks[0] if len(looks) == 1 else np.concatenate(looks)
            rows = self.room((whole.size, specs.pull_width(table.spec)))
            ends = itertools.accumulate(look.size for look in looks)
            self._coming[number] = [(look, rows[end - look.size : end]) for end, look in zip(ends, looks, strict=True)]
            asked.append((number, whole, rows))
        return asked

    def arrive(self) -> None:
        """What was asked for is there."""
        self._held, self._coming = self._coming, {}

    def take(self, table: int, keys: gradients.Keys, *, step: int) -> Floats | None:
        """The rows of these keys, if they were expected for this step and nobody has had them. None: pull them."""
        if step != self._step:
            return None
        looks, flat = self._held.get(table, []), keys.reshape(-1)
        for number, (expected, rows) in enumerate(looks):
            if expected.size == flat.size and bool((expected == flat).all()):
                # Given once: what a model changes in place must not be what it gets for the same keys a second time.
                del looks[number]
                return rows.reshape(*keys.shape, -1)
        return None

    def forget(self, table: int | None = None) -> None:
        """Rows may have changed since they were read: of one table, or of all."""
        if table is None:
            self._held = {}
        else:
            self._held.pop(table, None)
