"""The fixtures of tests that run launchers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import etcd
from testbed.pytest_support import require
from tests.integration import launching


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[launching.Stage]:
    """Start launchers, follow their workers; everything is ended and checked with the test."""
    with launching.opened(tmp_path) as opened:
        yield opened


@pytest.fixture
def etcd_here() -> None:
    """For tests that start etcd themselves, on a host of the testbed."""
    require(etcd.available())
