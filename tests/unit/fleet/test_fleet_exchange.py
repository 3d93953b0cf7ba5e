"""A shuffle among all trainers: real servers, real sockets; each sample stays exactly once."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest
from umiak_native import MultiSlotParser, MultiSlotSamples

from tests.support.ps_cluster import Cluster
from umiak.fleet.datasets import exchange


def samples(first: int, count: int) -> MultiSlotSamples:
    text = "".join(f"{1 + i % 3}{f' {first + i}' * (1 + i % 3)} 1 0.5\n" for i in range(count))
    return MultiSlotParser([(False, 0, False), (True, 1, False)]).parse(text.encode())[0]


def numbers(of: MultiSlotSamples) -> list[int]:
    values, offsets = of.arrays()[0]
    return [int(values[at]) for at in offsets[:-1]]


def test_samples_are_dealt_evenly() -> None:
    sizes = [5, 0, 18]
    counts = sum(np.bincount(exchange.dealt(sizes, rank), minlength=3) for rank in range(3))
    assert sorted(counts.tolist()) == [7, 8, 8]  # type: ignore[union-attr]


@pytest.mark.parametrize("sizes", [[1000, 10, 0], [7, 7, 7], [0, 0, 0]])
def test_each_sample_stays_exactly_once(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "CHUNK_SAMPLES", 64)
    with Cluster(servers=2, trainers=3) as cluster:
        found = cluster.train(
            "async", lambda job: numbers(exchange.shuffled(job, samples(10_000 * job.rank, sizes[job.rank])))
        )
    expected = [10_000 * rank + i for rank, size in enumerate(sizes) for i in range(size)]
    assert sorted(number for part in found for number in part) == expected
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_samples_that_go_through_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_PIECE_BYTES", 500)

    def shuffle(job: Any) -> list[int]:
        own = samples(1000 * job.rank, 100)
        goals = exchange.dealt([100, 100], job.rank)
        parts = [np.flatnonzero(goals == rank).astype(np.int64) for rank in range(2)]
        received = exchange._through_servers(job, own, parts)
        return [*numbers(own.take(parts[job.rank])), *(number for each in received for number in numbers(each))]

    with Cluster(servers=1, trainers=2) as cluster:
        found = cluster.train("async", shuffle)
    assert sorted(found[0] + found[1]) == [*range(100), *range(1000, 1100)]


def test_a_stranger_gets_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        receivers = exchange._Receivers(listener, b"key", 1, 30.0)
        where = {"host": "127.0.0.1", "port": listener.getsockname()[1]}
        picked = np.arange(10, dtype=np.int64)
        with pytest.raises(OSError, match=r"hung up|reset"):
            exchange._send(where, b"another key", 5, 0, samples(0, 10), picked, 30.0)
        with socket.create_connection(("127.0.0.1", where["port"])) as garbage:
            garbage.sendall(b"GET / HTTP/1.1\r\n" + b"x" * 200)
        exchange._send(where, b"key", 7, 0, samples(0, 10), picked, 30.0)
        assert [numbers(each) for each in receivers.join()] == [[*range(10)]]
