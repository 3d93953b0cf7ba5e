"""Trainers and servers on different hosts, and a network between them that is cut and heals."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

from testbed.hosts import Host
from testbed.pytest_support import NetworkFactory
from tests.support import ps_peers

NEW_ADDRESS = "10.88.0.77"

PUSHING = """
import sys, numpy as np, umiak_native
client = umiak_native.Client(sys.argv[1], bytes.fromhex(sys.argv[2]))
table = client.create_table("t", sys.argv[3])
for line in sys.stdin:
    client.push(table, np.arange(10), np.ones((10, 4), np.float32))
    print(int(client.pull(table, np.array([0]))[0, 0]), flush=True)
"""


def test_a_trainer_goes_on_over_a_new_connection_when_the_network_heals(network: NetworkFactory) -> None:
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
        net.cut(a, b)
        ask(pushing)
        # The host comes back under another address: what the old connection still has to send never arrives.
        b.ip([f"addr del {b.address}/24 dev eth0", f"addr add {NEW_ADDRESS}/24 broadcast + dev eth0"])
        net.heal(a, b)
        assert said(pushing) == "2"
