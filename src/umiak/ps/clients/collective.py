"""Tables that every trainer has, kept equal by exchanging gradients. An adapter, without a framework.

    CollectiveClient(group)        the operations of `umiak.ps.clients.protocol.Client`, for trainers without servers

A `Group` is whatever lets trainers add arrays and gather bytes; `umiak.ps.clients.paddle_group` has Paddle's. Rows are many and each step touches few,
so rows are gathered and dense gradients are added up.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

import numpy as np
import umiak_native

from umiak.ps.clients.local import LocalClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.ps.clients.protocol import Floats, Gradients, Keys, Push


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

    def commit(self, step: int) -> None:
        numbers = self._sparse_numbers()
        own = [self._sparse_parts.get(number, []) for number in numbers]
        # What the first trainer has set stands behind the tables' gradients, each as one row whose key is its table.
        own += [[(np.full(1, table, np.uint64), values.reshape(1, -1))] for table, values in self._dense_set.items()]
        everybody = [_unpacked(each) for each in self._group.gather(_packed(own), "rows")]
        for table, values in everybody[0][len(numbers) :]:
            super().set_dense(int(table[0]), values.reshape(-1))
        self._dense_set.clear()
        for place, number in enumerate(numbers):
            parts = [parts[place] for parts in everybody if parts[place][0].size]
            if parts:
                self._sparse(number).push_summed(parts)
        for number, gradients in self._dense_parts.items():
            total = gradients[0] if len(gradients) == 1 else np.add.reduce(gradients)
            self._group.add(total)
            self._dense(number).push(total)
        self._sparse_parts.clear()
        self._dense_parts.clear()
        self._step = step + 1

    def learn_dense(
        self,
        table: int,
        gradients: Gradients,
        out: Floats,
        *,
        pushes: Sequence[Push] = (),
        step: int | None = None,
        scale: float = 1.0,
        mean: bool = False,
    ) -> Floats:
        assert step is not None, "collective training has steps"
        return super().learn_dense(table, gradients, out, pushes=pushes, step=step, scale=scale, mean=mean)

    def barrier(self, name: str) -> None:
        self._group.gather(name.encode())

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        return self._group.gather(payload, name)

    def _sparse_numbers(self) -> list[int]:
        return [number for number, table in enumerate(self._tables) if isinstance(table, umiak_native.Table)]


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
