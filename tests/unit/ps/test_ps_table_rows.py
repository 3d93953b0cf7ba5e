"""Rows of the native tables: how they begin, when a key gets one, and what an accessor counts and removes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.effort import times
from tests.support.table_helpers import SGD, counting, keys, rows, saved, scanned, table


class TestRows:
    def test_a_row_begins_the_same_whatever_comes_first_and_however_many_shards_there_are(self):
        init = {"kind": "uniform", "low": -0.5, "high": 0.5}
        one, other = table(dim=4, init=init, shards=1), table(dim=4, init=init, shards=256)
        wanted = np.arange(1000, dtype=np.uint64)
        other.push(wanted[::-1].copy(), np.zeros((1000, 4), np.float32))
        assert one.pull(wanted).tobytes() == other.pull(wanted).tobytes()
        assert len(np.unique(one.pull(wanted))) > 3900

    def test_a_pull_without_create_makes_nothing(self):
        here = table(init={"kind": "normal", "mean": 0.0, "deviation": 1.0})
        read = here.pull(keys(5, 6), create=False)
        assert len(here) == 0
        assert here.pull(keys(5, 6)).tobytes() == read.tobytes()
        assert len(here) == 2

    def test_a_pull_writes_into_an_array_that_is_given(self):
        here, out = table(dim=2), np.zeros((2, 2), np.float32)
        assert here.pull(keys(5, 6), out=out) is out
        assert out.tolist() == [[1, 1], [1, 1]]

    def test_signed_keys_are_the_same_bits(self):
        here = table()
        here.push(np.array([-1], np.int64), rows([1.0]))
        assert here.pull(keys(2**64 - 1)) == 0.5
        assert len(here) == 1

    def test_arrays_may_lie_in_memory_as_they_like(self):
        here = table(dim=2)
        here.push(np.arange(10, dtype=np.uint64)[::5], np.asfortranarray(rows([1.0, 2.0], [3.0, 4.0])))
        assert here.pull(keys(0, 5)).tolist() == [[0.5, 0.0], [-0.5, -1.0]]

    def test_set_and_add_leave_the_state_alone(self):
        here = table({"rule": "momentum", "learning_rate": 0.5, "momentum": 0.5})
        here.push(keys(5), rows([1.0]))
        here.set(keys(5, 6), rows([3.0], [4.0]))
        here.add(keys(5, 7), rows([0.25], [0.5]))
        assert here.pull(keys(5, 6, 7)).tolist() == [[3.25], [4.0], [1.5]]
        assert saved(here)[5][1].tolist() == [3.25, 1.0]

    def test_summed_parts_are_one_step_in_the_order_of_the_parts(self):
        here = table({"rule": "adagrad", "learning_rate": 1.0, "epsilon": 1.0}, dim=1)
        parts = [(keys(5, 6), rows([1e8], [1.0])), (keys(5, 5), rows([1.0], [-1e8]))]
        here.push_summed(parts)
        # in float32, (1e8 + 1) - 1e8 is 0
        assert here.pull(keys(5, 6)).tolist() == [[1.0], [0.5]]

    def test_a_million_keys_in_any_order(self):
        here = table(dim=2, init={"kind": "uniform", "low": 0.0, "high": 1.0}, shards=256)
        wanted = np.random.default_rng(1).permutation(np.arange(1_000_000, dtype=np.uint64) * 7919)
        first = here.pull(wanted)
        here.push(wanted, np.ones((len(wanted), 2), np.float32))
        order = np.argsort(wanted)
        assert here.pull(wanted[order]).tobytes() == (first[order] - np.float32(0.5)).tobytes()
        assert len(here) == 1_000_000

    def test_millions_of_rows_in_little_more_than_their_size(self):
        here = table({"rule": "adagrad", "learning_rate": 0.1, "epsilon": 1e-8}, dim=4, shards=256)
        out = np.zeros((500_000, 4), np.float32)
        count = 500_000 * times(20)
        for start in range(0, count, 500_000):
            here.pull(np.arange(start, start + 500_000, dtype=np.uint64), out=out)
            used, ideal = sum(here.memory().values()), len(here) * (8 + 2 * 4 * 4)
            # The index takes 20 to 43 bytes per row, and each shard has room for some rows more.
            assert used <= ideal + 43 * len(here) + 256 * 256 * 40 + 2_000_000
        assert len(here) == count
        memory = here.memory()
        per_row_of_16 = (sum(memory.values()) - memory["values"] - memory["state"]) / len(here) + 2 * 64
        assert per_row_of_16 <= 1.35 * 136


class TestEntry:
    def test_a_counted_key_gets_its_row_with_its_nth_push(self):
        here = table(entry={"by": "count", "count": 3})
        for _ in range(2):
            here.push(keys(5), rows([1.0]))
            assert here.pull(keys(5)) == 0.0
        assert len(here) == 0
        here.push(keys(5), rows([1.0]))
        assert here.pull(keys(5)) == 0.5
        assert len(here) == 1

    def test_counts_are_saved_and_loaded(self):
        here, other = table(entry={"by": "count", "count": 3}), table(entry={"by": "count", "count": 3})
        here.push(keys(5), rows([1.0]))
        here.push(keys(5), rows([1.0]))
        (key, (flags, row)), *none = saved(here).items()
        assert (key, flags, none) == (5, 1 | 2 << 2, [])
        other.load(keys(key), np.array([flags], np.uint32), row[None])
        other.push(keys(5), rows([1.0]))
        assert other.pull(keys(5)) == 0.5

    def test_a_share_of_all_keys_is_chosen_by_the_key(self):
        here = table(entry={"by": "probability", "probability": 0.25})
        wanted = np.arange(10_000, dtype=np.uint64)
        admitted = here.pull(wanted)[:, 0] == 1.0
        assert 0.23 < admitted.mean() < 0.27
        here.push(wanted, np.ones((len(wanted), 1), np.float32))
        assert (here.pull(wanted)[:, 0] == np.where(admitted, 0.5, 0.0)).all()
        assert len(here) == admitted.sum()

    def test_by_score_a_push_makes_a_row_with_the_probability_of_its_score(self):
        here = counting(entry={"by": "score"})
        wanted = np.arange(10_000, dtype=np.uint64)
        here.pull(wanted)
        assert len(here) == 0
        row = np.tile(rows([1, 3.0, 0.0, 0.0, 0.0]), (len(wanted), 1))
        here.push(wanted, row, draw=1)
        first = len(here)
        assert 0.28 < first / len(wanted) < 0.32
        again = counting(entry={"by": "score"})
        again.push(wanted, row, draw=1)
        assert len(again) == first
        here.push(wanted, row, draw=2)
        assert 0.49 < len(here) / len(wanted) < 0.53

    def test_by_score_certainty_at_one_and_never_at_zero(self):
        here = counting(entry={"by": "score"})
        here.push(keys(1, 2), rows([1, 1.0, 1.0, 0, 0], [1, 0.0, 0.0, 0, 0]))
        assert list(saved(here)) == [1]


class TestAccessor:
    def test_a_push_is_counted(self):
        here = counting()
        here.push(keys(5), rows([12, 3.0, 1.0, 0.0, 0.0]))
        here.push(keys(5), rows([13, 2.0, 0.0, 0.0, 0.0]))
        slot, unseen, delta, show, click, embed = saved(here)[5][1][:6].tolist()
        assert (slot, unseen, show, click, embed) == (13, 0, 5, 1, 0)
        assert delta == pytest.approx(0.1 * 2 + 1.0 + 0.1 * 2)
        assert here.pull(keys(5)).tolist() == [[5, 1, 0, 0]]

    def test_embed_starts_at_zero_or_at_its_own_first_number(self):
        assert counting().pull(keys(5)).tolist() == [[0, 0, 0, 0]]
        assert counting(zero_init=False).pull(keys(5)).tolist() == [[0, 0, 1, 0]]
        assert counting(zero_init=False).pull(keys(5), create=False).tolist() == [[0, 0, 1, 0]]

    def test_gradients_are_divided_by_the_show_in_the_adagrad_rules_alone(self):
        adagrad = {"rule": "adagrad_scaled", "learning_rate": 0.5, "initial_g2sum": 3.0}
        push = keys(5), rows([1, 4.0, 0.0, 4.0, 0.0])
        for rule, scale, expected in [(SGD, True, -2.0), (adagrad, True, -0.5), (adagrad, False, -2.0)]:
            here = counting(embed_optimizer=rule, show_scale=scale)
            here.push(*push)
            assert here.pull(keys(5))[0, 2] == expected

    def test_a_push_without_a_show_is_taken_as_it_is(self):
        adagrad = {"rule": "adagrad_scaled", "learning_rate": 0.5, "initial_g2sum": 3.0}
        here = counting(embed_optimizer=adagrad)
        here.push(keys(5), rows([1, 0.0, 0.0, 4.0, 0.0]))
        assert here.pull(keys(5))[0, 2] == -2.0

    def test_the_wide_part_comes_with_the_score_and_learns_from_the_next_push_on(self):
        here = counting(dim=2)
        before = sum(here.memory().values())
        here.push(keys(5), rows([1, 9.0, 9.0, 0, 1.0, 1.0]))
        assert here.pull(keys(5)).tolist() == [[9, 9, 0, 0, 0]]
        here.push(keys(5), rows([1, 1.0, 1.0, 0, 1.0, 1.0]))
        assert here.pull(keys(5)).tolist() == [[10, 10, 0, 1, 1]]
        here.push(keys(5), rows([1, 1.0, 0.0, 0, 1.0, 2.0]))
        assert here.pull(keys(5)).tolist() == [[11, 10, 0, 0.5, 0]]
        assert before == 0

    def test_rows_without_a_wide_part_cost_no_memory_for_it(self):
        here = counting(dim=64)
        here.pull(np.arange(10_000, dtype=np.uint64))
        memory = here.memory()
        assert memory["values"] == 10_000 * 6 * 4
        assert sum(memory.values()) < 10_000 * 150

    def test_shrinking_halves_and_then_forgets(self):
        here = counting()
        # scores 0.8 and 0.79 after one day
        here.push(keys(1, 2), rows([1, 1.6, 1.6, 0, 0], [1, 1.58, 1.58, 0, 0]))
        assert here.shrink() == 1
        assert here.pull(keys(1, 2), create=False)[:, 0].tolist() == [np.float32(0.8), 0]
        assert len(here) == 1

    def test_rows_that_nobody_has_seen_for_days_go(self):
        here = counting(show_click_decay_rate=1.0)
        here.push(keys(1, 2), rows([1, 9.0, 9.0, 0, 0], [1, 9.0, 9.0, 0, 0]))
        for _ in range(3):
            saved(here, "full")
        here.push(keys(2), rows([1, 1.0, 0.0, 0, 0]))
        assert here.shrink() == 1
        assert list(saved(here)) == [2]

    def test_slots_of_forgotten_rows_are_used_again_and_start_from_scratch(self):
        here = counting(dim=3, optimizer={"rule": "momentum", "learning_rate": 0.5, "momentum": 0.5})
        wanted = np.arange(1000, dtype=np.uint64)
        for _ in range(2):
            here.push(wanted, np.tile(rows([1, 16.0, 16.0, 1, 1, 1, 1]), (1000, 1)))
        held = sum(here.memory().values())
        for _ in range(6):
            here.shrink()
        assert len(here) == 0
        here.push(wanted + 5000, np.tile(rows([2, 16.0, 16.0, 0, 1, 1, 1]), (1000, 1)))
        assert (here.pull(wanted + np.uint64(5000)) == rows([16, 16, 0, 1, 1, 1])).all()
        assert sum(here.memory().values()) <= held + here.memory()["index"]

    def test_the_thresholds_of_a_delta(self):
        here = counting()
        # score 1.5 with delta 1.5; score 1.4; and one that is too long unseen
        here.push(keys(1, 2, 3), rows([1, 1.5, 1.5, 0, 0], [1, 1.4, 1.4, 0, 0], [1, 2.0, 2.0, 0, 0]))
        for _ in range(17):
            saved(here, "full")
        here.push(keys(1, 2), rows([1, 0, 0, 0, 0], [1, 0, 0, 0, 0]))
        assert set(saved(here)) == {1, 2, 3}
        assert set(saved(here, "delta")) == {1}
        assert set(saved(here, "delta")) == set(), "delta_score was reset"
        assert set(saved(here, "base")) == {1}, "a base needs no delta_score"

    def test_a_save_that_failed_resets_nothing(self):
        here = counting()
        here.push(keys(1, 2), rows([1, 2.0, 2.0, 0, 0], [1, 2.0, 2.0, 0, 0]))
        here.freeze("delta")
        here.push(keys(1), rows([1, 1.0, 1.0, 0, 0]))
        assert set(scanned(here)) == {1, 2}
        here.thaw(saved=False)
        assert [row[2] for _, row in saved(here).values()] == [3.0, 2.0]
        assert set(saved(here, "delta")) == {1, 2}

    def test_a_delta_resets_what_was_there_and_keeps_what_came_meanwhile(self):
        here = counting()
        here.push(keys(1, 2), rows([1, 2.0, 2.0, 0, 0], [1, 2.0, 2.0, 0, 0]))
        here.freeze("delta")
        here.push(keys(1), rows([1, 1.0, 1.0, 0, 0]))
        saved_rows = scanned(here)
        here.push(keys(2), rows([1, 0.5, 0.5, 0, 0]))
        here.thaw()
        assert [saved_rows[key][1][2] for key in (1, 2)] == [2.0, 2.0]
        assert {key: row[2] for key, (_, row) in saved(here).items()} == {1: 1.0, 2: 0.5}

    def test_values_can_be_changed_by_pushes_only(self):
        for change in (counting().set, counting().add):
            with pytest.raises(ValueError, match="only changed by pushes"):
                change(keys(1), rows([1.0]))
