"""Adapter: the control plane of a real Kubernetes, on ports of loopback or on a testbed host.

    with control_plane.opened() as plane, fake_nodes.opened(plane, 10):
        plane.kubectl("create", "-f", "job.yaml")
        pods = plane.get("pods", namespace="default")

etcd, API server, controller manager and scheduler are the real programs (`programs`), with RBAC and service accounts. It is ready
when the account of the namespace `default` exists. `kubeconfig` is that of an administrator; `account_kubeconfig` makes one of any
service account, so that a program runs with the rights of its manifest and no others.

What is not as in an ordinary cluster: etcd does not wait for the disk, nobody elects leaders, and a node that is lost is noticed
after `NODE_GRACE_S` instead of 50 seconds, its pods deleted 5 seconds later instead of 5 minutes.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testbed import hosts, workspace
from testbed.kubernetes import programs
from testbed.ports import free_ports

T = TypeVar("T")

START_TIMEOUT_S = 300
NODE_GRACE_S = 16
INNER_PORT = 6443
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
_PORTS_TRIED = 5
_ISSUER = "https://kubernetes.default.svc.cluster.local"

available = programs.available


class KubernetesError(Exception):
    """Kubernetes did not start, or has not become what was waited for."""


@contextlib.contextmanager
def opened(
    host: hosts.Host | None = None,
    *,
    api_server: Sequence[str] = (),
    controller_manager: Sequence[str] = (),
    scheduler: Sequence[str] = (),
) -> Iterator[ControlPlane]:
    """Run a control plane; further flags go to its programs, such as `--feature-gates=...`."""
    with workspace.opened("kubernetes") as work:
        plane = ControlPlane(work, host)
        plane.flags["kube-apiserver"] = list(api_server)
        plane.flags["kube-controller-manager"] = list(controller_manager)
        plane.flags["kube-scheduler"] = list(scheduler)
        plane.start()
        yield plane


class ControlPlane:
    """One control plane; see `opened()`."""

    def __init__(self, work: workspace.Workspace, host: hosts.Host | None) -> None:
        self.work = work
        self.directory = work.path
        """With the logs of all programs."""
        self.host = host
        self.address = "127.0.0.1" if host is None else host.address
        """Where its programs listen."""
        self.port = 0
        """Of the API server, on loopback; on a host it listens at `INNER_PORT`, to which this one leads."""
        self.flags: dict[str, list[str]] = {}
        self.kubeconfig = work.path / "admin.kubeconfig"
        """Of an administrator."""
        self.inner_kubeconfig = work.path / "inner.kubeconfig" if host else self.kubeconfig
        """The same, for programs on testbed hosts."""
        self.ca = work.path / "ca.pem"
        self.admin_token = secrets.token_hex(16)
        self._etcd_ports = (2379, 2380)
        self._tokens = [(self.admin_token, "admin", "system:masters")]
        self._processes: dict[str, subprocess.Popen[str]] = {}

    @property
    def server(self) -> str:
        """The address of the API server, for programs of the real machine."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def inner_server(self) -> str:
        """The address of the API server, for programs on testbed hosts."""
        return f"https://{self.address}:{self._api_port}"

    @property
    def etcd_endpoint(self) -> str:
        """The address of etcd, where the control plane is."""
        return f"http://{self.address}:{self._etcd_ports[0]}"

    @property
    def _api_port(self) -> int:
        return INNER_PORT if self.host else self.port

    def add_token(self, user: str, group: str) -> str:
        """Before the start: a token with which somebody is this user, of this group."""
        token = secrets.token_hex(16)
        self._tokens.append((token, user, group))
        return token

    def start(self) -> None:
        """Start everything, and wait until pods can be made. Ports of loopback are tried until they are free."""
        self._write_keys()
        for attempt in range(1, _PORTS_TRIED + 1):
            if self.host is None:
                self.port, *ports = free_ports(3)
                self._etcd_ports = (ports[0], ports[1])
            else:
                self.port = self._forward(self.host)
                self.write_kubeconfig(self.inner_kubeconfig, self.admin_token, server=self.inner_server)
            self.write_kubeconfig(self.kubeconfig, self.admin_token)
            try:
                self._start()
            except _PortTaken:
                if attempt == _PORTS_TRIED:
                    raise
                self._stop_all()
            else:
                return

    def stop(self, name: str) -> None:
        """Kill a program, such as `kube-scheduler`, with SIGKILL."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def start_etcd(self) -> None:
        """Start etcd, with what it knew before."""
        client, peer = (f"http://{self.address}:{port}" for port in self._etcd_ports)
        self._spawn(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--logger=zap",
            "--log-level=warn",
            "--quota-backend-bytes=2147483648",
        )

    def start_api_server(self) -> None:
        """Start the API server, also after `stop`."""
        own = self.directory
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={self.etcd_endpoint}",
            f"--bind-address={self.address}",
            f"--advertise-address={'192.0.2.1' if self.host is None else self.address}",
            "--enable-aggregator-routing=true",  # webhooks are pods: no kube-proxy runs beside the API server
            f"--endpoint-reconciler-type={'none' if self.host is None else 'master-count'}",
            f"--secure-port={self._api_port}",
            f"--tls-cert-file={own / 'server.pem'}",
            f"--tls-private-key-file={own / 'server.key'}",
            f"--token-auth-file={own / 'tokens.csv'}",
            f"--service-account-key-file={own / 'accounts.pub'}",
            f"--service-account-signing-key-file={own / 'accounts.key'}",
            f"--service-account-issuer={_ISSUER}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--default-not-ready-toleration-seconds=5",
            "--default-unreachable-toleration-seconds=5",
            "--profiling=false",
        )

    def start_controller_manager(self) -> None:
        """Start the controllers, also after `stop`."""
        own = self.directory
        # Fake nodes send no heartbeats.
        absent = ["node-ipam-controller", *([] if self.host else ["node-lifecycle-controller"])]
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={self.inner_kubeconfig}",
            f"--service-account-private-key-file={own / 'accounts.key'}",
            f"--root-ca-file={self.ca}",
            "--controllers=" + ",".join(["*", *(f"-{name}" for name in absent)]),
            "--leader-elect=false",
            "--secure-port=0",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={NODE_GRACE_S}s",
            "--node-startup-grace-period=30s",
        )

    def start_scheduler(self) -> None:
        """Start the scheduler, also after `stop`."""
        self._spawn(
            "kube-scheduler", f"--kubeconfig={self.inner_kubeconfig}", "--leader-elect=false", "--secure-port=0"
        )

    def kubectl(
        self,
        *args: str | os.PathLike[str],
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        check: bool = True,
        timeout: float | None = 120,
        kubeconfig: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as an administrator, or with another kubeconfig; `KubernetesError` if it fails and `check` is on."""
        command = [programs.program("kubectl"), *(os.fspath(word) for word in args)]
        environ = {**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig), "HOME": str(self.directory)}
        done = subprocess.run(
            command, env=environ, input=input or "", capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            said = " ".join(command[1:])
            raise KubernetesError(f"kubectl {said} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change objects, with `kubectl apply --server-side`."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)

    def get(self, *args: str, namespace: str = "default") -> Any:
        """What `kubectl get ... -o json` gives: one object, or `{"items": [...]}`."""
        return json.loads(self.kubectl("get", "--namespace", namespace, *args, "-o", "json").stdout)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, port: int = 0) -> Any:
        """Ask the API server as an administrator; `KubernetesError` if it refuses. A PATCH is a merge patch."""
        status, answer = self.ask(method, path, body, port=port)
        if status >= 300:
            raise KubernetesError(f"{method} {path}: {status} {answer[:1000]}")
        return json.loads(answer)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, port: int = 0) -> tuple[int, str]:
        """The status and the body of an answer, from the API server or another server with its certificate; 503 if there is none."""
        context = ssl.create_default_context(cafile=str(self.ca))
        connection = http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=30, context=context)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.admin_token}", "Content-Type": kind}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return 503, "no answer"
        finally:
            connection.close()

    def namespace(self, name: str) -> str:
        """Make a namespace, and wait until pods can be made in it."""
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self._until_account(name)
        return name

    def account_token(self, namespace: str, name: str, *, seconds: int = 24 * 3600) -> str:
        """A token of a service account that exists."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = self.request("POST", path, {"spec": {"expirationSeconds": seconds}})["status"]["token"]
        assert isinstance(token, str)
        return token

    def account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with the rights of a service account that exists, and this namespace."""
        path = self.directory / f"{namespace}-{name}.kubeconfig"
        self.write_kubeconfig(path, self.account_token(namespace, name), namespace=namespace)
        return path

    def write_kubeconfig(self, path: Path, token: str, *, server: str = "", namespace: str = "default") -> Path:
        """Write a kubeconfig with this token, which only its owner may read."""
        authority = base64.b64encode(self.ca.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {"server": server or self.server, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [
                {"name": "testbed", "context": {"cluster": "testbed", "user": "user", "namespace": namespace}}
            ],
            "current-context": "testbed",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=1))
        return path

    def until(self, look: Callable[[], T], what: str, within_s: float = START_TIMEOUT_S) -> T:
        """Wait until `look` gives something true, and return it; `KubernetesError` with the logs' ends otherwise."""
        deadline = time.monotonic() + within_s
        while not (seen := look()):
            if time.monotonic() > deadline:
                raise KubernetesError(f"not within {within_s:g} s: {what}\n{self.log_ends()}")
            time.sleep(0.05)
        return seen

    def log_ends(self) -> str:
        """The last lines of every program's log."""
        return "\n".join(
            f"---- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted(self.directory.glob("*.log"))
        )

    def memory(self) -> dict[str, int]:
        """How many MB each program of the control plane uses."""
        return {name: resident_mb(process.pid) for name, process in self._processes.items()}

    def run_module(self, name: str, *args: str, host: hosts.Host | None = None) -> subprocess.Popen[str]:
        """Start a program of this package, on the real machine or on a host."""
        command = [sys.executable, "-s", "-m", f"testbed.kubernetes.{name}", *args]
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        return self.work.popen(command, log=f"{name}.log", host=host, env=environ)

    def _start(self) -> None:
        self.start_etcd()
        self.start_api_server()
        self._until(lambda: self.ask("GET", "/readyz")[0] == 200, "the API server is ready")
        self.start_controller_manager()
        self.start_scheduler()
        self._until_account("default")

    def _until_account(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        self._until(lambda: self.ask("GET", path)[0] == 200, f"namespace {namespace} has its service account")

    def _until(self, look: Callable[[], bool], what: str) -> None:
        """As `until`, while all programs must be alive."""

        def watched() -> bool:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    log = (self.directory / f"{name}.log").read_text(errors="replace")
                    failure = _PortTaken if "address already in use" in log else KubernetesError
                    raise failure(f"{name} ended with {process.returncode}:\n{log[-3000:]}")
            return look()

        self.until(watched, what)

    def _spawn(self, name: str, *args: str) -> None:
        command = [programs.program(name), *args, *self.flags.get(name, ())]
        self._processes[name] = self.work.popen(command, log=f"{name}.log", host=self.host)

    def _stop_all(self) -> None:
        for name in list(self._processes):
            self.stop(name)
            (self.directory / f"{name}.log").unlink()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def _forward(self, host: hosts.Host) -> int:
        file = self.directory / "forward.port"
        self.run_module("forward", str(file), str(host.pid), self.address, str(INNER_PORT))
        self.until(file.exists, "a port of loopback leads to the API server")
        return int(file.read_text())

    def _write_keys(self) -> None:
        own = self.directory
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(str(self.ca))
        names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        certificate = authority.issue_cert(
            "127.0.0.1", "localhost", self.address, SERVICE_ADDRESS, *names, key_type=trustme.KeyType.ECDSA
        )
        for secret in ("server.key", "accounts.key", "tokens.csv"):
            (own / secret).touch(mode=0o600)
        certificate.private_key_pem.write_to_path(str(own / "server.key"))
        certificate.cert_chain_pems[0].write_to_path(str(own / "server.pem"))
        key = ec.generate_private_key(ec.SECP256R1())
        pem = serialization.Encoding.PEM
        (own / "accounts.key").write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        )
        (own / "accounts.pub").write_bytes(
            key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        lines = [f'{token},{user},{user},"{group}"\n' for token, user, group in self._tokens]
        (own / "tokens.csv").write_text("".join(lines))


def resident_mb(pid: int) -> int:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return 0


class _PortTaken(KubernetesError):
    """Somebody else took a port between our look and the start."""
