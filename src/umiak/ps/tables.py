"""Tables for programs that compute gradients themselves, with numpy: made by `Session.table`. An adapter.

    weights = session.table(ps.SparseTable(dim=1, rule=ps.Adagrad(0.5)), name="weights")
    rows = weights.pull(keys)                a row for each key
    weights.push(keys, gradients)            the rule runs where the table is
    session.end_step()                       the step counts

What a pull sees and when a push counts is as the session's strategy says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from umiak.ps import specs
from umiak.ps.lookup import as_keys, checked_absent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from umiak.ps.client import Absent, Floats
    from umiak.ps.communicators import Communicator
    from umiak.ps.lookup import Keys
    from umiak.ps.specs import DenseTable, SparseTable


class SparseTableHandle:
    """Rows by key. Keys are integers of any shape; rows have one dimension more."""

    def __init__(self, name: str, spec: SparseTable, communicator: Communicator) -> None:
        self.name = name
        self.spec = spec
        self._communicator = communicator
        self.number = communicator.open(name, spec)
        """What a client calls it."""

    def pull(self, keys: ArrayLike, *, create: bool = True, absent: Absent = "initial") -> Floats:
        """A row for each key. Missing ones are created; without ``create`` they read as ``absent`` says: as they would begin, or zeros."""
        return self._communicator.pull(self.number, _keys(keys), create=create, absent=checked_absent(absent))

    def push(self, keys: ArrayLike, gradients: ArrayLike, *, share: float | None = None) -> None:
        """This trainer's gradients of the step, a row for each key; those of equal keys add up. At most once in a step.

        ``share`` is what they count by; without it, where the strategy averages, by 1 / trainers.
        """
        self._communicator.push(self.number, _keys(keys), _floats(gradients), share=share)

    def set(self, keys: ArrayLike, rows: ArrayLike) -> None:
        """Overwrite rows, now and for everybody: no part of a step. Of equal keys, the last one counts.

        In geo, what another trainer has learned of them and not yet sent comes on top.
        """
        flat = _keys(keys).reshape(-1)
        self._communicator.set(self.number, flat, _floats(rows).reshape(flat.size, -1))

    def set_learning_rate(self, learning_rate: float) -> None:
        """From the next step on. Every trainer calls it at the same step."""
        self._communicator.set_learning_rate(self.number, learning_rate)

    def shrink(self) -> int:
        """Let what rows count decay, and evict those that count for too little; one trainer calls it. Returns how many went."""
        return self._communicator.client.shrink(self.number)


class DenseTableHandle:
    """Named arrays, as one array of one dimension that has them end to end."""

    def __init__(self, name: str, spec: DenseTable, communicator: Communicator, values: ArrayLike | None) -> None:
        specs.check(spec)
        self.name = name
        self.spec = spec
        self._communicator = communicator
        size = sum(array.size for array in spec.arrays)
        first = np.zeros(size, np.float32) if values is None else _floats(values).reshape(-1)
        self.number = communicator.open_dense(name, spec, first)
        """What a client calls it."""

    def pull(self, out: Floats | None = None) -> Floats:
        """All numbers, in ``out`` if it is given."""
        return self._communicator.pull_dense(self.number, out)

    def push(self, gradients: ArrayLike | Mapping[str, ArrayLike], *, share: float | None = None) -> None:
        """This trainer's gradients of the step: of all numbers end to end, or of each array by its name. ``share``: as for rows."""
        self._communicator.push_dense(self.number, self._end_to_end(gradients), share=share)

    def set(self, values: ArrayLike | Mapping[str, ArrayLike]) -> None:
        """Overwrite all numbers; trainer 0's count. Where trainers wait for each other, with the next step."""
        whole = self._end_to_end(values)
        self._communicator.set_dense(self.number, np.concatenate(whole))

    def set_learning_rate(self, learning_rate: float) -> None:
        """From the next step on. Every trainer calls it at the same step."""
        self._communicator.set_learning_rate(self.number, learning_rate)

    def by_name(self, values: Floats) -> dict[str, Floats]:
        """Each array by its name and in its shape: views of what `pull` gave."""
        found, behind = {}, 0
        for array in self.spec.arrays:
            found[array.name] = values[behind : behind + array.size].reshape(array.shape)
            behind += array.size
        return found

    def _end_to_end(self, given: ArrayLike | Mapping[str, ArrayLike]) -> list[Floats]:
        parts = [given[array.name] for array in self.spec.arrays] if isinstance(given, Mapping) else [given]
        return [_floats(part).reshape(-1) for part in parts]


def _keys(keys: ArrayLike) -> Keys:
    return as_keys(np.asarray(keys))


def _floats(numbers: ArrayLike) -> Floats:
    """float32 as the network has them; the array itself where it is."""
    return np.ascontiguousarray(numbers, np.float32)
