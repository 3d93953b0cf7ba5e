"""Who keeps the tables: servers, this process, or every trainer. Adapters.

    connect(seat, ...)     umiak_native.Client: the servers of a job
    local.LocalClient      tables in this process, for a script that runs alone

A program that trains with numpy has typed tables (`umiak.ps.tables.numpy_tables`); what these do not do, it can ask a client itself: `umiak.ps.client()`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import umiak_native

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from umiak.core.json_types import JsonObject
    from umiak.ps.clients.local import LocalClient
    from umiak.ps.environment import PsSeat
    from umiak.ps.options import SessionOptions

    Client: TypeAlias = umiak_native.Client | LocalClient
    """What a communicator asks; the operations are described at the first."""

TLS_OF_CLIENTS = ("ca", "cert", "key", "name")


def connect(
    seat: PsSeat, options: SessionOptions, *, kind: Literal["trainer", "observer"] = "trainer"
) -> umiak_native.Client:
    """A connection to all servers of a job; waits for them for up to ``timeout_s``. An observer takes no part in the training."""
    tls = options.tls
    config: JsonObject = {
        "endpoints": list(seat.servers),
        "kind": kind,
        "rank": seat.rank,
        "world": seat.world,
        "job": seat.job,
        "shards": options.shards,
        "timeout_s": options.timeout_s,
        "tls": {name: tls[name] for name in TLS_OF_CLIENTS if name in tls} if tls else None,
    }
    client = umiak_native.Client(json.dumps(config), os.fsencode(seat.token) if seat.token else None)
    client.connect()
    return client
