"""Adapter: a real Kubernetes cluster on one machine: testbed hosts as nodes, with containers, pod addresses, Services and DNS.

    with cluster.opened(2) as kube:
        kube.kubectl("create", "-f", "wide_and_deep.yaml")
        kube.lose_node("node1")

The control plane is on the host `node0`, the nodes are `node1`, `node2`, ... All of them lie in namespaces of their own;
`kube.kubeconfig` works on the real machine all the same, through a port of loopback.

An image exists for every name (`registry`). Whatever it is called, its containers have the real machine's programs, and on PATH the
interpreter that runs this, with Paddle and umiak. `image` gives a name an entry point of its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed import hosts, workspace
from testbed.kubernetes import control_groups, node, programs, registry
from testbed.kubernetes.control_plane import ControlPlane, KubernetesError


@contextlib.contextmanager
def opened(nodes: int = 2, *, api_server: Sequence[str] = ()) -> Iterator[Cluster]:
    """Run a cluster with so many nodes, all ready."""
    with hosts.network(nodes + 1) as net, workspace.opened("kubernetes") as work:
        groups = work.path.name
        with control_groups.opened(groups):
            cluster = Cluster(work, net, groups)
            cluster.flags["kube-apiserver"] = list(api_server)
            try:
                cluster.start()
                yield cluster
            finally:
                for host in net.hosts:  # before the control groups are removed
                    host.kill()


@functools.cache
def available() -> str | None:
    """Why there can be no cluster on this machine, or `None` where there can."""
    return programs.available() or node.missing_tools() or hosts.available()


class Cluster(ControlPlane):
    """One cluster; see `opened()`. All that a control plane can do, it can do too."""

    def __init__(self, work: workspace.Workspace, net: hosts.Network, groups: str) -> None:
        super().__init__(work, net.hosts[0])
        self.network = net
        self._images: dict[str, Mapping[str, Any]] = {}
        self.nodes = {
            host.name: node.Node(self, host, self.add_token(f"system:node:{host.name}", "system:nodes"), groups)
            for host in net.hosts[1:]
        }

    def start(self) -> None:
        """Start everything, and wait until all nodes are ready."""
        super().start()
        self._start_registry_and_names()
        everyone = list(self.nodes.values())
        for each in everyone:
            each.prepare()
            each.begin_start(everyone)
        for each in everyone:
            each.finish_start()
        for name in self.nodes:
            self.until_ready(name)

    def lose_node(self, name: str) -> None:
        """Pull a node's plug: its containers end, and nobody is told. It is noticed after `control_plane.NODE_GRACE_S`."""
        self.nodes[name].host.power_off()

    def return_node(self, name: str) -> None:
        """Start a lost node again, and wait until it is ready."""
        lost = self.nodes[name]
        lost.host.start()
        lost.begin_start(list(self.nodes.values()))
        lost.finish_start()
        self.until_ready(name)

    def cut_node(self, name: str) -> None:
        """Cut a node's network: its containers go on, and nobody hears of them."""
        self.network.isolate(self.nodes[name].host)

    def heal_node(self, name: str) -> None:
        """Undo `cut_node`."""
        self.network.rejoin(self.nodes[name].host)

    def image(self, name: str, *, entrypoint: Sequence[str] = (), command: Sequence[str] = (), user: str = "") -> str:
        """Give the image of this name an entry point, a command and a user, for pods that have not pulled it yet."""
        words = {"Entrypoint": list(entrypoint), "Cmd": list(command), "User": user}
        self._images[registry.normal_name(name)] = {key: value for key, value in words.items() if value}
        (self.directory / registry.CONFIGURATIONS).write_text(json.dumps(self._images))
        return name

    def deploy_operator(self, *flags: str, namespace: str = "paddle-system") -> None:
        """Run umiak's operator in a pod, from the manifests that `umiak deploy` prints, and wait until it is ready."""
        words = [sys.executable, "-m", "umiak", "deploy", "--namespace", namespace, *flags]
        manifests = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        self.kubectl("apply", "--server-side", "-f", "-", input=manifests)
        waiting = ["rollout", "status", "deployment/paddle-controller-manager", "--timeout=180s"]
        there = f"--namespace={namespace}"
        done = self.kubectl(there, *waiting, check=False, timeout=200)
        if done.returncode != 0:
            told = self.kubectl(there, "describe", "pods").stdout
            logs = self.kubectl(there, "logs", "deployment/paddle-controller-manager", check=False)
            raise KubernetesError(f"the operator is not ready: {done.stderr}\n{told}\n{logs.stdout}{logs.stderr}")

    def ready(self, name: str) -> bool:
        """Whether the API server thinks that a node is ready."""
        with contextlib.suppress(KubernetesError):
            conditions = self.request("GET", f"/api/v1/nodes/{name}")["status"].get("conditions", [])
            return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return False

    def until_ready(self, name: str) -> None:
        """Wait until a node is ready."""

        def look() -> bool:
            self.nodes[name].check()
            return self.ready(name)

        self.until(look, f"{name} is ready")

    def memory(self) -> dict[str, int]:
        """How many MB each program uses."""
        return {**super().memory(), **{k: v for each in self.nodes.values() for k, v in each.memory().items()}}

    def _start_registry_and_names(self) -> None:
        assert self.host is not None
        words = [str(self.directory), self.address, str(node.REGISTRY_PORT), programs.program("pause")]
        self.run_module("registry", *words, host=self.host)
        routes = [f"route replace {each.pod_range} via {each.host.address}" for each in self.nodes.values()]
        self.host.ip(routes)
        corefile = self.directory / "Corefile"
        corefile.write_text(
            f".:53 {{\n bind {self.address}\n errors\n"
            f" kubernetes cluster.local in-addr.arpa ip6.arpa {{\n"
            f"  kubeconfig {self.inner_kubeconfig} testbed\n  pods verified\n }}\n}}\n"
        )
        self._spawn("coredns", f"-conf={corefile}")
