"""hybrid: rows as in async, dense parameters as in sync. An adapter.

Rows are many and each is touched by few: their order matters little, so their gradients are applied as they arrive. The dense
parameters are touched by everybody in every step, where stale gradients hurt: they are summed over all trainers and applied
once per step, and everybody computes the next step with the same ones.

Guarantees of sync for the dense parameters, of async for the rows. Since everybody waits for the dense parameters, no trainer
is ahead of another by more than a step. Dense gradients count by 1 / trainers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.communicators.sync import SyncCommunicator

if TYPE_CHECKING:
    from umiak.ps.clients.protocol import Absent, Floats, Keys


class HybridCommunicator(SyncCommunicator):
    """Only dense pushes belong to a step."""

    averages_rows = False
    rows_go_with_dense = False

    def pull(self, table: int, keys: Keys, *, create: bool = True, absent: Absent = "initial") -> Floats:
        return self.client.pull(table, keys, create=create, absent=absent)

    def push(self, table: int, keys: Keys, rows: Floats, *, share: float | None = None) -> None:  # noqa: ARG002
        self.client.push(table, keys, rows)
