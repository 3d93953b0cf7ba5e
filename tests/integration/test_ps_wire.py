"""bfloat16 between trainers and servers: what is rounded, how, and what stays as it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.ps_cluster import Cluster
from tests.support.ps_peers import client, servers
from umiak.core.value import replace
from umiak.ps import specs

SGD = specs.Sgd(learning_rate=1.0)
ABSENT, CLEARED = 0x7FC05AB1, 0x7FC05AB2


def rounded(numbers: np.ndarray) -> np.ndarray:
    """To 8 bits of precision, to even between two: by arithmetic of float64, not by bits."""
    mantissa, exponent = np.frexp(numbers.astype(np.float64))
    return np.asarray(np.ldexp(np.rint(mantissa * 256) / 256, exponent), np.float32)


def numbers(seed: int, *shape: int) -> np.ndarray:
    dice = np.random.default_rng(seed)
    return (dice.normal(size=shape) * 10.0 ** dice.integers(-6, 7, shape)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dim", [1, 5, 16])
def test_rows_to_be_trained_and_gradients_are_rounded_and_nothing_else(dim: int, count: int) -> None:
    keys = np.arange(2000)
    with servers(count) as started:
        mine = client(started)
        spec = specs.to_json(specs.SparseTable(dim=dim, seed=3, rule=SGD))
        table = mine.create_table("t", spec, "bfloat16")
        values = numbers(1, 2000, dim)
        mine.set(table, keys, values)
        assert np.array_equal(mine.pull(table, keys, create=False), values), "what is set and read is exact"
        assert np.array_equal(mine.pull(table, keys), rounded(values))
        assert not np.array_equal(values, rounded(values))
        gradients = numbers(2, 2000, dim)
        mine.push(table, keys, gradients)
        values -= rounded(gradients)
        assert np.array_equal(mine.pull(table, keys, create=False), values)
        # Gradients of one key are added up before they are sent.
        twice = np.full((2, dim), 1 + 2**-8, np.float32)
        mine.push(table, np.array([7, 7]), twice)
        values[7] -= rounded(twice.sum(axis=0))
        assert np.array_equal(mine.pull(table, keys, create=False), values)
        mine.add(table, keys, gradients) if dim == 1 else None
        values += gradients if dim == 1 else 0
        assert np.array_equal(mine.pull(table, keys, create=False), values)
        assert mine.pull(table, np.empty(0, np.int64)).shape == (0, dim)
        # Another client of the same table chooses for itself.
        other = client(started)
        assert np.array_equal(other.pull(other.create_table("t", spec), keys), values)


def test_gradients_of_dense_parameters_are_rounded_and_their_values_are_not() -> None:
    arrays = (specs.Array("a", (700,)), specs.Array("none", (300,)), specs.Array("b", (11, 3)))
    spec = specs.to_json(specs.DenseTable(arrays=arrays, rule=SGD))
    with servers(2, shards=8) as started:
        mine = client(started, shards=8)
        table = mine.create_table("d", spec, "bfloat16")
        values = numbers(3, 1033)
        mine.set_dense(table, values)
        assert np.array_equal(mine.pull_dense(table), values)
        for mark in (ABSENT, CLEARED):
            gradients = numbers(mark % 100, 1033)
            gradients[700:1000] = np.uint32(mark).view(np.float32)
            values[:700] -= rounded(gradients[:700])
            values[1000:] -= rounded(gradients[1000:])
            out = np.empty_like(values)
            assert np.array_equal(mine.learn_dense(table, gradients, out), values), "no gradient stays no gradient"
        assert np.array_equal(mine.pull_dense(table), values)


def test_a_gradient_that_is_no_number_arrives_as_one() -> None:
    with servers() as started:
        mine = client(started)
        table = mine.create_table(
            "t", specs.to_json(specs.SparseTable(dim=3, init=specs.Constant(0.0), rule=SGD)), "bfloat16"
        )
        keys = np.arange(1)
        mine.push(table, keys, np.array([[np.nan, np.inf, 3.4e38]], np.float32))
        found = mine.pull(table, keys, create=False)[0]
        assert np.isnan(found[0])
        assert found[1:].tolist() == [-np.inf, -np.inf], "what is above the largest bfloat16 is rounded up"


def test_another_word_is_refused() -> None:
    with servers() as started, pytest.raises(ValueError, match=r"float32 or bfloat16, not .int8"):
        client(started).create_table("t", specs.to_json(specs.SparseTable(dim=3)), "int8")


def test_slots_and_counts_of_rows_with_statistics_are_exact() -> None:
    accessor = specs.Accessor(embedx_threshold=0.0)
    spec = specs.SparseTable(dim=8, rule=specs.paddle_rule("std-adagrad"), accessor=accessor)
    keys, pushed = np.arange(500), np.zeros((500, 12), np.float32)
    pushed[:, 0], pushed[:, 1], pushed[:, 2] = 301, 1000 + np.arange(500), np.arange(500)
    with Cluster(trainers=1) as cluster, cluster.job("async") as job:
        job.options = replace(job.options, wire="bfloat16")
        table = job.table(spec, "t")
        table.push(keys, pushed)
        assert np.array_equal(table.pull(keys)[:, :2], pushed[:, 1:3])


def test_dense_differences_of_geo_are_exact() -> None:
    gradients = numbers(5, 700)
    with Cluster(trainers=1) as cluster, cluster.job("geo", k_steps=1) as job:
        job.options = replace(job.options, wire="bfloat16")
        table = job.table(specs.DenseTable(arrays=(specs.Array("a", (700,)),), rule=SGD), "d")
        table.push(gradients)
        job.end_step()
        job.flush()
        assert np.array_equal(job.client.pull_dense(table.number), -gradients)


def test_half_of_the_bytes_are_saved() -> None:
    """By what the kernel counts on loopback connections of the server, keys included."""
    keys, gradients = np.arange(5000), np.ones((5000, 16), np.float32)
    sent = {}
    for wire in ("float32", "bfloat16"):
        with servers() as started:
            mine = client(started)
            table = mine.create_table("t", specs.to_json(specs.SparseTable(dim=16)), wire)
            before = _loopback_bytes()
            for _ in range(20):
                mine.pull(table, keys)
                mine.push(table, keys, gradients)
            sent[wire] = _loopback_bytes() - before
            assert json.loads(mine.status())[0]["tables"]["t"]["rows"] == 5000
    assert sent["bfloat16"] < 0.62 * sent["float32"], "8 bytes of a key, and 64 or 32 of numbers"


def _loopback_bytes() -> int:
    with open("/proc/net/dev", encoding="ascii") as table:
        line = next(line for line in table if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])
