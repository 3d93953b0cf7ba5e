"""The native tables: each rule by numbers that were worked out by hand, and what happens at the edges."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import umiak_native

from umiak.ps import oracle

CONSTANT = {"kind": "constant", "value": 1.0}
SGD = {"rule": "sgd", "learning_rate": 0.5}
VARIANTS = ["baseline", "avx2", "avx512"]

CTR = {
    "embed_optimizer": SGD,
    "embed_init": CONSTANT,
    "nonclk_coeff": 0.1,
    "click_coeff": 1.0,
    "embedx_threshold": 10.0,
    "base_threshold": 1.5,
    "delta_threshold": 0.25,
    "delta_keep_days": 16.0,
    "show_click_decay_rate": 0.5,
    "delete_threshold": 0.8,
    "delete_after_unseen_days": 2.0,
    "show_scale": True,
    "zero_init": True,
}


def table(optimizer=SGD, *, dim=1, init=CONSTANT, shards=8, **more) -> umiak_native.Table:
    spec = {"kind": "sparse", "dim": dim, "seed": 1, "init": init, "optimizer": optimizer, **more}
    return umiak_native.Table(json.dumps(spec), shards)


def counting(*, dim=1, optimizer=SGD, entry=None, **accessor) -> umiak_native.Table:
    return table(optimizer, dim=dim, accessor={**CTR, **accessor}, **({"entry": entry} if entry else {}))


def keys(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def rows(*numbers: list[float]) -> np.ndarray:
    return np.array(numbers, np.float32)


def pushed(optimizer: dict, *gradients: float, **more) -> float:
    """The weight, first 1.0, after pushes of these gradients."""
    here = table(optimizer, **more)
    for gradient in gradients:
        here.push(keys(5), rows([gradient]))
    return here.pull(keys(5))[0, 0]


def saved(here: umiak_native.Table, mode: str = "all", thaw: bool = True) -> oracle.SavedRows:
    here.freeze(mode)
    found = scanned(here)
    here.thaw(thaw)
    return found


def scanned(here: umiak_native.Table) -> oracle.SavedRows:
    found = {}
    for shard in range(here.shards):
        for batch, flags, data in here.scan(shard):
            found |= {key: (flag, row) for key, flag, row in zip(batch.tolist(), flags.tolist(), data, strict=True)}
    return found


class TestRules:
    def test_sgd_goes_against_the_gradient(self):
        assert pushed(SGD, 1.0, 0.5) == 1.0 - 0.5 - 0.25

    def test_sum_adds_what_is_pushed(self):
        assert pushed({"rule": "sum"}, 0.5, 0.25) == 1.75

    def test_momentum_keeps_half_of_its_speed(self):
        # v = 1, then 0.5 + 1; w = 1 - 0.5 - 0.75
        assert pushed({"rule": "momentum", "learning_rate": 0.5, "momentum": 0.5}, 1.0, 1.0) == -0.25

    def test_nesterov_looks_ahead(self):
        # v = 1; w = 1 - 0.5 * (1 + 0.5 * 1)
        assert pushed({"rule": "momentum", "learning_rate": 0.5, "momentum": 0.5, "nesterov": True}, 1.0) == 0.25

    def test_adagrad_divides_by_the_root_of_the_sum_that_includes_this_gradient(self):
        rule = {"rule": "adagrad", "learning_rate": 1.0, "initial": 7.0, "epsilon": 1.0}
        # G = 7 + 9; w = 1 - 3 / (4 + 1)
        assert pushed(rule, 3.0) == np.float32(1.0) - np.float32(3.0) / np.float32(5.0)

    def test_paddles_adagrad_uses_the_sum_from_before(self):
        rule = {"rule": "adagrad_scaled", "learning_rate": 0.5, "initial_g2sum": 3.0}
        # first G = 0: w = 1 - 0.5 * 3; then G = 9: w -= 0.5 * 3 * sqrt(3 / 12)
        assert pushed(rule, 3.0, 3.0) == -0.5 - 0.75

    def test_paddles_shared_adagrad_has_one_sum_per_row_and_adds_the_mean_of_squares(self):
        here = table({"rule": "adagrad_shared", "learning_rate": 0.5, "initial_g2sum": 3.0}, dim=2)
        here.push(keys(5), rows([3.0, 3.0]))
        here.push(keys(5), rows([4.0, 0.0]))
        # G = 9 after the first; the second one's scale is sqrt(3 / 12)
        assert here.pull(keys(5)).tolist() == [[1 - 1.5 - 1.0, 1 - 1.5]]
        assert saved(here)[5][1].tolist() == [-1.5, -0.5, 9.0 + 8.0]

    def test_the_first_step_of_adam_is_as_long_as_the_learning_rate(self):
        rule = {"rule": "adam", "learning_rate": 0.25, "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-12}
        assert pushed(rule, 8.0) == 0.75
        assert pushed({**rule, "rule": "adam_row"}, 8.0) == 0.75

    def test_adam_counts_pushes_of_the_table_and_adam_row_those_of_the_row(self):
        rule = {"rule": "adam", "learning_rate": 0.25, "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-12}
        by_table, by_row = table(rule), table({**rule, "rule": "adam_row"})
        for here in (by_table, by_row):
            here.push(keys(1), rows([8.0]))
            here.push(keys(5), rows([8.0]))
        assert by_row.pull(keys(5))[0, 0] == 0.75
        # m = 4, v = 32, corrected by 1 - 1/4 each
        expected = 1 - 0.25 * (4 / 0.75) / np.sqrt(32 / 0.75)
        assert by_table.pull(keys(5))[0, 0] == pytest.approx(expected, rel=1e-6)

    def test_an_empty_push_is_a_step_of_adam(self):
        rule = {"rule": "adam", "learning_rate": 0.25, "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-12}
        one, other = table(rule), table(rule)
        one.push(keys(), np.zeros((0, 1), np.float32))
        one.push(keys(5), rows([8.0]))
        other.push(keys(1), rows([1.0]))
        other.push(keys(5), rows([8.0]))
        assert one.pull(keys(5)) == other.pull(keys(5))

    def test_ftrl_is_zero_until_its_linear_term_exceeds_l1(self):
        rule = {"rule": "ftrl", "learning_rate": 1.0, "beta": 1.0, "l1": 2.0, "l2": 0.0}
        zero = {"init": {"kind": "constant", "value": 0.0}}
        assert pushed(rule, 1.5, **zero) == 0.0
        # z = 3, n = 9: w = -(3 - 2) / (1 + 3)
        assert pushed(rule, 3.0, **zero) == -0.25

    def test_the_learning_rate_can_be_changed(self):
        here = table()
        here.learning_rate = 0.25
        here.push(keys(5), rows([1.0]))
        assert here.pull(keys(5)) == 0.75
        assert here.learning_rate == 0.25
        for rate in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="learning rate"):
                here.learning_rate = rate

    def test_state_and_rows_carry_adam_over_to_another_table(self):
        rule = {"rule": "adam", "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
        one, other = table(rule, dim=3), table(rule, dim=3)
        one.learning_rate = 0.03
        for n in range(5):
            one.push(keys(n, 9), np.full((2, 3), 0.1 * n, np.float32))
        other.restore(one.state())
        for key, (flags, row) in saved(one).items():
            other.load(keys(key), np.array([flags], np.uint32), row[None])
        for here in (one, other):
            here.push(keys(9, 3), np.full((2, 3), 0.7, np.float32))
        assert one.pull(keys(0, 3, 9)).tobytes() == other.pull(keys(0, 3, 9)).tobytes()

    @pytest.mark.parametrize(
        "rule", ["momentum", "adagrad", "adagrad_scaled", "adagrad_shared", "adam", "adam_row", "ftrl"]
    )
    @pytest.mark.parametrize("dim", [1, 7, 8, 16, 19, 32, 64, 100])
    def test_every_variant_of_the_kernels_gives_the_same_bits(self, rule, dim, restore_variant):
        numbers = {
            "momentum": {"momentum": 0.9},
            "adagrad": {"epsilon": 1e-8},
            "adagrad_scaled": {"initial_g2sum": 3.0},
            "adagrad_shared": {"initial_g2sum": 3.0},
            "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
            "adam_row": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
            "ftrl": {"l1": 0.01, "l2": 0.1},
        }
        rng = np.random.default_rng(dim)
        wanted = rng.integers(0, 2**63, 40, dtype=np.uint64)
        gradients = rng.standard_normal((3, 40, dim)).astype(np.float32)
        results = []
        for variant in VARIANTS:
            try:
                umiak_native.kernel_variant(variant)
            except ValueError:
                continue
            init = {"kind": "uniform", "low": -1.0, "high": 1.0}
            clip = {"norm": 5.0, "weight": 2.0}
            here = table({"rule": rule, "learning_rate": 0.1, **numbers[rule]}, dim=dim, init=init, clip=clip)
            for gradient in gradients:
                here.push(wanted, gradient)
            results.append(here.pull(wanted).tobytes())
        assert len(set(results)) == 1


@pytest.fixture
def restore_variant():
    before = umiak_native.kernel_variant()
    yield
    umiak_native.kernel_variant(before)

    @pytest.mark.parametrize(
        ("rule", "kept"),
        [
            ({"rule": "momentum", "momentum": 0.5}, 1),
            ({"rule": "adam", "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-8}, 2),
            ({"rule": "adam_row", "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-8}, 4),
        ],
    )
    def test_what_fades_ends_at_zero(self, rule, kept):
        here = table({**rule, "learning_rate": 0.1})
        here.push(keys(5), rows([1.0]))
        for _ in range(160):
            here.push(keys(5), rows([0.0]))
        assert saved(here)[5][1][1:].tolist() == [0.0] * kept


class TestClip:
    def test_value_keeps_each_element_of_the_gradient_within_bounds(self):
        assert pushed(SGD, 8.0, clip={"value": 1.0}) == 0.5
        assert pushed(SGD, -8.0, clip={"value": 1.0}) == 1.5

    def test_norm_scales_the_whole_gradient(self):
        here = table(dim=2, clip={"norm": 1.0})
        here.push(keys(5), rows([3.0, 4.0]))
        assert here.pull(keys(5)).tolist() == rows([1 - 0.5 * np.float32(0.6), 1 - 0.5 * np.float32(0.8)]).tolist()

    def test_a_short_gradient_is_left_alone(self):
        assert pushed(SGD, 0.75, clip={"norm": 1.0, "value": 1.0}) == 1 - 0.375

    def test_weight_keeps_each_weight_within_bounds(self):
        assert pushed(SGD, 8.0, clip={"weight": 2.0}) == -2.0


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

    def test_ten_million_rows_in_little_more_than_their_size(self):
        here = table({"rule": "adagrad", "learning_rate": 0.1, "epsilon": 1e-8}, dim=4, shards=256)
        out = np.zeros((500_000, 4), np.float32)
        for start in range(0, 10_000_000, 500_000):
            here.pull(np.arange(start, start + 500_000, dtype=np.uint64), out=out)
            used, ideal = sum(here.memory().values()), len(here) * (8 + 2 * 4 * 4)
            # The index takes 20 to 43 bytes per row, and each shard has room for some rows more.
            assert used <= ideal + 43 * len(here) + 256 * 256 * 40 + 2_000_000
        assert len(here) == 10_000_000
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

    def test_slots_of_forgotten_rows_are_used_again_and_start_anew(self):
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
