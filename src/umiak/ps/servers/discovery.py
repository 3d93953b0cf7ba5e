"""Finds the servers of a job from outside, and asks each how it is. An adapter: it reads /proc and talks to servers.

    jobs(read_processes())             the jobs of which a server runs on this machine, as this person
    look(job, tls)                     what each of its servers says of itself

Nothing that is secret is written anywhere: a job's token is taken from the environment of its own servers, which only the
person who started them can read.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import umiak_native

from umiak.core.value import value
from umiak.ps import environment
from umiak.ps.environment import SeatRole
from umiak.ps.errors import BadRequest
from umiak.ps.servers.status import Look

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROCESSES = "/proc"
MOST_AT_ONCE = 16


@value
class JobServers:
    """What one needs to know to ask a job's servers."""

    name: str
    servers: tuple[str, ...]
    token: str | None = None


def read_processes(directory: str = PROCESSES) -> list[dict[str, str]]:
    """The environments of this person's processes; those that can't be read are passed over."""
    found = []
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        path = os.path.join(directory, name, "environ")
        try:
            if not name.isdigit() or os.stat(path).st_uid != os.getuid():
                continue
            with open(path, "rb") as file:
                content = os.fsdecode(file.read())
        except OSError:
            continue  # it has ended, or is guarded
        pairs = (entry.partition("=") for entry in content.split("\0"))
        found.append({variable: text for variable, _, text in pairs})
    return found


def jobs(environments: Iterable[Mapping[str, str]]) -> list[JobServers]:
    """The jobs that have a server among these processes, each once, in the order of their names."""
    found = set()
    for environ in environments:
        try:
            seat = environment.seat(environ)
        except BadRequest:
            continue
        if seat.role is SeatRole.SERVER:
            found.add(JobServers(name=seat.job, servers=seat.servers, token=seat.token))
    return sorted(found, key=lambda job: (job.name, job.servers))


def look(job: JobServers, tls: Mapping[str, str] | None = None) -> list[Look]:
    """Ask every server once; one that does not answer within seconds says so."""
    token = os.fsencode(job.token) if job.token else None

    def one(endpoint: str) -> Look:
        config = {"endpoint": endpoint, "job": job.name, "tls": dict(tls) if tls else None}
        try:
            return Look(endpoint=endpoint, said=json.loads(umiak_native.server_status(json.dumps(config), token)))
        except umiak_native.PsError as error:
            return Look(endpoint=endpoint, why=str(error).splitlines()[0])

    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(job.servers))) as pool:
        return list(pool.map(one, job.servers))
