"""Program: a port of loopback that leads to a server on a testbed host, which the real machine could not reach otherwise.

    python -m testbed.kubernetes.forward FILE PID ADDRESS PORT

`FILE` gets the number of the port, `PID` is a process of the host. Bytes are copied as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path

from testbed import namespaces

_CHUNK = 1 << 16


def main(file: str, pid: str, address: str, port: str) -> None:
    """Listen here, and connect there."""
    link_listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    namespaces.setns(namespace, namespaces.NEW_NETWORK)  # the open door stays where it is
    unfinished = Path(f"{file}.unfinished")
    unfinished.write_text(str(link_listener.getsockname()[1]), encoding="ascii")
    unfinished.rename(file)
    asyncio.run(_serve(link_listener, address, int(port)))


async def _serve(link_listener: socket.socket, address: str, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(address, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    server = await asyncio.start_server(connected, sock=link_listener)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
