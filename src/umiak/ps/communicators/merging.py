"""Gradients of several steps made one. An adapter: it sends what it has merged.

Rows of the same key are summed by the client, in the order of the steps. Averages are over steps, not over keys: a key that
only one of four steps carried counts a quarter, as it does in one batch four times as large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umiak.ps import absent
from umiak.ps.clients.gradients import scaled

if TYPE_CHECKING:
    from umiak.ps.clients.protocol import Client, Floats, Gradients, Keys


class StepGradients:
    """What one step wants to push."""

    def __init__(self) -> None:
        self.sparse: dict[int, list[tuple[Keys, Floats]]] = {}
        self.dense: dict[int, list[Floats]] = {}
        """Piece by piece: each is a gradient, or says that there is none."""

    def push(self, table: int, keys: Keys, rows: Floats, scale: float, *, statistics: bool) -> None:
        """The arrays are copied: the caller may use its own again as soon as this returns."""
        flat = rows.reshape(keys.size, -1)
        own = scaled(flat, scale, statistics=statistics)
        self.sparse.setdefault(table, []).append((keys.flatten(), own.copy() if own is flat else own))

    def push_dense(self, table: int, gradients: Gradients, scale: float) -> None:
        pieces = gradients if isinstance(gradients, list) else [gradients]
        own = [absent.joined(piece, scale) for piece in pieces]
        if table in self.dense:
            own = [absent.summed(each) for each in zip(self.dense[table], own, strict=True)]
        self.dense[table] = own


class Merger:
    """Merges steps and sends them as one."""

    def __init__(self, client: Client, *, average: bool) -> None:
        self._client = client
        self._average = average

    def begin(self) -> StepGradients:
        return StepGradients()

    def send(self, steps: list[StepGradients]) -> None:
        factor = 1.0 / len(steps) if self._average else 1.0
        for table in dict.fromkeys(table for step in steps for table in step.sparse):
            parts = [part for step in steps for part in step.sparse.get(table, ())]
            keys = np.concatenate([keys for keys, _ in parts])
            rows = np.concatenate([rows for _, rows in parts])
            self._client.push(table, keys, rows, scale=factor)
        for table in dict.fromkeys(table for step in steps for table in step.dense):
            gradients = [step.dense[table] for step in steps if table in step.dense]
            total = [absent.summed(each) for each in zip(*gradients, strict=True)]
            self._client.push_dense(table, total, scale=factor)
