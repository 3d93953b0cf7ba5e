"""A server's process as fleet's programs start it: it serves, and the first one says what the job begins with. An adapter.

A program tells only its servers what to load (``fleet.init_server(path)``), and trainers have to do it, because they know the
tables. So the first server, as an observer of the job, makes a table that holds the path; trainers begin when it is there.
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
from umiak.ps import specs
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from umiak.fleet.job import FleetJob
    from umiak.ps.sessions import Session

READY = "fleet.ready"
LOOK_S = 0.05
LONGEST = 4096
"""Bytes of a path."""
_SPEC = specs.DenseTable(arrays=(specs.Array("path", (LONGEST,)),), rule=specs.Sum())


def serve(job: FleetJob, tables: str | None) -> int:
    """Serve until the job is over; returns the exit status. ``tables`` is a checkpoint that the job begins with."""
    if len(os.fsencode(tables or "")) > LONGEST:
        raise bad("UM-FLEET-030", f"a path of more than {LONGEST} bytes: {tables}", "give a shorter one")
    if job.session.rank == 0:
        threading.Thread(target=_get_ready, args=(job.session, tables), daemon=True, name="umiak.fleet ready").start()
    return job.session.serve()


def first_tables(session: Session) -> str | None:
    """On a trainer: the checkpoint that the job begins with, if there is one. Waits for the first server."""
    if not session.seat.servers:
        return None
    until = time.monotonic() + session.options.timeout_s
    client = session.client
    while READY not in json.loads(client.status())[0]["tables"]:
        if time.monotonic() > until:
            say("waiting for the first server: does it call fleet.run_server()?")
            until = time.monotonic() + session.options.timeout_s
        time.sleep(LOOK_S)
    number = client.create_table(READY, specs.to_json(_SPEC))
    content = client.pull_dense(number).astype(np.uint8).tobytes()
    return os.fsdecode(content.rstrip(b"\0")) or None


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
            number = client.create_table(READY, specs.to_json(_SPEC))
            content = os.fsencode(os.path.abspath(tables) if tables else "").ljust(LONGEST, b"\0")
            client.set_dense(number, np.frombuffer(content, np.uint8).astype(np.float32), if_unset=True)
        client.close()
    except BaseException:  # noqa: BLE001 - whatever it is, trainers would wait for ever
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
