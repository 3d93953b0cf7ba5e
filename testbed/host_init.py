"""Program: the first process of a testbed host, as `python -m testbed.host_init NAME OWNER` with /etc/hosts on its input.

It is born as process 1 of a new PID namespace, makes the host's other namespaces, says `ready`, and then waits for its
owner to die. `OWNER` is a pidfd: it tells of the death of the whole owning process, whichever of its threads started the
host. When this process ends, for whatever reason, the kernel kills every process of the host.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

from testbed import namespaces


def main(name: str, owner: int) -> None:
    """Make the host called `name`, and keep it for as long as the owner lives."""
    hosts_file = sys.stdin.read()
    namespaces.unshare(
        namespaces.NEW_NETWORK | namespaces.NEW_HOSTNAME | namespaces.NEW_MOUNTS | namespaces.NEW_IPC,
    )
    socket.sethostname(name)
    _mount_private_files({"/etc/hosts": hosts_file, "/etc/hostname": f"{name}\n"})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the orphans that an init inherits
    os.chdir("/")
    print("ready", flush=True)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    select.select([owner], [], [])
    namespaces.abandon_connections()


def _mount_private_files(contents: dict[str, str]) -> None:
    """Give the host what a machine has for itself: its names, its processes, its interfaces, its shared memory."""
    namespaces.mount("none", "/", flags=namespaces.MOUNT_RECURSIVE | namespaces.MOUNT_PRIVATE)
    stage = "/proc"  # a directory that is always there and gets its own file system in a moment anyway
    namespaces.mount("tmpfs", stage, "tmpfs")
    for number, (path, content) in enumerate(contents.items()):
        if os.path.exists(path):
            with open(f"{stage}/{number}", "w", encoding="utf-8") as file:
                file.write(content)
            namespaces.mount(f"{stage}/{number}", path, flags=namespaces.MOUNT_BIND)
    # /sys lists the interfaces of the network namespace it was mounted in. The control groups below it stay as they are.
    groups, kept = "/sys/fs/cgroup", f"{stage}/groups"
    everything_below = namespaces.MOUNT_BIND | namespaces.MOUNT_RECURSIVE
    os.mkdir(kept)
    namespaces.mount(groups, kept, flags=everything_below)
    namespaces.mount("sysfs", "/sys", "sysfs")
    namespaces.mount(kept, groups, flags=everything_below)
    namespaces.unmount(stage)
    namespaces.mount("proc", "/proc", "proc")
    namespaces.mount("tmpfs", "/dev/shm", "tmpfs")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
