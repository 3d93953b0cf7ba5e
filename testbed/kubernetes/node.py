"""Adapter: one node of a cluster: containerd, kubelet and kube-proxy on a testbed host, which can be lost and come back.

A container's files are its image's, and read-only mounts of the real machine's programs, interpreter and checkout (`registry.mounts`). What
the daemons write lies below the cluster's directory, or in memory of the host: /run, /var/log and /var/lib/cni are the host's own.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from testbed import hosts, processes
from testbed.kubernetes import control_groups, programs, registry
from testbed.kubernetes.control_plane import ControlPlane, KubernetesError, resident_mb

POD_RANGE = "10.244.0.0/16"
REGISTRY_PORT = 5000
CNI_PLUGINS = "/usr/lib/cni"
_SOCKET = "/run/containerd/containerd.sock"
_OWN_FOLDERS = ("/run", "/var/log", "/var/lib/cni", "/var/lib/kubelet", "/opt")
_KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""Settings that a kubelet wants and would make for the whole real machine; it reads that they are made."""


_KUBELETS = 4
"""How often it is started at most: it ends where containerd answers late, and its supervisor is expected to try again."""


class Node:
    """One node, called as its host; see `cluster.Cluster`."""

    def __init__(self, plane: ControlPlane, host: hosts.Host, token: str, groups: str) -> None:
        self.name = host.name
        self.host = host
        self.pod_range = f"10.244.{host.number}.0/24"
        self.directory = plane.directory / host.name
        self._plane = plane
        self._groups = groups
        self._token = token
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._kubelets_left = _KUBELETS

    def prepare(self) -> None:
        """Write the configurations, once."""
        self.directory.mkdir()
        self._plane.write_kubeconfig(self._kubeconfig, self._token, server=self._plane.inner_server)
        files = {
            "containerd.toml": self._containerd(),
            "kubelet.json": json.dumps(self._kubelet(), indent=1),
            "spec.json": json.dumps(self._container_spec()),
            "cni/pods.conflist": json.dumps(self._network(), indent=1),
            "registries/_default/hosts.toml": self._registries(),
            "resolv.conf": "nameserver 127.0.0.1\n",  # of pods that ask for no cluster DNS: there is no other
        }
        for name, text in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def begin_start(self, nodes: list[Node]) -> None:
        """Set up the host, also after it was started again, and start containerd."""
        self._processes.clear()
        self._kubelets_left = _KUBELETS
        self._set_up_host(nodes)
        group = f"{self._groups}/{self.name}"
        control_groups.remove(group)  # as a reboot does; a kubelet looks for seconds at each one that is left
        control_groups.make(group)
        self._spawn("containerd", "containerd", "--config", str(self.directory / "containerd.toml"))

    def finish_start(self) -> None:
        """Wait for containerd, without which a kubelet ends, and start the other daemons."""
        socket = Path(f"/proc/{self.host.pid}/root{_SOCKET}")

        def look() -> bool:
            self.check()
            return socket.exists()

        self._plane.until(look, f"containerd of {self.name} takes requests")
        self._start_kubelet()
        self._spawn(
            "kube-proxy",
            programs.program("kube-proxy"),
            f"--kubeconfig={self._plane.inner_kubeconfig}",
            f"--hostname-override={self.name}",
            "--proxy-mode=nftables",
            f"--cluster-cidr={POD_RANGE}",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        )

    def _start_kubelet(self) -> None:
        self._kubelets_left -= 1
        self._spawn(
            "kubelet",
            programs.program("kubelet"),
            f"--config={self.directory / 'kubelet.json'}",
            f"--kubeconfig={self._kubeconfig}",
            f"--root-dir={self.directory / 'kubelet'}",
            f"--cert-dir={self.directory / 'certificates'}",
            f"--node-ip={self.host.address}",
            f"--hostname-override={self.name}",
        )

    def check(self) -> None:
        """Start a kubelet that has ended again, as a machine's init does; `KubernetesError` if it can't stay, or if another daemon has ended."""
        for name, process in list(self._processes.items()):
            if process.poll() is None:
                continue
            if name == "kubelet" and self._kubelets_left:
                self._start_kubelet()
                continue
            log = (self._plane.directory / f"{name}-{self.name}.log").read_text(errors="replace")
            last = "\n".join(line[:300] for line in log.splitlines()[-12:])
            raise KubernetesError(f"{name} of {self.name} ended with {process.returncode}:\n{last}")

    def memory(self) -> dict[str, int]:
        """How many MB each daemon uses."""
        return {f"{name} of {self.name}": resident_mb(process.pid) for name, process in self._processes.items()}

    @property
    def _kubeconfig(self) -> Path:
        return self.directory / "node.kubeconfig"

    def _spawn(self, name: str, *command: str) -> None:
        # Not the environment of the tests: a pod's network plug-ins inherit it.
        environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.directory)}
        log = f"{name}-{self.name}.log"
        self._processes[name] = self._plane.work.popen(command, log=log, host=self.host, env=environ)

    def _set_up_host(self, nodes: list[Node]) -> None:
        lines = ["set -e", "mkdir -p " + " ".join(_OWN_FOLDERS)]
        lines += [f"mount -t tmpfs tmpfs {folder}" for folder in _OWN_FOLDERS]
        for number, (setting, value) in enumerate(_KERNEL.items()):
            file = f"/run/setting-{number}"
            lines += [
                f"[ ! -e /proc/sys/{setting} ] || {{ echo {value} > {file}; mount --bind {file} /proc/sys/{setting}; }}"
            ]
        lines += ["echo 1 > /proc/sys/net/ipv4/ip_forward", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"]
        done = self.host.run(["sh", "-c", "\n".join(lines)])
        if done.returncode != 0:
            raise KubernetesError(f"{self.name} cannot be set up: {done.stderr}")
        route = [f"route replace {node.pod_range} via {node.host.address}" for node in nodes if node is not self]
        self.host.ip(route)

    def _containerd(self) -> str:
        own, cri = self.directory, 'plugins."io.containerd.grpc.v1.cri"'
        tables: dict[str, dict[str, object]] = {
            "": {
                "version": 2,
                "root": str(own / "containerd"),
                "state": "/run/containerd",
                "disabled_plugins": ["io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing"],
            },
            "grpc": {"address": _SOCKET},
            cri: {
                "sandbox_image": registry.PAUSE,
                "restrict_oom_score_adj": True,  # lowering it is not allowed in every container
                "tolerate_missing_hugetlb_controller": True,
            },
            f"{cri}.cni": {"bin_dir": CNI_PLUGINS, "conf_dir": str(own / "cni")},
            f"{cri}.registry": {"config_path": str(own / "registries")},
            f"{cri}.containerd.runtimes.runc": {
                "runtime_type": "io.containerd.runc.v2",
                "base_runtime_spec": str(own / "spec.json"),
            },
        }
        lines = []
        for table, settings in tables.items():
            lines += [f"[{table}]"] if table else []
            lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        return "\n".join(lines) + "\n"

    def _registries(self) -> str:
        server = json.dumps(f"http://{self._plane.address}:{REGISTRY_PORT}")
        return f'server = {server}\n[host.{server}]\ncapabilities = ["pull", "resolve"]\n'

    def _container_spec(self) -> object:
        told = subprocess.run(["ctr", "oci", "spec"], capture_output=True, text=True, check=True).stdout
        spec = json.loads(told)
        spec["mounts"] += registry.mounts()
        return spec

    def _network(self) -> object:
        addresses = {
            "type": "host-local",
            "dataDir": "/run/cni-addresses",
            "ranges": [[{"subnet": self.pod_range}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        # Every pod has a link of its own to the node, so that all its packets pass kube-proxy's rules.
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}]}

    def _kubelet(self) -> object:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.host.address,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "clusterDNS": [self._plane.address],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.directory / "resolv.conf"),
            "podLogsDir": str(self.directory / "pods"),
            "volumePluginDir": str(self.directory / "volume-plugins"),
            "nodeStatusUpdateFrequency": "5s",
            "nodeLeaseDurationSeconds": 12,
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": True,
            "cgroupRoot": f"/{self._groups}/{self.name}",
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "localStorageCapacityIsolation": False,
            "serializeImagePulls": False,
            # The real machine's disk may be as full as it is.
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "registryPullQPS": 0,
            "eventRecordQPS": 0,
            "shutdownGracePeriod": "0s",
        }


def missing_tools() -> str | None:
    """Why this machine can't have nodes, or `None` where it can."""
    for tool, package in programs.TOOLS.items():
        if processes.program(tool) is None:
            return f"the testbed's Kubernetes nodes need the command `{tool}`: install {package}"
    return None
