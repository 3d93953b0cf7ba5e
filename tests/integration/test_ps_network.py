"""Trainers and servers on different hosts, and a network between them that is cut and heals."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys

import pytest

from testbed.hosts import Host
from testbed.pytest_support import NetworkFactory
from tests.integration import ps_peers
from tests.support import eventually

BACKOFF = 4
"""Where the kernel says, in its information about a connection, how often in a row it has doubled its patience."""

PUSHING = """
import sys, numpy as np, umiak_native
client = umiak_native.Client(sys.argv[1], bytes.fromhex(sys.argv[2]))
table = client.create_table("t", sys.argv[3])
for line in sys.stdin:
    client.push(table, np.arange(10), np.ones((10, 4), np.float32))
    print(int(client.pull(table, np.array([0]))[0, 0]), flush=True)
"""


def test_a_trainer_goes_on_before_tcp_would_when_the_network_heals(network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    with contextlib.ExitStack() as stack:

        def started(host: Host, program: str, *arguments: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", program, *arguments]
            process = stack.enter_context(host.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            return process

        def said(process: subprocess.Popen[str]) -> str:
            assert process.stdout is not None
            return process.stdout.readline().strip()

        def ask(process: subprocess.Popen[str]) -> None:
            assert process.stdin is not None
            process.stdin.write("once more\n")
            process.stdin.flush()

        serving = json.dumps({"job": ps_peers.JOB, "host": a.address})
        server = started(a, ps_peers.PROGRAM, serving, ps_peers.TOKEN.hex())
        asking = json.dumps({"endpoints": [f"{a.address}:{said(server)}"], "job": ps_peers.JOB})
        pushing = started(b, PUSHING, asking, ps_peers.TOKEN.hex(), ps_peers.sum_spec())
        ask(pushing)
        assert said(pushing) == "1"
        with a.inside():
            listening = stack.enter_context(socket.create_server((a.address, 0)))
        with b.inside():
            witness = stack.enter_context(socket.create_connection(listening.getsockname()[:2]))
        other = stack.enter_context(listening.accept()[0])
        other.setblocking(False)
        net.cut(a, b)
        ask(pushing)
        witness.send(b"a connection that only TCP looks after")
        # The next attempt comes after twice the pause before the last one: six seconds and more.
        eventually(lambda: witness.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[BACKOFF] >= 5)
        net.heal(a, b)
        assert said(pushing) == "2"
        with pytest.raises(BlockingIOError):
            other.recv(1)
