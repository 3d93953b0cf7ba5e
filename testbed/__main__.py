"""Program: `python -m testbed hosts 3` and `python -m testbed etcd`, for trying things by hand."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys

from testbed import etcd, hosts


def main() -> int:
    """Open what was asked for until the person has had enough."""
    parser = argparse.ArgumentParser(prog="python -m testbed", description="Real clusters on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    network = commands.add_parser("hosts", help="a shell beside a network of hosts")
    network.add_argument("count", type=int, nargs="?", default=3, help="how many hosts (3)")
    store = commands.add_parser("etcd", help="an etcd server, until Ctrl-C")
    store.add_argument("--port", type=int, help="where to listen on 127.0.0.1 (any free port)")
    wanted = parser.parse_args()
    if wanted.command == "hosts" and not 1 <= wanted.count <= hosts.MOST_HOSTS:
        parser.error(f"a network has 1 to {hosts.MOST_HOSTS} hosts: {wanted.count}")
    missing = hosts.available() if wanted.command == "hosts" else etcd.available()
    if missing is not None:
        print(f"error: {missing}", file=sys.stderr)
        return 3
    return _hosts(wanted.count) if wanted.command == "hosts" else _etcd(wanted.port)


def _hosts(count: int) -> int:
    with hosts.network(count) as net:
        first, last = net.hosts[0].name, net.hosts[-1].name
        for host in net.hosts:
            print(f"{host.name}  {host.address}  {host.address6}", file=sys.stderr)
        helps = {
            f"{first} COMMAND...": f"run a command on {first}; with no command, a shell",
            f"cut {first} {last}": "lose all packets between the two, until you heal them in the same way",
            "exit": "take the network down",
        }
        print("", *(f"  {what:20}  {meaning}" for what, meaning in helps.items()), "", sep="\n", file=sys.stderr)
        with subprocess.Popen(
            ["bash", "--norc"], env={**os.environ, **_shell_functions(net), "PS1": "testbed$ "}
        ) as shell:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for what runs in the shell
            return shell.wait()


def _shell_functions(net: hosts.Network) -> dict[str, str]:
    """Functions in the form in which bash takes them from its environment."""
    bodies = {}
    for host in net.hosts:
        enter = f"nsenter --target {host.pid} --net --uts --ipc --mount --pid"
        prompt = shlex.quote(f"PS1={host.name}$ ")
        bodies[host.name] = f'[ $# -gt 0 ] || set -- env {prompt} bash --norc; {enter} env -C "$PWD" "$@"'
    switch = f"nsenter --target {net.switch.pid} --net ip link set"
    for name, state in {"cut": "down", "heal": "up"}.items():
        low_first = 'set -- $(printf "%s\\n" "${1#node}" "${2#node}" | sort -n)'
        bodies[name] = f'{low_first}; {switch} "t$1-$2" {state}'
    return {f"BASH_FUNC_{name}%%": f"() {{ {body}; }}" for name, body in bodies.items()}


def _etcd(port: int | None) -> int:
    with etcd.server(port=port) as store:
        endings = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, endings)  # from here on they wait for us
        print(store.endpoint, flush=True)
        print("etcd runs; Ctrl-C ends it", file=sys.stderr)
        signal.sigwait(endings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
