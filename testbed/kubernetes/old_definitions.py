"""Adapter: custom resources as Kubernetes 1.20 serves them, beside a control plane of today.

    with old_definitions.opened(plane) as old:
        old.request("POST", "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions", definition)

The server is apiextensions-apiserver 0.20, the part of the API server 1.20 that keeps definitions and custom resources: it takes definitions of v1 and
v1beta1, knows no CEL rules and drops them, and prunes unknown fields. Who asks, and whether they may, it asks the other control plane, which also has
the namespaces. The whole API server of 1.20 is not built: its Go module lacks generated files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.kubernetes import programs
from testbed.kubernetes.control_plane import ControlPlane, KubernetesError
from testbed.ports import free_ports

_PORTS_TRIED = 5


@contextlib.contextmanager
def opened(plane: ControlPlane) -> Iterator[OldDefinitions]:
    """Run the server, on loopback, with an empty store of its own."""
    for attempt in range(1, _PORTS_TRIED + 1):
        server = OldDefinitions(plane, free_ports(1)[0])
        try:
            server.start()
        except KubernetesError:
            server.stop()
            if attempt == _PORTS_TRIED:
                raise
        else:
            break
    try:
        yield server
    finally:
        server.stop()


class OldDefinitions:
    """One server; see `opened()`."""

    def __init__(self, plane: ControlPlane, port: int) -> None:
        self.port = port
        self._plane = plane

    def start(self) -> None:
        """Start it, and wait until it takes requests."""
        own, config = self._plane.directory, self._plane.kubeconfig
        self._process = self._plane.work.popen(
            [
                programs.program("apiextensions-apiserver"),
                f"--etcd-servers={self._plane.etcd_endpoint}",
                f"--etcd-prefix=/of-{self.port}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--tls-cert-file={own / 'server.pem'}",
                f"--tls-private-key-file={own / 'server.key'}",
                f"--kubeconfig={config}",
                f"--authentication-kubeconfig={config}",
                f"--authorization-kubeconfig={config}",
                "--authentication-skip-lookup=true",
                "--feature-gates=APIPriorityAndFairness=false",
            ],
            log="apiextensions-apiserver.log",
        )

        def ready() -> bool:
            if self._process.poll() is not None:
                log = (own / "apiextensions-apiserver.log").read_text(errors="replace")
                raise KubernetesError(f"apiextensions-apiserver ended with {self._process.returncode}:\n{log[-3000:]}")
            return self._plane.ask("GET", "/readyz", port=self.port)[0] == 200

        self._plane.until(ready, "the server of old definitions is ready")

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask it as an administrator, as `ControlPlane.request` does."""
        return self._plane.request(method, path, body, port=self.port)
