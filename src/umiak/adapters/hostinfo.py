"""What this machine is called, which addresses it has, and how much room its disks. An adapter.

Addresses are asked of the kernel: looking one's own host name up is how launchers end up with 127.0.1.1 on Debian.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct

from umiak.core.names import is_loopback
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SIOCGIFADDR = 0x8915

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - no file is made there

before_look_up: Callable[[], None] | None = None
"""Called before a name is looked up. That blocks this process, for as long as the name server does not answer."""


@value
class DiskRoom:
    """How full a file system is."""

    is_writable: bool
    total_bytes: int
    free_bytes: int


def addresses() -> tuple[str, ...]:
    """This machine's addresses: those of its network interfaces first, loopback last."""
    addresses = [*(address for _, address in _interfaces()), *_further_ipv4_addresses()]
    return tuple(sorted(dict.fromkeys(addresses), key=is_loopback))


def address_towards(host: str) -> str:
    """The local address of the route to a host; empty if there is no route. Nothing is sent."""
    try:
        family, target = look_up(host, 9)
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect(target)
            own: str = sock.getsockname()[0]
            return own
    except OSError:
        return ""


def public_address() -> str:
    """The address by which other machines most likely reach this one:
    that of the way out, else the first interface's.
    """
    for outside in (
        "192.0.2.1",
        "2001:db8::1",
    ):  # reserved for documentation: nobody has them, routes lead there all the same
        own = address_towards(outside)
        if own and not is_loopback(own):
            return own
    return next(iter(addresses()), "127.0.0.1")


def own_name() -> tuple[str, str]:
    """This machine's name, and the address that it has for this machine; empty: none. Name servers may be asked."""
    name = socket.gethostname()
    address = resolve(name)
    return name, "" if address == name else address


def room(directory: str) -> DiskRoom | None:
    """In the file system of a directory; None if there is none."""
    try:
        seen = os.statvfs(directory)
    except OSError:
        return None
    return DiskRoom(
        is_writable=os.access(directory, os.W_OK | os.X_OK),
        total_bytes=seen.f_blocks * seen.f_frsize,
        free_bytes=seen.f_bavail * seen.f_frsize,
    )


def resolve(host: str) -> str:
    """The address of a host, or the name itself if nobody knows it (yet)."""
    try:
        return str(look_up(host, 0)[1][0])
    except OSError:
        return host


def look_up(host: str, port: int) -> tuple[int, tuple[str | int | bytes, ...]]:
    """Address family and address for a TCP connection there. OSError if nobody knows the host."""
    # As bytes, an ordinary name goes to the resolver as it is; as text, Python first loads the tables of IDNA for 4 ms.
    name = host.encode() if host.isascii() else host
    if before_look_up:
        before_look_up()
    family, _, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    return family, address


def interface_with(address: str) -> str:
    """The name of the network interface that has this address; empty if none has."""
    return next((name for name, its_address in _interfaces() if its_address == address), "")


def _interfaces() -> list[tuple[str, str]]:
    """(interface, address) of every address of this machine."""
    return [*_ipv4_interfaces(), *_ipv6_interfaces()]


def _ipv4_interfaces() -> list[tuple[str, str]]:
    import fcntl

    interfaces = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # an interface without an address
            interfaces.append((name, socket.inet_ntoa(answer[20:24])))
    return interfaces


def _further_ipv4_addresses() -> list[str]:
    """Also the second addresses of interfaces: the kernel's table of local routes has them all."""
    try:
        with open("/proc/net/fib_trie", encoding="utf-8") as file:
            lines = [line.split() for line in file]
    except OSError:
        return []
    pairs = itertools.pairwise(lines)
    return [words[1] for words, below in pairs if words[0] == "|--" and below == ["/32", "host", "LOCAL"]]


def _ipv6_interfaces() -> list[tuple[str, str]]:
    try:
        with open("/proc/net/if_inet6", encoding="utf-8") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    # Link-local addresses (scope 20) mean nothing without their interface.
    return [(row[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0]))) for row in rows if row[3] != "20"]
