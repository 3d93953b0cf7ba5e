"""Which program listens at a port of this machine."""

from __future__ import annotations

import os
import socket

import pytest

from umiak.adapters.listeners import listener_of


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_who_listens_is_named(family: int, host: str) -> None:
    with socket.socket(family) as sock:
        try:
            sock.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} on this machine")
        port = sock.getsockname()[1]
        assert listener_of(port) is None  # it is bound, and does not listen
        sock.listen()
        assert (listener_of(port) or "").endswith(f" (process {os.getpid()})")
    assert listener_of(port) is None
