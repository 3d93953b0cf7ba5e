"""Tables for programs that compute gradients themselves, with numpy: made by `Session.table`. An adapter.

    weights = session.table(ps.SparseTable(dim=1, rule=ps.Adagrad(0.5)), name="weights")
    rows = weights.pull(keys)                a row for each key
    weights.push(keys, gradients)            the rule runs where the table is
    session.end_step()                       the step counts

What a pull sees and when a push counts is as the session's strategy says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from umiak.ps import specs
from umiak.ps.errors import bad
from umiak.ps.tables.lookup import as_keys, checked_absent, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from umiak.ps.communicators import Communicator
    from umiak.ps.communicators.next_rows import Look
    from umiak.ps.gradients import Absent, Floats
    from umiak.ps.specs import DenseTable, SparseTable
    from umiak.ps.tables.lookup import Keys

    Values: TypeAlias = ArrayLike | Mapping[str, ArrayLike]

_A_ROW_EACH = "give a row for each key, in the order of the keys"


class _TableHandle:
    """What tables of both kinds have."""

    number: int
    """What a client calls it."""
    _communicator: Communicator

    def set_learning_rate(self, learning_rate: float) -> None:
        """From the next step on. Every trainer calls it at the same step."""
        self._communicator.set_learning_rate(self.number, learning_rate)


class SparseTableHandle(_TableHandle):
    """Rows by key. Keys are integers of any shape; rows have one dimension more."""

    def __init__(self, name: str, spec: SparseTable, communicator: Communicator) -> None:
        self.name = name
        self.spec = spec
        self._communicator = communicator
        self.number = communicator.open(name, spec)

    def pull(self, keys: ArrayLike, *, create: bool = True, absent: Absent = "initial") -> Floats:
        """A row for each key. Missing ones are created; without ``create`` they read as ``absent`` says: as they would begin, or zeros."""
        return self._communicator.pull(self.number, _keys(keys), create=create, absent=checked_absent(absent))

    def looks(self, keys: ArrayLike) -> Iterator[Look]:
        """What a pull of these keys looks up, for `Session.prefetch`."""
        yield self, _keys(keys)

    def push(self, keys: ArrayLike, gradients: ArrayLike, *, share: float | None = None) -> None:
        """This trainer's gradients of the step, a row for each key; those of equal keys add up. At most once in a step.

        ``share`` is what they count by; without it, where the strategy averages, by 1 / trainers.
        """
        flat = _keys(keys)
        rows = self._rows("gradients", gradients, flat, specs.push_width(self.spec))
        self._communicator.push(self.number, flat, rows, share=share)

    def set(self, keys: ArrayLike, rows: ArrayLike) -> None:
        """Overwrite rows, now and for everybody: no part of a step. Of equal keys, the last one counts.

        In geo, what another trainer has learned of them and not yet sent comes on top.
        """
        flat = _keys(keys).reshape(-1)
        self._communicator.set(self.number, flat, self._rows("rows", rows, flat, specs.pull_width(self.spec)))

    def shrink(self) -> int:
        """Let what rows count decay, and evict those that count for too little; one trainer calls it. Returns how many went."""
        self._communicator.next_rows.forget(self.number)
        return self._communicator.client.shrink(self.number)

    def _rows(self, what: str, given: ArrayLike, keys: Keys, width: int) -> Floats:
        """A row for each key. `BadRequest` if it is not."""
        rows = _floats(given)
        if rows.size != keys.size * width or (rows.ndim > 1 and rows.shape[-1] != width):
            wanted = (*keys.shape, width)
            raise bad("UM-PS-010", f"table {self.name}: {what} of shape {rows.shape}, expected {wanted}", _A_ROW_EACH)
        return rows.reshape(*keys.shape, width)


class DenseTableHandle(_TableHandle):
    """Named arrays, as one array of one dimension that has them end to end."""

    def __init__(self, name: str, spec: DenseTable, communicator: Communicator, values: Values | None) -> None:
        specs.check(spec)
        self.name = name
        self.spec = spec
        self._communicator = communicator
        size = sum(array.size for array in spec.arrays)
        first = np.zeros(size, np.float32) if values is None else np.concatenate(self._end_to_end(values))
        self.number = communicator.open_dense(name, spec, first)

    def pull(self, out: Floats | None = None) -> Floats:
        """All numbers, in ``out`` if it is given."""
        return self._communicator.pull_dense(self.number, out)

    def push(self, gradients: Values, *, share: float | None = None) -> None:
        """This trainer's gradients of the step: of all numbers end to end, or of each array by its name. ``share``: as for rows."""
        self._communicator.push_dense(self.number, self._end_to_end(gradients), share=share)

    def set(self, values: Values) -> None:
        """Overwrite all numbers; trainer 0's count. Where trainers wait for each other, with the next step."""
        whole = self._end_to_end(values)
        self._communicator.set_dense(self.number, np.concatenate(whole))

    def by_name(self, values: Floats) -> dict[str, Floats]:
        """Each array by its name and in its shape: views of what `pull` gave."""
        found, behind = {}, 0
        for array in self.spec.arrays:
            found[array.name] = values[behind : behind + array.size].reshape(array.shape)
            behind += array.size
        return found

    def _end_to_end(self, given: Values) -> list[Floats]:
        """Of each array, or of all. `BadRequest` if something is missing or too much."""
        sizes = {array.name: array.size for array in self.spec.arrays}
        if not isinstance(given, Mapping):
            given, sizes = {"all arrays": given}, {"all arrays": sum(sizes.values())}
        elif given.keys() != sizes.keys():
            told = f"arrays {', '.join(given) or 'none'}, expected {', '.join(sizes)}"
            raise bad("UM-PS-010", f"table {self.name}: {told}", "give each array of the table by its name")
        parts = {name: _floats(given[name]).reshape(-1) for name in sizes}
        for name, part in parts.items():
            if part.size != sizes[name]:
                told = f"{name}: {part.size} numbers, expected {sizes[name]}"
                raise bad("UM-PS-010", f"table {self.name}: {told}", "the table's `spec` has the shapes")
        return [*parts.values()]


def _keys(keys: ArrayLike) -> Keys:
    return as_keys(keys if isinstance(keys, np.ndarray) else listed(keys))


def _floats(numbers: ArrayLike) -> Floats:
    """float32 as the network has them; the array itself where it is."""
    return np.ascontiguousarray(numbers, np.float32)
