"""How trainers and servers work together, one module for each way. Adapters: they talk to the servers.

    sync        every step is applied once, with everybody's gradients; bit for bit what one process would compute
    async       gradients are applied as they arrive; nobody waits for anybody
    half_async  as async, with the gradients of several steps merged
    geo         everybody trains its own copy and exchanges differences every k steps
    hybrid      rows as in async, dense parameters as in sync
    collective  as sync without servers: everybody has all tables, and gradients are exchanged

What each guarantees is said in its module and in docs/explanation/ps-strategies.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.ps.strategies.asynchronous import Async, QueuedAsync
from umiak.ps.strategies.base import Strategy
from umiak.ps.strategies.collective import Collective
from umiak.ps.strategies.geo import Geo
from umiak.ps.strategies.half_async import HalfAsync
from umiak.ps.strategies.hybrid import Hybrid
from umiak.ps.strategies.sync import Sync

if TYPE_CHECKING:
    from umiak.ps.client import Client
    from umiak.ps.settings import Settings

__all__ = ["Async", "Collective", "Geo", "HalfAsync", "Hybrid", "QueuedAsync", "Strategy", "Sync", "make"]

_KINDS: dict[str, type[Strategy]] = {
    "sync": Sync,
    "async": Async,
    "half_async": HalfAsync,
    "geo": Geo,
    "hybrid": Hybrid,
    "collective": Collective,
}


def make(name: str, client: Client, *, rank: int, world: int, settings: Settings) -> Strategy:
    """The strategy of that name. A name that `settings.read` has let through."""
    kind = QueuedAsync if name == "async" and settings.queue else _KINDS[name]
    return kind(client, rank=rank, world=world, settings=settings)
