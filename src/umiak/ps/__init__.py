"""Parameter servers: embedding tables larger than one machine, trained by many.

    from umiak import ps

    session = ps.init(ps.Sync())
    if session.is_server:
        raise SystemExit(session.serve())

    import paddle
    model = Net()                                     # with ps.paddle.Embedding(dim=16) in it
    optimizer = ps.paddle.optimizer(model, "adam", learning_rate=1e-3)
    for batch in batches:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()

Start it with ``umiak launch --server_num 2 --trainer_num 2 train.py``, or alone with ``python train.py``: then this process
keeps the tables itself. ``ps.paddle`` and ``ps.torch`` are imported when they are named first, and their framework with them;
`Session.table` is for anything that trains with numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import umiak.data.native_core  # noqa: F401 - first: it says what is missing
from umiak.ps import specs
from umiak.ps.errors import BadRequest
from umiak.ps.sessions import Session, init, session, use
from umiak.ps.specs import *  # noqa: F403 - its `__all__`
from umiak.ps.strategies import Async, Geo, HalfAsync, Hybrid, Sync

if TYPE_CHECKING:
    from types import ModuleType

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.ps.clients import Client

__all__ = [
    "Async",
    "BadRequest",
    "Geo",
    "HalfAsync",
    "Hybrid",
    "Session",
    "Sync",
    "barrier",
    "client",
    "finish",
    "init",
    "is_server",
    "load",
    "save",
    "serve",
    "session",
    "use",
]
__all__ += specs.__all__


def is_server() -> bool:
    """Whether this process is a parameter server."""
    return session().is_server


def serve() -> int:
    """Serve this process's shards until the job is over; returns the exit status."""
    return session().serve()


def client() -> Client:
    """The connection to the servers, for programs of your own: `umiak_native.Client` says what it can do."""
    return session().client


def barrier() -> None:
    """Wait until every trainer that lives has come here."""
    session().barrier()


def save(path: str, *, metadata: JsonMapping | None = None, mode: str = "all") -> None:
    """Save all tables: `Session.save`."""
    session().save(path, metadata=metadata, mode=mode)


def load(path: str) -> JsonObject:
    """Load all tables: `Session.load`."""
    return session().load(path)


def finish() -> None:
    """This trainer is done: `Session.finish`."""
    session().finish()


def __getattr__(name: str) -> ModuleType:
    """``ps.paddle`` and ``ps.torch`` bring their framework, so they are imported when they are asked for."""
    if name in ("paddle", "torch"):
        return importlib.import_module(f"umiak.ps.{name}")
    told = f"module 'umiak.ps' has no attribute {name!r}"
    if name == "AdamW":
        raise AttributeError(f'{told}: write optimizer(model, "AdamW"), or ps.Adam with decay=ps.Decay(decoupled=0.01)')
    near = [each for each in __all__ if each.lower() == name.lower()]
    raise AttributeError(f"{told}: write ps.{near[0]}" if near else told)
