"""The fixtures that all tests share: real clusters on this machine. And what they all need of the process that runs them."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.support.effort  # noqa: F401 - loads the profile of hypothesis
from testbed.pytest_support import (
    Reporter,
    cluster_namespace,
    control_plane,
    etcd_server,
    fake_nodes,
    kafka_broker,
    kube_cluster,
    kube_namespace,
    kubernetes_keeper,
    mpi_cluster,
    network,
    slurm_cluster,
    ssh_cluster,
)

__all__ = [
    "cluster_namespace",
    "control_plane",
    "etcd_server",
    "fake_nodes",
    "kafka_broker",
    "kube_cluster",
    "kube_namespace",
    "mpi_cluster",
    "network",
    "slurm_cluster",
    "ssh_cluster",
]

# What is ignored here is ignored by every program that a test starts: with `nohup make test`, or with `make test &` in a script,
# no test could send it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# With PYTHONDONTWRITEBYTECODE each worker of xdist would rewrite the assertions of all tests again, ten seconds of its core.
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(kubernetes_keeper)
    if not hasattr(config, "workerinput"):  # a worker of xdist has no terminal
        config.pluginmanager.register(Reporter(config))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """What has been collected stays until the end: the garbage collector would look through it all again and again, a quarter of all tests' time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A test that leaves this process in another directory would make a later one fail, elsewhere and sometimes."""
    yield
    home = item.config.invocation_params.dir
    if Path.cwd() != home:
        os.chdir(home)
        pytest.fail("this test left the process in another directory: use monkeypatch.chdir")
