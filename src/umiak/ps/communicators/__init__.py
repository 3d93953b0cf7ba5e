"""What carries a strategy out: one module for each way in which trainers and servers work together. Adapters: they talk to the servers.

    make(Geo(every=50), client, rank=0, world=2, timeout_s=60.0)

The strategies themselves are values: `umiak.ps.strategies`. What each guarantees is said in its module here and in
docs/explanation/ps-strategies.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.communicators.asynchronous import AsyncCommunicator, QueuedAsyncCommunicator
from umiak.ps.communicators.base import Communicator
from umiak.ps.communicators.collective import CollectiveCommunicator
from umiak.ps.communicators.geo import GeoCommunicator
from umiak.ps.communicators.half_async import HalfAsyncCommunicator
from umiak.ps.communicators.hybrid import HybridCommunicator
from umiak.ps.communicators.sync import SyncCommunicator
from umiak.ps.strategies import Async, Collective, Geo, HalfAsync, Hybrid, Strategy, Sync

if TYPE_CHECKING:
    from umiak.ps.clients.protocol import Client

__all__ = ["Communicator", "make"]


def make(strategy: Strategy | Collective, client: Client, *, rank: int, world: int, timeout_s: float) -> Communicator:
    """What carries this strategy out for one trainer."""
    match strategy:
        case Sync():
            return SyncCommunicator(client, rank=rank, world=world, timeout_s=timeout_s)
        case Async(queue=0):
            return AsyncCommunicator(client, strategy, rank=rank, world=world, timeout_s=timeout_s)
        case Async():
            return QueuedAsyncCommunicator(client, strategy, rank=rank, world=world, timeout_s=timeout_s)
        case HalfAsync():
            return HalfAsyncCommunicator(client, strategy, rank=rank, world=world, timeout_s=timeout_s)
        case Geo():
            return GeoCommunicator(client, strategy, rank=rank, world=world, timeout_s=timeout_s)
        case Hybrid():
            return HybridCommunicator(client, rank=rank, world=world, timeout_s=timeout_s)
        case Collective():
            return CollectiveCommunicator(client, rank=rank, world=world, timeout_s=timeout_s)
