"""The fixtures of tests that run launchers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import etcd
from testbed.pytest_support import require
from tests.support import launching, train_runs


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[launching.Stage]:
    """Start launchers, follow their workers; everything is ended and checked with the test."""
    with launching.opened(tmp_path) as opened:
        yield opened


@pytest.fixture
def etcd_here() -> None:
    """For tests that start etcd themselves, on a host of the testbed."""
    require(etcd.available())


@pytest.fixture
def work() -> Iterator[train_runs.Work]:
    """A directory for runs of `umiak train`."""
    with train_runs.opened() as opened:
        yield opened


@pytest.fixture(scope="session")
def whole() -> Iterator[train_runs.Whole]:
    """Runs that nobody disturbed, made when they are asked for first."""
    with train_runs.opened() as opened:
        yield train_runs.Whole(opened)
