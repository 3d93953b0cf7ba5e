"""The tables of this process's programs, opened when they are used first,
the rows with which they begin, and lookups where rows count. An adapter, for Paddle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.core.value import replace
from umiak.fleet.programs.accessors import STATISTICS
from umiak.fleet.programs.parameters import is_filled
from umiak.ps import paddle_internals, specs
from umiak.ps.errors import bad
from umiak.ps.paddle_models.whole_weights import WholeWeight

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from umiak.data.array_types import AnyArray
    from umiak.fleet.programs.accessors import RowCounting
    from umiak.fleet.programs.feeding import FedArray
    from umiak.fleet.programs.rewriting import PlannedRows
    from umiak.ps.gradients import Floats
    from umiak.ps.paddle_types import Scope
    from umiak.ps.sessions import Session
    from umiak.ps.tables.lookup import EmbeddingTable, Keys

_CHUNK = 1 << 16
SLOT = 1
"""Columns in front of shows and clicks of a pushed row."""


class ProgramTables:
    """Tables by the names of the parameters that they were, in the order in which they were found:
    that is a table's number.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._planned: dict[str, PlannedRows] = {}
        self.first: dict[str, Floats] = {}
        """Rows that startup programs have given tables which have not begun yet: the last one counts."""
        self.begun: set[str] = set()
        """Tables whose first rows are on the servers."""

    def add(self, planned: PlannedRows) -> None:
        """One more table, unless another program has it already."""
        name = planned.site.name
        known = self._planned.get(name)
        if known is None:
            self._planned[name] = planned
        elif (replace(known.spec, init=planned.spec.init), known.counting) != (planned.spec, planned.counting):
            what = f"two programs share the table {name} and describe it differently: {known.spec} and {planned.spec}"
            raise bad("UM-FLEET-014", what, "use the same optimizer, entry and size in both")

    def __iter__(self) -> Iterator[str]:
        return iter(self._planned)

    def __len__(self) -> int:
        return len(self._planned)

    def __getitem__(self, name: str) -> EmbeddingTable:
        table = self._session.registry.table(name, self._planned[name].spec)
        table.is_clipped = self._planned[name].is_clipped
        table.counts_padding = self._planned[name].counting is None
        return table

    def planned(self, name: str) -> PlannedRows:
        return self._planned[name]

    def all(self, names: Iterable[str]) -> list[EmbeddingTable]:
        return [self[name] for name in names]


class FirstRowSender:
    """Rows of a program's tables begin with what its startup program gives them, as in plain Paddle.

    first.take(scope)       behind each run of the startup program: the numbers leave the scope
    first.send()            once, when the program is first trained: the first trainer's rows are everybody's
    """

    def __init__(self, session: Session, tables: ProgramTables, planned: Mapping[str, PlannedRows], name: str) -> None:
        """``name``: of the place where trainers meet behind it."""
        self._session = session
        self._tables = tables
        self._planned = {table: each for table, each in planned.items() if each.is_filled_here or each.values}
        self._name = name

    def take(self, scope: Scope) -> None:
        """Take the rows out of a scope: trainers do not hold embeddings.
        A run in the middle of training begins them again.
        """
        for name, planned in self._planned.items():
            if not planned.is_filled_here or not is_filled(scope, name):
                continue
            tensor = scope.find_var(name).get_tensor()
            if self._session.is_first:
                rows = np.array(tensor, np.float32).reshape(planned.site.rows, planned.site.dim)
                if name in self._tables.begun:
                    self._whole(name).set(rows)
                else:
                    self._tables.first[name] = rows
            paddle_internals.clear(tensor)

    def send(self, *, is_loaded: bool = False) -> None:
        """Every trainer calls it; returns when the servers have the rows.
        ``is_loaded``: others come from a checkpoint at once.
        """
        if not self._planned:
            return
        for name, planned in self._planned.items():
            rows = (
                self._tables.first.pop(name, None)
                if planned.is_filled_here
                else np.asarray(planned.values, np.float32).reshape(-1, planned.site.dim)
            )
            if name not in self._tables.begun and self._session.is_first and not is_loaded and rows is not None:
                self._send(name, rows)
            self._tables.begun.add(name)
        # Servers keep what was gathered, so one that is started again does not wait for the others, nor they for it.
        self._session.gather(b"", self._name)

    def _send(self, name: str, rows: Floats) -> None:
        table = self._tables[name]
        table.open()
        if not self._session.seat.restarts:
            self._whole(name, len(rows)).send(rows)
            return
        # An earlier process of this trainer may have sent some, and all may have learned since.
        for start in range(0, len(rows), _CHUNK):
            keys = np.arange(start, min(start + _CHUNK, len(rows)), dtype=np.uint64)
            missing = keys[~self._session.client.pull(table.number, keys, create=False, absent="zeros").any(axis=1)]
            if missing.size:
                self._session.client.set(table.number, missing, np.ascontiguousarray(rows[missing.astype(np.int64)]))

    def _whole(self, name: str, rows: int = 0) -> WholeWeight:
        return WholeWeight(self._session, self._tables[name], rows or self._planned[name].site.rows, name)


# ---- rows that count


class CountedLookup:
    """One look into such a table, of some lookups of a program one after the other."""

    def __init__(
        self,
        table: EmbeddingTable,
        counting: RowCounting,
        keys: Keys,
        arrays: Sequence[FedArray],
        slots: Sequence[int],
        *,
        padding: int | None,
    ) -> None:
        self._table = table
        self._counting = counting
        self._keys = keys.copy()
        self._arrays = arrays
        self._slots = np.repeat(np.asarray(slots, np.float32), [each.array.size for each in arrays])
        self._mask = None if padding is None else self._keys == np.int64(padding).view(np.uint64)

    def rows(self, *, create: bool) -> Floats:
        rows = columns(self._table.rows(self._keys, create=create), self._counting)
        if self._mask is not None:
            rows[self._mask] = 0
        return rows

    def collect(self, gradients: Floats, counts: Mapping[str, AnyArray]) -> None:
        """Gradients of what `rows` gave; ``counts``:
        how often samples were shown and clicked, by the names of variables.
        """
        counting, count = self._counting, self._keys.size
        given = gradients.reshape(count, counting.columns)
        pushed = np.zeros((count, specs.push_width(self._table.spec)), np.float32)
        pushed[:, 0] = self._slots
        if counting.is_gradient:
            pushed[:, SLOT : SLOT + STATISTICS] = given[:, :STATISTICS]
        else:
            pushed[:, SLOT] = self._per_key(counts, counting.shows, 1.0)
            pushed[:, SLOT + 1] = self._per_key(counts, counting.clicks, 0.0)
        learned = given[:, STATISTICS:] if counting.has_statistics else given
        scale = np.float32(samples(self._arrays[0]) if counting.times_samples else 1)
        pushed[:, SLOT + STATISTICS : SLOT + STATISTICS + learned.shape[1]] = learned * scale
        keys = self._keys
        if self._mask is not None:
            keys, pushed = keys[~self._mask], pushed[~self._mask]
        self._table.collect(keys, pushed)

    def _per_key(self, counts: Mapping[str, AnyArray], name: str, default: float) -> Floats:
        """What each id counts: as its sample does."""
        if name not in counts:
            return np.full(self._keys.size, default, np.float32)
        flat = np.asarray(counts[name], np.float32).reshape(-1)
        return np.concatenate([_repeated(flat, each, name) for each in self._arrays])


def columns(rows: Floats, counting: RowCounting) -> Floats:
    """What the program sees of pulled rows, which begin with show and click."""
    first = 0 if counting.has_statistics else STATISTICS
    return np.ascontiguousarray(rows[..., first : first + counting.columns])


def samples(ids: FedArray) -> int:
    """How many the ids of a lookup belong to."""
    return len(ids.array) if ids.offsets is None else len(ids.offsets) - 1


def _repeated(numbers: Floats, ids: FedArray, name: str) -> Floats:
    count = samples(ids)
    if numbers.size == 1:
        return np.full(ids.array.size, numbers[0], np.float32)
    if numbers.size != count:
        what = f"ShowClickEntry: {name} has {numbers.size} numbers, and the batch {count} samples"
        raise bad("UM-FLEET-022", what, "feed one number per sample")
    times = np.diff(ids.offsets) if ids.offsets is not None else ids.array.size // max(count, 1)
    return np.repeat(numbers, times)
