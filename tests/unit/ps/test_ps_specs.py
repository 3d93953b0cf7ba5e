"""Specs and settings: every value becomes JSON that the native core takes, with Paddle's names and defaults."""

from __future__ import annotations

import copy
import json
import math

import pytest
import umiak_native

from umiak.ps import specs
from umiak.ps.errors import BadRequest
from umiak.ps.layers.arguments import chosen_rule

SPARSE = [
    specs.SparseTable(dim=4),
    *[specs.SparseTable(dim=4, rule=specs.rule(name)) for name in specs.RULES],
    *[specs.SparseTable(dim=4, rule=specs.paddle_rule(name)) for name in specs.PADDLE_RULES],
    *[specs.SparseTable(dim=4, init=init) for init in (specs.Constant(), specs.Uniform(), specs.Normal())],
    *[specs.SparseTable(dim=4, entry=entry) for entry in (specs.Always(), specs.Count(), specs.Probability())],
    specs.SparseTable(dim=4, clip=specs.Clip(value=1.0, norm=2.0, weight=3.0)),
    specs.paddle_ctr_table(),
]


@pytest.mark.parametrize("spec", SPARSE, ids=repr)
def test_every_sparse_spec_is_taken(spec: specs.SparseTable) -> None:
    assert json.loads(specs.to_json(spec)) == specs.plain(spec)
    umiak_native.Table(specs.to_json(spec))


def test_a_dense_spec_is_taken() -> None:
    arrays = (specs.Array(name="w", shape=(3, 4)), specs.Array(name="b", shape=()))
    assert [array.size for array in arrays] == [12, 1]
    umiak_native.DenseTable(specs.to_json(specs.DenseTable(arrays=arrays)))


@pytest.mark.parametrize(
    "spec",
    [
        specs.paddle_ctr_table(4, seed=9),
        specs.SparseTable(
            dim=3, rule=specs.Momentum(0.1, nesterov=True), entry=specs.Count(count=3), decay=specs.Decay(l2=0.5)
        ),
        specs.DenseTable(arrays=(specs.Array("w", (3, 2)), specs.Array("b", (2,))), clip=specs.Clip(norm=2.0)),
    ],
)
def test_a_spec_comes_back_from_plain_data(spec: specs.TableSpec) -> None:
    assert specs.from_plain(json.loads(specs.to_json(spec))) == spec


def test_rows_that_are_pulled_carry_show_and_click_with_an_accessor() -> None:
    assert specs.pull_width(specs.SparseTable(dim=4)) == 4
    assert specs.pull_width(specs.paddle_ctr_table(8)) == 11


def test_paddles_names_mean_paddles_rules() -> None:
    assert specs.paddle_rule("naive") == specs.Sgd(learning_rate=0.05)
    assert specs.paddle_rule("adagrad") == specs.AdagradShared(learning_rate=0.05, initial_g2sum=3.0)
    assert specs.paddle_rule("std-adagrad", initial_g2sum=1.0) == specs.AdagradScaled(initial_g2sum=1.0)
    assert isinstance(specs.paddle_rule("adam"), specs.AdamRow)
    accessor = specs.paddle_ctr_table().accessor
    assert accessor is not None
    assert (accessor.embedx_threshold, accessor.delete_after_unseen_days, accessor.show_click_decay_rate) == (
        10,
        30,
        0.98,
    )


def test_what_a_new_row_holds_may_be_written_without_names() -> None:
    from umiak import ps

    assert ps.Uniform(-0.1, 0.1) == ps.Uniform(low=-0.1, high=0.1)
    assert ps.Normal(0.5) == ps.Normal(mean=0.5)
    assert ps.Constant(2.0) == ps.Constant(value=2.0)
    assert ps.Uniform(-0.1, high=0.2) == ps.Uniform(low=-0.1, high=0.2)


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        ((1, 2, 3), {}, "Uniform takes 2 values, not 3: low, high"),
        ((1,), {"low": 2}, "Uniform is given low twice"),
        ((), {"lo": 2}, "Uniform has no field lo"),
    ],
)
def test_what_a_new_row_holds_written_wrong(given: tuple, named: dict, said: str) -> None:
    from umiak import ps

    with pytest.raises(TypeError, match=said):
        ps.Uniform(*given, **named)


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e39])
def test_a_number_that_is_none_is_named(number: float) -> None:
    with pytest.raises(BadRequest, match=r"Adam: learning_rate is not a number that can be used.*UM-PS-008"):
        specs.to_json(specs.SparseTable(dim=2, rule=specs.Adam(learning_rate=number)))
    with pytest.raises(BadRequest, match=r"Clip: norm"):
        specs.to_json(specs.DenseTable(arrays=(), clip=specs.Clip(norm=number)))


def test_rules_are_found_by_the_names_that_people_write() -> None:
    assert chosen_rule("Adam", None) == chosen_rule("adam", None) == specs.Adam()
    assert chosen_rule("AdagradScaled", 0.5) == specs.AdagradScaled(learning_rate=0.5)
    with pytest.raises(BadRequest, match="no such rule: adams"):
        chosen_rule("adams", None)


def test_a_rules_learning_rate_may_be_written_without_its_name() -> None:
    assert specs.Sgd(0.1) == specs.Sgd(learning_rate=0.1)
    assert copy.deepcopy(specs.Adam(0.1, beta1=0.5)) == specs.Adam(learning_rate=0.1, beta1=0.5)
