"""Two hosts train together; one of them is killed, and later comes back. The other one never stops for long.

    python examples/02-lose-a-node/run.py

The hosts are network namespaces of this machine (as root); where these can't be had, two launchers on loopback stand for them.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from testbed import hosts

SECRET = {"UMIAK_TOKEN": os.urandom(16).hex()}  # as `umiak token` makes one; both nodes must know it
DEADLINE_S = 240
SHOWN = ("[trainer ", "Job:", "WARNING", "ERROR", "error", "waiting")
NOISE = ("FLAGS", "====", "warn", "tcp_", "Modified")  # what importing Paddle writes


class Node:
    """One host with its launcher, whose console is shown with the host's name in front."""

    def __init__(self, name: str, host: hosts.Host | None, master: str, work: pathlib.Path) -> None:
        self.name, self.host, self.master, self.work = name, host, master, work
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "umiak.launch", "--nnodes", "1:2", "--master", self.master]
        command += [
            "--job_id",
            "lose-a-node",
            "--log_dir",
            str(self.work / f"log-{self.name}"),
            "--elastic_timeout",
            "60",
        ]
        command += [str(HERE / "train.py"), str(self.work / "checkpoint")]
        popen = self.host.popen if self.host else subprocess.Popen
        extra = {} if self.host else {"text": True}
        self.process = popen(
            command, env={**os.environ, **SECRET}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **extra
        )
        threading.Thread(target=self._show, args=(self.process,), daemon=True).start()

    def kill(self) -> None:
        """Everything on this host is gone at once."""
        if self.host:
            self.host.kill()
        elif self.process:
            self.process.send_signal(signal.SIGKILL)

    def saw(self, text: str, times: int = 1) -> bool:
        return sum(text in line for line in self.lines) >= times

    def _show(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append(line)
            if any(word in line for word in SHOWN) and not any(word in line for word in NOISE):
                print(f"{self.name} | {line}", end="", flush=True)


def main() -> int:
    with contextlib.ExitStack() as stack:
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="umiak-example-")))
        reason = hosts.available()
        if reason is None:
            network = stack.enter_context(hosts.network(2))
            machines: list[hosts.Host | None] = list(network.hosts)
            master = f"{network.hosts[0].address}:29400"
        else:
            print(f"no network namespaces here ({reason}): two launchers on loopback stand for the hosts")
            machines, master = [None, None], "127.0.0.1:29400"
        first, second = (Node(f"host{number}", host, master, work) for number, host in enumerate(machines))
        stack.callback(lambda: [node.kill() for node in (first, second)])
        say("two hosts start training")
        first.start()
        second.start()
        wait_for(lambda: first.saw("2 workers", times=2), "both hosts to train together")
        say("host1 is killed")
        second.kill()
        wait_for(lambda: first.saw("1 workers", times=2), "host0 to go on alone")
        say("host1 comes back")
        if second.host:
            second.host.start()
        began = len(first.lines)
        second.start()
        wait_for(lambda: any("2 workers" in line for line in first.lines[began:]), "both hosts to train together again")
        say("waiting for the end of the training")
        statuses = [node.process.wait(DEADLINE_S) for node in (first, second) if node.process]
        time.sleep(0.1)
        say(f"both launchers ended with {statuses}")
        return max(statuses)


def wait_for(condition, what: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"error: waited {DEADLINE_S} s in vain for {what}")
        time.sleep(0.05)


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
