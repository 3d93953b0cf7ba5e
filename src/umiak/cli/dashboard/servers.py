"""The parameter servers of a run for the dashboard, which does not know them: found in the environment of the run's own processes. An adapter.

    servers = ServersOfRuns()
    servers("ctr-3f", (4711, 4712))      a report as of `umiak ps status --json`; None: the run has no servers

Nothing that is secret is kept or shown: the job's token goes from the environment of its processes, which only their owner can read, to its servers.
"""

from __future__ import annotations

import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonObject
    from umiak.ps.servers.discovery import JobServers
    from umiak.ps.servers.status import Look

MOST_RUNS = 32


class ServersOfRuns:
    """Keeps the look before, since rates are what was counted between two."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, list[Look]]] = {}
        self._lock = threading.Lock()

    def __call__(self, run_id: str, pids: Sequence[int]) -> JsonObject | None:
        try:
            from umiak.ps.servers import discovery, status
        except ImportError:
            return None  # an installation that only launches
        job = next((found for pid in pids if (found := _job_of(pid)) is not None), None)
        if job is None:
            return None
        looks, now = discovery.look(job), time.monotonic()
        with self._lock:
            then, before = self._before.pop(run_id, (now, []))
            self._before[run_id] = now, looks
            while len(self._before) > MOST_RUNS:
                del self._before[next(iter(self._before))]
        return status.report(looks, before, now - then)


def _job_of(pid: int) -> JobServers | None:
    """The servers that a worker was told of."""
    from umiak.ps import environment
    from umiak.ps.errors import BadRequest
    from umiak.ps.servers import discovery

    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [entry.partition("=") for entry in os.fsdecode(file.read()).split("\0")]
        seat = environment.seat({name: text for name, _, text in pairs})
    except (OSError, BadRequest):
        return None  # it has ended, or has no servers
    return discovery.JobServers(name=seat.job, servers=seat.servers, token=seat.token) if seat.servers else None
