"""Adapter: a real Ray cluster on hosts of the testbed: a head on the first, a node on every other, and nothing outside one directory.

    with hosts.network(3) as net, ray.cluster(net.hosts) as cluster:
        with net.hosts[0].inside():
            print(urllib.request.urlopen(f"{cluster.address}/api/version").read())

Needs `.venv-ray` in the checkout, which `make cluster-ray` and `make test` make; see `available()`. Programs that talk to the cluster run
on one of its hosts.

What is not as in an ordinary Ray, so that it starts on a busy machine: its daemons may take longer to start, the object store is
small, and usage statistics are off. Proxies of the environment are removed, since Ray would ask them for its own hosts.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testbed import hosts, workspace

VENV = Path(__file__).parent.parent / ".venv-ray"
PYTHON = VENV / "bin" / "python"
GCS_PORT = 6379
DASHBOARD_PORT = 8265
CPUS = 2
"""Of every node, as its jobs are told; the hosts share the real ones."""
START_TIMEOUT_S = 300
STORE_BYTES = 80 << 20
_ENV = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "240000",
    "RAY_raylet_start_wait_time_s": "240",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "240",
    "RAY_worker_register_timeout_seconds": "240",
    "RAY_gcs_server_request_timeout_seconds": "240",
    "RAY_prestart_worker_first_driver": "0",
}

_PATIENT = """
import sys, time
import ray._private.services as services
from ray._private.node import Node
from ray.scripts.scripts import main

get_node = services.get_node

def patient(*words, **more):
    deadline = time.monotonic() + 240
    while True:
        try:
            return get_node(*words, **more)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)

services.get_node = patient
Node.start_ray_client_server = lambda self: None
main()
"""
"""The command `ray`. Its own waits half a minute for the first daemons, which is too short on a busy machine, and can't be told to; and
it always starts a server for `ray://` addresses, which ends the whole node if it has to wait as long."""


@contextlib.contextmanager
def cluster(chosen: Sequence[hosts.Host], *, cpus: int = CPUS) -> Iterator[Cluster]:
    """Run Ray on these hosts, with all nodes alive."""
    with workspace.opened("ray") as work:
        opened = Cluster(work, chosen, cpus)
        opened.start()
        yield opened


@functools.cache
def available() -> str | None:
    """Why there can be no Ray on this machine, or `None` where there can."""
    if not PYTHON.exists():
        return "the testbed's Ray needs .venv-ray: `make cluster-ray` makes it"
    return hosts.available()


class RayError(Exception):
    """Ray did not start."""


class Cluster:
    """One Ray; see `cluster()`."""

    def __init__(self, work: workspace.Workspace, chosen: Sequence[hosts.Host], cpus: int) -> None:
        self.hosts = tuple(chosen)
        self.directory = work.path
        """With the output of Ray's daemons, `node0.log`, ..., and Ray's own files below `node0`, ...."""
        self.address = f"http://{chosen[0].address}:{DASHBOARD_PORT}"
        """Of the dashboard, which takes jobs."""
        self._work = work
        self._cpus = cpus
        self._daemons: dict[hosts.Host, subprocess.Popen[str]] = {}

    def start(self) -> None:
        """Start everything, and wait until all nodes are alive."""
        self._start_head()
        self._until(lambda: self.alive() == 1, "the head is alive")
        for host in self.hosts[1:]:
            self.start_node(host)
        self._until(lambda: self.alive() == len(self.hosts), "all nodes are alive")

    def _start_head(self) -> None:
        flags = [f"--port={GCS_PORT}", f"--dashboard-port={DASHBOARD_PORT}", "--dashboard-host=0.0.0.0"]
        self._start(self.hosts[0], "--head", "--no-monitor", *flags)

    def start_node(self, host: hosts.Host) -> None:
        """Start the daemons of a host, also after the host was killed."""
        self._start(host, f"--address={self.hosts[0].address}:{GCS_PORT}")

    def alive(self) -> int:
        """How many nodes Ray sees."""
        found = json.loads(self.get("/api/v0/nodes"))["data"]["result"]["result"]
        return sum(node["state"] == "ALIVE" for node in found)

    def get(self, path: str) -> bytes:
        """What the dashboard answers."""
        with self.hosts[0].inside():
            connection = http.client.HTTPConnection(self.hosts[0].address, DASHBOARD_PORT, timeout=60)
            connection.connect()
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read()

    def _start(self, host: hosts.Host, *flags: str) -> None:
        words = [str(PYTHON), "-c", _PATIENT, "start", "--block", "--disable-usage-stats", f"--num-cpus={self._cpus}"]
        own = self.directory / host.name  # nodes that share one remove the packages of one another
        own.mkdir(exist_ok=True)
        temporary = (
            self.directory / f"tmp-{host.name}"
        )  # Ray opens its own directory to everybody, and a TMPDIR is not so
        temporary.mkdir(mode=0o700, exist_ok=True)
        words += [
            f"--temp-dir={own}",
            f"--node-ip-address={host.address}",
            f"--object-store-memory={STORE_BYTES}",
            *flags,
        ]
        kept = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
        path = f"{PYTHON.parent}:{os.environ['PATH']}"
        env = {**kept, **_ENV, "PATH": path, "TMPDIR": str(temporary)}
        self._daemons[host] = self._work.popen(words, log=f"{host.name}.log", host=host, env=env)

    def _until(self, look: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                if look():
                    return
            ended = [host.name for host, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended:
                raise RayError(f"Ray has ended on {', '.join(ended)}\n{self._talk()}")
            if time.monotonic() > deadline:
                raise RayError(f"not within {START_TIMEOUT_S} s: {what}\n{self._talk()}")
            time.sleep(0.1)

    def _talk(self) -> str:
        logs = sorted(self.directory.glob("*.log"))
        return "\n".join(f"---- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in logs)
