"""What trainers tell one another: metrics of any number of numbers, in messages that have a limit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from umiak.ps.sessions import Session
from umiak.train.metrics import posted
from umiak.train.run.peers import Peers
from umiak.train.run.stopwatch import Stopwatch

MOST_BYTES = 1 << 20
"""Servers refuse a longer message."""


class TwoAlike:
    """A client whose other trainer says the same."""

    def __init__(self) -> None:
        self.calls = 0

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        assert name == "add"
        assert len(payload) <= MOST_BYTES
        self.calls += 1
        return [payload, payload]


@pytest.mark.parametrize(("numbers", "calls"), [(0, 1), (1, 1), (100_000, 1), (100_001, 2), (2_000_003, 21)])
def test_vectors_of_any_length_are_added(numbers: int, calls: int) -> None:
    client = TwoAlike()
    job: Any = SimpleNamespace(rank=0, world=2, client=client)
    vector = np.arange(numbers, dtype=np.float64)
    total = Peers(cast("Session", job), Stopwatch()).add(vector)
    assert np.array_equal(total, 2 * vector)
    assert client.calls == calls


@pytest.mark.parametrize("numbers", [0, 7, 65_536, 65_537, 4_000_000])
def test_a_state_of_any_length_is_posted(numbers: int) -> None:
    state = np.zeros(numbers)
    state[::1000] = 0.1
    message = posted.posted({"batch": 3, "stage": ["a\n", 1]}, state)
    assert len(message) <= MOST_BYTES
    head, found = posted.read(message)
    assert head == {"batch": 3, "stage": ["a\n", 1]}
    assert found is not None
    assert np.array_equal(found, state)


def test_what_is_too_long_all_the_same_is_left_out() -> None:
    state = np.random.default_rng(1).random(200_000)
    message = posted.posted({"batch": 3}, state)
    assert posted.read(message) == ({"batch": 3}, None)
    assert len(message) < 1000
