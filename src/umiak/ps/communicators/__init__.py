"""What carries a strategy out: how trainers and servers work together. Adapters: they talk to the servers.

    make(Geo(every=50), client, rank=0, world=2, timeout_s=60.0)

The strategies themselves are values: `umiak.ps.strategies`. What each guarantees is said at its class here and in
docs/explanation/ps-strategies.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.communicators.asynchronous import AsyncCommunicator, HalfAsyncCommunicator, QueuedAsyncCommunicator
from umiak.ps.communicators.base import Communicator
from umiak.ps.communicators.geo import GeoCommunicator
from umiak.ps.communicators.sync import CollectiveCommunicator, HybridCommunicator, SyncCommunicator
from umiak.ps.strategies import Async, Collective, Geo, HalfAsync, Hybrid, Strategy, Sync

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from umiak.ps.clients import Client
    from umiak.ps.communicators.base import TrainerPlace

__all__ = ["Communicator", "make"]


def make(strategy: Strategy | Collective, client: Client, **place: Unpack[TrainerPlace]) -> Communicator:
    """What carries this strategy out for one trainer."""
    match strategy:
        case Sync():
            return SyncCommunicator(client, **place)
        case Async(queue=0):
            return AsyncCommunicator(client, strategy, **place)
        case Async():
            return QueuedAsyncCommunicator(client, strategy, **place)
        case HalfAsync():
            return HalfAsyncCommunicator(client, strategy, **place)
        case Geo():
            return GeoCommunicator(client, strategy, **place)
        case Hybrid():
            return HybridCommunicator(client, **place)
        case Collective():
            return CollectiveCommunicator(client, **place)
