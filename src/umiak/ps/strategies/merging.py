"""Gradients of several steps made one. An adapter: it sends what it has merged.

Rows of the same key are summed by the client, in the order of the steps. Averages are over steps, not over keys: a key that
only one of four steps carried counts a quarter, as it does in one batch four times as large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from umiak.ps.client import Client, Floats, Keys


class StepGradients:
    """What one step wants to push."""

    def __init__(self) -> None:
        self.sparse: dict[int, list[tuple[Keys, Floats]]] = {}
        self.dense: dict[int, Floats] = {}

    def push(self, table: int, keys: Keys, rows: Floats) -> None:
        self.sparse.setdefault(table, []).append((keys.reshape(-1), rows.reshape(keys.size, -1)))

    def push_dense(self, table: int, gradients: Floats) -> None:
        if table in self.dense:
            self.dense[table] = self.dense[table] + gradients
        else:
            self.dense[table] = gradients


class Merger:
    """Merges steps and sends them as one."""

    def __init__(self, client: Client, *, average: bool) -> None:
        self._client = client
        self._average = average

    def begin(self) -> StepGradients:
        return StepGradients()

    def send(self, steps: list[StepGradients]) -> None:
        factor = np.float32(1.0 / len(steps) if self._average else 1.0)
        for table in dict.fromkeys(table for step in steps for table in step.sparse):
            parts = [part for step in steps for part in step.sparse.get(table, ())]
            keys = np.concatenate([keys for keys, _ in parts])
            rows = np.concatenate([rows for _, rows in parts])
            self._client.push(table, keys, rows if factor == 1 else rows * factor)
        for table in dict.fromkeys(table for step in steps for table in step.dense):
            gradients = [step.dense[table] for step in steps if table in step.dense]
            total = gradients[0] if len(gradients) == 1 else np.add.reduce(gradients)
            self._client.push_dense(table, total if factor == 1 else total * factor)
