"""Rows of tables begin with what the startup program gives them, as in plain Paddle. An adapter, for Paddle.

first = FirstRowSender(session, tables, plan.tables, "fleet.first")
first.take(scope)       behind each run of the startup program: the numbers leave the scope
first.send()            once, when the program is first trained: the first trainer's rows are everybody's
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.fleet.programs.parameters import is_filled
from umiak.ps.paddle_models.whole_weights import WholeWeight

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from umiak.fleet.programs.rewriting import PlannedRows
    from umiak.fleet.programs.tables import ProgramTables
    from umiak.ps.sessions import Session

_CHUNK = 1 << 16


class FirstRowSender:
    """Of all tables of a program that its startup program fills."""

    def __init__(self, session: Session, tables: ProgramTables, planned: Mapping[str, PlannedRows], name: str) -> None:
        """``name``: of the place where trainers meet behind it."""
        self._session = session
        self._tables = tables
        self._planned = {table: each for table, each in planned.items() if each.is_filled_here or each.values}
        self._name = name

    def take(self, scope: Any) -> None:
        """Take the rows out of a scope: trainers do not hold embeddings. A run in the middle of training begins them again."""
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
            tensor._clear()  # noqa: SLF001

    def send(self, *, is_loaded: bool = False) -> None:
        """Every trainer calls it; returns when the servers have the rows. ``is_loaded``: others come from a checkpoint at once."""
        if not self._planned:
            return
        for name, planned in self._planned.items():
            rows = self._tables.first.pop(name, None) if planned.is_filled_here else _listed(planned)
            if name not in self._tables.begun and self._session.is_first and not is_loaded and rows is not None:
                self._send(name, rows)
            self._tables.begun.add(name)
        # Servers keep what was gathered, so one that is started again does not wait for the others, nor they for it.
        self._session.gather(b"", self._name)

    def _send(self, name: str, rows: NDArray[np.float32]) -> None:
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


def _listed(planned: PlannedRows) -> NDArray[np.float32]:
    return np.asarray(planned.values, np.float32).reshape(-1, planned.site.dim)
