"""collective: as sync, without servers. Every trainer has all tables, and gradients are exchanged. An adapter.

Guarantees those of sync: in each step everybody applies the same sum, gradients of rows added up in rank order, so all copies of the tables
stay equal bit for bit. It needs a `umiak.ps.clients.collective.CollectiveClient`; `umiak train` makes one where ``fleet_mode`` is collective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.communicators.sync import SyncCommunicator

if TYPE_CHECKING:
    from umiak.ps.clients.protocol import Floats


class CollectiveCommunicator(SyncCommunicator):
    """Everybody does for its own copy what in sync the servers do for all."""

    keeps_tables = True

    def set_first_values(self, table: int, values: Floats) -> None:
        self.client.set_dense(table, values, if_unset=True)

    def set_dense(self, table: int, values: Floats, *, at_once: bool = False) -> None:
        if at_once:
            self.client.set_dense(table, values)
        else:
            super().set_dense(table, values)

    def set_learning_rate(self, table: int, learning_rate: float) -> None:
        self.client.set_learning_rate(table, learning_rate)
