"""The standard input and output of a program on a host, for code that waits: over the connection that is there already.
An adapter, with asyncssh.

    channel = open_session(connections, host, {"do": "session", "run": "ctr-3f2a9c", "host": "node0"})
    channel.write(b"..."), channel.read(), channel.close()

The program is the agent, which has become another one: after its answer, nothing is a line of JSON any more.
"""

from __future__ import annotations

from umiak.core.problem import Exit, UmiakError
from umiak.submit.backends.ssh.connections import HostFailure, broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping
    from umiak.submit.backends.ssh.connections import AgentLink, Connections
    from umiak.submit.backends.ssh.settings import SshHost

BLOCK_BYTES = 1 << 18


class SshChannel:
    """A `umiak.submit.backend.NodeChannel`."""

    def __init__(self, connections: Connections, link: AgentLink) -> None:
        self._connections = connections
        self._link = link

    def read(self) -> bytes:
        return self._connections.run(self._read())

    async def _read(self) -> bytes:
        try:
            return await self._link.read(BLOCK_BYTES)
        except broken():
            return b""

    def write(self, data: bytes) -> None:
        self._connections.run(self._write(data))

    async def _write(self, data: bytes) -> None:
        try:
            await self._link.write(data)
        except broken() as error:
            raise ConnectionResetError(104, str(error) or "the connection was lost") from None

    def close(self) -> None:
        self._connections.run(self._close())

    async def _close(self) -> None:
        self._link.close()

    def last_words(self) -> str:
        return self._connections.run(self._link.last_words())


def open_session(connections: Connections, host: SshHost, question: JsonMapping) -> SshChannel:
    """An agent of its own that has answered this question and is the program now.
    UmiakError if the host can't be reached or refuses.
    """

    async def begin(host: SshHost) -> AgentLink:
        link = await connections.fresh_agent(host)
        try:
            await link.ask(question)
        except HostFailure:
            link.close()
            raise
        return link

    (answer,) = connections.each([host], begin)
    if isinstance(answer, HostFailure):
        raise UmiakError(answer.problem, exit_status=Exit.REFUSED)
    return SshChannel(connections, answer)
