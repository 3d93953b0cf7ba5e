"""Ports that stay ours until a worker takes them over. An adapter.

A port that was found free and let go may be somebody else's a second later. Here a port is *held*: bound, not
listening, until the worker that it belongs to is started. It comes from below the range from which the kernel serves
outgoing connections, so none of those can land on it while the worker starts, and an abstract socket of the same number
keeps every other umiak launcher of this host away from it as long as the generation lasts. Both vanish with the
launcher, however it ends.
"""

from __future__ import annotations

import os
import socket

from umiak.core.problem import Exit, Problem, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST, BEYOND = 20000, 32768
_LISTENS = "0A"
_MOST_NAME = 40


class HeldPorts:
    """Some ports of this host. ``release(port)`` just before its worker starts,
    ``close()`` when the generation is over.
    """

    def __init__(self) -> None:
        self._bound: dict[int, socket.socket] = {}
        self._locks: dict[int, socket.socket] = {}

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self._locks)

    def hold(self, numbers: Sequence[int], count: int, *, last: int | None = None) -> None:
        """Hold these, or if there are none this many free ones."""
        if numbers:
            self.hold_these(numbers)
        else:
            self.hold_any(count, last=last)

    def hold_any(self, count: int, *, last: int | None = None) -> None:
        """Hold this many free ports. ``last``: the last of them is this one, or UmiakError says that it is taken."""
        if last is not None:
            self.hold_these((last,))
        first, beyond = usable_range()
        start = first + int.from_bytes(os.urandom(2), "big") % (beyond - first)
        for step in range(beyond - first):
            if len(self._locks) == count:
                if last is not None:
                    self._locks[last] = self._locks.pop(last)
                return
            self._hold(first + (start - first + step) % (beyond - first))
        raise UmiakError.refused("UM-PORT-002", f"no {count} free ports between {first} and {beyond - 1}")

    def hold_these(self, numbers: Sequence[int]) -> None:
        """Hold exactly these ports; all that are taken are reported together."""
        problems = []
        for number in numbers:
            error = self._hold(number)
            if error:
                hint = "end the program that uses it (`ss -ltnp` shows it), or choose others with --start_port, --master_port"
                problems.append(Problem(code="UM-PORT-001", what=f"port {number} is taken", why=error, hint=hint))
        if problems:
            self.close()
            raise UmiakError(*problems, exit_status=Exit.REFUSED)

    def release(self, number: int) -> None:
        """Let the worker bind it now; other launchers still keep away."""
        bound = self._bound.pop(number, None)
        if bound:
            bound.close()

    def close(self) -> None:
        for held in (*self._bound.values(), *self._locks.values()):
            held.close()
        self._bound.clear()
        self._locks.clear()

    def _hold(self, number: int) -> str:
        """Empty if the port is ours now, otherwise why not."""
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Ports of workers that ended a moment ago may be held again; one that somebody listens on may not.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            lock.bind(f"\0umiak-port-{number}")
            bound.bind(("", number))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # nor may anybody else who is willing to share
        except OSError as error:
            lock.close()
            bound.close()
            return error.strerror or str(error)
        self._locks[number] = lock
        self._bound[number] = bound
        return ""


def usable_range() -> tuple[int, int]:
    """Below the kernel's range for outgoing connections where that leaves room, else all that is usual."""
    lowest = outgoing_range()[0]
    return (FIRST, min(lowest, BEYOND)) if lowest >= FIRST + 2000 else (FIRST, BEYOND)


def outgoing_range() -> tuple[int, int]:
    """The first and the last port that the kernel takes for outgoing connections."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", "rb") as file:
            first, last = file.read().split()
            return int(first), int(last)
    except (OSError, ValueError):
        return 32768, 60999


def listener_of(port: int) -> str | None:
    """``nginx (process 4711)``: what listens at a TCP port of this machine,
    as far as this user may know; None otherwise.

    Read from /proc, once something has gone wrong: never on the way of a launch that goes well.
    """
    from umiak.core.shown import one_line

    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not sockets:
        return None
    for process in filter(str.isdecimal, _names("/proc")):
        directory = f"/proc/{process}/fd"
        if any(_target(f"{directory}/{number}") in sockets for number in _names(directory)):
            try:
                with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:
                    return f"{one_line(file.read().strip(), _MOST_NAME)} (process {process})"
            except OSError:
                return f"process {process}"
    return None


def _inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        inodes |= {row[9] for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port}
    return inodes


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # gone by now, or another user's
        return []


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
