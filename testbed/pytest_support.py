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
from collections.abc import Iterator
from typing import Protocol

import pytest

from testbed import etcd, hosts


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


def require(missing: str | None) -> None:
    """Skip the test, or in CI fail it, when something is missing; takes what `available()` returns."""
    if missing is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{missing} (a reason to skip elsewhere; CI must have it)", pytrace=False)
    pytest.skip(missing)
