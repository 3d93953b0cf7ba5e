"""Follows the logs of all hosts at once: every line once, also across lost connections. An adapter.

Each host has an agent of its own for its lines. A position that came with a line says where to go on after a connection was lost, so
there are neither holes nor duplicates. What happens to connections is told among the lines, by the source ``umiak``.
"""

from __future__ import annotations

import asyncio
import queue
import time

from umiak.core.cluster import Role
from umiak.submit.backend import LogLine
from umiak.submit.backends.ssh.connections import HostFailure, broken, lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from umiak.submit.backend import LogsWanted
    from umiak.submit.backends.ssh.connections import Connections
    from umiak.submit.backends.ssh.settings import SshHost

OURSELVES = "umiak"
AGAIN_S, MOST_S = 0.5, 10.0


class _Ended:
    """A host has nothing more to say."""


class Follower:
    """The lines of one run."""

    def __init__(self, connections: Connections, run_id: str, wanted: LogsWanted, *, lost_after_s: float) -> None:
        self._connections = connections
        self._run_id = run_id
        self._wanted = wanted
        self._after = dict(wanted.after)
        self._lost_after_s = lost_after_s
        self._lines: queue.Queue[LogLine | _Ended] = queue.Queue(maxsize=10_000)

    def lines(self, hosts: Sequence[SshHost]) -> Iterator[LogLine]:
        """Until every host has told all."""
        self._connections.prepare()
        ends = [self._connections.start(self._host(host)) for host in hosts]
        left = len(hosts)
        try:
            while left:
                line = self._lines.get()
                if isinstance(line, _Ended):
                    left -= 1
                else:
                    yield line
        finally:
            for end in ends:
                end()

    async def _host(self, host: SshHost) -> None:
        try:
            await self._until_told(host)
        finally:
            await self._put(_Ended())

    async def _until_told(self, host: SshHost) -> None:
        lost_at: float | None = None
        pause_s = AGAIN_S
        while True:
            try:
                async for _ in self._read(host):
                    if lost_at is not None:
                        await self._say(f"{host.label} is back")
                    lost_at, pause_s = None, AGAIN_S
            except HostFailure as failure:  # noqa: PERF203 - a connection, not a hot loop
                self._connections.forget(host)
                now = time.monotonic()
                if lost_at is None:
                    lost_at = now
                    await self._say(f"{failure.problem.what} ({failure.problem.why})")
                is_final = not failure.is_unreachable or now - lost_at > self._lost_after_s
                if not self._wanted.follow or is_final:
                    await self._say(f"{host.label}: no more lines from there")
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(MOST_S, pause_s * 2)
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
                }
            )
            while True:
                try:
                    told = await link.answer()
                except broken() as error:
                    raise lost(host, error) from None
                for source, text, position, role, rank in told.get("lines", ()):
                    line = LogLine(
                        source=source, text=text, position=position, role=Role(role) if role else None, rank=rank
                    )
                    await self._put(line)
                    self._after[source] = position
                yield
                if "end" in told or "error" in told:
                    return
        finally:
            link.close()

    async def _say(self, text: str) -> None:
        await self._put(LogLine(source=OURSELVES, text=text))

    async def _put(self, line: LogLine | _Ended) -> None:
        """Wait while the reader is slow; the other hosts wait as well."""
        while True:
            try:
                self._lines.put_nowait(line)
            except queue.Full:  # noqa: PERF203 - seldom
                await asyncio.sleep(0.01)
            else:
                return
