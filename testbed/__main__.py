"""Program: `python -m testbed hosts 3`, `ssh 4`, `slurm 2`, `mpi 2`, `ray 3`, `kubernetes 2` and `etcd`, for trying things by hand."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping

from testbed import etcd, hosts, mpi, ray, slurm, sshd
from testbed.kubernetes import cluster as kubernetes
from testbed.kubernetes import programs

SLURM_COMMANDS = ("sbatch", "srun", "salloc", "squeue", "scancel", "scontrol", "sinfo", "sacct", "sattach")


def main() -> int:
    """Open what was asked for until the person has had enough."""
    parser = argparse.ArgumentParser(prog="python -m testbed", description="Real clusters on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (meaning, count, _, _) in CLUSTERS.items():
        cluster = commands.add_parser(name, help=meaning)
        cluster.add_argument("count", type=int, nargs="?", default=count, help=f"how many ({count})")
    store = commands.add_parser("etcd", help="an etcd server, until Ctrl-C")
    store.add_argument("--port", type=int, help="where to listen on 127.0.0.1 (any free port)")
    wanted = parser.parse_args()
    if wanted.command != "etcd" and not 1 <= wanted.count <= hosts.MOST_HOSTS:
        parser.error(f"a network has 1 to {hosts.MOST_HOSTS} hosts: {wanted.count}")
    missing = (etcd.available if wanted.command == "etcd" else CLUSTERS[wanted.command][2])()
    if missing is not None:
        print(f"error: {missing}", file=sys.stderr)
        return 3
    return _etcd(wanted.port) if wanted.command == "etcd" else CLUSTERS[wanted.command][3](wanted.count)


def _hosts(count: int) -> int:
    with hosts.network(count) as net:
        first, last = net.hosts[0].name, net.hosts[-1].name
        helps = {
            f"{first} COMMAND...": f"run a command on {first}; with no command, a shell",
            f"cut {first} {last}": "lose all packets between the two, until you heal them in the same way",
        }
        return _shell(net, helps, {}, {})


def _ssh(count: int) -> int:
    with sshd.on_loopback(count) as cluster:
        for machine in cluster.machines:
            print(f"{machine.name}  {machine.address}  port {machine.port}", file=sys.stderr)
        config = shlex.quote(str(cluster.config))
        helps = {
            "ssh node0": "log in; scp and sftp know the machines too",
            "ssh -F $SSH_CONFIG node0": "the same, in another window",
        }
        bodies = {name: f'command {name} -F {config} "$@"' for name in ("ssh", "scp", "sftp")}
        return _shell(None, helps, bodies, {"SSH_CONFIG": str(cluster.config)})


def _slurm(count: int) -> int:
    with hosts.network(count) as net, slurm.cluster(net.hosts) as cluster:
        helps = {
            "sbatch job.sh": "submit a job; also: " + " ".join(SLURM_COMMANDS[1:]),
            "node0 COMMAND...": "run a command on a node; with no command, a shell",
            "ls $SLURM_LOGS": "logs of Slurm, and its configuration",
        }
        bodies = {name: f'node0 {name} "$@"' for name in SLURM_COMMANDS}
        return _shell(net, helps, bodies, {**cluster.env, "SLURM_LOGS": str(cluster.directory)})


def _mpi(count: int) -> int:
    with hosts.network(count) as net, mpi.cluster(net.hosts) as cluster:
        families: tuple[mpi.Family, ...] = ("openmpi", "mpich")
        helps = {f"{family} -n 4 COMMAND...": f"mpirun of {family}, over all hosts" for family in families}
        bodies: dict[str, str] = {family: f'node0 {shlex.join(cluster.mpirun(family))} "$@"' for family in families}
        return _shell(net, helps, bodies, {})


def _ray(count: int) -> int:
    with hosts.network(count) as net, ray.cluster(net.hosts) as cluster:
        helps = {
            "node0 COMMAND...": "run a command on the head; with no command, a shell",
            "ray job list": "Ray's command, on the head",
            "umiak submit --on lab": "on the head, with the lines above below [place.lab] in umiak.toml",
        }
        print(f'backend = "ray"\naddress = "{cluster.address}"', file=sys.stderr)
        bodies = {"ray": f'node0 env RAY_ADDRESS={cluster.address} {ray.PYTHON.with_name("ray")} "$@"'}
        bodies["umiak"] = f'node0 {sys.executable} -m umiak "$@"'
        return _shell(net, helps, bodies, {})


def _kubernetes(count: int) -> int:
    with kubernetes.opened(count) as cluster:
        for host in cluster.network.hosts:
            print(f"{host.name}  {host.address}", file=sys.stderr)
        print(f"KUBECONFIG={cluster.kubeconfig}", file=sys.stderr)
        helps = {
            "kubectl get nodes": "kubectl knows the cluster; so does umiak",
            "node1 COMMAND...": "run a command on a node; with no command, a shell",
            "cut node0 node1": "lose all packets between a node and the control plane; heal node0 node1 ends it",
            "ls $KUBERNETES_LOGS": "logs of all its programs",
        }
        bodies = {"umiak": f'{sys.executable} -m umiak "$@"'}
        path = f"{programs.directory()}:{os.environ['PATH']}"
        env = {"KUBECONFIG": str(cluster.kubeconfig), "KUBERNETES_LOGS": str(cluster.directory), "PATH": path}
        return _shell(None, helps, bodies, {**_shell_functions(cluster.network), **env})


CLUSTERS: Mapping[str, tuple[str, int, Callable[[], str | None], Callable[[int], int]]] = {
    "hosts": ("a shell beside a network of hosts", 3, hosts.available, _hosts),
    "ssh": ("a shell beside machines with sshd, on loopback", 4, sshd.available, _ssh),
    "slurm": ("a shell beside a Slurm", 2, slurm.available, _slurm),
    "mpi": ("a shell beside hosts for Open MPI and MPICH", 2, mpi.available, _mpi),
    "ray": ("a shell beside a Ray cluster", 3, ray.available, _ray),
    "kubernetes": ("a shell beside a Kubernetes cluster", 2, kubernetes.available, _kubernetes),
}
"""What a word opens: its meaning, the usual number of hosts, why there may be none, and how it is opened."""


def _shell(
    net: hosts.Network | None, helps: Mapping[str, str], bodies: Mapping[str, str], env: Mapping[str, str]
) -> int:
    """Let the person work beside a cluster, with these functions and variables besides those of its hosts."""
    for host in net.hosts if net else ():
        print(f"{host.name}  {host.address}  {host.address6}", file=sys.stderr)
    lines = (f"  {what:24}  {meaning}" for what, meaning in {**helps, "exit": "take it all down"}.items())
    print("", *lines, "", sep="\n", file=sys.stderr)
    functions = {f"BASH_FUNC_{name}%%": f"() {{ {body}; }}" for name, body in bodies.items()}
    of_hosts = _shell_functions(net) if net else {}
    with subprocess.Popen(
        ["bash", "--norc"], env={**os.environ, **of_hosts, **functions, **env, "PS1": "testbed$ "}
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
