"""Adapter: real `mpirun` commands, of Open MPI and of MPICH, over hosts of the testbed.

    with hosts.network(2) as net, mpi.cluster(net.hosts) as cluster:
        cluster.run("openmpi", ["python", "train.py"], per_host=2, timeout=60)
        cluster.run("mpich", ["python", "train.py"], timeout=60)

`mpirun` runs on the first host and reaches the others over ssh, with an sshd of the testbed on each host. Needs Debian's
openmpi-bin and mpich, and what `testbed.sshd` needs; see `available()`. `command` gives the words of the command alone, for
programs that start it themselves; they are run on the first host.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from testbed import hosts, sshd, workspace

Family: TypeAlias = Literal["openmpi", "mpich"]

TOOLS: Mapping[Family, tuple[str, str]] = {
    "openmpi": ("mpirun.openmpi", "openmpi-bin"),
    "mpich": ("mpirun.mpich", "mpich"),
}
"""Both packages can be installed at a time; Debian calls the commands so."""
SLOTS = 8
"""Of each host, as the host file says; the hosts share the real cores."""


@contextlib.contextmanager
def cluster(chosen: Sequence[hosts.Host]) -> Iterator[Cluster]:
    """Make these hosts ready for mpirun."""
    with workspace.opened("mpi") as work, sshd.on_hosts(chosen) as servers:
        yield Cluster(work, chosen, servers)


@functools.cache
def available() -> str | None:
    """Why there can be no mpirun on this machine, or `None` where there can."""
    for tool, package in TOOLS.values():
        if shutil.which(tool) is None:
            return f"the testbed's MPI needs the command `{tool}`: install {package}"
    return hosts.available() or sshd.available()


class Cluster:
    """Hosts on which mpirun starts processes; see `cluster()`."""

    def __init__(self, work: workspace.Workspace, chosen: Sequence[hosts.Host], servers: sshd.Cluster) -> None:
        self.hosts = tuple(chosen)
        self.servers = servers
        self._work = work
        self._agent = work.path / "rsh"
        """What mpirun takes for `ssh`: it knows this cluster's keys."""
        self._agent.write_text(f'#!/bin/sh\nexec ssh -F {servers.config} -o BatchMode=yes "$@"\n')
        self._agent.chmod(0o700)

    def mpirun(self, family: Family) -> list[str]:
        """The command for this cluster, without how many processes of what."""
        tool, _ = TOOLS[family]
        slots = " slots=" if family == "openmpi" else ":"
        hostfile = self._work.path / f"hostfile-{family}"
        hostfile.write_text("".join(f"{host.name}{slots}{SLOTS}\n" for host in self.hosts))
        flags: Mapping[Family, list[str | os.PathLike[str]]] = {
            "openmpi": [
                *("--allow-run-as-root", "--hostfile", hostfile, "--mca", "plm_rsh_agent", self._agent),
                *("--mca", "orte_tmpdir_base", self._work.path),
            ],
            "mpich": ["-f", hostfile, "-launcher", "ssh", "-launcher-exec", self._agent],
        }
        return [tool, *(os.fspath(flag) for flag in flags[family])]

    def command(self, family: Family, args: Sequence[str | os.PathLike[str]], *, per_host: int = 1) -> list[str]:
        """The words that run a program so many times on each host."""
        spread = ["--map-by", f"ppr:{per_host}:node"] if family == "openmpi" else ["-ppn", str(per_host)]
        count = str(per_host * len(self.hosts))
        return [*self.mpirun(family), *spread, "-n", count, *(os.fspath(word) for word in args)]

    def run(
        self,
        family: Family,
        args: Sequence[str | os.PathLike[str]],
        *,
        per_host: int = 1,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program so many times on each host, to its end."""
        return self.hosts[0].run(self.command(family, args, per_host=per_host), env=env, cwd=cwd, timeout=timeout)
