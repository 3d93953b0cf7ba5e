"""Ports and addresses of loopback for tests that run side by side.

    port, other = free_ports(2)
    first, second = own_addresses(2)         127.41.7.1, 127.41.7.2: a default port there is nobody else's

A port that was found free and let go may be somebody else's a moment later. These are outside of the ranges from which kernel and
launcher take theirs, so that only another test that asks here at the same time could get the same one, of nine thousand.
"""

from __future__ import annotations

import contextlib
import secrets
import socket

FIRST, COUNT = 10000, 9000


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has now."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            port = FIRST + secrets.randbelow(COUNT)
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                found.append(port)
        return found


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


def own_addresses(count: int) -> list[str]:
    """Addresses of this machine that nobody else uses."""
    network = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(255)}"
    return [f"{network}.{number + 1}" for number in range(count)]
