"""Follows the logs of all hosts at once: every line once, also across lost connections. An adapter.

Each host has an agent of its own for its lines. A position that came with a line says where to go on after a connection
was lost, so there are neither holes nor duplicates. What happens to connections is told among the lines, by the source
``umiak``. Lines that were written before are in the order of time, by the client's clock; new ones come as they are
written.
"""

from __future__ import annotations

import asyncio
import queue
import time

from umiak.adapters.stores.http_retry import chance
from umiak.core.backoff import RetryPolicy
from umiak.core.cluster import Role
from umiak.submit.backend import OURSELVES, LogLine
from umiak.submit.backends.ssh.connections import HostFailure, broken, lost
from umiak.submit.logs.order import ArrivingLogs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from umiak.submit.backend import LogsWanted
    from umiak.submit.backends.ssh.connections import Connections
    from umiak.submit.backends.ssh.settings import SshHost

POLICY = RetryPolicy(first_s=0.5, longest_s=10.0, attempts=None)
MOST_WAITING = 5_000
"""Lines of one host that wait for a slow reader, or for slow hosts: then it waits as well."""
SILENCE_S = 2.0
"""If nobody has sent anything for so long, what is here is given though a host is behind."""


class _Ended:
    """A host has nothing more to say."""


class _UpToDate:
    """A host has told what was there, or can't be reached."""


class Follower:
    """The lines of one run."""

    def __init__(self, connections: Connections, run_id: str, wanted: LogsWanted, *, lost_after_s: float) -> None:
        self._connections = connections
        self._run_id = run_id
        self._wanted = wanted
        self._after = dict(wanted.after)
        self._lost_after_s = lost_after_s
        self._arrived: queue.Queue[tuple[str, LogLine | _Ended | _UpToDate]] = queue.Queue()
        self._waiting: dict[str, int] = {}
        """Lines of each host that were not given yet."""

    def lines(self, hosts: Sequence[SshHost]) -> Iterator[LogLine]:
        """Until every host has told all."""
        self._connections.prepare()
        self._waiting = {host.label: 0 for host in hosts}
        logs = ArrivingLogs([*self._waiting])
        ends = [self._connections.start(self._host(host)) for host in hosts]
        left = len(hosts)
        try:
            while left:
                is_silent = False
                try:
                    label, item = self._arrived.get(timeout=SILENCE_S)
                except queue.Empty:
                    is_silent = True
                else:
                    if isinstance(item, LogLine):
                        logs.add(label, item)
                    else:
                        logs.is_up_to_date(label)
                        left -= isinstance(item, _Ended)
                if is_silent or self._arrived.empty() or max(map(logs.count, self._waiting)) >= MOST_WAITING // 2:
                    yield from logs.ready(at_once=is_silent)
                    for each in self._waiting:
                        self._waiting[each] = logs.count(each)
            yield from logs.ready(at_once=True)
        finally:
            for end in ends:
                end()

    async def _host(self, host: SshHost) -> None:
        try:
            await self._until_told(host)
        finally:
            await self._put(host, _Ended())

    async def _until_told(self, host: SshHost) -> None:
        lost_at: float | None = None
        failures = 0
        while True:
            try:
                async for _ in self._read(host):
                    if lost_at is not None:
                        await self._say(host, f"{host.label} is back")
                    lost_at, failures = None, 0
            except HostFailure as failure:
                self._connections.forget(host)
                now = time.monotonic()
                if lost_at is None:
                    lost_at = now
                    await self._say(host, f"{failure.problem.what} ({failure.problem.why})")
                    await self._put(host, _UpToDate())  # the others' lines don't wait for it
                failures += 1
                wait_s = None
                if self._wanted.follow and failure.is_unreachable:
                    wait_s = POLICY.wait_s(failures, chance(), left_s=lost_at + self._lost_after_s - now)
                if wait_s is None:
                    await self._say(host, f"{host.label}: no more lines from there")
                    return
                await asyncio.sleep(wait_s)
            else:
                return

    async def _read(self, host: SshHost) -> AsyncIterator[None]:
        link = await self._connections.fresh_agent(host)
        try:
            await link.send(
                {
                    "do": "logs",
                    "run": self._run_id,
                    "host": host.directory_name,
                    "follow": self._wanted.follow,
                    "role": self._wanted.role.value if self._wanted.role else None,
                    "rank": self._wanted.rank,
                    "after": self._after,
                    "tail": self._wanted.tail,
                    "since_s": self._wanted.since_s,
                    "now_s": time.time(),
                }
            )
            while True:
                try:
                    reply = await link.answer()
                except broken() as error:
                    raise lost(host, error) from None
                for source, text, position, role, rank, time_s in reply.get("lines", ()):
                    line = LogLine(
                        source=source,
                        text=text,
                        position=position,
                        role=Role(role) if role else None,
                        rank=rank,
                        time_s=time_s,
                    )
                    await self._put(host, line)
                    if position:
                        self._after[source] = position
                if reply.get("is_up_to_date"):
                    await self._put(host, _UpToDate())
                yield
                if "end" in reply or "error" in reply:
                    return
        finally:
            link.close()

    async def _say(self, host: SshHost, text: str) -> None:
        await self._put(host, LogLine(source=OURSELVES, text=text))

    async def _put(self, host: SshHost, item: LogLine | _Ended | _UpToDate) -> None:
        """Wait while the reader is slow, or other hosts are."""
        while isinstance(item, LogLine) and self._waiting[host.label] >= MOST_WAITING:
            await asyncio.sleep(0.01)
        self._waiting[host.label] += 1
        self._arrived.put((host.label, item))
