"""A server's process as fleet's programs start it: it serves, and the first one says what the job begins with. An adapter."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

import umiak_native

from umiak.fleet import beginning

if TYPE_CHECKING:
    from umiak.fleet.job import FleetJob
    from umiak.ps.sessions import Session


def serve(job: FleetJob, tables: str | None) -> int:
    """Serve until the job is over; returns the exit status. ``tables`` is a checkpoint that the job begins with."""
    beginning.check_path(tables)
    threading.Thread(target=_begin, args=(job.session, tables), daemon=True, name="umiak.fleet begin").start()
    return job.session.serve()


def _begin(session: Session, tables: str | None) -> None:
    try:
        if session.rank == 0:
            beginning.tell(session, tables)
    except BaseException:  # noqa: BLE001 - whatever it is, trainers would wait for ever
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    if tables:
        with contextlib.suppress(umiak_native.PsError):  # the job may end meanwhile
            beginning.watch(session)
