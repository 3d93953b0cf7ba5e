"""The native tables as wholes: frozen, tracked, dense, gathered, and what they refuse."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import umiak_native

from tests.support.table_helpers import CONSTANT, SGD, keys, rows, saved, scanned, table


class TestFreeze:
    def test_a_scan_shows_the_frozen_moment_while_threads_push(self):
        here = table(dim=8, shards=64)
        wanted = np.arange(20_000, dtype=np.uint64)
        here.push(wanted, np.tile(np.arange(8, dtype=np.float32), (len(wanted), 1)))
        before = here.pull(wanted)
        here.freeze()
        stop = threading.Event()

        def train(seed: int) -> None:
            rng = np.random.default_rng(seed)
            while not stop.is_set():
                some = np.unique(rng.integers(0, 30_000, 3000).astype(np.uint64))
                here.push(some, np.ones((len(some), 8), np.float32))

        threads = [threading.Thread(target=train, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        try:
            found = scanned(here)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        here.thaw()
        assert len(found) == len(wanted)
        assert np.array([found[key][1] for key in wanted.tolist()]).tobytes() == before.tobytes()
        assert len(here) > len(wanted)

    def test_rows_that_came_later_are_not_in_it(self):
        here = table()
        here.pull(keys(1))
        here.freeze()
        here.pull(keys(2))
        assert list(scanned(here)) == [1]
        here.thaw()
        assert set(saved(here)) == {1, 2}

    def test_only_one_moment_at_a_time(self):
        here = table()
        with pytest.raises(OSError, match="not frozen"):
            here.scan(0)
        here.freeze()
        with pytest.raises(ValueError, match="already"):
            here.freeze()
        with pytest.raises(IndexError, match="shard 8 of 8"):
            here.scan(8)
        here.thaw()
        with pytest.raises(ValueError, match="all, delta, base or full"):
            here.freeze("some")


class TestChanges:
    def test_each_trainer_gets_what_changed_since_it_asked(self):
        here = table()
        here.pull(keys(1, 2, 3))
        here.track(2)
        here.push(keys(1), rows([1.0]))
        here.add(keys(2), rows([1.0]))
        assert here.take_changed(0)[0].tolist() == here.take_changed(1)[0].tolist()
        here.push(keys(3), rows([2.0]))
        changed, values = here.take_changed(1)
        assert (changed.tolist(), values.tolist()) == ([3], [[0.0]])
        assert here.take_changed(1)[0].tolist() == []
        assert here.take_changed(0)[0].tolist() == [3]

    def test_nothing_is_kept_for_unknown_trainers(self):
        here = table()
        here.push(keys(1), rows([1.0]))
        assert here.take_changed(0)[0].tolist() == []


class TestDense:
    SPEC = {"kind": "dense", "arrays": [{"name": "a", "shape": [3, 4]}, {"name": "b", "shape": [30]}], "optimizer": SGD}

    def test_values_must_be_set_first_and_can_be_set_once(self):
        here = umiak_native.DenseTable(json.dumps(self.SPEC))
        with pytest.raises(ValueError, match="no values yet"):
            here.pull()
        assert here.set(np.ones(42, np.float32), only_if_unset=True)
        assert not here.set(np.zeros(42, np.float32), only_if_unset=True)
        here.push(np.ones(42, np.float32))
        assert here.pull().tolist() == [0.5] * 42
        assert here.is_set

    def test_servers_share_it_without_gaps(self):
        parts = [umiak_native.DenseTable(json.dumps(self.SPEC), 256, server, 3) for server in range(3)]
        assert [part.range for part in parts] == [(0, 42), (42, 42), (42, 42)]
        parts = [umiak_native.DenseTable(json.dumps(self.SPEC), 2, server, 2) for server in range(2)]
        assert [part.range for part in parts] == [(0, 32), (32, 42)]

    def test_a_frozen_moment_stays(self):
        here, other = (umiak_native.DenseTable(json.dumps(self.SPEC), 4) for _ in range(2))
        here.set(np.arange(42, dtype=np.float32))
        here.freeze()
        with pytest.raises(ValueError, match="already"):
            here.freeze()
        here.push(np.ones(42, np.float32))
        for shard in range(4):
            chunk = here.chunk(shard)
            if chunk is not None:
                other.load_chunk(*chunk)
        other.restore(here.state())
        here.thaw()
        assert here.chunk(0) is None
        assert other.pull().tolist() == list(range(42))

    def test_what_does_not_fit_is_refused(self):
        here = umiak_native.DenseTable(json.dumps(self.SPEC), 4)
        for wrong in (lambda: here.set(np.ones(41, np.float32)), lambda: here.push(np.ones(43, np.float32))):
            with pytest.raises(ValueError, match="for 42 elements"):
                wrong()
        with pytest.raises(ValueError, match="does not belong here"):
            here.load_chunk(1, np.ones(16, np.float32), np.ones(0, np.float32))
        with pytest.raises(ValueError, match="not the state"):
            here.restore("{}")


class TestGathering:
    def test_unique_keeps_the_order_of_first_coming(self):
        different, inverse = umiak_native.unique(keys(7, 9, 7, 4, 9))
        assert (different.tolist(), inverse.tolist()) == ([7, 9, 4], [0, 1, 0, 2, 1])
        many = np.random.default_rng(1).integers(0, 5000, 100_000).astype(np.uint64)
        different, inverse = umiak_native.unique(many)
        assert (different[inverse] == many).all()
        assert len(different) == len(np.unique(many))

    def test_merge_adds_up_in_order(self):
        merged, sums = umiak_native.merge([(keys(1, 2, 1), rows([1e8], [2], [1])), (keys(1), rows([-1e8]))])
        assert (merged.tolist(), sums.tolist()) == ([1, 2], [[0.0], [2.0]])

    def test_merge_takes_the_last_of_columns_that_are_no_numbers(self):
        merged, sums = umiak_native.merge([(keys(1, 1), rows([3, 1], [4, 1]))], last_counts=1)
        assert (merged.tolist(), sums.tolist()) == ([1], [[4.0, 2.0]])

    @pytest.mark.parametrize("mode", ["sum", "mean"])
    def test_pooling_and_its_way_back(self, mode):
        values = rows([1, 2], [10, 20], [100, 200])
        inverse, offsets = np.array([0, 2, 1, 0]), np.array([0, 3, 3, 4])
        share = 1 if mode == "sum" else 3
        pooled = umiak_native.pool(values, inverse, offsets, mode)
        assert pooled.tolist() == [[111 / share, 222 / share], [0, 0], [1, 2]]
        gradients = umiak_native.pool_grad(rows([3, 6], [5, 5], [1, 1]), inverse, offsets, 3, mode)
        assert gradients.tolist() == [[3 / share + 1, 6 / share + 1], [3 / share, 6 / share], [3 / share, 6 / share]]

    @pytest.mark.parametrize(
        ("inverse", "offsets", "words"),
        [
            ([0, 3], [0, 2], "row 3 of 3"),
            ([0, -1], [0, 2], "row -1 of 3"),
            ([0], [0, 2], "end with 1"),
            ([0], [1, 1], "begin with 0"),
            ([0], [], "begin with 0"),
            ([0, 1], [0, 2, 1, 2], "ascend"),
        ],
    )
    def test_indexes_that_point_nowhere_are_refused(self, inverse, offsets, words):
        inverse, offsets = np.array(inverse, np.int64), np.array(offsets, np.int64)
        with pytest.raises(ValueError, match=words):
            umiak_native.pool(np.zeros((3, 2), np.float32), inverse, offsets)
        with pytest.raises(ValueError, match=words):
            umiak_native.pool_grad(np.zeros((max(len(offsets) - 1, 0), 2), np.float32), inverse, offsets, 3)


class TestRefusals:
    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"dim": 0}, "dim must be from 1"),
            ({"dim": 1 << 20}, "dim must be from 1"),
            ({"optimizer": {"rule": "sgd", "learning_rate": -1}}, "learning_rate must be finite"),
            ({"optimizer": {"rule": "ftrl", "learning_rate": 0, "l1": 0, "l2": 0}}, "above 0"),
            ({"optimizer": {"rule": "guess"}}, "unknown variant `guess`"),
            ({"optimizer": {**SGD, "momentum": 1}}, "unknown field `momentum`"),
            ({"optimizer": {"rule": "momentum", "learning_rate": 1, "momentum": 1.0}}, "momentum must be"),
            ({"init": {"kind": "uniform", "low": 1, "high": 0}}, "must not be above high"),
            ({"init": {"kind": "constant", "value": 1e39}}, "finite"),
            ({"clip": {"norm": 0}}, "norm must be finite and above 0"),
            ({"entry": {"by": "count", "count": 0}}, "count must be from 1"),
            ({"entry": {"by": "probability", "probability": 0}}, "probability must be above 0"),
            ({"entry": {"by": "score"}}, "needs an accessor"),
            ({"colour": 1}, "unknown field `colour`"),
        ],
    )
    def test_a_spec_that_makes_no_sense(self, wrong, words):
        spec = {"kind": "sparse", "dim": 1, "seed": 1, "init": CONSTANT, "optimizer": SGD, **wrong}
        with pytest.raises(ValueError, match=words):
            umiak_native.Table(json.dumps(spec))

    def test_all_problems_at_once(self):
        with pytest.raises(ValueError, match=r"dim must be .*; .*norm must be .*; .*count must be"):
            table(dim=0, clip={"norm": -1}, entry={"by": "count", "count": 0})

    def test_the_wrong_kind_of_table(self):
        with pytest.raises(ValueError, match="use DenseTable"):
            umiak_native.Table(json.dumps(TestDense.SPEC))
        with pytest.raises(ValueError, match="use Table"):
            umiak_native.DenseTable(table().spec)
        with pytest.raises(ValueError, match="power of two"):
            table(shards=3)

    def test_a_dense_spec_that_makes_no_sense(self):
        for arrays, words in [
            ([], "from 1 to"),
            ([{"name": "a", "shape": [1]}] * 2, "two arrays"),
            ([{"name": "a", "shape": [1 << 33, 1 << 33]}], "from 1 to"),
        ]:
            with pytest.raises(ValueError, match=words):
                umiak_native.DenseTable(json.dumps({**TestDense.SPEC, "arrays": arrays}))

    def test_arrays_of_the_wrong_kind_or_shape(self):
        here = table(dim=2)
        with pytest.raises(TypeError, match="uint64 or int64, not one of float64"):
            here.pull(np.zeros(2))
        with pytest.raises(TypeError, match="uint64 or int64, not list"):
            here.pull([1, 2])
        with pytest.raises(TypeError, match="of float32, not one of float64"):
            here.push(keys(1), np.zeros((1, 2)))
        with pytest.raises(ValueError, match=r"shape \(1, 2\), not \(1, 3\)"):
            here.push(keys(1), np.zeros((1, 3), np.float32))
        with pytest.raises(ValueError, match=r"shape \(2, 2\), not \(1, 2\)"):
            here.push(keys(1, 2), np.zeros((1, 2), np.float32))
        with pytest.raises(ValueError, match="out must have the shape"):
            here.pull(keys(1), out=np.zeros((2, 2), np.float32))
        for out in (np.zeros((2, 4), np.float32)[:, ::2], np.zeros((2, 2), np.float32, order="F")):
            with pytest.raises(ValueError, match="contiguous"):
                here.pull(keys(1, 2), out=out)
        assert len(here) == 0

    def test_saved_rows_that_do_not_belong_here(self):
        here = table(dim=2)
        for flags in (1, 2, 4):
            with pytest.raises(ValueError, match="can't have"):
                here.load(keys(1), np.array([flags], np.uint32), np.zeros((1, 2), np.float32))
        with pytest.raises(ValueError, match="flags"):
            here.load(keys(1), np.zeros(2, np.uint32), np.zeros((1, 2), np.float32))
        with pytest.raises(ValueError, match="not the state"):
            here.restore('{"main": {"learning_rate": 1, "powers": [4611686018427387904, 0]}}')
        assert len(here) == 0
