"""Fixtures that give a test a real cluster, and the rule for machines that cannot have one.

A test whose machine lacks something is skipped, with the reason. In CI, where the variable `CI` is set, it fails: there
everything must have been installed.

`tests/conftest.py` imports the fixtures, so a test names them and is marked:

    @pytest.mark.netns
    def test_two_nodes_meet(network):
        a, b = network(2).hosts
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from testbed import etcd, hosts, kafka, mpi, slurm, sshd
from testbed.kubernetes import cluster as kubernetes_cluster
from testbed.kubernetes import control_plane as kubernetes_control_plane
from testbed.kubernetes import fake_nodes as kubernetes_fake_nodes

DEADLINE = "UMIAK_TESTS_DEADLINE"
"""The variable with the Unix time at which a run of the tests gives up, so that it can still say what failed. Empty: never."""
FAILED_TESTS = "UMIAK_FAILED_TESTS"
"""The variable with the file into which the names of failed tests are written, one a line, for `testbed.run_tests`."""


class Reporter:
    """Names a failure when it happens, not an hour later, also in a file; ends a run of xdist at its deadline with the usual summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failures = os.environ.pop(FAILED_TESTS, None)  # not for the tests of tests
        self._deadline = float(os.environ.get(DEADLINE) or "inf")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        plugins = self._config.pluginmanager
        if report.failed:
            if self._failures is not None:
                with Path(self._failures).open("a") as names:
                    names.write(f"{report.nodeid}\n")
            terminal = plugins.get_plugin("terminalreporter")
            if terminal is not None:
                terminal.write_line(f"\nFAILED {report.nodeid} ({report.when}): {_reason(report)}", red=True)
        if time.time() > self._deadline:
            session = plugins.get_plugin("dsession")
            if session is not None:
                session.shouldstop = f"the time for all tests is over ({DEADLINE}); the last one was {report.nodeid}"


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr)).strip().partition("\n")[0][:300]


class NetworkFactory(Protocol):
    """Opens a network that lasts as long as the test."""

    def __call__(self, count: int = 2, *, own_name_is_loopback: bool = True) -> hosts.Network: ...


@pytest.fixture
def network() -> Iterator[NetworkFactory]:
    """Open networks of testbed hosts: `network(3)`."""
    require(hosts.available())
    with contextlib.ExitStack() as stack:

        def opened(count: int = 2, *, own_name_is_loopback: bool = True) -> hosts.Network:
            return stack.enter_context(hosts.network(count, own_name_is_loopback=own_name_is_loopback))

        yield opened


@pytest.fixture
def etcd_server() -> Iterator[etcd.Server]:
    """An empty etcd on loopback."""
    require(etcd.available())
    with etcd.server() as store:
        yield store


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[kafka.Broker]:
    """A Kafka broker on loopback, shared by all tests of a process: use topics of your own."""
    require(kafka.available())
    with kafka.broker() as broker:
        yield broker
        broker.close()


class SshFactory(Protocol):
    """Starts machines with sshd that last as long as the test: so many on loopback, or one on each of these hosts."""

    def __call__(self, where: int | Sequence[hosts.Host], *, disk_kib: int = sshd.DISK_KIB) -> sshd.Cluster: ...


@pytest.fixture
def ssh_cluster() -> Iterator[SshFactory]:
    """Start machines with sshd: `ssh_cluster(4)`, `ssh_cluster(network(3).hosts[1:])`."""
    require(sshd.available())
    with contextlib.ExitStack() as stack:

        def opened(where: int | Sequence[hosts.Host], *, disk_kib: int = sshd.DISK_KIB) -> sshd.Cluster:
            if isinstance(where, int):
                return stack.enter_context(sshd.on_loopback(where, disk_kib=disk_kib))
            return stack.enter_context(sshd.on_hosts(where, disk_kib=disk_kib))

        yield opened


class SlurmFactory(Protocol):
    """Starts a Slurm of so many nodes that lasts as long as the test."""

    def __call__(self, count: int = 2, *, settings: Mapping[str, str | int] | None = None) -> slurm.Cluster: ...


@pytest.fixture
def slurm_cluster() -> Iterator[SlurmFactory]:
    """Start Slurm on testbed hosts: `slurm_cluster(3)`."""
    require(slurm.available())
    with contextlib.ExitStack() as stack:

        def opened(count: int = 2, *, settings: Mapping[str, str | int] | None = None) -> slurm.Cluster:
            net = stack.enter_context(hosts.network(count))
            return stack.enter_context(slurm.cluster(net.hosts, settings=settings))

        yield opened


@pytest.fixture
def mpi_cluster() -> Iterator[mpi.Cluster]:
    """Two hosts on which mpirun starts processes."""
    require(mpi.available())
    with hosts.network(2) as net, mpi.cluster(net.hosts) as cluster:
        yield cluster


class KubernetesKeeper:
    """A plug-in of pytest: tests that share a cluster run one after another, and it is closed when the next test does not use it.

    A cluster that nobody uses takes a twentieth of a core from the tests that follow, and the memory of a small training.
    """

    ORDER = ("kube_cluster", "control_plane")
    """Fixtures. Tests of the first one run first, so that with xdist one worker has them all."""

    def __init__(self) -> None:
        self._open: dict[str, contextlib.ExitStack] = {}
        self._made: dict[tuple[str, str], Any] = {}
        self._used_next: Sequence[str] = ()

    def lend(self, name: str, opened: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[Any]:
        """For a fixture that lasts as long as a module: what an earlier module has left open, or a new one."""
        self._open.setdefault(name, contextlib.ExitStack())
        try:
            yield self.add(name, name, opened)
        finally:
            if name not in self._used_next:
                self._close(name)

    def add(self, name: str, part: str, opened: Callable[[], contextlib.AbstractContextManager[Any]]) -> Any:
        """A part of what is lent under this name, which is closed with it."""
        if (name, part) not in self._made:
            self._made[name, part] = self._open[name].enter_context(opened())
        return self._made[name, part]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=self._place)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> None:
        self._used_next = _fixtures(nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._used_next = ()

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        for name in list(self._open):
            self._close(name)

    def _close(self, name: str) -> None:
        for key in [key for key in self._made if key[0] == name]:
            del self._made[key]
        self._open.pop(name).close()

    def _place(self, item: pytest.Item) -> int:
        used = _fixtures(item)
        return next((place for place, name in enumerate(self.ORDER) if name in used), len(self.ORDER))


def _fixtures(item: pytest.Item | None) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


kubernetes_keeper = KubernetesKeeper()


@pytest.fixture(scope="module")
def control_plane() -> Iterator[kubernetes_control_plane.ControlPlane]:
    """A control plane of Kubernetes, shared by all tests of a process: use a namespace of your own."""
    require(kubernetes_control_plane.available())
    yield from kubernetes_keeper.lend("control_plane", kubernetes_control_plane.opened)


@pytest.fixture(scope="module")
def fake_nodes(control_plane: kubernetes_control_plane.ControlPlane) -> kubernetes_fake_nodes.FakeNodes:
    """Four fake nodes of that control plane, on which pods run and end as a test says."""
    nodes = kubernetes_keeper.add("control_plane", "nodes", lambda: kubernetes_fake_nodes.opened(control_plane, 4))
    assert isinstance(nodes, kubernetes_fake_nodes.FakeNodes)
    return nodes


@pytest.fixture
def kube_namespace(control_plane: kubernetes_control_plane.ControlPlane) -> Iterator[str]:
    """A namespace of that control plane for one test."""
    name = control_plane.namespace(f"test-{secrets.token_hex(4)}")
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def kube_cluster() -> Iterator[kubernetes_cluster.Cluster]:
    """A cluster of Kubernetes with two real nodes, shared by all tests of a process: use a namespace of your own, return lost nodes."""
    require(kubernetes_cluster.available())
    yield from kubernetes_keeper.lend("kube_cluster", lambda: kubernetes_cluster.opened(2))


@pytest.fixture
def cluster_namespace(kube_cluster: kubernetes_cluster.Cluster) -> Iterator[str]:
    """A namespace of that cluster for one test."""
    name = kube_cluster.namespace(f"test-{secrets.token_hex(4)}")
    yield name
    kube_cluster.request("DELETE", f"/api/v1/namespaces/{name}")


def require(missing: str | None) -> None:
    """Skip the test, or in CI fail it, when something is missing; takes what `available()` returns."""
    if missing is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{missing} (a reason to skip elsewhere; CI must have it)", pytrace=False)
    pytest.skip(missing)
