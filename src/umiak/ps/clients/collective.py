"""Tables that every trainer has, kept equal by exchanging gradients. An adapter, without a framework.

    CollectiveClient(group)        the operations of `umiak.ps.clients.Client`, for trainers without servers

A `Group` is whatever lets trainers add arrays and gather bytes; `umiak.ps.clients.paddle_group` has Paddle's. Rows are many and each step touches few,
so rows are gathered and dense gradients are added up.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

import numpy as np
import umiak_native

from umiak.ps.clients.local import LocalClient
from umiak.ps.gradients import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from umiak.core.json_types import JsonMapping
    from umiak.ps.gradients import Floats, Keys, Push


class Group(Protocol):
    """Trainers that exchange. Every one of them makes the same calls in the same order."""

    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    def gather(self, payload: bytes, name: str = "") -> list[bytes]:
        """Everybody's bytes, in order of rank. Under one name they should be of about the same length."""

    def add(self, array: Floats) -> None:
        """Let this array be the sum of everybody's, the same bits everywhere."""


class CollectiveClient(LocalClient):
    """All tables, in this process; a step is applied with everybody's gradients."""

    _adds_up = True

    def __init__(self, group: Group, *, shards: int = 256) -> None:
        super().__init__(shards=shards)
        self._group = group
        self._dense_set: dict[int, Floats] = {}

    def set_dense(self, table: int, values: Floats, *, if_unset: bool = False, step: int | None = None) -> None:
        """The first trainer's values are everybody's. With ``step`` it says so alone, and they travel with the step."""
        if step is not None:
            self._dense_set[table] = values.copy()
            return
        first, *_ = self._group.gather(values.tobytes() if self._group.rank == 0 else b"", "values")
        values[...] = np.frombuffer(first, np.float32)
        super().set_dense(table, values, if_unset=if_unset)

    def commit(self, step: int, *, next_rows: Sequence[Push] = ()) -> None:
        numbers = [number for number, table in enumerate(self._tables) if isinstance(table, umiak_native.Table)]
        own = [self._sparse_parts.get(number, []) for number in numbers]
        dense = {number: _Dense(self._specs[number], parts) for number, parts in self._dense_parts.items()}
        own.append([(np.array([*dense], np.uint64), _kinds(dense.values()))] if dense else [])
        # What the first trainer has set stands behind the tables' gradients, each as one row whose key is its table.
        own += [[(np.full(1, table, np.uint64), values.reshape(1, -1))] for table, values in self._dense_set.items()]
        everybody = [_unpacked(each) for each in self._group.gather(_packed(own), "rows")]
        for table, values in everybody[0][len(numbers) + 1 :]:
            super().set_dense(int(table[0]), values.reshape(-1))
        self._dense_set.clear()
        for place, number in enumerate(numbers):
            parts = [parts[place] for parts in everybody if parts[place][0].size]
            if parts:
                self._sparse(number).push_summed(parts)
        pushed = [parts[len(numbers)] for parts in everybody]
        for number in sorted({int(each) for keys, _ in pushed for each in keys}):
            # Somebody has gradients for it: everybody takes part, with zeros if nothing else.
            part = dense.get(number) or _Dense(self._specs[number], [])
            self._group.add(part.total)
            kinds = [rows[place, : part.count] for keys, rows in pushed for place in np.flatnonzero(keys == number)]
            part.mark(np.min(kinds, axis=0))
            self._dense(number).push(part.total)
        self._sparse_parts.clear()
        self._dense_parts.clear()
        self._step = step + 1
        self._read(next_rows)

    def barrier(self, name: str) -> None:
        self._group.gather(name.encode())

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        return self._group.gather(payload, name)


KINDS = (None, Missing.CLEARED, Missing.ABSENT)
"""What a trainer has for a parameter, best first: of all trainers' the best one counts."""


class _Dense:
    """One trainer's gradients of a dense table in a step, with zeros where there are none."""

    def __init__(self, spec: JsonMapping, parts: Sequence[Floats]) -> None:
        sizes = np.array([int(np.prod(each["shape"], dtype=np.int64)) for each in spec["arrays"]], np.int64)
        self.count = len(sizes)
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self.kinds = np.full(self.count, KINDS.index(Missing.ABSENT), np.float32)
        for part in parts:
            self._take(part)
        self.total: Floats = np.zeros(int(self._ends[-1]), np.float32) if not parts else parts[0]
        if len(parts) > 1:
            self.total = np.add.reduce([*parts])

    def _take(self, part: Floats) -> None:
        bits = part.view(np.uint32)[np.minimum(self._starts, part.size - 1)]
        for kind, missing in enumerate(KINDS):
            if missing is None:
                alike = (bits != Missing.ABSENT) & (bits != Missing.CLEARED)
            else:
                alike = bits == missing
                for array in np.flatnonzero(alike):
                    part[self._starts[array] : self._ends[array]] = 0
            self.kinds[alike] = np.minimum(self.kinds[alike], kind)

    def mark(self, kinds: NDArray[np.float32]) -> None:
        """Say again where nobody has a gradient."""
        for array in np.flatnonzero(kinds):
            missing = KINDS[int(kinds[array])]
            assert missing is not None
            self.total.view(np.uint32)[self._starts[array] : self._ends[array]] = missing.bits


def _kinds(dense: Iterable[_Dense]) -> Floats:
    """A row for each table, as wide as the one with the most parameters."""
    tables = [*dense]
    rows = np.zeros((len(tables), max(each.count for each in tables)), np.float32)
    for row, each in zip(rows, tables, strict=True):
        row[: each.count] = each.kinds
    return rows


_COUNTS = struct.Struct("<qq")


def _packed(tables: list[list[tuple[Keys, Floats]]]) -> bytes:
    """The gradients of all tables: for each, how many keys and columns there are, the keys, the rows."""
    pieces: list[bytes] = []
    for parts in tables:
        if not parts:
            pieces.append(_COUNTS.pack(0, 0))
            continue
        keys, rows = parts[0] if len(parts) == 1 else umiak_native.merge(parts)
        pieces += [_COUNTS.pack(*rows.shape), keys.tobytes(), rows.tobytes()]
    return b"".join(pieces)


def _unpacked(data: bytes) -> list[tuple[Keys, Floats]]:
    found: list[tuple[Keys, Floats]] = []
    at = 0
    while at < len(data):
        count, width = _COUNTS.unpack_from(data, at)
        at += _COUNTS.size
        keys = np.frombuffer(data, np.uint64, count, at)
        at += keys.nbytes
        rows = np.frombuffer(data, np.float32, count * width, at).reshape(count, width)
        at += rows.nbytes
        found.append((keys, rows))
    return found
