"""The rules of the native tables, by numbers that were worked out by hand, and the limits of gradients and weights."""

from __future__ import annotations

import numpy as np
import pytest
import umiak_native

from tests.support.table_helpers import SGD, keys, pushed, rows, saved, table

VARIANTS = ["baseline", "avx2", "avx512"]


@pytest.fixture
def restore_variant():
    before = umiak_native.kernel_variant()
    yield
    umiak_native.kernel_variant(before)


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

    def test_rmsprop_divides_by_the_root_of_the_mean_of_squares(self):
        rule = {"rule": "rmsprop", "learning_rate": 0.5, "rho": 0.75, "epsilon": 3.0}
        # s = 0.25 * 4; w = 1 - 0.5 * 2 / sqrt(1 + 3)
        assert pushed(rule, 2.0) == 0.5
        here = table(rule)
        here.push(keys(5), rows([2.0]))
        assert saved(here)[5][1].tolist() == [0.5, 1.0]

    def test_rmsprop_with_momentum_keeps_a_part_of_its_speed(self):
        rule = {"rule": "rmsprop", "learning_rate": 0.5, "rho": 0.0, "epsilon": 12.0, "momentum": 0.5}
        # s = 4: v = 0.5 * 2 / 4; then v = 0.5 * v + 0.25
        assert pushed(rule, 2.0, 2.0) == 1 - 0.25 - 0.375

    def test_centered_rmsprop_takes_the_mean_away(self):
        rule = {"rule": "rmsprop", "learning_rate": 0.5, "rho": 0.5, "epsilon": 3.0, "centered": True}
        # s = 0.5 * 4, m = 0.5 * 2: w = 1 - 0.5 * 2 / sqrt(2 - 1 + 3)
        assert pushed(rule, 2.0) == 0.5
        here = table({**rule, "momentum": 0.5})
        here.push(keys(5), rows([2.0]))
        assert saved(here)[5][1].tolist() == [0.5, 2.0, 0.5, 1.0]

    def test_centered_rmsprop_never_takes_the_root_of_less_than_nothing(self):
        rule = {"rule": "rmsprop", "learning_rate": 0.1, "rho": 0.9, "epsilon": 1e-12, "centered": True}
        assert np.isfinite(pushed(rule, *[1234.567] * 200))

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"rho": 1.0}, "rho must be at least 0 and below 1"),
            ({"epsilon": 0.0}, "epsilon"),
            ({"momentum": 2}, "momentum"),
        ],
    )
    def test_rmsprop_with_numbers_that_make_no_sense(self, wrong, said):
        rule = {"rule": "rmsprop", "learning_rate": 0.1, "rho": 0.9, "epsilon": 1e-6}
        with pytest.raises(ValueError, match=said):
            table({**rule, **wrong})

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
        "rule", ["momentum", "adagrad", "adagrad_scaled", "adagrad_shared", "adam", "adam_row", "ftrl", "rmsprop"]
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
            "rmsprop": {"rho": 0.9, "epsilon": 1e-6, "momentum": 0.5, "centered": True},
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
            decay = {} if rule in ("ftrl", "sum") else {"l1": 0.01, "l2": 0.02, "decoupled": 0.03}
            optimizer = {"rule": rule, "learning_rate": 0.1, **numbers[rule]}
            here = table(optimizer, dim=dim, init=init, clip=clip, decay=decay)
            for gradient in gradients:
                here.push(wanted, gradient)
            results.append(here.pull(wanted).tobytes())
        assert len(set(results)) == 1

    @pytest.mark.parametrize(
        ("rule", "kept"),
        [
            ({"rule": "momentum", "momentum": 0.5}, 1),
            ({"rule": "adam", "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-8}, 2),
            ({"rule": "adam_row", "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-8}, 4),
            ({"rule": "rmsprop", "rho": 0.5, "epsilon": 1e-6, "momentum": 0.5, "centered": True}, 3),
        ],
    )
    def test_what_fades_ends_at_zero(self, rule, kept):
        here = table({**rule, "learning_rate": 0.1})
        here.push(keys(5), rows([1.0]))
        # Halved so often it is below the smallest normal number, 2 ** -126, and above what rounds to nothing, 2 ** -150.
        for _ in range(130):
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


class TestDecay:
    """SGD with a learning rate of 0.5, from a weight of 1."""

    def test_l2_adds_a_part_of_the_weight_to_the_gradient(self):
        assert pushed(SGD, 1.0, decay={"l2": 0.5}) == 1 - 0.5 * 1.5

    def test_l1_adds_its_sign(self):
        assert pushed(SGD, 1.0, decay={"l1": 0.25}) == 1 - 0.5 * 1.25

    def test_decoupled_takes_from_the_weight(self):
        assert pushed(SGD, 1.0, decay={"decoupled": 0.5}) == 0.75 - 0.5

    def test_it_comes_after_clipping(self):
        assert pushed(SGD, 8.0, clip={"value": 1.0}, decay={"l2": 2.0}) == 1 - 0.5 * 3.0

    def test_where_it_has_no_meaning_it_is_refused(self):
        for optimizer in ({"rule": "sum"}, {"rule": "ftrl", "learning_rate": 0.1, "l1": 0.0, "l2": 0.0}):
            with pytest.raises(ValueError, match="ftrl and sum have none"):
                table(optimizer, decay={"l2": 0.1})
        with pytest.raises(ValueError, match="must be finite and not negative"):
            table(SGD, decay={"l2": -0.1})
