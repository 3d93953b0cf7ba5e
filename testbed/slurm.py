"""Adapter: a real Slurm on hosts of the testbed: one controller, a node on every host, and nothing outside one directory.

    with hosts.network(2) as net, slurm.cluster(net.hosts) as cluster:
        done = cluster.run(["sbatch", "--parsable", "--nodes=2", "job.sh"], check=True)
        job = cluster.until(done.stdout.strip(), "COMPLETED", "FAILED")
        print(job["ExitCode"])

Needs Debian's slurmctld, slurmd, slurm-client and munge; see `available()`. The nodes are called as the hosts; the controller
is on the first host. Slurm's commands run on any host with `cluster.env`, or on the first one with `run`. They
find neither /etc/slurm nor a munge of the machine itself.

What is not as in an ordinary Slurm, so that tests need not wait: schedulers look every second instead of once or twice in a
minute, and a requeued job may start again after 10 seconds instead of two minutes. A time limit is still looked at every 30 seconds; Slurm has that built in. There is no accounting database: `sacct`
says that it is disabled, and `sacct --completion` lists jobs that have ended. `settings` are further lines of slurm.conf.

A host that was killed and started again gets its node back with `start_node`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from testbed import hosts, processes, workspace

T = TypeVar("T")

START_TIMEOUT_S = 240
CPUS = 4
"""Of every node, as its jobs are told; the hosts share the real ones."""
TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}


@contextlib.contextmanager
def cluster(chosen: Sequence[hosts.Host], *, settings: Mapping[str, str | int] | None = None) -> Iterator[Cluster]:
    """Run Slurm on these hosts, with all nodes idle."""
    with workspace.opened("slurm") as work:
        opened = Cluster(work, chosen, settings or {})
        opened.start()
        yield opened


@functools.cache
def available() -> str | None:
    """Why there can be no Slurm on this machine, or `None` where there can."""
    for tool, package in TOOLS.items():
        if processes.program(tool) is None:
            return f"the testbed's Slurm needs the command `{tool}`: install {package}"
    return hosts.available()


class SlurmError(Exception):
    """Slurm did not start, or a job has not become what was waited for."""


class Cluster:
    """One Slurm; see `cluster()`."""

    def __init__(
        self, work: workspace.Workspace, chosen: Sequence[hosts.Host], settings: Mapping[str, str | int]
    ) -> None:
        self.hosts = tuple(chosen)
        self.directory = work.path
        """With slurm.conf, and the logs `slurmctld.log`, `slurmd-node0.log`, ..., `munged.log`."""
        self.config = work.path / "slurm.conf"
        self._work = work
        self._settings = settings
        self._controller: subprocess.Popen[str] | None = None

    @property
    def env(self) -> dict[str, str]:
        """What Slurm's commands need in their environment, besides the ordinary."""
        return {"SLURM_CONF": str(self.config)}

    def run(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        host: hosts.Host | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        check: bool = False,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, such as `sbatch`, on the first host or another."""
        environ = {**(os.environ if env is None else env), **self.env, workspace.MARK: str(self.directory)}
        return (host or self.hosts[0]).run(args, env=environ, cwd=cwd, check=check, timeout=timeout)

    def start(self) -> None:
        """Start everything, and wait until all nodes are idle."""
        self._write_config()
        self._start_munge()
        self.start_controller()
        for host in self.hosts:
            self.start_node(host)
        self._until(
            lambda: (
                self.run(["sinfo", "--noheader", "--Node", "--format=%T"]).stdout.split() == ["idle"] * len(self.hosts)
            ),
            "all nodes are idle",
        )

    def start_controller(self) -> None:
        """Start the controller, with the jobs that it knew before."""
        self._controller = self._work.popen(
            [processes.program("slurmctld") or "slurmctld", "-D"],
            log="slurmctld.out",
            host=self.hosts[0],
            env=self._daemon_env,
        )

    def stop_controller(self) -> None:
        """End the controller, which saves what it knows: running jobs go on, and commands fail or wait."""
        if self._controller is not None:
            self._controller.terminate()
            self._controller.wait()
            self._controller = None

    def start_node(self, host: hosts.Host) -> None:
        """Start the daemon of a host, also after the host was killed."""
        self._work.popen(
            [processes.program("slurmd") or "slurmd", "-D"],
            log=f"slurmd-{host.name}.out",
            host=host,
            env=self._daemon_env,
        )

    def job(self, job_id: str) -> dict[str, str]:
        """What `scontrol show job` tells of a job, by its words: JobState, Reason, ExitCode, NodeList, ..."""
        told = self.run(["scontrol", "show", "job", "--oneliner", job_id]).stdout.splitlines()
        words = (word.partition("=") for word in (told[0] if told else "").split())
        return {name: value for name, _, value in words}

    def until(self, job_id: str, *states: str, within_s: float = START_TIMEOUT_S) -> dict[str, str]:
        """Wait until a job is in one of these states, and return what is told of it."""
        return self._until(
            lambda: found if (found := self.job(job_id)).get("JobState") in states else {},
            f"job {job_id} is {' or '.join(states)}",
            within_s,
        )

    @property
    def _daemon_env(self) -> dict[str, str]:
        return {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", **self.env}

    def _until(self, look: Callable[[], T], what: str, within_s: float = START_TIMEOUT_S) -> T:
        deadline = time.monotonic() + within_s
        while not (seen := look()):
            if time.monotonic() > deadline:
                raise SlurmError(f"not within {within_s:g} s: {what}\n{self._talk()}")
            time.sleep(0.05)
        return seen

    def _talk(self) -> str:
        logs = sorted([*self.directory.glob("*.log"), *self.directory.glob("*.out")])
        return "\n".join(f"---- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in logs)

    def _start_munge(self) -> None:
        """One munge for all hosts: they have the same users, and its socket is a file that all of them see."""
        key = self.directory / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        files = {
            "socket": "munge.socket",
            "pid-file": "munged.pid",
            "log-file": "munged.log",
            "seed-file": "munge.seed",
        }
        command = [processes.program("munged") or "munged", "--foreground", "--force", f"--key-file={key}"]
        command += [f"--{name}={self.directory / file}" for name, file in files.items()]
        self._work.popen(command, log="munged.out")
        self._until((self.directory / "munge.socket").exists, "munge takes requests")

    def _write_config(self) -> None:
        own, first = self.directory, self.hosts[0]
        for name in ("state", *(f"spool-{host.name}" for host in self.hosts)):
            (own / name).mkdir()
        settings = {
            "ClusterName": "testbed",
            "SlurmctldHost": f"{first.name}({first.address})",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={own / 'munge.socket'},cred_expire=10",
            "CredType": "cred/munge",
            "StateSaveLocation": own / "state",
            "SlurmdSpoolDir": own / "spool-%n",
            "SlurmctldPidFile": own / "slurmctld.pid",
            "SlurmdPidFile": own / "slurmd-%n.pid",
            "SlurmctldLogFile": own / "slurmctld.log",
            "SlurmdLogFile": own / "slurmd-%n.log",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "SelectType": "select/cons_tres",
            "SlurmdParameters": "config_overrides",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "sched_interval=1,bf_interval=1",
            "ReturnToService": 2,
            "AccountingStorageType": "accounting_storage/none",
            "JobAcctGatherType": "jobacct_gather/none",
            "JobCompType": "jobcomp/filetxt",
            "JobCompLoc": own / "completed_jobs",
            "MpiDefault": "none",
            **self._settings,
        }
        lines = [f"{name}={value}" for name, value in settings.items()]
        lines += [
            f"NodeName={host.name} NodeHostname={host.name} NodeAddr={host.address} CPUs={CPUS} RealMemory=2000"
            for host in self.hosts
        ]
        lines += ["PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
        self.config.write_text("\n".join(lines) + "\n")
