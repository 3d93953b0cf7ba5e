"""Adapter: the Linux calls behind the hosts, which Python has only from 3.12 on or not at all.

What a namespace call changes belongs to the calling thread, not to the process. So the two context managers below disturb
no other thread, and what they changed is put back on leaving.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

NEW_MOUNTS = 0x0002_0000
NEW_HOSTNAME = 0x0400_0000
NEW_IPC = 0x0800_0000
NEW_PIDS = 0x2000_0000
NEW_NETWORK = 0x4000_0000

MOUNT_BIND = 0x1000
MOUNT_RECURSIVE = 0x4000
MOUNT_PRIVATE = 0x4_0000
_UNMOUNT_DETACH = 2


@contextlib.contextmanager
def children_in_pid_namespace(pid: int | None) -> Iterator[None]:
    """Let this thread's next children be born in the PID namespace of process `pid`, or with `None` in a new one.

    They stay direct children: their ids are as this process sees them, and so signals reach the program itself. The first
    one born in a new namespace is its init.
    """
    with _opened("/proc/thread-self/ns/pid_for_children") as before:
        if pid is None:
            unshare(NEW_PIDS)
        else:
            with _opened(f"/proc/{pid}/ns/pid") as other:
                setns(other, NEW_PIDS)
        try:
            yield
        finally:
            setns(before, NEW_PIDS)


@contextlib.contextmanager
def in_network_namespace(namespace: int) -> Iterator[None]:
    """Let this thread's sockets be opened in the network namespace behind that file descriptor."""
    with _opened("/proc/thread-self/ns/net") as before:
        setns(namespace, NEW_NETWORK)
        try:
            yield
        finally:
            setns(before, NEW_NETWORK)


def abandon_connections() -> None:
    """Do not try for minutes to close, towards silent peers, the TCP connections of dead processes of this namespace.

    A network namespace without processes lives on until they are closed.
    """
    with open("/proc/sys/net/ipv4/tcp_orphan_retries", "w", encoding="ascii") as setting:
        setting.write("1")


def setns(namespace: int, kind: int) -> None:
    """Move this thread into the namespace behind a file descriptor."""
    _check("setns", _libc.setns(namespace, kind))


def unshare(kinds: int) -> None:
    """Move this thread into new namespaces of these kinds."""
    _check("unshare", _libc.unshare(kinds))


def mount(source: str, target: str, filesystem: str = "", flags: int = 0) -> None:
    """Mount, bind or change the propagation of a mount, as mount(2) does by its flags."""
    result = _libc.mount(os.fsencode(source), os.fsencode(target), filesystem.encode(), ctypes.c_ulong(flags), None)
    _check(f"mount of {source} on {target}", result)


def unmount(target: str) -> None:
    """Take a mount off its place; it lives on where it is bound elsewhere."""
    _check(f"unmount of {target}", _libc.umount2(os.fsencode(target), _UNMOUNT_DETACH))


_libc = ctypes.CDLL(None, use_errno=True)


def _check(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
