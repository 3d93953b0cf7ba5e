"""A server's process as fleet's programs start it: it serves, and the first one loads what the job begins with. An adapter.

A program tells only its servers what to load (``fleet.init_server(path)``). So the first server does it, as an observer of the
job, and then makes a table of one number; trainers begin when that table is there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.fleet.job import say
from umiak.ps import checkpoint, specs

if TYPE_CHECKING:
    from umiak.fleet.job import FleetJob
    from umiak.ps.sessions import Session

READY = "fleet.ready"
LOOK_S = 0.05
_SPEC = specs.DenseTable(arrays=(specs.Array("ready", (1,)),), rule=specs.Sum())


def serve(job: FleetJob, tables: str | None) -> int:
    """Serve until the job is over; returns the exit status. ``tables`` is a checkpoint that the job begins with."""
    if job.session.rank == 0:
        threading.Thread(target=_get_ready, args=(job.session, tables), daemon=True, name="umiak.fleet ready").start()
    return job.session.serve()


def wait_until_ready(session: Session) -> None:
    """On a trainer: return when the servers hold what the job begins with."""
    if not session.seat.servers:
        return
    until = time.monotonic() + session.options.timeout_s
    client = session.client
    while READY not in json.loads(client.status())[0]["tables"]:
        # Loading may take long; a first server that is gone is an exception of `status`.
        if time.monotonic() > until:
            say("waiting for the first server, which loads tables")
            until = time.monotonic() + session.options.timeout_s
        time.sleep(LOOK_S)


def _get_ready(session: Session, tables: str | None) -> None:
    try:
        seat = session.seat
        config = {
            "endpoints": [*seat.servers],
            "kind": "observer",
            "world": seat.world,
            "job": seat.job,
            "shards": session.options.shards,
            "timeout_s": session.options.timeout_s,
        }
        client = umiak_native.Client(json.dumps(config), os.fsencode(seat.token) if seat.token else None)
        client.connect()
        if READY not in json.loads(client.status())[0]["tables"]:  # else this server came back with everything
            if tables is not None:
                checkpoint.load(client, tables, counts_steps=False)
            number = client.create_table(READY, specs.to_json(_SPEC))
            client.set_dense(number, np.ones(1, np.float32), if_unset=True)
        client.close()
    except BaseException:  # noqa: BLE001 - whatever it is, trainers would wait for ever
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
